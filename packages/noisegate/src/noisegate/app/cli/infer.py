"""`noisegate infer`: answers with error bars.

An answer is an estimate with its confidence interval, or a test with its p-value; a
query has one for each group, coefficient or pair. Those of one query are one table,
with what is too noisy below it::

    mean(age) by job
                   estimate  95% from     to  by noise  by sampling
    ───────────────────────────────────────────────────────────────
    job = nurse       54.34     52.51  56.17      0.45         0.65
    job = teacher        54     52.18  55.81      0.46         0.65
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noisegate.app.cli.console import OUT, print_json, say, table
from noisegate.app.cli.options import Json
from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.answers.estimates import Estimate


def infer_command(
    model: Annotated[Path, typer.Argument(help="Folder of `fit`.")],
    questions: Annotated[
        list[str] | None,
        typer.Argument(
            help="'mean(wage) by sex', 'quantile(wage, 0.9)', 'share(job = nurse)', "
            "'corr(age, wage)', 'wage ~ age + sex', 'logit(ill) ~ age', 'chi2(job, "
            "ill)' and others; a wrong one lists them all."
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
            help="About the records themselves, not the population that they are a "
            "sample of.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Answer queries with valid confidence intervals, from what was released. Costs no privacy; reads no private data.

    The intervals account for the noise of the release, the sampling of the records and
    the width of bins. P-values and standard errors computed on synthetic rows are
    wrong, however many rows there are. `fit --for-inference` narrows them.

    Example: `noisegate infer model "mean(wage) by sex" "wage ~ age + sex"`
    """
    from noisegate.answers.infer import infer
    from noisegate.models.synthesizer import Synthesizer

    queries = list(questions or [])
    if file is not None:
        queries += _read_queries(file)
    answers = infer(Synthesizer.load(model), *queries, level=level, finite=finite)
    if as_json:
        print_json(
            {
                "level": level,
                "finite": finite,
                "answers": [answer.to_json() for answer in answers],
            }
        )
        return
    answers_by_question: dict[str, list[Estimate]] = {}
    for answer in answers:
        answers_by_question.setdefault(answer.question, []).append(answer)
    for question, its_answers in answers_by_question.items():
        _show_answers(question, its_answers, level)


def _read_queries(file: Path) -> list[str]:
    """Reads a text file with one query per line; blank lines are left out."""
    try:
        # As of Windows editors, which write a byte order mark.
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"--file {file} cannot be read: {error}.") from None
    return [line.strip() for line in text.splitlines() if line.strip()]


def _show_answers(question: str, answers: list[Estimate], level: float) -> None:
    """Prints the answers to one query: a table, why others are missing, and notes.

    Args:
        question: The query.
        answers: Its answers, one or more.
        level: Of the intervals, between 0 and 1.
    """
    rows = [
        [answer.name, *_answer_cells(answer)]
        for answer in answers
        if answer.refused is None
    ]
    is_test = any(answer.p is not None for answer in answers)
    if is_test:
        headings = ["chi-squared", "p"]
    else:
        headings = ["estimate", f"{level:.0%} from", "to", "by noise", "by sampling"]
    if rows:
        sides = {"": "left", **dict.fromkeys(headings, "right")}
        OUT.print(table(question, sides, rows))
    for answer in answers:
        if answer.refused is not None:
            OUT.print(
                f"[yellow]{answer.name}[/yellow]: {answer.refused}.", highlight=False
            )
    notes = [note for answer in answers for note in answer.notes]
    for note in dict.fromkeys(notes):
        say(f"{note}.")


def _answer_cells(answer: Estimate) -> list[str]:
    """Returns the figures of an answer, as text.

    Args:
        answer: An answer that was not refused.

    Returns:
        Of a test the statistic and its p-value. Else the estimate, both ends of its
        interval, and its standard errors by noise and by sampling, empty if both are 0.
    """
    if answer.p is not None:
        return [f"{answer.value:.4g}", f"{answer.p:.2g}"]
    low = answer.low or 0.0
    high = answer.high or 0.0
    digits = _significant_digits(low, high)
    ends = [f"{number:.{digits}g}" for number in (answer.value, low, high)]
    has_errors = bool(answer.noise or answer.sampling)
    errors = ["", ""]
    if has_errors:
        errors = [f"{answer.noise:.2g}", f"{answer.sampling:.2g}"]
    return [*ends, *errors]


def _significant_digits(low: float, high: float) -> int:
    """Returns how many digits of an estimate its interval leaves, from 4 to 15.

    The mean of dates is a large number of days: of the interval 18,000.1 to 18,000.9
    with 4 digits both ends would be 18000, while 7 digits show them.

    Args:
        low: Lower end of the interval.
        high: Upper end.
    """
    width = high - low
    largest = max(abs(low), abs(high))
    if not 0 < width < math.inf or not largest:
        return 4
    digits = math.ceil(math.log10(largest / width)) + 2
    return min(max(4, digits), 15)
