"""`noisegate start`: the whole way for a table, question by question; every step is a command that it prints."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from noisegate.cli.console import say
from noisegate.cli.options import LedgerOption, one_by_one
from noisegate.errors import OptionError, SchemaError

_SCHEMA, _SOURCES = "schema.toml", ("schema", "public", "dictionary")
_PLAIN = (
    "noisegate schema init PUBLIC.csv -o schema.toml (or --dictionary FILE); noisegate plan --schema schema.toml "
    "--epsilon 1 --records N; noisegate ledger register NAME --epsilon 4; noisegate fit DATA --schema schema.toml "
    "--epsilon 1 --dataset NAME --out model; noisegate sample model -n N -o synthetic.csv; noisegate report model -o "
    "pages; noisegate verify model"
)


@dataclass(frozen=True, kw_only=True)
class StartOptions:
    """What is asked, as options; what is not given is asked for."""

    answers: Annotated[
        Path | None, typer.Option(help="File of answers, TOML, with the names of these options as keys.")
    ] = None
    data: Annotated[str | None, typer.Option(help="Private records: CSV or Parquet.")] = None
    schema: Annotated[str | None, typer.Option(help="Schema file that is there already.")] = None
    public: Annotated[str | None, typer.Option(help="Public records to draft a schema from.")] = None
    dictionary: Annotated[str | None, typer.Option(help="Data dictionary to draft a schema from.")] = None
    label: Annotated[str | None, typer.Option(help="For a draft: column to be predicted from the others.")] = None
    records: Annotated[int | None, typer.Option(help="About how many private records there are, publicly.")] = None
    epsilon: Annotated[float | None, typer.Option(help="ε of the guarantee; 1 is a common choice.")] = None
    dataset: Annotated[str | None, typer.Option(help="Name of the data set in the ledger.")] = None
    cap: Annotated[float | None, typer.Option(help="Cap on ε over all runs on it, for good.")] = None
    ledger: LedgerOption = None
    out: Annotated[str | None, typer.Option("--out", "-o", help="Model folder to make.")] = None
    pages: Annotated[str | None, typer.Option(help="Folder of the pages to make.")] = None
    test: Annotated[str | None, typer.Option(help="Real records kept aside, for the private page; 'none'.")] = None
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether to go on.")] = False


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question with what is to be known of it, and how its answer is read."""

    key: str
    asks: str
    says: str
    read: Callable[[str], Any]
    default: str | None = None


def _file(text: str) -> str:
    if not Path(text).exists():
        raise ValueError(f"{text!r} is not there")
    return text


def _new(text: str) -> str:
    if Path(text).exists():
        raise ValueError(f"{text!r} is there already")
    return text


