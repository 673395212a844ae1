"""In which types a public sample has its columns, in which order their categories, and how text has them."""

import re
from contextlib import suppress
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from noisegate.data.stores import for_arrow
from noisegate.data.tables.memory import MixedObjects, objects_to_arrow, of_package
from noisegate.data.tables.parts import ParquetFile
from noisegate.discovery.drafted import MAX_LEVELS, DraftedColumn
from noisegate.discovery.stored import check_stored, public_values
from noisegate.errors import SchemaError
from noisegate.schema import Categorical, Ordinal
from noisegate.schema.columns import column_from_form
from noisegate.schema.encode import is_text, plain_cells
from noisegate.schema.values import TEXT_PADDING

_ENUM = b"_PL_ENUM"  # how Polars marks its Enum in Arrow, which has an order
_ZONE = r"[+-]([0-9]{2}:?[0-9]{2})$"
_SHAPE = {"0000-00-00": "%Y-%m-%d", "00:00:00": "%H:%M:%S", "00:00": "%H:%M", ".000000": ".%f", ".000": ".%3f"}

Categories: TypeAlias = tuple[pa.Array, bool]  # the categories of a column, used or not, and whether they have an order


def declared(path: Any, origin: Any, table: pa.Table) -> tuple[dict[str, pa.DataType], dict[str, Categories]]:
    """Returns the types of columns, but of text and of Python objects, which have none, and their categories."""
    schema = getattr(origin, "schema", None)
    if isinstance(origin, ParquetFile):
        schema = pq.read_schema(for_arrow(origin.path))
    elif of_package(path, "polars", "DataFrame"):
        schema = path.head(0).to_arrow().schema
    enums = {field.name for field in schema or () if any(key.startswith(_ENUM) for key in field.metadata or ())}
    kinds = {name: table[name].type for name in table.column_names if origin.typed}
    if of_package(path, "polars", "DataFrame") or of_package(path, "polars", "LazyFrame"):  # which have one of text
        kinds = {name: pa.string() if pt.is_large_string(kind) else kind for name, kind in kinds.items()}
    listed = {name: kind for name, kind in kinds.items() if pt.is_dictionary(kind)}
    found = {
        name: (table[name].combine_chunks().dictionary, kind.ordered or name in enums) for name, kind in listed.items()
    }
    for raw, dtype in path.dtypes.items() if of_package(path, "pandas", "DataFrame") else ():
        name = str(raw).strip(TEXT_PADDING)
        if name in kinds:
            kinds[name] = getattr(dtype, "pyarrow_dtype", kinds[name])
        if str(dtype) in ("object", "category"):
            kinds.pop(name, None)
        if hasattr(dtype, "categories") and name in table.column_names:
            with suppress(MixedObjects):
                found[name] = objects_to_arrow(dtype.categories.tolist()), dtype.ordered
    return kinds, found


def draft_categories(name: str, found: Categories, tokens: pa.Array, *, missing: bool) -> DraftedColumn | None:
    """Returns the entry of a column of categories; None where they are no levels."""
    (values, known), ordered = plain_cells(found[0], tokens), found[1]
    levels = values.filter(pa.array(known)).to_pylist()
    fit = is_text(values.type) or pt.is_integer(values.type)
    if not fit or not levels or len(set(levels)) < len(levels) or (not ordered and len(levels) > MAX_LEVELS):
        return None
    if ordered:
        return DraftedColumn.of(Ordinal(name=name, levels=tuple(levels), missing=missing))
    return DraftedColumn.of(Categorical(name=name, levels=tuple(sorted(levels)), missing=missing))


def as_stored(entry: DraftedColumn, cells: pa.Array, kind: pa.DataType | None) -> DraftedColumn:
    """Returns an entry that says in which type, and as text in which spelling, the sample has the column."""
    column = entry.column
    if column is None or getattr(column, "format", None) or getattr(column, "words", ()):
        return entry
    said = _spelling(column.kind, cells)
    stored: dict[str, Any] = {} if said is None else {"spelling": said}
    if kind is not None and kind != public_values(column).type:
        stored["type"] = str(kind)
    for form in ({**entry.form, **stored}, _within(entry.form, kind) | stored) if stored else ():
        with suppress(SchemaError):
            check_stored([column_from_form(entry.name, form)])
            return replace(entry, form=form)
    return entry


def _within(form: Any, kind: pa.DataType | None) -> dict[str, Any]:
    """Returns the form of a column of numbers with bounds that its type can hold."""
    ends: Any = None
    if kind is not None and pt.is_decimal(kind):
        largest = (10**kind.precision - 1) / Decimal(10) ** kind.scale
        ends = -largest, largest
    elif kind is not None and (pt.is_integer(kind) or pt.is_floating(kind)):
        limits: Any = (np.iinfo if pt.is_integer(kind) else np.finfo)(kind.to_pandas_dtype())
        ends = Decimal(str(limits.min)), Decimal(str(limits.max))
    if ends is None or "lower" not in form:
        return dict(form)
    step, lower, upper = (Decimal(str(form.get(key, 1))) for key in ("step", "lower", "upper"))
    lower += max(((ends[0] - lower) / step).to_integral_value(ROUND_CEILING), 0) * step
    upper -= max(((upper - ends[1]) / step).to_integral_value(ROUND_CEILING), 0) * step
    number = type(form["lower"])
    return {**form, "lower": number(lower), "upper": number(upper)}


def _spelling(kind: str, cells: pa.Array) -> str | None:
    if not is_text(cells.type) or kind not in ("boolean", "date", "datetime"):
        return None
    if kind == "boolean":
        words = set(pc.unique(cells).to_pylist())
        styles = (str.title, str.upper)
        return next((style("true/false") for style in styles if words <= {style("true"), style("false")}), None)
    shapes = pc.unique(pc.replace_substring_regex(pc.replace_substring_regex(cells, _ZONE, r"+\1"), "[0-9]", "0"))
    said = str(shapes[0])
    for digits, directive in _SHAPE.items():
        said = said.replace(digits, directive, 1) if directive != "%H:%M" or "%H" not in said else said
    return said if len(shapes) == 1 and "%H" in said and not re.search(r"\.\d|f\d", said) else None


def shortest(cells: pa.Array) -> pa.Array:
    """Returns floats of 32 bits as the decimals that they stand for, and short decimals as Arrow computes with them."""
    if pt.is_decimal32(cells.type) or pt.is_decimal64(cells.type):
        return cells.cast(pa.decimal128(cells.type.precision, cells.type.scale))
    return cells.cast(pa.string()).cast(pa.float64()) if pt.is_float32(cells.type) else cells
