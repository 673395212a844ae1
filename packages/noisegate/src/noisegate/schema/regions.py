"""Regions: the records that have given values in some columns. Conditions and impossible combinations are regions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import SchemaError
from noisegate.records import Rows
from noisegate.schema.layout import Layout, Span, bounds_of, numbers_at, positions_of, ranks_within, sentinels_of
from noisegate.schema.numeric import Continuous, Date, Datetime, Decimal, NumericColumn
from noisegate.schema.values import TEXT_PADDING, Boolean, CodedColumn

_TRUTH = {"true": 1, "yes": 1, "1": 1, "false": 0, "no": 0, "0": 0}


@dataclass(frozen=True, kw_only=True)
class Region:
    """Records whose numbers lie in intervals and whose codes are given; columns that are not named are free.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.schema import Integer
        >>> from noisegate.testing import made_up
        >>> schema = Schema([Integer(name="age", lower=0, upper=99)])
        >>> schema.region({"age": (18, None)}).contains(made_up(schema.layout, rows=2)).tolist()
        [False, True]
    """

    layout: Layout
    """The columns of the encoded records."""
    spans: Mapping[int, Span | None] = field(default_factory=dict)
    """By place among the numeric columns, an interval within the bounds, or None for missing."""
    codes: Mapping[int, int] = field(default_factory=dict)
    """By place among the coded columns, a code; the last one is missing where the column allows it."""

    def contains(self, records: Rows) -> npt.NDArray[np.bool_]:
        """Returns which records lie in the region once they are decoded, (rows,)."""
        inside = np.ones(len(records), dtype=np.bool_)
        for place, code in self.codes.items():
            inside &= records.codes[:, place] == code
        for place, span in self.spans.items():
            numbers, missing = decoded_numbers(records, self.layout, place)
            inside &= missing if span is None else ~missing & (numbers >= span[0]) & (numbers <= span[1])
        return inside


def decoded_numbers(records: Rows, layout: Layout, place: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Returns what a numeric column says once it is decoded, and where it is missing."""
    positions = records.numeric[:, place]
    missing = np.isnan(positions)
    return numbers_at(layout.numeric[place], np.where(missing, 0.0, positions)), missing


def read_region(values: Mapping[str, Any], layout: Layout, missing_values: Collection[str]) -> Region:
    """Returns the region in which each named column has the given value."""
    spans: dict[int, Span | None] = {}
    codes: dict[int, int] = {}
    for name, value in values.items():
        column = layout.column(name)
        absent = value is None or (isinstance(value, str) and value.strip(TEXT_PADDING) in missing_values)
        if absent and not column.missing:
            raise SchemaError(f"column {name!r}: a value is never missing in this schema; give one")
        if column.numeric:
            spans[layout.place(name)] = None if absent else _span(column, value)
        else:
            codes[layout.place(name)] = column.size - 1 if absent else _code(column, value)
    return Region(layout=layout, spans=spans, codes=codes)


def _code(column: CodedColumn, value: Any) -> int:
    truth = isinstance(value, bool | np.bool_)
    if isinstance(column, Boolean):
        code = int(value) if truth else _TRUTH.get(value.strip().lower()) if isinstance(value, str) else None
    else:
        # As in data: a level may be written as text, and blanks around it do not count.
        text = None if truth else str(value).strip(TEXT_PADDING)
        code = next((place for place, level in enumerate(column.levels) if str(level) == text), None)
    if code is None:
        shown = ", ".join(repr(level) for level in column.levels[:20]) + (", ..." if len(column.levels) > 20 else "")
        raise SchemaError(f"column {column.name!r}: {value!r} is not one of its values; choose from {shown}")
    return code


def _span(column: NumericColumn, value: Any) -> Span:
    if isinstance(value, str) and ".." in value:
        before, _, after = value.partition("..")
        value = (before, after)
    ends = tuple(value) if isinstance(value, tuple | list) else (value, value)
    if len(ends) != 2:
        raise SchemaError(f"column {column.name!r}: an interval has two ends, found {value!r}; write (low, high)")
    lower, upper = bounds_of(column)
    low, high = (_number(column, end) for end in ends)
    if low == high and low in sentinels_of(column):
        return low, low
    start, stop = lower if low is None else low, upper if high is None else high
    if start > stop and None not in (low, high):
        raise SchemaError(f"column {column.name!r}: the interval {ends[0]} to {ends[1]} is empty; swap its ends")
    if start > upper or stop < lower:
        raise SchemaError(
            f"column {column.name!r}: {value!r} lies outside the schema's bounds {column.lower} to {column.upper}"
        )
    start, stop = max(start, lower), min(stop, upper)
    if not isinstance(column, Continuous):
        first, last = ranks_within(column, (start, stop))
        if first > last:
            raise SchemaError(
                f"column {column.name!r}: {value!r} is none of its values, which stand {column.step} apart from "
                f"{column.lower} on; choose one of them"
            )
    return start, stop


def _number(column: NumericColumn, end: Any) -> float | None:
    value: Any = end.strip() if isinstance(end, str) else end
    if value is None or value == "":
        return None
    if isinstance(value, str) and not isinstance(column, Date | Datetime):
        real = isinstance(column, Continuous | Decimal)
        try:
            value = float(value) if real else int(value)
        except ValueError:
            what = "a number" if real else "a whole number"
            raise SchemaError(f"column {column.name!r}: a value must be {what}, found {value!r}") from None
    value = column.read(column.name, "a value", value)
    if isinstance(column, Datetime) and (value.tzinfo is None) == column.aware:
        raise SchemaError(
            f"column {column.name!r}: a value has a time zone exactly if the bounds have one, found {end!r}"
        )
    if isinstance(column, Decimal):
        return float(value)
    if not isinstance(column, Continuous):
        return column.unit(value)
    if not column.lower <= value <= column.upper:
        return float(value)
    # The number as synthetic tables can hold it, so that the same value is found there again.
    return float(numbers_at(column, positions_of(column, np.asarray([value])))[0])
