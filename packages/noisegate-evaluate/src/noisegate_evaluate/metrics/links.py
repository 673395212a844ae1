"""Distances between synthetic and real linked tables: the figures of one link, from parents to children."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from noisegate.records import Rows
from noisegate.schema import Schema
from noisegate.schema.linked.schema import Link, LinkedTable
from noisegate.schema.relations.values import encoded_values, values_of
from noisegate_evaluate.metrics.marginals import (
    Counts,
    OrderDistance,
    cell_counts,
    order_distance,
)
from noisegate_evaluate.metrics.result import as_json
from noisegate_evaluate.reading import (
    ColumnLevels,
    LinkedPair,
    LinkedTables,
    cells,
    encoded_rows,
    with_coordinates,
)

_MOST_DIFFERENT = 10


@dataclass(frozen=True, kw_only=True)
class GapDistance:
    """Distance between the gaps of consecutive children, as shares of the range of the column that orders them."""

    largest: float  # difference of cumulative shares
    synthetic_median: float
    real_median: float

    def to_json(self) -> dict[str, float]:
        """Returns the figures as JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class LinkDistances:
    """Distances between a synthetic and a real link; None where there are no parents or no children."""

    child_counts: OrderDistance
    """Distance of the distributions of the number of children."""
    parent_child: OrderDistance | None
    """Distances of pairs: a column of the parent with a column of the child."""
    transitions: OrderDistance | None
    """Distances of pairs: a column of a child with a column of the next child of the same parent."""
    distinct_values: OrderDistance | None
    """Distances of the number of distinct values that the children of a parent have in a column."""
    gaps: GapDistance | None
    """Distance of the gaps between consecutive children, in the column that orders them."""
    orphans: int
    """Number of synthetic children without a parent."""
    repeated_keys: int
    """Number of synthetic parents with the key of another parent."""
    backwards: int
    """Number of synthetic children that are stored out of order: after a child of the same parent with a later value in
    the ordering column."""
    broken: int
    """Number of synthetic children that break a rule of their table, or a rule between their table and that of their
    parents.
    """

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as JSON values."""
        return {
            field.name: as_json(getattr(self, field.name)) for field in fields(self)
        }

    def lines(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yields the name of each figure, the figure, and where it is largest, as they are printed."""
        distances = {
            "number of children": self.child_counts,
            "parent × child": self.parent_child,
            "child × next child": self.transitions,
            "different values": self.distinct_values,
        }
        for name, distance in distances.items():
            if distance is None:
                yield name, ("–", "")
            else:
                columns = " × ".join(distance.largest_columns)
                largest = f"{distance.largest:.4f}  {columns}"
                yield name, (f"{distance.mean:.4f}", largest)
        yield "gaps", ("–" if self.gaps is None else f"{self.gaps.largest:.4f}", "")
        flaws = {
            "orphans": self.orphans,
            "repeated keys": self.repeated_keys,
            "going back": self.backwards,
            "breaking a rule": self.broken,
        }
        for name, count in flaws.items():
            yield name, (f"{count:,}", "")


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
        parents = _in_cells(linked.tables[link.parent.name], link.parent.schema, bins)
        children = _in_cells(linked.tables[link.name], link.child.schema, bins)
        children = {name: column.at(families.rows) for name, column in children.items()}
        children |= _measured_between(linked, link, bins)
        return cls(
            families=families,
            parents=parents,
            children=children,
            order=link.child.order,
        )

    @property
    def parent_child(self) -> Crossed:
        """The columns of each child's parent, and its own."""
        return Crossed(
            {
                name: column.at(self.families.parent)
                for name, column in self.parents.items()
            },
            self.children,
        )

    @property
    def transitions(self) -> Crossed:
        """The columns of each child that has a next one, and of that one; but for the column that orders them."""
        before, after = self.families.consecutive
        columns = {
            name: column for name, column in self.children.items() if name != self.order
        }
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


def _in_cells(table: pa.Table, schema: Schema, bins: int) -> dict[str, ColumnLevels]:
    """Returns the columns of a schema, and what relations measure of them, in cells."""
    [table], described = with_coordinates([table], schema)
    return {
        column.name: cells(table, column, described, bins=bins)
        for column in described.columns
    }


def _measured_between(
    linked: LinkedTables, link: Link, bins: int
) -> dict[str, ColumnLevels]:
    """Returns what relations between the two tables measure of children, in their order, in cells."""
    if not link.relations:
        return {}
    families = linked.families[link.name]
    parents = linked.tables[link.parent.name].select(link.parent.schema.names)
    children = linked.tables[link.name].select(link.child.schema.names)
    of_both = (
        *parents.take(families.parent).columns,
        *children.take(families.rows).columns,
    )
    beside = pa.table(dict(zip(link.records.names, of_both, strict=True)))
    schema = replace(link.records, constraints=(), relations=link.relations)
    return {
        name: column
        for name, column in _in_cells(beside, schema, bins).items()
        if name not in schema.names
    }


def link_distances(
    synthetic: LinkedTables, real: LinkedTables, link: Link, *, bins: int
) -> LinkDistances:
    """Returns how far a link of synthetic tables is from that of real ones; numbers and dates in ``bins``."""
    synthetic_side = _Side.of(synthetic, link, bins)
    real_side = _Side.of(real, link, bins)
    families = synthetic_side.families
    real_families = real_side.families
    return LinkDistances(
        child_counts=count_distance(
            families.counts, real_families.counts, most=link.child.most or 1
        ),
        parent_child=crossed_distances(
            synthetic_side.parent_child, real_side.parent_child
        ),
        transitions=crossed_distances(
            synthetic_side.transitions, real_side.transitions
        ),
        distinct_values=distinct_distance(
            synthetic_side.children,
            real_side.children,
            parents=(families.parent, real_families.parent),
        ),
        gaps=gap_distance(synthetic_side.gaps, real_side.gaps),
        orphans=families.orphans,
        repeated_keys=families.repeated,
        backwards=families.backwards,
        broken=broken_rules(synthetic, link),
    )


