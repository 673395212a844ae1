"""What a release says of columns and pairs, beside records drawn from its model.

Counts become shares of the records. Each has the noise of the release, and the records
that were drawn vary by chance, so a difference within two standard deviations of both
together is no difference.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from noisegate.answers.domain import Floats, Level, NumberRange, cell_indices
from noisegate.answers.measurements import Measurements
from noisegate.answers.noisy_table import NoisyNumber, NoisyTable
from noisegate.schema import (
    CodedColumn,
    Column,
    EncodedTable,
    Layout,
    NumericColumn,
)
from noisegate.schema.layout import bounds_of

MISSING = "(missing)"
# A cell of a real number that is narrower than this part of the column's range shows
# one number.
_MIN_SHOWN_WIDTH = 1e-9
# Ends of cells are shown at this precision, in parts of the range: what rounding adds
# to 0.1 is not shown.
_DIGITS_OF_RANGE = 12
# The mean of |z| of a standard normal z.
_MEAN_ABSOLUTE = math.sqrt(2 / math.pi)
# Allows for rounding where noise is 0.
_TOLERANCE = 1e-12


@dataclass(frozen=True, kw_only=True)
class MeasuredTable:
    """A table of some columns, cell by cell, in shares of the records.

    Attributes:
        columns: The columns.
        cells: Name of each cell.
        measured: Shares as released, with noise, (cells,).
        noise_std: Standard deviation of the noise on each.
        synthetic: Shares of the synthetic records, (cells,).
        drawn: Number of these records.
        misplaced: The share of the records that noise alone puts into a wrong cell, in
            the mean, before anything is denoised.
    """

    columns: tuple[Column, ...]
    cells: Sequence[str]
    measured: Floats
    noise_std: float
    synthetic: Floats
    drawn: int
    misplaced: float

    @property
    def name(self) -> str:
        """Names of the columns."""
        return " × ".join(column.name for column in self.columns)

    @property
    def variance(self) -> Floats:
        """Variance of each difference by the noise and by the draw, (cells,)."""
        by_draw = self.synthetic * (1 - self.synthetic) / max(self.drawn, 1)
        return self.noise_std**2 + by_draw

    @property
    def explained(self) -> int:
        """How many cells differ by no more than two standard deviations."""
        differences = np.abs(self.measured - self.synthetic)
        is_explained = differences <= 2 * np.sqrt(self.variance) + _TOLERANCE
        return int(is_explained.sum())


@dataclass(frozen=True, kw_only=True)
class PairError:
    """What noise alone does to the table of a pair of columns.

    Attributes:
        columns: Names of the columns.
        cells: Number of cells.
        misplaced: The share of the records that it puts into a wrong cell.
    """

    columns: tuple[str, str]
    cells: int
    misplaced: float


def released_total(measurements: Measurements) -> NoisyNumber | None:
    """Returns how many records there are; None where nothing says."""
    if measurements.known_total is None and not measurements.columns:
        return None
    return measurements.total


def divisor(measurements: Measurements) -> float:
    """Returns what counts are divided by to be shares: the records, at least 1."""
    total = released_total(measurements)
    return 1.0 if total is None else max(total.value, 1.0)


def measured_columns(
    measurements: Measurements, layout: Layout, drawn: EncodedTable
) -> list[MeasuredTable]:
    """Returns every column that was measured, in the order of the layout.

    Args:
        measurements: All that the release states.
        layout: The columns.
        drawn: Records of the model.
    """
    records = divisor(measurements)
    return [
        _measured_table(measurements.best((name,)), layout, drawn, records)
        for name in measurements.columns
    ]


def measured_tables(
    measurements: Measurements, layout: Layout, drawn: EncodedTable, *, records: float
) -> list[MeasuredTable]:
    """Returns every table as it was released.

    Args:
        measurements: Tables of a release.
        layout: The columns.
        drawn: Records of the model.
        records: How many records there are.
    """
    return [
        _measured_table(table, layout, drawn, records, separator=" · ")
        for table in measurements.tables
    ]


def unexplained_error(tables: Sequence[MeasuredTable]) -> float:
    """Returns the root mean square error of a cell, in shares, beyond noise and draw."""
    squares = [
        np.square(table.measured - table.synthetic) - table.variance for table in tables
    ]
    return math.sqrt(max(float(np.concatenate(squares).mean()), 0.0))


def pair_errors(measurements: Measurements) -> list[PairError]:
    """Returns what noise does to every pair of columns that was measured together."""
    records = divisor(measurements)
    errors = []
    for pair in measurements.pairs:
        table = measurements.best(pair)
        errors.append(
            PairError(
                columns=pair,
                cells=table.domain.size,
                misplaced=_misplaced(table, records),
            )
        )
    return errors


def error_matrix(names: Sequence[str], errors: Sequence[PairError]) -> Floats:
    """Returns errors as a symmetric matrix, (names, names); NaN where not measured."""
    index_of = {name: index for index, name in enumerate(names)}
    matrix = np.full((len(names), len(names)), math.nan)
    for error in errors:
        first, second = (index_of[name] for name in error.columns)
        matrix[first, second] = error.misplaced
        matrix[second, first] = error.misplaced
    return matrix


def _measured_table(
    table: NoisyTable,
    layout: Layout,
    drawn: EncodedTable,
    records: float,
    *,
    separator: str = "",
) -> MeasuredTable:
    """Returns a table beside the records that were drawn.

    Args:
        table: Counts.
        layout: The columns.
        drawn: Records of the model.
        records: What counts are divided by.
        separator: Between the names of the cells of several columns.
    """
    columns = [_column(layout, name) for name in table.domain.names]
    cells_of_columns = [
        cell_names(column, cells)
        for column, cells in zip(columns, table.domain.cells, strict=True)
    ]
    # A long name is cut at its end, so what is short comes first.
    axes = sorted(
        range(len(columns)), key=lambda axis: max(map(len, cells_of_columns[axis]))
    )
    names = [
        separator.join(cell[axis] for axis in axes)
        for cell in product(*cells_of_columns)
    ]
    indices = [
        _cells_of_records(layout, name, cells, drawn)
        for name, cells in zip(table.domain.names, table.domain.cells, strict=True)
    ]
    flat_indices = np.ravel_multi_index(indices, table.domain.shape)
    synthetic_counts = np.bincount(flat_indices, minlength=table.domain.size)
    return MeasuredTable(
        columns=tuple(columns),
        cells=numbered(names),
        measured=table.counts.ravel() / records,
        noise_std=_noise_std(table) / records,
        synthetic=synthetic_counts / max(len(drawn), 1),
        drawn=len(drawn),
        misplaced=_misplaced(table, records),
    )


def _noise_std(table: NoisyTable) -> float:
    """Returns the largest standard deviation of the noise on a count."""
    return math.sqrt(float(table.variance.max()))


def _misplaced(table: NoisyTable, records: float) -> float:
    """Returns the share of the records that noise puts into a wrong cell, on average.

    A record in a wrong cell is one too many there and one too few in its own.
    """
    absolute_error = _noise_std(table) * table.domain.size * _MEAN_ABSOLUTE
    return min(absolute_error / 2 / records, 1.0)


def _column(layout: Layout, name: str) -> Column:
    """Returns a column by its name."""
    return next(
        column for column in (*layout.numeric, *layout.coded) if column.name == name
    )


def _cells_of_records(
    layout: Layout, name: str, cells: Sequence[Level], records: EncodedTable
) -> npt.NDArray[np.intp]:
    """Returns the index of each record's cell in a column, (records,)."""
    for index, numeric in enumerate(layout.numeric):
        if numeric.name == name:
            return cell_indices(numeric, cells, records.numeric[:, index])
    coded_names = [column.name for column in layout.coded]
    return records.codes[:, coded_names.index(name)].astype(np.intp)


