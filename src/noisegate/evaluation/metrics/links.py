"""How far two pairs of linked tables are apart: the figures of one link, from parents to children."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from noisegate.evaluation.families import LinkedPair, LinkedTables
from noisegate.evaluation.metrics.broken_rules import broken_rules
from noisegate.evaluation.metrics.child_counts import count_distance
from noisegate.evaluation.metrics.crossed import Crossed, crossed_distances
from noisegate.evaluation.metrics.distinct_values import distinct_distance
from noisegate.evaluation.metrics.gaps import GapDistance, gap_distance
from noisegate.evaluation.metrics.marginals import OrderDistance
from noisegate.evaluation.reading import ColumnLevels, columns_in_cells
from noisegate.schema.linked import Link


@dataclass(frozen=True, kw_only=True)
class LinkDistances:
    """Distances between a synthetic and a real link. What no parent is there for, or no children, is None.

    Attributes:
        child_counts: of the numbers of children.
        parent_child: of pairs of a column of the parent and one of the child.
        transitions: of pairs of a column of a child and one of the next child of the same parent, the same or another.
        distinct_values: of how many different values of a column a parent's children have.
        gaps: of consecutive children in the column that orders them.
        orphans: synthetic children without a parent.
        repeated_keys: synthetic parents with the key of another.
        backwards: synthetic children that come after one of the same parent that their order puts behind them.
        broken: synthetic children that break a rule of their table, or one between it and their parents'.
    """

    child_counts: OrderDistance
    parent_child: OrderDistance | None
    transitions: OrderDistance | None
    distinct_values: OrderDistance | None
    gaps: GapDistance | None
    orphans: int
    repeated_keys: int
    backwards: int
    broken: int

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON values."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value.to_json() if isinstance(value, OrderDistance | GapDistance) else value
            for name, value in told.items()
        }

    def lines(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """What each figure is of, the figure, and where it is largest, as they are printed."""
        several = {
            "number of children": self.child_counts,
            "parent × child": self.parent_child,
            "child × next child": self.transitions,
            "different values": self.distinct_values,
        }
        for name, distance in several.items():
            largest = "" if distance is None else f"{distance.largest:.4f}  {' × '.join(distance.largest_columns)}"
            yield name, ("–", "") if distance is None else (f"{distance.mean:.4f}", largest)
        yield "gaps", ("–" if self.gaps is None else f"{self.gaps.largest:.4f}", "")
        flaws = {"orphans": self.orphans, "repeated keys": self.repeated_keys, "going back": self.backwards}
        flaws["breaking a rule"] = self.broken
        yield from ((name, (f"{number:,}", "")) for name, number in flaws.items())


@dataclass(frozen=True, kw_only=True)
class _Side:
    """One link of one set of tables: whose children they are, and all columns in cells, children in their order."""

    families: LinkedPair
    parents: Mapping[str, ColumnLevels]
    children: Mapping[str, ColumnLevels]
    order: str | None

    @classmethod
    def of(cls, linked: LinkedTables, link: Link, bins: int) -> _Side:
        families = linked.families[link.name]
        parents, children = (
            columns_in_cells(linked.tables[table.name], table.schema, bins=bins) for table in (link.parent, link.child)
        )
        children = {name: column.at(families.rows) for name, column in children.items()}
        return cls(families=families, parents=parents, children=children, order=link.child.order)

    @property
    def parent_child(self) -> Crossed:
        """The columns of each child's parent, and its own."""
        return Crossed({name: column.at(self.families.parent) for name, column in self.parents.items()}, self.children)

    @property
    def transitions(self) -> Crossed:
        """The columns of each child that has a next one, and of that one; but for the column that orders them."""
        before, after = self.families.consecutive
        columns = {name: column for name, column in self.children.items() if name != self.order}
        return Crossed(
            {name: column.at(before) for name, column in columns.items()},
            {f"next {name}": column.at(after) for name, column in columns.items()},
        )

    @property
    def gaps(self) -> np.ndarray:
        """From each child to the next one, as a share of the range of the column that orders them."""
        before, after = self.families.consecutive
        position = self.families.position
        return np.zeros(0) if position is None else position[after] - position[before]


def link_distances(synthetic: LinkedTables, real: LinkedTables, link: Link, *, bins: int) -> LinkDistances:
    """Measure one link of synthetic tables against that of real ones; numbers and dates in ``bins`` of the bounds."""
    ours, theirs = (_Side.of(linked, link, bins) for linked in (synthetic, real))
    families = ours.families
    return LinkDistances(
        child_counts=count_distance(families.counts, theirs.families.counts, most=link.child.most or 1),
        parent_child=crossed_distances(ours.parent_child, theirs.parent_child),
        transitions=crossed_distances(ours.transitions, theirs.transitions),
        distinct_values=distinct_distance(
            ours.children, theirs.children, parents=(families.parent, theirs.families.parent)
        ),
        gaps=gap_distance(ours.gaps, theirs.gaps),
        orphans=families.orphans,
        repeated_keys=families.repeated,
        backwards=families.backwards,
        broken=broken_rules(synthetic, link),
    )
