"""Checks of single values in a schema.

Each function `checked_...` checks a value that somebody wrote in a schema file or in
Python: a name, a bound, a step, a list of levels. It returns the value in its canonical
type, or raises a `SchemaError` that names the column and the cure. The kinds of column
use them.
"""

import contextlib
import math
import numbers
import operator
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from noisegate.errors import SchemaError

TEXT_PADDING = " \t\r\n\v\f"
"""Characters that are stripped from both ends of every text when data are read."""

_INT64 = 2**63


def checked_text(value: Any, what: str) -> str:
    """Checks that a text can be met in data and be stored in a file.

    Args:
        value: What stands in the schema.
        what: What the text is, for the message.

    Returns:
        The text as it is.

    Raises:
        SchemaError: if it is no text, has blanks around it, which are stripped from
            data before they are compared, or is no valid Unicode.
    """
    if not isinstance(value, str):
        raise SchemaError(f"{what}: expected text, found {value!r}; put it in quotes")
    if value != value.strip(TEXT_PADDING):
        raise SchemaError(
            f"{what}: {value!r} starts or ends with a blank; remove it, as data is "
            "read without"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise SchemaError(
            f"{what}: {value!r} is not valid Unicode text; replace the lone surrogate "
            "in it"
        ) from None
    return str(value)  # a subclass of str, such as NumPy's, becomes plain


def checked_column_name(name: Any) -> str:
    """Checks the name of a column: text as in `checked_text`, and not empty."""
    if name == "":
        raise SchemaError(
            "a column of the schema has an empty name; give it the name that it has in "
            "the data"
        )
    return checked_text(name, "name of a column")


def checked_flag(name: str, key: str, value: Any) -> bool:
    """Checks that the value of `key` in column `name` is True or False."""
    if not isinstance(value, bool):
        raise SchemaError(
            f"column {name!r}: {key} must be true or false, found {value!r}"
        )
    return value


def checked_real(name: str, key: str, value: Any) -> float:
    """Checks that a value is a finite number.

    Args:
        name: Name of the column, for the message.
        key: What the value is, such as "lower", for the message.
        value: A number of any type.

    Returns:
        The number as float64; 0.0 for -0.0, so that equal schemas have equal digests.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise SchemaError(f"column {name!r}: {key} must be a number, found {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise SchemaError(
            f"column {name!r}: {key} must be a finite number, found {value!r}; give a "
            "public bound"
        )
    return number + 0.0  # turns -0.0 into 0.0


def checked_integer(name: str, key: str, value: Any) -> int:
    """Checks that a value is an integer above -2⁶³ and below 2⁶³ - 1.

    Args:
        name: Name of the column, for the message.
        key: What the value is, such as "lower", for the message.
        value: An integer of any type; a float is refused even where it is integral.
    """
    integer = None
    if not isinstance(value, bool):
        with contextlib.suppress(TypeError):
            integer = operator.index(value)
    if integer is None:
        raise SchemaError(
            f"column {name!r}: {key} must be a whole number, found {value!r}; write it "
            'without a decimal point, or use kind = "continuous"'
        )
    # Numbers beyond int64 in data are read as its ends, which therefore are no values.
    if not -_INT64 < integer < _INT64 - 1:
        raise SchemaError(
            f"column {name!r}: {key} = {integer} does not fit 64 bits; choose a "
            "smaller number"
        )
    return integer


def checked_date(name: str, key: str, value: Any) -> date:
    """Returns a calendar day that is stated as such, or as ISO text like 2020-12-31."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return date.fromisoformat(value)
    elif isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise SchemaError(
        f"column {name!r}: {key} must be a date such as 2020-12-31, found {value!r}"
    )


def checked_datetime(name: str, key: str, value: Any) -> datetime:
    """Returns a point in time that is stated as such, or as ISO text.

    Args:
        name: Name of the column, for the message.
        key: What the value is, such as "lower", for the message.
        value: A datetime, or text like 2020-12-31T23:59:59; a day alone is refused.

    Returns:
        The datetime, in UTC if it has a time zone, else without one.
    """
    timestamp = value
    if isinstance(value, str) and len(value) > len("2020-12-31"):
        with contextlib.suppress(ValueError):
            timestamp = datetime.fromisoformat(value)
    if not isinstance(timestamp, datetime):
        raise SchemaError(
            f"column {name!r}: {key} must be a moment such as 2020-12-31T23:59:59, "
            f"found {value!r}"
        )
    if timestamp.tzinfo is None:
        return timestamp
    try:
        return timestamp.astimezone(UTC)
    except OverflowError:
        raise SchemaError(
            f"column {name!r}: {key} = {timestamp} lies outside the years 1 to 9999 in "
            "UTC"
        ) from None


def checked_levels(name: str, values: Any) -> tuple[str | int, ...]:
    """Checks the levels of a column: all text or all integers, at least one, distinct.

    Args:
        name: Name of the column, for the message.
        values: The levels, in any iterable that is neither text nor a mapping.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise SchemaError(f"column {name!r}: levels must be a list, found {values!r}")
    levels = tuple(_checked_level(name, value) for value in values)
    if not levels:
        raise SchemaError(
            f"column {name!r}: the list of levels is empty; list every value that the "
            "column may hold"
        )
    types = {isinstance(level, str) for level in levels}
    if len(types) > 1:
        raise SchemaError(
            f"column {name!r}: levels mix text and whole numbers; make all of them one "
            "or the other"
        )
    if len(set(levels)) < len(levels):
        repeated = next(level for level in levels if levels.count(level) > 1)
        raise SchemaError(
            f"column {name!r}: level {repeated!r} is listed more than once; keep one"
        )
    return levels


def _checked_level(name: str, value: Any) -> str | int:
    """Checks one level of column `name`, which is text or an integer."""
    if isinstance(value, str):
        return checked_text(value, f"column {name!r}, levels")
    if isinstance(value, bool):
        raise SchemaError(
            f"column {name!r}: level {value!r} is a truth value; use "
            'kind = "boolean", or quote it'
        )
    return checked_integer(name, "a level (text or whole number)", value)


def set_fields(column: object, **values: Any) -> None:
    """Sets fields of a frozen dataclass to checked values, in its `__post_init__`."""
    for key, value in values.items():
        object.__setattr__(column, key, value)
