"""Cells of tables to compare: what does not fit its column is told, and does not end the reading."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from noisegate.schema.columns import Column
from noisegate.schema.encode import (
    DAY,
    Mask,
    Parsed,
    Parser,
    UnexpectedType,
    codes_of,
    floats,
    is_text,
    microseconds,
    placed,
    plain_cells,
    truths,
)
from noisegate.schema.formats import plain_text
from noisegate.schema.numeric import Date, Datetime
from noisegate.schema.values import Boolean, CodedColumn


def encode_tolerantly(column: Column, array: pa.Array, tokens: pa.Array) -> tuple[npt.NDArray[Any], Mask]:
    """Returns the positions or codes of one column, and where it is outside of all that it can say, (rows,).

    Positions are float64 in [0, 1], NaN where missing or outside; codes are int32, there the number of levels.
    """
    if pt.is_nested(array.type):  # as text, which no schema can place
        array = pa.array([None if cell is None else str(cell) for cell in array.to_pylist()], pa.string())
    known: Collection[Any] = () if column.numeric else column.levels
    usual = pa.array([text for text in ("", "nan", "NaN") if text not in known], pa.string())
    array, present = plain_cells(array, pa.concat_arrays([tokens, usual]))
    outside = np.zeros(len(array), dtype=np.bool_)
    if pt.is_null(array.type):
        return placed(column, np.zeros(0), present), outside
    rows = np.flatnonzero(present)
    try:
        parsed = _tolerant_parser(column)(plain_text(column, array.filter(pa.array(present))))
    except UnexpectedType:
        parsed = Parsed(np.zeros(len(rows)), np.ones(len(rows), dtype=np.bool_), np.zeros(len(rows), dtype=np.bool_))
    outside[rows[parsed.bad]] = True
    gone = parsed.bad | parsed.missing
    present[rows[gone]] = False
    return placed(column, parsed.numbers[~gone], present), outside


def _tolerant_parser(column: Column) -> Parser:
    if isinstance(column, Boolean):
        return truths(column)
    if not column.numeric:
        return partial(_guessed_codes, column)
    if isinstance(column, Date | Datetime):
        return partial(_any_moments, in_days=isinstance(column, Date))
    return lambda values: floats(values.cast(pa.int8()) if pt.is_boolean(values.type) else values)


def _any_moments(values: pa.Array, *, in_days: bool) -> Parsed:
    if is_text(values.type):
        naive, aware = microseconds(values, aware=False), microseconds(values, aware=True)
        found = Parsed(np.where(naive.bad, aware.numbers, naive.numbers), naive.bad & aware.bad, naive.missing)
    else:
        found = microseconds(values, aware=pt.is_timestamp(values.type) and values.type.tz is not None)
    return Parsed(found.numbers // DAY, found.bad, found.missing) if in_days else found


def _guessed_codes(column: CodedColumn, values: pa.Array) -> Parsed:
    """Returns codes as `codes_of` does; of what is no text also by what its reader may have taken the level for."""
    if is_text(values.type) or not isinstance(column.levels[0], str):
        return codes_of(column, values.cast(pa.int8()) if pt.is_boolean(values.type) else values)
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
    """Returns a value as a level would be written: 3.0 is written 3, as nullable integers often arrive as floats."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()


def _guess(cell: Any) -> str:
    """Returns one text for everything that a type-guessing reader may take for the same number or truth value."""
    text = _spelled(cell)
    try:
        return repr(float(text))
    except ValueError:
        return text.lower() if text.lower() in ("true", "false") else text
