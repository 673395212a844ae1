"""`noisegate infer`: answers with error bars."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noisegate.app.cli.console import OUT, print_json, say, show_progress, table
from noisegate.app.cli.options import Json, RunOptions
from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.answers.answers import Estimate
    from noisegate.app.analyses import Met
    from noisegate.models.synthesizer import Synthesizer
    from noisegate.schema import EncodedTable


def infer_command(
    model: Annotated[Path, typer.Argument(help="Folder of `fit`.")],
    questions: Annotated[
        list[str] | None,
        typer.Argument(
            help="'mean(wage) by sex', 'quantile(wage, 0.9)', 'share(job = nurse)', 'corr(age, wage)', "
            "'wage ~ age + sex', 'logit(ill) ~ age', 'chi2(job, ill)' and others; a wrong one lists them all."
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="A text file with one query per line.")
    ] = None,
    level: Annotated[float, typer.Option(help="Of intervals.")] = 0.95,
    finite: Annotated[
        bool,
        typer.Option(
            "--finite",
            help="About the records themselves, not the population that they are a sample of.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Answer queries with valid confidence intervals, from what was released. Costs no privacy; reads no private data.

    P-values and standard errors of synthetic rows are wrong, however many rows there are. These account for the noise
    of the release, for the sampling of the records and for the width of cells. `fit --for-inference` narrows them.

    Example: `noisegate infer model "mean(wage) by sex" "wage ~ age + sex"`
    """
    from noisegate.answers.infer import infer
    from noisegate.models.synthesizer import Synthesizer

    asked = list(questions or [])
    if file is not None:
        try:
            asked += [
                line.strip()
                for line in file.read_text(encoding="utf-8-sig").splitlines()
                if line.strip()
            ]
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"--file {file} cannot be read: {error}.") from None
    answers = infer(Synthesizer.load(model), *asked, level=level, finite=finite)
    if as_json:
        print_json(
            {
                "level": level,
                "finite": finite,
                "answers": [answer.to_json() for answer in answers],
            }
        )
        return
    for question in dict.fromkeys(answer.question for answer in answers):
        _show(
            [answer for answer in answers if answer.question == question],
            question,
            level,
        )


def _show(answers: list[Estimate], question: str, level: float) -> None:
    shown = [[one.name, *_numbers(one)] for one in answers if one.refused is None]
    tested = any(one.p is not None for one in answers)
    heads = (
        ["chi-squared", "p"]
        if tested
        else ["estimate", f"{level:.0%} from", "to", "by noise", "by sampling"]
    )
    if shown:
        OUT.print(table(question, {"": "left", **dict.fromkeys(heads, "right")}, shown))
    for one in answers:
        if one.refused is not None:
            OUT.print(f"[yellow]{one.name}[/yellow]: {one.refused}.", highlight=False)
    for note in dict.fromkeys(note for one in answers for note in one.notes):
        say(f"{note}.")


def _numbers(answer: Estimate) -> list[str]:
    if answer.p is not None:
        return [f"{answer.value:.4g}", f"{answer.p:.2g}"]
    errors = (
        [f"{answer.noise:.2g}", f"{answer.sampling:.2g}"]
        if answer.noise or answer.sampling
        else ["", ""]
    )
    # As many digits as the interval leaves: the mean of dates is a large number of days.
    low, high = answer.low or 0.0, answer.high or 0.0
    wide, largest = high - low, max(abs(low), abs(high))
    digits = (
        max(4, math.ceil(math.log10(largest / wide)) + 2)
        if 0 < wide < math.inf and largest
        else 4
    )
    return [
        *(f"{one:.{min(digits, 15)}g}" for one in (answer.value, low, high)),
        *errors,
    ]


def copies_command(
    model: Synthesizer, rows: int, number: int, out: Path, seed: int | None
) -> None:
    """Writes a copy of a model and one of each of its refits into one file; see `noisegate.app.copies`."""
    import pyarrow as pa

    from noisegate.app.copies import copies
    from noisegate.models.output.sample_file import table_writer

    made = copies(model, number, rows, seed=seed)
    with (
        table_writer(out, model.schema) as write,
        show_progress("Copies", number + 1) as progress,
    ):
        for place, table in enumerate(made):
            numbered = table.add_column(0, ".id", pa.array(range(1, rows + 1)))
            write(numbered.add_column(0, ".imp", pa.array([place] * rows)))
            progress(place + 1, "")


