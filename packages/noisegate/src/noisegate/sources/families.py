"""Parents with their children in order, in bounded memory, and the transitions from one child to the next.

Children are put in order by the column that says so, and where that leaves them equal
by a hash of what they say and whose they are; never by where they stand. They are
brought together in bounded memory: what does not fit is kept in a file without a name,
which no end of the process, SIGKILL too, leaves behind.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import DataError
from noisegate.records import WHOLE, WeightedRows
from noisegate.schema.layout import positions_of
from noisegate.schema.linked.links import STEPS, Link
from noisegate.schema.linked.table_schema import origin_ticks, ticks_at

_MIX = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


class Unmatched(Exception):  # noqa: N818 - not an error for users; the caller names the tables, and makes it one
    """Two parents have one key, or a child has no parent."""

    def __init__(self, *, twice: bool) -> None:
        super().__init__()
        self.twice = twice


@dataclass(frozen=True)
class Families:
    """Parents and their children."""

    parents: Records  # in any order
    children: Records  # those of the first parent in their order, then those of the second one, and so on
    of: npt.NDArray[np.intp]  # for each child, the place of its parent

    def share(self, number: int, of: int) -> Families:
        """Returns the families of those parents whose keys, random bits, fall into one of some equal shares."""
        mine = self.parents["key"][:, 1] % np.uint64(of) == number
        kept = mine[self.of]
        return Families(
            self.parents[mine],
            self.children[kept],
            (np.cumsum(mine) - 1)[self.of[kept]],
        )

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """How many children each parent has, (parents,)."""
        return np.bincount(self.of, minlength=len(self.parents)).astype(np.int64)

    @property
    def later(self) -> npt.NDArray[np.bool_]:
        """Which children have one before them, (children,)."""
        later = np.zeros(len(self.of), dtype=np.bool_)
        later[1:] = self.of[1:] == self.of[:-1]
        return later

    @property
    def shares(self) -> npt.NDArray[np.int64]:
        """For each child, into how many equal shares what its unit counts is split: its parent's, by its siblings."""
        return _split(self.parents["share"], self.counts)[self.of]

    def weights(self, grid: int = WHOLE) -> npt.NDArray[np.int64]:
        """How much each row of a parent counts, (parents,): grid / (share · rows), rounded down; at most the whole."""
        return min(grid, WHOLE) // _split(
            self.parents["share"], np.maximum(self.counts, 1)
        )

    def add_weights(self, totals: npt.NDArray[np.int64]) -> None:
        """Adds what all rows count to the totals of their units, and checks the statement of G-31."""
        weights = self.weights()
        np.add.at(totals, self.parents["unit"], weights * np.maximum(self.counts, 1))
        if len(weights) and (
            weights.min() < 0 or totals[self.parents["unit"]].max() > WHOLE
        ):
            raise OverflowError(
                "linked tables: the rows of one unit count more than one record; please report this."
            )


