"""One column of a table that is compared, as numbers, level codes or cells: the schema's encoder, tolerant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from noisegate.errors import DataError, OptionError
from noisegate.schema import CodedColumn, Column, NumericColumn, Schema
from noisegate.schema.encode import encode_tolerantly


class Numbers(NamedTuple):
    """A numeric column: float64 in [0, 1] between its bounds, NaN where there is none; and where it is no number."""

    unit: np.ndarray
    outside: np.ndarray


@dataclass(frozen=True)
class ColumnLevels:
    """The values of a column as codes, int64: of ``count`` levels or bins, then one for missing and one for outside."""

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

    def at(self, rows: np.ndarray) -> ColumnLevels:
        """The values of some rows, in their order."""
        return ColumnLevels(self.codes[rows], self.count)


def read_numbers(table: pa.Table, column: NumericColumn, schema: Schema) -> Numbers:
    """Returns a numeric or date column on the unit scale of its bounds; ``schema`` tells which texts mean missing."""
    return Numbers(*_encoded(table, column, schema))


def read_levels(table: pa.Table, column: CodedColumn, schema: Schema) -> ColumnLevels:
    """Returns a column with levels as codes; an unknown level counts as ``other`` where the column declares one."""
    codes, outside = _encoded(table, column, schema)
    count = len(column.levels)
    return ColumnLevels(np.where(outside, count + 1, codes).astype(np.int64), count)


def cells(table: pa.Table, column: Column, schema: Schema, *, bins: int = 20) -> ColumnLevels:
    """Returns the cell of each row: its level, or one of equal-width bins between the bounds of a number or date."""
    if bins < 1:
        raise OptionError(f"bins is {bins}; expected at least 1")
    if not isinstance(column, NumericColumn):
        return read_levels(table, column, schema)
    unit, outside = read_numbers(table, column, schema)
    absent = np.isnan(unit)
    # The upper bound belongs to the last bin.
    binned = np.minimum(np.where(absent, 0.0, unit) * bins, bins - 1).astype(np.int64)
    return ColumnLevels(np.where(absent, np.where(outside, bins + 1, bins), binned), bins)


def columns_in_cells(table: pa.Table, schema: Schema, *, bins: int) -> dict[str, ColumnLevels]:
    """Returns the cell of each row of every column of the schema; see `cells`."""
    return {column.name: cells(table, column, schema, bins=bins) for column in schema.columns}


def _encoded(table: pa.Table, column: Column, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    if column.name not in table.column_names:
        raise DataError(
            f"column {column.name!r} of the schema is not in the table, which has "
            f"{', '.join(map(repr, table.column_names))}; evaluate tables that were made with this schema"
        )
    cells = table.column(column.name).combine_chunks()
    return encode_tolerantly(column, cells, pa.array(schema.missing_values, pa.string()))
