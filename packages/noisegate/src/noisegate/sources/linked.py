"""Private records of linked tables, from files or memory, in any order: read once, then handed on link by link."""

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
from noisegate.sources.families import (
    HELD_BYTES,
    Families,
    Records,
    Spill,
    Unmatched,
    families,
    spilled_parts,
    transitions,
)
from noisegate.sources.headers import check_alike, check_header
from noisegate.sources.stores import absolute
from noisegate.sources.tables.parts import Part, Stamp, stamp
from noisegate.sources.tables.tables import Origin, files_of, open_origins, told
from noisegate.sources.units import check_unit_column, named


class LinkedSource:
    """Linked tables of private records, whose children are brought together from wherever they stand.

    Nothing of them is read yet; a DataError if a table of the schema is not given, or is of no kind that can be read.
    Use it in a ``with`` block, which forgets what was read. Of each table ``held_bytes`` stay in memory, the rest in
    temporary files without a name. ``data`` is a folder, or paths and tables by name; keys are hashed under the secret
    ``key``, None for a fresh one; ``batch_rows`` is the most rows of transitions in a batch; ``progress`` is called,
    for the operator only, with the number of records read so far, of all tables.
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
        self.linked, self.batch_rows, self._show_values, self._held_bytes = (
            schema,
            batch_rows,
            show_values,
            held_bytes,
        )
        self._progress, self._seen = progress, 0
        self._key = secrets.token_bytes(32) if key is None else key
        parts = schema.parts(data)
        self._origins = {
            table.name: _origins(parts[table.name], table) for table in schema.tables
        }
        self.name = ", ".join(origins[0].name for origins in self._origins.values())
        self._parents: dict[str, Spill] = {}  # by their own keys, with shares
        self._children: dict[str, Spill] = {}  # by the keys of their parents

    @property
    def schema(self) -> Schema:
        """Of the table whose records are the units."""
        return self.linked.root.schema

    @property
    def links(self) -> tuple[str, ...]:
        """Each link, by the name of its child's table."""
        return tuple(link.name for link in self.linked.links)

    def link(self, name: str) -> LinkRows:
        """Returns the rows of the link to the table called `name`."""
        return LinkRows(
            tables=self,
            of=next(link for link in self.linked.links if link.name == name),
        )

    def beside(self, data: Any) -> LinkedSource:
        """Returns a source of other tables of the same schema, whose keys are hashed under the same secret."""
        return LinkedSource(data, self.linked, key=self._key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forgets what was read."""
        for spill in (*self._parents.values(), *self._children.values()):
            spill.close()
        self._parents, self._children = {}, {}

    def check(self) -> None:
        """Checks names and types of the columns of all tables; no record is read."""
        for table in self.linked.tables:
            known = replace(
                table.schema, ignore=tuple({*table.schema.ignore, *table.keys})
            )
            headers = []
            for origin in self._origins[table.name]:
                columns = origin.columns()
                for key in table.keys:
                    check_unit_column(key, columns, origin.name, "the key")
                names = [name for name, _ in columns]
                check_header(
                    names,
                    known,
                    origin.name,
                    show_names=origin.typed or self._show_values,
                )
                headers.append((origin.name, names))
                empty = {
                    name: pa.array(
                        [], kind.value_type if pt.is_dictionary(kind) else kind
                    )
                    for name, kind in columns
                }
                told(partial(encode, empty, table.schema), origin, show_values=False)
            check_alike(headers, show_names=True)

    def check_parts(self) -> None:
        """Refuses tables in memory, by an `OptionError`."""
        for origins in self._origins.values():
            files_of(origins)

    def stamps(self) -> dict[Path, Stamp]:
        """Returns what the files look like from outside."""
        return {
            file.path: stamp(file.path)
            for origins in self._origins.values()
            for file in files_of(origins)
        }

    def apart(self) -> LinkedSource:
        """Returns a source of the same tables in files, of which nothing was read; it can be pickled, key and all."""
        other = copy(self)
        other._progress, other._parents, other._children = None, {}, {}
        other._origins = {
            name: [
                replace(file, path=absolute(file.path)) for file in files_of(origins)
            ]
            for name, origins in self._origins.items()
        }
        return other

    def no_records(self) -> DataError:
        """Returns the error of tables without a unit."""
        return DataError(
            f"{self._origins[self.linked.root.name][0].name}: there are no records; expected at least one"
        )

    def transitions(
        self, link: Link, grid: int = WHOLE, *, share: tuple[int, int] | None = None
    ) -> Iterator[WeightedRows]:
        """Yields the rows of a link, with weights that come to at most ``grid`` for each unit; see `families`."""
        # With a ``share``, which one of how many, of those parents alone whose hashed key falls into it. A DataError if
        # a record does not fit the schema, a key is missing or there twice, or a record has no parent.
        for found in self.families(link):
            made = transitions(
                found if share is None else found.share(*share), link, grid
            )
            for start in range(0, len(made), self.batch_rows):
                yield made.rows(slice(start, start + self.batch_rows))

    def _read(self) -> None:
        self.check()
        root, self._seen = self.linked.root, 0
        self._parents[root.name] = self._spill(root, "key")
        for records in self._records(root):
            self._parents[root.name].add(records)
        if not self._seen:
            raise self.no_records()
        units = self._seen
        for link in self.linked.links:
            totals = np.zeros(units, dtype=np.int64)
            spill = self._children[link.name] = self._spill(link.child, "parent")
            for records in self._records(link.child):
                spill.add(records)
            parents = (
                self._spill(link.child, "key")
                if self.linked.children(link.name)
                else None
            )
            # Of all links at once, so that a key that is wrong is told before anything is asked.
            for found in self.families(link):
                found.add_weights(totals)
                if parents is not None:
                    found.children["share"], found.children["unit"] = (
                        found.shares,
                        found.parents["unit"][found.of],
                    )
                    parents.add(found.children)
            if parents is not None:
                self._parents[link.name] = parents

    def families(self, link: Link) -> Iterator[Families]:
        """Yields parents with their children, some of them at a time; for errors see `transitions`."""
        if not self._children:
            try:
                self._read()
            except BaseException:
                self.close()
                raise
        layout, table = link.child.schema.layout, link.child
        order = None if table.order is None else layout.place(table.order)
        parents, children = self._parents[link.parent.name], self._children[link.name]
        for part in spilled_parts((parents, children)):
            try:
                found = families(
                    parents.part(part),
                    children.part(part),
                    order,
                    drop=table.orphans == "drop",
                )
            except Unmatched as problem:
                error = self._unmatched(link, twice=problem.twice)
            else:
                yield found
                continue
            raise error

    def _unmatched(self, link: Link, *, twice: bool) -> DataError:
        parent, child = link.parent, link.child
        if twice:
            name = self._origins[parent.name][0].name
            return DataError(
                f"{name}, column {_told(parent.key)}: two records have the same key; expected each one once"
            )
        return DataError(
            f"{self._origins[child.name][0].name}, column {_told(child.parent_key)}: a record names none of the table "
            f"{parent.name!r}; add its parent there, write keys alike, zeros before them too, or set "
            f'orphans = "drop" for {child.name!r} to leave such out'
        )

    def _spill(self, table: LinkedTable, by: str) -> Spill:
        layout = table.schema.layout
        fields: list[Any] = [
            ("key", "u8", (2,)),
            ("parent", "u8", (2,)),
            ("share", "i8"),
            ("unit", "i8"),
        ]
        fields += [
            ("numeric", "f8", (len(layout.numeric),)),
            ("codes", "i4", (len(layout.coded),)),
        ]
        return Spill(np.dtype(fields), by, held_bytes=self._held_bytes)

    def _records(self, table: LinkedTable) -> Iterator[Records]:
        """Yields the records of a table with their keys as hashes; those that name no parent left out, if they may."""
        dtype = self._spill(table, "key").dtype
        for origin in self._origins[table.name]:
            done = 0
            for arrays in origin.batches(
                (*table.schema.names, *table.keys), self.batch_rows
            ):
                rows = told(
                    partial(encode, arrays, table.schema),
                    origin,
                    done,
                    show_values=self._show_values,
                )
                records = np.zeros(len(rows), dtype)
                records["share"], records["numeric"], records["codes"] = (
                    1,
                    rows.numeric,
                    rows.codes,
                )
                records["unit"] = np.arange(
                    self._seen, self._seen + len(rows)
                )  # others take their parent's
                used = np.ones(len(rows), dtype=np.bool_)
                if table.key is not None and self.linked.children(table.name):
                    read = partial(
                        self._hashes, table, table.key, arrays, may_miss=False
                    )
                    records["key"], _ = told(read, origin, done, show_values=False)
                if table.parent_key is not None:
                    may = table.orphans == "drop"
                    read = partial(
                        self._hashes, table, table.parent_key, arrays, may_miss=may
                    )
                    records["parent"], used = told(
                        read, origin, done, show_values=False
                    )
                done += len(rows)
                self._seen += len(rows)
                if self._progress is not None:
                    self._progress(self._seen)
                yield records if used.all() else records[used]

    def _hashes(
        self,
        table: LinkedTable,
        key: Key,
        arrays: Mapping[str, pa.Array],
        *,
        may_miss: bool,
    ) -> tuple[npt.NDArray[np.uint64], Mask]:
        """Returns the keys in their columns as hashes, (records, 2), and which records have one."""
        missing = pa.array(table.schema.missing_values, pa.string())
        hashes, places, absent = named(
            {column: arrays[column] for column in key_parts(key)}, missing, self._key
        )
        if absent.any() and not may_miss:
            says = "the key is missing; fill it in, or leave the record out"
            if key == table.parent_key:
                says = f'the key of its parent is missing; fill it in, or set orphans = "drop" for {table.name!r}'
            raise Problem(int(np.argmax(absent)), f"column {_told(key)}: {says}")
        return (
            hashes[places]
            if len(hashes)
            else np.zeros((len(places), 2), dtype=np.uint64)
        ), ~absent


def _told(key: Key) -> str:
    return " and ".join(map(repr, key_parts(key)))


def _origins(source: Any, table: LinkedTable) -> list[Origin]:
    name, origins = open_origins(source, (*table.keys, *table.schema.names))
    for origin in origins:
        if origin.name == name and not hasattr(origin, "path"):
            origin.name = f"{name} of {table.name!r}"
    return origins


@dataclass(frozen=True, kw_only=True)
class LinkRows:
    """The transitions of one link, for an engine that sums; or those of the parents in one of several shares."""

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
        with nullcontext() if self.share is None else self.tables:
            for found in self.tables.transitions(self.of, share=self.share):
                yield partial(found.rows, slice(None))

    def parts(self, size: int, shares: int) -> Iterator[Part]:
        """Yields so many shares of the parents: whoever has one reads all tables, and counts the families in it."""
        self.tables.check()
        tables = self.tables.apart()
        stamps = tables.stamps()
        for number in range(shares):
            yield Part(
                LinkRows(tables=tables, of=self.of, share=(number, shares)), stamps
            )

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
    """Returns linked tables as a gate holds them; nothing is read yet."""
    return LinkedSource(data, schema, show_values=show_values, progress=progress)
