"""``rankcorr(x, y)``: Spearman's correlation, from a table of counts.

Ranks do not mind how long the tail of a number is, so a default release answers for
amounts whose moments are too noisy. Records of one cell share its middle rank. With u
and v such ranks, as shares of all records, the correlation is

    ρ = c · Cov(u, v) / √(Var u · Var v),    c = 1 / √(r_u · r_v)

Here r is the part of the variance of ranks that lies between cells: 1 − Σ pᵢ³ / 12 over
Var u, with p the shares of cells that hold several values. It is what the grouping of a
column hides (as in Kendall and Gibbons, *Rank Correlation Methods*, 1990, chapter 3,
where ties are real). Half of the correction counts as an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisegate.answers.domain import Floats, Level, NumberRange
from noisegate.answers.estimates import (
    Estimate,
    Intervals,
    estimate,
    spread_of_table,
)
from noisegate.answers.evidence import Evidence
from noisegate.answers.noisy_table import NoisyTable
from noisegate.answers.questions.question import Question, register
from noisegate.answers.questions.tables import QuestionOfTwoColumns, counts_together

# How much of the correction for what cells hide may be wrong, as a standard deviation.
_CORRECTION_ERROR = 0.5
# Cells of which fewer records have a number hold sentinels.
_MIN_PRESENT = 0.5


@register("rankcorr")
@dataclass(frozen=True, kw_only=True)
class RankCorrelation(QuestionOfTwoColumns):
    """Spearman's correlation of two columns that have an order.

    Each is a number, a column of ordered levels, or one with two levels.
    """

    forms = ("rankcorr(x, y)",)
    percent_of = "one"
    rests_on = "tables"
    limits_count_as = "ends"

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the correlation, over the records that have both values."""
        for column in self.columns:
            _require_order(self, evidence, column)
        table = counts_together(self, evidence, self.columns)
        rows, columns = (_ordered_cells(evidence, table, name) for name in self.columns)
        index = np.ix_(rows.indices, columns.indices)
        ranked_counts = NoisyTable(
            table.domain.with_cells(self.first, rows.cells).with_cells(
                self.second, columns.cells
            ),
            table.counts[index],
            table.variance[index],
        )

        def correlation(counts: Floats) -> Floats:
            shares = counts.reshape(len(rows.cells), len(columns.cells)) / counts.sum()
            row_ranks = _Ranks.of(shares.sum(axis=1), rows.is_grouped)
            column_ranks = _Ranks.of(shares.sum(axis=0), columns.is_grouped)
            covariance = row_ranks.centred @ shares @ column_ranks.centred
            hidden = row_ranks.part_between * column_ranks.part_between
            variances = row_ranks.variance * column_ranks.variance
            with np.errstate(invalid="ignore"):
                return np.array([[covariance], [np.sqrt(hidden * variances)]])

        answers = estimate(
            self.text,
            [self.text],
            correlation,
            spread_of_table(ranked_counts, intervals),
            intervals,
        )
        marginals = ranked_counts.counts / max(float(ranked_counts.counts.sum()), 1.0)
        row_ranks = _Ranks.of(marginals.sum(axis=1), rows.is_grouped)
        column_ranks = _Ranks.of(marginals.sum(axis=0), columns.is_grouped)
        between = row_ranks.part_between * column_ranks.part_between
        correction = abs(1 - float(np.sqrt(max(between, 0.0))))
        return [
            answer.with_error(
                _CORRECTION_ERROR * correction * abs(answer.value or 0.0), intervals.z
            )
            for answer in answers
        ]


class _OrderedCells(NamedTuple):
    """The cells of a column that have a rank, in ascending order.

    Attributes:
        indices: Their indices among all cells, (kept,).
        cells: What they hold, (kept,).
        is_grouped: Whether a cell holds several values, whose ranks differ, (kept,).
    """

    indices: npt.NDArray[np.intp]
    cells: tuple[Level, ...]
    is_grouped: npt.NDArray[np.bool_]


class _Ranks(NamedTuple):
    """Ranks of cells as shares of all records.

    Attributes:
        centred: The middle rank of each cell, less the mean of all, (cells,).
        variance: The variance of the ranks of records.
        part_between: The part of it that lies between cells.
    """

    centred: Floats
    variance: float
    part_between: float

    @classmethod
    def of(cls, shares: Floats, is_grouped: npt.NDArray[np.bool_]) -> _Ranks:
        """Returns the ranks of cells with some shares, ascending.

        Args:
            shares: Shares of the records, (cells,); they sum to 1.
            is_grouped: Whether a cell holds several values, (cells,).

        Examples:
            >>> import numpy as np
            >>> from noisegate.answers.questions.rank_correlation import _Ranks
            >>> ranks = _Ranks.of(np.array([0.5, 0.5]), np.array([False, False]))
            >>> ranks.centred, ranks.variance, ranks.part_between
            (array([-0.25,  0.25]), 0.0625, 1.0)
        """
        middle = np.cumsum(shares) - shares / 2
        centred = middle - shares @ middle
        between = float(shares @ np.square(centred))
        within = float((shares**3)[is_grouped].sum()) / 12
        variance = between + within
        part = between / variance if variance > 0 else float("nan")
        return cls(centred, variance, part)


def _require_order(question: Question, evidence: Evidence, column: str) -> None:
    """Requires a number, ordered levels or two levels; an OptionError if not."""
    if evidence.numeric_column(column) is not None:
        return
    coded = next(one for one in evidence.layout.coded if one.name == column)
    if coded.kind != "ordinal" and len(coded.levels) > 2:
        raise question.error(
            f": {column!r} has levels without an order; a number, a column of kind "
            "ordinal or one with two levels is expected."
        )


def _ordered_cells(evidence: Evidence, table: NoisyTable, column: str) -> _OrderedCells:
    """Returns the cells that have a rank: no missing values or sentinels."""
    cells = table.domain.by_name[column]
    number_column = evidence.numeric_column(column)
    if number_column is None:
        has_rank = [cell is not None for cell in cells]
    else:
        presence = evidence.presence(column)
        has_rank = [
            isinstance(cell, NumberRange)
            and (
                presence[index] >= _MIN_PRESENT
                or number_column.limit_of(cell.low) is not None
            )
            for index, cell in enumerate(cells)
        ]
    indices = np.flatnonzero(has_rank)
    kept_cells = tuple(cells[index] for index in indices)
    return _OrderedCells(
        indices=indices,
        cells=kept_cells,
        is_grouped=np.array(
            [
                isinstance(cell, NumberRange) and cell.low != cell.high
                for cell in kept_cells
            ]
        ),
    )
