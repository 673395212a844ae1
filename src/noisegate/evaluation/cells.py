"""Rows to cells: every column as a small code, ready to be counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from noisegate.errors import OptionError
from noisegate.evaluation.reading import read_levels, read_numbers
from noisegate.schema import Column, NumericColumn, Schema


@dataclass(frozen=True, kw_only=True)
class Cells:
    """One column of one table as cell codes.

    Attributes:
        codes: int64 per row; bins or levels first, then missing, then outside.
        size: number of cells, missing and outside counted.
    """

    codes: np.ndarray
    size: int

    def counts(self) -> np.ndarray:
        """Rows in each cell, int64."""
        return np.bincount(self.codes, minlength=self.size)


def cells(table: pa.Table, column: Column, schema: Schema, *, bins: int = 20) -> Cells:
    """Put each row of a column in a cell.

    Args:
        table: the table that holds the column.
        column: its description.
        schema: tells which texts mean missing.
        bins: number of equal-width bins between the bounds of a numeric or date column.

    Returns:
        Codes 0 .. k-1 for bins or levels, k for missing, k+1 for a value that the schema cannot place.

    Raises:
        OptionError: ``bins`` is below 1.
        DataError: the table has no such column.
    """
    if bins < 1:
        raise OptionError(f"bins is {bins}; expected at least 1")
    if not isinstance(column, NumericColumn):
        levels = read_levels(table, column, schema)
        return Cells(codes=levels.codes, size=levels.count + 2)
    numbers = read_numbers(table, column, schema)
    absent = np.isnan(numbers.unit)
    # The upper bound belongs to the last bin.
    binned = np.minimum(np.where(absent, 0.0, numbers.unit) * bins, bins - 1).astype(np.int64)
    codes = np.where(absent, np.where(numbers.outside, bins + 1, bins), binned)
    return Cells(codes=codes, size=bins + 2)
