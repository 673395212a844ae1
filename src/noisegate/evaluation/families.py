"""The children of each parent together and in order: what every figure of linked tables is computed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.errors import DataError
from noisegate.evaluation.reading import read_numbers
from noisegate.schema.linked import Link, LinkedSchema

Tables: TypeAlias = Mapping[str, pa.Table]
"""Linked tables by name, with their keys."""


@dataclass(frozen=True, kw_only=True)
class LinkedPair:
    """Two linked tables.

    Attributes:
        parent: the row of its parent for each child that has one, in the order of `rows`; ascending, int64.
        rows: which rows of the children's table these are, those of a parent in their order, int64.
        counts: children of each parent, (parents,), int64.
        position: where each stands between the bounds of the column that orders them; None where none does.
        orphans: children whose parent is not there; they are left aside.
        repeated: parents whose key an earlier one has.
        backwards: children that are written down after one of the same parent that their order puts behind them.
    """

    parent: np.ndarray
    rows: np.ndarray
    counts: np.ndarray
    position: np.ndarray | None
    orphans: int
    repeated: int
    backwards: int

    @cached_property
    def consecutive(self) -> tuple[np.ndarray, np.ndarray]:
        """Places in `rows` of each child that has a next one, and of that one."""
        before = np.flatnonzero(self.parent[:-1] == self.parent[1:])
        return before, before + 1

    def of_grandparents(self, upper: LinkedPair) -> LinkedPair:
        """The same children as those of their grandparents, whose children ``upper`` has; by the order of both."""
        place = np.full(len(self.counts), -1)
        place[upper.rows] = np.arange(len(upper.rows))
        found = np.flatnonzero(place[self.parent] >= 0)
        found = found[np.argsort(place[self.parent[found]], kind="stable")]
        parent = upper.parent[place[self.parent[found]]]
        return replace(
            self, parent=parent, rows=self.rows[found], counts=np.bincount(parent, minlength=len(upper.counts))
        )


@dataclass(frozen=True, kw_only=True)
class LinkedTables:
    """Tables with what belongs together in them.

    Attributes:
        tables: by name.
        families: of each link, by the name of the children's table.
    """

    tables: Tables
    families: Mapping[str, LinkedPair]


def bring_together(tables: Tables, schema: LinkedSchema, what: str) -> LinkedTables:
    """Find the children of each parent in all links; messages call the tables the ``what`` ones.

    Raises:
        DataError: a table is lacking, or one of its columns.
    """
    absent = [name for name in schema.names if name not in tables]
    if absent:
        raise DataError(
            f"the {what} tables lack {absent[0]!r}; give a table for each of the schema: {', '.join(schema.names)}"
        )
    return LinkedTables(tables=tables, families={link.name: _families(tables, link) for link in schema.links})


def _families(tables: Tables, link: Link) -> LinkedPair:
    parents, children = tables[link.parent.name], tables[link.name]
    known, asked = _keys(parents, str(link.parent.key)), _keys(children, str(link.child.parent_key))
    found = pc.index_in(asked, value_set=known, skip_nulls=True)
    parent = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    rows = np.flatnonzero(parent >= 0)
    rows = rows[np.argsort(parent[rows], kind="stable")]
    position, backwards = None, 0
    if link.order is not None:
        position = read_numbers(children, link.order, link.child.schema).unit
        backwards = int(((np.diff(position[rows]) < 0) & (np.diff(parent[rows]) == 0)).sum())
        rows = rows[np.lexsort((position[rows], parent[rows]))]
    return LinkedPair(
        parent=parent[rows],
        rows=rows,
        counts=np.bincount(parent[rows], minlength=parents.num_rows),
        position=None if position is None else position[rows],
        orphans=children.num_rows - len(rows),
        repeated=parents.num_rows - len(pc.unique(known)),
        backwards=backwards,
    )


def _keys(table: pa.Table, name: str) -> pa.Array:
    """A column of keys as text, so that 1 in one table is "1" in another."""
    if name not in table.column_names:
        raise DataError(
            f"column {name!r} of the schema, a key, is not in the table, which has "
            f"{', '.join(map(repr, table.column_names))}; evaluate tables that were made with this schema"
        )
    return table.column(name).combine_chunks().cast(pa.string())
