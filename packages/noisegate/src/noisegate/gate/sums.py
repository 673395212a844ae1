"""Exact sums of the records' vectors, and the threads that take them (G-07).

Vectors are rounded to integers on a grid and added as integers, so the sum is exact:
it has the same bits in every order and by every engine (G-07)::

    records ──► blocks ──► vectors, float32 ──► Grid.quantise ──► Totals, int64
       │                                                             ▲
       └──── maps with an exact sum of their own (ExactMap) ─────────┘

Some maps in `REVIEWED` look up or count what they add. They add integers without
computing a vector for each record; `ExactMap.exact_sum` checks that these integers are
within the norm.

How to read it: `SumTask` is the sum of one query, `add_records` adds a batch, and
`LocalEngine` sums all batches of a source on threads.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from noisegate.devices import gate_threads, usable_cores
from noisegate.errors import OptionError
from noisegate.gate.execution import (
    Execution,
    FirstHalves,
    block_rows,
    blocks,
    compute_in_parts,
)
from noisegate.gate.samples import HeldGradients, StepTask
from noisegate.privacy.grid import Grid, check_record_limit
from noisegate.queries.feature_map import ExactMap, ExactSum, FeatureMap
from noisegate.records import WeightedRows
from noisegate.schema import EncodedTable

REVIEWED = frozenset(
    {
        "noisegate.queries.contingency.Contingency",
        "noisegate_images.queries.fourier.RandomFourier",
        "noisegate_papers.queries.products.Products",
        "noisegate_papers.queries.tangent.NeuralTangent",
        "noisegate_papers.queries.tangent.PairTangents",
        "noisegate_papers.queries.votes.NearestVotes",
    }
)
"""Full names of the map classes that were reviewed: the norm that they state of their
vectors is proved, so it is believed. Those that are an `ExactMap` add up integers of
their own."""
ENCODED = frozenset(
    {
        "noisegate_images.queries.perceptual.EncodedFourier",
        "noisegate_papers.queries.votes.ImageVotes",
    }
)
"""Full names of the map classes whose attribute `encoding` is probed in their place.
The encoding computes in floats; what these maps make of it, such as a vote, would hide
that it rounds. Each of their vectors follows from one row of the encoding."""


def is_reviewed(map_class: type, names: frozenset[str] = REVIEWED) -> bool:
    """Returns whether the class of a map is one of the reviewed classes itself.

    A subclass is not reviewed, and neither is a class that only claims the name: the
    class must be the object that its module holds under that name.

    Args:
        map_class: The class of a map.
        names: Full names of the reviewed classes, such as
            "noisegate.queries.contingency.Contingency".
    """
    module = sys.modules.get(map_class.__module__)
    has_name = f"{map_class.__module__}.{map_class.__qualname__}" in names
    return has_name and getattr(module, map_class.__qualname__, None) is map_class


@dataclass(frozen=True, kw_only=True)
class SumTask:
    """The sum to take for one query: of the records' vectors, clipped on a grid."""

    feature_map: FeatureMap
    """The map from a record to its vector."""
    grid: Grid
    """The grid on which vectors are clipped and rounded to integers."""
    columns: int
    """Number of columns of the answer: 1, or one for each label."""
    label: int | None
    """Index, among the coded columns of the records, of the label: a record's vector is
    added to the column of the answer that its label's code names. None for an answer
    with one column."""
    probed_execution: Execution | None = None
    """How the vectors are computed, if the probe has chosen it; None for blocks of
    `block_rows` records."""

    def __getstate__(self) -> dict[str, Any]:
        """Returns the fields for pickling, without what `exact_sum` has cached.

        An `ExactSum` may hold locks, which cannot be pickled.
        """
        return {part.name: getattr(self, part.name) for part in fields(self)}

    @property
    def execution(self) -> Execution:
        """How the vectors are computed: as probed, else in blocks of `block_rows`."""
        return self.probed_execution or Execution(rows=block_rows(self.feature_map))

    @cached_property
    def exact_sum(self) -> ExactSum | None:
        """What adds up integers of the map's own, without a vector for each record.

        None if the map has nothing of the kind, or is not to be believed: then vectors
        are computed in floats, clipped, and rounded to integers one by one.

        Integers of the map's own are not clipped. So the map must be reviewed, and the
        norm that it states must be within that of the grid.
        """
        is_believed = is_reviewed(type(self.feature_map))
        if not is_believed or not isinstance(self.feature_map, ExactMap):
            return None
        exact_sum = self.feature_map.exact_sum(self.grid)
        if exact_sum is None:
            return None
        stays_in_ball = exact_sum.squared_norm <= self.grid.bound.units**2
        return exact_sum if stays_in_ball else None

    @property
    def accepts_weighted_rows(self) -> bool:
        """Whether rows with a weight below 1 can be summed (G-31).

        Rows of linked tables have weights: those of one unit share what a unit may add.
        Only counts in integers can be weighted exactly.
        """
        return self.exact_sum is not None and self.exact_sum.weighted


