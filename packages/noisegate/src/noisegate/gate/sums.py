"""Exact sums of the records' vectors, and the threads that take them (G-07).

Vectors are rounded to integers on a grid and added as integers, so the sum is exact,
and the same bits whatever the order and the engine (G-07)::

    records ──► blocks ──► vectors, float32 ──► Grid.quantise ──► Totals, int64
       │                                                             ▲
       └──── maps with an exact sum of their own (ExactMap) ─────────┘

Maps in `REVIEWED` that look up or count what they add pass by the vectors: their
integers are checked in `ExactMap.exact_sum`.

How to read it: `SumTask` is one question, `add_records` sums a batch, and `LocalEngine`
sums all batches of a source on threads.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from noisegate.devices import gate_threads, usable_cores
from noisegate.errors import OptionError
from noisegate.gate.execution import (
    Execution,
    Shared,
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
"""Maps whose bound of their own norm is believed, since it is proved: exactly these
classes, of which those that are an `ExactMap` are summed by it."""
ENCODED = frozenset(
    {
        "noisegate_images.queries.perceptual.EncodedFourier",
        "noisegate_papers.queries.votes.ImageVotes",
    }
)
"""Maps of which only the `encoding` is tried on made-up records. They hide what it
rounds, and each of their rows follows from one row of the encoding."""


def is_reviewed(map_class: type, names: frozenset[str] = REVIEWED) -> bool:
    """Returns whether a class is one of the named ones itself.

    A subclass is not, and neither is another class that claims the same name: the class
    must be what its module holds under that name.

    Args:
        map_class: The class of a map.
        names: Full names of classes.
    """
    module = sys.modules.get(map_class.__module__)
    has_name = f"{map_class.__module__}.{map_class.__qualname__}" in names
    return has_name and getattr(module, map_class.__qualname__, None) is map_class


@dataclass(frozen=True, kw_only=True)
class SumTask:
    """One question, ready to be summed."""

    feature_map: FeatureMap
    """From a record to its vector."""
    grid: Grid
    """On which vectors are clipped and rounded."""
    columns: int
    """Number of columns of the answer."""
    label: int | None
    """Index of the coded column whose code is a record's column of the answer; None
    when the answer has one column."""
    probed_execution: Execution | None = None
    """How the map is computed, if that was tried; None for blocks of `block_rows`."""

    def __getstate__(self) -> dict[str, Any]:
        """Returns the fields without the cached `exact`, which may hold locks."""
        return {name: value for name, value in vars(self).items() if name != "exact"}

    @property
    def execution(self) -> Execution:
        """How the map is computed: as was tried, else in blocks of `block_rows`."""
        return self.probed_execution or Execution(rows=block_rows(self.feature_map))

    @cached_property
    def exact(self) -> ExactSum | None:
        """The map's own sum in integers; None if vectors are quantised one by one.

        It is used if the map is reviewed, and only if none of its vectors can be
        outside the ball, as it does not clip.
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
    def takes_parts(self) -> bool:
        """Whether records that count in part can be summed.

        Only counts in integers can (G-31).
        """
        return self.exact is not None and self.exact.weighted


class Totals:
    """Exact sums of some records, and the number of these records; all private.

    Attributes:
        records: Number of records.
        sums: For each question, its sum in grid units, (columns, dim) int64.

    Args:
        tasks: The questions, by name.
    """

    def __init__(self, tasks: Mapping[str, SumTask]) -> None:
        self.records = 0
        self.sums = {
            name: np.zeros((task.columns, task.feature_map.dim), dtype=np.int64)
            for name, task in tasks.items()
        }

    def merge(self, other: Totals) -> None:
        """Adds the sums of other records. In integers, so in any order.

        Raises:
            DataError: if there are too many records for 64 bits.
        """
        self.count(other.records)
        for name, values in other.sums.items():
            self.sums[name] += values

    def count(self, records: int) -> None:
        """Adds to the number of records; to be called before their vectors are added.

        Raises:
            DataError: if there are too many records for 64 bits.
        """
        self.records += records
        check_record_limit(self.records)


