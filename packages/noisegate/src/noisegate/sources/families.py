"""Parents with their children in order, and the transitions from one child to the next.

The unit of privacy is a record of the first table with all that belongs to it. What the
gate counts of a link are transitions: a row for each child, with what its parent and
the child before it say, and one row for a parent without children::

    parent   children        rows: parent, child before, child
    p        a, b            p, -, a     p, a, b
    q        none            q, -, -

All rows of one unit weigh `WHOLE` together at most, however many they are (G-31: so a
unit moves a sum by no more than one record would).

Children are put in order by the column that says so. Where that leaves them equal, a
hash of what they say and whose they are decides, and never where they stand: so a
parent's rows follow from its own family alone.

- `group_families` brings parents and their children together.
- `Families` holds them, with the weights of their rows.
- `build_transitions` makes the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.records import WHOLE, Rows, WeightedRows
from noisegate.schema.layout import positions_of
from noisegate.schema.linked.links import STEPS, Link
from noisegate.schema.linked.table_schema import origin_ticks, ticks_at
from noisegate.sources.spill import Records

# Constants of SplitMix64: Steele, Lea and Flood (OOPSLA 2014),
# https://doi.org/10.1145/2660193.2660195.
_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_FACTOR = np.uint64(0x94D049BB133111EB)


class RepeatedKey(Exception):  # noqa: N818 - its caller makes an error of it
    """Two parents have the same key."""


class ParentNotFound(Exception):  # noqa: N818 - its caller makes an error of it
    """A child has no parent."""


@dataclass(frozen=True)
class Families:
    """Parents and their children.

    Attributes:
        parents: The parents, in any order.
        children: Those of the first parent in their order, then those of the second.
        parent_index: For each child, the index of its parent, (children,), ascending.
    """

    parents: Records
    children: Records
    parent_index: npt.NDArray[np.intp]

    def select_share(self, index: int, count: int) -> Families:
        """Returns the families in one of several shares of about the same size.

        A parent's key, random bits, says which share it falls into. These are other
        bits than those that divide a `Spill` into parts, so each part is shared too.

        Args:
            index: Which share, from 0.
            count: How many shares there are.
        """
        is_in_share = self.parents["key"][:, 1] % np.uint64(count) == index
        has_parent_in_share = is_in_share[self.parent_index]
        # The index of each parent among those of the share.
        new_index = np.cumsum(is_in_share) - 1
        return Families(
            self.parents[is_in_share],
            self.children[has_parent_in_share],
            new_index[self.parent_index[has_parent_in_share]],
        )

    @property
    def child_counts(self) -> npt.NDArray[np.int64]:
        """How many children each parent has, (parents,)."""
        counts = np.bincount(self.parent_index, minlength=len(self.parents))
        return counts.astype(np.int64)

    def parents_of_children(self) -> Rows:
        """Returns the parent of each child, (children,)."""
        return Rows(
            self.parents["numeric"][self.parent_index],
            self.parents["codes"][self.parent_index],
        )

    @property
    def has_predecessor(self) -> npt.NDArray[np.bool_]:
        """Which children have one of the same parent before them, (children,)."""
        has_predecessor = np.zeros(len(self.parent_index), dtype=np.bool_)
        has_predecessor[1:] = self.parent_index[1:] == self.parent_index[:-1]
        return has_predecessor

    @property
    def child_share_counts(self) -> npt.NDArray[np.int64]:
        """Into how many equal shares a unit's weight is split for a child, (children,).

        These are the shares of its parent, times the number of the parent's children.
        """
        share_counts = _multiply_capped(self.parents["share_count"], self.child_counts)
        return share_counts[self.parent_index]

    def row_weights(self, unit_weight: int = WHOLE) -> npt.NDArray[np.int64]:
        """Returns how much each row of a parent weighs, (parents,).

        It is unit_weight / (shares · rows), rounded down, so that all rows of a unit
        weigh at most `unit_weight` together.

        Args:
            unit_weight: What the rows of one unit weigh together, at most; more than
                `WHOLE` counts as `WHOLE`.
        """
        row_share_counts = _multiply_capped(
            self.parents["share_count"], np.maximum(self.child_counts, 1)
        )
        return min(unit_weight, WHOLE) // row_share_counts

    def add_weights(self, unit_totals: npt.NDArray[np.int64]) -> None:
        """Adds the weights of all rows to the totals of their units, and checks these.

        The sensitivity of the gate's sums is that of a single record. It holds if all
        rows of a unit together weigh no more than one record does, which is `WHOLE`;
        G-31 proves it of `row_weights`. Here it is counted, so that a mistake ends the
        run before anything is released.

        Args:
            unit_totals: The weight of each unit so far, (units,). It is changed in
                place, also where this raises: nothing may continue after that.

        Raises:
            OverflowError: if a unit weighs more than one record.
        """
        weights = self.row_weights()
        # A parent without children has a row too, which weighs as one with a child.
        row_counts = np.maximum(self.child_counts, 1)
        np.add.at(unit_totals, self.parents["unit"], weights * row_counts)
        if not len(weights):
            return
        heaviest = unit_totals[self.parents["unit"]].max()
        if weights.min() < 0 or heaviest > WHOLE:
            raise OverflowError(
                "linked tables: the rows of one unit count more than one record; "
                "please report this."
            )


def group_families(
    parents: Records, children: Records, order_index: int | None, *, drop_orphans: bool
) -> Families:
    """Brings parents and their children together.

    Args:
        parents: With their own keys in the field `key`.
        children: With the keys of their parents in the field `parent`.
        order_index: Which numeric column orders the children of a parent; None for no
            such column.
        drop_orphans: Whether children without a parent are left out.

    Raises:
        RepeatedKey: if two parents have the same key.
        ParentNotFound: if a child has no parent and may not be left out.
    """
    # A key has 128 bits, two columns of 64.
    keys = np.concatenate([parents["key"], children["parent"]])
    sequence = _sort_by_family(keys, children, order_index)
    keys = keys[sequence]
    is_child = sequence >= len(parents)
    # Now all records with one key stand together, a family: the parent, if there is
    # one, comes first.
    is_first = np.ones(len(keys), dtype=np.bool_)
    is_first[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    if (~is_first & ~is_child).any():
        raise RepeatedKey
    # A family that begins with a child has no parent.
    is_orphan = is_child
    if len(keys):
        family_index = np.cumsum(is_first) - 1
        begins_with_child = is_child[is_first]
        is_orphan = begins_with_child[family_index]
    if is_orphan.any() and not drop_orphans:
        raise ParentNotFound
    # The number of parents up to a record, less one, is the index of its own.
    parent_index = np.cumsum(~is_child) - 1
    has_parent = is_child & ~is_orphan
    return Families(
        parents[sequence[~is_child]],
        children[sequence[has_parent] - len(parents)],
        parent_index[has_parent],
    )


def _sort_by_family(
    keys: npt.NDArray[np.uint64], children: Records, order_index: int | None
) -> npt.NDArray[np.intp]:
    """Returns the order that puts each parent right before its children.

    Records are sorted by key, a parent before children, children by the column that
    orders them, and equal ones by a hash of what they say.

    Args:
        keys: Of all parents, then of all children those of their parents,
            (parents + children, 2).
        children: The children.
        order_index: Which numeric column orders children; None for no such column.

    Returns:
        Indices into parents followed by children, (parents + children,).
    """
    parent_count = len(keys) - len(children)
    # The schema says that the column is never missing, and `encode` that it holds
    # positions in [0, 1]: so -1 puts a parent first.
    rank = np.full(len(keys), -1.0)
    rank[parent_count:] = 0.0
    if order_index is not None:
        rank[parent_count:] = children["numeric"][:, order_index]
    # The order of the file must not decide between equal children: if it did, the rows
    # of a family would depend on where its records stand.
    no_ties = np.zeros(parent_count, dtype=np.uint64)
    tie_breaks = np.concatenate([no_ties, _hash_children(children)])
    # `lexsort` sorts by its last argument first.
    return np.lexsort((tie_breaks, rank, keys[:, 1], keys[:, 0]))


def build_transitions(
    families: Families, link: Link, unit_weight: int = WHOLE
) -> WeightedRows:
    """Returns the rows of all parents: one for each child, or one for no child.

    Args:
        families: Parents and their children.
        link: Says which columns the rows have.
        unit_weight: What the rows of one unit weigh together, at most.

    Returns:
        Rows as `link.schema` describes them: what the parent says, the number of its
        children, when the child comes, what the one before it says (missing for the
        first) and what it says itself.
    """
    parents = families.parents
    children = families.children
    child_counts = families.child_counts
    row_parent = np.repeat(np.arange(len(parents)), np.maximum(child_counts, 1))
    row_count = len(row_parent)
    child_row = _rows_of_children(families)
    has_predecessor = families.has_predecessor
    # Children of one parent stand together, so the one before is right before.
    predecessor = np.flatnonzero(has_predecessor) - 1
    later_row = child_row[has_predecessor]

    step = np.full(row_count, STEPS.index("none"))
    step[child_row] = np.where(
        has_predecessor, STEPS.index("next"), STEPS.index("first")
    )
    layout = link.measured_layout
    number_column = link.schema.column(link.number)
    assert number_column.numeric
    measured = Rows(children["numeric"], children["codes"])
    if link.relations:
        measured = link.measure(families.parents_of_children(), measured)
    numeric = measured.numeric
    codes = measured.codes
    times = np.empty((len(children), 0))
    if link.order_name is not None:
        order_index = layout.place(link.order_name)
        times = _encode_times(families, link, numeric[:, order_index])
        # The times stand for the order.
        numeric = np.delete(numeric, order_index, axis=1)
    missing_codes = np.array(
        [len(column.levels) for column in layout.coded], dtype=np.int32
    )
    numeric_columns = [
        parents["numeric"][row_parent],
        positions_of(number_column, child_counts)[row_parent],
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
        families.row_weights(unit_weight)[row_parent],
    )


def _rows_of_children(families: Families) -> npt.NDArray[np.intp]:
    """Returns the index of each child's row among the rows of all parents, (children,).

    Before it stand the rows of the children before it, and one row for each childless
    parent before its own.
    """
    child_row = np.arange(len(families.children))
    if not len(families.children):
        return child_row
    childless_up_to = np.cumsum(families.child_counts == 0)
    rows: npt.NDArray[np.intp] = child_row + childless_up_to[families.parent_index]
    return rows


def _multiply_capped(
    share_counts: npt.NDArray[np.int64], factors: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Multiplies numbers of shares, without overflow.

    A product above `WHOLE` is `WHOLE` + 1: a row with so many shares weighs nothing,
    however many they are. Both factors are cut first, so no product is beyond 2⁴¹.
    """
    cap = WHOLE + 1
    product: npt.NDArray[np.int64] = np.minimum(share_counts, cap) * np.minimum(
        factors, cap
    )
    return np.minimum(product, cap)


