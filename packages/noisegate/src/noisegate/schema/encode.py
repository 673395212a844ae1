"""An Arrow table to records of numbers and codes: what is made of a cell depends on that cell alone.

The first cell that does not fit its column ends the reading.
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

_FLOAT = (
    r"^[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:inf|infinity|nan))$"
)
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MOMENT = (
    rf"^{_DATE}(?:[ T](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?)?"
)
_ZONE = r"(?:Z|[+-][0-9]{2}:?[0-9]{2})"
_TRUE, _FALSE = ("true", "yes", "1", "1.0"), ("false", "no", "0", "0.0")
MICROSECONDS_PER_DAY = 86_400_000_000  # microseconds
_INT64 = np.iinfo(np.int64)
_PER_MICROSECOND = {"s": 1_000_000, "ms": 1_000, "us": 1}
_WORDS = {
    "bool": "truth values",
    "date32[day]": "dates",
    "double": "decimal numbers",
    "float": "decimal numbers",
}


def encode(arrays: Mapping[str, pa.Array], schema: Schema) -> Rows:
    """Returns the records whose columns are ``arrays``, images as `Images`; a Problem for what does not fit first."""
    layout, rows = schema.layout, len(arrays[schema.names[0]])
    tokens = pa.array(schema.missing_values, pa.string())
    if schema.images is not None:
        pixels = np.empty((rows, schema.images.shape.size), dtype=np.uint8)
        for place, pixel in enumerate(layout.numeric):
            pixels[:, place] = np.clip(
                read_cells(pixel, arrays[pixel.name], tokens)[0], 0, 255
            )
        labels = [
            encode_cells(column, *read_cells(column, arrays[column.name], tokens))
            for column in layout.coded
        ]
        return Images(
            pixels.reshape(rows, *schema.images.shape.axes),
            labels[0] if labels else None,
        )
    numeric = np.empty(
        (len(layout.numeric), rows), dtype=np.float64
    ).T  # written, and counted, column by column
    codes = np.empty((len(layout.coded), rows), dtype=np.int32).T
    into: dict[str, npt.NDArray[Any]] = {
        column.name: numeric[:, place] for place, column in enumerate(layout.numeric)
    }
    into |= {column.name: codes[:, place] for place, column in enumerate(layout.coded)}
    for column in schema.columns:
        into[column.name][:] = encode_cells(
            column, *read_cells(column, arrays[column.name], tokens)
        )
    return Rows(numeric, codes)


def encode_cells(
    column: Column, numbers: npt.NDArray[Any], present: Mask
) -> npt.NDArray[Any]:
    """Returns positions in [0, 1] (float64, NaN where missing) or codes (int32) of what `read_cells` found."""
    cells = (
        positions_of(column, numbers)
        if column.numeric
        else numbers.astype(np.int32, copy=False)
    )
    if present.all():
        return cells
    every = np.full(
        len(present),
        np.nan if column.numeric else len(column.levels),
        dtype=cells.dtype,
    )
    every[present] = cells
    return every


def read_cells(
    column: Column, array: pa.Array, tokens: pa.Array
) -> tuple[npt.NDArray[Any], Mask]:
    """Returns what cells that are not missing say, and which they are; a `Problem` for the first that does not fit."""
    # Numbers are float64 or whole steps as they stand in the data, not yet clamped to the bounds; the rest are codes.
    if (numbers := _read_at_once(column, array, tokens)) is not None:
        return numbers, np.ones(len(array), dtype=np.bool_)
    array, present = strip_cells(array, tokens)
    values = array if present.all() else array.filter(pa.array(present))
    try:
        plain = values.cast(pa.string()) if pt.is_null(values.type) else values
        if getattr(column, "format", None) is not None:
            from noisegate.schema.formats import parse_formatted

            plain = parse_formatted(column, plain)
        parsed = _parser(column)(plain)
    except UnexpectedType:
        raise unfit_type(column, describe_type(array.type)) from None
    if values is array and not (
        parsed.is_bad.any() or parsed.is_missing.any()
    ):  # nearly always, so worth a short way
        return parsed.numbers, present
    rows = np.flatnonzero(present)
    if parsed.is_bad.any():
        row = int(rows[np.argmax(parsed.is_bad)])
        raise unfit_cell(column, row, array[row].as_py())
    present[rows[parsed.is_missing]] = False
    if not column.missing and not present.all():
        raise missing_cell(column, int(np.argmin(present)))
    return parsed.numbers[~parsed.is_missing], present


def _read_at_once(
    column: Column, array: pa.Array, tokens: pa.Array
) -> npt.NDArray[Any] | None:
    """Returns what `read_cells` makes of text in which each cell is a number or a level as it stands; else None."""
    # Such a cell has no blanks around it, and is no token if no token is that number (a level never is one).
    if not pt.is_string(array.type) or getattr(column, "format", None) is not None:
        return None
    if isinstance(column, Ordinal | Categorical) and isinstance(column.levels[0], str):
        codes = pc.index_in(array, value_set=pa.array(column.levels))
        return (
            None
            if codes.null_count
            else codes.to_numpy(zero_copy_only=False, writable=True)
        )
    kind = {
        "integer": pa.int64(),
        "continuous": pa.float64(),
        "decimal": pa.float64(),
    }.get(column.kind)
    if kind is None or (
        kind == pa.int64() and not pc.all(pc.ascii_is_decimal(array)).as_py()
    ):
        return None
    try:
        numbers: npt.NDArray[Any] = array.cast(kind).to_numpy(
            zero_copy_only=False, writable=True
        )
    except pa.ArrowInvalid:
        return None
    astray = np.isnan(numbers).any() or any(
        (numbers == each).any() for each in _numbers_of(tuple(tokens.to_pylist()))
    )
    return None if astray else numbers


@lru_cache
def _numbers_of(tokens: tuple[str, ...]) -> list[float]:
    found = parse_floats(pa.array(tokens, pa.string()))
    return list(found.numbers[~(found.is_bad | found.is_missing)])


def strip_cells(array: pa.Array, tokens: pa.Array) -> tuple[pa.Array, Mask]:
    """Returns the cells as plain values, text without surrounding blanks, and which of them are not missing."""
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    present = array.is_valid()
    if is_text(array.type):
        array = pc.utf8_trim(array.cast(pa.string()), characters=TEXT_PADDING)
        present = pc.and_(present, pc.invert(pc.is_in(array, value_set=tokens)))
    return array, present.to_numpy(zero_copy_only=False).copy()


def describe_type(kind: pa.DataType) -> str:
    """Returns an Arrow type as a message may call it."""
    if is_text(kind):
        return "text"
    if pt.is_timestamp(kind):
        return (
            "moments without a time zone"
            if kind.tz is None
            else "moments with a time zone"
        )
    return _WORDS.get(str(kind), f"values of type {kind}")


def _parser(column: Column) -> Parser:
    if isinstance(column, Datetime):
        return partial(parse_timestamps, aware=column.aware)
    if not column.numeric:
        return (
            boolean_parser(column)
            if isinstance(column, Boolean)
            else partial(parse_codes, column)
        )
    return {"integer": parse_integers, "date": parse_dates}.get(
        column.kind, parse_floats
    )


def boolean_parser(column: Boolean) -> Parser:
    """Returns what reads a column of truth values."""
    return (
        partial(parse_booleans, true=column.true_values, false=column.false_values)
        if column.words
        else parse_booleans
    )


def parse_codes(column: CodedColumn, values: pa.Array) -> Parsed:
    """Returns the position of each value among the levels; unknown ones are bad, or become the level `other`."""
    missing = bad = np.zeros(len(values), dtype=np.bool_)
    if isinstance(column.levels[0], str):
        if pt.is_floating(values.type):
            # A program writes whole numbers with a fraction as soon as one record has none.
            whole = parse_integers(values)
            values, missing, bad = (
                pa.array(whole.numbers),
                whole.is_missing,
                whole.is_bad,
            )
        if pt.is_integer(values.type):
            values = values.cast(pa.string())
        if not is_text(values.type):
            raise UnexpectedType
    else:
        whole = parse_integers(values)
        values, missing, bad = pa.array(whole.numbers), whole.is_missing, whole.is_bad
    found = pc.index_in(values, value_set=pa.array(column.levels, values.type))
    codes = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    bad = (bad | (codes < 0)) & ~missing
    if isinstance(column, Categorical) and column.other is not None:
        codes[bad] = column.levels.index(column.other)
        bad = np.zeros_like(bad)
    return Parsed(codes, bad, missing)


class UnexpectedType(Exception):  # noqa: N818 - not an error for users; the caller turns it into one
    """The Arrow type of a column cannot hold values of the kind that the schema says."""


@dataclass(frozen=True)
class Parsed:
    """Numbers, one for each cell, meaningless where a mask is set."""

    numbers: npt.NDArray[Any]
    is_bad: Mask  # cells that say something, but not what the kind of column allows
    is_missing: Mask  # cells that are present yet stand for nothing (a float NaN)


Parser: TypeAlias = Callable[[pa.Array], Parsed]
"""From cells without nulls to numbers; `UnexpectedType` where their Arrow type holds none of the kind."""


def is_text(kind: pa.DataType) -> bool:
    """Returns whether an Arrow type holds text."""
    return bool(
        pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind)
    )


def parse_floats(values: pa.Array) -> Parsed:
    """Returns float64 values of numbers, decimals or text."""
    if pt.is_decimal(values.type):
        values = values.cast(pa.string())  # the cast by way of text rounds correctly
    if is_text(values.type):
        return _text_floats(values)
    if not (pt.is_integer(values.type) or pt.is_floating(values.type)):
        raise UnexpectedType
    numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return _good(numbers, np.isnan(numbers))


def parse_integers(values: pa.Array) -> Parsed:
    """Returns int64 values of whole numbers; those beyond int64 become its smallest or largest value."""
    if pt.is_decimal(values.type):
        values = values.cast(pa.string())
    if is_text(values.type):
        return _text_integers(values)
    if pt.is_uint64(values.type):
        return _good(
            np.minimum(
                values.to_numpy(zero_copy_only=False), np.uint64(_INT64.max)
            ).astype(np.int64)
        )
    return (
        _good(_int64(values))
        if pt.is_integer(values.type)
        else _whole_floats(parse_floats(values))
    )


def parse_dates(values: pa.Array) -> Parsed:
    """Returns days since 1970-01-01 of dates, midnights, or ISO text of either, none with a time zone."""
    if pt.is_date32(values.type):
        return _good(
            values.cast(pa.int32()).to_numpy(zero_copy_only=False).astype(np.int64)
        )
    moments = parse_timestamps(values, aware=False)
    whole, rest = np.divmod(moments.numbers, MICROSECONDS_PER_DAY)
    return Parsed(whole, moments.is_bad | (rest != 0), moments.is_missing)


def parse_timestamps(values: pa.Array, *, aware: bool) -> Parsed:
    """Returns microseconds since 1970 of dates, moments or ISO text, all with a time zone if ``aware``, else none."""
    if is_text(values.type):
        return _text_microseconds(values, aware=aware)
    if pt.is_date(values.type) and not aware:
        values = values.cast(pa.timestamp("ms"), safe=False)
    if not pt.is_timestamp(values.type) or (values.type.tz is not None) != aware:
        raise UnexpectedType
    ticks = _int64(values)
    if values.type.unit == "ns":
        return _good(np.floor_divide(ticks, 1_000))
    factor = _PER_MICROSECOND[values.type.unit]
    return _good(
        np.clip(ticks, _INT64.min // factor + 1, _INT64.max // factor) * factor
    )


def parse_booleans(
    values: pa.Array, true: Sequence[str] = _TRUE, false: Sequence[str] = _FALSE
) -> Parsed:
    """Returns 0 and 1 of truth values, the numbers 0 and 1, or text in any case: by default true/false, yes/no, 1/0."""
    if pt.is_boolean(values.type):
        return _good(_int64(values))
    if is_text(values.type):
        lowered = pc.utf8_lower(values)
        yes, no = (
            _mask(pc.is_in(lowered, value_set=pc.utf8_lower(pa.array(words))))
            for words in (true, false)
        )
        return Parsed(yes.astype(np.int64), ~(yes | no), np.zeros_like(yes))
    found = parse_integers(values)
    return Parsed(
        found.numbers,
        found.is_bad | ((found.numbers >> 1) != 0) & ~found.is_missing,
        found.is_missing,
    )


def _good(numbers: npt.NDArray[Any], missing: Mask | None = None) -> Parsed:
    none = np.zeros(len(numbers), dtype=np.bool_)
    return Parsed(numbers, none, none if missing is None else missing)


def _int64(values: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(
        values.cast(pa.int64()).to_numpy(zero_copy_only=False), dtype=np.int64
    )


def _mask(values: pa.Array) -> Mask:
    return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _text_floats(values: pa.Array) -> Parsed:
    try:
        numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        numbers = None
    if (
        numbers is not None and not np.isnan(numbers).any()
    ):  # Arrow reads things like nan(x) as NaN: look closer then
        return _good(numbers)
    good = _mask(pc.match_substring_regex(values, _FLOAT))
    numbers = np.zeros(len(values))
    numbers[good] = (
        values.filter(pa.array(good)).cast(pa.float64()).to_numpy(zero_copy_only=False)
    )
    return Parsed(numbers, ~good, np.isnan(numbers))


def _text_integers(values: pa.Array) -> Parsed:
    """Digits are read exactly; other ways to write a number (39.0, 1e3) must come out whole."""
    digits = _mask(pc.ascii_is_decimal(pc.utf8_ltrim(values, characters="-")))
    if digits.all():
        with suppress(pa.ArrowInvalid):  # beyond int64, or more than one sign
            return _good(_int64(values))
    plain = pc.replace_substring_regex(values, r"^\+?(-?[0-9]+)(?:\.0*)?$", r"\1")
    exact = _mask(pc.match_substring_regex(plain, r"^-?[0-9]{1,18}$"))
    parsed = _whole_floats(_text_floats(plain))
    parsed.numbers[exact] = _int64(plain.filter(pa.array(exact)))
    for row in np.flatnonzero(
        ~exact & _mask(pc.match_substring_regex(plain, r"^-?[0-9]+$"))
    ):
        parsed.numbers[row] = min(
            max(_long_integer(plain[row].as_py()), _INT64.min), _INT64.max
        )
    return parsed


def _long_integer(digits: str) -> int:
    # Cut to one that is beyond int64 where it is absurdly long.
    sign, figures = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    return int(sign + (figures.lstrip("0") or "0")[:20])


def _whole_floats(found: Parsed) -> Parsed:
    with np.errstate(invalid="ignore"):
        whole = (np.rint(found.numbers) == found.numbers) | found.is_missing
    inside = np.where(
        whole & ~found.is_missing, np.clip(found.numbers, -(2.0**63), 2.0**62), 0.0
    ).astype(np.int64)
    numbers = np.where(found.numbers >= 2.0**63, _INT64.max, inside)
    between = (found.numbers > 2.0**62) & (found.numbers < 2.0**63)
    numbers[between] = found.numbers[between].astype(np.int64)
    return Parsed(numbers, found.is_bad | ~whole, found.is_missing)


def _text_microseconds(values: pa.Array, *, aware: bool) -> Parsed:
    good = _mask(
        pc.match_substring_regex(values, _MOMENT + (_ZONE if aware else "") + "$")
    )
    good &= ~_mask(pc.starts_with(values, "0000"))
    chosen = values if good.all() else values.filter(pa.array(good))
    chosen = pc.replace_substring_regex(chosen, r"(\.[0-9]{6})[0-9]+", r"\1")
    numbers = np.zeros(len(values), dtype=np.int64)
    try:
        numbers[good] = _int64(
            chosen.cast(pa.timestamp("us", tz="UTC" if aware else None))
        )
    except (
        pa.ArrowInvalid
    ):  # a day that no calendar has, or a form that only Python reads: one by one
        single = [_moment(text.as_py()) for text in chosen]
        numbers[good] = [0 if number is None else number for number in single]
        good[np.flatnonzero(good)[[number is None for number in single]]] = False
    return Parsed(numbers, ~good, np.zeros(len(values), dtype=np.bool_))


def _moment(text: str) -> int | None:
    """Returns microseconds since 1970 of ISO text; None if it says no moment that there is."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    epoch = datetime(1970, 1, 1, tzinfo=None if moment.tzinfo is None else UTC)
    return (moment - epoch) // timedelta(microseconds=1)


