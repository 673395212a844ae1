"""The Arrow type and the text form of a column, as its schema states them.

A schema may say in which Arrow type a column is stored (`type`) and how its values are
written in text (`spelling`). This file turns decoded cells into them, and checks that a
stated type holds the column's values and that a stated spelling can be read again.
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
from noisegate.schema.encode import read_cells
from noisegate.schema.kinds.coded import CodedColumn

# "decimal128(10, 2)", "timestamp[us, tz=UTC]", "dictionary<values=string, …>".
_TYPE_WITH_ARGUMENTS = re.compile(r"(\w+)[\[(<](.+)[\])>]")


def arrow_type(text: str) -> pa.DataType:
    """Returns the type of which a text is the name, as Arrow prints it.

    Raises:
        KeyError: or TypeError or ValueError, if it is none.

    Examples:
        >>> arrow_type("decimal128(10, 2)")
        Decimal128Type(decimal128(10, 2))
    """
    match = _TYPE_WITH_ARGUMENTS.fullmatch(text)
    if match is None:
        return pa.type_for_alias(text)
    name, arguments = match.groups()
    if name == "dictionary":
        fields = dict(field.split("=") for field in arguments.split(", "))
        return pa.dictionary(
            arrow_type(fields["indices"]),
            arrow_type(fields["values"]),
            fields["ordered"] == "1",
        )
    if name.startswith("decimal"):
        decimal_type = getattr(pa, name, pa.decimal128)
        return decimal_type(*map(int, arguments.split(", ")))
    if ", tz=" in arguments:
        return pa.timestamp(*arguments.split(", tz="))
    # "timestamp[us]" is an alias as it stands.
    return pa.type_for_alias(text)


def cast_column(column: Column, cells: pa.Array, target: Any) -> pa.Array:
    """Casts decoded cells of a column to another type.

    Args:
        column: The column.
        cells: Its cells, without a dictionary.
        target: A type of Arrow, or its name. A dictionary gets the levels of the
            column, and an order only where the column has one.

    Raises:
        pa.ArrowException: if the type does not hold the cells. What may be lost is
            fractions of a second and digits of a float, never what stands before them.
    """
    if isinstance(target, str):
        target = arrow_type(target)
    if pt.is_dictionary(target):
        return _cast_to_dictionary(column, cells, target)
    if pt.is_string(target) or pt.is_large_string(target) or pt.is_string_view(target):
        return format_as_text(column, cells).cast(target)
    if pt.is_integer(cells.type):
        # Arrow casts integers to neither of these.
        if pt.is_decimal(target):
            cells = cells.cast(pa.string())
        elif pt.is_float16(target):
            cells = cells.cast(pa.float64())
    is_exact = pt.is_integer(target) or pt.is_decimal(target)
    # Nanoseconds end in the year 2262, beyond which Arrow would wrap around.
    has_short_range = pt.is_timestamp(target) and target.unit == "ns"
    return cells.cast(target, safe=is_exact or has_short_range)


def _cast_to_dictionary(
    column: Column, cells: pa.Array, target: pa.DictionaryType
) -> pa.DictionaryArray:
    """Casts cells to codes of the column's levels, whichever levels occur."""
    levels = pa.array(list(cast(CodedColumn, column).levels), cells.type)
    codes = pc.index_in(cells, value_set=levels).cast(target.index_type)
    dictionary = cast_column(column, levels, target.value_type)
    has_order = target.ordered and not column.numeric and column.ordered
    return pa.DictionaryArray.from_arrays(codes, dictionary, ordered=has_order)


def format_as_text(column: Column, cells: Any) -> Any:
    """Writes cells of a column as text, as the column has it."""
    return cells if pt.is_string(cells.type) else column.write_text(cells)


def public_values(column: Column) -> pa.Array:
    """Returns the values that a schema states of a column, typed as `decode` does.

    Of a numeric column its bounds and point masses, of another one its levels. Those of
    a column with limits are text.
    """
    if not column.numeric:
        return pa.array(list(column.levels))
    values = [column.lower, column.upper, *column.all_atoms]
    numbers = np.array([column.to_number(value) for value in values])
    nowhere = np.zeros(len(numbers), dtype=np.bool_)
    if column.limits:
        return column.decoded_cells(numbers, nowhere)
    return column.to_arrow(numbers, nowhere)


def check_stored(columns: Iterable[Column]) -> None:
    """Requires that stated types and spellings go with their columns.

    Raises:
        SchemaError: that names the column and what is wrong.
    """
    for column in columns:
        if column.type is not None and not _succeeds(_type_holds_values, column):
            raise SchemaError(
                f"column {column.name!r}: type = {column.type!r} is no type of Arrow "
                'that holds all its values, as "uint8", "float" or "timestamp[ms]" may; '
                "correct it, or leave it out"
            )
        spelling = column.spelling
        if spelling is not None and not _succeeds(_spelling_is_read_back, column):
            raise SchemaError(
                f"column {column.name!r}: spelling = {spelling!r} does not write what "
                'can be read, as "True/False" does, or "%Y-%m-%d %H:%M:%S" (behind it '
                ".%3f or .%f for fractions of a second, and Z where there is a time "
                "zone); correct it, or leave it out"
            )


def _succeeds(check: Any, column: Column) -> bool:
    """Returns what a check finds; False where a stated type or spelling makes it fail.

    A type or spelling is any text of a user, and ends in all of these errors.
    """
    try:
        return bool(check(column))
    except (
        pa.ArrowException,
        AttributeError,
        LookupError,
        Problem,
        TypeError,
        ValueError,
    ):
        return False


def _type_holds_values(column: Column) -> bool:
    """Returns whether the stated type holds the values that the schema states."""
    cells = cast_column(column, public_values(column), column.type)
    if pt.is_timestamp(cells.type):
        has_time_zone = cells.type.tz is not None
        return bool(has_time_zone == getattr(column, "aware", False))
    if pt.is_floating(cells.type):
        return bool(pc.all(pc.is_finite(cells)).as_py())
    return True


def _spelling_is_read_back(column: Column) -> bool:
    """Returns whether what the spelling writes is read as what was meant.

    A time may lose less than a day: a spelling may leave out the hours.
    """
    values = public_values(column)
    no_markers = pa.array([], pa.string())
    read, _ = read_cells(column, format_as_text(column, values), no_markers)
    meant, _ = read_cells(column, values, no_markers)
    return bool((np.abs(read - meant) < column.spelling_tolerance).all())
