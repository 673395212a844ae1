"""One column of a table that is compared, as numbers, level codes or cells: the schema's encoder, tolerant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from noisegate.errors import DataError, OptionError
from noisegate.schema import CodedColumn, Column, NumericColumn, Schema
from noisegate.schema.tolerant import encode_tolerantly


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The values of a numeric column on the unit scale of its schema bounds.

    Attributes:
        unit: float64 in [0, 1], 0 = lower bound and 1 = upper bound, clamped as the schema says; NaN where there is
            no number, that is where the value is missing or outside.
        outside: True where a value is present that is no number (or date) at all.
    """

    unit: np.ndarray
    outside: np.ndarray


@dataclass(frozen=True, kw_only=True)
class ColumnLevels:
    """The values of a column as codes: of levels, or of bins of numbers.

    Attributes:
        codes: int64; the position of the level, then ``count`` for missing and ``count + 1`` for outside.
        count: number of levels, missing and outside not counted.
    """

    codes: np.ndarray
    count: int

    @property
    def size(self) -> int:
        """Number of cells, missing and outside counted."""
        return self.count + 2

    @property
    def known(self) -> np.ndarray:
        """True where the value is one of the levels."""
        known: np.ndarray = self.codes < self.count
        return known


def read_numbers(table: pa.Table, column: NumericColumn, schema: Schema) -> Numbers:
    """Read a numeric or date column on the unit scale of its bounds; ``schema`` tells which texts mean missing.

    Raises:
        DataError: the table has no such column.
    """
    unit, outside = _encoded(table, column, schema)
    return Numbers(unit=unit, outside=outside)


def read_levels(table: pa.Table, column: CodedColumn, schema: Schema) -> ColumnLevels:
    """Read a column with levels as codes; an unknown level counts as ``other`` where the column declares one.

    Raises:
        DataError: the table has no such column.
    """
    codes, outside = _encoded(table, column, schema)
    count = len(column.levels)
    return ColumnLevels(codes=np.where(outside, count + 1, codes).astype(np.int64), count=count)


def cells(table: pa.Table, column: Column, schema: Schema, *, bins: int = 20) -> ColumnLevels:
    """Put each row of a column in a cell: its level, or one of equal-width bins between the bounds of a number or date.

    Raises:
        OptionError: ``bins`` is below 1.
        DataError: the table has no such column.
    """
    if bins < 1:
        raise OptionError(f"bins is {bins}; expected at least 1")
    if not isinstance(column, NumericColumn):
        return read_levels(table, column, schema)
    numbers = read_numbers(table, column, schema)
    absent = np.isnan(numbers.unit)
    # The upper bound belongs to the last bin.
    binned = np.minimum(np.where(absent, 0.0, numbers.unit) * bins, bins - 1).astype(np.int64)
    codes = np.where(absent, np.where(numbers.outside, bins + 1, bins), binned)
    return ColumnLevels(codes=codes, count=bins)


def _encoded(table: pa.Table, column: Column, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    if column.name not in table.column_names:
        raise DataError(
            f"column {column.name!r} of the schema is not in the table, which has "
            f"{', '.join(map(repr, table.column_names))}; evaluate tables that were made with this schema"
        )
    chunks = table.column(column.name)
    array = pa.concat_arrays(chunks.chunks) if chunks.num_chunks else pa.array([], type=chunks.type)
    return encode_tolerantly(column, array, pa.array(schema.missing_values, pa.string()))
