"""Values of Python as the text that a CSV file would have in their place.

Each value becomes text by itself, whatever stands beside it (G-06).
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# Whole numbers up to here are exact as floats, and written without a fraction.
_MAX_EXACT_INTEGER = 2.0**53
_SECONDS_PER_HOUR = 3600


def value_text(value: Any) -> str | None:
    """Returns a value as text.

    Args:
        value: Text, a number, a truth value, a day, a time or a length of time; None
            or NaN where it is missing.

    Returns:
        The text, in which whole numbers have no fraction and days are ISO text; None
        for a missing value.

    Examples:
        >>> from datetime import date, timedelta
        >>> from noisegate.sources.tables.cells import value_text
        >>> [value_text(value) for value in (3.0, 2.5, True, date(2020, 1, 3), None)]
        ['3', '2.5', 'true', '2020-01-03', None]
        >>> value_text(timedelta(hours=30))
        '30:00:00'
    """
    if value is None or value != value:
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        is_integral = value.is_integer() and abs(value) <= _MAX_EXACT_INTEGER
        return str(int(value)) if is_integral else repr(value)
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _clock_text(value)
    return str(value)


def number_texts(numbers: pa.Array) -> pa.Array:
    """Returns floats as text, as `value_text` reads them; faster than one by one.

    Args:
        numbers: float64, null where missing, (cells,).
    """
    is_exact = pc.less_equal(pc.abs(numbers), _MAX_EXACT_INTEGER)
    is_whole = pc.and_(is_exact, pc.equal(pc.floor(numbers), numbers))
    integers = pc.if_else(is_whole, numbers, 0.0).cast(pa.int64())
    return pc.if_else(is_whole, integers.cast(pa.string()), numbers.cast(pa.string()))


def _clock_text(length: timedelta) -> str:
    """Returns a length of time as hours, minutes and seconds: "30:00:00"."""
    sign = "-" if length < timedelta(0) else ""
    seconds = round(abs(length).total_seconds())
    hours, rest = divmod(seconds, _SECONDS_PER_HOUR)
    minutes, rest_seconds = divmod(rest, 60)
    return f"{sign}{hours:02}:{minutes:02}:{rest_seconds:02}"
