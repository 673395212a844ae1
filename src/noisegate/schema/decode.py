"""Encoded records back to a typed Arrow table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.schema.columns import Boolean, CodedColumn, Continuous, Datetime, Integer, NumericColumn
from noisegate.schema.layout import EncodedTable
from noisegate.schema.positions import numbers_at
from noisegate.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


def decode(encoded: EncodedTable, schema: Schema) -> pa.Table:
    """Return ``encoded`` as an Arrow table with the columns of ``schema``, in its order.

    Types: continuous float64, integer int64, date date32, datetime timestamp[us] (UTC if the bounds have a time
    zone), levels string or int64, boolean bool. Missing values are null; positions outside [0, 1] are clamped.

    Raises:
        ValueError: if ``encoded`` does not fit the schema: wrong width, a code of no level, missing where not allowed.
    """
    import pyarrow as pa  # here, so that reading a schema stays fast

    layout = schema.layout
    if encoded.numeric.shape[1] != len(layout.numeric) or encoded.codes.shape[1] != len(layout.coded):
        raise ValueError(f"the encoded table has another number of columns than the schema {', '.join(schema.names)}")
    arrays = {column.name: _numbers(column, encoded.numeric[:, i]) for i, column in enumerate(layout.numeric)}
    arrays |= {column.name: _levels(column, encoded.codes[:, i]) for i, column in enumerate(layout.coded)}
    return pa.table({name: arrays[name] for name in schema.names})


def _numbers(column: NumericColumn, positions: npt.NDArray[np.float64]) -> pa.Array:
    import pyarrow as pa

    missing = np.isnan(positions)
    if missing.any() and not column.missing:
        raise ValueError(f"column {column.name!r}: a missing value where the schema allows none")
    numbers = numbers_at(column, np.where(missing, 0.0, positions))
    if isinstance(column, Continuous | Integer):
        return pa.array(numbers, mask=missing)
    if isinstance(column, Datetime):
        return pa.array(numbers, mask=missing).cast(pa.timestamp("us", tz="UTC" if column.aware else None))
    return pa.array(numbers.astype(np.int32), mask=missing).cast(pa.date32())


def _levels(column: CodedColumn, codes: npt.NDArray[np.int32]) -> pa.Array:
    import pyarrow as pa

    if ((codes < 0) | (codes >= column.size)).any():
        raise ValueError(f"column {column.name!r}: a code outside 0..{column.size - 1}")
    values: list[Any] = list(column.levels)
    text_or_number = pa.string() if isinstance(values[0], str) else pa.int64()
    levels = pa.array(values, pa.bool_() if isinstance(column, Boolean) else text_or_number)
    return levels.take(pa.array(codes, mask=codes == len(values)))
