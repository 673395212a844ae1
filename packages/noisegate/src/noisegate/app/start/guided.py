"""`noisegate start`: the whole way for a table, question by question; every step is a command that it prints."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from noisegate.app.cli.console import say
from noisegate.app.cli.options import expand_options
from noisegate.app.start.questions import (
    ASKED,
    SOURCES,
    Asker,
    Question,
    StartOptions,
    question,
    synthetic,
    within,
)
from noisegate.errors import BudgetRefusedError, LedgerError, OptionError, SchemaError

if TYPE_CHECKING:
    from noisegate.ledger.ledger import Account

_SCHEMA, _DELTA = "schema.toml", 1e-5
_PLAIN = (
    "noisegate schema init PUBLIC.csv -o schema.toml (or --dictionary FILE, or noisegate schema discover); noisegate "
    "plan --schema schema.toml --epsilon 1 --records N; noisegate ledger register NAME --epsilon 4; noisegate fit DATA "
    "--schema schema.toml --epsilon 1 --dataset NAME --out model; noisegate sample model -n N -o synthetic.csv; "
    "noisegate report model -o pages; noisegate verify model"
)


@expand_options
def start_command(context: typer.Context, options: StartOptions) -> None:
    """Make a private copy of a table, question by question: describe it, see the price, fit, look, verify.

    Each step is one of the other commands; it is printed before it runs, so that all of this can be done without
    questions. Before anything is spent, by a discovery of bounds or by the fit, you are asked.

    With --browser the questions stand on a page, which this machine alone can open. Without a terminal every answer is
    an option, or a line of --answers FILE, and --yes goes on by itself.

    Example: `noisegate start`
    """
    given = _given(options)
    if options.browser:
        from noisegate.app.start.page import Page

        Page().run(partial(_guided, context, given))
        return
    guide = _guided(context, given, Asker())
    say("\nTo repeat this non-interactively:")
    for command in guide.ran:
        Asker.line(f"  {command}")


def _guided(context: typer.Context, given: Mapping[str, Any], asker: Asker) -> Guide:
    guide = Guide(context, given, asker)
    schema = guide.described()
    guide.price(schema)
    guide.fit(schema)
    guide.look()
    return guide


def _given(options: StartOptions) -> dict[str, Any]:
    from noisegate.schema.files import parse_toml, read_text

    names = [
        field.name
        for field in fields(StartOptions)
        if field.name not in ("answers", "browser")
    ]
    given = {
        name: value
        for name in names
        if (value := getattr(options, name)) not in (None, False)
    }
    if options.answers is None:
        return given
    told = parse_toml(read_text(options.answers, "file"), f"file {options.answers}")
    unknown = [name for name in told if name not in names]
    if unknown:
        raise OptionError(
            f"--answers {options.answers}: {unknown[0]!r} is not a key; keys: {', '.join(names)}."
        )
    return {**told, **given}


class Guide:
    """Asks what is not given, runs commands, and keeps what it ran."""

    def __init__(
        self, context: typer.Context, given: Mapping[str, Any], asker: Asker
    ) -> None:
        self._program, self._given, self._asker = (
            context.find_root().command,
            given,
            asker,
        )
        self._book = ["--ledger", str(given["ledger"])] if "ledger" in given else []
        self._bought = 0.0
        self.ran: list[str] = []
        missing = [key for key in ASKED if key not in given]
        if "cap" not in given and (
            "dataset" in missing or self._account(given["dataset"]) is None
        ):
            missing.append("cap")
        if not set(SOURCES) & set(given):
            missing.insert(0, f"one of {', '.join(SOURCES)}")
        missing += ["yes"] * (not given.get("yes")) + ["bounds"] * (
            "discover" in given and "bounds" not in given
        )
        if missing and not self._asker.asks:
            raise OptionError(
                f"`noisegate start` asks questions, and this is not a terminal. Not answered: {', '.join(missing)}; "
                f"give them as options, or as keys of --answers FILE. Or use the commands that it runs: {_PLAIN}."
            )

    def answer(self, asked: Question) -> Any:
        """Returns the answer that was given, or asks until there is one that can be read."""
        if asked.key in self._given:
            text = str(self._given[asked.key])
            try:
                return asked.value(text)
            except ValueError as error:
                raise OptionError(
                    f"{asked.key}: {error}; {asked.asks.lower()} is asked for."
                ) from None
        if not self._asker.asks:
            raise OptionError(
                f"{asked.key} is not answered; {asked.asks.lower()} is asked for."
            )
        complaint = ""
        while True:
            text = self._asker.prompt(asked, complaint).strip()
            try:
                return asked.value(text)
            except ValueError as error:
                complaint = f"{error}."

    @cached_property
    def known(self) -> dict[str, Any]:
        """The answers to all questions; what they ask for is within the cap."""
        known: dict[str, Any] = {}
        for key in ASKED:
            known[key] = self.answer(question(key))
            if key == "dataset":
                known["cap"] = self._cap(known["epsilon"], known["dataset"])
        kept = 1 - known["test"] if isinstance(known["test"], float) else 1
        known["records"] = max(1, round(known["records"] * kept))
        return known

    def _cap(self, epsilon: float, dataset: str) -> float | None:
        """Returns the cap that a data set is to get; None where it has one, under which the run must fit."""
        account = self._account(dataset)
        if account is None:
            read = partial(within, epsilon, 1000)
            return float(
                self.answer(question("cap", read=read, default=f"{max(4, epsilon):g}"))
            )
        if (
            account.delta == _DELTA
            and account.remaining is not None
            and epsilon > account.remaining
        ):
            raise BudgetRefusedError(
                f"epsilon {epsilon:g}: of the cap of data set {dataset!r}, {account.epsilon:g}, about "
                f"{account.remaining:.4g} is left; ask for less. Nothing was spent."
            )
        return None

    def _account(self, dataset: str) -> Account | None:
        from noisegate.ledger.ledger import Ledger

        try:
            accounts = Ledger(self._given.get("ledger")).show()
        except LedgerError:
            return None
        return next(
            (account for account in accounts if account.dataset == dataset), None
        )

    def described(self) -> str:
        """Returns a schema file that is complete, after it was drafted or bought where there was none."""
        source = self._source()
        if source == "schema":
            return str(self.answer(question(source)))
        if Path(_SCHEMA).exists():
            raise OptionError(
                f"{_SCHEMA} is there already; give it with --schema {_SCHEMA}, or move it away."
            )
        if source == "discover":
            self._discover()
            return _SCHEMA
        path = str(self.answer(question(source)))
        kind = ["--dictionary"] if source == "dictionary" else []
        self.run("schema", "init", *kind, path, "-o", _SCHEMA, *self._label())
        try:
            self.run("schema", "check", _SCHEMA)
        except SchemaError as error:
            raise OptionError(
                f"{error}. State it in {_SCHEMA}, from public knowledge, then go on with: noisegate start --schema "
                f"{_SCHEMA}. Nothing was spent."
            ) from None
        self.go_on("Is everything in it public, and as it should be", _SCHEMA)
        return _SCHEMA

    def _label(self) -> list[str]:
        label = self._given.get("label", "")
        if not label and self._asker.asks:
            label = self._asker.prompt(question("label"))
        return ["--label", str(label)] if label else []

    def _source(self) -> str:
        source = next((key for key in SOURCES if key in self._given), None)
        if source is not None:
            return source
        return str(
            self.answer(
                question(
                    "source", default="schema" if Path(_SCHEMA).exists() else "public"
                )
            )
        )

    def _discover(self) -> None:
        known, kinds = self.known, self._kinds()
        fixed = [
            "--records",
            str(known["records"]),
            *(["--kinds", kinds] if kinds else []),
            *self._label(),
        ]
        epsilon = known["epsilon"]
        asks = f"Epsilon for bounds and levels, of the {epsilon:g}"
        read = partial(within, 0.01, epsilon - 0.01)
        self._bought = part = float(
            self.answer(
                question("bounds", asks=asks, read=read, default=f"{epsilon / 4:g}")
            )
        )
        asked = ["--epsilon", _text(part), *fixed, "-o", _SCHEMA]
        self.run("schema", "discover", known["data"], *asked, "--price")
        self.go_on(
            f"The discovery spends {_text(part)} of epsilon = {_text(known['epsilon'])} for good. Go on"
        )
        self.register()
        self.run(
            "schema",
            "discover",
            known["data"],
            *asked,
            "--dataset",
            known["dataset"],
            *self._book,
        )
        self.go_on(
            "Correct it by public knowledge alone. Is it as it should be", _SCHEMA
        )

    def _kinds(self) -> str:
        from noisegate.gate.discovery.partial import KINDS
        from noisegate.gate.discovery.raw import columns_file

        if "discover" in self._given:
            return str(self._given["discover"])
        _, names = columns_file(self.known["data"])
        self._asker.say(
            f"These are the columns, whose names are taken as public: {', '.join(names)}. Say the kind of each: "
            f"{', '.join(KINDS)}. Its first letters do."
        )
        kind = {
            name: self.answer(Question(key="", asks=name, choices=tuple(KINDS)))
            for name in names
        }
        return ",".join(f"{name}={kind[name]}" for name in names)

    def price(self, schema: str) -> None:
        """Shows the plan, and asks whether to go on."""
        known = self.known
        self.run(
            "plan",
            "--schema",
            schema,
            "--epsilon",
            self._left,
            "--records",
            str(known["records"]),
        )
        self.go_on(
            f"The fit spends epsilon = {self._left}, which cannot be taken back. Go on"
        )

    @property
    def _left(self) -> str:
        return _text(self.known["epsilon"] - self._bought)

    def register(self) -> None:
        """Registers the data set where it is not, after test records are set aside: nothing looks at them before."""
        known = self.known
        if isinstance(known["test"], float):
            self.run("split", known["data"], "--test", _text(known["test"]))
            path = Path(known["data"])
            known["data"], known["test"] = (
                str(path.with_stem(f"{path.stem}-{part}")) for part in ("train", "test")
            )
        if known["cap"] is not None:
            self.run(
                "ledger",
                "register",
                known["dataset"],
                "--epsilon",
                _text(known["cap"]),
                *self._book,
            )
            known["cap"] = None

    def fit(self, schema: str) -> None:
        """Fits, and records the cost in the ledger."""
        self.register()
        spent = [
            "--epsilon",
            self._left,
            "--dataset",
            self.known["dataset"],
            *self._book,
        ]
        self.run(
            "fit",
            self.known["data"],
            "--schema",
            schema,
            *spent,
            "--out",
            self.known["out"],
        )

    def look(self) -> None:
        """Samples, makes the pages, and verifies."""
        known = self.known
        test = [] if known["test"] is None else ["--test", known["test"]]
        self.run(
            "sample",
            known["out"],
            "-n",
            str(known["records"]),
            "-o",
            synthetic(known["out"]),
        )
        self.run("report", known["out"], "-o", known["pages"], *test)
        self.run("verify", known["out"])
        private = (
            f" Look at {Path(known['pages']) / 'private.html'}, and keep it private."
            if test
            else ""
        )
        self._asker.say(
            f"Share {synthetic(known['out'])}, {known['out']} and {Path(known['pages']) / 'public.html'}.{private}"
        )

    def made(self) -> dict[str, Path]:
        """Returns what may be handed over, and what is to be looked at."""
        model, pages = self.known["out"], Path(self.known["pages"])
        made = {
            "Synthetic records": Path(synthetic(model)),
            "Certificate": Path(model) / "certificate.md",
        }
        made["Public page"] = pages / "public.html"
        return (
            made
            if self.known["test"] is None
            else made | {"Private page": pages / "private.html"}
        )

    def run(self, *arguments: str) -> None:
        """Shows a command and runs it."""
        command = f"noisegate {shlex.join(arguments)}"
        self._asker.command(command)
        code = self._program.main(
            [*arguments], prog_name="noisegate", standalone_mode=False
        )
        if code:  # typer turns Ctrl-C into one, and would go on
            raise typer.Exit(code)
        self.ran.append(command)

    def go_on(self, question: str, file: str = "") -> None:
        """Asks whether to go on; stops here where not."""
        if self._given.get("yes") or self._asker.confirm(question, file):
            return
        if any(
            " discover " in command and " --price" not in command
            for command in self.ran
        ):
            raise OptionError(
                f"stopped; {_text(self._bought)} was spent on {_SCHEMA}; to go on: noisegate start --schema {_SCHEMA}"
            )
        raise OptionError(
            "stopped before any budget was spent; the plan is shown above."
        )


def _text(number: float) -> str:
    return f"{number:.10g}"
