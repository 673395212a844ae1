"""``chi2(a, b)``, ``odds(a, b)`` and ``crosstab(a, b)``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from noisegate.answers.crosstab import crosstab
from noisegate.answers.domain import Floats, Level, NumberRange
from noisegate.answers.estimates import (
    TOO_NOISY,
    Estimate,
    Intervals,
    estimate,
    spread_of_table,
)
from noisegate.answers.evidence import Evidence, NotMeasuredError
from noisegate.answers.noisy_table import NoisyTable
from noisegate.answers.questions.question import (
    Question,
    column_name,
    level_text,
    parse_call,
    register,
    require_distinct,
)

# Tables that are drawn as if the columns were independent.
_NULL_DRAWS = 1999


@dataclass(frozen=True, kw_only=True)
class QuestionOfTwoColumns(Question):
    """A question about two columns, written as a call of its name, as ``odds(a, b)``.

    Attributes:
        first: A column.
        second: Another one.
    """

    first: str
    second: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parses the question; None if it is another."""
        call = parse_call(text, cls.name)
        if call is None or call.groups or len(call.arguments) != 2:
            return None
        first, second = call.arguments
        return cls(text=text, first=column_name(first), second=column_name(second))

    @property
    def columns(self) -> tuple[str, ...]:
        """Both columns."""
        return self.first, self.second


@register("odds")
@dataclass(frozen=True, kw_only=True)
class OddsRatio(QuestionOfTwoColumns):
    """The odds ratio of two columns with two levels each."""

    forms = ("odds(a, b)",)
    limits_count_as = "groups"

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the odds ratio; its interval is that of its logarithm."""
        table = counts_together(self, evidence, self.columns)
        if table.domain.shape != (2, 2):
            raise self.error(": an odds ratio needs two columns with two levels each.")
        spread = spread_of_table(table, intervals)
        answers = estimate(self.text, [self.text], _log_odds_ratio, spread, intervals)
        return [answer.exponential() for answer in answers]


@register("chi2")
@dataclass(frozen=True, kw_only=True)
class Independence(QuestionOfTwoColumns):
    """Pearson's test of the independence of two columns, with noise in its null."""

    forms = ("chi2(a, b)",)
    limits_count_as = "groups"

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the statistic and its p-value."""
        table = counts_together(self, evidence, self.columns)
        if 1 in table.domain.shape:
            raise self.error(": a test needs two columns with two levels or more each.")
        result = independence_test(table, intervals)
        if result is None:
            return self.refused(f"{TOO_NOISY}: no count exceeds the noise")
        return [
            Estimate(
                question=self.text,
                name=self.text,
                value=result.statistic,
                p=result.p_value,
                notes=("chi-squared, noise in its null",),
            )
        ]


@register("crosstab")
@dataclass(frozen=True, kw_only=True)
class CrossTabulation(QuestionOfTwoColumns):
    """The share of all records in each cell of two columns."""

    forms = ("crosstab(a, b)",)
    limits_count_as = "groups"
    unit_columns = "all"  # answers are named by their cells

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the share in each cell."""
        check_columns(self, evidence, self.columns)
        try:
            shares = crosstab(
                evidence.measurements,
                self.first,
                self.second,
                level=intervals.level,
                finite=intervals.finite,
            )
        except LookupError:
            raise _not_measured_together(self, self.columns) from None
        if shares is None:
            return self.refused(
                f"{TOO_NOISY}: the number of records does not exceed the noise"
            )
        row_cells, column_cells = shares.domain.cells
        return [
            Estimate(
                question=self.text,
                name=f"{self.first} = {cell_text(evidence, self.first, row_cell)}, "
                f"{self.second} = {cell_text(evidence, self.second, column_cell)}",
                value=float(shares.shares[i, j]),
                low=float(shares.low[i, j]),
                high=float(shares.high[i, j]),
                noise=float(shares.noise[i, j]),
                sampling=float(shares.sampling[i, j]),
            )
            for i, row_cell in enumerate(row_cells)
            for j, column_cell in enumerate(column_cells)
        ]