class Totals:
    """Exact sums over some records, and the number of these records; all private.

    Attributes:
        records: Number of records.
        sums: The sum for each query, by name, in grid units, (columns, dim) int64.

    Args:
        tasks: The sum to take for each query, by name of the query.
    """

    def __init__(self, tasks: Mapping[str, SumTask]) -> None:
        self.records = 0
        self.sums = {
            name: np.zeros((task.columns, task.feature_map.dim), dtype=np.int64)
            for name, task in tasks.items()
        }

    def merge(self, other: Totals) -> None:
        """Adds the sums over other records. Integers may be added in any order.

        Args:
            other: Totals of the same queries, over records that are not in these.

        Raises:
            DataError: if there are too many records for sums of 64 bits.
        """
        self.count(other.records)
        for name, values in other.sums.items():
            self.sums[name] += values

    def count(self, records: int) -> None:
        """Adds to the number of records; called before their vectors are added.

        Args:
            records: How many records are about to be added.

        Raises:
            DataError: if there are too many records for sums of 64 bits.
        """
        self.records += records
        check_record_limit(self.records)


def sum_records(records: EncodedTable, tasks: Mapping[str, SumTask]) -> Totals:
    """Computes the exact sums of records held in memory, for each query.

    Args:
        records: Any number of records.
        tasks: The sum to take for each query, by name of the query.
    """
    totals = Totals(tasks)
    add_records(totals, records, tasks)
    return totals


def add_records(
    totals: Totals, records: EncodedTable, tasks: Mapping[str, SumTask]
) -> None:
    """Adds the vectors of a batch of records to the exact sum of each query.

    A reviewed map may add up integers of its own (`SumTask.exact_sum`). The vectors of
    any other map are computed in float32, in blocks of a fixed number of records, and
    rounded to integers one by one. Queries with the same label and the same way to
    compute share the blocks, and what their maps have in common is computed once for
    each block.

    What a change must keep: a record adds the same integers whatever other records are
    in the batch. `test_the_sum_is_exact_and_padding_counts_for_nothing` and
    `test_each_label_has_its_own_column` notice when it does not.

    Args:
        totals: Sums so far; changed in place.
        records: A batch of any number of records.
        tasks: The sum to take for each query, by name of the query.

    Raises:
        OptionError: if records have weights and a map cannot add these, or a map
            returns another shape than it states.
        DataError: if there are too many records for sums of 64 bits.
    """
    if isinstance(records, WeightedRows) and not all(
        task.accepts_weighted_rows for task in tasks.values()
    ):
        raise OptionError(
            "a record that counts in part was given to a map that adds whole ones only."
        )
    totals.count(len(records))

    tasks_by_blocks: dict[tuple[int | None, Execution], dict[str, SumTask]] = {}
    for name, task in tasks.items():
        if task.exact_sum is None:
            block_key = (task.label, task.execution)
            tasks_by_blocks.setdefault(block_key, {})[name] = task
        else:
            _add_exact_sum(totals.sums[name], records, task.exact_sum, task.label)

    for (label, execution), block_tasks in tasks_by_blocks.items():
        sorted_records = _sorted_by_label(records, label)
        with execution.kernels():
            for block, padded_block in blocks(sorted_records, execution.rows):
                # Filled by the first map that computes a half, read by the others.
                first_halves: FirstHalves = {}
                for name, task in block_tasks.items():
                    _add_block(
                        totals.sums[name], block, padded_block, task, first_halves
                    )


def _add_exact_sum(
    sums: npt.NDArray[np.int64],
    records: EncodedTable,
    exact_sum: ExactSum,
    label: int | None,
) -> None:
    """Adds the integers that a map itself computes of records to the sum of its query.

    Args:
        sums: The sum in grid units, (columns, dim); changed in place.
        records: Any number of records.
        exact_sum: The map's own sum.
        label: Index of the label among the coded columns; None for one column.
    """
    sorted_records = _sorted_by_label(records, label)
    for column, rows in _rows_by_label(sorted_records, label):
        exact_sum.add(sums[column], sorted_records.rows(rows))