class Crossed(NamedTuple):
    """Columns of records and, row for row, of others that belong to them: of parents and children, or of neighbours."""

    left: Mapping[str, ColumnLevels]
    right: Mapping[str, ColumnLevels]


def crossed_distances(synthetic: Crossed, real: Crossed) -> OrderDistance | None:
    """Returns the total variation distance of each left and right column, as of independent rows; None of no rows."""

    def both(
        synthetic_column: ColumnLevels, real_column: ColumnLevels
    ) -> tuple[np.ndarray, int]:
        codes = np.concatenate([synthetic_column.codes, real_column.codes])
        return codes, real_column.size

    return _of_all(
        {
            (left, right): cell_counts(
                [
                    both(synthetic.left[left], real.left[left]),
                    both(synthetic.right[right], real.right[right]),
                ],
                len(synthetic.left[left].codes),
            )
            for left in real.left
            for right in real.right
        }
    )


def count_distance(
    synthetic: np.ndarray, real: np.ndarray, *, most: int
) -> OrderDistance:
    """Returns how far numbers of children of two tables are apart, each number a cell, ``most`` and more the last one.

    Examples:
        >>> import numpy as np
        >>> count_distance(np.array([0, 1, 1, 2]), np.array([0, 1, 2, 7]), most=2).mean
        0.25
    """
    cells_of_synthetic, cells_of_real = (
        np.bincount(np.minimum(counts, most), minlength=most + 1)
        for counts in (synthetic, real)
    )
    return order_distance(
        {("number of children",): (cells_of_synthetic, cells_of_real)}
    )


def distinct_distance(
    synthetic: Mapping[str, ColumnLevels],
    real: Mapping[str, ColumnLevels],
    *,
    parents: tuple[np.ndarray, np.ndarray],
) -> OrderDistance | None:
    """Returns how far apart numbers of different cells among a parent's children are, 10 and more as one number."""
    # Parents with fewer than two children are left aside. `parents` are those of the synthetic and of the real
    # children, int64. None where no parent has two.

    def numbers(column: ColumnLevels, parent: np.ndarray) -> np.ndarray:
        """How many parents of two children or more have each number of different values, (11,)."""
        values = np.unique(parent * column.size + column.codes) // column.size
        has_siblings = np.bincount(parent) > 1
        counts = np.bincount(values, minlength=len(has_siblings))[has_siblings]
        return np.bincount(
            np.minimum(counts, _MOST_DIFFERENT), minlength=_MOST_DIFFERENT + 1
        )

    return _of_all(
        {
            (name,): (
                numbers(synthetic[name], parents[0]),
                numbers(real[name], parents[1]),
            )
            for name in real
        }
    )


def gap_distance(synthetic: np.ndarray, real: np.ndarray) -> GapDistance | None:
    """Returns how far two samples of gaps on the same scale are apart; None where one of them is empty."""
    from scipy.stats import ks_2samp

    # Differences of positions that are equal as numbers of days must be equal here.
    synthetic_gaps, real_gaps = (
        gaps[np.isfinite(gaps)].round(9) for gaps in (synthetic, real)
    )
    if not len(synthetic_gaps) or not len(real_gaps):
        return None
    return GapDistance(
        largest=float(ks_2samp(synthetic_gaps, real_gaps, method="asymp").statistic),
        synthetic_median=float(np.median(synthetic_gaps)),
        real_median=float(np.median(real_gaps)),
    )


def broken_rules(linked: LinkedTables, link: Link) -> int:
    """Returns how many children break a rule or a relation of their table, or one that binds them to their parent."""
    between = replace(link.records, constraints=(), relations=link.relations)
    families = linked.families[link.name]
    if not len(families.rows):
        return 0
    parents = _records(linked, link.parent).rows(families.parent)
    children = _records(linked, link.child).rows(families.rows)
    beside = Link.beside(parents, children)
    is_broken = link.records.broken(beside)
    is_broken |= _breaks_relations(beside, between)
    is_broken |= _breaks_relations(children, link.child.schema)
    return int(is_broken.sum())


def _records(linked: LinkedTables, table: LinkedTable) -> Rows:
    """Returns the records of a table by the columns of its file."""
    return encoded_rows(linked.tables[table.name], table.schema)[0]


def _breaks_relations(records: Rows, schema: Schema) -> np.ndarray:
    """Returns a mask of the records that change when relations are applied, (records,)."""
    if not schema.relations:
        return np.zeros(len(records), dtype=np.bool_)
    measured = schema.measured_values(values_of(records, schema.file_layout))
    restored = schema.file_rows(encoded_values(measured, schema.layout))
    same_numbers = np.isclose(records.numeric, restored.numeric, equal_nan=True)
    has_changed_number = (~same_numbers).any(axis=1)
    has_changed_level = (records.codes != restored.codes).any(axis=1)
    return np.asarray(has_changed_number | has_changed_level)


def _of_all(counted: Mapping[tuple[str, ...], Counts]) -> OrderDistance | None:
    rows = [counts.sum() for sides in counted.values() for counts in sides]
    return order_distance(counted) if rows and all(rows) else None