def cell_names(column: Column, cells: Sequence[Level]) -> list[str]:
    """Returns the name of each cell: its numbers, its level, or that it is missing."""
    names = []
    for cell in cells:
        if cell is None:
            names.append(MISSING)
        elif isinstance(cell, NumberRange):
            assert column.numeric
            names.append(range_name(column, cell))
        else:
            names.append(str(cell))
    return names


def level_names(column: CodedColumn) -> list[str]:
    """Returns the name of each code of a column."""
    names = [str(level) for level in column.levels]
    return [*names, MISSING][: column.size]


def range_name(column: NumericColumn, numbers: NumberRange) -> str:
    """Returns the numbers of a cell, as in "18 – 29", or the one that it holds.

    Examples:
        >>> from noisegate.answers.domain import NumberRange
        >>> from noisegate.schema import Integer
        >>> from noisegate_evaluate.reporting.released import range_name
        >>> age = Integer(name="age", lower=0, upper=99)
        >>> range_name(age, NumberRange(18, 29)), range_name(age, NumberRange(5, 5))
        ('18 – 29', '5')
    """
    low = numbers.low
    high = numbers.high
    if not column.stepped:
        lower, upper = map(float, bounds_of(column))
        width = upper - lower
        # A bound is a cell of its own, and the next one begins at the float64 above it.
        if high - low < _MIN_SHOWN_WIDTH * width:
            high = low
        if column.limit_of(low) is None:
            low = lower + round((low - lower) / width, _DIGITS_OF_RANGE) * width
        if column.limit_of(high) is None:
            high = lower + round((high - lower) / width, _DIGITS_OF_RANGE) * width
    ends = [number_name(column, low), number_name(column, high)]
    return " – ".join(dict.fromkeys(ends))


def number_name(column: NumericColumn, number: float) -> str:
    """Returns a number of a column in few letters: 4.2M, 0.35, 2024-05-01."""
    text = column.brief_text(number)
    if text is not None:
        return text
    for size, letter in ((1e9, "G"), (1e6, "M")):
        if size <= abs(number) < 1e13:
            return f"{number / size:.3g}{letter}"
    if 1e4 <= abs(number) < 1e6:
        return f"{number:,.0f}"
    return f"{number:.4g}"


def numbered(names: Sequence[str]) -> list[str]:
    """Returns names that differ: those that read alike get a number behind them."""
    occurrences: Counter[str] = Counter()
    distinct = []
    for name in names:
        occurrences[name] += 1
        if occurrences[name] == 1:
            distinct.append(name)
        else:
            distinct.append(f"{name} ({occurrences[name]})")
    return distinct
