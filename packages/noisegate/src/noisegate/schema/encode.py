"""Encodes an Arrow table as records of numbers and codes, by its schema.

What a cell becomes depends on that cell and the schema alone, never on other cells.
Each column takes these steps, all of them vectorised over its cells::

    Arrow array ── strip_cells ──► plain values, and which are missing
                                         │
                                  parser of the kind (`parse_floats`, ...)
                                         ▼
                   numbers: float64, or int64 units; or codes: int32
                                         │
                                   encode_cells
                                         ▼
                   positions in [0, 1], NaN where missing; or codes

`read_cells` takes the steps up to the numbers. The first cell that does not fit its
column ends the reading with a `Problem`, which names the record.

A parser takes cells without nulls and returns `Parsed`: a number for each cell, and
which cells are bad. It raises `UnexpectedType` where the Arrow type as such holds no
values of the kind. The same parsers tell a draft of a schema what kind a column is.

At the end of the file, names of units of privacy are normalised, such as the ids of
patients, so that a unit that is written in two ways is taken for one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.records import Images, Rows
from noisegate.schema.columns import (
    Column,
    Problem,
    missing_cell,
    unfit_cell,
    unfit_type,
)
from noisegate.schema.layout import positions_of
from noisegate.schema.numeric import Datetime
from noisegate.schema.schema import Schema
from noisegate.schema.values import (
    TEXT_PADDING,
    Boolean,
    Categorical,
    CodedColumn,
    Ordinal,
)

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


def encode(arrays: Mapping[str, pa.Array], schema: Schema) -> Rows:
    """Encodes the columns of a batch of records.

    Args:
        arrays: An Arrow array for each column of the schema, by name, all of one
            length.
        schema: What the columns are.

    Returns:
        The records; `Images` if the schema describes images.

    Raises:
        Problem: for the first column, in the order of the schema, that has a cell that
            does not fit.
    """
    if schema.images is not None:
        return _encode_images(arrays, schema)

    layout = schema.layout
    record_count = len(arrays[schema.names[0]])
    missing_markers = pa.array(schema.missing_values, pa.string())
    # Column by column in memory, as they are written here, and counted later.
    numeric = np.empty((len(layout.numeric), record_count), dtype=np.float64).T
    codes = np.empty((len(layout.coded), record_count), dtype=np.int32).T
    destinations: dict[str, npt.NDArray[Any]] = {}
    for index, numeric_column in enumerate(layout.numeric):
        destinations[numeric_column.name] = numeric[:, index]
    for index, coded_column in enumerate(layout.coded):
        destinations[coded_column.name] = codes[:, index]

    for column in schema.columns:
        numbers, is_present = read_cells(column, arrays[column.name], missing_markers)
        destinations[column.name][:] = encode_cells(column, numbers, is_present)
    return Rows(numeric, codes)


def _encode_images(arrays: Mapping[str, pa.Array], schema: Schema) -> Images:
    """Encodes a table of pixels, with an optional label, as images of bytes.

    Args:
        arrays: An Arrow array for each pixel and for the label, by name.
        schema: A schema of images.
    """
    assert schema.images is not None
    layout = schema.layout
    shape = schema.images.shape
    image_count = len(arrays[schema.names[0]])
    missing_markers = pa.array(schema.missing_values, pa.string())
    pixels = np.empty((image_count, shape.size), dtype=np.uint8)
    for index, pixel in enumerate(layout.numeric):
        intensities, _ = read_cells(pixel, arrays[pixel.name], missing_markers)
        pixels[:, index] = np.clip(intensities, 0, 255)

    labels = None
    if layout.coded:
        label_column = layout.coded[0]
        codes, is_present = read_cells(
            label_column, arrays[label_column.name], missing_markers
        )
        labels = encode_cells(label_column, codes, is_present)
    return Images(pixels.reshape(image_count, *shape.axes), labels)


def encode_cells(
    column: Column, numbers: npt.NDArray[Any], is_present: Mask
) -> npt.NDArray[Any]:
    """Encodes the cells of a column that `read_cells` read.

    Args:
        column: The column.
        numbers: Numbers or codes of the cells that are present, (present cells,).
        is_present: Which cells are not missing, (cells,).

    Returns:
        Positions in [0, 1], float64, NaN where missing; for a column of levels, codes,
        int32, the number of levels where missing. (cells,)
    """
    present_cells: npt.NDArray[Any]
    missing_cell_value: float
    if column.numeric:
        present_cells = positions_of(column, numbers)
        missing_cell_value = np.nan
    else:
        present_cells = numbers.astype(np.int32, copy=False)
        missing_cell_value = len(column.levels)
    if is_present.all():
        return present_cells
    cells = np.full(len(is_present), missing_cell_value, dtype=present_cells.dtype)
    cells[is_present] = present_cells
    return cells


def read_cells(
    column: Column, array: pa.Array, missing_markers: pa.Array
) -> tuple[npt.NDArray[Any], Mask]:
    """Reads the numbers or codes in the cells of a column.

    Args:
        column: What the column is.
        array: The cells, of any Arrow type.
        missing_markers: Texts that stand for a missing value.

    Returns:
        Of the cells that are present, float64 numbers or int64 units of a column of
        steps, not yet clamped to the bounds, or codes, (present cells,). And which
        cells are present, (cells,).

    Raises:
        Problem: for the first cell that does not fit the column, or is missing where
            the column allows none; or if the Arrow type holds no values of its kind.
    """
    plain_numbers = _read_plain_text(column, array, missing_markers)
    if plain_numbers is not None:
        return plain_numbers, np.ones(len(array), dtype=np.bool_)

    stripped, is_present = strip_cells(array, missing_markers)
    has_all = is_present.all()
    values = stripped if has_all else stripped.filter(pa.array(is_present))
    try:
        parsed = _parse_values(column, values)
    except UnexpectedType:
        raise unfit_type(column, describe_type(stripped.type)) from None

    # Nearly every column is of this kind, so that the way is short for it.
    if has_all and not (parsed.is_bad.any() or parsed.is_missing.any()):
        return parsed.numbers, is_present

    present_rows = np.flatnonzero(is_present)
    if parsed.is_bad.any():
        row = int(present_rows[np.argmax(parsed.is_bad)])
        raise unfit_cell(column, row, stripped[row].as_py())
    is_present[present_rows[parsed.is_missing]] = False
    if not column.missing and not is_present.all():
        raise missing_cell(column, int(np.argmin(is_present)))
    return parsed.numbers[~parsed.is_missing], is_present


def _parse_values(column: Column, values: pa.Array) -> Parsed:
    """Parses stripped cells, none of them missing, by the column's kind and format."""
    # A column of nulls has no type of its own; what is left of it, nothing, is text.
    plain = values.cast(pa.string()) if pt.is_null(values.type) else values
    if getattr(column, "format", None) is not None:
        from noisegate.schema.formats import parse_formatted

        plain = parse_formatted(column, plain)
    return _parser(column)(plain)


