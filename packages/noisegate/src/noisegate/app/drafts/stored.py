"""How a public file stores its columns, so that synthetic files do likewise.

- The Arrow types and the categories that a file or a frame declares.
- Text: the spelling of truth values and timestamps, such as `%Y-%m-%dT%H:%M:%SZ`.

A drafted column states them where they differ from what `decode` would write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from noisegate.app.drafts.drafted import DraftedColumn
from noisegate.app.drafts.texts import MAX_LEVELS
from noisegate.containers import of_package
from noisegate.errors import SchemaError
from noisegate.schema import Categorical, Ordinal
from noisegate.schema.arrow_types import check_stored, public_values
from noisegate.schema.checks import TEXT_PADDING
from noisegate.schema.columns import column_from_form
from noisegate.schema.encode import strip_cells
from noisegate.schema.parsing import is_text
from noisegate.sources.stores import arrow_file
from noisegate.sources.tables.memory import MixedObjects, objects_to_arrow
from noisegate.sources.tables.parts import ParquetFile
from noisegate.sources.tables.tables import Origin, open_origins

_POLARS_ENUM_KEY = b"_PL_ENUM"  # marks an Enum of Polars, which has an order, in Arrow

_UTC_OFFSET = r"[+-]([0-9]{2}:?[0-9]{2})$"

# Parts of a timestamp, with all digits 0, and the directives that write them.
_DIRECTIVES = {
    "0000-00-00": "%Y-%m-%d",
    "00:00:00": "%H:%M:%S",
    "00:00": "%H:%M",
    ".000000": ".%f",
    ".000": ".%3f",
}


@dataclass(frozen=True)
class Categories:
    """The categories of a column, as its file or frame declares them.

    Attributes:
        values: All of them, used or not, in their order.
        is_ordered: Whether the order means something.
    """

    values: pa.Array
    is_ordered: bool


@dataclass(frozen=True)
class DeclaredTypes:
    """What a file or frame declares of its columns.

    Attributes:
        types: Arrow type of each column, by name. Columns of text files and of Python
            objects have none.
        categories: Those of each categorical column, by name.
    """

    types: dict[str, pa.DataType]
    categories: dict[str, Categories]


def declared_types(source: Any, table: pa.Table) -> DeclaredTypes:
    """Returns the types and categories that a table declares.

    Args:
        source: A path, or a table in memory; see `open_origins`.
        table: Its columns, as `read_table` returns them.
    """
    _, origins = open_origins(source)
    origin = origins[0]
    types: dict[str, pa.DataType] = {}
    declares_types = getattr(origin, "declares_types", origin.has_types)
    if declares_types:
        types = {name: table[name].type for name in table.column_names}
    is_polars = of_package(source, "polars", "DataFrame") or of_package(
        source, "polars", "LazyFrame"
    )
    if is_polars:
        # Polars has a single type of text.
        for name, dtype in types.items():
            if pt.is_large_string(dtype):
                types[name] = pa.string()

    polars_enums = _polars_enums(source, origin)
    categories = {
        name: Categories(
            values=table[name].combine_chunks().dictionary,
            is_ordered=dtype.ordered or name in polars_enums,
        )
        for name, dtype in types.items()
        if pt.is_dictionary(dtype)
    }
    declared = DeclaredTypes(types, categories)
    if of_package(source, "pandas", "DataFrame"):
        return _with_pandas_types(declared, source, table)
    return declared


def _polars_enums(source: Any, origin: Origin) -> set[str]:
    """Returns the columns that are Enums of Polars, in memory or in a Parquet file."""
    schema: pa.Schema | None = None
    if isinstance(origin, ParquetFile):
        schema = pq.read_schema(arrow_file(origin.path))
    elif of_package(source, "polars", "DataFrame"):
        schema = source.head(0).to_arrow().schema
    else:
        schema = getattr(origin, "schema", None)
    return {
        field.name
        for field in schema or ()
        if any(key.startswith(_POLARS_ENUM_KEY) for key in field.metadata or ())
    }


def _with_pandas_types(
    declared: DeclaredTypes, frame: Any, table: pa.Table
) -> DeclaredTypes:
    """Returns the types and categories of a frame of pandas.

    Args:
        declared: What the frame declares once it is converted to Arrow.
        frame: The frame.
        table: Its columns that can be converted.
    """
    types = dict(declared.types)
    categories = dict(declared.categories)
    for raw_name, dtype in frame.dtypes.items():
        name = str(raw_name).strip(TEXT_PADDING)
        if name in types:
            types[name] = getattr(dtype, "pyarrow_dtype", types[name])
        if str(dtype) in ("object", "category"):
            types.pop(name, None)
        if hasattr(dtype, "categories") and name in table.column_names:
            with suppress(MixedObjects):
                values = objects_to_arrow(dtype.categories.tolist())
                categories[name] = Categories(values, dtype.ordered)
    return DeclaredTypes(types, categories)


def draft_categories(
    name: str, categories: Categories, missing_markers: pa.Array, *, missing: bool
) -> DraftedColumn | None:
    """Drafts a column of declared categories.

    Args:
        name: Name of the column.
        categories: Its categories.
        missing_markers: Texts that stand for a missing value, and are no levels.
        missing: Whether a value may be missing.

    Returns:
        An ordinal column if they have an order, else a categorical one. None if they
        are no levels: neither text nor integers, too many, or alike but for blanks.
    """
    values, is_present = strip_cells(categories.values, missing_markers)
    levels = values.filter(pa.array(is_present)).to_pylist()
    are_texts_or_integers = is_text(values.type) or pt.is_integer(values.type)
    have_repeats = len(set(levels)) < len(levels)
    are_too_many = not categories.is_ordered and len(levels) > MAX_LEVELS
    if not are_texts_or_integers or not levels or have_repeats or are_too_many:
        return None
    if categories.is_ordered:
        ordinal = Ordinal(name=name, levels=tuple(levels), missing=missing)
        return DraftedColumn.from_column(ordinal)
    column = Categorical(name=name, levels=tuple(sorted(levels)), missing=missing)
    return DraftedColumn.from_column(column)


def with_stored_form(
    entry: DraftedColumn, cells: pa.Array, declared_type: pa.DataType | None
) -> DraftedColumn:
    """Adds the type and the spelling in which a file stores a column.

    Args:
        entry: The drafted column.
        cells: Its cells without missing ones, (records,).
        declared_type: Its Arrow type, or None; see `DeclaredTypes`.

    Returns:
        The drafted column with them, where a schema can state them; if need be with
        bounds moved inwards to what the type can hold.
    """
    column = entry.column
    if column is None:
        return entry
    # Of a column with a format or with words of its own, these say how it is stored.
    if getattr(column, "format", None) or getattr(column, "words", ()):
        return entry

    comment = _mixed_spelling_comment(column.kind, cells)
    if comment is not None:
        entry = replace(entry, comments=(*entry.comments, comment))
    stored: dict[str, Any] = {}
    spelling = _spelling(column.kind, cells)
    if spelling is not None:
        stored["spelling"] = spelling
    if declared_type is not None and declared_type != public_values(column).type:
        stored["type"] = str(declared_type)
    if not stored:
        return entry
    for form in _forms_by_preference(entry.form, declared_type):
        stored_form = {**form, **stored}
        with suppress(SchemaError):
            check_stored([column_from_form(entry.name, stored_form)])
            return replace(entry, form=stored_form)
    return entry


def _forms_by_preference(
    form: Mapping[str, Any], declared_type: pa.DataType | None
) -> Iterator[Mapping[str, Any]]:
    """Yields the form of a column, then that with bounds that its type can hold."""
    yield form
    type_range = None if declared_type is None else _range_of_type(declared_type)
    if type_range is not None and "lower" in form:
        yield _with_bounds_within(form, *type_range)


def _range_of_type(dtype: pa.DataType) -> tuple[Decimal, Decimal] | None:
    """Returns the smallest and largest number of an Arrow type; None for others."""
    if pt.is_decimal(dtype):
        largest = (10**dtype.precision - 1) / Decimal(10) ** dtype.scale
        return -largest, largest
    limits: np.iinfo[Any] | np.finfo[Any]
    if pt.is_integer(dtype):
        limits = np.iinfo(dtype.to_pandas_dtype())
    elif pt.is_floating(dtype):
        limits = np.finfo(dtype.to_pandas_dtype())
    else:
        return None
    return Decimal(str(limits.min)), Decimal(str(limits.max))


def _with_bounds_within(
    form: Mapping[str, Any], smallest: Decimal, largest: Decimal
) -> dict[str, Any]:
    """Moves the bounds of a numeric column inwards, by whole steps, into a range."""
    step = Decimal(str(form.get("step", 1)))
    lower = Decimal(str(form["lower"]))
    upper = Decimal(str(form["upper"]))
    steps_up = ((smallest - lower) / step).to_integral_value(ROUND_CEILING)
    steps_down = ((upper - largest) / step).to_integral_value(ROUND_CEILING)
    number_type = type(form["lower"])
    return {
        **form,
        "lower": number_type(lower + max(steps_up, Decimal(0)) * step),
        "upper": number_type(upper - max(steps_down, Decimal(0)) * step),
    }


def _spelling(kind: str, cells: pa.Array) -> str | None:
    """Returns how text spells truth values or timestamps, as `spelling` states it.

    Args:
        kind: Kind of the column.
        cells: Its cells without missing ones, (records,).

    Returns:
        The spelling, as "TRUE/FALSE" or "%Y-%m-%dT%H:%M:%SZ"; None for the usual one,
        for several, or if the cells are no text.
    """
    if not is_text(cells.type):
        return None
    if kind == "boolean":
        return _boolean_spelling(cells)
    if kind in ("date", "datetime"):
        return _time_spelling(cells)
    return None


def _boolean_spelling(texts: pa.Array) -> str | None:
    """Returns "True/False" or "TRUE/FALSE" if all texts are so; None for others."""
    words = set(pc.unique(texts).to_pylist())
    for spelling in ("True/False", "TRUE/FALSE"):
        if words <= set(spelling.split("/")):
            return spelling
    return None


def _time_spelling(texts: pa.Array) -> str | None:
    """Returns the directives that write all timestamps; None if they are not alike."""
    # Offsets to either side of UTC have one shape.
    with_one_sign = pc.replace_substring_regex(texts, _UTC_OFFSET, r"+\1")
    shapes = pc.unique(pc.replace_substring_regex(with_one_sign, "[0-9]", "0"))
    spelling = str(shapes[0])
    for digits, directive in _DIRECTIVES.items():
        # 00:00 behind a time is an offset.
        is_offset = directive == "%H:%M" and "%H" in spelling
        if not is_offset:
            spelling = spelling.replace(digits, directive, 1)
    has_time = "%H" in spelling
    has_other_fraction = re.search(r"\.\d|f\d", spelling) is not None
    if len(shapes) > 1 or not has_time or has_other_fraction:
        return None
    return spelling


def _mixed_spelling_comment(kind: str, cells: pa.Array) -> str | None:
    """Returns a comment on moments that are written in several ways; None for one.

    Digits of a second, and offsets to either side of UTC, make no difference.

    Args:
        kind: Kind of the column.
        cells: Its cells without missing ones, (records,).
    """
    if kind != "datetime" or not is_text(cells.type):
        return None
    shapes = pc.replace_substring_regex(cells, "[0-9]", "0")
    shapes = pc.replace_substring_regex(shapes, r"\.0+", ".0")
    shapes = pc.replace_substring_regex(shapes, "[+-](0{2}:?0{2})$", r"+\1")
    distinct_shapes = shapes.unique()
    if len(distinct_shapes) < 2:
        return None
    examples = [cells[pc.index(shapes, shape).as_py()] for shape in distinct_shapes]
    shown_examples = " and ".join(repr(example.as_py()) for example in examples)
    return (
        f"spelling: written in {len(examples)} ways, as {shown_examples}; a copy writes "
        "all in one"
    )


def widen_numbers(cells: pa.Array) -> pa.Array:
    """Converts short floats and decimals to types that Arrow computes with.

    Args:
        cells: Cells of any type, (records,).

    Returns:
        Float32 as the float64 of its shortest decimal, so that 0.1 stays 0.1; decimals
        of 32 or 64 bits with 128; other cells as they are.
    """
    dtype = cells.type
    if pt.is_decimal32(dtype) or pt.is_decimal64(dtype):
        return cells.cast(pa.decimal128(dtype.precision, dtype.scale))
    if pt.is_float32(dtype):
        return cells.cast(pa.string()).cast(pa.float64())
    return cells
