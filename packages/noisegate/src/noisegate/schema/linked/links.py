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

A relation between the two, such as `visits.day >= patients.birth`, changes what is
measured of a child, as one within a table does (`noisegate.schema.relations`)::

    child in its own table        child in a transition
                      ── measure ──►
    visits.day                    visits.day - patients.birth
                      ◄── restore ──
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
from noisegate.schema.layout import Layout
from noisegate.schema.linked.table_schema import LinkedTable, first_column, gap_column
from noisegate.schema.relations.relation import Relation
from noisegate.schema.relations.values import encoded_values, values_of
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
        relations: Relations that compute columns of the child, with such names.
    """

    parent: LinkedTable
    child: LinkedTable
    constraints: tuple[Constraint, ...] = ()
    relations: tuple[Relation, ...] = ()

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

    @cached_property
    def measured(self) -> Schema:
        """The schema of a child beside its parent, with the relations of the two.

        Its columns are what each table measures of its own records.
        """
        own_columns = (
            *_named(self.parent, self.parent.schema.coordinates.columns),
            *_named(self.child, self.child.schema.coordinates.columns),
        )
        return Schema(own_columns, missing_values=(), relations=self.relations)

    @property
    def parent_columns(self) -> tuple[Column, ...]:
        """The parent's columns, named as in `schema`."""
        return tuple(self.measured.columns[: self._parent_column_count])

    @property
    def _parent_column_count(self) -> int:
        """Number of columns that are measured of a parent."""
        return len(self.parent.schema.coordinates.columns)

    @cached_property
    def own_layout(self) -> Layout:
        """Which column of encoded records of the child's table holds which column."""
        own_columns = tuple(self.measured.columns[self._parent_column_count :])
        return _layout_of(own_columns)

    @cached_property
    def measured_layout(self) -> Layout:
        """Which column of `measure` holds which column of a child."""
        coordinates = tuple(self.measured.coordinates.columns)
        # No relation computes a column of the parent: those stay the first ones.
        return _layout_of(coordinates[self._parent_column_count :])

    @property
    def order_name(self) -> str | None:
        """Name of the column that orders the children, as `measured` has it."""
        return None if self.order is None else f"{self.name}.{self.order.name}"

    @property
    def described(self) -> tuple[Column, ...]:
        """The child's columns that are modelled as they are: all but the order."""
        columns = self.measured.coordinates.columns[self._parent_column_count :]
        return tuple(column for column in columns if column.name != self.order_name)

    @cached_property
    def child_columns(self) -> tuple[Column, ...]:
        """The child's columns, named as in `schema`, without its order.

        All may be missing, as in the row of a parent without children.
        """
        return tuple(replace(column, missing=True) for column in self.described)

    @cached_property
    def previous_columns(self) -> tuple[Column, ...]:
        """The columns of the child before, in the order of `child_columns`."""
        columns = []
        for column in self.described:
            own_name = column.name.removeprefix(f"{self.name}.")
            name = self._unused_name(f"previous.{own_name}")
            columns.append(replace(column, name=name, missing=True))
        return tuple(columns)

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
        """The schema of a child beside its parent in the files, with rules on both.

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

    @property
    def has_rules(self) -> bool:
        """Whether children may be drawn that are to be drawn again."""
        return bool(self.records.constraints or self.child.schema.relations)

    def broken_rules(
        self, parents: Rows, children: Rows
    ) -> list[tuple[str, npt.NDArray[np.bool_]]]:
        """Finds the rules that some children break.

        Args:
            parents: The parent of each child, (children,).
            children: The children, (children,).

        Returns:
            Each rule of the child, or between the two tables, that is broken, as text,
            with the children, (children,).
        """
        file_rows = self.beside(
            self.parent.schema.file_rows(parents),
            self.child.schema.file_rows(children),
        )
        return [
            *self._own_relations.broken_rules(children),
            *self.records.broken_rules(file_rows),
        ]

    def broken(self, parents: Rows, children: Rows) -> npt.NDArray[np.bool_]:
        """Finds the children that break a rule, (children,); see `broken_rules`."""
        is_broken = np.zeros(len(children), dtype=np.bool_)
        for _, breaks_rule in self.broken_rules(parents, children):
            is_broken |= breaks_rule
        return is_broken

    @cached_property
    def _own_relations(self) -> Schema:
        """The child's schema without constraints, which are among `records`' ones."""
        return replace(self.child.schema, constraints=())

    def measure(self, parents: Rows, children: Rows) -> Rows:
        """Computes what is measured of children beside their parents.

        What is measured of a child follows from it and its parent alone, bit for bit.

        Args:
            parents: The parent of each child, (children,).
            children: The children, as their table encodes them, (children,).

        Returns:
            The children, encoded as `measured_layout` says, (children,).
        """
        if not self.relations:
            return children
        rows = self.beside(parents, children)
        values = values_of(rows, self.measured.file_layout)
        return encoded_values(
            self.measured.measured_values(values), self.measured_layout
        )

    def restore(
        self, parents: Rows, measured: Rows
    ) -> tuple[Rows, npt.NDArray[np.bool_]]:
        """Computes children from what was measured of them beside their parents.

        Args:
            parents: The parent of each child, (children,).
            measured: The children, encoded as `measured_layout` says, (children,).

        Returns:
            The children, as their table encodes them; and for which of them a relation
            computes a value that its column cannot have, (children,).
        """
        if not self.relations:
            return measured, np.zeros(len(measured), dtype=np.bool_)
        rows = self.beside(parents, measured)
        children = encoded_values(self.measured.file_values(rows), self.own_layout)
        return children, self.measured.broken(rows)

    @staticmethod
    def beside(parents: Rows, children: Rows) -> Rows:
        """Joins children with their parents, whose columns come first.

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
    return _named(table, table.schema.columns)


def _named(table: LinkedTable, columns: Iterable[Column]) -> tuple[Column, ...]:
    """Returns columns with names of a table, such as ``visits.day``."""
    return tuple(
        replace(column, name=f"{table.name}.{column.name}") for column in columns
    )


def _layout_of(columns: Iterable[Column]) -> Layout:
    """Returns the layout of some columns, without a label."""
    return Layout(
        numeric=tuple(column for column in columns if column.numeric),
        coded=tuple(column for column in columns if not column.numeric),
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
