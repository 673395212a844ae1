"""An Arrow table to records of numbers and codes: one encoder, strict for private records and tolerant for comparisons.

Strict: the first cell that does not fit its column ends the reading (`CellProblem`, `TypeProblem`), since what does not
fit is a mistake in the schema or in the data. Tolerant: the tables that an evaluation compares come from anywhere, so
nothing ends the reading; a value that the schema cannot place is *outside*, any may be missing, numbers need not be
whole, moments without a time zone are taken for UTC, and levels are found that a type-guessing reader took for numbers
or truth values. Either way, what is made of a cell depends on that cell alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.records import Images, Rows
from noisegate.schema.checks import TEXT_PADDING
from noisegate.schema.columns import Boolean, Categorical, CodedColumn, Column, Continuous, Date, Datetime
from noisegate.schema.parse import (
    Mask,
    Parsed,
    Parser,
    UnexpectedType,
    booleans,
    days,
    floats,
    integers,
    is_text,
    microseconds,
)
from noisegate.schema.positions import positions_of
from noisegate.schema.schema import Schema

_WORDS = {"bool": "truth values", "date32[day]": "dates", "double": "decimal numbers", "float": "decimal numbers"}
_DAY = 86_400_000_000  # microseconds


class CellProblem(Exception):  # noqa: N818 - not an error for users; the caller adds file and line, and makes it one
    """A cell that does not fit its column.

    Attributes:
        column: the column of the schema.
        row: position in the batch.
        value: what was found; private.
        missing: whether the problem is that nothing was found.
    """

    def __init__(self, column: Column, row: int, value: Any, *, missing: bool) -> None:
        super().__init__(column.name)
        self.column, self.row, self.value, self.missing = column, row, value, missing


class TypeProblem(Exception):  # noqa: N818 - as above
    """A column whose Arrow type cannot hold what the schema says; `found` is the type in words."""

    def __init__(self, column: Column, found: str) -> None:
        super().__init__(column.name)
        self.column, self.found = column, found


def encode(arrays: Mapping[str, pa.Array], schema: Schema) -> Rows:
    """Return the records whose columns are ``arrays``, all of one length, by name; images as `Images`.

    Raises:
        CellProblem: for the first cell of the first column that does not fit.
        TypeProblem: for the first column whose Arrow type does not fit.
    """
    layout, rows = schema.layout, len(arrays[schema.names[0]])
    tokens = pa.array(schema.missing_values, pa.string())
    if schema.images is not None:
        pixels = np.empty((rows, schema.images.shape.size), dtype=np.uint8)
        for place, pixel in enumerate(layout.numeric):
            pixels[:, place] = np.clip(read_cells(pixel, arrays[pixel.name], tokens)[0], 0, 255)
        labels = [encode_column(column, arrays[column.name], tokens)[0] for column in layout.coded]
        return Images(pixels.reshape(rows, *schema.images.shape.axes), labels[0] if labels else None)
    numeric = np.empty((rows, len(layout.numeric)), dtype=np.float64)
    codes = np.empty((rows, len(layout.coded)), dtype=np.int32)
    into: dict[str, npt.NDArray[Any]] = {column.name: numeric[:, place] for place, column in enumerate(layout.numeric)}
    into |= {column.name: codes[:, place] for place, column in enumerate(layout.coded)}
    for column in schema.columns:
        into[column.name][:] = encode_column(column, arrays[column.name], tokens)[0]
    return Rows(numeric, codes)


def encode_column(
    column: Column, cells: pa.Array, tokens: pa.Array, *, tolerant: bool = False
) -> tuple[npt.NDArray[Any], Mask | None]:
    """Return the positions or codes of one column, and where it is outside of all that the column can say.

    Args:
        column: its description.
        cells: of any Arrow type.
        tokens: text that stands for a missing value.
        tolerant: whether what does not fit is outside, in place of an error.

    Returns:
        float64 in [0, 1], NaN where missing or outside, or int32 codes, the number of levels where missing or outside;
        and (rows,), None unless tolerant.

    Raises:
        CellProblem: for the first cell that does not fit, unless tolerant.
        TypeProblem: if the Arrow type does not fit, unless tolerant.
    """
    if tolerant:
        numbers, present, outside = _tolerant(column, cells, tokens)
    else:
        (numbers, present), outside = read_cells(column, cells, tokens), None
    if column.numeric:
        return _placed(positions_of(column, numbers), present, np.nan), outside
    return _placed(numbers.astype(np.int32, copy=False), present, len(column.levels)), outside


def read_cells(column: Column, array: pa.Array, tokens: pa.Array) -> tuple[npt.NDArray[Any], Mask]:
    """Return what the cells that are not missing say, and which cells these are.

    Numbers are float64 or whole steps as they stand in the data, not yet clamped to the bounds of ``column``; the rest
    are codes.

    Raises:
        CellProblem: for the first cell that does not fit.
        TypeProblem: if the Arrow type does not fit.
    """
    array, present = plain_cells(array, tokens)
    values = array if present.all() else array.filter(pa.array(present))
    try:
        parsed = _parser(column)(values) if not pt.is_null(array.type) else floats(pa.array([], pa.float64()))
    except UnexpectedType:
        raise TypeProblem(column, in_words(array.type)) from None
    if values is array and not (parsed.bad.any() or parsed.missing.any()):  # nearly always, so worth a short way
        return parsed.numbers, present
    rows = np.flatnonzero(present)
    if parsed.bad.any():
        row = int(rows[np.argmax(parsed.bad)])
        raise CellProblem(column, row, array[row].as_py(), missing=False)
    present[rows[parsed.missing]] = False
    if not column.missing and not present.all():
        raise CellProblem(column, int(np.argmin(present)), None, missing=True)
    return parsed.numbers[~parsed.missing], present


def plain_cells(array: pa.Array, tokens: pa.Array) -> tuple[pa.Array, Mask]:
    """Return the cells as plain values, text without surrounding blanks, and which of them are not missing."""
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    present = array.is_valid()
    if is_text(array.type):
        array = pc.utf8_trim(array.cast(pa.string()), characters=TEXT_PADDING)
        present = pc.and_(present, pc.invert(pc.is_in(array, value_set=tokens)))
    return array, present.to_numpy(zero_copy_only=False).copy()


def in_words(kind: pa.DataType) -> str:
    """Return an Arrow type as a message may call it."""
    if is_text(kind):
        return "text"
    if pt.is_timestamp(kind):
        return "moments without a time zone" if kind.tz is None else "moments with a time zone"
    return _WORDS.get(str(kind), f"values of type {kind}")


def _placed(numbers: npt.NDArray[Any], present: Mask, absent: float) -> npt.NDArray[Any]:
    if present.all():
        return numbers
    cells = np.full(len(present), absent, dtype=numbers.dtype)
    cells[present] = numbers
    return cells


def _parser(column: Column) -> Parser:
    """Return what turns the cells of ``column`` into float64, whole steps or codes."""
    if isinstance(column, Continuous):
        return floats
    if isinstance(column, Date):
        return days
    if isinstance(column, Datetime):
        return partial(microseconds, aware=column.aware)
    if isinstance(column, Boolean):
        return booleans
    return integers if column.numeric else partial(_codes, column)


def _codes(column: CodedColumn, values: pa.Array) -> Parsed:
    """Return the position of each value among the levels; unknown ones are bad, or become the level `other`."""
    missing = bad = np.zeros(len(values), dtype=np.bool_)
    if isinstance(column.levels[0], str):
        if pt.is_integer(values.type):
            values = values.cast(pa.string())
        if not is_text(values.type):
            raise UnexpectedType
    else:
        whole = integers(values)
        values, missing, bad = pa.array(whole.numbers), whole.missing, whole.bad
    found = pc.index_in(values, value_set=pa.array(column.levels, values.type))
    codes = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    bad = (bad | (codes < 0)) & ~missing
    if isinstance(column, Categorical) and column.other is not None:
        codes[bad] = column.levels.index(column.other)
        bad = np.zeros_like(bad)
    return Parsed(codes, bad, missing)


def _tolerant(column: Column, array: pa.Array, tokens: pa.Array) -> tuple[npt.NDArray[Any], Mask, Mask]:
    """Return what `read_cells` does, without the cells that do not fit, and where these are."""
    if pt.is_nested(array.type):  # as text, which no schema can place
        array = pa.array([None if cell is None else str(cell) for cell in array.to_pylist()], pa.string())
    known: Collection[Any] = () if column.numeric else column.levels
    usual = pa.array([text for text in ("", "nan", "NaN") if text not in known], pa.string())
    array, present = plain_cells(array, pa.concat_arrays([tokens, usual]))
    outside = np.zeros(len(array), dtype=np.bool_)
    if pt.is_null(array.type):
        return np.zeros(0), present, outside
    rows = np.flatnonzero(present)
    try:
        parsed = _tolerant_parser(column)(array.filter(pa.array(present)))
    except UnexpectedType:
        parsed = Parsed(np.zeros(len(rows)), np.ones(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_))
    outside[rows[parsed.bad]] = True
    gone = parsed.bad | parsed.missing
    present[rows[gone]] = False
    return parsed.numbers[~gone], present, outside


def _tolerant_parser(column: Column) -> Parser:
    if isinstance(column, Boolean):
        return booleans
    if not column.numeric:
        return partial(_guessed_codes, column)
    if isinstance(column, Date | Datetime):
        return partial(_any_moments, in_days=isinstance(column, Date))
    return lambda values: floats(values.cast(pa.int8()) if pt.is_boolean(values.type) else values)


def _any_moments(values: pa.Array, *, in_days: bool) -> Parsed:
    """Return microseconds or days, in UTC, of moments with and without a time zone."""
    if is_text(values.type):
        naive, aware = microseconds(values, aware=False), microseconds(values, aware=True)
        found = Parsed(np.where(naive.bad, aware.numbers, naive.numbers), naive.bad & aware.bad, naive.missing)
    else:
        found = microseconds(values, aware=pt.is_timestamp(values.type) and values.type.tz is not None)
    return Parsed(found.numbers // _DAY, found.bad, found.missing) if in_days else found


def _guessed_codes(column: CodedColumn, values: pa.Array) -> Parsed:
    """Return codes as `_codes` does; of what is no text also by what its reader may have taken the level for."""
    if is_text(values.type) or not isinstance(column.levels[0], str):
        return _codes(column, values.cast(pa.int8()) if pt.is_boolean(values.type) else values)
    places = {_guess(level): code for code, level in reversed(list(enumerate(column.levels)))}
    places |= {str(level): code for code, level in enumerate(column.levels)}
    other = getattr(column, "other", None)
    unknown = -1 if other is None else column.levels.index(other)
    distinct = values.dictionary_encode()
    cells, rows = distinct.dictionary.to_pylist(), distinct.indices.to_numpy()
    codes = np.array([places.get(_spelled(cell), places.get(_guess(cell), unknown)) for cell in cells], dtype=np.int32)
    found, missing = codes[rows], np.array([cell != cell for cell in cells], dtype=np.bool_)[rows]
    return Parsed(found, (found < 0) & ~missing, missing)


def _spelled(cell: Any) -> str:
    """Return a value as a level would be written: 3.0 is written 3, as nullable integers often arrive as floats."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()


def _guess(cell: Any) -> str:
    """Return one text for everything that a type-guessing reader may take for the same number or truth value."""
    text = _spelled(cell)
    try:
        return repr(float(text))
    except ValueError:
        return text.lower() if text.lower() in ("true", "false") else text
