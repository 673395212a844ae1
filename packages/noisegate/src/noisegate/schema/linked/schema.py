"""Schemas of several tables, linked as a tree: patients, their visits, the diagnoses.

::

    patients           root: its records are the units of privacy
      └── visits       each belongs to a patient
            └── diagnoses

Each table but the root has one table of parents (`LinkedTable`), and each such pair is
a `Link`. Rules and relations between a table and that of its parents stand in
`LinkedSchema`; those of one table stand in its own schema.
"""

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
from noisegate.schema.constraints import Comparison, Constraint
from noisegate.schema.files import StoredSchema, write_toml
from noisegate.schema.linked.links import Link, qualified
from noisegate.schema.linked.table_schema import LinkedTable, check_origin, key_parts
from noisegate.schema.relations.forms import relations_from_form
from noisegate.schema.relations.ordered import Ordered
from noisegate.schema.relations.relation import Relation
from noisegate.schema.schema import constraints_from_form

__all__ = ["Link", "LinkedSchema", "LinkedTable"]

# A table is a folder of its name, or a file of its name with one of these.
_FILE_SUFFIXES = (".csv", ".parquet", ".pq")
# Where there is none of these, one of another kind that is read.
_OTHER_SUFFIXES = (
    *(".tsv", ".csv.gz", ".tsv.gz", ".zip", ".jsonl", ".ndjson", ".jsonl.gz"),
    *(".arrow", ".feather", ".ipc", ".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"),
    *(".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt"),
)
_TOP_KEYS = ("tables", "constraints", "relations")


