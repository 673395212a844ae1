"""The Arrow type and the text form of a column, as its schema states them.

A schema may say in which Arrow type a column is stored (`type`) and how its values are
written in text (`spelling`). This file turns decoded cells into them, and checks that a
stated type holds the column's values and that a stated spelling is read back.
"""

import re
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.errors import SchemaError
from noisegate.schema.columns import Column, Problem
from noisegate.schema.encode import MICROSECONDS_PER_DAY, read_cells
from noisegate.schema.values import CodedColumn

_PARTS = re.compile(r"(\w+)[\[(<](.+)[\])>]")
_FRACTION = re.compile(r"\.%(\d?)f")
_UNITS = {None: "s", "3": "ms", "": "us", "6": "us"}


def arrow_type(said: str) -> pa.DataType:
    """Returns the type of which ``said`` is the text; a KeyError, TypeError or ValueError where it is none."""
    found = _PARTS.fullmatch(said)
    name, inside = found.groups() if found else (said, "")
    if name == "dictionary":
        parts = dict(part.split("=") for part in inside.split(", "))
        return pa.dictionary(
            arrow_type(parts["indices"]),
            arrow_type(parts["values"]),
            parts["ordered"] == "1",
        )
    if name.startswith("decimal"):
        return getattr(pa, name, pa.decimal128)(*map(int, inside.split(", ")))
    if ", tz=" in inside:
        return pa.timestamp(*inside.split(", tz="))
    return pa.type_for_alias(said)


def typed(column: Column, cells: pa.Array, kind: Any) -> pa.Array:
    """Returns plain cells of a column in another type; dictionaries have its levels, and no order but its own."""
    kind = arrow_type(kind) if isinstance(kind, str) else kind
    if pt.is_dictionary(kind):
        plain = pa.array(list(cast(CodedColumn, column).levels), cells.type)
        codes = pc.index_in(cells, value_set=plain).cast(kind.index_type)
        levels, ordered = (
            typed(column, plain, kind.value_type),
            kind.ordered and column.kind == "ordinal",
        )
        return pa.DictionaryArray.from_arrays(codes, levels, ordered=ordered)
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return spelled(column, cells).cast(kind)
    if pt.is_integer(cells.type) and (pt.is_decimal(kind) or pt.is_float16(kind)):
        cells = cells.cast(pa.string() if pt.is_decimal(kind) else pa.float64())
    # What is lost on the way is fractions, of a second and behind the digits of a float; never what stands before.
    exact = (
        pt.is_integer(kind)
        or pt.is_decimal(kind)
        or (pt.is_timestamp(kind) and kind.unit == "ns")
    )
    return cells.cast(kind, safe=exact)


def spelled(column: Column, cells: Any) -> Any:
    """Returns cells of a column as text, as its spelling says."""
    said: str | None = getattr(column, "spelling", None)
    if said is None or pt.is_string(cells.type):
        return cells.cast(pa.string())
    if column.kind == "boolean":
        return pc.if_else(cells, *said.split("/"))
    fraction = _FRACTION.search(said)
    unit, zone = _UNITS[fraction and fraction[1]], getattr(cells.type, "tz", None)
    return pc.strftime(
        cells.cast(pa.timestamp(unit, tz=zone), safe=False),
        format=_FRACTION.sub("", said),
    )


def public_values(column: Column) -> pa.Array:
    """Returns the values that a schema states of a column, in the type that `decode` gives it."""
    return pa.array(
        [column.lower, column.upper, *column.atoms]
        if column.numeric
        else list(column.levels)
    )


def check_stored(columns: Iterable[Column]) -> None:
    """Requires types that hold their columns and spellings that are read; a `SchemaError` says which cannot."""
    for column in columns:
        for key, (holds, expected) in _CHECKS.items():
            said = getattr(column, key, None)
            try:
                good = said is None or holds(column, public_values(column))
            except (
                pa.ArrowException,
                AttributeError,
                LookupError,
                Problem,
                TypeError,
                ValueError,
            ):
                good = False
            if not good:
                raise SchemaError(
                    f"column {column.name!r}: {key} = {said!r} {expected}; correct it, or leave it out"
                )


def _held(column: Column, ends: pa.Array) -> bool:
    found = typed(column, ends, column.type)
    if pt.is_timestamp(found.type):
        return (found.type.tz is not None) == getattr(column, "aware", False)
    return not pt.is_floating(found.type) or bool(pc.all(pc.is_finite(found)).as_py())


def _read_back(column: Column, ends: pa.Array) -> bool:
    tokens = pa.array([], pa.string())
    said, meant = (
        read_cells(column, cells, tokens)[0] for cells in (spelled(column, ends), ends)
    )
    return bool(
        (
            np.abs(said - meant)
            < (MICROSECONDS_PER_DAY if column.kind == "datetime" else 1)
        ).all()
    )


_CHECKS = {
    "type": (
        _held,
        'is no type of Arrow that holds all its values, as "uint8", "float" or "timestamp[ms]" may',
    ),
    "spelling": (
        _read_back,
        'does not write what can be read, as "True/False" does, or "%Y-%m-%d %H:%M:%S" (behind it .%3f or .%f for '
        "fractions of a second, and Z where there is a time zone)",
    ),
}
