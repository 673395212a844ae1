"""The exact sum of quantised vectors over records, block by block, and the threads that take it (G-07).

Every vector goes through `Grid.quantise`, but those of maps in `REVIEWED` that look up
or count what they add, which are checked in integers (`ExactMap.exact_sum`). Every
engine gives the same bits, since the sum is exact (G-07).
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
from noisegate.gate.execution import Execution, Shared, block_rows, blocks, parts_of
from noisegate.gate.samples import HeldGradients, StepTask
from noisegate.privacy.grid import Grid, check_room
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
"""The maps whose statement of their own norm is taken, since it has a proof: of `ExactMap`, exactly these classes."""
ENCODED = frozenset(
    {
        "noisegate_images.queries.perceptual.EncodedFourier",
        "noisegate_papers.queries.votes.ImageVotes",
    }
)
"""The maps of which only the `encoding` is probed: they hide what it rounds, and each row follows from one of its."""


def is_reviewed(kind: type, names: frozenset[str] = REVIEWED) -> bool:
    """Returns whether a class is one of `names` itself: neither a subclass nor another one of that name."""
    return (
        f"{kind.__module__}.{kind.__qualname__}" in names
        and getattr(sys.modules.get(kind.__module__), kind.__qualname__, None) is kind
    )


@dataclass(frozen=True, kw_only=True)
class SumTask:
    """One question, ready to be summed."""

    feature_map: FeatureMap  # record to vector
    grid: Grid  # where vectors are clipped and rounded
    columns: int  # number of columns of the answer
    label: (
        int | None
    )  # which coded column chooses a record's column; None when there is one column
    chosen: Execution | None = None
    """How the map is computed, where that was found out; None for blocks of `block_rows`."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickled without what is found out of it, which may hold locks."""
        return {name: value for name, value in vars(self).items() if name != "exact"}

    @property
    def execution(self) -> Execution:
        """How the map is computed."""
        return self.chosen or Execution(rows=block_rows(self.feature_map))

    @cached_property
    def exact(self) -> ExactSum | None:
        """The map's own sum in integers, if it has one and no vector can need clipping."""
        known = is_reviewed(type(self.feature_map)) and isinstance(
            self.feature_map, ExactMap
        )
        found = self.feature_map.exact_sum(self.grid) if known else None  # type: ignore[attr-defined]
        return (
            found
            if found is not None and found.squared_norm <= self.grid.bound.units**2
            else None
        )

    @property
    def takes_parts(self) -> bool:
        """Whether records that count in part can be summed: by counts in integers, and nothing else (G-31)."""
        return self.exact is not None and self.exact.weighted


class Totals:
    """Exact int64 sums, one matrix (columns, dim) a question, and the number of records seen. Merging is addition."""

    def __init__(self, tasks: Mapping[str, SumTask]) -> None:
        self.records = 0
        self.sums = {
            name: np.zeros((task.columns, task.feature_map.dim), dtype=np.int64)
            for name, task in tasks.items()
        }

    def merge(self, other: Totals) -> None:
        """Adds `other`; exact, so the order of merging does not matter."""
        self.count(other.records)
        for name, values in other.sums.items():
            self.sums[name] += values

    def count(self, records: int) -> None:
        """Adds to the number of records; to be called before their vectors are added."""
        self.records += records
        check_room(self.records)


def sum_records(records: EncodedTable, tasks: Mapping[str, SumTask]) -> Totals:
    """Returns the exact sums over `records`, any number of rows."""
    totals = Totals(tasks)
    add_records(totals, records, tasks)
    return totals


def add_records(
    totals: Totals, records: EncodedTable, tasks: Mapping[str, SumTask]
) -> None:
    """Adds the vectors of `records`, any number of rows, to `totals`."""
    totals.count(len(records))
    if isinstance(records, WeightedRows) and not all(
        task.takes_parts for task in tasks.values()
    ):
        raise OptionError(
            "a record that counts in part was given to a map that adds whole ones only."
        )
    together: dict[tuple[int | None, Execution], dict[str, SumTask]] = {}
    for name, task in tasks.items():
        if task.exact is None:
            together.setdefault((task.label, task.execution), {})[name] = task
            continue
        ordered = _ordered(records, task.label)
        for column, rows in _by_label(ordered, task.label):
            task.exact.add(totals.sums[name][column], ordered.rows(rows))
    for (label, execution), group in together.items():
        with execution.kernels():
            for block, padded in blocks(_ordered(records, label), execution.rows):
                shared: Shared = {}
                for name, task in group.items():
                    _add_block(totals.sums[name], block, padded, task, shared)