def _add_block(
    sums: npt.NDArray[np.int64],
    block: EncodedTable,
    padded_block: EncodedTable,
    task: SumTask,
    first_halves: FirstHalves,
) -> None:
    """Adds the vectors of one block of records to the sum of one query.

    The map is called with a block of one fixed shape, since the bits of a vector may
    depend on the shape. So a block with fewer records is padded, and the vectors of the
    padding are left out of the sum.

    Args:
        sums: The sum in grid units, (columns, dim); changed in place.
        block: The records of the block, in ascending order of their label.
        padded_block: The same records, and behind them copies of the last one up to the
            fixed number of rows.
        task: The sum to take for the query.
        first_halves: What maps have computed for this block and other maps use, see
            `SharingMap`; what this map computes is added.

    Raises:
        OptionError: if the map returns another shape than it states.
    """
    dim = task.feature_map.dim
    vector_count = 0
    for first_row, vectors in compute_in_parts(
        task.feature_map, padded_block, first_halves
    ):
        if vectors.ndim != 2 or vectors.shape[1] != dim:
            raise OptionError(
                f"a feature map returned shape {vectors.shape}, not (rows, {dim})."
            )
        vector_count += len(vectors)
        is_all_padding = first_row >= len(block)
        if is_all_padding:
            continue
        quantised = task.grid.quantise(vectors)
        # Without the padding, which `quantised` has too.
        records = block.rows(slice(first_row, first_row + len(vectors)))
        for column, rows in _rows_by_label(records, task.label):
            # A block has at most BLOCK_LIMIT records, so its sum fits into int32.
            sums[column] += quantised[rows].sum(axis=0, dtype=np.int32)
    if vector_count != len(padded_block):
        raise OptionError(
            f"a feature map returned {vector_count} vectors for {len(padded_block)} "
            "records."
        )


def _sorted_by_label(records: EncodedTable, label: int | None) -> EncodedTable:
    """Sorts records by their label, in ascending order; ties keep their order.

    Args:
        records: The records.
        label: Index of the label among the coded columns; None leaves the records as
            they are.
    """
    if label is None:
        return records
    return records.rows(np.argsort(records.codes[:, label], kind="stable"))


def _rows_by_label(
    records: EncodedTable, label: int | None
) -> Iterator[tuple[int, slice]]:
    """Yields, for each label that occurs, its code and the rows that have it.

    Args:
        records: Records, in ascending order of their label; without one in any order.
        label: Index of the label among the coded columns; None yields all rows, with
            code 0.

    Yields:
        The code, which is the column of the answer, and the rows of `records`.
    """
    if label is None:
        yield 0, slice(0, len(records))
        return
    # A batch may be empty, as when all its records are beyond their units' limits.
    if not len(records):
        return
    codes = records.codes[:, label]
    # A run of equal codes starts where a code differs from the one before. The first
    # code is compared with -1, which no code is.
    starts = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
    ends = [*starts[1:], len(codes)]
    for start, end in zip(starts, ends, strict=True):
        yield int(codes[start]), slice(start, end)


Progress = Callable[[int], None]
"""Called with the number of records summed so far, which is private: for the operator
only."""


class OpenEngine(Protocol):
    """Sums over all records of a source, in the rounds of one run: an open engine.

    A round is one pass over the records.
    """

    @abstractmethod
    def sum(
        self, source: Any, tasks: Mapping[str, SumTask], progress: Progress | None
    ) -> Totals:
        """Sums the vectors of all records of a source, for each query.

        Args:
            source: The private records, read by `batch_readers` or in parts.
            tasks: The sum to take for each query, by name of the query.
            progress: Called with the number of records summed so far.

        Returns:
            The exact totals; private.
        """

    @abstractmethod
    def hold(self, source: Any, task: StepTask, progress: Progress | None) -> Any:
        """Reads all records of a source into memory, for the steps of a session.

        Args:
            source: The private records.
            task: What all steps have in common: gradients, samples, representation.
            progress: Called with the number of records read so far.

        Returns:
            The records: their number is `record_count`, and `total(step, parameters)`
            sums clipped gradients over a step's sample of them.
        """


class RunEngine(Protocol):
    """What a run needs of an engine: it is opened once, for all rounds.

    Attributes:
        one_core: Whether torch computes on one thread wherever the engine sums.
    """

    one_core: ClassVar[bool]

    @abstractmethod
    def opened(self) -> AbstractContextManager[OpenEngine]:
        """Opens the engine for all rounds of one run, in a ``with`` block around them.

        Returns:
            A context manager of what sums the rounds.
        """


