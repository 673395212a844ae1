"""A link between two tables, as one table of transitions from child to child.

A parent with K children v1 … vK, in their order, has K rows; one without children has a
single row. The parent's columns and the number of children stand in every row::

    parent     number  step   first   gap     previous  child
    patient 1  2       first  dist.           —         v1
    patient 1  2       next           gap     v1        v2
    patient 2  0       none                   —         —

`Link.schema` describes these rows, so that a model of one table can learn how a child
follows from its parent and from the child before. `Link.records` describes a child
beside its parent, for rules between the two tables. `LinkColumns` has the positions of
the columns in encoded rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.records import Rows
from noisegate.schema.columns import Column, NumericColumn
from noisegate.schema.constraints import Comparison, Constraint, Impossible
from noisegate.schema.kinds import Categorical, Integer
from noisegate.schema.linked.table_schema import LinkedTable, first_column, gap_column
from noisegate.schema.schema import Schema

Step: TypeAlias = Literal["first", "next", "none"]
STEPS: tuple[Step, ...] = ("first", "next", "none")
"""Levels of the column of steps: a first child, a further one, or a parent without."""

Columns = tuple[int, ...]
"""Positions of columns in encoded rows."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """Two linked tables, and the tables in which their records stand side by side.

    Attributes:
        parent: The table of the parents.
        child: The table of the children.
        constraints: Rules between columns of the two, with names such as
            ``visits.day``.
    """

    parent: LinkedTable
    child: LinkedTable
    constraints: tuple[Constraint, ...] = ()

    @property
    def name(self) -> str:
        """The name of the children's table: each table has one table of parents."""
        return self.child.name

    @property
    def order(self) -> NumericColumn | None:
        """The column that orders the children; None if they have no order."""
        return _numeric_column(self.child, self.child.order)

    @property
    def since(self) -> NumericColumn | None:
        """The parent's column that distances of first children are counted from."""
        return _numeric_column(self.parent, self.child.since)

    @property
    def described(self) -> tuple[Column, ...]:
        """The child's columns that are modelled as they are: all but the order."""
        return tuple(
            column
            for column in self.child.schema.columns
            if column.name != self.child.order
        )

    @cached_property
    def parent_columns(self) -> tuple[Column, ...]:
        """The parent's columns, named as in `schema`."""
        return qualified(self.parent)

    @cached_property
    def child_columns(self) -> tuple[Column, ...]:
        """The child's columns, named as in `schema`, without its order.

        All may be missing, as in the row of a parent without children.
        """
        return tuple(
            replace(column, name=f"{self.child.name}.{column.name}", missing=True)
            for column in self.described
        )

    @cached_property
    def previous_columns(self) -> tuple[Column, ...]:
        """The columns of the child before, in the order of `child_columns`."""
        return tuple(
            replace(
                column, name=self._unused_name(f"previous.{column.name}"), missing=True
            )
            for column in self.described
        )

    @property
    def number(self) -> str:
        """Name of the column with the parent's number of children."""
        return self._unused_name("number")

    @property
    def step(self) -> str:
        """Name of the column with the step, one of `STEPS`."""
        return self._unused_name("step")

    @property
    def first(self) -> str | None:
        """Name of the column with a first child's distance from its origin.

        None for children without an order.
        """
        return None if self.order is None else self._unused_name("first")

    @property
    def gap(self) -> str | None:
        """Name of the column with the gap between a child and the one before.

        None for children without an order.
        """
        return None if self.order is None else self._unused_name("gap")

    @cached_property
    def schema(self) -> Schema:
        """The schema of transitions: parent, number, step, distances, previous, child.

        What a row does not have is missing: the child before, but in "next"; the child
        itself in "none"; the distance from the origin, but in "first"; the gap, but in
        "next".
        """
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
        """The schema of a child beside its parent, with the rules on both.

        Columns have names such as ``visits.day``.
        """
        columns = (*qualified(self.parent), *qualified(self.child))
        child_rules = [
            _qualified_rule(rule, self.child.name)
            for rule in self.child.schema.constraints
        ]
        missing_markers = {
            *self.parent.schema.missing_values,
            *self.child.schema.missing_values,
        }
        # A marker of one table may be a level of the other.
        levels = {
            str(level) for column in columns for level in getattr(column, "levels", ())
        }
        return Schema(
            columns,
            missing_values=tuple(sorted(missing_markers - levels)),
            constraints=(*child_rules, *self.constraints),
        )

    def broken(self, parents: Rows, children: Rows) -> npt.NDArray[np.bool_]:
        """Tells which children break a rule.

        Args:
            parents: The parent of each child, (children,).
            children: The children, (children,).

        Returns:
            Whether a rule of the child, or one between the two tables, is broken,
            (children,).
        """
        return self.records.broken(self.beside(parents, children))

    @staticmethod
    def beside(parents: Rows, children: Rows) -> Rows:
        """Joins children with their parents, as `records` describes them.

        Args:
            parents: The parent of each child, (children,).
            children: The children, (children,).
        """
        return Rows(
            np.concatenate([parents.numeric, children.numeric], axis=1),
            np.concatenate([parents.codes, children.codes], axis=1),
        )

    def _unused_name(self, name: str) -> str:
        """Returns the name of a column of transitions that no column of the child has.

        Underscores are added to it until it is new: for a table ``visits`` with a
        column ``step``, ``visits.step_``.
        """
        while name in self.child.schema.names:
            name += "_"
        return f"{self.child.name}.{name}"


