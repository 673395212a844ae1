"""The schema of several tables, each but one belonging to another: patients, their visits, the diagnoses of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from noisegate.cards import ResultCard, Sheet
from noisegate.errors import DataError, SchemaError, choices
from noisegate.schema.columns import (
    CARD_HEADINGS,
    card_row,
    check_keys,
)
from noisegate.schema.constraints import Constraint
from noisegate.schema.files import StoredSchema, write_toml
from noisegate.schema.linked.links import Link, qualified
from noisegate.schema.linked.table_schema import LinkedTable, check_origin, key_parts
from noisegate.schema.schema import constraints_from_form

__all__ = ["Link", "LinkedSchema", "LinkedTable"]

_ENDINGS = (".csv", ".parquet", ".pq")
_KEYS = ("tables", "constraints")


@dataclass(frozen=True, repr=False)
class LinkedSchema(StoredSchema):
    """Public knowledge about several tables that are linked as a tree.

    The unit of privacy is a record of the first table with all linked records. Columns that are the same in all
    records of a parent belong into the parent's table.

    Examples:
        >>> from noisegate.schema.linked.schema import LinkedSchema
        >>> text = '''
        ... [tables.people]
        ... key = "id"
        ... [tables.people.columns.ill]
        ... kind = "boolean"
        ... [tables.visits]
        ... parent = "people"
        ... most = 9
        ... [tables.visits.columns.pain]
        ... kind = "integer"
        ... lower = 0
        ... upper = 10
        ... '''
        >>> schema = LinkedSchema.loads(text)
        >>> schema.table("visits").parent_key, LinkedSchema.loads(schema.dumps()) == schema
        ('id', True)
    """

    tables: Sequence[LinkedTable]
    """Each after the table of its parents; the first has none, and all others have one."""
    constraints: tuple[Constraint, ...] = ()
    """Rules between the columns of a table and of its parents', with names such as ``visits.day``; synthetic records
    keep to them. Rules about one table stand in its own schema."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", _in_order(self.tables))
        object.__setattr__(self, "constraints", tuple(self.constraints))
        for table in self.tables[1:]:
            self._check_link(table)
        for rule in self.constraints:
            self._link_of(rule)
        _ = [
            link.records for link in self.links
        ]  # each checks the rules between its columns

    @cached_property
    def root(self) -> LinkedTable:
        """The table whose records are the units of privacy."""
        return self.tables[0]

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """Each table with that of its parents, parents first."""
        rules: dict[str, list[Constraint]] = {table.name: [] for table in self.tables}
        for rule in self.constraints:
            rules[self._link_of(rule)].append(rule)
        return tuple(
            Link(
                parent=self.table(str(table.parent)),
                child=table,
                constraints=tuple(rules[table.name]),
            )
            for table in self.tables[1:]
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple(table.name for table in self.tables)

    def table(self, name: str) -> LinkedTable:
        """Returns the table called ``name``; a `SchemaError` if there is none."""
        for table in self.tables:
            if table.name == name:
                return table
        raise SchemaError(
            f"no table {name!r} in the schema; its tables are {choices(name, self.names)}"
        )

    def children(self, name: str) -> tuple[LinkedTable, ...]:
        """Returns the tables whose parents are the records of the table called ``name``."""
        return tuple(table for table in self.tables if table.parent == name)

    def parts(self, data: Any) -> dict[str, Any]:
        """Returns what holds each table, unread: in a folder, or by name; a DataError if one lacks, or is unknown."""
        parts = linked_paths(data, self) if isinstance(data, str | Path) else data
        if not isinstance(parts, Mapping):
            raise DataError(
                f"expected a folder, or a mapping from the tables {', '.join(self.names)} to paths or tables in "
                f"memory, found {type(data).__name__}"
            )
        unknown = next((name for name in parts if name not in self.names), None)
        if unknown is not None:
            raise DataError(
                f"table {unknown!r} is not in the schema, whose tables are {choices(unknown, self.names)}"
            )
        absent = next((name for name in self.names if name not in parts), None)
        if absent is not None:
            raise DataError(
                f"no data for table {absent!r} of the schema; give its file or frame too"
            )
        return {name: parts[name] for name in self.names}

    @classmethod
    def from_form(cls, form: Mapping[str, Any]) -> LinkedSchema:
        """Returns the schema that a file holds."""
        tables = form.get("tables")
        check_keys(form, _KEYS, "top of the schema")
        if not isinstance(tables, Mapping) or not tables:
            raise SchemaError(
                "no tables; add [tables.NAME] and [tables.NAME.columns.COLUMN] for each"
            )
        return cls._ruled(
            [LinkedTable.from_form(name, table) for name, table in tables.items()], form
        )

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> LinkedSchema:
        """Returns the schema that :meth:`to_json` wrote; a `SchemaError` says what is wrong with it."""
        tables = form.get("tables") if isinstance(form, Mapping) else None
        if not isinstance(tables, list) or not all(
            isinstance(table, Mapping) and "name" in table for table in tables
        ):
            raise SchemaError("`tables` must be a list of objects, each with a name")
        check_keys(form, _KEYS, "top of the schema")
        items = [
            (
                table["name"],
                {key: value for key, value in table.items() if key != "name"},
            )
            for table in tables
        ]
        return cls._ruled(
            [LinkedTable.from_form(name, item, listed=True) for name, item in items],
            form,
        )

    @classmethod
    def _ruled(
        cls, tables: Sequence[LinkedTable], form: Mapping[str, Any]
    ) -> LinkedSchema:
        columns = [column for table in tables for column in qualified(table)]
        return cls(tables, constraints_from_form(form, columns))

    def usable(self) -> LinkedSchema:
        """Returns this schema, after what is asked of one for new records; see `Schema.usable`."""
        for table in self.tables:
            try:
                table.schema.usable()
            except SchemaError as error:
                raise SchemaError(f"table {table.name!r}: {error}") from None
        for link in self.links:
            link.records.usable()
        return self

    @property
    def hardly_satisfiable(self) -> str | None:
        """Why sampling may come to nothing, or None; see `Schema.hardly_satisfiable`."""
        return next(
            (
                why
                for link in self.links
                if (why := link.records.hardly_satisfiable) is not None
            ),
            None,
        )

    def dumps(self) -> str:
        """Returns the schema as TOML text."""
        blocks = [
            write_toml(
                table.form() | table.schema.form(), table_path=("tables", table.name)
            )
            for table in self.tables
        ]
        rules = {"constraints": [rule.form() for rule in self.constraints]}
        return "\n".join([*blocks, *([write_toml(rules)] if self.constraints else [])])

    def to_json(self) -> dict[str, Any]:
        """Returns the schema as plain JSON values."""
        tables = [
            {"name": table.name, **table.form(), **table.schema.to_json()}
            for table in self.tables
        ]
        rules = (
            {"constraints": [rule.form() for rule in self.constraints]}
            if self.constraints
            else {}
        )
        return {"tables": tables} | rules

    def card(self) -> ResultCard:
        """Returns what the schema says, as a card for a terminal or a notebook."""
        facts, sheets = {}, []
        for table in self.tables:
            rows = [
                card_row(column, table.schema.label) for column in table.schema.columns
            ]
            sheets.append(
                Sheet(
                    title=f"{table.name}: {len(rows):,} columns",
                    headings=CARD_HEADINGS,
                    rows=rows,
                )
            )
            facts[table.name] = f"{len(rows):,} columns. {self.told(table)}"
        return ResultCard(
            title=f"Schema: {len(self.tables)} linked tables",
            facts=facts,
            sheets=sheets,
        )

    def told(self, table: LinkedTable) -> str:
        """Returns in words how the records of a table are linked to those of another."""
        if not table.child:
            return f"Each record is a unit of privacy, named by {' and '.join(key_parts(table.key))}."
        ordered = (
            "without an order" if table.order is None else f"ordered by {table.order}"
        )
        orphans = "are dropped" if table.orphans == "drop" else "are refused"
        return (
            f"Of each record of {table.parent}, named by {' and '.join(key_parts(table.parent_key))}: up to "
            f"{table.most:,}, {ordered}. Those whose parent is not there {orphans}."
        )

    def _check_link(self, table: LinkedTable) -> None:
        parent, where = self.table(str(table.parent)), f"table {table.name!r}"
        if table.since is None:
            return
        if table.since not in parent.schema.names:
            names = choices(table.since, parent.schema.names)
            raise SchemaError(
                f"{where}: since = {table.since!r} is not a column of {parent.name!r}; these are {names}"
            )
        since, order = (
            parent.schema.column(table.since),
            table.schema.column(str(table.order)),
        )
        if not since.numeric or not order.numeric:
            raise SchemaError(
                f"{where}: since = {table.since!r} is {since.kind}; name a column of numbers or dates"
            )
        check_origin(order, since, where)

    def _link_of(self, rule: Constraint) -> str:
        tables = {name.partition(".")[0] for name in rule.names}
        for table in self.tables[1:]:
            if tables == {table.name, table.parent}:
                return table.name
        raise SchemaError(
            f"constraint {rule!s}: expected columns of one table and of its parents', such as visits.day and "
            "patients.birth; write a rule about one table under its own [[tables.NAME.constraints]]"
        )


def linked_paths(folder: str | Path, schema: LinkedSchema) -> dict[str, Path]:
    """Returns the one file or folder of each table: visits.csv, visits.parquet, or a folder visits."""
    place = Path(folder)
    if not place.is_dir():
        raise DataError(
            f"{place}: expected a folder with a file for each of the tables {', '.join(schema.names)}"
        )
    found: dict[str, Path] = {}
    for name in schema.names:
        several = [
            path
            for path in (place / f"{name}{ending}" for ending in ("", *_ENDINGS))
            if path.exists()
        ]
        if len(several) != 1:
            told = " and ".join(path.name for path in several) or "no such file"
            raise DataError(
                f"{place}: expected one of {name}.csv, {name}.parquet or a folder {name}, found {told}"
            )
        found[name] = several[0]
    return found


def _in_order(tables: Any) -> tuple[LinkedTable, ...]:
    """Returns the tables, each after that of its parents; keys of parents that were left out are filled in."""
    left = list(tables)
    for table in left:
        if not isinstance(table, LinkedTable):
            raise SchemaError(
                f"expected tables such as LinkedTable(...), found {type(table).__name__}"
            )
    names = [
        table.name.casefold() for table in left
    ]  # of files, on systems where case does not tell them apart
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SchemaError(f"table {twice!r} is described more than once; keep one")
    roots = [table.name for table in left if not table.child]
    if len(roots) != 1 or len(left) < 2:
        says = f"{len(roots)} of {len(left)} tables are without a parent ({', '.join(roots) or 'none'})"
        raise SchemaError(
            f"{says}; expected two tables or more, and one without: state parent = ... for the others"
        )
    found: dict[str, LinkedTable] = {}
    while left:
        ready = [table for table in left if not table.child or table.parent in found]
        if not ready:
            table = left[0]
            if table.parent == table.name:
                raise SchemaError(
                    f"table {table.name!r}: parent = {table.parent!r} is the table itself, whose records would have no "
                    "first one; put the column that names another record under ignore"
                )
            raise SchemaError(
                f"table {table.name!r}: parent = {table.parent!r} is not a table of the schema, or links to this one "
                f"in a circle; the tables are {choices(table.parent, names)}"
            )
        found |= {table.name: _keyed(table, found) for table in ready}
        left = [table for table in left if table.name not in found]
    return tuple(found.values())


def _keyed(table: LinkedTable, found: Mapping[str, LinkedTable]) -> LinkedTable:
    """Returns a table with the name of the column that holds its parents' keys, checked against that of the parents."""
    if table.parent is None:
        return table
    parent = found[table.parent]
    if parent.key is None:
        raise SchemaError(
            f"table {parent.name!r}: key is missing; {table.name!r} is linked to it, so name its key"
        )
    if parent.orphans == "drop" and table.orphans != "drop":
        raise SchemaError(
            f'table {table.name!r}: orphans = "drop" is needed as in {parent.name!r}: children of dropped records go'
        )
    table = (
        table if table.parent_key is not None else replace(table, parent_key=parent.key)
    )
    if len(key_parts(table.parent_key)) != len(key_parts(parent.key)):
        raise SchemaError(
            f"table {table.name!r}: parent_key = {table.parent_key!r}, and the key of {parent.name!r} is "
            f"{parent.key!r}; name a column for each of its columns, in its order"
        )
    return table