def _ordered(records: EncodedTable, label: int | None) -> EncodedTable:
    return (
        records
        if label is None
        else records.rows(np.argsort(records.codes[:, label], kind="stable"))
    )


def _add_block(
    sums: npt.NDArray[np.int64],
    block: EncodedTable,
    padded: EncodedTable,
    task: SumTask,
    shared: Shared,
) -> None:
    """Adds the vectors of a block's records, ordered by label; those of the padding are left out."""
    seen = 0
    for first, vectors in parts_of(task.feature_map, padded, shared):
        if vectors.ndim != 2 or vectors.shape[1] != task.feature_map.dim:
            raise OptionError(
                f"a feature map returned shape {vectors.shape}, not (rows, {task.feature_map.dim})."
            )
        seen += len(vectors)
        if first < len(block):
            quantised = task.grid.quantise(vectors)
            for column, members in _by_label(
                block.rows(slice(first, first + len(vectors))), task.label
            ):
                sums[column] += quantised[members].sum(axis=0, dtype=np.int32)
    if seen != len(padded):
        raise OptionError(
            f"a feature map returned {seen} vectors for {len(padded)} records."
        )


def _by_label(records: EncodedTable, label: int | None) -> Iterator[tuple[int, slice]]:
    if label is None:
        yield 0, slice(0, len(records))
    elif len(
        records
    ):  # none, as when a unit fills a batch with records beyond its limit
        labels = records.codes[:, label]
        starts = np.flatnonzero(np.diff(labels, prepend=-1)).tolist()
        for start, end in zip(starts, [*starts[1:], len(labels)], strict=True):
            yield int(labels[start]), slice(start, end)


Progress = Callable[[int], None]
"""Called with the number of records summed so far. It is shown to the operator only."""


class Engine(Protocol):
    """Sums feature vectors over all records of a source.

    Attributes:
        one_core: Whether torch computes on one thread wherever it sums.
        in_parts: Whether it sums records that count in part, those of linked tables.
    """

    one_core: ClassVar[bool] = False
    in_parts: ClassVar[bool] = False

    def check(self, source: Any, *, sums: bool, device: str = "cpu") -> None:
        """Refuses what it cannot do, before anything is spent; by default nothing.

        Of the source no record is read; `sums` says whether sums of vectors or of gradients are asked for, since other
        kinds of query read the records by themselves, and `device` where torch is to compute gradients.

        Raises:
            OptionError: if it cannot sum these records, or the query would pass it by.
        """
        return

    def opened(self) -> AbstractContextManager[Engine]:
        """Returns what the rounds of one run are summed by, in a ``with`` block around them; by default this engine."""
        return nullcontext(self)

    def sum(
        self, source: Any, tasks: Mapping[str, SumTask], progress: Progress | None
    ) -> Totals:
        """Returns the exact totals over all records of `source`, from `unread` or from its parts."""
        ...

    def hold(self, source: Any, task: StepTask, progress: Progress | None) -> Any:
        """Reads all records of `source` for the steps of a session; by default into the memory of this process."""
        held = HeldGradients(task)
        held.add(0, source, progress)
        return held


@dataclass(frozen=True, kw_only=True)
class LocalEngine(Engine):
    """Sums on `threads` threads of this machine; by default one for each usable core.

    NumPy releases the interpreter lock, and only a few batches are in memory at a time.
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
        """Returns the exact totals over all records of `source`; memory does not grow with their number."""
        spare: list[
            Totals
        ] = []  # as many as there are threads, at most: with many cells, each may be large
        done = 0

        def encode_and_sum(read: Callable[[], EncodedTable]) -> int:
            records = read()
            try:
                totals = spare.pop()
            except IndexError:
                totals = Totals(tasks)
            add_records(totals, records, tasks)
            spare.append(totals)
            return len(records)

        # Each worker is one thread; matrix products inside must not start more.
        with (
            gate_threads(),
            closing(self._each(encode_and_sum, source.unread())) as sizes,
        ):
            for rows in sizes:
                done += rows
                if progress:
                    progress(done)
        totals = spare.pop() if spare else Totals(tasks)
        for part in spare:
            totals.merge(part)
        return totals

    def _each(
        self,
        work: Callable[[Callable[[], EncodedTable]], int],
        unread: Iterable[Callable[[], EncodedTable]],
    ) -> Generator[int]:
        """Yields what `work` returns of each batch, in order: in this thread if it is the only one, which reads too."""
        if self.threads == 1:
            yield from map(work, unread)
            return
        waiting: deque[Future[int]] = deque()
        with ThreadPoolExecutor(self.threads) as pool:
            try:
                for read in unread:
                    waiting.append(pool.submit(work, read))
                    if len(waiting) > 2 * self.threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
