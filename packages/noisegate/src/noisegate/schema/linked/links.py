"""A link of two tables as one table of transitions: a row for each child after the one before, one row for none.

A parent with K children v1 ... vK, in their order, has K rows: v1, which none stands
before, v2 after v1, and so on to vK; one without children has one row, without a child.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.records import Rows
from noisegate.schema.columns import Column
from noisegate.schema.constraints import Comparison, Constraint, Impossible
from noisegate.schema.linked.table_schema import LinkedTable, first_column, gap_column
from noisegate.schema.numeric import Integer, NumericColumn
from noisegate.schema.schema import Schema
from noisegate.schema.values import Categorical

Step: TypeAlias = Literal["first", "next", "none"]
STEPS: tuple[Step, ...] = ("first", "next", "none")
"""Levels of the column of steps: the first child, one after another, and none, of a parent without children."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """Two linked tables, and the tables in which their records stand side by side."""

    parent: LinkedTable
    """The table of the parents."""
    child: LinkedTable
    """The table of the children."""
    constraints: tuple[Constraint, ...] = ()
    """Rules between the columns of the two, with names such as ``visits.day``."""

    @property
    def name(self) -> str:
        """The name of the child's table: each has one parent."""
        return self.child.name

    @property
    def order(self) -> NumericColumn | None:
        """The column that puts the children in order."""
        column = (
            None
            if self.child.order is None
            else self.child.schema.column(self.child.order)
        )
        return column if column is not None and column.numeric else None

    @property
    def since(self) -> NumericColumn | None:
        """The column of the parent that the first child's distance is counted from."""
        column = (
            None
            if self.child.since is None
            else self.parent.schema.column(self.child.since)
        )
        return column if column is not None and column.numeric else None

    @cached_property
    def parent_columns(self) -> tuple[Column, ...]:
        """The columns of the parent, as in `schema`."""
        return tuple(
            replace(column, name=f"{self.parent.name}.{column.name}")
            for column in self.parent.schema.columns
        )

    @cached_property
    def child_columns(self) -> tuple[Column, ...]:
        """The columns of the child as in `schema`, which may all be missing; without the one that orders them."""
        return tuple(
            replace(column, name=f"{self.child.name}.{column.name}", missing=True)
            for column in self.described
        )

    @cached_property
    def previous_columns(self) -> tuple[Column, ...]:
        """The columns of the child before as in `schema`, in the order of `child_columns`."""
        return tuple(
            replace(column, name=self._free(f"previous.{column.name}"), missing=True)
            for column in self.described
        )

    @property
    def number(self) -> str:
        """The column of the number of children."""
        return self._free("number")

    @property
    def step(self) -> str:
        """The column of the step, whose levels are `STEPS`."""
        return self._free("step")

    @property
    def first(self) -> str | None:
        """The column of the first child's distance from its origin; None for children without an order."""
        return None if self.order is None else self._free("first")

    @property
    def gap(self) -> str | None:
        """The column of the gap to the child before; None for children without an order."""
        return None if self.order is None else self._free("gap")

    @cached_property
    def schema(self) -> Schema:
        """The schema of the rows: parent, number, step, first, gap, child before, child."""
        # What a row lacks is missing: the child before but in "next", the child in "none", first distance and gap.
        columns: list[Column] = [
            *self.parent_columns,
            Integer(name=self.number, lower=0, upper=self.child.most or 1),
            Categorical(name=self.step, levels=STEPS),
        ]
        if self.order is not None and self.first is not None and self.gap is not None:
            columns.append(first_column(self.order, self.first))
            columns.append(gap_column(self.order, self.gap, self.child.longest_gap))
        return Schema(
            [*columns, *self.previous_columns, *self.child_columns], missing_values=()
        )

    @cached_property
    def records(self) -> Schema:
        """The schema of a child beside its parent, with names such as ``visits.day`` and the rules on both."""
        columns = qualified(self.parent), qualified(self.child)
        own = (
            _renamed(rule, self.child.name) for rule in self.child.schema.constraints
        )
        tokens = {*self.parent.schema.missing_values, *self.child.schema.missing_values}
        levels = {
            str(level)
            for column in (*columns[0], *columns[1])
            for level in getattr(column, "levels", ())
        }
        return Schema(
            (*columns[0], *columns[1]),
            missing_values=tuple(sorted(tokens - levels)),
            constraints=(*own, *self.constraints),
        )

    def broken(self, parents: Rows, children: Rows) -> npt.NDArray[np.bool_]:
        """Returns which children, each beside its own parent, break a rule, (rows,)."""
        return self.records.broken(self.beside(parents, children))

    @staticmethod
    def beside(parents: Rows, children: Rows) -> Rows:
        """Returns children, each beside its own parent, as `records` describes them."""
        numeric = np.concatenate([parents.numeric, children.numeric], axis=1)
        return Rows(numeric, np.concatenate([parents.codes, children.codes], axis=1))

    @property
    def described(self) -> Iterable[Column]:
        """The columns of the child that are modelled as they stand."""
        return (
            column
            for column in self.child.schema.columns
            if column.name != self.child.order
        )

    def _free(self, name: str) -> str:
        while name in self.child.schema.names:
            name += "_"
        return f"{self.child.name}.{name}"


