"""One column of a table, as numbers or as level codes, whatever Arrow type the column arrived in.

The tables that are compared come from anywhere: decoded samples, CSV files with inferred types, data frames. So reading
is tolerant: a value that the schema cannot place is marked *outside*, it never stops the evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa

from noisegate.errors import DataError
from noisegate.evaluation.levels import level_finder, spelling
from noisegate.schema import Categorical, CodedColumn, Continuous, Date, Datetime, Integer, NumericColumn, Schema

_MICROSECONDS_PER_DAY = 86_400_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
class Levels:
    """The values of a column with levels, as codes.

    Attributes:
        codes: int64; the position of the level, then ``count`` for missing and ``count + 1`` for outside.
        count: number of levels, missing and outside not counted.
    """

    codes: np.ndarray
    count: int

    @property
    def known(self) -> np.ndarray:
        """True where the value is one of the levels."""
        known: np.ndarray = self.codes < self.count
        return known


def read_numbers(table: pa.Table, column: NumericColumn, schema: Schema) -> Numbers:
    """Read a numeric or date column on the unit scale of its bounds.

    Args:
        table: the table that holds the column.
        column: its description.
        schema: tells which texts mean missing.

    Returns:
        Values in [0, 1] with NaN for none, and which of them are no number.

    Raises:
        DataError: the table has no such column.
    """
    array = _array(table, column.name)
    values, outside = (_moments if isinstance(column, Date | Datetime) else _reals)(array, column, schema)
    lower, upper = _bounds(column)
    width = upper - lower
    unit = np.clip((values - lower) / (width if width > 0 else 1.0), 0.0, 1.0)
    return Numbers(unit=unit, outside=outside)


def read_levels(table: pa.Table, column: CodedColumn, schema: Schema) -> Levels:
    """Read a column with levels as codes.

    Args:
        table: the table that holds the column.
        column: its description; an unknown level counts as ``other`` where the column declares one.
        schema: tells which texts mean missing.

    Returns:
        A code per row; missing and outside have codes of their own.

    Raises:
        DataError: the table has no such column.
    """
    count = len(column.levels)
    find = level_finder(column)
    other = find(column.other) if isinstance(column, Categorical) and column.other is not None else None
    unknown = count + 1 if other is None else other
    missing = {text.strip() for text in schema.missing_values} | {"nan"}

    def place(value: object) -> float:
        code = find(value)
        if code is None:
            code = count if spelling(value) in missing else unknown
        return code

    codes = _by_distinct_value(_array(table, column.name), place, none=count)
    return Levels(codes=codes.astype(np.int64), count=count)


def _array(table: pa.Table, name: str) -> pa.Array:
    """The column as one plain array; nested values become text, which no schema can place."""
    if name not in table.column_names:
        raise DataError(
            f"column {name!r} of the schema is not in the table, which has {', '.join(map(repr, table.column_names))}; "
            "evaluate tables that were made with this schema"
        )
    chunks = table.column(name)
    kind = chunks.type
    if pa.types.is_dictionary(kind):
        chunks = chunks.cast(kind.value_type)
    if pa.types.is_nested(kind):
        chunks = pa.chunked_array([pa.array([None if item is None else str(item) for item in chunks.to_pylist()])])
    return pa.concat_arrays(chunks.chunks) if chunks.num_chunks else pa.array([], type=chunks.type)


def _by_distinct_value(array: pa.Array, place: Callable[[object], float], *, none: float) -> np.ndarray:
    """Apply ``place`` once per distinct value and spread the results over the rows."""
    encoded = array.dictionary_encode()
    placed = [none if value is None else place(value) for value in encoded.dictionary.to_pylist()]
    # One more entry, for nulls: they are -1 in the filled indices and so pick the last.
    table = np.array([*placed, none], dtype=np.float64)
    picked: np.ndarray = table[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return picked


def _parsed(array: pa.Array, parse: Callable[[str], float], schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """Values of a text column; what cannot be parsed is outside."""
    missing = {text.strip() for text in schema.missing_values} | {""}

    def place(value: object) -> float:
        text = str(value).strip()
        if text in missing:
            return math.nan
        try:
            return parse(text)
        except (ValueError, OverflowError):
            return math.inf

    # inf is free to mark what is outside only because a text "inf" is read as the largest float.
    values = _by_distinct_value(array, place, none=math.nan)
    outside = np.isposinf(values)
    return np.where(outside, math.nan, values), outside


def _reals(array: pa.Array, column: NumericColumn, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    kind = array.type
    if _is_text(kind):
        return _parsed(array, lambda text: float(np.nan_to_num(float(text), nan=math.nan)), schema)
    if pa.types.is_null(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or _is_number(kind):
        values = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64)
        return values, np.zeros(len(values), dtype=bool)
    return _nowhere(array)


def _moments(array: pa.Array, column: NumericColumn, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """Microseconds since 1970; a moment without a time zone is read as UTC, like the bounds."""
    kind = array.type
    if _is_text(kind):
        return _parsed(array, lambda text: _microseconds(datetime.fromisoformat(text)), schema)
    if pa.types.is_null(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        zone = kind.tz if pa.types.is_timestamp(kind) else None
        counts = array.cast(pa.timestamp("us", tz=zone), safe=False).cast(pa.int64()).cast(pa.float64(), safe=False)
        values = counts.to_numpy(zero_copy_only=False).astype(np.float64)
        return values, np.zeros(len(values), dtype=bool)
    return _nowhere(array)


def _nowhere(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """A type that this column cannot hold: everything present is outside."""
    present = array.is_valid().to_numpy(zero_copy_only=False)
    return np.full(len(array), math.nan), present


def _bounds(column: NumericColumn) -> tuple[float, float]:
    if isinstance(column, Continuous | Integer):
        return float(column.lower), float(column.upper)
    return _microseconds(column.lower), _microseconds(column.upper)


def _microseconds(moment: date) -> float:
    if not isinstance(moment, datetime):
        return float((moment - _EPOCH.date()).days * _MICROSECONDS_PER_DAY)
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH).total_seconds() * 1e6


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
