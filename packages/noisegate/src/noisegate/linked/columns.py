"""Which column of a link's transitions is what; numbered as in the layout, numeric ones first, then coded ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from noisegate.linked.links import Link
from noisegate.schema.columns import Column

Columns = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class LinkColumns:
    """The columns of a link by their parts in it."""

    parents: Columns  # of the parent
    number: int  # how many children it has
    step: int  # whether a row is a parent's first child, a next one, or none
    first: int | None  # the first child's distance from its origin; None for children without an order
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
            nullable=frozenset(at for at, column in zip(children, link.described, strict=True) if column.missing),
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