def check_columns(
    question: Question, evidence: Evidence, columns: Sequence[str]
) -> None:
    """Requires that columns exist, and that none is named twice."""
    for name in columns:
        evidence.check_column(name)
    require_distinct(question, columns)


def counts_together(
    question: Question, evidence: Evidence, columns: Sequence[str]
) -> NoisyTable:
    """Returns the counts of some columns.

    Raises:
        OptionError: if there is no such column, or one is named twice.
        NotMeasuredError: if no table holds them all.
    """
    check_columns(question, evidence, columns)
    try:
        return evidence.measurements.best(columns)
    except LookupError:
        raise _not_measured_together(question, columns) from None


def _not_measured_together(
    question: Question, columns: Sequence[str]
) -> NotMeasuredError:
    """Returns the error for columns that no table of the release holds together."""
    names = " and ".join(repr(name) for name in columns)
    return NotMeasuredError(
        f"query {question.text!r}: {names} were not measured together in a table; "
        "those of two columns and the label of the schema are, by the default method."
    )


class IndependenceTest(NamedTuple):
    """The result of a test.

    Attributes:
        statistic: How far the counts are from independence.
        p_value: How often they are as far under independence.
    """

    statistic: float
    p_value: float


def independence_test(
    table: NoisyTable, intervals: Intervals
) -> IndependenceTest | None:
    """Tests whether two columns are independent, with noise in the null.

    The null is simulated: tables with the margins of the noisy one, records drawn from
    them unless the records themselves are asked about, and noise added again.

    Args:
        table: Noisy counts of two columns.
        intervals: Say whether the records themselves are asked about.

    Returns:
        The result; None if no count exceeds the noise.
    """
    counts = table.counts
    records = max(float(counts.sum()), 1.0)
    products = np.maximum(np.outer(counts.sum(axis=1), counts.sum(axis=0)), 0)
    if products.sum() <= 0:
        return None
    shares = products / products.sum()
    random = np.random.default_rng(0)
    null_shape = (_NULL_DRAWS, *counts.shape)
    drawn = random.multinomial(round(records), shares.ravel(), size=_NULL_DRAWS)
    null_counts = drawn.reshape(null_shape).astype(np.float64)
    if intervals.finite:
        null_counts = np.broadcast_to(records * shares, null_shape)
    noise = random.normal(scale=np.sqrt(table.variance), size=null_shape)
    null_statistics = _chi_squares(null_counts + noise, table.variance)
    statistic = float(_chi_squares(counts[None], table.variance)[0])
    n_as_far = int((null_statistics >= statistic).sum())
    return IndependenceTest(statistic, (1 + n_as_far) / (_NULL_DRAWS + 1))


def _chi_squares(tables: Floats, variance: Floats) -> Floats:
    """Returns how far noisy tables are from independence.

    Args:
        tables: Counts, (tables, rows, columns).
        variance: Variance of the noise on each count, (rows, columns).
    """
    totals = np.maximum(tables.sum(axis=(1, 2), keepdims=True), 1.0)
    row_sums = tables.sum(axis=2, keepdims=True)
    column_sums = tables.sum(axis=1, keepdims=True)
    expected = row_sums * column_sums / totals
    squares = (tables - expected) ** 2 / (np.maximum(expected, 0) + variance)
    return np.asarray(squares.sum(axis=(1, 2)))


def _log_odds_ratio(counts: Floats) -> Floats:
    """Returns the log odds ratio of four counts; NaN unless all are positive."""
    with np.errstate(all="ignore"):
        logarithms = np.log(np.where(counts > 0, counts, np.nan))
    return np.array([logarithms @ np.array([1.0, -1.0, -1.0, 1.0])])


def cell_text(evidence: Evidence, column: str, cell: Level) -> str:
    """Returns a cell in words: a level, a limit, "18 to 29", or "missing"."""
    if not isinstance(cell, NumberRange):
        return level_text(cell)
    low = evidence.limit_text(column, cell.low) or f"{cell.low:.6g}"
    if cell.low == cell.high:
        return low
    high = evidence.limit_text(column, cell.high) or f"{cell.high:.6g}"
    return f"{low} to {high}"