def sum_records(records: EncodedTable, tasks: Mapping[str, SumTask]) -> Totals:
    """Returns the exact sums of the questions over records, any number of rows."""
    totals = Totals(tasks)
    add_records(totals, records, tasks)
    return totals


def add_records(
    totals: Totals, records: EncodedTable, tasks: Mapping[str, SumTask]
) -> None:
    """Adds the vectors of records to the totals of all questions.

    Questions whose maps are computed alike share the blocks, and what their maps have
    in common is computed once for each block.

    Args:
        totals: Sums so far; changed in place.
        records: Any number of rows.
        tasks: The questions, by name.

    Raises:
        OptionError: if records that count in part are given to a map that cannot add
            them, or a map returns another shape than it states.
    """
    totals.count(len(records))
    if isinstance(records, WeightedRows) and not all(
        task.takes_parts for task in tasks.values()
    ):
        raise OptionError(
            "a record that counts in part was given to a map that adds whole ones only."
        )

    tasks_by_blocks: dict[tuple[int | None, Execution], dict[str, SumTask]] = {}
    for name, task in tasks.items():
        if task.exact is None:
            block_key = (task.label, task.execution)
            tasks_by_blocks.setdefault(block_key, {})[name] = task
        else:
            sorted_records = _sorted_by_label(records, task.label)
            for column, rows in _rows_by_label(sorted_records, task.label):
                task.exact.add(totals.sums[name][column], sorted_records.rows(rows))

    for (label, execution), block_tasks in tasks_by_blocks.items():
        sorted_records = _sorted_by_label(records, label)
        with execution.kernels():
            for block, padded in blocks(sorted_records, execution.rows):
                shared: Shared = {}
                for name, task in block_tasks.items():
                    _add_block(totals.sums[name], block, padded, task, shared)


def _add_block(
    sums: npt.NDArray[np.int64],
    block: EncodedTable,
    padded: EncodedTable,
    task: SumTask,
    shared: Shared,
) -> None:
    """Adds the vectors of one block of records to the sum of one question.

    Args:
        sums: The sum in grid units, (columns, dim); changed in place.
        block: Records, sorted by label.
        padded: The same records, filled up to the fixed number of rows of a block. Maps
            are called with these; vectors of the padding are left out.
        task: The question.
        shared: What other maps have computed for this block.

    Raises:
        OptionError: if the map returns another shape than it states.
    """
    dim = task.feature_map.dim
    vector_count = 0
    for first_row, vectors in compute_in_parts(task.feature_map, padded, shared):
        if vectors.ndim != 2 or vectors.shape[1] != dim:
            raise OptionError(
                f"a feature map returned shape {vectors.shape}, not (rows, {dim})."
            )
        vector_count += len(vectors)
        is_all_padding = first_row >= len(block)
        if is_all_padding:
            continue
        quantised = task.grid.quantise(vectors)
        part = block.rows(slice(first_row, first_row + len(vectors)))
        for column, rows in _rows_by_label(part, task.label):
            # A block has at most BLOCK_LIMIT records, so its sum fits into int32.
            sums[column] += quantised[rows].sum(axis=0, dtype=np.int32)
    if vector_count != len(padded):
        raise OptionError(
            f"a feature map returned {vector_count} vectors for {len(padded)} records."
        )


def _sorted_by_label(records: EncodedTable, label: int | None) -> EncodedTable:
    """Returns records in ascending order of a coded column, ties in their order.

    Args:
        records: The records.
        label: Index of the coded column; None leaves the records as they are.
    """
    if label is None:
        return records
    return records.rows(np.argsort(records.codes[:, label], kind="stable"))