def _read_plain_text(
    column: Column, array: pa.Array, missing_markers: pa.Array
) -> npt.NDArray[Any] | None:
    """Reads a column of text at once, if each cell is a number or a level as it stands.

    Most columns of CSV files are like this. A cell that is read so has no blanks around
    it, and is no missing marker, unless that is a number: a level never is one.

    Args:
        column: What the column is.
        array: The cells, of any Arrow type.
        missing_markers: Texts that stand for a missing value.

    Returns:
        What `read_cells` returns for these cells, all present, (cells,); None if they
        must be looked at more closely.
    """
    if not pt.is_string(array.type) or getattr(column, "format", None) is not None:
        return None
    if isinstance(column, Ordinal | Categorical) and isinstance(column.levels[0], str):
        codes = pc.index_in(array, value_set=pa.array(column.levels))
        if codes.null_count:
            return None
        return np.asarray(codes.to_numpy(zero_copy_only=False, writable=True))

    if column.kind == "integer":
        number_type = pa.int64()
        # Arrow would take hexadecimal digits too.
        if not pc.all(pc.ascii_is_decimal(array)).as_py():
            return None
    elif column.kind in ("continuous", "decimal"):
        number_type = pa.float64()
    else:
        return None
    try:
        numbers: npt.NDArray[Any] = array.cast(number_type).to_numpy(
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


def strip_cells(array: pa.Array, missing_markers: pa.Array) -> tuple[pa.Array, Mask]:
    """Strips blanks from text, and finds the cells that are present.

    Args:
        array: The cells, of any Arrow type; a dictionary is decoded.
        missing_markers: Texts that stand for a missing value.

    Returns:
        The cells, text as `string` without surrounding blanks; and which of them are
        neither null nor a missing marker, (cells,), an array of its own.
    """
    cells = array.dictionary_decode() if pt.is_dictionary(array.type) else array
    if not is_text(cells.type):
        return cells, cells.is_valid().to_numpy(zero_copy_only=False).copy()
    stripped = pc.utf8_trim(cells.cast(pa.string()), characters=TEXT_PADDING)
    is_marker = pc.is_in(stripped, value_set=missing_markers)
    is_present = pc.and_(cells.is_valid(), pc.invert(is_marker))
    return stripped, is_present.to_numpy(zero_copy_only=False).copy()


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


# --- Parsers: from cells without nulls to numbers. ---


class UnexpectedType(Exception):  # noqa: N818 - for callers, who make an error of it
    """The Arrow type of a column cannot hold values of the kind that is parsed."""


@dataclass(frozen=True)
class Parsed:
    """What a parser returns: a number for each cell.

    Attributes:
        numbers: float64 numbers, int64 units, or int32 codes, (cells,); meaningless
            where a mask is set.
        is_bad: Which cells hold something that the kind of column does not allow.
        is_missing: Which cells are no null, yet hold nothing: a NaN among floats.
    """

    numbers: npt.NDArray[Any]
    is_bad: Mask
    is_missing: Mask


Parser: TypeAlias = Callable[[pa.Array], Parsed]
"""Parses cells without nulls; raises `UnexpectedType` where none can be of the kind."""


def _parser(column: Column) -> Parser:
    """Returns the parser of a column's cells, by its kind."""
    if isinstance(column, Datetime):
        return partial(parse_timestamps, aware=column.aware)
    if isinstance(column, Boolean):
        return boolean_parser(column)
    if not column.numeric:
        return partial(parse_codes, column)
    # No other kind is read as numbers by accident: a KeyError names what is missing.
    number_parsers: dict[str, Parser] = {
        "continuous": parse_floats,
        "decimal": parse_floats,
        "integer": parse_integers,
        "date": parse_dates,
    }
    return number_parsers[column.kind]


def boolean_parser(column: Boolean) -> Parser:
    """Returns the parser of truth values, with the column's own words if it has any."""
    if not column.words:
        return parse_booleans
    return partial(
        parse_booleans, true_words=column.true_values, false_words=column.false_values
    )


def parse_codes(column: CodedColumn, values: pa.Array) -> Parsed:
    """Parses levels, and numbers that are levels.

    Args:
        column: A column of levels.
        values: Text or numbers, without nulls.

    Returns:
        The index of each value among the levels, int32, (cells,). A value that is no
        level is bad, or becomes the level `other` where the column has one.
    """
    nowhere = np.zeros(len(values), dtype=np.bool_)
    has_text_levels = isinstance(column.levels[0], str)
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

    levels = pa.array(column.levels, level_values.type)
    indices = pc.index_in(level_values, value_set=levels).fill_null(-1)
    codes = indices.to_numpy(zero_copy_only=False).astype(np.int32)
    is_unknown = (is_unreadable | (codes < 0)) & ~is_missing
    if isinstance(column, Categorical) and column.other is not None:
        codes[is_unknown] = column.levels.index(column.other)
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
    is_number = _to_mask(pc.match_substring_regex(values, _FLOAT_PATTERN))
    number_texts = values.filter(pa.array(is_number))
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


# --- Names of units of privacy. ---


def normalized_names(cells: pa.Array, column: str) -> pa.Array:
    """Normalises names, so that each is written in one way, whatever its Arrow type.

    Args:
        cells: Text, integers, integral floats or bytes; NaN is null.
        column: Name of the column, for messages.

    Returns:
        Text without surrounding blanks, where integers are decimal and 1.0 is 1; or the
        bytes. Nulls stay.

    Raises:
        Problem: for a float that is no integer or above 2⁵³ in magnitude, or if the
            Arrow type may write one name in several ways.
    """
    names = cells.dictionary_decode() if pt.is_dictionary(cells.type) else cells
    arrow_type = names.type
    if pt.is_integer(arrow_type) or pt.is_null(arrow_type):
        return names.cast(pa.string())
    if pt.is_floating(arrow_type):
        return _names_from_floats(names, column)
    if is_text(arrow_type):
        trimmed = pc.utf8_trim(names.cast(pa.string()), characters=TEXT_PADDING)
        # As pandas writes integers where one is missing.
        return pc.replace_substring_regex(trimmed, r"^(-?[0-9]+)\.0+$", r"\1")
    if (
        pt.is_binary(arrow_type)
        or pt.is_large_binary(arrow_type)
        or pt.is_fixed_size_binary(arrow_type)
    ):
        return names.cast(pa.binary())
    raise Problem(
        None,
        f"column {column!r}: expected text or whole numbers that name the units, found "
        f"a column of {arrow_type}, where one unit may be written in several ways; "
        "convert the column",
    )


def _names_from_floats(floats: pa.Array, column: str) -> pa.Array:
    """Returns integral floats as decimal text, NaN as null; a Problem for others."""
    numbers = pc.if_else(pc.is_nan(floats), None, floats.cast(pa.float64()))
    is_fractional = pc.not_equal(pc.round(numbers), numbers)
    # Above 2⁵³, two integers may be the same float64.
    is_too_large = pc.greater(pc.abs(numbers), 2.0**53)
    is_bad = pc.or_(is_fractional, is_too_large).fill_null(False)
    if pc.any(is_bad).as_py():
        raise Problem(
            is_bad.index(True).as_py(),
            f"column {column!r}: expected text or whole numbers up to 2**53; write "
            "such names as text",
        )
    return numbers.cast(pa.int64()).cast(pa.string())


def join_names(names: Sequence[pa.Array]) -> pa.Array:
    """Joins names in several columns, so that different ones stay different.

    Args:
        names: The names in each column, text or bytes, all of one length.

    Returns:
        One name for each row: `1:a:2:bc` for "a" and "bc", where each part stands
        behind its length; null where any part is null. The names themselves for one
        column.
    """
    if len(names) == 1:
        return names[0]
    lengths = [pc.binary_length(column).cast(pa.string()) for column in names]
    parts = []
    for length, name in zip(lengths, names, strict=True):
        parts += [length.cast(pa.binary()), name.cast(pa.binary())]
    return pc.binary_join_element_wise(*parts, pa.scalar(b":", pa.binary()))
