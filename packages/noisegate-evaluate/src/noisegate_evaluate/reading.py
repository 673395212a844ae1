"""Tables that are compared: columns as numbers, level codes or cells, and the children of each parent in order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.errors import DataError, OptionError
from noisegate.records import Rows
from noisegate.schema import (
    CodedColumn,
    Column,
    Continuous,
    Date,
    Integer,
    NumericColumn,
    Schema,
)
from noisegate.schema.columns import Problem
from noisegate.schema.encode import (
    encode_cells,
    join_names,
    normalized_names,
    strip_cells,
)
from noisegate.schema.linked.schema import Link, LinkedSchema
from noisegate.schema.linked.table_schema import Key, key_parts
from noisegate.schema.parsing import (
    MICROSECONDS_PER_DAY,
    Mask,
    Parsed,
    Parser,
    UnexpectedType,
    is_text,
    parse_floats,
    parse_timestamps,
)
from noisegate.schema.relations.values import values_of


class Numbers(NamedTuple):
    """A numeric column: float64 in [0, 1] between its bounds, NaN where there is none; and where it is no number."""

    unit: np.ndarray
    outside: np.ndarray


@dataclass(frozen=True)
class ColumnLevels:
    """The values of a column as codes, int64: of ``count`` levels or bins, then one for missing and one for outside."""

    codes: np.ndarray
    count: int

    @property
    def size(self) -> int:
        """Number of cells, missing and outside counted."""
        return self.count + 2

    @property
    def known(self) -> np.ndarray:
        """True where the value is one of the levels."""
        return np.asarray(self.codes < self.count)

    def at(self, rows: np.ndarray) -> ColumnLevels:
        """The values of some rows, in their order."""
        return ColumnLevels(self.codes[rows], self.count)


def read_numbers(table: pa.Table, column: NumericColumn, schema: Schema) -> Numbers:
    """Returns a numeric or date column on the unit scale of its bounds; ``schema`` tells which texts mean missing."""
    return Numbers(*_encoded(table, column, schema))


def known_numbers(table: pa.Table, column: NumericColumn, schema: Schema) -> np.ndarray:
    """Returns the numbers of a column on the unit scale, without those missing or outside."""
    unit = read_numbers(table, column, schema).unit
    return np.asarray(unit[~np.isnan(unit)])


def read_levels(table: pa.Table, column: CodedColumn, schema: Schema) -> ColumnLevels:
    """Returns a column with levels as codes; an unknown level counts as ``other`` where the column declares one."""
    codes, outside = _encoded(table, column, schema)
    count = len(column.levels)
    return ColumnLevels(np.where(outside, count + 1, codes).astype(np.int64), count)


def cells(
    table: pa.Table, column: Column, schema: Schema, *, bins: int = 20
) -> ColumnLevels:
    """Returns the cell of each row: its level, or one of equal-width bins between the bounds of a number or date."""
    if bins < 1:
        raise OptionError(f"bins is {bins}; expected at least 1")
    if not column.numeric:
        return read_levels(table, column, schema)
    unit, outside = read_numbers(table, column, schema)
    absent = np.isnan(unit)
    # The upper bound belongs to the last bin.
    binned = np.minimum(np.where(absent, 0.0, unit) * bins, bins - 1).astype(np.int64)
    return ColumnLevels(
        np.where(absent, np.where(outside, bins + 1, bins), binned), bins
    )


def some_rows(table: pa.Table, most: int, draw: np.random.Generator) -> pa.Table:
    """Returns at most so many rows, drawn without replacement, in their order."""
    return (
        table
        if table.num_rows <= most
        else table.take(np.sort(draw.permutation(table.num_rows)[:most]))
    )


def encoded_rows(table: pa.Table, schema: Schema) -> tuple[Rows, Mask]:
    """Encodes records by the columns of their file.

    Args:
        table: The records.
        schema: Their schema.

    Returns:
        The records, with NaN for a number that is missing or outside; a level that is
        missing has the number of levels, one that is outside the next code. And which
        have a number outside, (rows,).
    """
    layout = schema.file_layout
    count = table.num_rows
    numbers = [read_numbers(table, column, schema) for column in layout.numeric]
    codes = [read_levels(table, column, schema).codes for column in layout.coded]
    is_outside = np.zeros(count, dtype=np.bool_)
    for column_numbers in numbers:
        is_outside |= column_numbers.outside
    units = [column_numbers.unit for column_numbers in numbers]
    records = Rows(
        np.array(units, np.float64).reshape(-1, count).T,
        np.array(codes, np.int32).reshape(-1, count).T,
    )
    return records, is_outside


def read_rows(table: pa.Table, schema: Schema, max_rows: int) -> Rows:
    """Returns at most so many records, evenly taken, as the schema encodes them; those that do not fit are left out."""
    step = -(-table.num_rows // max_rows) or 1
    records, is_outside = encoded_rows(
        table.take(pa.array(range(0, table.num_rows, step))), schema
    )
    sizes = [column.size for column in schema.file_layout.coded]
    fits = ~is_outside & (records.codes < np.array(sizes, int)).all(axis=1)
    return records.rows(fits)


def with_coordinates(
    tables: Sequence[pa.Table], schema: Schema
) -> tuple[list[pa.Table], Schema]:
    """Adds the columns that were measured in place of computed ones, as differences are.

    Args:
        tables: Tables with the columns of the file.
        schema: Their schema.

    Returns:
        The tables with a further column for each coordinate, and a schema without
        relations of the columns of both.
    """
    added = [
        column
        for column in schema.coordinates.columns
        if column.name not in schema.names
    ]
    if not added:
        return list(tables), schema
    described = Schema(
        [*schema.columns, *added],
        label=schema.label,
        missing_values=schema.missing_values,
        constraints=schema.constraints,
    )
    extended = [_with_coordinates(table, schema, added) for table in tables]
    return extended, described


def _with_coordinates(
    table: pa.Table, schema: Schema, added: Sequence[Column]
) -> pa.Table:
    """Adds coordinates to a table; a value outside the schema counts as missing."""
    rows, _ = encoded_rows(table, schema)
    level_counts = [len(column.levels) for column in schema.file_layout.coded]
    rows = Rows(rows.numeric, np.minimum(rows.codes, np.array(level_counts, np.int32)))
    values = schema.measured_values(values_of(rows, schema.file_layout))
    for column in added:
        own = values[column.name]
        # Where its sources are missing, there is none, whatever the column allows.
        if column.numeric:
            cells = column.to_arrow(own.numbers, own.is_missing)
        else:
            indices = pa.array(own.numbers, mask=own.is_missing)
            cells = pa.array(column.decoded_levels).take(indices)
        table = table.append_column(column.name, cells)
    return table


def _encoded(
    table: pa.Table, column: Column, schema: Schema
) -> tuple[np.ndarray, np.ndarray]:
    cells = _column(table, column.name, " of the schema")
    return encode_tolerantly(
        column, cells, pa.array(schema.missing_values, pa.string())
    )


def _column(table: pa.Table, name: str, which: str) -> pa.Array:
    if name not in table.column_names:
        known = ", ".join(map(repr, table.column_names))
        raise DataError(
            f"column {name!r}{which} is not in the table, which has {known}; "
            "evaluate tables that were made with this schema"
        )
    return table.column(name).combine_chunks()


Tables: TypeAlias = Mapping[str, pa.Table]  # linked tables by name, with their keys


@dataclass(frozen=True, kw_only=True)
class LinkedPair:
    """Two linked tables: which children belong to which parents."""

    parent: np.ndarray  # the row of its parent for each child that has one, in the order of `rows`; ascending, int64
    rows: np.ndarray  # which rows of the children's table these are, those of a parent in their order, int64
    counts: np.ndarray  # children of each parent, (parents,), int64
    position: np.ndarray | None
    """Where each stands between the bounds of the column that orders them; None where none does."""
    orphans: int  # children whose parent is not there, which are left aside
    repeated: int  # parents whose key an earlier one has
    backwards: int  # children that are written down after one of the same parent that their order puts behind them

    @cached_property
    def consecutive(self) -> tuple[np.ndarray, np.ndarray]:
        """Places in `rows` of each child that has a next one, and of that one."""
        before = np.flatnonzero(self.parent[:-1] == self.parent[1:])
        return before, before + 1

    def of_grandparents(self, upper: LinkedPair) -> LinkedPair:
        """Returns the children as those of their grandparents, whose children ``upper`` has; by the order of both."""
        place = np.full(len(self.counts), -1)
        place[upper.rows] = np.arange(len(upper.rows))
        found = np.flatnonzero(place[self.parent] >= 0)
        found = found[np.argsort(place[self.parent[found]], kind="stable")]
        parent = upper.parent[place[self.parent[found]]]
        counts = np.bincount(parent, minlength=len(upper.counts))
        return replace(self, parent=parent, rows=self.rows[found], counts=counts)


@dataclass(frozen=True, kw_only=True)
class LinkedTables:
    """Tables by name, and the families of each link by the name of the children's table."""

    tables: Tables
    families: Mapping[str, LinkedPair]