def price_command(
    wants: list[str],
    stand_in: EncodedTable | None,
    schema: Any,
    options: RunOptions,
    *,
    as_json: bool = False,
) -> None:
    """Prints the least ε that gives answers as exact as they are wanted; see `noisegate.app.analyses`."""
    from noisegate.app.analyses import EPSILONS, SHARES, price, read_want

    if set(options.method_settings) - {"moments_share"}:
        raise OptionError(
            "--want takes no --set but moments_share, and no --analyses; leave out what else is given."
        )
    records = _checked("--want", schema, options)
    asked = [read_want(text, schema) for text in wants]
    with show_progress("Trying", None) as progress:
        found = price(
            asked,
            schema,
            records,
            stand_in=stand_in,
            shares=tuple(
                options.method_settings[name]
                for name in options.method_settings
                if name == "moments_share"
            )
            or SHARES,
            progress=lambda said: progress(0, said),
            delta=options.delta,
            adjacency=options.adjacency,
        )
    if as_json:
        print_json(
            {"epsilon": found.epsilon if found.reached else None, **found.to_json()}
        )
        return
    _show_widths(found.epsilon, found.met)
    if found.reached:
        least = (
            "the least that was tried"
            if found.epsilon == EPSILONS[0]
            else "the least of those tried that do"
        )
        OUT.print(
            f"epsilon = {found.epsilon:g} is {least}:\n  noisegate fit --epsilon {found.epsilon:g} --method pairwise "
            f"--set moments_share={found.moments_share:g}",
            highlight=False,
        )
    else:
        OUT.print(f"No epsilon up to {EPSILONS[-1]:g} does.")
    say(_judged(stand_in))


def widths_command(
    stand_in: EncodedTable | None,
    schema: Any,
    options: RunOptions,
    epsilon: float,
    *,
    as_json: bool,
) -> list[dict[str, Any]]:
    """Returns how exact the answers of --analyses will be, and prints it where JSON is not asked for."""
    from noisegate.app.analyses import Price, expected, read_analyses

    records, asked = (
        _checked("--analyses", schema, options),
        read_analyses(options.analyses or ""),
    )
    budget: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": options.delta,
        "adjacency": options.adjacency,
    }
    with show_progress("Trying", None):
        met = expected(
            asked, schema, records, options.method_settings, stand_in=stand_in, **budget
        )
    if not as_json:
        _show_widths(epsilon, met)
        say(_judged(stand_in))
    told: list[dict[str, Any]] = Price(
        epsilon=epsilon, moments_share=0.0, met=met
    ).to_json()["wants"]
    return told


def _checked(option: str, schema: Any, options: RunOptions) -> int:
    """Returns the public number of records, for which trials are made; an OptionError where they cannot be."""
    from noisegate.methods.registry import AUTO
    from noisegate.schema.schema import is_linked

    if (
        is_linked(schema)
        or schema.images is not None
        or options.method not in (AUTO, "pairwise")
    ):
        raise OptionError(
            f"{option} is of answers of one table by 'pairwise'; leave it out."
        )
    if options.unit_column or options.contributions:
        raise OptionError(
            f"{option} is of one record each; leave out --unit-column and --contributions."
        )
    if (
        options.records is None or options.records > 2_000_000
    ):  # as many stand in for them, in memory
        raise OptionError(
            f"{option} needs --records, about how many the public knows of, up to 2,000,000."
        )
    return options.records


def _show_widths(epsilon: float, met: tuple[Met, ...]) -> None:
    shown = [
        [
            one.want.text,
            *(
                "-" if half is None else f"{half:.3g}"
                for half in (one.want.most, one.half)
            ),
            _verdict(one),
        ]
        for one in met
    ]
    heads = {"answer": "left", "at most": "right", "promised": "right", "": "left"}
    OUT.print(table(f"half widths at epsilon = {epsilon:g}", heads, shown))


def _judged(stand_in: EncodedTable | None) -> str:
    made_up = (
        "made-up records: numbers even between their bounds, levels equally common"
    )
    judges = made_up if stand_in is None else "public records"
    return f"Judged by {judges}. Where records vary more, intervals are wider."


def _verdict(one: Met) -> str:
    if one.met:
        return "" if one.want.most is None else "met"
    return "no answer" if one.records is None else f"with about {one.records:,} records"
