"""Private records of linked tables, from files or memory, in any order.

All tables are read once, into memory up to a limit and else into files without a name.
Keys are hashed under a secret of the run and then forgotten. After that, each link, a
table with the one that its records belong to, hands on families and their transitions as
often as the gate asks (see `families`).

`LinkedSource` is all tables together; `LinkRows` is one link as a source of rows, for an
engine that sums.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from noisegate.errors import DataError
from noisegate.records import WHOLE, WeightedRows
from noisegate.schema import Schema
from noisegate.schema.columns import Problem
from noisegate.schema.encode import Mask, encode
from noisegate.schema.linked.schema import Link, LinkedSchema, LinkedTable
from noisegate.schema.linked.table_schema import Key, key_parts
from noisegate.sources.families import Families, Unmatched, families, transitions
from noisegate.sources.headers import check_header, check_same_columns
from noisegate.sources.spill import HELD_BYTES, Records, Spill, spilled_parts
from noisegate.sources.stores import absolute
from noisegate.sources.tables.parts import Part, Stamp, stamp
from noisegate.sources.tables.tables import (
    Origin,
    files_of,
    open_origins,
    with_location,
)
from noisegate.sources.units import check_unit_column, hash_names


class LinkedSource:
    """Linked tables of private records. Use it in a `with` block, which forgets them.

    Attributes:
        linked: The schema of all tables.
        batch_rows: The most rows of transitions in a batch.
        name: What messages call the tables: the first file of each.
        in_parts: Rows are weighted, and count in parts.
    """

    in_parts: ClassVar[bool] = True

    def __init__(
        self,
        data: Any,
        schema: LinkedSchema,
        *,
        show_values: bool = False,
        batch_rows: int = 32768,
        held_bytes: int = HELD_BYTES,
        key: bytes | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Opens all tables; nothing of them is read yet.

        Args:
            data: A folder, or paths and tables in memory by the names of the tables.
            schema: What is public of all of them.
            show_values: Whether messages may quote values.
            batch_rows: The most rows of transitions in a batch.
            held_bytes: Of each table, how much stays in memory.
            key: Secret under which keys are hashed; None for a fresh one.
            progress: Called, for the operator only, with the number of records read so
                far, of all tables.

        Raises:
            DataError: if a table is not given, or is of no kind that can be read.
        """
        self.linked = schema
        self.batch_rows = batch_rows
        self._show_values = show_values
        self._held_bytes = held_bytes
        self._key = secrets.token_bytes(32) if key is None else key
        self._progress = progress
        self._records_read = 0
        sources = schema.parts(data)
        self._origins = {
            table.name: _open_table(sources[table.name], table)
            for table in schema.tables
        }
        self.name = ", ".join(origins[0].name for origins in self._origins.values())
        # By the name of a table or link: its records by their own keys, with the
        # shares of their weight; and by the keys of their parents.
        self._parents: dict[str, Spill] = {}
        self._children: dict[str, Spill] = {}

    @property
    def schema(self) -> Schema:
        """Of the table whose records are the units."""
        return self.linked.root.schema

    @property
    def links(self) -> tuple[str, ...]:
        """Each link, by the name of its child's table."""
        return tuple(link.name for link in self.linked.links)

    def link(self, name: str) -> LinkRows:
        """Returns the rows of the link to a table."""
        link = next(link for link in self.linked.links if link.name == name)
        return LinkRows(tables=self, of=link)

    def beside(self, data: Any) -> LinkedSource:
        """Returns a source of other tables of the same schema and secret."""
        return LinkedSource(data, self.linked, key=self._key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forgets what was read."""
        for spill in (*self._parents.values(), *self._children.values()):
            spill.close()
        self._parents = {}
        self._children = {}

    def check(self) -> None:
        """Checks names and types of the columns of all tables; no record is read."""
        for table in self.linked.tables:
            ignored = {*table.schema.ignore, *table.keys}
            described = replace(table.schema, ignore=tuple(ignored))
            headers = []
            for origin in self._origins[table.name]:
                columns = origin.columns()
                for key in table.keys:
                    check_unit_column(key, columns, origin.name, "the key")
                names = [name for name, _ in columns]
                show_names = origin.typed or self._show_values
                check_header(names, described, origin.name, show_names=show_names)
                headers.append((origin.name, names))
                # Encoding no records tells whether each type fits its column.
                empty = {name: pa.array([], _plain(kind)) for name, kind in columns}
                encode_none = partial(encode, empty, table.schema)
                with_location(encode_none, origin, show_values=False)
            check_same_columns(headers, show_names=True)

    def check_parts(self) -> None:
        """Refuses tables in memory, by an `OptionError`."""
        for origins in self._origins.values():
            files_of(origins)

    def stamps(self) -> dict[Path, Stamp]:
        """Returns what each file looks like from outside."""
        return {
            file.path: stamp(file.path)
            for origins in self._origins.values()
            for file in files_of(origins)
        }

    def apart(self) -> LinkedSource:
        """Returns a source of the same files, of which nothing was read.

        It can be pickled, with its secret.
        """
        other = copy(self)
        other._progress = None
        other._parents = {}
        other._children = {}
        other._origins = {}
        for name, origins in self._origins.items():
            other._origins[name] = [
                replace(file, path=absolute(file.path)) for file in files_of(origins)
            ]
        return other

    def no_records(self) -> DataError:
        """Returns the error of tables without a unit."""
        name = self._origins[self.linked.root.name][0].name
        return DataError(f"{name}: there are no records; expected at least one")

    def transitions(
        self, link: Link, grid: int = WHOLE, *, share: tuple[int, int] | None = None
    ) -> Iterator[WeightedRows]:
        """Yields the rows of a link, at most `batch_rows` at a time.

        Args:
            link: Which.
            grid: What the rows of one unit weigh together, at most.
            share: Which one of how many shares of the parents; None for all.

        Raises:
            DataError: if a record does not fit the schema, a key is missing or there
                twice, or a record has no parent.
        """
        for group in self.families(link):
            mine = group if share is None else group.share(*share)
            rows = transitions(mine, link, grid)
            for start in range(0, len(rows), self.batch_rows):
                yield rows.rows(slice(start, start + self.batch_rows))

    def _read(self) -> None:
        """Reads all tables, and checks all keys before anything is asked of them."""
        self.check()
        root = self.linked.root
        self._records_read = 0
        units = self._spill(root, "key")
        self._parents[root.name] = units
        for records in self._records(root):
            units.add(records)
        unit_count = self._records_read
        if not unit_count:
            raise self.no_records()
        for link in self.linked.links:
            children = self._spill(link.child, "parent")
            self._children[link.name] = children
            for records in self._records(link.child):
                children.add(records)
            self._check_families(link, unit_count)
            if self.linked.children(link.name):
                self._parents[link.name] = self._as_parents(link)

    def _check_families(self, link: Link, unit_count: int) -> None:
        """Checks the keys of a link, and that no unit's rows weigh more than a record.

        Args:
            link: The link, all of whose records were read.
            unit_count: Number of records of the first table.

        Raises:
            DataError: from `families`, for a key that is there twice or a child
                without a parent.
            OverflowError: from `add_weights`, if a unit weighs too much (G-31).
        """
        weight_of_unit = np.zeros(unit_count, dtype=np.int64)
        for group in self.families(link):
            group.add_weights(weight_of_unit)

    def _as_parents(self, link: Link) -> Spill:
        """Returns the children of a link as the parents of another, by their own keys.

        A child shares the weight of its unit with its siblings: its field `share` says
        into how many parts that weight was split, and `unit` whose it is.
        """
        parents = self._spill(link.child, "key")
        for group in self.families(link):
            # A part of a spill is a copy, so nobody else reads these fields.
            group.children["share"] = group.shares
            group.children["unit"] = group.parents["unit"][group.parent_index]
            parents.add(group.children)
        return parents

    def families(self, link: Link) -> Iterator[Families]:
        """Yields parents with their children, as many at a time as fit into memory.

        Raises:
            DataError: as `transitions` does.
        """
        if not self._children:
            try:
                self._read()
            except BaseException:
                self.close()
                raise
        table = link.child
        order = None if table.order is None else table.schema.layout.place(table.order)
        parents = self._parents[link.parent.name]
        children = self._children[link.name]
        for part in spilled_parts((parents, children)):
            try:
                group = families(
                    parents.part(part),
                    children.part(part),
                    order,
                    drop=table.orphans == "drop",
                )
            except Unmatched as problem:
                error = self._unmatched(link, twice=problem.twice)
            else:
                yield group
                continue
            raise error

    def _unmatched(self, link: Link, *, twice: bool) -> DataError:
        """Returns the error of a key that is there twice, or of a child alone."""
        parent = link.parent
        child = link.child
        if twice:
            name = self._origins[parent.name][0].name
            return DataError(
                f"{name}, column {_key_columns(parent.key)}: two records have the same "
                "key; expected each one once"
            )
        name = self._origins[child.name][0].name
        return DataError(
            f"{name}, column {_key_columns(child.parent_key)}: a record names none of "
            f"the table {parent.name!r}; add its parent there, write keys alike, zeros "
            f'before them too, or set orphans = "drop" for {child.name!r} to leave such '
            "out"
        )

    def _spill(self, table: LinkedTable, by: str) -> Spill:
        """Prepares for the records of a table, divided by the keys in a field."""
        layout = table.schema.layout
        fields: list[Any] = [
            ("key", "u8", (2,)),
            ("parent", "u8", (2,)),
            ("share", "i8"),
            ("unit", "i8"),
            ("numeric", "f8", (len(layout.numeric),)),
            ("codes", "i4", (len(layout.coded),)),
        ]
        return Spill(np.dtype(fields), by, held_bytes=self._held_bytes)

    def _records(self, table: LinkedTable) -> Iterator[Records]:
        """Reads the records of a table, with their keys as hashes.

        Those that name no parent are left out, if they may be.
        """
        dtype = self._spill(table, "key").dtype
        names = (*table.schema.names, *table.keys)
        has_children = bool(self.linked.children(table.name))
        for origin in self._origins[table.name]:
            done = 0
            for columns in origin.batches(names, self.batch_rows):
                encode_batch = partial(encode, columns, table.schema)
                rows = with_location(
                    encode_batch, origin, done, show_values=self._show_values
                )
                records = np.zeros(len(rows), dtype)
                records["share"] = 1
                records["numeric"] = rows.numeric
                records["codes"] = rows.codes
                # Of the first table; those of others become the units of their parents.
                records["unit"] = self._records_read + np.arange(len(rows))
                if table.key is not None and has_children:
                    own_keys = partial(
                        self._hashes, table, table.key, columns, may_miss=False
                    )
                    records["key"], _ = with_location(
                        own_keys, origin, done, show_values=False
                    )
                has_parent = np.ones(len(rows), dtype=np.bool_)
                if table.parent_key is not None:
                    parent_keys = partial(
                        self._hashes,
                        table,
                        table.parent_key,
                        columns,
                        may_miss=table.orphans == "drop",
                    )
                    records["parent"], has_parent = with_location(
                        parent_keys, origin, done, show_values=False
                    )
                done += len(rows)
                self._records_read += len(rows)
                if self._progress is not None:
                    self._progress(self._records_read)
                yield records if has_parent.all() else records[has_parent]

    def _hashes(
        self,
        table: LinkedTable,
        key: Key,
        columns: Mapping[str, pa.Array],
        *,
        may_miss: bool,
    ) -> tuple[npt.NDArray[np.uint64], Mask]:
        """Hashes the keys of a batch.

        Args:
            table: Of the batch.
            key: Its own key or that of its parent.
            columns: The cells of the batch.
            may_miss: Whether a record may have no such key.

        Returns:
            The hashes, (records, 2), and which records have a key, (records,).

        Raises:
            Problem: at the first record without a key, if it may not miss.
        """
        missing_values = pa.array(table.schema.missing_values, pa.string())
        cells = {column: columns[column] for column in key_parts(key)}
        hashes, indices, is_missing = hash_names(cells, missing_values, self._key)
        if is_missing.any() and not may_miss:
            description = "the key is missing; fill it in, or leave the record out"
            if key == table.parent_key:
                description = (
                    "the key of its parent is missing; fill it in, or set orphans = "
                    f'"drop" for {table.name!r}'
                )
            raise Problem(
                int(np.argmax(is_missing)),
                f"column {_key_columns(key)}: {description}",
            )
        if len(hashes):
            return hashes[indices], ~is_missing
        # No record of the batch has a key.
        return np.zeros((len(indices), 2), dtype=np.uint64), ~is_missing


def _plain(arrow_type: pa.DataType) -> pa.DataType:
    """Returns the type of the values, also of a dictionary."""
    return arrow_type.value_type if pt.is_dictionary(arrow_type) else arrow_type


def _key_columns(key: Key) -> str:
    """Returns the columns of a key, for messages."""
    return " and ".join(map(repr, key_parts(key)))


def _open_table(source: Any, table: LinkedTable) -> list[Origin]:
    """Opens one of the tables; one in memory is called by its name in the schema."""
    name, origins = open_origins(source, (*table.keys, *table.schema.names))
    for origin in origins:
        if origin.name == name and not hasattr(origin, "path"):
            origin.name = f"{name} of {table.name!r}"
    return origins


@dataclass(frozen=True, kw_only=True)
class LinkRows:
    """The transitions of one link, as a source for an engine that sums.

    Attributes:
        tables: All tables.
        of: The link.
        share: Which one of how many shares of the parents; None for all.
    """

    tables: LinkedSource
    of: Link
    share: tuple[int, int] | None = None
    in_parts: ClassVar[bool] = True

    @property
    def schema(self) -> Schema:
        """What describes the rows."""
        return self.of.schema

    @property
    def name(self) -> str:
        """What messages call the tables."""
        return self.tables.name

    def unread(self) -> Iterator[Callable[[], WeightedRows]]:
        """Yields a function for each batch, which returns it."""
        # Whoever has one share has tables of his own, and forgets them.
        with nullcontext() if self.share is None else self.tables:
            for rows in self.tables.transitions(self.of, share=self.share):
                yield partial(rows.rows, slice(None))

    def parts(self, size: int, shares: int) -> Iterator[Part]:
        """Divides the parents into shares.

        Whoever has one reads all tables, and counts the families in it.

        Args:
            size: Not used.
            shares: How many there are.
        """
        self.tables.check()
        tables = self.tables.apart()
        stamps = tables.stamps()
        for number in range(shares):
            rows = LinkRows(tables=tables, of=self.of, share=(number, shares))
            yield Part(rows, stamps)

    def no_records(self) -> DataError:
        """Returns the error of tables that hold no record."""
        return self.tables.no_records()


def open_linked(
    data: Any,
    schema: LinkedSchema,
    *,
    show_values: bool,
    progress: Callable[[int], None] | None,
) -> LinkedSource:
    """Opens linked tables as a gate holds them; nothing is read yet."""
    return LinkedSource(data, schema, show_values=show_values, progress=progress)
