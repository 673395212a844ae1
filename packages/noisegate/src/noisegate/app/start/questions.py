"""What `noisegate start` asks, how answers are read, and who asks in a terminal.

An answer is text. It comes from an option, from a line of `--answers FILE`, from the
terminal or from the page, and is parsed in one way: by `GuideQuestion.parse`.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from noisegate.app.cli.console import ERR, say
from noisegate.app.cli.options import LedgerOption
from noisegate.app.heading import HEADING_NAMES, check_heading
from noisegate.errors import OptionError

SOURCES = ("schema", "public", "dictionary", "discover")
"""Keys of the questions of which one is answered: where the schema comes from."""

QUESTION_KEYS = ("data", "records", "epsilon", "dataset", "out", "test", "pages")
"""Keys of the other questions, in their order; the cap is asked after the data set."""


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
        str | None, typer.Option(help="Private records: CSV, Parquet or another table.")
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
    unit_column: Annotated[
        str | None,
        typer.Option(
            help="Column that names the person, where one can have several records; or "
            "'none'."
        ),
    ] = None
    contributions: Annotated[
        int | None,
        typer.Option(help="With --unit-column: records of one person used at most."),
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
    title: Annotated[
        str | None,
        typer.Option(help="Title of the model, for its pages; or ''."),
    ] = None
    owner: Annotated[
        str | None,
        typer.Option(help="Who is responsible for the model, for its pages; or ''."),
    ] = None
    purpose: Annotated[
        str | None,
        typer.Option(help="What the model is for, for its pages; or ''."),
    ] = None
    test: Annotated[
        str | None,
        typer.Option(
            help="Held-out real records for the private page, a share to hold out, such "
            "as 0.2, or 'none'."
        ),
    ] = None
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = (
        False
    )
    browser: Annotated[
        bool,
        typer.Option("--browser", help="Ask and show all on a page in your browser."),
    ] = False


@dataclass(frozen=True, kw_only=True)
class GuideQuestion:
    """A question, and how its answer is read.

    Attributes:
        key: Name of the option that answers it; "" for none.
        text: The question.
        help: What is to be known of it.
        parse: Parses an answer; raises ValueError with what is wrong with it.
        default: The answer if none is typed; None if one must be.
        choices: All possible answers; empty for any.
        file_endings: Endings of files that may be the answer.

    Examples:
        >>> from noisegate.app.start.questions import GuideQuestion
        >>> kind = GuideQuestion(key="", text="age", choices=("integer", "categorical"))
        >>> kind.parse_answer("i")
        'integer'
    """

    key: str
    text: str
    help: str = ""
    parse: Callable[[str], Any] = str
    default: str | None = None
    choices: Sequence[str] = ()
    file_endings: Sequence[str] = ()

    def parse_answer(self, text: str) -> Any:
        """Parses an answer; of a choice, its first letters are enough.

        Raises:
            ValueError: that says why the answer cannot be taken.
        """
        if not self.choices:
            return self.parse(text)
        if text in self.choices:
            return text
        matches = [
            choice for choice in self.choices if text and choice.startswith(text)
        ]
        if len(matches) != 1:
            raise ValueError(f"{text!r} is none of {', '.join(self.choices)}")
        return matches[0]


class Asker(Protocol):
    """Asks questions, and shows what is done.

    Attributes:
        can_ask: Whether somebody can answer.
    """

    can_ask: bool

    def say(self, text: str) -> None:
        """Shows a paragraph, apart from what stands above it."""

    def prompt(self, question: GuideQuestion, complaint: str = "") -> str:
        """Asks a question once.

        Args:
            question: The question.
            complaint: Why the answer before could not be taken, or "".

        Returns:
            The answer as it was typed, or the default.
        """

    def confirm(self, text: str, file: str = "") -> bool:
        """Asks whether to continue.

        Args:
            text: The question, without its mark.
            file: A file that is to be read first, or "".
        """

    def show_command(self, command: str) -> None:
        """Shows a command that is run now."""


class TerminalAsker:
    """Asks in the terminal, if there is one; an `Asker`."""

    def __init__(self) -> None:
        self.can_ask = sys.stdin is not None and sys.stdin.isatty()

    def say(self, text: str) -> None:
        """Prints a paragraph, below an empty line."""
        say(f"\n{text}")

    def prompt(self, question: GuideQuestion, complaint: str = "") -> str:
        """Asks a question once, below its help or the complaint."""
        if complaint:
            say(complaint)
        elif question.help:
            self.say(question.help)
        return str(typer.prompt(question.text, default=question.default, err=True))

    def confirm(self, text: str, file: str = "") -> bool:
        """Asks whether to continue, with the advice to read the file first if any."""
        advice = f"Read {file} now, in another window. " if file else ""
        return typer.confirm(f"{advice}{text}?", err=True)

    def show_command(self, command: str) -> None:
        """Prints a command as in a shell."""
        print_line(f"\n$ {command}")


def print_line(text: str) -> None:
    """Prints a line that is not wrapped, so that it can be copied."""
    ERR.print(text, soft_wrap=True, markup=False)


@cache
def _interview() -> dict[str, dict[str, Any]]:
    """Returns the questions of `interview.toml` by their keys."""
    text = resources.files(__package__).joinpath("interview.toml").read_text("utf-8")
    return tomllib.loads(text)


def load_question(
    key: str,
    *,
    text: str | None = None,
    parse: Callable[[str], Any] | None = None,
    default: str | None = None,
) -> GuideQuestion:
    """Loads a question of `interview.toml`, with what depends on earlier answers.

    Args:
        key: Its key.
        text: The question; None for that of the interview.
        parse: Parses an answer; None for the usual parser of this key.
        default: The answer if none is typed; None for that of the interview.

    Examples:
        >>> from noisegate.app.start.questions import load_question
        >>> epsilon = load_question("epsilon", default="0.5")
        >>> epsilon.text, epsilon.default, epsilon.parse_answer("2")
        ('Epsilon', '0.5', 2.0)
    """
    entry = _interview()[key]
    return GuideQuestion(
        key=key,
        text=text or entry["text"],
        help=entry.get("help", ""),
        parse=parse or _PARSERS.get(key, str),
        default=entry.get("default") if default is None else default,
        choices=entry.get("choices", ()),
        file_endings=entry.get("file_endings", ()),
    )


def synthetic_path(model: str) -> str:
    """Returns the file of the synthetic records of a model folder."""
    return f"{model}-synthetic.csv"


def number_within(lowest: float, highest: float, text: str) -> float:
    """Parses a number between two bounds, both included.

    Raises:
        ValueError: for anything else.
    """
    number = 0.0
    with suppress(ValueError):
        number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(f"{text!r} is not a number above 0")
    if not lowest <= number <= highest:
        raise ValueError(f"{text!r} is not from {lowest:g} to {highest:g}")
    return number


def _parse_count(text: str) -> int:
    """Parses an integer above 0."""
    with suppress(ValueError):
        number = int(text)
        if number > 0:
            return number
    raise ValueError(f"{text!r} is not a whole number above 0")


def _parse_unit_column(text: str) -> str | None:
    """Parses the column that names the person, or None for "none"."""
    return None if text.strip().lower() in ("", "none", "no") else text


def _parse_existing_path(text: str) -> str:
    """Parses the path of a file or folder that is there, or the address of a table."""
    from noisegate.sources.stores import in_database

    if not in_database(Path(text)) and not Path(text).exists():
        raise ValueError(f"{text!r} does not exist")
    return text


def _parse_new_model(text: str) -> str:
    """Parses the path of a new model folder, beside which nothing is in the way."""
    for path in (text, f"{text}.partial", synthetic_path(text)):
        if Path(path).exists():
            raise ValueError(f"{path!r} already exists")
    return text


def _parse_test(text: str) -> str | float | None:
    """Parses where test records come from.

    Returns:
        The path of a file, the fraction of records to held out, or None for "none".
    """
    if text.lower() == "none":
        return None
    is_number = text.replace(".", "", 1).isdecimal()
    if is_number:
        return number_within(0.001, 0.9, text)
    return _parse_existing_path(text)


def _parse_heading(name: str, text: str) -> str | None:
    """Parses a text for the head of the pages, or None for an empty one."""
    if not text.strip():
        return None
    try:
        return check_heading({name: text.strip()})[name]
    except OptionError as error:
        raise ValueError(str(error).rstrip(".")) from None


# Other answers are taken as they are.
_PARSERS: dict[str, Callable[[str], Any]] = {
    **{name: partial(_parse_heading, name) for name in HEADING_NAMES},
    "unit_column": _parse_unit_column,
    "contributions": _parse_count,
    "schema": _parse_existing_path,
    "public": _parse_existing_path,
    "dictionary": _parse_existing_path,
    "data": _parse_existing_path,
    "records": _parse_count,
    "epsilon": partial(number_within, 0.01, 1000),
    "out": _parse_new_model,
    "test": _parse_test,
}