def _rows_by_label(
    records: EncodedTable, label: int | None
) -> Iterator[tuple[int, slice]]:
    """Yields, for each label that occurs, its code and the rows that have it.

    Args:
        records: Records, sorted by label; without a label in any order.
        label: Index of the coded column; None yields all rows as code 0.
    """
    if label is None:
        yield 0, slice(0, len(records))
        return
    # A batch may be empty, as when all its records are beyond their units' limits.
    if not len(records):
        return
    codes = records.codes[:, label]
    # A run of equal codes starts where the difference is not zero; no code is -1.
    starts = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
    ends = [*starts[1:], len(codes)]
    for start, end in zip(starts, ends, strict=True):
        yield int(codes[start]), slice(start, end)


Progress = Callable[[int], None]
"""Called with the number of records summed so far, which is private: for the operator
only."""


class Engine(Protocol):
    """Where sums over all records of a source are taken: this machine, or a cluster.

    Attributes:
        one_core: Whether torch computes on one thread wherever the engine sums.
        in_parts: Whether it sums records that count in part: rows of linked tables,
            which have a weight of at most 1.
    """

    one_core: ClassVar[bool] = False
    in_parts: ClassVar[bool] = False

    def check(self, source: Any, *, sums: bool, device: str = "cpu") -> None:
        """Refuses what the engine cannot do, before anything is spent.

        By default it refuses nothing.

        Args:
            source: The private records, none of which is read.
            sums: Whether the query is one of sums of vectors or of gradients. Others
                read the records themselves, without the engine.
            device: Where torch is to compute gradients.

        Raises:
            OptionError: if it cannot sum these records, or is of no use to the query.
        """
        return

    def opened(self) -> AbstractContextManager[Engine]:
        """Opens the engine for all rounds of one run, in a ``with`` block around them.

        Returns:
            What sums the rounds; by default this engine, which need not be opened.
        """
        return nullcontext(self)

    def sum(
        self, source: Any, tasks: Mapping[str, SumTask], progress: Progress | None
    ) -> Totals:
        """Sums all records of a source.

        Args:
            source: The private records, read by `batch_readers` or in parts.
            tasks: The questions, by name.
            progress: Called with the number of records summed so far.

        Returns:
            The exact totals; private.
        """
        ...

    def hold(self, source: Any, task: StepTask, progress: Progress | None) -> Any:
        """Reads all records of a source into memory, for the steps of a session.

        Args:
            source: The private records.
            task: The sums that all steps ask for.
            progress: Called with the number of records read so far.

        Returns:
            What has `records`, their number, and `total(step, parameters)`; by default
            `HeldGradients` in the memory of this process.
        """
        held_gradients = HeldGradients(task)
        held_gradients.add_part(0, source, progress)
        return held_gradients


@dataclass(frozen=True, kw_only=True)
class LocalEngine(Engine):
    """Sums on threads of this machine.

    NumPy releases the interpreter lock, and only a few batches are in memory at a time.

    Attributes:
        threads: How many threads; by default one for each usable core.

    Raises:
        OptionError: if that is not a positive integer.
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
        """Sums all records of a source; memory does not grow with their number.

        Args:
            source: The private records, read by `batch_readers`.
            tasks: The questions, by name.
            progress: Called with the number of records summed so far.

        Returns:
            The exact totals; private.
        """
        # Totals that no thread is adding to. There are at most as many as threads,
        # since each may be large. `pop` and `append` of a list are atomic.
        idle_totals: list[Totals] = []

        def encode_and_sum(read_batch: Callable[[], EncodedTable]) -> int:
            """Reads a batch and adds it to idle totals; returns its number of rows."""
            records = read_batch()
            try:
                totals = idle_totals.pop()
            except IndexError:
                totals = Totals(tasks)
            add_records(totals, records, tasks)
            idle_totals.append(totals)
            return len(records)

        records_done = 0
        # Each worker is one thread; matrix products inside must not start more.
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
        """Does some work on each batch of records, on the threads.

        With one thread, the caller's own reads and works.

        Args:
            work: Takes a function that reads a batch, and returns its number of rows.
            batch_readers: Functions that read one batch each.

        Yields:
            What `work` returns, in the order of the batches.
        """
        if self.threads == 1:
            yield from map(work, batch_readers)
            return
        pending: deque[Future[int]] = deque()
        # A few batches more than threads, so that no thread waits for this one.
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
