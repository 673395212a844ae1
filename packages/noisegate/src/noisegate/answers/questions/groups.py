"""Groups that second moments do not tell apart: of two columns, and of whole numbers.

Second moments have sums for each level of one column. Where groups are the levels of
two columns, or the values of a number, answers come from a table that holds all of the
columns: in each of its cells a number stands for the mean of the cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from noisegate.answers.domain import Floats, Level, NumberRange
from noisegate.answers.estimates import (
    Estimate,
    Intervals,
    Spread,
    estimate,
    spread_of_table,
)
from noisegate.answers.evidence import Evidence, NotMeasuredError
from noisegate.answers.noisy_table import NoisyTable
from noisegate.answers.questions.question import Question, level_text
from noisegate.answers.questions.sums import quotients_and_differences
from noisegate.answers.questions.tables import counts_together


def needs_table(evidence: Evidence, groups: Sequence[str]) -> bool:
    """Tells whether groups are other than the levels of one column, or all records."""
    if len(groups) == 1:
        return evidence.numeric_column(groups[0]) is not None
    return len(groups) > 1


def mean_by_table(
    question: Question,
    evidence: Evidence,
    intervals: Intervals,
    column: str,
    groups: Sequence[str],
) -> list[Estimate]:
    """Estimates the mean of a number in each group, by a table of all columns.

    Args:
        question: The question.
        evidence: What the release says.
        intervals: Which intervals are wanted.
        column: The number.
        groups: The columns of the groups.
    """
    names = _group_names(question, evidence, groups)
    table = counts_together(question, evidence, [column, *groups])
    cells = table.domain.by_name[column]
    n_present = sum(isinstance(cell, NumberRange) for cell in cells)
    present = NoisyTable(
        table.domain.with_cells(column, cells[:n_present]),
        table.counts[:n_present],
        table.variance[:n_present],
    )
    scores = evidence.number_scores(column)
    presence = evidence.presence(column)[:n_present]

    def means(values: Floats) -> Floats:
        counts = values[:-n_present].reshape(n_present, -1)
        cell_means = values[-n_present:]
        return _by_group(cell_means @ counts, presence @ counts, len(groups))

    # The means of cells are values too, with errors of their own.
    counts_spread = spread_of_table(present, intervals)
    n_counts = len(counts_spread.values)
    n_values = n_counts + n_present
    # The counts alone have noise.
    noise = np.zeros((n_values, n_counts))
    noise[:n_counts] = counts_spread.noise
    bias = np.zeros((n_values, n_present))
    bias[n_counts:] = np.diag(scores.errors[:n_present])
    sampling = np.zeros((n_values, n_values))
    if not intervals.finite:
        sampling[:n_counts, :n_counts] = counts_spread.sampling
        records = np.maximum(present.counts.reshape(n_present, -1).sum(axis=1), 1.0)
        within = scores.deviations[:n_present] ** 2 / records
        sampling[n_counts:, n_counts:] = np.diag(within)
    spread = Spread(
        values=np.append(counts_spread.values, scores.means[:n_present]),
        noise=noise,
        bias=bias,
        sampling=sampling,
    )
    return estimate(question.text, names, means, spread, intervals)


def counts_with_cell(
    question: Question, evidence: Evidence, columns: Sequence[str], cell: NumberRange
) -> tuple[NoisyTable, int]:
    """Returns counts of which one is of a cell of the first column alone.

    Args:
        question: For the message.
        evidence: What the release says.
        columns: The number, and the columns of groups if any.
        cell: The cell, such as that of a limit.

    Returns:
        The counts of all columns, or of the number on finer cells; and the index of the
        cell.

    Raises:
        NotMeasuredError: if the cell was counted together with others only.
    """
    tables = [counts_together(question, evidence, columns)]
    if len(columns) == 1:
        tables += evidence.measurements.histograms(columns[0])
    for table in tables:
        cells = table.domain.cells[0]
        if cell in cells:
            return table, cells.index(cell)
    text = evidence.limit_text(columns[0], cell.low)
    raise NotMeasuredError(
        f"query {question.text!r}: {text!r} was counted in one bin with its "
        "neighbours, because the noise is large; fit with a larger epsilon."
    )


def share_by_table(
    question: Question,
    evidence: Evidence,
    intervals: Intervals,
    column: str,
    position: int,
    groups: Sequence[str],
) -> list[Estimate]:
    """Estimates the share of a level in each group, by a table of all columns.

    Args:
        question: The question.
        evidence: What the release says.
        intervals: Which intervals are wanted.
        column: The column with the level.
        position: Index of the level.
        groups: The columns of the groups.
    """
    table = counts_together(question, evidence, [column, *groups])
    return share_in_table(question, evidence, intervals, table, position, groups)


def share_in_table(
    question: Question,
    evidence: Evidence,
    intervals: Intervals,
    table: NoisyTable,
    position: int,
    groups: Sequence[str],
) -> list[Estimate]:
    """Estimates the share of one cell in each group.

    Args:
        question: The question.
        evidence: What the release says.
        intervals: Which intervals are wanted.
        table: Counts, of which the first column has the cell.
        position: Index of the cell.
        groups: The other columns of the table; none for all records.
    """
    names = _group_names(question, evidence, groups) if groups else [question.text]
    n_levels = table.domain.shape[0]

    def shares(values: Floats) -> Floats:
        counts = values.reshape(n_levels, -1)
        return _by_group(counts[position], counts.sum(axis=0), len(groups))

    spread = spread_of_table(table, intervals)
    return estimate(question.text, names, shares, spread, intervals)


def _by_group(numerators: Floats, denominators: Floats, n_columns: int) -> Floats:
    """Returns the quotients of groups, of one column with differences to the first."""
    if n_columns == 1:
        return quotients_and_differences(numerators, denominators)
    return np.stack([numerators, denominators])


def _group_names(
    question: Question, evidence: Evidence, groups: Sequence[str]
) -> list[str]:
    """Returns what estimates are of: groups, of one column with their differences.

    Raises:
        OptionError: if a column is a number of which cells hold several values.
    """
    names = names_of_groups(question, evidence, groups)
    if len(groups) > 1:
        return names
    differences = [f"difference of {name} to {names[0]}" for name in names[1:]]
    return [*names, *differences]


def names_of_groups(
    question: Question, evidence: Evidence, groups: Sequence[str]
) -> list[str]:
    """Returns what each group is called, such as "sex = f, ill = true".

    Raises:
        OptionError: if a column is a number of which cells hold several values.
    """
    names_of_columns = [
        [
            f"{name} = {_value_text(evidence, name, cell)}"
            for cell in _group_cells(question, evidence, name)
        ]
        for name in groups
    ]
    return [", ".join(parts) for parts in product(*names_of_columns)]


def _group_cells(
    question: Question, evidence: Evidence, name: str
) -> tuple[Level, ...]:
    """Returns the cells of a column, each of which must hold one value."""
    evidence.check_column(name)
    cells = evidence.measurements.domain.by_name[name]
    for cell in cells:
        if isinstance(cell, NumberRange) and cell.low != cell.high:
            raise question.error(
                f": {name!r} is a number; a column with levels is expected there, or a "
                "whole number of which each value was counted."
            )
    return cells


def _value_text(evidence: Evidence, column: str, cell: Level) -> str:
    """Returns a cell of one value as text."""
    if isinstance(cell, NumberRange):
        return evidence.limit_text(column, cell.low) or f"{cell.low:g}"
    return level_text(cell)