def bring_together(tables: Tables, schema: LinkedSchema, what: str) -> LinkedTables:
    """Returns the children of each parent in all links; messages call the tables the ``what`` ones."""
    if absent := [name for name in schema.names if name not in tables]:
        each = f"give a table for each of the schema: {', '.join(schema.names)}"
        raise DataError(f"the {what} tables lack {absent[0]!r}; {each}")
    return LinkedTables(
        tables=tables,
        families={link.name: _families(tables, link) for link in schema.links},
    )


def _families(tables: Tables, link: Link) -> LinkedPair:
    parents = tables[link.parent.name]
    children = tables[link.name]
    keys = _keys(parents, link.parent.key)
    parent_keys = _keys(children, link.child.parent_key)
    indices = pc.index_in(parent_keys, value_set=keys, skip_nulls=True)
    parent = pc.fill_null(indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    rows = np.flatnonzero(parent >= 0)
    rows = rows[np.argsort(parent[rows], kind="stable")]
    # What no order decides is decided at random, as in what a model learns from: the order of a file says nothing.
    ties = np.random.default_rng(0).permutation(len(rows))
    position = None
    backwards = 0
    if link.order is None:
        rows = rows[np.lexsort((ties, parent[rows]))]
    else:
        positions = read_numbers(children, link.order, link.child.schema).unit
        is_sibling = np.diff(parent[rows]) == 0
        backwards = int(((np.diff(positions[rows]) < 0) & is_sibling).sum())
        rows = rows[np.lexsort((ties, positions[rows], parent[rows]))]
        position = positions[rows]
    return LinkedPair(
        parent=parent[rows],
        rows=rows,
        counts=np.bincount(parent[rows], minlength=len(parents)),
        position=position,
        orphans=len(children) - len(rows),
        repeated=len(parents) - len(pc.unique(keys)),
        backwards=backwards,
    )


def _keys(table: pa.Table, key: Key) -> pa.Array:
    """Keys as text, so that 1 in one table is "1" in another."""
    try:
        return join_names(
            [
                normalized_names(_column(table, name, " of the schema, a key,"), name)
                for name in key_parts(key)
            ]
        )
    except Problem as problem:
        says = problem.message
    raise DataError(says)


def beside(linked: LinkedTables, schema: LinkedSchema) -> tuple[pa.Table, Schema]:
    """Returns the table of the units of privacy with numeric columns for what is linked to them, and its schema."""
    root = schema.root
    table = linked.tables[root.name].select(root.schema.names)
    columns = list(root.schema.columns)
    # Children of each table, as those of the units.
    below: dict[str, LinkedPair] = {}
    max_counts = {root.name: 1}
    for link in schema.links:
        name = link.name
        families = linked.families[name]
        if link.parent.name in below:
            families = families.of_grandparents(below[link.parent.name])
        below[name] = families
        max_counts[name] = max_counts[link.parent.name] * (link.child.most or 1)
        number = Integer(name=f"{name}.number", lower=0, upper=max_counts[name])
        columns.append(number)
        table = table.append_column(number.name, pa.array(families.counts))
        for column in link.child.schema.columns:
            summaries = _summaries(
                linked.tables[name], column, link.child.schema, families
            )
            for summary, values in summaries:
                name_here = f"{name}.{column.name}.{summary}"
                columns.append(
                    Continuous(name=name_here, lower=0.0, upper=1.0, missing=True)
                )
                cells = pa.array(values, from_pandas=True)
                table = table.append_column(name_here, cells)
    described = Schema(
        columns, label=root.schema.label, missing_values=root.schema.missing_values
    )
    return table, described


def _summaries(
    table: pa.Table, column: Column, schema: Schema, families: LinkedPair
) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the summaries of a column by parent, each with its name; NaN for parents about whom nothing is known."""
    parent_count = len(families.counts)
    parent = families.parent
    if column.numeric:
        values = read_numbers(table, column, schema).unit[families.rows]
        is_known = ~np.isnan(values)
        values = values[is_known]
        parent = parent[is_known]
        sums = np.bincount(parent, weights=values, minlength=parent_count)
        yield "mean", _ratio(sums, np.bincount(parent, minlength=parent_count))
        last = np.full(parent_count, np.nan)
        last[parent] = values  # the last one that is written stays
        yield "last", last
        return
    codes = read_levels(table, column, schema).codes[families.rows]
    for code, level in enumerate(column.levels):
        counts = np.bincount(parent[codes == code], minlength=parent_count)
        yield f"{level}", _ratio(counts, families.counts)


def _ratio(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    found = np.full(len(counts), np.nan)
    np.divide(sums, counts, out=found, where=counts > 0)
    return found


def encode_tolerantly(
    column: Column, array: pa.Array, tokens: pa.Array
) -> tuple[npt.NDArray[Any], Mask]:
    """Returns the positions or codes of one column, and where it is outside of all that it can say, (rows,)."""
    # Positions are float64 in [0, 1], NaN where missing or outside; codes are int32, there the number of levels.
    if pt.is_nested(array.type):  # as text, which no schema can place
        array = pa.array(
            [None if cell is None else str(cell) for cell in array.to_pylist()],
            pa.string(),
        )
    known: Collection[Any] = () if column.numeric else column.levels
    usual = pa.array(
        [text for text in ("", "nan", "NaN") if text not in known], pa.string()
    )
    array, present = strip_cells(array, pa.concat_arrays([tokens, usual]))
    outside = np.zeros(len(array), dtype=np.bool_)
    if pt.is_null(array.type):
        return encode_cells(column, np.zeros(0), present), outside
    rows = np.flatnonzero(present)
    try:
        values = array.filter(pa.array(present))
        parsed = _parse_tolerantly(column, values)
    except UnexpectedType:
        parsed = Parsed(
            np.zeros(len(rows)),
            np.ones(len(rows), dtype=np.bool_),
            np.zeros(len(rows), dtype=np.bool_),
        )
    outside[rows[parsed.is_bad]] = True
    gone = parsed.is_bad | parsed.is_missing
    present[rows[gone]] = False
    return encode_cells(column, parsed.numbers[~gone], present), outside


def _parse_tolerantly(column: Column, values: pa.Array) -> Parsed:
    """Parses cells without nulls; of a numeric column limits as such, and others in its format."""
    parse = _tolerant_parser(column)
    if not column.numeric:
        return parse(values)
    return column.parse_around_limits(
        values, lambda measured: parse(column.parse_formatted(measured))
    )


def _tolerant_parser(column: Column) -> Parser:
    if not column.numeric:
        if column.is_truth_value:
            return column.parse_cells
        return partial(_guessed_codes, column)
    if column.is_temporal:
        return partial(_any_moments, in_days=column.kind == Date.kind)
    if column.scale != "numbers":
        return column.parse_unformatted
    return lambda values: parse_floats(
        values.cast(pa.int8()) if pt.is_boolean(values.type) else values
    )


def _any_moments(values: pa.Array, *, in_days: bool) -> Parsed:
    """Parses points in time with a time zone or without, in microseconds or in days."""
    if is_text(values.type):
        naive = parse_timestamps(values, aware=False)
        aware = parse_timestamps(values, aware=True)
        numbers = np.where(naive.is_bad, aware.numbers, naive.numbers)
        moments = Parsed(numbers, naive.is_bad & aware.is_bad, naive.is_missing)
    else:
        is_aware = pt.is_timestamp(values.type) and values.type.tz is not None
        moments = parse_timestamps(values, aware=is_aware)
    if not in_days:
        return moments
    days = moments.numbers // MICROSECONDS_PER_DAY
    return Parsed(days, moments.is_bad, moments.is_missing)


def _guessed_codes(column: CodedColumn, values: pa.Array) -> Parsed:
    """Returns codes as `parse_cells` does; of what is no text also by what its reader may have taken the level for."""
    if is_text(values.type) or not isinstance(column.levels[0], str):
        if pt.is_boolean(values.type):
            values = values.cast(pa.int8())
        return column.parse_cells(values)
    # The first of several levels that read alike, and before all the level itself.
    codes = {
        _guess(level): code for code, level in reversed(list(enumerate(column.levels)))
    }
    codes |= {str(level): code for code, level in enumerate(column.levels)}
    other = getattr(column, "other", None)
    unknown = -1 if other is None else column.levels.index(other)
    distinct = values.dictionary_encode()
    cells = distinct.dictionary.to_pylist()
    code_of_cell = [
        codes.get(_spelled(cell), codes.get(_guess(cell), unknown)) for cell in cells
    ]
    indices = distinct.indices.to_numpy()
    numbers = np.array(code_of_cell, dtype=np.int32)[indices]
    is_missing = np.array([cell != cell for cell in cells], dtype=np.bool_)[indices]
    return Parsed(numbers, (numbers < 0) & ~is_missing, is_missing)


def _spelled(cell: Any) -> str:
    """Returns a value as a level would be written: 3.0 is written 3, as nullable integers often arrive as floats."""
    return (
        str(int(cell))
        if isinstance(cell, float) and cell.is_integer()
        else str(cell).strip()
    )


def _guess(cell: Any) -> str:
    """Returns one text for everything that a type-guessing reader may take for the same number or truth value."""
    text = _spelled(cell)
    try:
        return repr(float(text))
    except ValueError:
        return text.lower() if text.lower() in ("true", "false") else text
