"""Parents with their children in order, and the transitions from one child to the next.

The unit of privacy is a record of the first table with all that belongs to it. What the
gate counts of a link are transitions: a row for each child, with what its parent and the
child before it say, and one row for a parent without children. The rows of one unit
weigh `WHOLE` together at most (G-31), however many they are.

Children are put in order by the column that says so. Where that leaves them equal, a
hash of what they say and whose they are decides, and never where they stand: so a
parent's rows follow from its own family alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.records import WHOLE, WeightedRows
from noisegate.schema.layout import positions_of
from noisegate.schema.linked.links import STEPS, Link
from noisegate.schema.linked.table_schema import origin_ticks, ticks_at
from noisegate.sources.spill import Records

# Constants of SplitMix64: Steele, Lea and Flood (OOPSLA 2014),
# https://doi.org/10.1145/2660193.2660195.
_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR = np.uint64(0x94D049BB133111EB)


class Unmatched(Exception):  # noqa: N818 - its caller makes an error of it
    """Two parents have one key, or a child has no parent.

    Attributes:
        twice: Whether it is the former.
    """

    def __init__(self, *, twice: bool) -> None:
        super().__init__()
        self.twice = twice


@dataclass(frozen=True)
class Families:
    """Parents and their children.

    Attributes:
        parents: In any order.
        children: Those of the first parent in their order, then those of the second.
        parent_index: For each child, the index of its parent, (children,), ascending.
    """

    parents: Records
    children: Records
    parent_index: npt.NDArray[np.intp]

    def share(self, number: int, of: int) -> Families:
        """Returns the families in one of several shares.

        A parent's key, random bits, says which share it falls into.

        Args:
            number: Which share, from 0.
            of: How many there are.
        """
        is_mine = self.parents["key"][:, 1] % np.uint64(of) == number
        has_my_parent = is_mine[self.parent_index]
        new_index = np.cumsum(is_mine) - 1
        return Families(
            self.parents[is_mine],
            self.children[has_my_parent],
            new_index[self.parent_index[has_my_parent]],
        )

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many children each parent has, (parents,)."""
        counts = np.bincount(self.parent_index, minlength=len(self.parents))
        return counts.astype(np.int64)

    @property
    def is_later(self) -> npt.NDArray[np.bool_]:
        """Which children have one of the same parent before them, (children,)."""
        is_later = np.zeros(len(self.parent_index), dtype=np.bool_)
        is_later[1:] = self.parent_index[1:] == self.parent_index[:-1]
        return is_later

    @property
    def shares(self) -> npt.NDArray[np.int64]:
        """Into how many equal shares the weight of a child's unit is split, (children,).

        Those of its parent, times the number of the parent's children.
        """
        shares = _split(self.parents["share"], self.counts)
        return shares[self.parent_index]

    def weights(self, grid: int = WHOLE) -> npt.NDArray[np.int64]:
        """Returns how much each row of a parent weighs, (parents,).

        It is grid / (shares · rows), rounded down, so that all rows of a unit weigh at
        most `grid` together.
        """
        shares = _split(self.parents["share"], np.maximum(self.counts, 1))
        return min(grid, WHOLE) // shares

    def add_weights(self, totals: npt.NDArray[np.int64]) -> None:
        """Adds the weights of all rows to the totals of their units.

        Args:
            totals: Of each unit, (units,); changed in place.

        Raises:
            OverflowError: if a unit weighs more than one record, which G-31 says no
                unit does.
        """
        weights = self.weights()
        np.add.at(totals, self.parents["unit"], weights * np.maximum(self.counts, 1))
        if not len(weights):
            return
        heaviest = totals[self.parents["unit"]].max()
        if weights.min() < 0 or heaviest > WHOLE:
            raise OverflowError(
                "linked tables: the rows of one unit count more than one record; "
                "please report this."
            )


