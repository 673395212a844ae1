"""What `noisegate start` asks, and how an answer is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from noisegate.cli.options import LedgerOption

SOURCES = ("schema", "public", "dictionary", "discover")  # what the description of the columns may come from


@dataclass(frozen=True, kw_only=True)
class StartOptions:
    """What is asked, as options; what is not given is asked for."""

    answers: Annotated[
        Path | None, typer.Option(help="File of answers, TOML, with the names of these options as keys.")
    ] = None
    data: Annotated[str | None, typer.Option(help="Private records: CSV or Parquet.")] = None
    schema: Annotated[str | None, typer.Option(help="Existing schema file.")] = None
    public: Annotated[str | None, typer.Option(help="Public records to draft a schema from.")] = None
    dictionary: Annotated[str | None, typer.Option(help="Data dictionary to draft a schema from.")] = None
    discover: Annotated[
        str | None,
        typer.Option(metavar="NAME=KIND,...", help="Kinds of the columns; their bounds and levels are estimated."),
    ] = None
    bounds: Annotated[float | None, typer.Option(help="With --discover: part of ε to spend on estimating bounds.")] = (
        None
    )
    label: Annotated[str | None, typer.Option(help="Column to be predicted from the others.")] = None
    records: Annotated[int | None, typer.Option(help="Approximate number of private records, if publicly known.")] = (
        None
    )
    epsilon: Annotated[float | None, typer.Option(help="ε of the guarantee; 1 is a common choice.")] = None
    dataset: Annotated[str | None, typer.Option(help="Name of the data set in the ledger.")] = None
    cap: Annotated[float | None, typer.Option(help="Cap on total ε over all runs on it; permanent.")] = None
    ledger: LedgerOption = None
    out: Annotated[str | None, typer.Option("--out", "-o", help="Output folder for the model.")] = None
    pages: Annotated[str | None, typer.Option(help="Output folder for the pages.")] = None
    test: Annotated[
        str | None,
        typer.Option(help="Held-out real records for the private page, a share to set aside, such as 0.2, or 'none'."),
    ] = None
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether to go on.")] = False


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question with what is to be known of it, and how its answer is read."""

    key: str
    asks: str
    says: str
    read: Callable[[str], Any]
    default: str | None = None


def file(text: str) -> str:
    """Returns the path of something that is there."""
    if not Path(text).exists():
        raise ValueError(f"{text!r} does not exist")
    return text


def synthetic(model: str) -> str:
    """Returns what the synthetic records of a model are written to."""
    return f"{model}-synthetic.csv"


def _new(text: str) -> str:
    made = next((path for path in (text, f"{text}.partial", synthetic(text)) if Path(path).exists()), None)
    if made is not None:
        raise ValueError(f"{made!r} already exists")
    return text


def _above_zero(kind: type[int] | type[float], text: str) -> Any:
    try:
        number = kind(text)
    except ValueError:
        number = kind(0)
    if not 0 < number < float("inf"):
        raise ValueError(f"{text!r} is not a {'whole ' if kind is int else ''}number above 0")
    return number


def one_of(names: Sequence[str], text: str) -> str:
    """Returns which of some names a text is, or is the beginning of, alone."""
    meant = [text] if text in names else [name for name in names if text and name.startswith(text)]
    if len(meant) != 1:
        raise ValueError(f"{text!r} is none of {', '.join(names)}")
    return meant[0]


def within(low: float, high: float, text: str) -> float:
    """Returns a number from `low` up to `high`."""
    number = float(_above_zero(float, text))
    if not low <= number <= high:
        raise ValueError(f"{text!r} is not from {low:g} to {high:g}")
    return number


def _held_out(text: str) -> str | float | None:
    if text.lower() == "none":
        return None
    return within(0.001, 0.9, text) if text.replace(".", "", 1).isdecimal() else file(text)


QUESTIONS = (
    Question(key="data", asks="Private records", says="A CSV or Parquet file. Only the fit reads it.", read=file),
    Question(
        key="records",
        asks="Approximate number of records",
        says="A rounded number that may be public. Used to forecast accuracy.",
        read=partial(_above_zero, int),
    ),
    Question(
        key="epsilon",
        asks="Epsilon",
        says="How much the result may depend on one record: 1 is common, 0.1 is strict, 10 is loose.",
        read=partial(within, 0.01, 1000),
        default="1",
    ),
    Question(
        key="dataset",
        asks="Name of the data set in the ledger",
        says="The ledger adds up the cost of all runs on the same records, and refuses runs beyond the cap.",
        read=str,
        default="data",
    ),
    Question(key="out", asks="Model folder", says="It may be shared.", read=_new, default="model"),
    Question(
        key="test",
        asks="Held-out real records, a share to set aside now, or none",
        says="Used to compare the copy with real records, on a second, private page: a file, or a number such as 0.2.",
        read=_held_out,
        default="0.2",
    ),
    Question(key="pages", asks="Folder of the pages", says="One page may be published.", read=str, default="pages"),
)
"""All but those of the columns and of the cap, in their order."""


def cap_question(epsilon: float) -> Question:
    """Returns the question for the cap of a data set that is not in the ledger; a run is to cost `epsilon`."""
    return Question(
        key="cap",
        asks="Cap on epsilon over all runs",
        says="The data set is not in the ledger yet. Its cap never changes.",
        read=partial(within, epsilon, 1000),
        default=f"{max(4, epsilon):g}",
    )


def part_question(epsilon: float) -> Question:
    """Returns the question for the part of `epsilon` that estimates bounds and levels."""
    return Question(
        key="bounds",
        asks=f"Epsilon for bounds and levels, of the {epsilon:g}",
        says="A smaller part gives coarser bounds. The fit uses the rest.",
        read=partial(within, 0.01, epsilon - 0.01),
        default=f"{epsilon / 4:g}",
    )