def _encode_times(
    families: Families, link: Link, positions: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Returns when children come.

    Args:
        families: Parents and their children.
        link: A link with an order.
        positions: Of the column that orders children, in [0, 1], (children,).

    Returns:
        For each child two positions, (children, 2): how long after its origin a first
        child comes, and how long after the one before it a later one does. NaN where a
        child has no such time.
    """
    order = link.order
    first_column = link.schema.column(str(link.first))
    gap_column = link.schema.column(str(link.gap))
    assert order is not None
    assert first_column.numeric
    assert gap_column.numeric
    ticks = ticks_at(order, positions)
    has_predecessor = families.has_predecessor
    first_times = ticks[~has_predecessor]
    if link.since is not None:
        since_index = link.parent.schema.layout.place(link.since.name)
        parents_of_first = families.parent_index[~has_predecessor]
        origins = families.parents["numeric"][parents_of_first, since_index]
        first_times = first_times - origin_ticks(order, link.since, origins)
    gaps = np.diff(ticks, prepend=ticks[:1])
    times = np.full((len(has_predecessor), 2), np.nan)
    times[~has_predecessor, 0] = positions_of(first_column, first_times)
    times[has_predecessor, 1] = positions_of(gap_column, gaps[has_predecessor])
    return times


def _scatter(
    values: npt.NDArray[Any], rows: npt.NDArray[np.intp], row_count: int, missing: Any
) -> npt.NDArray[Any]:
    """Puts values into some rows of a table in which all else is missing.

    Args:
        values: What is put in, (n, columns).
        rows: The row of each, (n,).
        row_count: Number of rows of the table.
        missing: What fills the others: one value, or one for each column.

    Returns:
        The table, (row_count, columns).
    """
    table = np.full((row_count, values.shape[1]), missing, dtype=values.dtype)
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