class Engine(RunEngine, OpenEngine, Protocol):
    """Where sums over all records of a source are taken: this machine, or a cluster.

    One that inherits from it has to have `sum` alone: it refuses nothing, need not be
    opened, and holds records in the memory of this process.

    Attributes:
        one_core: Whether torch computes on one thread wherever the engine sums.
        in_parts: Whether the engine sums rows with a weight below 1, which count as
            part of a record: those of linked tables.
    """

    one_core: ClassVar[bool] = False
    in_parts: ClassVar[bool] = False

    def check(self, source: Any, *, sums: bool, device: str = "cpu") -> None:
        """Refuses what the engine cannot do, before anything is spent.

        Args:
            source: The private records, none of which is read.
            sums: Whether the query is one of sums of vectors or of gradients. Other
                kinds of query read the records without the engine.
            device: Where torch is to compute gradients.

        Raises:
            OptionError: if it cannot sum these records, or is of no use to the query.
        """
        return

    def opened(self) -> AbstractContextManager[OpenEngine]:
        """Returns this engine itself, which need not be opened."""
        return nullcontext(self)

    def hold(self, source: Any, task: StepTask, progress: Progress | None) -> Any:
        """Reads all records into the memory of this process; see `OpenEngine.hold`."""
        return hold_here(source, task, progress)


def hold_here(source: Any, task: StepTask, progress: Progress | None) -> HeldGradients:
    """Reads all records into the memory of this process; see `OpenEngine.hold`."""
    held_gradients = HeldGradients(task)
    held_gradients.add_part(0, source, progress)
    return held_gradients


@dataclass(frozen=True, kw_only=True)
class LocalEngine(Engine):
    """Sums on threads of this machine.

    Threads work at the same time, since NumPy releases the interpreter lock. Only a few
    batches are in memory at a time.

    Attributes:
        threads: How many threads; by default one for each usable core.

    Raises:
        OptionError: if `threads` is not a positive integer.
    """

    threads: int = field(default_factory=usable_cores)
    in_parts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if (
            isinstance(self.threads, bool)
            or not isinstance(self.threads, int)
            or self.threads < 1
        ):
            raise OptionError(
                f"threads={self.threads!r} must be a positive whole number."
            )

    def sum(
        self, source: Any, tasks: Mapping[str, SumTask], progress: Progress | None
    ) -> Totals:
        """Sums the vectors of all records of a source, batch by batch, on the threads.

        Memory grows with the number of threads, not with that of records. Which thread
        adds which batch changes nothing: sums of integers have the same bits in every
        order.

        Args:
            source: The private records, read by `batch_readers`.
            tasks: The sum to take for each query, by name of the query.
            progress: Called with the number of records summed so far.

        Returns:
            The exact totals; private.
        """
        # Totals that no thread is adding to at the moment. A thread takes one, or makes
        # one where there is none, and puts it back: so there are at most as many as
        # threads. `pop` and `append` of a list are atomic.
        idle_totals: list[Totals] = []

        def encode_and_sum(read_batch: Callable[[], EncodedTable]) -> int:
            """Reads a batch and adds it to some totals; returns its number of rows."""
            records = read_batch()
            try:
                totals = idle_totals.pop()
            except IndexError:
                totals = Totals(tasks)
            add_records(totals, records, tasks)
            idle_totals.append(totals)
            return len(records)

        records_done = 0
        # Matrix products in a thread must not start threads of their own.
        with (
            gate_threads(),
            closing(
                self._for_each_batch(encode_and_sum, source.batch_readers())
            ) as batch_sizes,
        ):
            for batch_size in batch_sizes:
                records_done += batch_size
                if progress:
                    progress(records_done)

        totals = idle_totals.pop() if idle_totals else Totals(tasks)
        for other in idle_totals:
            totals.merge(other)
        return totals

    def _for_each_batch(
        self,
        work: Callable[[Callable[[], EncodedTable]], int],
        batch_readers: Iterable[Callable[[], EncodedTable]],
    ) -> Generator[int]:
        """Calls a function for each batch of records, on the threads.

        With one thread, it is called in that of the caller. After an error, batches
        that no thread has begun are dropped.

        Args:
            work: Takes a function that reads a batch, and returns its number of rows.
            batch_readers: Functions that read one batch each.

        Yields:
            The number of rows of each batch, in the order of the batches.
        """
        if self.threads == 1:
            yield from map(work, batch_readers)
            return
        pending: deque[Future[int]] = deque()
        # More batches than threads, so that a thread that is done finds another one.
        max_pending = 2 * self.threads
        with ThreadPoolExecutor(self.threads) as pool:
            try:
                for read_batch in batch_readers:
                    pending.append(pool.submit(work, read_batch))
                    if len(pending) > max_pending:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
