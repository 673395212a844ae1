"""Parsers: from cells of any Arrow type, without nulls, to numbers.

A parser returns `Parsed`: a number for each cell, and which cells are bad. It raises
`UnexpectedType` where the Arrow type as such holds no values of the kind. What becomes
of a cell depends on that cell alone, never on other cells.

The kinds of column choose their parser; the same parsers tell a draft of a schema what
kind a column is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.schema.formats import MINUS_SIGN

Mask: TypeAlias = npt.NDArray[np.bool_]
"""One truth value for each cell, (cells,)."""

MICROSECONDS_PER_DAY = 86_400_000_000

# Numbers as text. Arrow's own cast takes more for a number, such as nan(x).
_FLOAT_PATTERN = (
    r"^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))$"
)
# ISO dates, with or without a time, which may have fractions of a second.
_TIMESTAMP_PATTERN = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[ T](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?)?"
)
_TIME_ZONE_PATTERN = r"(?:Z|[+-][0-9]{2}:?[0-9]{2})"
# 1.0 and 0.0 are what a program writes as soon as one record has no value.
_TRUE_WORDS = ("true", "yes", "1", "1.0")
_FALSE_WORDS = ("false", "no", "0", "0.0")

_INT64 = np.iinfo(np.int64)
# Microseconds in one tick of a timestamp, by its unit; nanoseconds are divided instead.
_MICROSECONDS_PER_TICK = {"s": 1_000_000, "ms": 1_000, "us": 1}
# Arrow types in words, for messages.
_TYPE_NAMES = {
    "bool": "truth values",
    "date32[day]": "dates",
    "double": "decimal numbers",
    "float": "decimal numbers",
}


def describe_type(arrow_type: pa.DataType) -> str:
    """Returns an Arrow type in words, for messages: "decimal numbers" for a double."""
    if is_text(arrow_type):
        return "text"
    if pt.is_timestamp(arrow_type):
        if arrow_type.tz is None:
            return "moments without a time zone"
        return "moments with a time zone"
    return _TYPE_NAMES.get(str(arrow_type), f"values of type {arrow_type}")


def is_text(arrow_type: pa.DataType) -> bool:
    """Returns whether an Arrow type holds text."""
    return bool(
        pt.is_string(arrow_type)
        or pt.is_large_string(arrow_type)
        or pt.is_string_view(arrow_type)
    )


class UnexpectedType(Exception):  # noqa: N818 - for callers, who make an error of it
    """The Arrow type of a column cannot hold values of the kind that is parsed."""


@dataclass(frozen=True)
class Parsed:
    """The result of a parser: a number for each cell.

    Attributes:
        numbers: float64 numbers, int64 units, or int32 codes, (cells,); arbitrary where
            a mask is set.
        is_bad: Which cells contain something that the kind of column does not allow.
        is_missing: Which cells are not null, but missing: NaN among floats.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate.schema.parsing import parse_floats
        >>> parsed = parse_floats(pa.array(["1.5", "nan", "x"]))
        >>> parsed.is_bad.tolist(), parsed.is_missing.tolist()
        ([False, False, True], [False, True, False])
    """

    numbers: npt.NDArray[Any]
    is_bad: Mask
    is_missing: Mask


Parser: TypeAlias = Callable[[pa.Array], Parsed]
"""Parses cells without nulls; raises `UnexpectedType` where none can be of the kind."""


def parse_codes(
    levels: Sequence[str | int], values: pa.Array, other: str | int | None = None
) -> Parsed:
    """Parses levels, and numbers that are levels.

    Args:
        levels: All levels, text or integers.
        values: Text or numbers, without nulls.
        other: The level that stands for a value that is no level; None for none.

    Returns:
        The index of each value among the levels, int32, (cells,). A value that is no
        level is bad, or becomes `other`.
    """
    nowhere = np.zeros(len(values), dtype=np.bool_)
    has_text_levels = isinstance(levels[0], str)
    # A program writes integers with a fraction as soon as one record has none.
    if has_text_levels and not pt.is_floating(values.type):
        level_values = (
            values.cast(pa.string()) if pt.is_integer(values.type) else values
        )
        is_missing = nowhere
        is_unreadable = nowhere
    else:
        parsed = parse_integers(values)
        level_values = pa.array(parsed.numbers)
        if has_text_levels:
            level_values = level_values.cast(pa.string())
        is_missing = parsed.is_missing
        is_unreadable = parsed.is_bad
    if has_text_levels and not is_text(level_values.type):
        raise UnexpectedType

    all_levels = pa.array(levels, level_values.type)
    indices = pc.index_in(level_values, value_set=all_levels).fill_null(-1)
    codes = indices.to_numpy(zero_copy_only=False).astype(np.int32)
    is_unknown = (is_unreadable | (codes < 0)) & ~is_missing
    if other is not None:
        codes[is_unknown] = levels.index(other)
        return Parsed(codes, nowhere, is_missing)
    return Parsed(codes, is_unknown, is_missing)


def parse_floats(values: pa.Array) -> Parsed:
    """Parses numbers of any Arrow type, or text, as float64; NaN is missing."""
    if pt.is_decimal(values.type):
        # Through text, as Arrow's direct cast may be off by a rounding.
        return _parse_float_text(values.cast(pa.string()))
    if is_text(values.type):
        return _parse_float_text(values)
    if not (pt.is_integer(values.type) or pt.is_floating(values.type)):
        raise UnexpectedType
    numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return _without_bad(numbers, np.isnan(numbers))


def parse_integers(values: pa.Array) -> Parsed:
    """Parses integers of any Arrow type, or text, as int64; NaN is missing.

    Integers beyond int64 become its smallest or largest value. Floats and text with a
    fraction, such as 39.0 or 1e3, must be integral.
    """
    if pt.is_decimal(values.type):
        return _parse_integer_text(values.cast(pa.string()))
    if is_text(values.type):
        return _parse_integer_text(values)
    if pt.is_uint64(values.type):
        unsigned = values.to_numpy(zero_copy_only=False)
        clamped = np.minimum(unsigned, np.uint64(_INT64.max))
        return _without_bad(clamped.astype(np.int64))
    if pt.is_integer(values.type):
        return _without_bad(_to_int64(values))
    return _as_integers(parse_floats(values))


def parse_dates(values: pa.Array) -> Parsed:
    """Parses dates, as days since 1970-01-01.

    Args:
        values: Arrow dates, timestamps or ISO text, without time zone. What is not at
            midnight is bad.
    """
    if pt.is_date32(values.type):
        days = values.cast(pa.int32()).to_numpy(zero_copy_only=False)
        return _without_bad(days.astype(np.int64))
    parsed = parse_timestamps(values, aware=False)
    days, time_of_day = np.divmod(parsed.numbers, MICROSECONDS_PER_DAY)
    return Parsed(days, parsed.is_bad | (time_of_day != 0), parsed.is_missing)


def parse_timestamps(values: pa.Array, *, aware: bool) -> Parsed:
    """Parses points in time, as microseconds since 1970-01-01T00:00:00.

    Args:
        values: Arrow dates, timestamps or ISO text.
        aware: Whether all have a time zone (microseconds then count in UTC), or none.

    Returns:
        The microseconds, rounded down; those beyond int64 are moved to its ends.
    """
    if is_text(values.type):
        return _parse_timestamp_text(values, aware=aware)
    timestamps = values
    if pt.is_date(values.type) and not aware:
        timestamps = values.cast(pa.timestamp("ms"), safe=False)
    if not pt.is_timestamp(timestamps.type):
        raise UnexpectedType
    if (timestamps.type.tz is not None) != aware:
        raise UnexpectedType
    ticks = _to_int64(timestamps)
    if timestamps.type.unit == "ns":
        return _without_bad(np.floor_divide(ticks, 1_000))
    factor = _MICROSECONDS_PER_TICK[timestamps.type.unit]
    clamped = np.clip(ticks, _INT64.min // factor + 1, _INT64.max // factor)
    return _without_bad(clamped * factor)


def parse_booleans(
    values: pa.Array,
    true_words: Sequence[str] = _TRUE_WORDS,
    false_words: Sequence[str] = _FALSE_WORDS,
) -> Parsed:
    """Parses truth values, as 0 and 1.

    Args:
        values: Arrow truth values, the numbers 0 and 1, or text.
        true_words: Words that mean true in text, in any case.
        false_words: Words that mean false.
    """
    if pt.is_boolean(values.type):
        return _without_bad(_to_int64(values))
    if is_text(values.type):
        lowered = pc.utf8_lower(values)
        is_true = _is_among(lowered, true_words)
        is_false = _is_among(lowered, false_words)
        return Parsed(
            is_true.astype(np.int64), ~(is_true | is_false), np.zeros_like(is_true)
        )
    parsed = parse_integers(values)
    is_other_number = ((parsed.numbers >> 1) != 0) & ~parsed.is_missing
    return Parsed(parsed.numbers, parsed.is_bad | is_other_number, parsed.is_missing)


def _is_among(lowered: pa.Array, words: Sequence[str]) -> Mask:
    """Returns which texts, in lower case, are one of some words in any case."""
    return _to_mask(pc.is_in(lowered, value_set=pc.utf8_lower(pa.array(words))))


def _without_bad(numbers: npt.NDArray[Any], is_missing: Mask | None = None) -> Parsed:
    """Returns numbers of which none is bad, and none missing unless a mask says so."""
    nowhere = np.zeros(len(numbers), dtype=np.bool_)
    return Parsed(numbers, nowhere, nowhere if is_missing is None else is_missing)


def _to_int64(values: pa.Array) -> npt.NDArray[np.int64]:
    """Casts an Arrow array without nulls to int64; `pa.ArrowInvalid` if it cannot."""
    integers = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return np.asarray(integers, dtype=np.int64)


def _to_mask(values: pa.Array) -> Mask:
    """Converts an Arrow array of truth values without nulls to NumPy."""
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _parse_float_text(values: pa.Array) -> Parsed:
    """Parses text as float64; a text of NaN is missing."""
    try:
        numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        numbers = None
    # Arrow reads texts such as nan(x) as NaN, so that NaN calls for a closer look.
    if numbers is not None and not np.isnan(numbers).any():
        return _without_bad(numbers)
    plain = pc.replace_substring(values, MINUS_SIGN, "-")
    is_number = _to_mask(pc.match_substring_regex(plain, _FLOAT_PATTERN))
    number_texts = plain.filter(pa.array(is_number))
    numbers = np.zeros(len(values))
    numbers[is_number] = number_texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return Parsed(numbers, ~is_number, np.isnan(numbers))


def _parse_integer_text(values: pa.Array) -> Parsed:
    """Parses text as int64: digits exactly, other ways to write numbers by float64."""
    has_only_digits = pc.ascii_is_decimal(pc.utf8_ltrim(values, characters="-"))
    if _to_mask(has_only_digits).all():
        with suppress(pa.ArrowInvalid):  # beyond int64, or more than one sign
            return _without_bad(_to_int64(values))

    # +39 and 39.00 are digits too, once sign and zeros are gone.
    plain = pc.replace_substring_regex(values, r"^\+?(-?[0-9]+)(?:\.0*)?$", r"\1")
    is_short = _to_mask(pc.match_substring_regex(plain, r"^-?[0-9]{1,18}$"))
    is_digits = _to_mask(pc.match_substring_regex(plain, r"^-?[0-9]+$"))
    parsed = _as_integers(_parse_float_text(plain))
    parsed.numbers[is_short] = _to_int64(plain.filter(pa.array(is_short)))
    for row in np.flatnonzero(is_digits & ~is_short):
        integer = _parse_long_integer(plain[row].as_py())
        parsed.numbers[row] = min(max(integer, _INT64.min), _INT64.max)
    return parsed


def _parse_long_integer(digits: str) -> int:
    """Parses digits with an optional minus, of any length, in constant time.

    Only the first 20 digits count, which already are beyond int64.
    """
    sign = "-" if digits.startswith("-") else ""
    magnitude = digits.removeprefix("-").lstrip("0") or "0"
    return int(sign + magnitude[:20])


def _as_integers(parsed: Parsed) -> Parsed:
    """Converts float64 numbers to int64, moved to its ends; fractions are bad."""
    floats = parsed.numbers
    with np.errstate(invalid="ignore"):
        is_integral = (np.rint(floats) == floats) | parsed.is_missing
    # Below 2⁶², which leaves room for the conversion not to overflow; then the rest.
    is_convertible = is_integral & ~parsed.is_missing
    clipped = np.where(is_convertible, np.clip(floats, -(2.0**63), 2.0**62), 0.0)
    integers = np.where(floats >= 2.0**63, _INT64.max, clipped.astype(np.int64))
    is_large = (floats > 2.0**62) & (floats < 2.0**63)
    integers[is_large] = floats[is_large].astype(np.int64)
    return Parsed(integers, parsed.is_bad | ~is_integral, parsed.is_missing)


def _parse_timestamp_text(values: pa.Array, *, aware: bool) -> Parsed:
    """Parses ISO text as microseconds since 1970, in UTC if `aware`; others are bad."""
    pattern = _TIMESTAMP_PATTERN + (_TIME_ZONE_PATTERN if aware else "") + "$"
    is_formatted = _to_mask(pc.match_substring_regex(values, pattern))
    is_formatted &= ~_to_mask(pc.starts_with(values, "0000"))  # the calendar has none
    candidates = values if is_formatted.all() else values.filter(pa.array(is_formatted))
    # Fractions are cut to microseconds, the finest that are read.
    trimmed = pc.replace_substring_regex(candidates, r"(\.[0-9]{6})[0-9]+", r"\1")

    numbers = np.zeros(len(values), dtype=np.int64)
    is_bad = ~is_formatted
    timestamp_type = pa.timestamp("us", tz="UTC" if aware else None)
    try:
        numbers[is_formatted] = _to_int64(trimmed.cast(timestamp_type))
    except pa.ArrowInvalid:
        # A day that no calendar has, or a form that only Python reads: one by one.
        parsed = [_parse_iso_timestamp(text.as_py()) for text in trimmed]
        is_unreal = [number is None for number in parsed]
        numbers[is_formatted] = [number or 0 for number in parsed]
        is_bad[np.flatnonzero(is_formatted)[is_unreal]] = True
    return Parsed(numbers, is_bad, np.zeros(len(values), dtype=np.bool_))


def _parse_iso_timestamp(text: str) -> int | None:
    """Returns microseconds since 1970 of ISO text; None if there is no such time."""
    try:
        timestamp = datetime.fromisoformat(text)
    except ValueError:
        return None
    time_zone = None if timestamp.tzinfo is None else UTC
    return (timestamp - datetime(1970, 1, 1, tzinfo=time_zone)) // timedelta(
        microseconds=1
    )


def parse_distinct_texts(
    values: pa.Array, parse: Callable[[str], int | float | None]
) -> Parsed:
    """Parses each distinct text once with a function.

    Args:
        values: Text without nulls.
        parse: Function that returns the number of a text, or None if it has none.

    Returns:
        The numbers, (cells,); int64 if all are integers.

    Raises:
        UnexpectedType: if the cells are not text.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate.schema.parsing import parse_distinct_texts
        >>> percent = {"none": 0, "half": 50, "all": 100}
        >>> parsed = parse_distinct_texts(pa.array(["half", "most"]), percent.get)
        >>> parsed.numbers.tolist(), parsed.is_bad.tolist()
        ([50, 0], [False, True])
    """
    if not is_text(values.type):
        raise UnexpectedType
    encoded = values.dictionary_encode()
    numbers = [parse(text) for text in encoded.dictionary.to_pylist()]
    is_bad = np.array([number is None for number in numbers], dtype=np.bool_)
    filled = np.array([number or 0 for number in numbers])
    rows = encoded.indices.to_numpy(zero_copy_only=False)
    return Parsed(filled[rows], is_bad[rows], np.zeros(len(values), dtype=np.bool_))


# --- Whole columns of text at once. ---


def parse_plain_levels(
    texts: pa.Array, levels: Sequence[str | int]
) -> npt.NDArray[Any] | None:
    """Returns the index of each text among the levels; None if one is no level."""
    codes = pc.index_in(texts, value_set=pa.array(levels))
    if codes.null_count:
        return None
    return np.asarray(codes.to_numpy(zero_copy_only=False, writable=True))


def parse_plain_integers(
    texts: pa.Array, missing_markers: pa.Array
) -> npt.NDArray[Any] | None:
    """Parses text as int64; None if a cell is not digits alone, or a marker."""
    # Arrow would take hexadecimal digits too.
    if not pc.all(pc.ascii_is_decimal(texts)).as_py():
        return None
    return _parse_plain_numbers(texts, pa.int64(), missing_markers)


def parse_plain_floats(
    texts: pa.Array, missing_markers: pa.Array
) -> npt.NDArray[Any] | None:
    """Parses text as float64; None if a cell is no plain number, or a marker."""
    return _parse_plain_numbers(texts, pa.float64(), missing_markers)


def _parse_plain_numbers(
    texts: pa.Array, number_type: pa.DataType, missing_markers: pa.Array
) -> npt.NDArray[Any] | None:
    """Casts text to numbers; None if a cell is none, NaN, or stands for missing."""
    try:
        numbers: npt.NDArray[Any] = texts.cast(number_type).to_numpy(
            zero_copy_only=False, writable=True
        )
    except pa.ArrowInvalid:
        return None
    if np.isnan(numbers).any():
        return None
    marker_numbers = _numbers_among(tuple(missing_markers.to_pylist()))
    if any((numbers == marker).any() for marker in marker_numbers):
        return None
    return numbers


@lru_cache
def _numbers_among(texts: tuple[str, ...]) -> list[float]:
    """Returns the numbers that some of the texts are."""
    parsed = parse_floats(pa.array(texts, pa.string()))
    return list(parsed.numbers[~(parsed.is_bad | parsed.is_missing)])
