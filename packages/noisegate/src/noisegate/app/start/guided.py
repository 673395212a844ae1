"""The verb `noisegate start`: the whole way for a table, one question after the other.

::

    schema init, or schema discover    the draft is read and confirmed
      │
    plan                               confirmed: the ε of a fit cannot be taken back
      │
    split, ledger register
      │
    fit
      │
    sample, report, verify

Every step is one of the other commands. It is shown before it runs, so that all of this
can be done without questions.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from noisegate.app.cli.console import say
from noisegate.app.cli.options import expand_options
from noisegate.app.heading import HEADING_NAMES
from noisegate.app.start.questions import (
    QUESTION_KEYS,
    SOURCES,
    Asker,
    GuideQuestion,
    StartOptions,
    TerminalAsker,
    load_question,
    number_within,
    print_line,
    synthetic_path,
)
from noisegate.atomic import address
from noisegate.errors import BudgetRefusedError, LedgerError, OptionError, SchemaError
from noisegate.privacy.events import SEVERAL

if TYPE_CHECKING:
    from noisegate.ledger.ledger import Account

_SCHEMA = "schema.toml"
_DELTA = 1e-5  # of every run, since no command below states another one
_MIN_EPSILON = 0.01
_MAX_EPSILON = 1000
_USUAL_CAP = 4

# The commands of an interview, for who cannot be asked.
_COMMANDS = (
    "noisegate schema init PUBLIC.csv -o schema.toml (or --dictionary FILE, or "
    "noisegate schema discover); noisegate plan --schema schema.toml --epsilon 1 "
    "--records N; noisegate ledger register NAME --epsilon 4; noisegate fit DATA "
    "--schema schema.toml --epsilon 1 --dataset NAME --out model; noisegate sample "
    "model -n N -o synthetic.csv; noisegate report model -o pages; noisegate verify "
    "model"
)


@expand_options
def start_command(context: typer.Context, options: StartOptions) -> None:
    """Make a private copy of a table, step by step: describe, see the cost, fit, verify.

    Each step is one of the other commands, which is printed before it runs. Nothing is
    spent before you confirm, neither by a discovery of bounds nor by the fit.

    --browser asks on a page that only this machine can open. Without a terminal, give
    each answer as an option or in --answers FILE, and --yes to confirm.

    Example: `noisegate start`
    """
    preset = _preset_answers(options)
    if options.browser:
        from noisegate.app.start.page import Page

        Page().run(partial(_run_interview, context, preset))
        return
    guide = _run_interview(context, preset, TerminalAsker())
    say("\nTo repeat this non-interactively:")
    for command in guide.commands:
        print_line(f"  {command}")


def _preset_answers(options: StartOptions) -> dict[str, Any]:
    """Returns the answers that options and a file give, by the key of the question.

    Raises:
        OptionError: if the file has a key that is not one.
    """
    from noisegate.schema.files import parse_toml, read_text

    keys = [
        field.name
        for field in fields(StartOptions)
        if field.name not in ("answers", "browser")
    ]
    values = {key: getattr(options, key) for key in keys}
    from_options = {
        key: value for key, value in values.items() if value not in (None, False)
    }
    if options.answers is None:
        return from_options
    text = read_text(options.answers, "file")
    from_file = parse_toml(text, f"file {options.answers}")
    for key in from_file:
        if key not in keys:
            raise OptionError(
                f"--answers {options.answers}: {key!r} is not a key; "
                f"keys: {', '.join(keys)}."
            )
    return {**from_file, **from_options}


def _run_interview(
    context: typer.Context, preset: Mapping[str, Any], asker: Asker
) -> Guide:
    """Goes the whole way.

    Args:
        context: Of the verb, from which the other commands are run.
        preset: Answers that are not asked for, by key.
        asker: Who asks.

    Returns:
        The guide, with the commands that it ran.
    """
    guide = Guide(context, preset, asker)
    schema = guide.prepare_schema()
    guide.show_plan(schema)
    guide.fit(schema)
    guide.sample_and_report()
    return guide


@dataclass
class _Answers:
    """The answers to all questions but that of the schema.

    Attributes:
        data: Path of the private records; those to be fitted, once test records are set
            aside.
        records: About how many of them are fitted.
        unit_column: Column that names the person of a record; None where each record
            counts by itself.
        contributions: How many records of one person are used; None without such a
            column.
        epsilon: ε of the whole run.
        dataset: Name of the data set in the ledger.
        cap: Cap on its ε; None once it is registered.
        out: Model folder.
        test: Path of test records, the fraction of records that is to be held out, or
            None.
        pages: Folder of the pages.
        heading: Title, owner and purpose for the pages, by name; without those that
            were left empty.
    """

    data: str
    records: int
    unit_column: str | None
    contributions: int | None
    epsilon: float
    dataset: str
    cap: float | None
    out: str
    test: str | float | None
    pages: str
    heading: Mapping[str, str]


class Guide:
    """Asks what is not preset, and runs the commands of one interview.

    Its steps are called in this order: `prepare_schema`, `show_plan`, `fit`,
    `sample_and_report`. Each asks for what it needs, and leaves what it wrote in the
    current folder.

    Attributes:
        commands: Those that were run, as they are typed.
    """

    def __init__(
        self, context: typer.Context, preset: Mapping[str, Any], asker: Asker
    ) -> None:
        """Begins an interview.

        Args:
            context: Of the verb, from which the other commands are run.
            preset: Answers that are not asked for, by key.
            asker: Who asks.

        Raises:
            OptionError: if an answer is lacking and nobody can be asked.
        """
        self.commands: list[str] = []
        self._program = context.find_root().command
        self._preset = preset
        self._asker = asker
        self._ledger_option: list[str] = []
        if "ledger" in preset:
            self._ledger_option = ["--ledger", str(preset["ledger"])]
        self._epsilon_of_bounds = 0.0

        unanswered = self._unanswered()
        if unanswered and not asker.can_ask:
            raise OptionError(
                "`noisegate start` asks questions, and this is not a terminal. Not "
                f"answered: {', '.join(unanswered)}; give them as options, or as keys "
                f"of --answers FILE. Or use the commands that it runs: {_COMMANDS}."
            )

    # --- Answers. ---

    def _unanswered(self) -> list[str]:
        """Returns the keys of all questions that would have to be asked."""
        keys = [key for key in QUESTION_KEYS if key not in self._preset]
        if not any(source in self._preset for source in SOURCES):
            keys.insert(0, f"one of {', '.join(SOURCES)}")
        if "cap" not in self._preset:
            dataset = self._preset.get("dataset")
            if dataset is None or self._account(dataset) is None:
                keys.append("cap")
        if not self._preset.get("yes"):
            keys.append("yes")
        if "discover" in self._preset and "bounds" not in self._preset:
            keys.append("bounds")
        return keys

    def _answer(self, question: GuideQuestion) -> Any:
        """Returns the preset answer, or asks until one can be parsed.

        A preset answer that cannot be parsed is not asked for instead: whoever wrote it
        into an option or a file expects it to be used.

        Raises:
            OptionError: if the preset answer cannot be parsed, or nobody can be asked.
        """
        key = question.key
        expected = f"{question.text.lower()} is asked for."
        if key in self._preset:
            try:
                return question.parse_answer(str(self._preset[key]))
            except ValueError as error:
                raise OptionError(f"{key}: {error}; {expected}") from None
        if not self._asker.can_ask:
            raise OptionError(f"{key} is not answered; {expected}")
        complaint = ""
        while True:
            text = self._asker.prompt(question, complaint).strip()
            try:
                return question.parse_answer(text)
            except ValueError as error:
                complaint = f"{error}."

    @cached_property
    def _answers(self) -> _Answers:
        """All answers but that of the schema, asked for at the first use.

        They are asked for together and kept, so that a command asks nothing in between.
        `_register_dataset` changes them: `data`, `test` and `cap` are other ones after
        it.

        Raises:
            BudgetRefusedError: if the data set has too little budget left for them.
        """
        data = self._answer(load_question("data"))
        records = self._answer(load_question("records"))
        unit_column, contributions = self._unit()
        epsilon = self._answer(load_question("epsilon"))
        dataset = self._answer(load_question("dataset"))
        cap = self._new_cap(epsilon, dataset)
        out = self._answer(load_question("out"))
        test = self._answer(load_question("test"))
        pages = self._answer(load_question("pages"))
        # The test records are not fitted. Of 200 with 0.2 held out, 160 are.
        if isinstance(test, float):
            records = max(1, round(records * (1 - test)))
        return _Answers(
            data=data,
            records=records,
            unit_column=unit_column,
            contributions=contributions,
            epsilon=epsilon,
            dataset=dataset,
            cap=cap,
            out=out,
            test=test,
            pages=pages,
            heading=self._heading(),
        )

    def _heading(self) -> dict[str, str]:
        """Returns title, owner and purpose; without those that are left empty.

        Where nobody can be asked, what is not preset is left empty.
        """
        heading = {}
        for name in HEADING_NAMES:
            if name in self._preset or self._asker.can_ask:
                text = self._answer(load_question(name))
                if text is not None:
                    heading[name] = text
        return heading

    def _unit(self) -> tuple[str | None, int | None]:
        """Returns the column that names the person, and how many records each has.

        Returns:
            None twice where each record counts by itself, and where nobody can be
            asked.
        """
        if "unit_column" not in self._preset and not self._asker.can_ask:
            return None, None
        unit_column = self._answer(load_question("unit_column"))
        if unit_column is None:
            return None, None
        return unit_column, self._answer(load_question("contributions"))

    @property
    def _unit_options(self) -> list[str]:
        """The options by which commands protect persons; empty for records."""
        answers = self._answers
        if answers.unit_column is None:
            return []
        contributions = str(answers.contributions)
        return [
            "--unit-column",
            answers.unit_column,
            "--contributions",
            contributions,
        ]

    def _new_cap(self, epsilon: float, dataset: str) -> float | None:
        """Returns the cap that a data set is to get.

        Args:
            epsilon: ε of the run.
            dataset: Name of the data set.

        It is at least ε of this run, so that the run fits under it. Example: at ε = 1
        the proposed cap is 4, and at ε = 6 it is 6.

        Returns:
            The cap; None if the data set has one already. Nothing is registered yet.

        Raises:
            BudgetRefusedError: if the run would not fit under it.
        """
        account = self._account(dataset)
        if account is None:
            cap_question = load_question(
                "cap",
                parse=partial(number_within, epsilon, _MAX_EPSILON),
                default=f"{max(_USUAL_CAP, epsilon):g}",
            )
            return float(self._answer(cap_question))
        # What remains is known at the δ of the account alone. At another one the ledger
        # decides when the fit reserves its cost.
        if (
            account.delta == _DELTA
            and account.remaining is not None
            and epsilon > account.remaining
        ):
            raise BudgetRefusedError(
                f"epsilon {epsilon:g}: of the cap of data set {dataset!r}, "
                f"{account.epsilon:g}, about {account.remaining:.4g} is left; ask for "
                "less. Nothing was spent."
            )
        return None

    def _account(self, dataset: str) -> Account | None:
        """Returns the account of a data set; None if it has none, or no ledger."""
        from noisegate.ledger.ledger import Ledger

        try:
            accounts = Ledger(self._preset.get("ledger")).show()
        except LedgerError:
            return None
        return next(
            (account for account in accounts if account.dataset == dataset), None
        )

    # --- Steps. ---

    def prepare_schema(self) -> str:
        """Returns a complete schema file, which is drafted or discovered if need be.

        A draft is written to `schema.toml` before it is checked and confirmed, and
        stays there whatever comes of it: the user completes that file, and continues with
        --schema (`test_a_draft_with_gaps_stops_with_what_is_to_be_stated`).

        Raises:
            OptionError: if `schema.toml` is in the way, or the draft has gaps.
        """
        source = self._source()
        if source == "schema":
            return str(self._answer(load_question(source)))
        if Path(_SCHEMA).exists():
            raise OptionError(
                f"{_SCHEMA} exists already; give it with --schema {_SCHEMA}, or "
                "move it away."
            )
        if source == "discover":
            self._discover()
            return _SCHEMA

        path = str(self._answer(load_question(source)))
        dictionary_option = ["--dictionary"] if source == "dictionary" else []
        label_option = self._label_option()
        self.run(
            "schema", "init", *dictionary_option, path, "-o", _SCHEMA, *label_option
        )
        try:
            self.run("schema", "check", _SCHEMA)
        except SchemaError as error:
            raise OptionError(
                f"{error}. State it in {_SCHEMA}, from public knowledge, then "
                f"continue with: noisegate start --schema {_SCHEMA}. Nothing was "
                "spent."
            ) from None
        self._confirm("Is everything in it public and correct", _SCHEMA)
        return _SCHEMA

    def _source(self) -> str:
        """Returns where the schema comes from, one of `SOURCES`."""
        for source in SOURCES:
            if source in self._preset:
                return source
        likely_source = "schema" if Path(_SCHEMA).exists() else "public"
        return str(self._answer(load_question("source", default=likely_source)))

    def _label_option(self) -> list[str]:
        """Returns the option of the column to be predicted; empty for none."""
        label = self._preset.get("label", "")
        if not label and self._asker.can_ask:
            label = self._asker.prompt(load_question("label"))
        return ["--label", str(label)] if label else []

    def _discover(self) -> None:
        """Writes a schema whose bounds and levels are estimated with a part of ε.

        Questions come first, then the cost, which reads no record, then whether to go
        on. Until then nothing is written or spent. Then the data set is registered, and
        `schema discover` spends the part permanently: an error or a "no" after that does
        not give it back, and `_confirm` says so.

        Raises:
            OptionError: if the user does not continue.
        """
        answers = self._answers
        if answers.unit_column is not None:
            raise OptionError(
                f"unit_column={answers.unit_column!r}: bounds and levels can be "
                "estimated for single records only; give a schema, public records or a "
                "dictionary instead. Nothing was spent."
            )
        kinds = self._ask_kinds()
        kinds_option = ["--kinds", kinds] if kinds else []
        label_option = self._label_option()
        part_question = load_question(
            "bounds",
            text=f"Epsilon for bounds and levels, of the {answers.epsilon:g}",
            parse=partial(number_within, _MIN_EPSILON, answers.epsilon - _MIN_EPSILON),
            default=f"{answers.epsilon / 4:g}",
        )
        part = float(self._answer(part_question))
        # Set before it is spent: nothing reads it unless the discovery has run.
        self._epsilon_of_bounds = part

        epsilon = _number_text(part)
        records = str(answers.records)
        discover = ["schema", "discover", answers.data]
        discover += ["--epsilon", epsilon, "--records", records]
        discover += [*kinds_option, *label_option, "-o", _SCHEMA]
        self.run(*discover, "--price")
        self._confirm(
            f"The discovery spends {epsilon} of epsilon = "
            f"{_number_text(answers.epsilon)} permanently. Continue"
        )
        self._register_dataset(schema=None)
        self.run(*discover, "--dataset", answers.dataset, *self._ledger_option)
        self._confirm("Correct it from public knowledge only. Is it correct", _SCHEMA)

    def _ask_kinds(self) -> str:
        """Asks for the kind of each column, unless --discover gives them.

        Example: the columns age and job, answered with "i" and "cat", are
        "age=integer,job=categorical".

        Names are not quoted, since `schema discover --kinds` knows no quotes. It splits
        at commas, and a pair at its last equals sign. So a name with an equals sign is
        read as it is, and one with a comma is refused there, at the cost and before
        anything is spent; the error says to use a --columns file.

        Returns:
            The kinds as `NAME=KIND,...`, in the order of the columns; what --discover
            holds as it is, and not checked.

        Raises:
            DataError: if the first line of the data holds no names.
            OptionError: if nobody can be asked.
        """
        from noisegate.gate.discovery.partial import KIND_MEANINGS, KINDS
        from noisegate.gate.discovery.raw import columns_file

        if "discover" in self._preset:
            return str(self._preset["discover"])
        # Reads the names of the columns, and no cell is shown.
        _, names = columns_file(self._answers.data)
        self._asker.say(
            "These are the columns, whose names are taken as public: "
            f"{', '.join(names)}. Give the kind of each; its first letters are "
            "enough.\n"
            + "\n".join(f"  {kind}: {KIND_MEANINGS[kind]}" for kind in KINDS)
        )
        # Without a key: no option or file answers for a single column.
        kinds = [
            self._answer(GuideQuestion(key="", text=name, choices=tuple(KINDS)))
            for name in names
        ]
        return ",".join(
            f"{name}={kind}" for name, kind in zip(names, kinds, strict=True)
        )

    def show_plan(self, schema: str) -> None:
        """Shows what a fit would measure, and asks whether to continue.

        Args:
            schema: The schema file.
        """
        epsilon = self._epsilon_of_fit
        records = str(self._answers.records)
        plan = ["plan", "--schema", schema, "--epsilon", epsilon, "--records", records]
        self.run(*plan, *self._unit_options)
        self._confirm(
            f"The fit spends epsilon = {epsilon}, which cannot be undone. Continue"
        )

    @property
    def _epsilon_of_fit(self) -> str:
        """What a discovery of bounds has left of ε."""
        return _number_text(self._answers.epsilon - self._epsilon_of_bounds)

    def _register_dataset(self, schema: str | None) -> None:
        """Registers the data set, if it is not, after test records are held out.

        Test records are held out first, so that nothing has examined them. After
        `split`, `data` and `test` are the two files that it writes. A second call does
        nothing, since the answers say what is done: `_discover` calls it before `fit`
        does. What is written stays if a later step fails.
        """
        from noisegate.sources.split import part_paths

        answers = self._answers
        if isinstance(answers.test, float):
            split = ["split", answers.data, "--test", _number_text(answers.test)]
            if schema is not None:
                split += ["--schema", schema]
            if answers.unit_column is not None:
                split += ["--unit-column", answers.unit_column]
            self.run(*split)
            train_path, test_path = part_paths(answers.data, schema)
            answers.data = str(train_path)
            answers.test = str(test_path)
        if answers.cap is not None:
            cap = _number_text(answers.cap)
            register = ["ledger", "register", answers.dataset, "--epsilon", cap]
            if answers.unit_column is not None:
                register += ["--unit", f"{SEVERAL} {answers.unit_column}"]
            self.run(*register, *self._ledger_option)
            answers.cap = None

    def fit(self, schema: str) -> None:
        """Fits the model, and records its cost in the ledger.

        Args:
            schema: The schema file.
        """
        self._read_first_records(schema)
        self._register_dataset(schema)
        answers = self._answers
        fit = ["fit", answers.data, "--schema", schema]
        fit += ["--epsilon", self._epsilon_of_fit, "--dataset", answers.dataset]
        fit += self._unit_options
        for name, text in answers.heading.items():
            # In one word, since a text may begin with a dash.
            fit.append(f"--{name}={text}")
        self.run(*fit, *self._ledger_option, "--out", answers.out)

    def _read_first_records(self, schema: str) -> None:
        """Reads the first records as the schema says, before anything is registered.

        Raises:
            UserError: if they do not fit it; nothing is spent or held out by then.
        """
        from noisegate.schema.schema import is_linked, read_schema
        from noisegate.sources.sources import open_source
        from noisegate.sources.units import UnitLimit

        described = read_schema(schema)
        if is_linked(described):
            return
        answers = self._answers
        units = None
        if answers.unit_column is not None:
            assert answers.contributions is not None
            units = UnitLimit(
                column=answers.unit_column, contributions=answers.contributions
            )
        source = open_source(answers.data, described, units=units)
        next(iter(source.batches()), None)

    def sample_and_report(self) -> None:
        """Draws synthetic records, writes the pages, and verifies the certificate.

        The last message says the verdict of the fit, and what may be shared.
        """
        answers = self._answers
        synthetic = synthetic_path(answers.out)
        self.run("sample", answers.out, "-n", str(answers.records), "-o", synthetic)
        test_option = [] if answers.test is None else ["--test", str(answers.test)]
        self.run("report", answers.out, "-o", answers.pages, *test_option)
        self.run("verify", answers.out)

        pages = Path(answers.pages)
        message = f"Share {synthetic}, {answers.out} and {pages / 'public.html'}."
        message = f"{self._verdict_of_fit()}{message}"
        if test_option:
            message += f" Look at {pages / 'private.html'}, and keep it private."
        self._asker.say(message)

    def _verdict_of_fit(self) -> str:
        """Returns the verdict of the fit as a sentence, with a blank; "" for none."""
        from noisegate.models.synthesizer import load

        verdict = getattr(load(self._answers.out), "verdict", None)
        return "" if verdict is None else f"Verdict: {verdict.headline} "

    def results(self) -> dict[str, Path]:
        """Returns the files that may be passed on, and the private page, by title."""
        answers = self._answers
        pages = Path(answers.pages)
        results = {
            "Synthetic records": Path(synthetic_path(answers.out)),
            "Certificate": Path(answers.out) / "certificate.md",
            "Public page": pages / "public.html",
        }
        if answers.test is not None:
            results["Private page"] = pages / "private.html"
        return results

    # --- What all steps do. ---

    def run(self, *arguments: str) -> None:
        """Shows a command and runs it.

        It is listed in `commands` if it ends well; `_confirm` reads there whether
        anything was spent.

        Args:
            arguments: The words of the command behind `noisegate`.

        Raises:
            typer.Exit: if it was interrupted.
        """
        command = f"noisegate {shlex.join(map(_shown_argument, arguments))}"
        self._asker.show_command(command)
        exit_code = self._program.main(
            [*arguments], prog_name="noisegate", standalone_mode=False
        )
        # typer turns Ctrl-C into an exit code, and would continue.
        if exit_code:
            raise typer.Exit(exit_code)
        self.commands.append(command)

    def _confirm(self, text: str, file: str = "") -> None:
        """Asks whether to continue; --yes answers each of these questions.

        Args:
            text: The question, without its mark.
            file: A file that is to be read first, or "".

        Raises:
            OptionError: if not; it says what was spent. It is not asked after a fit, so
                a discovery alone can have spent something.
        """
        if self._preset.get("yes") or self._asker.confirm(text, file):
            return
        # A discovery spends when it runs, but for the one that only shows its cost.
        was_discovered = any(
            " discover " in command and " --price" not in command
            for command in self.commands
        )
        if was_discovered:
            raise OptionError(
                f"stopped; {_number_text(self._epsilon_of_bounds)} was spent on "
                f"{_SCHEMA}; to continue: noisegate start --schema {_SCHEMA}"
            )
        raise OptionError(
            "stopped before any budget was spent; the plan is shown above."
        )


def _shown_argument(argument: str) -> str:
    """Returns an argument as it is shown: an address without its password."""
    return address(Path(argument)) or argument


def _number_text(number: float) -> str:
    """Returns a number as it is typed, without the noise of its last bits."""
    return f"{number:.10g}"