def _above_zero(kind: type[int] | type[float]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            number = kind(text)
        except ValueError:
            number = kind(0)
        if not 0 < number < float("inf"):
            raise ValueError(f"{text!r} is no {'whole ' if kind is int else ''}number above 0")
        return number

    return read


def _one_of_them(text: str) -> str:
    if text not in _SOURCES:
        raise ValueError(f"{text!r} is none of {', '.join(_SOURCES)}")
    return text


def _perhaps(text: str) -> str | None:
    return None if text.lower() == "none" else _file(text)


QUESTIONS = (
    Question(key="data", asks="Private records", says="A CSV or Parquet file. The fit alone reads it.", read=_file),
    Question(
        key="records",
        asks="About how many records are there",
        says="A round number that may be known publicly. It forecasts what the noise leaves.",
        read=_above_zero(int),
    ),
    Question(
        key="epsilon",
        asks="Epsilon",
        says="How much the result may depend on one record: 1 is common, 0.1 is strict, 10 is loose.",
        read=_above_zero(float),
        default="1",
    ),
    Question(
        key="dataset",
        asks="Name of the data set in the ledger",
        says="The ledger adds up what all runs on the same records cost, and refuses what goes beyond the cap.",
        read=str,
        default="data",
    ),
    Question(
        key="cap",
        asks="Cap on epsilon over all runs",
        says="It never changes. It is used where the data set is not in the ledger yet.",
        read=_above_zero(float),
        default="4",
    ),
    Question(key="out", asks="Model folder", says="It may be handed on.", read=_new, default="model"),
    Question(
        key="test",
        asks="Real records that were kept aside, or none",
        says="They compare the copy with real records, on a second page that is private.",
        read=_perhaps,
        default="none",
    ),
    Question(key="pages", asks="Folder of the pages", says="One page may be published.", read=str, default="pages"),
)


@one_by_one
def start_command(context: typer.Context, options: StartOptions) -> None:
    """Make a private copy of a table, question by question: describe it, see the price, fit, look, verify.

    Each step is one of the other commands; it is printed before it runs, so that all of this can be done without
    questions. Nothing is spent before the fit, and the fit is asked for.

    Without a terminal every answer is an option, or a line of --answers FILE, and --yes goes on by itself.

    Example: `noisegate start`
    """
    guide = Guide(context, _given(options))
    described = guide.described()
    known = {question.key: guide.answer(question) for question in QUESTIONS}
    guide.price(described, known)
    guide.fit(described, known)
    guide.look(known)
    say("\nThat was, to do it again without questions:")
    for command in guide.ran:
        say(f"  {command}")


def _given(options: StartOptions) -> dict[str, Any]:
    """Returns the answers on the command line, and those of the file that the command line does not give."""
    from noisegate.schema.files import parse_toml, read_text

    names = [field.name for field in fields(StartOptions) if field.name != "answers"]
    given = {name: value for name in names if (value := getattr(options, name)) not in (None, False)}
    if options.answers is None:
        return given
    told = parse_toml(read_text(options.answers, "file"), f"file {options.answers}")
    unknown = [name for name in told if name not in names]
    if unknown:
        raise OptionError(f"--answers {options.answers}: {unknown[0]!r} is no question; there are {', '.join(names)}.")
    return {**told, **given}


class Guide:
    """Asks what is not given, runs commands, and keeps what it ran."""

    def __init__(self, context: typer.Context, given: Mapping[str, Any]) -> None:
        self._program, self._given = context.find_root().command, given
        self._asks = sys.stdin is not None and sys.stdin.isatty()
        self.ran: list[str] = []
        missing = [question.key for question in QUESTIONS if question.key not in given]
        if not set(_SOURCES) & set(given):
            missing.insert(0, "schema (or public, or dictionary)")
        missing += [] if given.get("yes") else ["yes"]
        if missing and not self._asks:
            raise OptionError(
                f"`noisegate start` asks questions, and this is no terminal. Not answered: {', '.join(missing)}; give "
                f"them as options, or as keys of --answers FILE. Or use the commands that it runs: {_PLAIN}."
            )

    def answer(self, question: Question) -> Any:
        """Returns the answer that was given, or asks until there is one that can be read."""
        if question.key in self._given:
            text = str(self._given[question.key])
            try:
                return question.read(text)
            except ValueError as error:
                raise OptionError(f"{question.key}: {error}; {question.asks.lower()} is asked for.") from None
        if question.says:
            say(f"\n{question.says}")
        while True:
            text = str(typer.prompt(question.asks, default=question.default, err=True)).strip()
            try:
                return question.read(text)
            except ValueError as error:
                say(f"{error}.")

    def described(self) -> str:
        """Returns a schema file that is complete, after it was drafted where there was none."""
        source = self._source()
        path = self.answer(Question(key=source, asks=f"File of the {source}", says="Its path.", read=_file))
        if source == "schema":
            return str(path)
        if Path(_SCHEMA).exists():
            raise OptionError(f"{_SCHEMA} is there already; give it with --schema {_SCHEMA}, or move it away.")
        label = self._given.get("label", "")
        if not label and self._asks:
            label = typer.prompt("Column to be predicted from the others, if any", default="", err=True)
        kind = ["--dictionary"] if source == "dictionary" else []
        self.run("schema", "init", *kind, str(path), "-o", _SCHEMA, *(["--label", str(label)] if label else []))
        try:
            self.run("schema", "check", _SCHEMA)
        except SchemaError as error:
            raise OptionError(
                f"{error}. State it in {_SCHEMA}, from public knowledge, then go on with: noisegate start --schema "
                f"{_SCHEMA}. Nothing was spent."
            ) from None
        self.go_on(f"Read {_SCHEMA} now, in another window. Is everything in it public, and as it should be")
        return _SCHEMA

    def _source(self) -> str:
        """Returns what the description of the columns comes from: a schema, public records or a dictionary."""
        source = next((key for key in _SOURCES if key in self._given), None)
        if source is not None:
            return source
        say(
            "\nThe schema says what is publicly known of the columns: kinds, bounds, levels. Nothing in it may come "
            "from the private records. It may be there already (schema), or be drafted from records that are public "
            "(public), or from a data dictionary (dictionary)."
        )
        likely = "schema" if Path(_SCHEMA).exists() else "public"
        return str(self.answer(Question(key="", asks="Which of them", says="", read=_one_of_them, default=likely)))

    def price(self, schema: str, known: Mapping[str, Any]) -> None:
        """Shows the plan, and asks whether to go on."""
        self.run("plan", "--schema", schema, "--epsilon", f"{known['epsilon']:g}", "--records", str(known["records"]))
        self.go_on(f"The fit spends epsilon = {known['epsilon']:g}, which cannot be taken back. Go on")

    def fit(self, schema: str, known: Mapping[str, Any]) -> None:
        """Books the data set where it is not, and fits."""
        from noisegate.ledger.ledger import Ledger

        book = ["--ledger", str(self._given["ledger"])] if "ledger" in self._given else []
        accounts = Ledger(self._given.get("ledger")).show()
        if known["dataset"] not in [account.dataset for account in accounts]:
            self.run("ledger", "register", known["dataset"], "--epsilon", f"{known['cap']:g}", *book)
        spent = ["--epsilon", f"{known['epsilon']:g}", "--dataset", known["dataset"], *book]
        self.run("fit", known["data"], "--schema", schema, *spent, "--out", known["out"])

    def look(self, known: Mapping[str, Any]) -> None:
        """Samples, makes the pages, and verifies."""
        synthetic = f"{known['out']}-synthetic.csv"
        test = [] if known["test"] is None else ["--test", known["test"]]
        self.run("sample", known["out"], "-n", str(known["records"]), "-o", synthetic)
        self.run("report", known["out"], "-o", known["pages"], *test)
        self.run("verify", known["out"])

    def run(self, *arguments: str) -> None:
        """Prints a command and runs it."""
        command = f"noisegate {shlex.join(arguments)}"
        say(f"\n$ {command}")
        self._program.main([*arguments], prog_name="noisegate", standalone_mode=False)
        self.ran.append(command)

    def go_on(self, question: str) -> None:
        """Asks whether to go on; stops here where not."""
        if not self._given.get("yes") and not typer.confirm(f"{question}?", err=True):
            raise OptionError("stopped before anything was spent; what was asked stands above.")