def _numeric_column(table: LinkedTable, name: str | None) -> NumericColumn | None:
    """Returns a numeric column of a table; None where no name is given."""
    if name is None:
        return None
    column = table.schema.column(name)
    return column if column.numeric else None


def qualified(table: LinkedTable) -> tuple[Column, ...]:
    """Returns the columns of a table with names such as ``visits.day``."""
    return tuple(
        replace(column, name=f"{table.name}.{column.name}")
        for column in table.schema.columns
    )


def _qualified_rule(rule: Constraint, table: str) -> Constraint:
    """Returns a rule about one table, with names such as ``visits.day``."""
    if isinstance(rule, Comparison):
        return replace(rule, left=f"{table}.{rule.left}", right=f"{table}.{rule.right}")
    return Impossible(
        values={f"{table}.{name}": value for name, value in rule.values.items()}
    )


@dataclass(frozen=True, kw_only=True)
class LinkColumns:
    """Where the columns of a link's transitions stand in encoded rows.

    Attributes:
        parents: The parent's columns.
        number: The number of its children.
        step: The step, one of `STEPS`.
        first: The first child's distance from its origin; None for children without an
            order.
        gap: The gap between a child and the one before; None likewise.
        previous: The columns of the child before.
        children: The columns of the child, in the order of `previous`.
        nullable: Those of `children` that may be missing in the data too.
    """

    parents: Columns
    number: int
    step: int
    first: int | None
    gap: int | None
    previous: Columns
    children: Columns
    nullable: frozenset[int]

    @classmethod
    def of(cls, link: Link) -> Self:
        """Finds the columns of a link."""
        layout = link.schema.layout
        encoded_columns = (*layout.numeric, *layout.coded)
        index_of = {column.name: index for index, column in enumerate(encoded_columns)}

        def indices(columns: Iterable[Column]) -> Columns:
            return tuple(index_of[column.name] for column in columns)

        children = indices(link.child_columns)
        nullable = frozenset(
            index
            for index, column in zip(children, link.described, strict=True)
            if column.missing
        )
        return cls(
            parents=indices(link.parent_columns),
            number=index_of[link.number],
            step=index_of[link.step],
            first=None if link.first is None else index_of[link.first],
            gap=None if link.gap is None else index_of[link.gap],
            previous=indices(link.previous_columns),
            children=children,
            nullable=nullable,
        )

    @property
    def times(self) -> Columns:
        """The columns of distances; none for children without an order."""
        return tuple(index for index in (self.first, self.gap) if index is not None)

    @property
    def made(self) -> Columns:
        """What is drawn for each child, in this order: distances, then its columns."""
        return (*self.times, *self.children)

    @property
    def before(self) -> dict[int, int]:
        """The column of the child before, for each column of the child."""
        return dict(zip(self.children, self.previous, strict=True))

    def given(self, column: int) -> Columns:
        """Returns the columns that a column of a child is drawn by.

        They are the parent, its number of children, the same column of the child
        before, and what was drawn before it of the child. The number is drawn by the
        parent alone, and a gap by parent and number.

        Args:
            column: The number, or one of `made`.
        """
        if column == self.number:
            return self.parents
        by_parent = (*self.parents, self.number)
        if column == self.gap:
            return by_parent
        drawn_before = self.made[: self.made.index(column)]
        if column in self.before:
            return (*by_parent, self.before[column], *drawn_before)
        return (*by_parent, *drawn_before)
