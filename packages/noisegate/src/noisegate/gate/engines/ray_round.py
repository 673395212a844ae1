"""One job over parts of the records by workers of a Ray cluster, some of which may be lost on the way (G-29, G-33).

Records never leave a worker, exact sums over all its parts do; the parts of a lost one
go to others.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from pickle import PicklingError
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.errors import DataError, OptionError, UserError
from noisegate.gate.execution import BLOCK_ROWS, Encoded, made_up_records
from noisegate.gate.samples import HeldGradients
from noisegate.gate.sums import LocalEngine, Progress, SumTask, Totals
from noisegate.progress import LOG
from noisegate.schema import Layout
from noisegate.sources.tables.parts import Part

LOSSES = 3  # so many workers may be lost over one part: one that ends every worker would be read for ever
BEAT_SECONDS = 0.5  # how often whoever waits is told that it goes on, and may stop it


@dataclass(kw_only=True, eq=False)
class Pool:
    """The workers that are hired; one that is dismissed is never asked again."""

    workers: int  # how many there are at most, of one core each
    wait_seconds: float  # how long a round waits for its first one
    actors: list[Any] = field(default_factory=list)  # Ray's handles of them
    turn: Any = None  # whose parts they hold

    def hire(self) -> Any:
        """Returns one more worker, which begins as soon as the cluster has a core for it."""
        import ray

        self.actors.append(ray.remote(Worker).options(num_cpus=1).remote())
        return self.actors[-1]

    def dismiss(self, actor: Any) -> None:
        """Ends a worker, whether it lives or not."""
        import ray

        self.actors.remove(actor)
        with suppress(
            Exception
        ):  # it is gone, or nobody can reach it: nobody asks it any more
            ray.kill(actor)

    def close(self) -> None:
        """Ends all workers."""
        for actor in list(self.actors):
            self.dismiss(actor)


@dataclass(eq=False)
class _Shift:
    """What a worker has done: whether it has begun, and how many records of which parts it has taken up."""

    actor: Any
    begun: bool = False
    parts: dict[int, int] = field(default_factory=dict)


class Pass:
    """One pass of `job` over the parts by a pool's workers, and sums over all of them, as often as they are asked for.

    `progress` is called with the number of records taken up so far. A worker takes up `most` parts while others may
    still begin; None for as many as it can.
    """

    def __init__(
        self,
        pool: Pool,
        parts: Sequence[Part],
        job: Job,
        layout: Layout,
        progress: Progress | None,
        most: int | None = None,
    ) -> None:
        import ray

        self._pool, self._parts, self._job, self._progress = pool, parts, job, progress
        self._alike = fingerprint(job, layout)
        try:
            self._given = ray.put(job), layout
        except (TypeError, PicklingError) as error:
            raise OptionError(
                f"engine='ray': a map or a loss of this method cannot be sent to workers ({type(error).__name__}): let "
                "it hold no lock, file, generator or thread; or leave the engine out"
            ) from None
        self._most = len(parts) if most is None else most

    def totals(self, *question: Any) -> Any:
        """Returns the exact totals over all parts."""
        while True:
            self.read()
            if (found := self._merged(*question)) is not None:
                return found

    def read(self) -> int:
        """Makes sure that each part is held by a worker; returns how many records there are."""
        if self._pool.turn is not self:
            self._start()
        self._read()
        return self._records

    @property
    def _records(self) -> int:
        return sum(sum(shift.parts.values()) for shift in self._shifts)

    def _start(self) -> None:
        """Begins with all parts, by workers that let go of what they hold of others."""
        self._pool.turn, self._left = self, list(range(len(self._parts)))
        self._shifts: list[_Shift] = []
        self._running: dict[
            Any, tuple[_Shift, int | None]
        ] = {}  # None for a worker that begins
        self._errors: dict[int, Exception] = {}
        self._losses = Counter[int | None]()
        self._staffed = time.monotonic()
        while len(self._pool.actors) < min(self._pool.workers, len(self._parts)):
            self._pool.hire()
        for actor in self._pool.actors:
            self._begin(actor)

    def _begin(self, actor: Any) -> None:
        self._shifts.append(shift := _Shift(actor))
        self._running[actor.begin.remote(*self._given)] = shift, None

    def _read(self) -> None:
        """Gives out parts until each is taken up by a worker; raises the error of the first one that has any."""
        import ray

        while self._left or any(
            number is not None for _, number in self._running.values()
        ):
            busy = {id(shift) for shift, _ in self._running.values()}
            most = (
                len(self._parts) if self._waited else self._most
            )  # those who have begun take what is left
            for shift in self._shifts:
                if self._left and id(shift) not in busy and len(shift.parts) < most:
                    number = self._left.pop(0)
                    self._running[
                        shift.actor.add.remote(number, self._parts[number])
                    ] = shift, number
            ready, _ = ray.wait(
                list(self._running), num_returns=1, timeout=BEAT_SECONDS
            )
            for call in ready:
                self._take(call)
            if self._progress:
                self._progress(self._records)
            if self._waited and not any(shift.begun for shift in self._shifts):
                raise OptionError(
                    f"engine='ray': no worker could begin within {self._pool.wait_seconds:g} seconds: every core of "
                    "the cluster is at work, or its machines do not answer (`ray status` tells which); wait until "
                    "others are done, or give a longer wait_seconds"
                )
        if self._errors:
            raise self._errors[self._end]

    @property
    def _waited(self) -> bool:
        return time.monotonic() - self._staffed > self._pool.wait_seconds

    def _take(self, call: Any) -> None:
        import ray

        shift, number = self._running.pop(call)
        try:
            found = ray.get(call)
        except ray.exceptions.RayError:
            self._lost(shift, number)
            return
        if number is None:
            if found != self._alike:
                raise OptionError(
                    "engine='ray': a worker computes in another way than this process, on another processor or with "
                    "other versions, so that a record's vector would depend on who reads it; run fit on a machine "
                    "like the workers', all with the same installation"
                )
            shift.begun = True
        elif isinstance(found, Exception):
            self._errors[number] = found
            self._left = [one for one in self._left if one < self._end]
        else:
            # Nothing is logged: how many parts there are tells the size of the private files.
            shift.parts[number] = found

    def _lost(self, shift: _Shift, number: int | None) -> None:
        self._losses[number] += 1
        LOG.warning("%s", json.dumps({"event": "worker lost"}))
        self._shifts.remove(shift)
        self._running = {
            call: one for call, one in self._running.items() if one[0] is not shift
        }
        self._pool.dismiss(shift.actor)
        if self._losses[number] > LOSSES:
            raise DataError(
                f"engine='ray': {LOSSES + 1} workers were lost "
                f"{'before they began' if number is None else 'over the same part of the records'}; look "
                "into the logs of Ray: maybe they had no memory left (a smaller part_bytes, fewer workers), or "
                "noisegate is not installed there"
            )
        again = [*shift.parts] + ([] if number is None else [number])
        self._left = sorted(one for one in [*self._left, *again] if one < self._end)
        self._begin(self._pool.hire())
        self._staffed = time.monotonic()

    @property
    def _end(self) -> int:
        """Behind which part none need be read: the first that has an error, as an earlier one may have one too."""
        return min(self._errors, default=len(self._parts))

    def _merged(self, *question: Any) -> Any:
        """Returns the totals of all workers together, or None if one of them was lost by now."""
        import ray

        asked = [
            (shift, shift.actor.totals.remote(*question))
            for shift in self._shifts
            if shift.parts
        ]
        totals, seen = [], set[int]()
        for shift, call in asked:
            try:
                found = ray.get(call)
            except ray.exceptions.RayError:
                self._lost(shift, None)
                return None
            if isinstance(found, Exception):
                raise found
            parts, total = found
            if parts != shift.parts or not seen.isdisjoint(parts):
                raise RuntimeError("a part of the records is in no sum, or in two")
            seen.update(parts)
            totals.append(total)
        if seen != set(range(len(self._parts))):
            raise RuntimeError("a part of the records is in no sum")
        self._losses.clear()  # what comes now is another question
        return self._job.merged(totals)


# What kernels are chosen by, beside the processor.
_PACKAGES = ("noisegate", "numpy", "pyarrow", "scipy", "torch", "torchvision")
_SETTINGS = (
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "OPENBLAS_CORETYPE",
    "NPY_DISABLE_CPU_FEATURES",
    "ATEN_CPU_CAPABILITY",
)
_PROCESSOR = (
    "vendor_id",
    "cpu family",
    "model",
    "stepping",
    "flags",
    "CPU ",
    "Features",
)


class SumJob:
    """The sums of one round."""

    def __init__(self, tasks: Mapping[str, SumTask]) -> None:
        self._tasks = tasks

    @cached_property
    def _totals(self) -> Totals:
        return Totals(
            self._tasks
        )  # of the worker, as arrays that Ray has brought there cannot be written to

    def add(self, number: int, part: Part) -> int:
        """Adds a part to the totals."""
        found = LocalEngine(threads=1).sum(part, self._tasks, None)
        self._totals.merge(found)
        return found.records

    def total(self) -> Totals:
        """Returns the totals."""
        return self._totals

    def merged(self, found: Sequence[Totals]) -> Totals:
        """Returns totals together."""
        whole = Totals(self._tasks)
        for totals in found:
            whole.merge(totals)
        return whole

    def probe_sums(
        self, layout: Layout, random: np.random.Generator
    ) -> Iterator[npt.NDArray[np.int64]]:
        """Yields the sums of blocks that are full, and that are not."""
        for rows in (1, BLOCK_ROWS, BLOCK_ROWS + 1):
            records = Encoded([made_up_records(layout, rows, random)])
            totals = LocalEngine(threads=1).sum(records, self._tasks, None)
            yield from (totals.sums[name] for name in sorted(totals.sums))


Job: TypeAlias = SumJob | HeldGradients
"""What a worker does with the parts that it is given; it can be pickled before it has any."""


class Worker:
    """One process of the cluster, and the parts that it was given for what it is at."""

    def __init__(self) -> None:
        self._job: Job = SumJob({})
        self._parts = dict[int, int]()

    def begin(self, job: Job, layout: Layout) -> str:
        """Begins a job, from nothing; returns what must be the same wherever its sums are computed."""
        self._job, self._parts = job, {}
        return fingerprint(job, layout)

    def add(self, number: int, part: Part) -> int | Exception:
        """Returns how many records a part has, which is taken up by then, once; or what stopped it."""
        if number not in self._parts:
            found = _told(partial(self._job.add, number, part))
            if isinstance(found, Exception):
                return found
            self._parts[number] = found
        return self._parts[number]

    def totals(self, *question: Any) -> tuple[Mapping[int, int], Any] | Exception:
        """Returns the sums, and how many records of which parts are in them; or what stopped it."""
        found = _told(partial(self._job.total, *question))
        return found if isinstance(found, Exception) else (self._parts, found)


def _told(work: Callable[[], Any]) -> Any:
    """Returns what comes of some work, or its error: without a message, which might quote a record, if unforeseen."""
    try:
        return work()
    except UserError as error:
        return error
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return RuntimeError(
            f"{type(error).__name__} in a worker, {Path(last.filename).name}, line {last.lineno}"
        )


def fingerprint(job: Job, layout: Layout) -> str:
    """Returns a hash of the processor, of versions, and of the integers that made-up records add up to, here."""
    random = np.random.Generator(np.random.Philox(20261123))
    found = hashlib.sha256(
        repr(
            (_processor(), sys.version, [(name, _version(name)) for name in _PACKAGES])
        ).encode()
    )
    found.update(repr([(name, os.environ.get(name)) for name in _SETTINGS]).encode())
    for sums in job.probe_sums(layout, random):
        found.update(sums.tobytes())
    return found.hexdigest()


def _processor() -> tuple[str, ...]:
    lines: set[str] = set()
    with suppress(OSError):
        told = (
            Path("/proc/cpuinfo")
            .read_text(encoding="utf-8", errors="replace")
            .splitlines()
        )
        lines = {line for line in told if line.startswith(_PROCESSOR)}
    return platform.machine(), platform.processor(), *sorted(lines)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