def qualified(table: LinkedTable) -> tuple[Column, ...]:
    """Returns the columns of a table with names such as ``visits.day``."""
    return tuple(
        replace(column, name=f"{table.name}.{column.name}")
        for column in table.schema.columns
    )


def _renamed(rule: Constraint, table: str) -> Constraint:
    if isinstance(rule, Comparison):
        return replace(rule, left=f"{table}.{rule.left}", right=f"{table}.{rule.right}")
    return Impossible(
        values={f"{table}.{name}": value for name, value in rule.values.items()}
    )


Columns = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class LinkColumns:
    """The columns of a link by their parts in it."""

    parents: Columns  # of the parent
    number: int  # how many children it has
    step: int  # whether a row is a parent's first child, a next one, or none
    first: (
        int | None
    )  # the first child's distance from its origin; None for children without an order
    gap: int | None  # the distance to the child before; None likewise
    previous: Columns  # of the child before
    children: Columns  # of the child, in the order of `previous`
    nullable: frozenset[int]  # those of `children` that may be missing in the data too

    @classmethod
    def of(cls, link: Link) -> Self:
        """Returns the columns of a link."""
        layout = link.schema.layout
        names = [column.name for column in (*layout.numeric, *layout.coded)]
        place = {name: at for at, name in enumerate(names)}

        def placed(columns: Iterable[Column]) -> Columns:
            return tuple(place[column.name] for column in columns)

        children = placed(link.child_columns)
        return cls(
            parents=placed(link.parent_columns),
            number=place[link.number],
            step=place[link.step],
            first=None if link.first is None else place[link.first],
            gap=None if link.gap is None else place[link.gap],
            previous=placed(link.previous_columns),
            children=children,
            nullable=frozenset(
                at
                for at, column in zip(children, link.described, strict=True)
                if column.missing
            ),
        )

    @property
    def times(self) -> Columns:
        """The columns of distances, if there are any."""
        return tuple(column for column in (self.first, self.gap) if column is not None)

    @property
    def made(self) -> Columns:
        """What is drawn of each child, in this order: distances, then its columns."""
        return (*self.times, *self.children)

    @property
    def before(self) -> dict[int, int]:
        """For each column of the child that of the child before."""
        return dict(zip(self.children, self.previous, strict=True))

    def given(self, column: int) -> Columns:
        """Returns what a column of a child is drawn by: parent, number, its last value, and what is drawn so far."""
        if column == self.number:
            return self.parents
        own = (self.before[column],) if column in self.before else ()
        before = self.made[: self.made.index(column)]
        if column == self.gap:
            before = ()
        return (*self.parents, self.number, *own, *before)
