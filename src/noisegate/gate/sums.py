"""The exact sum of quantised vectors over records, block by block.

Every vector goes through `Grid.quantise`. For random Fourier features that is done once for each of their 4096 angles
instead of once for each record (`SumTask.table`): a vector is F pairs out of a table, the grid rounds each coordinate
on its own, and F times the largest squared norm of a rounded pair is checked in integers to be at most units². So
whatever angles are looked up, the vector is inside the ball, where `Grid.quantise` gives the same integers (G-02).
Contingency tables are counted, see `gate.counting`, and so are the values of looked-up columns, see
`gate.occurrences`.

All other maps are called with blocks of a fixed number of rows, `block_rows`, and questions whose records stand in the
same order go through a block together, so that what their maps share is computed once (`gate.vectors`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.contingency import Contingency
from noisegate.features.feature_map import FeatureMap
from noisegate.features.fourier import RandomFourier
from noisegate.features.products import Products
from noisegate.gate.counting import add_counts, integer_weights
from noisegate.gate.execution import Execution
from noisegate.gate.occurrences import LookedUp, add_occurrences, rounded_tables
from noisegate.gate.vectors import Shared, parts_of
from noisegate.privacy.grid import BLOCK_LIMIT, RECORD_LIMIT, Grid
from noisegate.schema import EncodedTable

# Features run in blocks of exactly this many rows (the last one padded): their bits may depend on the shape of a batch.
BLOCK_ROWS = 256
assert BLOCK_ROWS <= BLOCK_LIMIT
# Blocks of long vectors have fewer rows, so that they have no more numbers than this: 28 MB as float32,
# which is less than what the C library takes from the system anew, page by page, each time.
BLOCK_NUMBERS = 7 * 2**20
# Looked-up vectors have the same bits in blocks of any size; this one stays in the cache of a core.
TABLE_ROWS = 128
assert TABLE_ROWS <= BLOCK_LIMIT


@dataclass(frozen=True, kw_only=True)
class SumTask:
    """One question, ready to be summed.

    Attributes:
        feature_map: Record to vector.
        grid: Where vectors are clipped and rounded.
        columns: Number of columns of the answer.
        label: Which coded column chooses a record's column; None when there is one column.
        chosen: How the map is computed, where that was found out; None for blocks of `block_rows`.
    """

    feature_map: FeatureMap
    grid: Grid
    columns: int
    label: int | None
    chosen: Execution | None = None

    @property
    def execution(self) -> Execution:
        """How the map is computed."""
        return self.chosen or Execution(rows=block_rows(self.feature_map))

    @cached_property
    def table(self) -> npt.NDArray[np.int32] | None:
        """For random Fourier features, the quantised pair of each angle, (4096, 2), if no vector can need clipping."""
        # A subclass may compute something else, so it does not count; a centre is subtracted from whole vectors.
        if type(self.feature_map) is not RandomFourier or self.grid.centre is not None:
            return None
        pairs = self.grid.quantise(self.feature_map.pairs)
        largest = int(np.square(pairs, dtype=np.int64).sum(axis=1).max())
        return pairs if (self.feature_map.dim // 2) * largest <= self.grid.bound.units**2 else None

    @cached_property
    def weights(self) -> npt.NDArray[np.int64] | None:
        """For contingency tables, the quantised weight of each, (tables,).

        Raises:
            OptionError: if a record's vector would leave the ball, or a weight is too small for the grid.
        """
        if type(self.feature_map) is not Contingency or self.grid.centre is not None or self.label is not None:
            return None
        return integer_weights(self.feature_map, self.grid)

    @cached_property
    def lookups(self) -> tuple[LookedUp, ...] | None:
        """For a sum of looked-up columns, their rounded tables, if no vector can need clipping."""
        return rounded_tables(self.feature_map, self.grid) if type(self.feature_map) is Products else None

    @property
    def in_blocks(self) -> bool:
        """Whether the map is called with blocks of records, and nothing of it can be looked up or counted."""
        return self.table is None and self.weights is None and self.lookups is None


class Totals:
    """Exact int64 sums, one matrix (columns, dim) a question, and the number of records seen. Merging is addition."""

    def __init__(self, tasks: Mapping[str, SumTask]) -> None:
        self.records = 0
        self.sums = {
            name: np.zeros((task.columns, task.feature_map.dim), dtype=np.int64) for name, task in tasks.items()
        }

    def merge(self, other: Totals) -> None:
        """Adds `other`; exact, so the order of merging does not matter."""
        self.count(other.records)
        for name, values in other.sums.items():
            self.sums[name] += values

    def count(self, records: int) -> None:
        """Adds to the number of records; to be called before their vectors are added.

        Raises:
            OverflowError: if a sum over so many could leave 64 bits.
        """
        self.records += records
        if self.records > RECORD_LIMIT:
            raise OverflowError(f"more than {RECORD_LIMIT} records: the sum could leave 64 bits.")


def block_rows(feature_map: FeatureMap) -> int:
    """Returns how many rows a block has at most that a map is called with: 256, or fewer where its vectors are long."""
    rows = BLOCK_ROWS
    while rows > 1 and rows * feature_map.dim > BLOCK_NUMBERS:
        rows //= 2
    return rows


def sum_records(records: EncodedTable, tasks: Mapping[str, SumTask]) -> Totals:
    """Returns the exact sums over `records`, any number of rows."""
    totals = Totals(tasks)
    add_records(totals, records, tasks)
    return totals


def add_records(totals: Totals, records: EncodedTable, tasks: Mapping[str, SumTask]) -> None:
    """Adds the vectors of `records`, any number of rows, to `totals`."""
    totals.count(len(records))
    together: dict[tuple[int | None, Execution], dict[str, SumTask]] = {}
    for name, task in tasks.items():
        if task.in_blocks:
            together.setdefault((task.label, task.execution), {})[name] = task
        else:
            _add(totals.sums[name], _ordered(records, task.label), task)
    for (label, execution), group in together.items():
        with execution.kernels():
            _add_in_blocks(totals, _ordered(records, label), group, label, execution.rows)


def _ordered(records: EncodedTable, label: int | None) -> EncodedTable:
    """Returns records ordered by label."""
    return records if label is None else records.rows(np.argsort(records.codes[:, label], kind="stable"))


def _add(sums: npt.NDArray[np.int64], records: EncodedTable, task: SumTask) -> None:
    """Adds records, ordered by label, to `sums`, (columns, dim), by looking up or counting."""
    if isinstance(task.feature_map, RandomFourier) and task.table is not None:
        for column, rows in _by_label(records, task.label):
            _add_looked_up(sums[column], records.rows(rows), task.feature_map, task.table)
    elif isinstance(task.feature_map, Contingency) and task.weights is not None:
        add_counts(sums[0], records, task.feature_map, task.weights)
    else:
        assert isinstance(task.feature_map, Products) and task.lookups is not None
        places = task.feature_map.places(records)
        for column, rows in _by_label(records, task.label):
            add_occurrences(sums[column], places[rows], task.lookups)


def _add_in_blocks(
    totals: Totals, records: EncodedTable, tasks: Mapping[str, SumTask], label: int | None, rows: int
) -> None:
    """Adds records, ordered by label, to the sums of questions that go by this label in blocks of so many rows."""
    for start in range(0, len(records), rows):
        block = records.rows(slice(start, start + rows))
        padded = block.rows(np.minimum(np.arange(rows), len(block) - 1)) if len(block) < rows else block
        shared: Shared = {}
        for name, task in tasks.items():
            seen = 0
            for first, vectors in parts_of(task.feature_map, padded, shared):
                seen += _add_part(totals.sums[name], vectors, block.rows(slice(first, first + len(vectors))), task)
            if seen != rows:
                raise OptionError(f"a feature map returned {seen} vectors for {rows} records.")


def _add_part(
    sums: npt.NDArray[np.int64], vectors: npt.NDArray[np.float32], records: EncodedTable, task: SumTask
) -> int:
    """Adds vectors, of which the first ones are those of `records`, the rest padding; returns how many they were."""
    if vectors.ndim != 2 or vectors.shape[1] != task.feature_map.dim:
        raise OptionError(f"a feature map returned shape {vectors.shape}, not (rows, {task.feature_map.dim}).")
    if len(records):
        quantised = task.grid.quantise(vectors)
        for column, members in _by_label(records, task.label):
            sums[column] += quantised[members].sum(axis=0, dtype=np.int32)
    return len(vectors)


def _by_label(records: EncodedTable, label: int | None) -> Iterator[tuple[int, slice]]:
    """Yields where the records of each label stand, in records ordered by label."""
    if label is None:
        yield 0, slice(0, len(records))
        return
    if not len(records):  # as when a unit fills a batch with records beyond its limit
        return
    labels = records.codes[:, label]
    starts = np.flatnonzero(np.diff(labels, prepend=-1)).tolist()
    for start, end in zip(starts, [*starts[1:], len(labels)], strict=True):
        yield int(labels[start]), slice(start, end)


def _add_looked_up(
    sums: npt.NDArray[np.int64], records: EncodedTable, features: RandomFourier, table: npt.NDArray[np.int32]
) -> None:
    # A pair of int32 moves as one int64. Memory is taken once: fresh pages for each block would cost more than sums.
    pairs = np.ascontiguousarray(table).view(np.int64)[:, 0]
    work = np.empty((min(TABLE_ROWS, len(records)), len(features.members)), dtype=np.int64)
    for angles in features.angle_blocks(records, TABLE_ROWS):
        vectors = pairs.take(angles, out=work[: len(angles)], mode="clip").view(np.int32)
        sums += vectors.sum(axis=0, dtype=np.int32)
