"""One pass over parts of the records by workers of a Ray cluster, some of which may be lost on the way.

Whoever loses a worker loses its parts, and gives them to others; what a lost worker holds is never asked for. So each
part is in exactly one of the totals that are merged, however often it was read (G-29).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from noisegate.data.tables.parts import Part
from noisegate.errors import DataError, OptionError
from noisegate.gate.engines.worker import Worker, fingerprint
from noisegate.gate.sums import Progress, SumTask, Totals
from noisegate.schema import Layout

LOSSES = 3
"""So many workers may be lost over one part: one that ends every worker would be read for ever."""


@dataclass(eq=False)
class _Hired:
    """A worker, and how many records of which parts it has summed."""

    actor: Any
    parts: dict[int, int] = field(default_factory=dict)


class Round:
    """One pass over the parts, by so many workers.

    Args:
        parts: Of the records, each once.
        tasks: What is summed.
        layout: Of the records.
        progress: Called with the number of records summed so far.
    """

    def __init__(
        self, parts: Sequence[Part], tasks: Mapping[str, SumTask], layout: Layout, progress: Progress | None
    ) -> None:
        import ray

        self._parts, self._tasks, self._progress = parts, tasks, progress
        self._alike = fingerprint(tasks, layout)
        self._given = ray.put(dict(tasks)), layout
        self._left = list(range(len(parts)))
        self._workers: list[_Hired] = []
        self._running: dict[Any, tuple[_Hired, int | None]] = {}  # None for a worker that is starting
        self._errors: dict[int, Exception] = {}
        self._losses = Counter[int | None]()

    def totals(self, workers: int) -> Totals:
        """Returns the exact totals over all parts; whatever happens, no worker is left behind."""
        try:
            for _ in range(min(workers, len(self._parts))):
                self._hire()
            while True:
                self._read()
                if (totals := self._merged()) is not None:
                    return totals
        finally:
            for worker in list(self._workers):
                self._dismiss(worker)

    def _hire(self) -> None:
        import ray

        worker = _Hired(ray.remote(Worker).options(num_cpus=1).remote(*self._given))
        self._workers.append(worker)
        self._running[worker.actor.fingerprint.remote()] = worker, None

    def _dismiss(self, worker: _Hired) -> None:
        import ray

        self._workers.remove(worker)
        self._running = {ref: one for ref, one in self._running.items() if one[0] is not worker}
        with suppress(Exception):  # it is gone, or nobody can reach it: nobody asks it any more
            ray.kill(worker.actor)

    def _read(self) -> None:
        """Gives out parts until each is summed by a worker; raises the error of the first one that has any."""
        import ray

        while self._left or any(number is not None for _, number in self._running.values()):
            busy = {id(worker) for worker, _ in self._running.values()}
            for worker in self._workers:
                if self._left and id(worker) not in busy:
                    number = self._left.pop(0)
                    self._running[worker.actor.add.remote(number, self._parts[number])] = worker, number
            (ready, *_), _ = ray.wait(list(self._running), num_returns=1)
            self._take(ready)
        if self._errors:
            raise self._errors[self._end]

    def _take(self, ready: Any) -> None:
        import ray

        worker, number = self._running.pop(ready)
        try:
            found = ray.get(ready)
        except ray.exceptions.RayError:
            self._lost(worker, number)
            return
        if number is None:
            if found != self._alike:
                raise OptionError(
                    "engine='ray': a worker computes in another way than this process, on another processor or with "
                    "other versions, so that a record's vector would depend on who reads it; run fit on a machine "
                    "like the workers', all with the same installation"
                )
        elif isinstance(found, Exception):
            self._errors[number] = found
            self._left = [one for one in self._left if one < self._end]
        else:
            worker.parts[number] = found
            if self._progress:
                self._progress(sum(sum(one.parts.values()) for one in self._workers))

    def _lost(self, worker: _Hired, number: int | None) -> None:
        """Hires another worker, and gives the parts of a lost one to whoever is free."""
        self._losses[number] += 1
        self._dismiss(worker)
        if self._losses[number] > LOSSES:
            raise DataError(
                f"engine='ray': {LOSSES + 1} workers were lost "
                f"{'before they began' if number is None else f'over part {number + 1} of {len(self._parts)}'}; look "
                "into the logs of Ray: maybe they had no memory left (a smaller part_bytes, fewer workers), or "
                "noisegate is not installed there"
            )
        again = [*worker.parts] + ([] if number is None else [number])
        self._left = sorted(one for one in [*self._left, *again] if one < self._end)
        self._hire()

    @property
    def _end(self) -> int:
        """Behind which part none need be read: the first that has an error, as an earlier one may have one too."""
        return min(self._errors, default=len(self._parts))

    def _merged(self) -> Totals | None:
        """Returns the totals of all workers together, or None if one of them was lost by now."""
        import ray

        totals, seen = Totals(self._tasks), set[int]()
        for worker in [one for one in self._workers if one.parts]:
            try:
                parts, found = ray.get(worker.actor.totals.remote())
            except ray.exceptions.RayError:
                self._lost(worker, None)
                return None
            if parts != worker.parts or not seen.isdisjoint(parts):
                raise RuntimeError("a part of the records is in no sum, or in two")
            seen.update(parts)
            totals.merge(found)
        if seen != set(range(len(self._parts))):
            raise RuntimeError("a part of the records is in no sum")
        return totals