@dataclass(frozen=True, repr=False)
class LinkedSchema(StoredSchema):
    """Public knowledge about several tables that are linked as a tree.

    The unit of privacy is a record of the root table with all linked records. Columns
    that are the same in all records of a parent belong into the parent's table.

    Attributes:
        tables: The tables, each after that of its parents. The first has no parents;
            every other has.
        constraints: Rules between the columns of a table and of its parents', with
            names such as ``visits.day``. Synthetic records keep to them.
        relations: What holds in every record of a table and its parent, such as
            ``visits.day >= patients.birth``, with such names. They compute columns of
            the children alone.

    Raises:
        SchemaError: if the tables are not one tree, or a link or a rule is unusable.

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
        >>> schema.names, schema.table("visits").parent_key
        (('people', 'visits'), 'id')
        >>> LinkedSchema.loads(schema.dumps()) == schema
        True
    """

    tables: Sequence[LinkedTable]
    constraints: tuple[Constraint, ...] = ()
    relations: tuple[Relation, ...] = ()

    def __post_init__(self) -> None:
        """Orders the tables, and checks links, rules and relations."""
        object.__setattr__(self, "tables", _parents_first(self.tables))
        object.__setattr__(self, "constraints", tuple(self.constraints))
        object.__setattr__(self, "relations", tuple(self.relations))
        for relation in self.relations:
            self._check_relation(relation)
        object.__setattr__(self, "tables", self._with_origins())
        for table in self.tables[1:]:
            self._check_since(table)
        for link in self.links:
            # Checks the rules against the columns that they name.
            _ = link.records
            _ = link.measured.coordinates

    @cached_property
    def root(self) -> LinkedTable:
        """The table whose records are the units of privacy."""
        return self.tables[0]

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """Each table but the root with that of its parents, parents first."""
        rules: dict[str, list[Constraint]] = {table.name: [] for table in self.tables}
        relations: dict[str, list[Relation]] = {table.name: [] for table in self.tables}
        for rule in self.constraints:
            rules[self._child_table_of(rule).name].append(rule)
        for relation in self.relations:
            child = self._child_table_of(relation)
            if isinstance(relation, Ordered) and _orders(relation, child):
                rules[child.name].append(_as_rule(relation))
            else:
                relations[child.name].append(relation)
        return tuple(
            Link(
                parent=self.table(str(table.parent)),
                child=table,
                constraints=tuple(rules[table.name]),
                relations=tuple(relations[table.name]),
            )
            for table in self.tables[1:]
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple(table.name for table in self.tables)

    def table(self, name: str) -> LinkedTable:
        """Returns a table by its name; raises a `SchemaError` if there is none."""
        for table in self.tables:
            if table.name == name:
                return table
        raise SchemaError(
            f"no table {name!r} in the schema; its tables are "
            f"{choices(name, self.names)}"
        )

    def children(self, name: str) -> tuple[LinkedTable, ...]:
        """Returns the tables whose records have their parents in a table."""
        return tuple(table for table in self.tables if table.parent == name)

    def parts(self, data: Any) -> dict[str, Any]:
        """Returns the source of each table, by its name, unread.

        Args:
            data: A folder with a file or a folder for each table; or a mapping from the
                names of tables to paths or tables in memory.

        Raises:
            DataError: if a table is missing, or unknown.
        """
        sources = linked_paths(data, self) if isinstance(data, str | Path) else data
        if not isinstance(sources, Mapping):
            raise DataError(
                "expected a folder, or a mapping from the tables "
                f"{', '.join(self.names)} to paths or tables in memory, found "
                f"{type(data).__name__}"
            )
        for name in sources:
            if name not in self.names:
                raise DataError(
                    f"table {name!r} is not in the schema, whose tables are "
                    f"{choices(name, self.names)}"
                )
        for name in self.names:
            if name not in sources:
                raise DataError(
                    f"no data for table {name!r} of the schema; give its file or frame "
                    "too"
                )
        return {name: sources[name] for name in self.names}

    @classmethod
    def from_form(cls, form: Mapping[str, Any]) -> LinkedSchema:
        """Reads the schema of a TOML file, whose tables and columns are by name."""
        tables = form.get("tables")
        check_keys(form, _TOP_KEYS, "top of the schema")
        if not isinstance(tables, Mapping) or not tables:
            raise SchemaError(
                "no tables; add [tables.NAME] and [tables.NAME.columns.COLUMN] for each"
            )
        return cls._with_rules(
            [LinkedTable.from_form(name, table) for name, table in tables.items()], form
        )

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> LinkedSchema:
        """Reads a schema as `to_json` writes it, with lists of tables and columns."""
        items = form.get("tables") if isinstance(form, Mapping) else None
        is_list_of_tables = isinstance(items, list) and all(
            isinstance(item, Mapping) and "name" in item for item in items
        )
        if not is_list_of_tables:
            raise SchemaError("`tables` must be a list of objects, each with a name")
        check_keys(form, _TOP_KEYS, "top of the schema")
        tables = []
        for item in form["tables"]:
            fields = {key: value for key, value in item.items() if key != "name"}
            tables.append(LinkedTable.from_form(item["name"], fields, listed=True))
        return cls._with_rules(tables, form)

    @classmethod
    def _with_rules(
        cls, tables: Sequence[LinkedTable], form: Mapping[str, Any]
    ) -> LinkedSchema:
        """Returns a schema of some tables, with the rules of a stored form."""
        columns = {
            column.name: column for table in tables for column in qualified(table)
        }
        return cls(
            tables,
            constraints_from_form(form, list(columns.values())),
            relations_from_form(form.get("relations", []), columns),
        )

    def usable(self) -> LinkedSchema:
        """Checks what is asked of a schema for new records; see `Schema.usable`.

        Returns:
            This schema.
        """
        for table in self.tables:
            try:
                table.schema.usable()
            except SchemaError as error:
                raise SchemaError(f"table {table.name!r}: {error}") from None
        for link in self.links:
            link.records.usable()
        return self

    @property
    def omissions(self) -> str | None:
        """Warning that drafts ignore columns, or None; see `Schema.omissions`."""
        warnings = [
            f"{table.name}: {table.schema.omissions}"
            for table in self.tables
            if table.schema.omissions is not None
        ]
        return " ".join(warnings) or None

    @property
    def hardly_satisfiable(self) -> str | None:
        """Why sampling may fail, or None; see `Schema.hardly_satisfiable`."""
        for link in self.links:
            reason = link.records.hardly_satisfiable
            if reason is not None:
                return reason
        return None

    def dumps(self) -> str:
        """Returns the schema as TOML text."""
        blocks = [
            write_toml(
                table.form() | table.schema.form(), table_path=("tables", table.name)
            )
            for table in self.tables
        ]
        if self.constraints or self.relations:
            blocks.append(write_toml(self._form_of_rules()))
        return "\n".join(blocks)

    def to_json(self) -> dict[str, Any]:
        """Returns the schema as JSON values."""
        tables = [
            {"name": table.name, **table.form(), **table.schema.to_json()}
            for table in self.tables
        ]
        return {"tables": tables, **self._form_of_rules()}

    def _form_of_rules(self) -> dict[str, Any]:
        """Returns rules and relations between tables as they are stored, if any."""
        form: dict[str, Any] = {}
        if self.constraints:
            form["constraints"] = [rule.form() for rule in self.constraints]
        if self.relations:
            form["relations"] = [relation.form() for relation in self.relations]
        return form

    def card(self) -> ResultCard:
        """Returns the schema as a card for a terminal or a notebook."""
        facts: dict[str, Any] = {}
        sheets = []
        for table in self.tables:
            schema = table.schema
            title = f"{table.name}: {len(schema.columns):,} columns"
            rows = [card_row(column, schema.label) for column in schema.columns]
            sheets.append(Sheet(title=title, headings=CARD_HEADINGS, rows=rows))
            description = describe_link(table)
            facts[table.name] = f"{len(schema.columns):,} columns. {description}"
            for relation in schema.relations:
                facts[f"{table.name}: {relation}"] = "relation"
        for relation in self.relations:
            facts[str(relation)] = "relation"
        return ResultCard(
            title=f"Schema: {len(self.tables)} linked tables",
            facts=facts,
            sheets=sheets,
        )

    def _check_since(self, table: LinkedTable) -> None:
        """Requires that the origin of first children is a fitting column of parents."""
        if table.since is None:
            return
        where = f"table {table.name!r}"
        parent = self.table(str(table.parent))
        if table.since not in parent.schema.names:
            raise SchemaError(
                f"{where}: since = {table.since!r} is not a column of {parent.name!r}; "
                f"these are {choices(table.since, parent.schema.names)}"
            )
        since = parent.schema.column(table.since)
        order = table.schema.column(str(table.order))
        if table.since in parent.schema.computed_names:
            raise SchemaError(
                f"{where}: since = {table.since!r} is computed by a relation of "
                f"{parent.name!r}; name a column that is measured"
            )
        if not since.numeric or not order.numeric:
            raise SchemaError(
                f"{where}: since = {table.since!r} is {since.kind}; name a column of "
                "numbers or dates"
            )
        check_origin(order, since, where)

    def _check_relation(self, relation: Relation) -> None:
        """Requires that a relation computes columns of children that are measured.

        Raises:
            SchemaError: if it computes one of the parents, which are drawn before their
                children; or the order of the children, otherwise than by a comparison;
                or if it names a column that a relation of its own table computes.
        """
        child = self._child_table_of(relation)
        for name in relation.computed:
            if name.partition(".")[0] != child.name:
                raise SchemaError(
                    f"relation {relation!s}: computes {name!r}, and parents are drawn "
                    f"before their {child.name}; write it under [[constraints]]"
                )
        for name in relation.names:
            table_name, _, column_name = name.partition(".")
            if column_name in self.table(table_name).schema.computed_names:
                raise SchemaError(
                    f"relation {relation!s}: {name!r} is computed by a relation of its "
                    "own table; name a column that is measured"
                )
        if not _orders(relation, child):
            return
        if not isinstance(relation, Ordered) or relation.largest is not None:
            raise SchemaError(
                f"relation {relation!s}: {child.order!r} puts the records of "
                f"{child.name!r} in order, and follows from the gaps between them; "
                "write it under [[constraints]], without largest"
            )

    def _with_origins(self) -> tuple[LinkedTable, ...]:
        """Returns the tables, of which some count first children from a relation.

        A column that puts children in order is not measured itself, but the distance of
        the first one from an origin. If a relation such as `visits.day >=
        patients.entered` measures a difference, ``entered`` is the origin: no distance
        from it is below 0.
        """
        columns = {
            column.name: column for table in self.tables for column in qualified(table)
        }
        origins: dict[str, str] = {}
        for relation in self.relations:
            child = self._child_table_of(relation)
            if not isinstance(relation, Ordered) or not _orders(relation, child):
                continue
            relation.check(columns)
            if child.since is None and relation.measures_difference(columns):
                origins[child.name] = relation.lower_name.partition(".")[2]
        return tuple(
            replace(table, since=origins[table.name])
            if table.name in origins
            else table
            for table in self.tables
        )

    def _child_table_of(self, rule: Constraint | Relation) -> LinkedTable:
        """Returns the table of the children in a rule between two tables.

        Raises:
            SchemaError: if the rule is not about one table and that of its parents.
        """
        named_tables = {name.partition(".")[0] for name in rule.names}
        for table in self.tables[1:]:
            if named_tables == {table.name, table.parent}:
                return table
        word = "relation" if isinstance(rule, Relation) else "constraint"
        raise SchemaError(
            f"{word} {rule!s}: expected columns of one table and of its parents', "
            f"such as visits.day and patients.birth; write a {word} about one table "
            f"under its own [[tables.NAME.{word}s]]"
        )


def _orders(relation: Relation, child: LinkedTable) -> bool:
    """Returns whether a relation is about the column that orders the children."""
    return f"{child.name}.{child.order}" in relation.computed


def _as_rule(relation: Ordered) -> Comparison:
    """Returns the rule that states what a relation of two columns does."""
    return Comparison(
        left=relation.upper_name, relation=relation.sign, right=relation.lower_name
    )


def describe_link(table: LinkedTable) -> str:
    """Describes in words how the records of a table are linked to their parents."""
    if not table.child:
        key = " and ".join(key_parts(table.key))
        return f"Each record is a unit of privacy, named by {key}."
    parent_key = " and ".join(key_parts(table.parent_key))
    if table.order is None:
        ordered = "without an order"
    else:
        ordered = f"ordered by {table.order}"
    orphans = "are dropped" if table.orphans == "drop" else "are refused"
    return (
        f"Of each record of {table.parent}, named by {parent_key}: up to "
        f"{table.most:,}, {ordered}. Those whose parent is not there {orphans}."
    )


def linked_paths(folder: str | Path, schema: LinkedSchema) -> dict[str, Path]:
    """Finds the file or folder of each table: visits.csv, visits.parquet, or visits.

    Args:
        folder: Where they lie.
        schema: Has the names of the tables.

    Raises:
        DataError: if a table has none, or several.
    """
    root = Path(folder)
    if not root.is_dir():
        raise DataError(
            f"{root}: expected a folder with a file for each of the tables "
            f"{', '.join(schema.names)}"
        )
    paths: dict[str, Path] = {}
    for name in schema.names:
        existing = _existing_files(root, name, ("", *_FILE_SUFFIXES))
        if not existing:
            existing = _existing_files(root, name, _OTHER_SUFFIXES)
        if len(existing) != 1:
            listed = " and ".join(path.name for path in existing) or "no such file"
            raise DataError(
                f"{root}: expected one of {name}.csv, {name}.parquet or a folder "
                f"{name}, found {listed}"
            )
        paths[name] = existing[0]
    return paths


def _existing_files(root: Path, name: str, suffixes: Sequence[str]) -> list[Path]:
    """Returns the files in a folder that are called like a table."""
    candidates = [root / f"{name}{suffix}" for suffix in suffixes]
    return [path for path in candidates if path.exists()]


def _parents_first(tables: Any) -> tuple[LinkedTable, ...]:
    """Orders tables such that each stands after that of its parents.

    Parent keys that were left out are filled in.

    Raises:
        SchemaError: if the tables are not one tree.
    """
    remaining = list(tables)
    _check_tree(remaining)
    names = [table.name for table in remaining]
    ordered: dict[str, LinkedTable] = {}
    while remaining:
        ready = [
            table for table in remaining if not table.child or table.parent in ordered
        ]
        if not ready:
            raise _detached(remaining[0], names)
        ordered |= {table.name: _with_parent_key(table, ordered) for table in ready}
        remaining = [table for table in remaining if table.name not in ordered]
    return tuple(ordered.values())


def _check_tree(tables: Sequence[Any]) -> None:
    """Requires two tables or more with different names, one of them without parents."""
    for table in tables:
        if not isinstance(table, LinkedTable):
            raise SchemaError(
                "expected tables such as LinkedTable(...), found "
                f"{type(table).__name__}"
            )
    # Tables are written to files of their names, and some systems ignore case.
    file_names = [table.name.casefold() for table in tables]
    for name in file_names:
        if file_names.count(name) > 1:
            raise SchemaError(f"table {name!r} is described more than once; keep one")
    roots = [table.name for table in tables if not table.child]
    if len(roots) != 1 or len(tables) < 2:
        raise SchemaError(
            f"{len(roots)} of {len(tables)} tables are without a parent "
            f"({', '.join(roots) or 'none'}); expected two tables or more, and one "
            "without: state parent = ... for the others"
        )


def _detached(table: LinkedTable, names: Sequence[str]) -> SchemaError:
    """Returns the error for a table that no path of parents connects to the root.

    Args:
        table: The table.
        names: Names of all tables.
    """
    if table.parent == table.name:
        return SchemaError(
            f"table {table.name!r}: parent = {table.parent!r} is the table itself, "
            "whose records would have no first one; put the column that names another "
            "record under ignore"
        )
    return SchemaError(
        f"table {table.name!r}: parent = {table.parent!r} is not a table of the "
        "schema, or links to this one in a circle; the tables are "
        f"{choices(str(table.parent), names)}"
    )


def _with_parent_key(
    table: LinkedTable, parents: Mapping[str, LinkedTable]
) -> LinkedTable:
    """Fills in the parent key of a table, and checks it against the parents' key.

    Args:
        table: The table.
        parents: Tables that stand before it, by name; that of its parents among them.

    Returns:
        The table with a `parent_key`, by default called as the parents' key.

    Raises:
        SchemaError: if the parents have no key, or one of another number of columns; or
            if the table keeps orphans of parents that may be dropped themselves.
    """
    if table.parent is None:
        return table
    parent = parents[table.parent]
    if parent.key is None:
        raise SchemaError(
            f"table {parent.name!r}: key is missing; {table.name!r} is linked to it, "
            "so name its key"
        )
    if parent.orphans == "drop" and table.orphans != "drop":
        raise SchemaError(
            f'table {table.name!r}: orphans = "drop" is needed as in {parent.name!r}: '
            "children of dropped records go"
        )
    keyed_table = table
    if table.parent_key is None:
        keyed_table = replace(table, parent_key=parent.key)
    if len(key_parts(keyed_table.parent_key)) != len(key_parts(parent.key)):
        raise SchemaError(
            f"table {table.name!r}: parent_key = {keyed_table.parent_key!r}, and the "
            f"key of {parent.name!r} is {parent.key!r}; name a column for each of its "
            "columns, in its order"
        )
    return keyed_table
