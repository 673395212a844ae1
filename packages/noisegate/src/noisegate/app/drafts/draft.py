"""A first draft of a schema from a file that its owner has declared public; never from private data.

No column stops a draft: what cannot be used is ignored, with the reason. Text that is a
number or a date in all cells but those that say one or two words is that number or
date, and the words are marks of missing values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from noisegate.app.drafts.drafted import (
    MAX_LEVELS,
    DraftedColumn,
    draft_boolean,
    draft_identifier,
    draft_reference,
    draft_text,
    drafted_text,
    schema_of,
    vocabulary,
)
from noisegate.app.drafts.formats import draft_formatted
from noisegate.app.drafts.numbers import draft_number, draft_time
from noisegate.app.drafts.rules import MOST_COLUMNS, Rules, find_rules
from noisegate.containers import of_package
from noisegate.errors import DataError, SchemaError
from noisegate.gate.discovery.raw import raw_kind_of
from noisegate.schema import DEFAULT_MISSING_VALUES, Categorical, Ordinal, Schema
from noisegate.schema.arrow_types import check_stored, public_values
from noisegate.schema.columns import column_from_form
from noisegate.schema.encode import encode, is_text, strip_cells
from noisegate.schema.values import TEXT_PADDING
from noisegate.sources.frames import read_table
from noisegate.sources.headers import check_once, check_titles
from noisegate.sources.stores import arrow_file
from noisegate.sources.tables.memory import MixedObjects, objects_to_arrow, to_arrow
from noisegate.sources.tables.parts import ParquetFile
from noisegate.sources.tables.tables import open_origins

_MARKS = frozenset(vocabulary("missing"))
# Other words do, if they are so few and so many different numbers or dates stand beside them.
_MOST_WORDS, _LEAST_BESIDE = 2, 10
_MOST_ROWS = 200_000  # of so many records at most are rules looked for


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A schema drafted from a public file, and why it says what it says."""

    schema: Schema  # what was drafted; columns that nobody should use as they are stand under its ``ignore``
    entries: tuple[
        DraftedColumn, ...
    ]  # the columns with the reasons, in the order of the file
    rules: (
        Rules  # the constraints with their reasons, and what else holds in all records
    )

    @property
    def ignored(self) -> dict[str, str]:
        """The columns that were left out, with the reason."""
        return {
            entry.name: " ".join(entry.why) for entry in self.entries if entry.ignored
        }

    def toml(
        self,
        *,
        prefix: Sequence[str] = (),
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> str:
        """Returns the schema file, with the reasons as comments; below ``prefix``, with ``more`` keys at its top."""
        form = self.schema.form()
        top: dict[str, Any] = {
            key: form[key] for key in ("label", "missing_values") if key in form
        }
        constraints = list(
            zip(form.get("constraints", ()), self.rules.reasons, strict=True)
        )
        return drafted_text(
            self.entries,
            top={**more, **top},
            constraints=constraints,
            remarks=self.rules.remarks,
            prefix=prefix,
        )


def draft_schema(public: Any, label: str | None = None) -> Schema:
    """Returns a schema drafted from *public* records, as `noisegate schema init` drafts it from a file.

    Its bounds and levels come straight from the records, so never use it on private ones: `discover_schema` buys them.

    The records are a table of any kind that `noisegate.fit` takes, or the path of a file that is public; ``label`` is
    the name of the column to be predicted from the others.

    Raises:
        DataError: if the records cannot be read, or there are none.
        SchemaError: if a column holds free text, or nothing at all, or ``label`` is not a column.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import draft_schema
        >>> schema = draft_schema(pa.table({"age": [18, 35, 62], "job": ["nurse", "baker", "nurse"]}))
        >>> schema.column("age").upper, schema.column("job").levels
        (70, ('baker', 'nurse'))
        >>> schema.review()  # what was guessed, and why
        Schema: 2 columns
          age  integer, 10 to 70
          job  categorical, 2 levels
    """
    return draft(public, label=label).schema


def draft(
    path: Any, label: str | None = None, *, without: Collection[str] = ()
) -> Draft:
    """Returns a draft of a schema from a *public* file: its bounds and levels come straight from the records.

    Numbers that are only 0 and 1, and a label of few distinct whole numbers, become categorical; numbers with leading
    zeros (codes) are text. Identifiers, free text and whatever else cannot be used as it is are put under ``ignore``,
    with the reason and what to do about it. A sample that is large enough also shows steps, atoms and constraints.
    Raises as `draft_schema` does. Columns ``without`` which it is drafted are keys.
    """
    table, odd = _read_public(path)
    where = Path(path).name if isinstance(path, str | Path) else "the table"
    if not table.num_rows and table.column_names:
        raise DataError(f"{where}: there are no records to draft a schema from")
    if label is not None and label not in (*table.column_names, *odd):
        raise SchemaError(
            f"label {label!r} is not a column of {where}: {', '.join(table.column_names)}"
        )
    names = [name for name in table.column_names if name not in without]
    entries, marks = _drafted_columns(path, table, odd, label, names=names)
    why = next(
        (
            " ".join(entry.why)
            for entry in entries
            if entry.ignored and entry.name == label
        ),
        None,
    )
    if why is not None:
        raise SchemaError(f"label {label!r} cannot be predicted as it is: {why}")
    schema = schema_of(entries, label, missing_values=marks)
    rules = _rules(table, schema)
    reasons = {
        entry.name: "; ".join(entry.why).removeprefix(f"{entry.name}: ")
        for entry in entries
    }
    reasons |= dict(
        zip(map(str, rules.constraints), rules.reasons, strict=True)
    ) | dict.fromkeys(rules.remarks, "")
    schema = replace(schema, constraints=rules.constraints, reasons=reasons)
    return Draft(schema=schema.usable(), entries=entries, rules=rules)


def _rules(table: pa.Table, schema: Schema) -> Rules:
    if len(schema.names) > MOST_COLUMNS:
        return Rules(
            remarks=(
                f"Constraints were not looked for: there are more than {MOST_COLUMNS} columns.",
            )
        )
    tokens = pa.array([], pa.string())
    plain = pa.table(
        {
            name: shortest(strip_cells(table[name].combine_chunks(), tokens)[0])
            for name in schema.names
        }
    )
    some = plain.take(
        pa.array(range(0, table.num_rows, -(-table.num_rows // _MOST_ROWS)))
    )
    return find_rules(
        encode({name: some[name].combine_chunks() for name in schema.names}, schema),
        schema,
    )


def _read_public(public: Any) -> tuple[pa.Table, dict[str, str]]:
    """Returns the columns that Arrow can hold, and of the others the types; a DataError if nothing can be read."""
    try:
        for origin in open_origins(public)[1]:
            names = [name for name, _ in origin.columns()]
            check_titles(names, origin.name)
            check_once(names, origin.name)
        return read_table(public), {}
    except DataError:
        if isinstance(public, str | Path):
            raise
        held = {name: public[name] for name in getattr(public, "columns", public)}
        odd = {
            str(name): kind
            for name, cells in held.items()
            if (kind := _odd_type(cells)) is not None
        }
        if not odd:
            raise
    return read_table(
        {name: cells for name, cells in held.items() if str(name) not in odd}
    ), odd


def _odd_type(cells: Any) -> str | None:
    """Returns the type of cells that Arrow cannot hold; None if it can."""
    try:
        to_arrow("", cells)
    except DataError:
        values = getattr(getattr(cells, "cat", cells), "categories", cells)
        dtype = str(getattr(values, "dtype", "object"))
        return (
            dtype
            if dtype != "object"
            else " and ".join(sorted({type(cell).__name__ for cell in cells}))
        )
    return None


def _drafted_columns(
    public: Any,
    table: pa.Table,
    odd: Mapping[str, str],
    label: str | None,
    *,
    names: Sequence[str],
) -> tuple[tuple[DraftedColumn, ...], tuple[str, ...]]:
    """Returns the entries of the columns ``names``, then ``odd`` ones, and what is read as missing in all of them."""
    cells = {name: table[name].combine_chunks() for name in names}
    origin = open_origins(public)[1][0]
    kinds, known = declared(public, origin, table.select(names))
    found = {
        mark
        for name, column in cells.items()
        if name != label
        for mark in _marks(name, column)
    }
    marks = (*DEFAULT_MISSING_VALUES, *sorted(found))
    entries = [
        draft_reference(name, table)
        or _drafted(
            name,
            column,
            marks,
            kinds.get(name),
            known.get(name),
            is_label=name == label,
        )
        for name, column in cells.items()
    ]
    return (*entries, *(_no_kind(name, kind) for name, kind in odd.items())), marks


def _marks(name: str, cells: pa.Array) -> list[str]:
    """Returns the words in a column of numbers or dates that are none, as marks of missing values are."""
    if not is_text(cells.type):
        return []
    cells, present = strip_cells(cells, pa.array(DEFAULT_MISSING_VALUES))
    cells = cells.filter(pa.array(present))
    values = cells.unique()
    words = values.filter(
        pc.invert(pc.match_substring_regex(values, r"[0-9]|^[+-]?(?i:inf|infinity)$"))
    )
    found = sorted(words.to_pylist())
    few = len(found) <= _MOST_WORDS and len(values) - len(found) >= _LEAST_BESIDE
    if (
        not found
        or len(found) == len(values)
        or not (few or {word.lower() for word in found} <= _MARKS)
    ):
        return []
    rest = cells.filter(pc.invert(pc.is_in(cells, value_set=words)))
    for drafted in (
        draft_formatted(name, rest, missing=True),
        draft_number(name, rest, missing=True, is_label=False),
    ):
        if drafted is not None:
            return [] if drafted.ignored else found
    entry = draft_time(name, rest, missing=True)
    return [] if entry is None or entry.ignored else found


def _no_kind(name: str, kind: object) -> DraftedColumn:
    return DraftedColumn.left_out(
        name, f"values of type {kind} have no kind in a schema; convert them"
    )


def _drafted(
    name: str,
    cells: pa.Array,
    marks: tuple[str, ...],
    kind: pa.DataType | None,
    categories: Categories | None,
    *,
    is_label: bool,
) -> DraftedColumn:
    every, present = strip_cells(cells, pa.array(marks))
    if raw_kind_of(every.type) is None and not pa.types.is_null(every.type):
        return _no_kind(name, every.type)
    cells = shortest(every.filter(pa.array(present)))
    missing = not present.all() or (
        pa.types.is_floating(cells.type) and bool(pc.any(pc.is_nan(cells)).as_py())
    )
    entry = None
    if categories is not None:
        identifier = (
            None if is_label or categories[1] else draft_identifier(name, cells)
        )
        entry = identifier or draft_categories(
            name, categories, pa.array(marks), missing=missing
        )
    entry = as_stored(
        entry or _by_values(name, cells, missing=missing, is_label=is_label),
        cells,
        kind,
    )
    told = marks[len(DEFAULT_MISSING_VALUES) :] if is_text(cells.type) else ()
    said = ", ".join(repr(mark) for mark in told if pc.index(every, mark).as_py() >= 0)
    why = (
        f"missing: so {said} is read; take it out of missing_values where it is a value"
    )
    return replace(entry, why=(*entry.why, why)) if said else entry


def _by_values(
    name: str, cells: pa.Array, *, missing: bool, is_label: bool
) -> DraftedColumn:
    values = cells.unique()
    if not len(values):
        return DraftedColumn.left_out(
            name,
            "every value is missing, so the sample shows nothing of it; describe it by hand",
        )
    return (
        draft_boolean(name, values, missing=missing)
        or (
            None
            if is_label
            else draft_formatted(name, cells, missing=missing)
            or draft_identifier(name, cells)
        )
        or draft_number(name, cells, missing=missing, is_label=is_label)
        or draft_time(name, cells, missing=missing)
        or draft_text(name, cells, missing=missing)
    )


_ENUM = b"_PL_ENUM"  # how Polars marks its Enum in Arrow, which has an order
_ZONE = r"[+-]([0-9]{2}:?[0-9]{2})$"
_SHAPE = {
    "0000-00-00": "%Y-%m-%d",
    "00:00:00": "%H:%M:%S",
    "00:00": "%H:%M",
    ".000000": ".%f",
    ".000": ".%3f",
}

Categories: TypeAlias = tuple[
    pa.Array, bool
]  # the categories of a column, used or not, and whether they have an order


def declared(
    path: Any, origin: Any, table: pa.Table
) -> tuple[dict[str, pa.DataType], dict[str, Categories]]:
    """Returns the types of columns, but of text and of Python objects, which have none, and their categories."""
    schema = getattr(origin, "schema", None)
    if isinstance(origin, ParquetFile):
        schema = pq.read_schema(arrow_file(origin.path))
    elif of_package(path, "polars", "DataFrame"):
        schema = path.head(0).to_arrow().schema
    enums = {
        field.name
        for field in schema or ()
        if any(key.startswith(_ENUM) for key in field.metadata or ())
    }
    kinds = {name: table[name].type for name in table.column_names if origin.typed}
    if of_package(path, "polars", "DataFrame") or of_package(
        path, "polars", "LazyFrame"
    ):  # which have one of text
        kinds = {
            name: pa.string() if pt.is_large_string(kind) else kind
            for name, kind in kinds.items()
        }
    listed = {name: kind for name, kind in kinds.items() if pt.is_dictionary(kind)}
    found = {
        name: (table[name].combine_chunks().dictionary, kind.ordered or name in enums)
        for name, kind in listed.items()
    }
    for raw, dtype in (
        path.dtypes.items() if of_package(path, "pandas", "DataFrame") else ()
    ):
        name = str(raw).strip(TEXT_PADDING)
        if name in kinds:
            kinds[name] = getattr(dtype, "pyarrow_dtype", kinds[name])
        if str(dtype) in ("object", "category"):
            kinds.pop(name, None)
        if hasattr(dtype, "categories") and name in table.column_names:
            with suppress(MixedObjects):
                found[name] = objects_to_arrow(dtype.categories.tolist()), dtype.ordered
    return kinds, found


def draft_categories(
    name: str, found: Categories, tokens: pa.Array, *, missing: bool
) -> DraftedColumn | None:
    """Returns the entry of a column of categories; None where they are no levels."""
    (values, known), ordered = strip_cells(found[0], tokens), found[1]
    levels = values.filter(pa.array(known)).to_pylist()
    fit = is_text(values.type) or pt.is_integer(values.type)
    if (
        not fit
        or not levels
        or len(set(levels)) < len(levels)
        or (not ordered and len(levels) > MAX_LEVELS)
    ):
        return None
    if ordered:
        return DraftedColumn.of(
            Ordinal(name=name, levels=tuple(levels), missing=missing)
        )
    return DraftedColumn.of(
        Categorical(name=name, levels=tuple(sorted(levels)), missing=missing)
    )


def as_stored(
    entry: DraftedColumn, cells: pa.Array, kind: pa.DataType | None
) -> DraftedColumn:
    """Returns an entry that says in which type, and as text in which spelling, the sample has the column."""
    column = entry.column
    if (
        column is None
        or getattr(column, "format", None)
        or getattr(column, "words", ())
    ):
        return entry
    said = _spelling(column.kind, cells)
    stored: dict[str, Any] = {} if said is None else {"spelling": said}
    if kind is not None and kind != public_values(column).type:
        stored["type"] = str(kind)
    for form in (
        ({**entry.form, **stored}, _within(entry.form, kind) | stored) if stored else ()
    ):
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
        limits: Any = (np.iinfo if pt.is_integer(kind) else np.finfo)(
            kind.to_pandas_dtype()
        )
        ends = Decimal(str(limits.min)), Decimal(str(limits.max))
    if ends is None or "lower" not in form:
        return dict(form)
    step, lower, upper = (
        Decimal(str(form.get(key, 1))) for key in ("step", "lower", "upper")
    )
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
        return next(
            (
                style("true/false")
                for style in styles
                if words <= {style("true"), style("false")}
            ),
            None,
        )
    shapes = pc.unique(
        pc.replace_substring_regex(
            pc.replace_substring_regex(cells, _ZONE, r"+\1"), "[0-9]", "0"
        )
    )
    said = str(shapes[0])
    for digits, directive in _SHAPE.items():
        said = (
            said.replace(digits, directive, 1)
            if directive != "%H:%M" or "%H" not in said
            else said
        )
    return (
        said
        if len(shapes) == 1 and "%H" in said and not re.search(r"\.\d|f\d", said)
        else None
    )


def shortest(cells: pa.Array) -> pa.Array:
    """Returns floats of 32 bits as the decimals that they stand for, and short decimals as Arrow computes with them."""
    if pt.is_decimal32(cells.type) or pt.is_decimal64(cells.type):
        return cells.cast(pa.decimal128(cells.type.precision, cells.type.scale))
    return (
        cells.cast(pa.string()).cast(pa.float64())
        if pt.is_float32(cells.type)
        else cells
    )
