"""An Arrow batch to an encoded table; the encoding of a record depends on that record alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.data.parse import (
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
from noisegate.schema import Boolean, Categorical, CodedColumn, Column, Continuous, Date, Datetime, EncodedTable, Schema
from noisegate.schema.checks import TEXT_PADDING
from noisegate.schema.positions import positions_of


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
    """A column whose Arrow type cannot hold what the schema says.

    Attributes:
        column: the column of the schema.
        found: the type, in words.
    """

    def __init__(self, column: Column, found: str) -> None:
        super().__init__(column.name)
        self.column, self.found = column, found


def encode_batch(arrays: Mapping[str, pa.Array], schema: Schema) -> EncodedTable:
    """Return the records whose columns are ``arrays``, all of one length, by name.

    Raises:
        CellProblem: for the first cell of the first column that does not fit.
        TypeProblem: for the first column whose Arrow type does not fit.
    """
    layout, rows = schema.layout, len(arrays[schema.names[0]])
    tokens = pa.array(schema.missing_values, pa.string())
    numeric = np.empty((rows, len(layout.numeric)), dtype=np.float64)
    codes = np.empty((rows, len(layout.coded)), dtype=np.int32)
    numeric_at = {column.name: index for index, column in enumerate(layout.numeric)}
    coded_at = {column.name: index for index, column in enumerate(layout.coded)}
    for column in schema.columns:
        cells = _encode(column, arrays[column.name], tokens)
        if column.numeric:
            numeric[:, numeric_at[column.name]] = cells
        else:
            codes[:, coded_at[column.name]] = cells
    return EncodedTable(numeric, codes)


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


def _encode(column: Column, array: pa.Array, tokens: pa.Array) -> npt.NDArray[Any]:
    numbers, present = read_cells(column, array, tokens)
    if column.numeric:
        return _placed(positions_of(column, numbers), present, np.nan)
    return _placed(numbers, present, column.size - 1)


def _placed(numbers: npt.NDArray[Any], present: Mask, absent: float) -> npt.NDArray[Any]:
    if present.all():
        return numbers
    cells = np.full(len(present), absent, dtype=numbers.dtype)
    cells[present] = numbers
    return cells


def plain_cells(array: pa.Array, tokens: pa.Array) -> tuple[pa.Array, Mask]:
    """Return the cells as plain values, text without surrounding blanks, and which of them are not missing."""
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    present = array.is_valid()
    if is_text(array.type):
        array = pc.utf8_trim(array.cast(pa.string()), characters=TEXT_PADDING)
        present = pc.and_(present, pc.invert(pc.is_in(array, value_set=tokens)))
    return array, present.to_numpy(zero_copy_only=False).copy()


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
        value_set = pa.array(column.levels, pa.string())
    else:
        whole = integers(values)
        values, missing, bad = pa.array(whole.numbers), whole.missing, whole.bad
        value_set = pa.array(column.levels, pa.int64())
    found = pc.index_in(values, value_set=value_set)
    codes = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    bad = (bad | (codes < 0)) & ~missing
    if isinstance(column, Categorical) and column.other is not None:
        codes[bad] = column.levels.index(column.other)
        bad = np.zeros_like(bad)
    return Parsed(numbers=codes, bad=bad, missing=missing)


def in_words(kind: pa.DataType) -> str:
    """Return an Arrow type as a message may call it."""
    if is_text(kind):
        return "text"
    if pt.is_timestamp(kind):
        return "moments without a time zone" if kind.tz is None else "moments with a time zone"
    words = {"bool": "truth values", "date32[day]": "dates", "double": "decimal numbers", "float": "decimal numbers"}
    return words.get(str(kind), f"values of type {kind}")
