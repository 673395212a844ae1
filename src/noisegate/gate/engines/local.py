"""Threads of one machine. NumPy releases the interpreter lock, and only a few batches are in memory at a time."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from threadpoolctl import threadpool_limits

from noisegate.errors import OptionError
from noisegate.gate.engines.engine import Batch, Progress
from noisegate.gate.sums import SumTask, Totals, add_records


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class LocalEngine:
    """Sums on `threads` threads; by default one for each usable core."""

    threads: int = field(default_factory=_usable_cores)

    def __post_init__(self) -> None:
        if isinstance(self.threads, bool) or not isinstance(self.threads, int) or self.threads < 1:
            raise OptionError(f"threads={self.threads!r} must be a positive whole number.")

    def sum(self, batches: Iterable[Batch], tasks: Mapping[str, SumTask], progress: Progress | None) -> Totals:
        """Returns the exact totals over all records in `batches`; memory does not grow with their number."""
        spare: list[Totals] = []  # as many as there are threads, at most: with many cells, each may be large
        waiting: deque[Future[int]] = deque()
        done = 0

        def encode_and_sum(batch: Batch) -> int:
            records = batch() if callable(batch) else batch
            try:
                totals = spare.pop()
            except IndexError:
                totals = Totals(tasks)
            add_records(totals, records, tasks)
            spare.append(totals)
            return len(records)

        def take() -> None:
            nonlocal done
            done += waiting.popleft().result()
            if progress:
                progress(done)

        # Each worker is one thread; matrix products inside must not start more.
        with threadpool_limits(limits=1), ThreadPoolExecutor(self.threads) as pool:
            try:
                for batch in batches:
                    waiting.append(pool.submit(encode_and_sum, batch))
                    if len(waiting) > 2 * self.threads:
                        take()
                while waiting:
                    take()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        totals = spare.pop() if spare else Totals(tasks)
        while spare:
            totals.merge(spare.pop())
        return totals
