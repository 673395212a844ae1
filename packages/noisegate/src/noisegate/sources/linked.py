"""Private records of linked tables, from files or memory, in any order.

All tables are read once, when the gate first asks for something, into memory up to a
limit and else into files without a name. Keys are hashed under a secret of the run and
then forgotten. After that, each link, a table with the one that its records belong to,
passes on families and their transitions as often as the gate asks::

    tables ──► records with hashed keys ──► Spill of parents  ──► families ──► rows
                                            Spill of children

`LinkedSource` is all tables together; `LinkRows` is one link as a source of rows, for
an engine that sums.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisegate.errors import DataError
from noisegate.records import WHOLE, WeightedRows
from noisegate.schema import Schema
from noisegate.schema.columns import Problem
from noisegate.schema.encode import encode
from noisegate.schema.linked.schema import Link, LinkedSchema, LinkedTable
from noisegate.schema.linked.table_schema import Key, key_parts
from noisegate.schema.parsing import Mask
from noisegate.sources.families import (
    Families,
    ParentNotFound,
    RepeatedKey,
    build_transitions,
    group_families,
)
from noisegate.sources.headers import check_header, check_same_columns
from noisegate.sources.spill import (
    MEMORY_BYTES,
    Records,
    Spill,
    shared_parts,
    spill_together,
)
from noisegate.sources.stores import absolute_path
from noisegate.sources.tables.csv_file import TextLayout
from noisegate.sources.tables.parts import Part, Stamp, read_stamp
from noisegate.sources.tables.tables import (
    Origin,
    call_with_location,
    check_column_types,
    open_origins,
    require_files,
    with_form_hint,
)
from noisegate.sources.units import check_unit_column, hash_names


class LinkedSource:
    """Linked tables of private records. Use it in a `with` block, which forgets them.

    Attributes:
        linked: The schema of all tables.
        batch_rows: The most rows of transitions in a batch.
        name: What messages call the tables: the first file of each.
        is_weighted: True: one row of a unit with several counts less.
    """

    is_weighted: ClassVar[bool] = True

    def __init__(
        self,
        data: Any,
        schema: LinkedSchema,
        *,
        show_values: bool = False,
        batch_rows: int = 32768,
        memory_bytes: int = MEMORY_BYTES,
        key: bytes | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Opens all tables; nothing of them is read yet.

        Args:
            data: A folder, or paths and tables in memory by the names of the tables.
            schema: What is public of all of them.
            show_values: Whether messages may quote values.
            batch_rows: The most rows of transitions in a batch.
            memory_bytes: How many bytes of each table stay in memory.
            key: Secret under which keys are hashed; None for a fresh one.
            progress: Called, for the operator only, with the number of records read so
                far, of all tables.

        Raises:
            DataError: if a table is not given, or is of no kind that can be read.
        """
        self.linked = schema
        self.batch_rows = batch_rows
        self._show_values = show_values
        self._memory_bytes = memory_bytes
        self._secret = secrets.token_bytes(32) if key is None else key
        self._progress = progress
        self._records_read = 0
        data_of_table = schema.parts(data)
        self._origins = {
            table.name: _open_table(data_of_table[table.name], table)
            for table in schema.tables
        }
        self.name = ", ".join(origins[0].name for origins in self._origins.values())
        # The records that were read, both empty before. As parents: by the name of
        # their table, divided by their own keys. As children: by the name of the link,
        # divided by the keys of their parents.
        self._parents: dict[str, Spill] = {}
        self._children: dict[str, Spill] = {}

    @property
    def schema(self) -> Schema:
        """The schema of the first table, whose records are the units."""
        return self.linked.root.schema

    @property
    def links(self) -> tuple[str, ...]:
        """Each link, by the name of its child's table."""
        return tuple(link.name for link in self.linked.links)

    def link(self, name: str) -> LinkRows:
        """Returns the rows of the link to a table.

        Args:
            name: Of the link, which is that of its child's table.
        """
        link = next(link for link in self.linked.links if link.name == name)
        return LinkRows(tables=self, link=link)

    def source_of(self, data: Any) -> LinkedSource:
        """Returns a source of other tables with the same schema and secret."""
        return LinkedSource(data, self.linked, key=self._secret)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forgets what was read. Whoever asks again has all tables read again."""
        for spill in (*self._parents.values(), *self._children.values()):
            spill.close()
        self._parents = {}
        self._children = {}

    def check_against_schema(self) -> None:
        """Checks names and types of the columns of all tables; no record is read.

        Raises:
            DataError: for what does not fit the schema.
        """
        for table in self.linked.tables:
            # Keys are in the data, though the schema of the table has no such column.
            ignored = {*table.schema.ignore, *table.keys}
            expected = replace(table.schema, ignore=tuple(ignored))
            headers = []
            for origin in self._origins[table.name]:
                with with_form_hint(origin):
                    columns = origin.columns()
                    for key in table.keys:
                        check_unit_column(key, columns, origin.name, "the key")
                    names = [name for name, _ in columns]
                    show_names = origin.has_types or self._show_values
                    check_header(names, expected, origin.name, show_names=show_names)
                    headers.append((origin.name, names))
                    check_column_types(columns, table.schema, origin)
            check_same_columns(headers, show_names=True)

    def check_can_be_split(self) -> None:
        """Refuses tables in memory, by an `OptionError`."""
        for origins in self._origins.values():
            require_files(origins)

    def file_stamps(self) -> dict[Path, Stamp]:
        """Returns size and time of each file, as they are now.

        Raises:
            OptionError: for a table in memory.
        """
        return {
            file.path: read_stamp(file.path)
            for origins in self._origins.values()
            for file in require_files(origins)
        }

    def copy_for_other_processes(self) -> LinkedSource:
        """Returns a source of the same files, of which nothing was read.

        It can be pickled, and its secret goes with it: all processes must hash a key to
        the same bits.

        Raises:
            OptionError: for a table in memory.
        """
        source = copy(self)
        source._progress = None
        source._parents = {}
        source._children = {}
        source._origins = {}
        for name, origins in self._origins.items():
            source._origins[name] = [
                replace(file, path=absolute_path(file.path))
                for file in require_files(origins)
            ]
        return source

    def no_records_error(self) -> DataError:
        """Returns the error of tables without a unit."""
        name = self._origins[self.linked.root.name][0].name
        return DataError(f"{name}: there are no records; expected at least one")

    def read_transitions(
        self,
        link: Link,
        unit_weight: int = WHOLE,
        *,
        share: tuple[int, int] | None = None,
    ) -> Iterator[WeightedRows]:
        """Yields the rows of a link, at most `batch_rows` at a time.

        Args:
            link: The link.
            unit_weight: What the rows of one unit weigh together, at most.
            share: Index and number of shares, for a share of the parents; None for all.

        Raises:
            DataError: if a record does not fit the schema, a key is missing or there
                twice, or a record has no parent.
        """
        for families in self.read_families(link):
            if share is not None:
                families = families.select_share(*share)
            rows = build_transitions(families, link, unit_weight)
            for start in range(0, len(rows), self.batch_rows):
                yield rows.rows(slice(start, start + self.batch_rows))

    def read_families(self, link: Link) -> Iterator[Families]:
        """Yields parents with their children, as many at a time as fit into memory.

        The first call reads all tables; later ones take what it kept.

        Raises:
            DataError: as `read_transitions` does.
        """
        self._read_once()
        yield from self._match_families(link)

    def _read_once(self) -> None:
        """Reads all tables if they were not; if that fails, nothing of them is kept."""
        if self._children:
            return
        try:
            self._read_tables()
        except BaseException:
            self.close()
            raise

    def _read_tables(self) -> None:
        """Reads all tables, and checks all keys before anything is asked of them.

        Tables come in the order of the schema, parents before their children: matching
        the children of a link needs its parents.
        """
        self.check_against_schema()
        self._records_read = 0
        root = self.linked.root
        units = self._empty_spill(root, "key")
        self._parents[root.name] = units
        unit_count = 0
        for records in self._read_records(root):
            units.add(records)
            unit_count += len(records)
        if not unit_count:
            raise self.no_records_error()
        for link in self.linked.links:
            children = self._empty_spill(link.child, "parent")
            self._children[link.name] = children
            for records in self._read_records(link.child):
                children.add(records)
            self._check_weights(link, unit_count)
            if self.linked.children(link.name):
                self._parents[link.name] = self._children_as_parents(link)

    def _check_weights(self, link: Link, unit_count: int) -> None:
        """Checks the keys of a link, and that no unit's rows weigh more than a record.

        Args:
            link: The link, all of whose records were read.
            unit_count: Number of records of the first table.

        Raises:
            DataError: for a key that is there twice, or a child without a parent.
            OverflowError: if a unit weighs too much (G-31: its rows weigh at most as
                much as one record).
        """
        unit_totals = np.zeros(unit_count, dtype=np.int64)
        for families in self._match_families(link):
            families.add_weights(unit_totals)

    def _children_as_parents(self, link: Link) -> Spill:
        """Returns the children of a link as the parents of another, by their own keys.

        A child shares the weight of its unit with its siblings: its field `share_count`
        says into how many shares that weight was split, and `unit` whose it is.
        """
        parents = self._empty_spill(link.child, "key")
        for families in self._match_families(link):
            # What a `Spill` hands out is a copy, so nobody else sees these changes.
            children = families.children
            children["share_count"] = families.child_share_counts
            children["unit"] = families.parents["unit"][families.parent_index]
            parents.add(children)
        return parents

    def _match_families(self, link: Link) -> Iterator[Families]:
        """Yields parents with their children, part by part of the two tables.

        Args:
            link: The link; its parents and children were read.

        Raises:
            DataError: for a key that is there twice, or a child without a parent.
        """
        table = link.child
        order_index = None
        if table.order is not None:
            order_index = table.schema.layout.place(table.order)
        parents = self._parents[link.parent.name]
        children = self._children[link.name]
        spill_together((parents, children))
        for part in shared_parts((parents, children)):
            try:
                families = group_families(
                    parents.read_part(part),
                    children.read_part(part),
                    order_index,
                    drop_orphans=table.orphans == "drop",
                )
            except RepeatedKey:
                error = self._repeated_key_error(link)
            except ParentNotFound:
                error = self._orphan_error(link)
            else:
                yield families
                continue
            raise error

    def _repeated_key_error(self, link: Link) -> DataError:
        """Returns the error of two parents with the same key; it does not say which."""
        parent = link.parent
        name = self._origins[parent.name][0].name
        return DataError(
            f"{name}, column {_quote_key_columns(parent.key)}: two records have the "
            "same key; expected each one once"
        )

    def _orphan_error(self, link: Link) -> DataError:
        """Returns the error of a child without a parent; it does not say which."""
        child = link.child
        name = self._origins[child.name][0].name
        return DataError(
            f"{name}, column {_quote_key_columns(child.parent_key)}: a record names "
            f"none of the table {link.parent.name!r}; add its parent there, write keys "
            'alike, zeros before them too, or set orphans = "drop" for '
            f"{child.name!r} to leave such out"
        )

    def _record_dtype(self, table: LinkedTable) -> np.dtype[Any]:
        """Returns the fields of the records of a table.

        `key` and `parent` are hashes of 128 bits, zero where there is no such key.
        """
        layout = table.schema.layout
        fields: list[Any] = [
            ("key", "u8", (2,)),
            ("parent", "u8", (2,)),
            ("share_count", "i8"),
            ("unit", "i8"),
            ("numeric", "f8", (len(layout.numeric),)),
            ("codes", "i4", (len(layout.coded),)),
        ]
        return np.dtype(fields)

    def _empty_spill(self, table: LinkedTable, key_field: str) -> Spill:
        """Prepares for the records of a table, divided by the keys in a field."""
        dtype = self._record_dtype(table)
        return Spill(dtype, key_field, memory_bytes=self._memory_bytes)

    def _read_records(self, table: LinkedTable) -> Iterator[Records]:
        """Yields the records of a table, with hashed keys.

        Those that name no parent are left out, if they may be.

        Raises:
            DataError: for a record that does not fit the schema, or lacks a key.
        """
        names = (*table.schema.names, *table.keys)
        rows_in_table = 0
        for origin in self._origins[table.name]:
            rows_before = 0
            for columns in self._read_batches(origin, names):
                with with_form_hint(origin):
                    records, has_parent = self._encode_records(
                        table, columns, origin, rows_before
                    )
                # Right for the first table, whose records are the units; for those of
                # others, `_children_as_parents` replaces it by the unit of the parent.
                records["unit"] = rows_in_table + np.arange(len(records))
                rows_before += len(records)
                rows_in_table += len(records)
                self._report_progress(len(records))
                yield records if has_parent.all() else records[has_parent]

    def _read_batches(
        self, origin: Origin, names: Sequence[str]
    ) -> Iterator[Mapping[str, pa.Array]]:
        """Yields some columns of an origin, at most `batch_rows` records at a time."""
        with with_form_hint(origin):
            yield from origin.batches(names, self.batch_rows)

    def _report_progress(self, row_count: int) -> None:
        """Counts records that were read, and tells the operator how many they are."""
        self._records_read += row_count
        if self._progress is not None:
            self._progress(self._records_read)

    def _encode_records(
        self,
        table: LinkedTable,
        columns: Mapping[str, pa.Array],
        origin: Origin,
        rows_before: int,
    ) -> tuple[Records, Mask]:
        """Encodes a batch of a table, and hashes its keys.

        Args:
            table: The table.
            columns: The cells of the batch, by the names of the columns.
            origin: Where the batch comes from, for messages.
            rows_before: Number of records of the origin before the batch.

        Returns:
            The records, (rows,), without their units; and which of them name a parent,
            (rows,), which is all if the table needs no parents.
        """
        encode_batch = partial(encode, columns, table.schema)
        rows = call_with_location(
            encode_batch, origin, rows_before, show_values=self._show_values
        )
        records = np.zeros(len(rows), self._record_dtype(table))
        records["share_count"] = 1
        records["numeric"] = rows.numeric
        records["codes"] = rows.codes
        has_children = bool(self.linked.children(table.name))
        if table.key is not None and has_children:
            hash_keys = partial(
                self._hash_keys, table, table.key, columns, may_be_missing=False
            )
            records["key"], _ = call_with_location(
                hash_keys, origin, rows_before, show_values=False
            )
        has_parent = np.ones(len(rows), dtype=np.bool_)
        if table.parent_key is not None:
            hash_parent_keys = partial(
                self._hash_keys,
                table,
                table.parent_key,
                columns,
                may_be_missing=table.orphans == "drop",
            )
            records["parent"], has_parent = call_with_location(
                hash_parent_keys, origin, rows_before, show_values=False
            )
        return records, has_parent

    def _hash_keys(
        self,
        table: LinkedTable,
        key: Key,
        columns: Mapping[str, pa.Array],
        *,
        may_be_missing: bool,
    ) -> tuple[npt.NDArray[np.uint64], Mask]:
        """Hashes the keys of a batch.

        Args:
            table: The table of the batch.
            key: The columns of its own key, or of its parent's.
            columns: The cells of the batch.
            may_be_missing: Whether a record may have no such key.

        Returns:
            The hashes, (records, 2), and which records have a key, (records,).

        Raises:
            Problem: at the first record without a key, if none may be missing.
        """
        missing_values = pa.array(table.schema.missing_values, pa.string())
        cells = {column: columns[column] for column in key_parts(key)}
        names = hash_names(cells, missing_values, self._secret)
        if names.is_missing.any() and not may_be_missing:
            description = "the key is missing; fill it in, or leave the record out"
            if key == table.parent_key:
                description = (
                    "the key of its parent is missing; fill it in, or set orphans = "
                    f'"drop" for {table.name!r}'
                )
            raise Problem(
                int(np.argmax(names.is_missing)),
                f"column {_quote_key_columns(key)}: {description}",
            )
        if not len(names.hashes):
            # No record of the batch has a key.
            no_keys = np.zeros((len(names.name_index), 2), dtype=np.uint64)
            return no_keys, ~names.is_missing
        return names.hashes[names.name_index], ~names.is_missing


def _quote_key_columns(key: Key) -> str:
    """Returns the columns of a key, for messages."""
    return " and ".join(map(repr, key_parts(key)))


def _open_table(source: Any, table: LinkedTable) -> list[Origin]:
    """Opens one of the tables; one in memory is called by its name in the schema."""
    layout = TextLayout.of(table.schema)
    names = (*table.keys, *table.schema.names)
    name, origins = open_origins(source, names, layout)
    for origin in origins:
        if origin.name == name and not hasattr(origin, "path"):
            origin.name = f"{name} of {table.name!r}"
    return origins


@dataclass(frozen=True, kw_only=True)
class LinkRows:
    """The transitions of one link, as a source for an engine that sums.

    Attributes:
        tables: All tables.
        link: The link.
        share: Index and number of shares, for a share of the parents; None for all.
        is_weighted: True: one row of a unit with several counts less.
    """

    tables: LinkedSource
    link: Link
    share: tuple[int, int] | None = None
    is_weighted: ClassVar[bool] = True

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.link.schema

    @property
    def name(self) -> str:
        """What messages call the tables."""
        return self.tables.name

    def batch_readers(self) -> Iterator[Callable[[], WeightedRows]]:
        """Yields a function for each batch, which returns it.

        The rows are built here and not by the function, unlike those of a `Source`.

        Raises:
            DataError: as `LinkedSource.read_transitions` does.
        """
        # A share has a copy of the tables in another process, which nobody else
        # closes. Without a share, they belong to the gate and stay open.
        is_share = self.share is not None
        with self.tables if is_share else nullcontext():
            for rows in self.tables.read_transitions(self.link, share=self.share):
                yield partial(rows.rows, slice(None))

    def split_into_parts(self, part_bytes: int, share_count: int) -> Iterator[Part]:
        """Divides the parents into shares.

        Whoever has one reads all tables, and counts the families in it.

        Args:
            part_bytes: Not used: families are not cut by bytes.
            share_count: Number of shares.

        Raises:
            OptionError: for a table in memory.
        """
        self.tables.check_against_schema()
        tables = self.tables.copy_for_other_processes()
        stamps = tables.file_stamps()
        for index in range(share_count):
            share = (index, share_count)
            rows = LinkRows(tables=tables, link=self.link, share=share)
            yield Part(rows, stamps)

    def no_records_error(self) -> DataError:
        """Returns the error of tables that hold no record."""
        return self.tables.no_records_error()


def open_linked(
    data: Any,
    schema: LinkedSchema,
    *,
    show_values: bool,
    progress: Callable[[int], None] | None,
) -> LinkedSource:
    """Opens linked tables as a gate holds them; nothing is read yet."""
    return LinkedSource(data, schema, show_values=show_values, progress=progress)
