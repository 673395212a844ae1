"""What `noisegate start` asks and how an answer is read; and who asks it."""

import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer

from noisegate.app.cli.console import ERR, say
from noisegate.app.cli.options import LedgerOption

SOURCES = (
    "schema",
    "public",
    "dictionary",
    "discover",
)  # what the description of the columns may come from
ASKED = ("data", "records", "epsilon", "dataset", "out", "test", "pages")
"""All but what describes the columns and the cap, in their order."""


@dataclass(frozen=True, kw_only=True)
class StartOptions:
    """What is asked, as options; what is not given is asked for."""

    answers: Annotated[
        Path | None,
        typer.Option(
            help="File of answers, TOML, with the names of these options as keys."
        ),
    ] = None
    data: Annotated[
        str | None, typer.Option(help="Private records: CSV or Parquet.")
    ] = None
    schema: Annotated[str | None, typer.Option(help="Existing schema file.")] = None
    public: Annotated[
        str | None, typer.Option(help="Public records to draft a schema from.")
    ] = None
    dictionary: Annotated[
        str | None, typer.Option(help="Data dictionary to draft a schema from.")
    ] = None
    discover: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=KIND,...",
            help="Kinds of the columns; their bounds and levels are estimated.",
        ),
    ] = None
    bounds: Annotated[
        float | None,
        typer.Option(help="With --discover: part of ε to spend on estimating bounds."),
    ] = None
    label: Annotated[
        str | None, typer.Option(help="Column to be predicted from the others.")
    ] = None
    records: Annotated[
        int | None,
        typer.Option(help="Approximate number of private records, if publicly known."),
    ] = None
    epsilon: Annotated[
        float | None, typer.Option(help="ε of the guarantee; 1 is a common choice.")
    ] = None
    dataset: Annotated[
        str | None, typer.Option(help="Name of the data set in the ledger.")
    ] = None
    cap: Annotated[
        float | None,
        typer.Option(help="Cap on total ε over all runs on it; permanent."),
    ] = None
    ledger: LedgerOption = None
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="Output folder for the model.")
    ] = None
    pages: Annotated[str | None, typer.Option(help="Output folder for the pages.")] = (
        None
    )
    test: Annotated[
        str | None,
        typer.Option(
            help="Held-out real records for the private page, a share to set aside, such as 0.2, or 'none'."
        ),
    ] = None
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether to go on.")] = (
        False
    )
    browser: Annotated[
        bool,
        typer.Option("--browser", help="Ask and show all on a page in your browser."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question with what is to be known of it, and how its answer is read.

    Where there are `choices`, the answer is one of them; `files` are the endings of files that it may name.
    """

    key: str
    asks: str
    says: str = ""
    read: Callable[[str], Any] = str
    default: str | None = None
    choices: Sequence[str] = ()
    files: Sequence[str] = ()

    def value(self, text: str) -> Any:
        """Returns what an answer means; ValueError says why it cannot be taken."""
        if not self.choices:
            return self.read(text)
        meant = (
            [text]
            if text in self.choices
            else [name for name in self.choices if text and name.startswith(text)]
        )
        if len(meant) != 1:
            raise ValueError(f"{text!r} is none of {', '.join(self.choices)}")
        return meant[0]


class Asker:
    """Asks in the terminal, where there is one, and tells what is done; `page.Page` does so on a page."""

    console = ERR

    def __init__(self) -> None:
        self.asks = sys.stdin is not None and sys.stdin.isatty()

    def say(self, text: str) -> None:
        """Tells something that belongs to what follows."""
        say(f"\n{text}")

    def prompt(self, question: Question, complaint: str = "") -> str:
        """Returns an answer as it was given; a `complaint` says why the one before could not be taken."""
        if complaint:
            say(complaint)
        elif question.says:
            self.say(question.says)
        return str(typer.prompt(question.asks, default=question.default, err=True))

    def confirm(self, asks: str, file: str = "") -> bool:
        """Returns whether to go on; `file` is what is to be read first."""
        where = f"Read {file} now, in another window. " if file else ""
        return typer.confirm(f"{where}{asks}?", err=True)

    def command(self, text: str) -> None:
        """Shows a command that is run now."""
        self.line(f"\n$ {text}")

    @staticmethod
    def line(text: str) -> None:
        """Prints a line that is not broken, to be copied."""
        ERR.print(text, soft_wrap=True, markup=False)


def file(text: str) -> str:
    """Returns the path of something that is there."""
    if not Path(text).exists():
        raise ValueError(f"{text!r} does not exist")
    return text


def synthetic(model: str) -> str:
    """Returns what the synthetic records of a model are written to."""
    return f"{model}-synthetic.csv"


def _new(text: str) -> str:
    made = next(
        (
            path
            for path in (text, f"{text}.partial", synthetic(text))
            if Path(path).exists()
        ),
        None,
    )
    if made is not None:
        raise ValueError(f"{made!r} already exists")
    return text


def _above_zero(kind: type[int] | type[float], text: str) -> Any:
    try:
        number = kind(text)
    except ValueError:
        number = kind(0)
    if not 0 < number < float("inf"):
        raise ValueError(
            f"{text!r} is not a {'whole ' if kind is int else ''}number above 0"
        )
    return number


def within(low: float, high: float, text: str) -> float:
    """Returns a number from `low` up to `high`."""
    number = float(_above_zero(float, text))
    if not low <= number <= high:
        raise ValueError(f"{text!r} is not from {low:g} to {high:g}")
    return number


def _held_out(text: str) -> str | float | None:
    if text.lower() == "none":
        return None
    return (
        within(0.001, 0.9, text) if text.replace(".", "", 1).isdecimal() else file(text)
    )


_READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("schema", "public", "dictionary", "data"), file),
    "records": partial(_above_zero, int),
    "epsilon": partial(within, 0.01, 1000),
    "out": _new,
    "test": _held_out,
}


def question(key: str, **known: Any) -> Question:
    """Returns a question of the interview, with what is known of it by now."""
    told = tomllib.loads(
        resources.files(__package__).joinpath("interview.toml").read_text("utf-8")
    )[key]
    return Question(key=key, **{"read": _READERS.get(key, str), **told, **known})
