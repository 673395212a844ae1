"""Between encoded records and the values of each column."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.records import Rows
from noisegate.schema.columns import Column
from noisegate.schema.layout import Layout, numbers_at, positions_of
from noisegate.schema.relations.relation import ColumnValues, Values


def values_of(records: Rows, layout: Layout) -> Values:
    """Decodes encoded records to the values of each column, by name.

    Args:
        records: Encoded records.
        layout: Their columns.
    """
    values: dict[str, ColumnValues] = {}
    for index, column in enumerate(layout.numeric):
        positions = records.numeric[:, index]
        is_missing = np.isnan(positions)
        present_positions = np.where(is_missing, 0.0, positions)
        values[column.name] = ColumnValues(
            numbers=numbers_at(column, present_positions), is_missing=is_missing
        )
    for index, coded_column in enumerate(layout.coded):
        codes = records.codes[:, index]
        is_missing = codes == len(coded_column.levels)
        values[coded_column.name] = ColumnValues(
            numbers=np.where(is_missing, 0, codes), is_missing=is_missing
        )
    return values


def encoded_values(values: Values, layout: Layout) -> Rows:
    """Encodes the values of each column; numbers are moved into the bounds.

    Args:
        values: Values of each column of the layout, by name.
        layout: The columns.
    """
    record_count = len(next(iter(values.values())).is_missing)
    numeric = np.empty((len(layout.numeric), record_count), dtype=np.float64).T
    codes = np.empty((len(layout.coded), record_count), dtype=np.int32).T
    for index, column in enumerate(layout.numeric):
        numeric[:, index] = encoded_column(column, values[column.name])
    for index, coded_column in enumerate(layout.coded):
        codes[:, index] = encoded_column(coded_column, values[coded_column.name])
    return Rows(numeric, codes)


def encoded_column(column: Column, values: ColumnValues) -> npt.NDArray[Any]:
    """Encodes the values of one column; numbers are moved into its bounds.

    Returns:
        Positions in [0, 1], NaN where missing; or codes, the number of levels where
        missing. (records,)
    """
    if not column.numeric:
        return np.where(values.is_missing, len(column.levels), values.numbers)
    positions = positions_of(column, values.numbers)
    if not values.is_missing.any():
        return positions
    return np.where(values.is_missing, np.nan, positions)