def families(
    parents: Records, children: Records, order: int | None, *, drop: bool
) -> Families:
    """Brings parents and their children together.

    Args:
        parents: With their own keys in the field `key`.
        children: With the keys of their parents in the field `parent`.
        order: The numeric column that orders children; None for no such column.
        drop: Whether children without a parent are left out.

    Raises:
        Unmatched: if two parents have one key, or a child has no parent and may not be
            left out.
    """
    keys = np.concatenate([parents["key"], children["parent"]])
    is_child = np.arange(len(keys)) >= len(parents)
    # A parent stands before its children, whose positions are in [0, 1].
    rank = np.where(is_child, 0.0, -1.0)
    if order is not None:
        rank[is_child] = children["numeric"][:, order]
    no_ties = np.zeros(len(parents), dtype=np.uint64)
    ties = np.concatenate([no_ties, _hash_children(children)])
    sequence = np.lexsort((ties, rank, keys[:, 1], keys[:, 0]))
    keys = keys[sequence]
    is_child = is_child[sequence]
    # Now all records with one key stand together, a parent first.
    is_first = np.ones(len(keys), dtype=np.bool_)
    is_first[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    if (~is_first & ~is_child).any():
        raise Unmatched(twice=True)
    is_orphan = is_child
    if len(keys):
        group_index = np.cumsum(is_first) - 1
        is_orphan = is_child[is_first][group_index]
    if is_orphan.any() and not drop:
        raise Unmatched(twice=False)
    parent_index = np.cumsum(~is_child) - 1
    is_used = is_child & ~is_orphan
    return Families(
        parents[sequence[~is_child]],
        children[sequence[is_used] - len(parents)],
        parent_index[is_used],
    )


def transitions(found: Families, link: Link, grid: int = WHOLE) -> WeightedRows:
    """Returns the rows of all parents: one for each child, or one for no child.

    Args:
        found: The families.
        link: Says which columns the rows have.
        grid: What the rows of one unit weigh together, at most.

    Returns:
        Rows as `link.schema` describes them: what the parent says, the number of its
        children, when the child comes, what the one before it says (missing for the
        first) and what it says itself.
    """
    parents = found.parents
    children = found.children
    counts = found.counts
    row_parent = np.repeat(np.arange(len(parents)), np.maximum(counts, 1))
    # The row of each child: behind those of the children before it, and the single
    # rows of childless parents before it.
    child_row = np.arange(len(children))
    if len(children):
        child_row = child_row + np.cumsum(counts == 0)[found.parent_index]
    is_later = found.is_later
    step = np.full(len(row_parent), STEPS.index("none"))
    step[child_row] = np.where(is_later, STEPS.index("next"), STEPS.index("first"))
    layout = link.child.schema.layout
    number = link.schema.column(link.number)
    assert number.numeric
    numeric = children["numeric"]
    codes = children["codes"]
    times = np.empty((len(children), 0))
    if link.order is not None:
        order_index = layout.place(link.order.name)
        times = _times(found, link, numeric[:, order_index])
        # The times stand for the order.
        numeric = np.delete(numeric, order_index, axis=1)
    predecessor = np.flatnonzero(is_later) - 1
    later_row = child_row[is_later]
    missing_codes = np.array(
        [len(column.levels) for column in layout.coded], dtype=np.int32
    )
    row_count = len(row_parent)
    numeric_columns = [
        parents["numeric"][row_parent],
        positions_of(number, counts)[row_parent],
        _scatter(times, child_row, row_count, np.nan),
        _scatter(numeric[predecessor], later_row, row_count, np.nan),
        _scatter(numeric, child_row, row_count, np.nan),
    ]
    coded_columns = [
        parents["codes"][row_parent],
        step,
        _scatter(codes[predecessor], later_row, row_count, missing_codes),
        _scatter(codes, child_row, row_count, missing_codes),
    ]
    return WeightedRows(
        np.column_stack(numeric_columns),
        np.column_stack(coded_columns).astype(np.int32),
        found.weights(grid)[row_parent],
    )


def _split(
    share: npt.NDArray[np.int64], among: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Multiplies numbers of shares, without overflow.

    A product above `WHOLE` is `WHOLE` + 1: so many shares weigh nothing, however many
    they are. No product is beyond 2⁴¹.
    """
    most = WHOLE + 1
    product: npt.NDArray[np.int64] = np.minimum(share, most) * np.minimum(among, most)
    return np.minimum(product, most)


def _times(
    found: Families, link: Link, positions: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Returns when children come.

    Args:
        found: The families.
        link: It has an order.
        positions: Of the column that orders children, (children,).

    Returns:
        The positions of how long after its origin a first child comes, and of how long
        after the one before it a later one does, (children, 2), NaN where a child has
        no such time.
    """
    order = link.order
    first = link.schema.column(str(link.first))
    gap = link.schema.column(str(link.gap))
    assert order is not None
    assert first.numeric
    assert gap.numeric
    ticks = ticks_at(order, positions)
    is_later = found.is_later
    starts = ticks[~is_later]
    if link.since is not None:
        since_index = link.parent.schema.layout.place(link.since.name)
        first_parent = found.parent_index[~is_later]
        origins = found.parents["numeric"][first_parent, since_index]
        starts = starts - origin_ticks(order, link.since, origins)
    gaps = np.diff(ticks, prepend=ticks[:1])
    times = np.full((len(is_later), 2), np.nan)
    times[~is_later, 0] = positions_of(first, starts)
    times[is_later, 1] = positions_of(gap, gaps[is_later])
    return times


def _scatter(
    values: npt.NDArray[Any], rows: npt.NDArray[np.intp], total: int, missing: Any
) -> npt.NDArray[Any]:
    """Returns a table, (total, columns), with `values` at some rows, else `missing`."""
    table = np.full((total, values.shape[1]), missing, dtype=values.dtype)
    table[rows] = values
    return table


def _hash_children(children: Records) -> npt.NDArray[np.uint64]:
    """Hashes what each child says and whose it is to 64 bits, by SplitMix64.

    The key of the parent is random and secret, so the order that follows says nothing.
    """
    bits = children["parent"][:, 0] ^ children["parent"][:, 1]
    words = np.concatenate(
        [children["numeric"].view(np.uint64), children["codes"].astype(np.uint64)],
        axis=1,
    )
    for word in words.T:
        bits = (bits ^ word) + _INCREMENT
        bits = (bits ^ (bits >> np.uint64(30))) * _FIRST_FACTOR
        bits = (bits ^ (bits >> np.uint64(27))) * _SECOND_FACTOR
        bits = bits ^ (bits >> np.uint64(31))
    return np.asarray(bits, dtype=np.uint64)