def normalized_names(cells: pa.Array, column: str) -> pa.Array:
    """Returns names as text (whole numbers in decimal, 1.0 as 1, no surrounding blanks) or bytes; a Problem if none."""
    if pt.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    kind = cells.type
    if pt.is_integer(kind) or pt.is_null(kind):
        return cells.cast(pa.string())
    if pt.is_floating(kind):
        cells = pc.if_else(pc.is_nan(cells), None, cells.cast(pa.float64()))
        bad = pc.or_(
            pc.not_equal(pc.round(cells), cells), pc.greater(pc.abs(cells), 2.0**53)
        ).fill_null(False)
        if pc.any(bad).as_py():
            says = f"column {column!r}: expected text or whole numbers up to 2**53; write such names as text"
            raise Problem(bad.index(True).as_py(), says)
        return cells.cast(pa.int64()).cast(pa.string())
    if is_text(kind):
        trimmed = pc.utf8_trim(cells.cast(pa.string()), characters=TEXT_PADDING)
        return pc.replace_substring_regex(
            trimmed, r"^(-?[0-9]+)\.0+$", r"\1"
        )  # as pandas writes where one is missing
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind):
        return cells.cast(pa.binary())
    raise Problem(
        None,
        f"column {column!r}: expected text or whole numbers that name the units, found a column of {kind}, where one "
        "unit may be written in several ways; convert the column",
    )


def join_names(names: Sequence[pa.Array]) -> pa.Array:
    """Returns one name for those in several columns, each behind its length, so that no two have one; null for null."""
    if len(names) == 1:
        return names[0]
    lengths = [pc.binary_length(one).cast(pa.string()) for one in names]
    texts = [
        text.cast(pa.binary())
        for pair in zip(lengths, names, strict=True)
        for text in pair
    ]
    return pc.binary_join_element_wise(*texts, pa.scalar(b":", pa.binary()))