def families(
    parents: Records, children: Records, order: int | None, *, drop: bool
) -> Families:
    """Returns parents with children by the column ``order``; Unmatched if a key is twice, or a parent not there."""
    keys = np.concatenate([parents["key"], children["parent"]])
    child = np.arange(len(keys)) >= len(parents)
    # A parent stands before its children, whose positions are in [0, 1].
    rank = np.where(child, 0.0, -1.0)
    if order is not None:
        rank[child] = children["numeric"][:, order]
    ties = np.concatenate([np.zeros(len(parents), dtype=np.uint64), _mixed(children)])
    sequence = np.lexsort((ties, rank, keys[:, 1], keys[:, 0]))
    keys, child = keys[sequence], child[sequence]
    new = np.ones(len(keys), dtype=np.bool_)
    new[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    if (~new & ~child).any():
        raise Unmatched(twice=True)
    group = np.cumsum(new) - 1
    orphans = child[new][group] if len(group) else child
    if orphans.any() and not drop:
        raise Unmatched(twice=False)
    place = np.cumsum(~child) - 1
    used = child & ~orphans
    return Families(
        parents[sequence[~child]], children[sequence[used] - len(parents)], place[used]
    )


def transitions(found: Families, link: Link, grid: int = WHOLE) -> WeightedRows:
    """Returns the rows of all parents: one for each child, or one; for what each counts see `Families.weights`."""
    parents, children, counts = found.parents, found.children, found.counts
    sizes = np.maximum(counts, 1)
    row_of = np.repeat(np.arange(len(parents)), sizes)
    to = np.arange(len(children)) + (
        np.cumsum(counts == 0)[found.of] if len(children) else 0
    )
    later = found.later
    step = np.full(len(row_of), STEPS.index("none"))
    step[to] = np.where(later, STEPS.index("next"), STEPS.index("first"))
    layout, number = link.child.schema.layout, link.schema.column(link.number)
    assert number.numeric
    numeric, codes, timed = (
        children["numeric"],
        children["codes"],
        np.empty((len(children), 0)),
    )
    if link.order is not None:
        place = layout.place(link.order.name)
        timed, numeric = (
            _timed(found, link, numeric[:, place]),
            np.delete(numeric, place, axis=1),
        )
    absent = np.array([len(column.levels) for column in layout.coded], dtype=np.int32)
    now, before = (slice(None), to), (np.flatnonzero(later) - 1, to[later])
    numbers = [
        _placed(numeric[taken], rows, len(row_of), np.nan)
        for taken, rows in (before, now)
    ]
    coded = [
        _placed(codes[taken], rows, len(row_of), absent)
        for taken, rows in (before, now)
    ]
    positions, timed = (
        positions_of(number, counts)[row_of],
        _placed(timed, to, len(row_of), np.nan),
    )
    return WeightedRows(
        np.column_stack([parents["numeric"][row_of], positions, timed, *numbers]),
        np.column_stack([parents["codes"][row_of], step, *coded]).astype(np.int32),
        found.weights(grid)[row_of],
    )


def _split(
    share: npt.NDArray[np.int64], among: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Returns shares that are split once more; WHOLE + 1 where it is more, which counts nothing: never beyond 2⁴¹."""
    split: npt.NDArray[np.int64] = np.minimum(share, WHOLE + 1) * np.minimum(
        among, WHOLE + 1
    )
    return np.minimum(split, WHOLE + 1)


def _timed(
    found: Families, link: Link, positions: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Returns the positions of first distances and of gaps, (children, 2), NaN where a child has none."""
    order, first, gap = (
        link.order,
        link.schema.column(str(link.first)),
        link.schema.column(str(link.gap)),
    )
    assert order is not None and first.numeric and gap.numeric
    ticks, later = ticks_at(order, positions), found.later
    starts = ticks[~later]
    if link.since is not None:
        place = link.parent.schema.layout.place(link.since.name)
        starts = starts - origin_ticks(
            order, link.since, found.parents["numeric"][found.of[~later], place]
        )
    timed = np.full((len(later), 2), np.nan)
    timed[~later, 0] = positions_of(first, starts)
    timed[later, 1] = positions_of(gap, np.diff(ticks, prepend=ticks[:1])[later])
    return timed


def _placed(
    values: npt.NDArray[Any], rows: npt.NDArray[np.intp], total: int, absent: Any
) -> npt.NDArray[Any]:
    """Returns a table of ``total`` rows that has ``values`` at ``rows``, and ``absent`` everywhere else."""
    table = np.full((total, values.shape[1]), absent, dtype=values.dtype)
    table[rows] = values
    return table


def _mixed(children: Records) -> npt.NDArray[np.uint64]:
    """Returns 64 bits of each child that follow from its parent and its columns, as if at random (SplitMix64)."""
    bits = children["parent"][:, 0] ^ children["parent"][:, 1]
    words = np.concatenate(
        [children["numeric"].view(np.uint64), children["codes"].astype(np.uint64)],
        axis=1,
    )
    for word in words.T:
        bits = (bits ^ word) + _MIX[0]
        bits = (bits ^ (bits >> np.uint64(30))) * _MIX[1]
        bits = (bits ^ (bits >> np.uint64(27))) * _MIX[2]
        bits = bits ^ (bits >> np.uint64(31))
    return np.asarray(bits, dtype=np.uint64)


HELD_BYTES = (
    32 << 20
)  # of the records of one table that are held in memory before they are written out
PARTS = 256  # into how many parts a table is split that is not held in memory: one of them is, with what belongs to it

Records = npt.NDArray[Any]  # a structured array, (records,)


class Spill:
    """Records whose keys, 128 random bits in the field ``by``, say which part they belong to."""

    def __init__(
        self, dtype: npt.DTypeLike, by: str, *, held_bytes: int = HELD_BYTES
    ) -> None:
        self.dtype, self._by, self._limit = np.dtype(dtype), by, held_bytes
        self._held: list[Records] = []
        self._file: IO[bytes] | None = None
        self._runs: list[
            tuple[int, npt.NDArray[np.int64]]
        ] = []  # where each run begins, and where its parts do

    @property
    def whole(self) -> bool:
        """Whether all records are in memory."""
        return self._file is None

    def add(self, records: Records) -> None:
        """Adds records, (n,) of the dtype."""
        self._held.append(records)
        if sum(each.nbytes for each in self._held) > self._limit:
            self.write()

    def part(self, part: int | None) -> Records:
        """Returns the records of one part, all of which were written out; or all that are in memory, for None."""
        if part is None:
            return np.concatenate([np.empty(0, self.dtype), *self._held])
        found = [np.empty(0, self.dtype)]
        try:
            assert self._file is not None
            for start, bounds in self._runs:
                self._file.seek(start + int(bounds[part]))
                found.append(
                    np.frombuffer(
                        self._file.read(int(bounds[part + 1] - bounds[part])),
                        self.dtype,
                    )
                )
        except OSError as error:
            raise _broken(error) from None
        return np.concatenate(found)

    def close(self) -> None:
        """Forgets all records."""
        self._held = []
        if self._file is not None:
            self._file.close()

    def write(self) -> None:
        """Writes out the records that are in memory."""
        records, self._held = np.concatenate([np.empty(0, self.dtype), *self._held]), []
        parts = (records[self._by][:, 0] % np.uint64(PARTS)).astype(np.intp)
        ordered = records[np.argsort(parts, kind="stable")]
        bounds = (
            np.concatenate([[0], np.cumsum(np.bincount(parts, minlength=PARTS))])
            * self.dtype.itemsize
        )
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="noisegate-")  # noqa: SIM115 - `close` closes it
            start = self._file.seek(0, os.SEEK_END)
            self._file.write(ordered.view(np.uint8).data)
        except OSError as error:
            raise _broken(error) from None
        self._runs.append((start, bounds.astype(np.int64)))


def spilled_parts(spills: Sequence[Spill]) -> Iterator[int | None]:
    """Yields the parts to take from all of some tables together: None, for one, where all are in memory."""
    if all(spill.whole for spill in spills):
        yield None
        return
    for spill in spills:
        spill.write()
    yield from range(PARTS)


def _broken(error: OSError) -> DataError:
    cure = "make room, or name another folder in the environment variable TMPDIR"
    return DataError(
        f"{tempfile.gettempdir()}: cannot keep a temporary file there: {error.strerror}; {cure}"
    )
