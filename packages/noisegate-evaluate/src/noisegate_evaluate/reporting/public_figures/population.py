"""Shares and means of the population on a public page: by survey weights, from the release alone."""

from __future__ import annotations

from collections.abc import Iterator

from noisegate.answers.estimates import Estimate, Intervals
from noisegate.answers.evidence import NotMeasuredError, evidence_of
from noisegate.answers.infer import answer_question
from noisegate.answers.questions.question import Question, level_text
from noisegate.answers.questions.weighted import WeightedMean, WeightedShare
from noisegate.errors import OptionError
from noisegate.models.synthesizer import Synthesizer
from noisegate.schema import Schema
from noisegate_evaluate.reporting.charts import number, percent
from noisegate_evaluate.reporting.figure import Data, Figure
from noisegate_evaluate.reporting.public import PublicPage

# Columns with more levels are left out of a page, and so is what follows so many rows.
_MAX_LEVELS = 12
_MAX_ROWS = 60


def population_rows(model: Synthesizer) -> list[tuple[str, str, str]]:
    """Estimates the weighted share of each level and the weighted mean of each number.

    Args:
        model: A model of one table.

    Returns:
        Of each what it is, the estimate, and its 95 % interval, or why there is none;
        nothing if the schema names no survey weights, or the release counts nothing.
    """
    if model.schema.weights is None:
        return []
    try:
        evidence = evidence_of(model)
    except OptionError:
        # The method releases no counts, such as one of random features.
        return []
    intervals = Intervals(level=0.95, finite=False)
    rows: list[tuple[str, str, str]] = []
    for question in _questions(model.schema):
        try:
            answers = answer_question(question, evidence, intervals)
        except NotMeasuredError:
            # The column was not measured together with the weights.
            answers = question.refused("not measured together with the weights")
        rows += [_row(question, answer) for answer in answers]
        if len(rows) >= _MAX_ROWS:
            break
    return rows


def _questions(schema: Schema) -> Iterator[Question]:
    """Yields the questions about columns that are measured, in their order."""
    for column in schema.coordinates.columns:
        if column.name == schema.weights:
            continue
        if column.numeric:
            if column.unit is not None:
                # A mean of dates is a number of days, which tells a reader little.
                continue
            text = f"mean of {column.name}"
            yield WeightedMean(text=text, column=column.name)
        elif len(column.levels) <= _MAX_LEVELS:
            for level in column.levels:
                text = f"{column.name} = {level_text(level)}"
                yield WeightedShare(text=text, column=column.name, level=str(level))


def _row(question: Question, answer: Estimate) -> tuple[str, str, str]:
    """Returns the row of an answer to a question."""
    if answer.value is None or answer.low is None or answer.high is None:
        return answer.name, "–", answer.refused or ""
    in_words = number if isinstance(question, WeightedMean) else percent
    interval = f"{in_words(answer.low)} to {in_words(answer.high)}"
    return answer.name, in_words(answer.value), interval


def _population(page: PublicPage) -> Data | None:
    """Returns the rows of the table; None where there are none."""
    if not isinstance(page.model, Synthesizer):
        return None
    rows = population_rows(page.model)
    return {"rows": rows} if rows else None


POPULATION = Figure(
    place=70,
    needs=("weights",),
    data=_population,
    template="""
<section class="screen">
<h2>The population</h2>
<p>Shares and means weighted by <code>{{ page.weights }}</code>, from the release alone,
with 95 % intervals that account for the noise and for sampling. They ignore strata and
clusters of the survey, which may widen them.</p>
{{ table(["", "estimate", "95 % interval"], rows, "Shares and means of the population") }}
</section>
""",
)
