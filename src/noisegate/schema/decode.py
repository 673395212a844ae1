"""Encoded records back to a typed Arrow table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.schema.columns import Boolean, CodedColumn, Continuous, Datetime, Integer, NumericColumn, SteppedColumn
from noisegate.schema.layout import EncodedTable
from noisegate.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

_SAFE_STEPS = 2**50  # below it, rounding position * steps always gives back the step that was encoded


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
    clamped = np.clip(np.where(missing, 0.0, positions), 0.0, 1.0)
    if isinstance(column, Continuous):
        values = np.clip(column.lower + clamped * (column.upper - column.lower), column.lower, column.upper)
        return pa.array(values, mask=missing)
    steps = _steps(column, clamped)
    if isinstance(column, Integer):
        return pa.array(steps, mask=missing)
    if isinstance(column, Datetime):
        return pa.array(steps, mask=missing).cast(pa.timestamp("us", tz="UTC" if column.aware else None))
    return pa.array(steps.astype(np.int32), mask=missing).cast(pa.date32())


def _steps(column: SteppedColumn, positions: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the nearest step of each position, exactly the one that was encoded if one was."""
    first, last = column.steps
    width = last - first
    nearest = np.rint(positions * width).astype(np.int64)
    if width > _SAFE_STEPS:  # the product may be off by a few steps: take the step that encodes to this very position
        for candidate in [np.clip(nearest + shift, 0, width) for shift in (-2, -1, 1, 2)]:
            nearest = np.where(candidate / np.float64(width) == positions, candidate, nearest)
    return np.clip(nearest, 0, width) + first


def _levels(column: CodedColumn, codes: npt.NDArray[np.int32]) -> pa.Array:
    import pyarrow as pa

    if ((codes < 0) | (codes >= column.size)).any():
        raise ValueError(f"column {column.name!r}: a code outside 0..{column.size - 1}")
    values: list[Any] = list(column.levels)
    text_or_number = pa.string() if isinstance(values[0], str) else pa.int64()
    levels = pa.array(values, pa.bool_() if isinstance(column, Boolean) else text_or_number)
    return levels.take(pa.array(codes, mask=codes == len(values)))
