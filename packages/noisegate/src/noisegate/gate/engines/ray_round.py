"""One pass over the records by workers of a Ray cluster, some of which may be lost.

The records come in parts, such as a stretch of a file. A description of each part goes
to a worker, which reads it and keeps its sums; records never leave a worker, exact sums
over all its parts do::

    this process                     worker
    begin(job) ───────────────────►  starts from nothing
               ◄───────────────────  fingerprint: it must compute like this process
    add(part)  ───────────────────►  reads the part, adds it to its sums
               ◄───────────────────  number of records, or an error
    totals()   ───────────────────►
               ◄───────────────────  which parts, and their sums

The parts of a worker that is lost go to others. Every part is in the sum once: the
workers say which parts their sums are of, and this is checked (G-29, G-33).

How to read it: `Pass` is the side of this process, `Worker` the other one; `Job` is
what a worker does with its parts.
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

MAX_LOSSES = 3
"""How many workers may be lost over one part: a part that ends every worker would be
read for ever."""
PROGRESS_SECONDS = 0.5
"""How often whoever waits is told that the pass goes on, and can stop it."""


@dataclass(kw_only=True, eq=False)
class Pool:
    """The workers that are hired, for all passes of a run.

    Attributes:
        workers: How many there are at most, of one core each.
        wait_seconds: How long a pass waits for its first one.
        actors: Ray's handles of those that are hired.
        current_pass: The pass whose parts they hold; None before the first.
    """

    workers: int
    wait_seconds: float
    actors: list[Any] = field(default_factory=list)
    current_pass: Pass | None = None

    def hire(self) -> Any:
        """Hires one more worker, which starts once the cluster has a core for it.

        Returns:
            Ray's handle of it.
        """
        import ray

        actor = ray.remote(Worker).options(num_cpus=1).remote()
        self.actors.append(actor)
        return actor

    def dismiss(self, actor: Any) -> None:
        """Ends a worker, whether it lives or not; it is never asked again."""
        import ray

        self.actors.remove(actor)
        # It may be gone, or out of reach, and nobody asks it any more.
        with suppress(Exception):
            ray.kill(actor)

    def close(self) -> None:
        """Ends all workers. A second call finds none; a later pass hires others."""
        for actor in list(self.actors):
            self.dismiss(actor)


@dataclass(eq=False)
class _Shift:
    """What one worker has done in a pass.

    Attributes:
        actor: Ray's handle of it.
        has_begun: Whether it has begun the job, and computes like this process.
        parts: Number of records of each part that it holds, by number of the part.
    """

    actor: Any
    has_begun: bool = False
    parts: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Call:
    """What a worker is doing.

    Attributes:
        shift: The worker, in this pass.
        part: Number of the part that it reads; None for a worker that begins.
    """

    shift: _Shift
    part: int | None


class Pass:
    """One pass of a job over all parts, and sums over them, as often as they are asked.

    A worker gets one call at a time: `begin`, then `add` for part after part. So
    `_calls` has one entry at most for each worker, and a worker without one is idle.

    Args:
        pool: The workers.
        parts: Descriptions of the parts.
        job: What a worker does with its parts.
        layout: Columns of the records, for the fingerprint.
        progress: Called with the number of records read so far.
        max_parts_per_worker: How many parts a worker takes while others may still
            begin; None for as many as it can.

    Raises:
        OptionError: if the job cannot be sent to workers.
    """

    def __init__(
        self,
        pool: Pool,
        parts: Sequence[Part],
        job: Job,
        layout: Layout,
        progress: Progress | None,
        max_parts_per_worker: int | None = None,
    ) -> None:
        import ray

        self._pool = pool
        self._parts = parts
        self._job = job
        self._progress = progress
        if max_parts_per_worker is None:
            self._max_parts_per_worker = len(parts)
        else:
            self._max_parts_per_worker = max_parts_per_worker
        self._fingerprint = fingerprint(job, layout)
        try:
            # The job is stored once in the cluster, for all workers.
            self._begin_arguments = ray.put(job), layout
        except (TypeError, PicklingError) as error:
            raise OptionError(
                "engine='ray': a map or a loss of this method cannot be sent to "
                f"workers ({type(error).__name__}): let it hold no lock, file, "
                "generator or thread; or leave the engine out"
            ) from None

        # Numbers of the parts that no worker has taken, ascending.
        self._unread: list[int] = []
        self._shifts: list[_Shift] = []
        # What workers are doing, by Ray's handle of the call.
        self._calls: dict[Any, _Call] = {}
        # Errors of parts, by number of the part.
        self._errors: dict[int, Exception] = {}
        # How many workers were lost over each part; under None, those that read no part
        # then, but began, or summed.
        self._losses: Counter[int | None] = Counter()
        # When a worker was hired last.
        self._hired_at = 0.0

    def totals(self, *question: Any) -> Any:
        """Returns the exact totals over all parts.

        Args:
            question: What the job's `total` takes.

        Raises:
            DataError: if too many workers are lost, or a part cannot be read.
            OptionError: if no worker can begin, or one computes differently.
        """
        while True:
            self.read_parts()
            totals = self._merged_totals(*question)
            if totals is not None:
                return totals
            # A worker was lost: its parts are read again.

    def read_parts(self) -> int:
        """Makes workers read all parts that none of them holds.

        Where another pass has used the workers in between, these are all parts.

        Returns:
            Number of records; private.
        """
        if self._pool.current_pass is not self:
            self._start_over()
        self._wait_for_parts()
        return self._record_count

    @property
    def _record_count(self) -> int:
        """Number of records that workers hold; private."""
        return sum(sum(shift.parts.values()) for shift in self._shifts)

    def _start_over(self) -> None:
        """Begins with all parts; workers let go of what they hold of other passes."""
        self._pool.current_pass = self
        self._unread = list(range(len(self._parts)))
        self._shifts = []
        self._calls = {}
        self._errors = {}
        self._losses = Counter()
        self._hired_at = time.monotonic()
        while len(self._pool.actors) < min(self._pool.workers, len(self._parts)):
            self._pool.hire()
        for actor in self._pool.actors:
            self._begin_shift(actor)

    def _begin_shift(self, actor: Any) -> None:
        """Makes a worker begin with the job; its answer is taken by `_take_result`."""
        shift = _Shift(actor)
        self._shifts.append(shift)
        call = actor.begin.remote(*self._begin_arguments)
        self._calls[call] = _Call(shift, None)

    def _wait_for_parts(self) -> None:
        """Gives out parts until workers have read all of them.

        Raises:
            OptionError: if no worker can begin.
            Exception: the error of the first part that has one.
        """
        import ray

        while self._unread or self._reads_a_part:
            self._give_out_parts()
            ended_calls, _ = ray.wait(
                list(self._calls), num_returns=1, timeout=PROGRESS_SECONDS
            )
            for call in ended_calls:
                self._take_result(call)
            if self._progress:
                self._progress(self._record_count)
            nobody_has_begun = not any(shift.has_begun for shift in self._shifts)
            if self._is_wait_over and nobody_has_begun:
                raise OptionError(
                    "engine='ray': no worker could begin within "
                    f"{self._pool.wait_seconds:g} seconds: every core of the cluster "
                    "is at work, or its machines do not answer (`ray status` tells "
                    "which); wait until others are done, or give a longer wait_seconds"
                )
        if self._errors:
            raise self._errors[self._first_failed_part]

    @property
    def _reads_a_part(self) -> bool:
        """Whether a worker is reading a part."""
        return any(call.part is not None for call in self._calls.values())

    def _give_out_parts(self) -> None:
        """Gives each idle worker a part, as long as there are any."""
        busy_shifts = {id(call.shift) for call in self._calls.values()}
        # Once the wait is over, those who have begun take all that is left.
        if self._is_wait_over:
            max_parts = len(self._parts)
        else:
            max_parts = self._max_parts_per_worker
        for shift in self._shifts:
            is_idle = id(shift) not in busy_shifts
            if self._unread and is_idle and len(shift.parts) < max_parts:
                part = self._unread.pop(0)
                call = shift.actor.add.remote(part, self._parts[part])
                self._calls[call] = _Call(shift, part)

    @property
    def _is_wait_over(self) -> bool:
        """Whether a worker that was hired last should have begun by now."""
        return time.monotonic() - self._hired_at > self._pool.wait_seconds

    def _take_result(self, call: Any) -> None:
        """Takes the result of a call of a worker, or replaces a worker that was lost.

        Args:
            call: Ray's handle of a call that has ended.

        A part with an error stays read: it would fail again. Of the parts that are
        unread then, only those before it are given out.

        Raises:
            OptionError: if the worker computes differently from this process.
            DataError: if too many workers are lost.
        """
        import ray

        ended_call = self._calls.pop(call)
        shift = ended_call.shift
        part = ended_call.part
        try:
            result = ray.get(call)
        except ray.exceptions.RayError:
            self._replace_worker(shift, part)
            return
        if part is None:
            if result != self._fingerprint:
                raise OptionError(
                    "engine='ray': a worker computes in another way than this process, "
                    "on another processor or with other versions, so that a record's "
                    "vector would depend on who reads it; run fit on a machine like "
                    "the workers', all with the same installation"
                )
            shift.has_begun = True
        elif isinstance(result, Exception):
            self._errors[part] = result
            self._unread = self._still_needed(self._unread)
        else:
            # Nothing is logged: how many parts there are tells the size of the private
            # files.
            shift.parts[part] = result

    def _replace_worker(self, shift: _Shift, part: int | None) -> None:
        """Hires another worker for one that was lost; its parts are read again.

        The sums of a lost worker are lost with it, so all its parts are unread again,
        not only the one that it was reading. Its calls are forgotten and it is killed:
        if it was only out of reach, nothing that it still answers counts beside what
        others read of the same parts.

        Example: worker A has summed parts 0 and 3 and is lost while it reads part 5;
        parts 7 and 8 are unread. Then 0, 3, 5, 7 and 8 are.

        After an error nobody takes over the parts of the worker, and `_merged_totals`
        refuses to add up without them.

        What a change must keep: each part is in the sums once. The tests
        `test_a_lost_worker_changes_no_total` and
        `test_a_part_that_ends_every_worker_is_given_up` watch over this.

        Args:
            shift: The worker that was lost.
            part: Number of the part that it read then; None if it began or summed.

        Raises:
            DataError: if more than `MAX_LOSSES` were lost over this part.
        """
        self._losses[part] += 1
        # Neither worker nor part is named; see `_take_result`.
        LOG.warning("%s", json.dumps({"event": "worker lost"}))
        # From here on nobody waits for it, and its parts are in no sum.
        self._shifts.remove(shift)
        self._calls = {
            handle: call
            for handle, call in self._calls.items()
            if call.shift is not shift
        }
        self._pool.dismiss(shift.actor)
        if self._losses[part] > MAX_LOSSES:
            if part is None:
                stage = "before they began"
            else:
                stage = "over the same part of the records"
            raise DataError(
                f"engine='ray': {MAX_LOSSES + 1} workers were lost {stage}; look into "
                "the logs of Ray: maybe they had no memory left (a smaller part_bytes, "
                "fewer workers), or noisegate is not installed there"
            )
        lost_parts = [*shift.parts] + ([] if part is None else [part])
        # Ascending, as the first unread part is given out first.
        self._unread = sorted(self._still_needed([*self._unread, *lost_parts]))
        self._begin_shift(self._pool.hire())
        # The wait for the new worker begins: until it ends, those at work take no more
        # than their share, and the new one gets some of the lost parts.
        self._hired_at = time.monotonic()

    def _still_needed(self, parts: Sequence[int]) -> list[int]:
        """Returns those parts that stand before the first one with an error.

        Only they can decide which error is raised: that of the first part.
        """
        return [part for part in parts if part < self._first_failed_part]

    @property
    def _first_failed_part(self) -> int:
        """Number of the first part with an error; the number of parts if none has."""
        return min(self._errors, default=len(self._parts))

    def _merged_totals(self, *question: Any) -> Any:
        """Adds up the totals of all workers, and checks that each part is in them once.

        The parts that a worker names must be those that this process has counted for
        it, none may be named twice, and together they must be all. All workers are
        asked before the first answer is awaited, so that they sum at the same time.

        Args:
            question: What the job's `total` takes.

        Returns:
            The totals; None if a worker was lost by now.

        Raises:
            Exception: what stopped a worker.
            RuntimeError: if a part is in no sum, or in two.
        """
        import ray

        calls = [
            (shift, shift.actor.totals.remote(*question))
            for shift in self._shifts
            if shift.parts
        ]
        totals: list[Any] = []
        summed_parts: set[int] = set()
        for shift, call in calls:
            try:
                result = ray.get(call)
            except ray.exceptions.RayError:
                # What the others have answered is dropped, as they will be asked again.
                self._replace_worker(shift, None)
                return None
            if isinstance(result, Exception):
                raise result
            parts, total = result
            if parts != shift.parts or not summed_parts.isdisjoint(parts):
                raise RuntimeError("a part of the records is in no sum, or in two")
            summed_parts.update(parts)
            totals.append(total)
        if summed_parts != set(range(len(self._parts))):
            raise RuntimeError("a part of the records is in no sum")
        self._losses.clear()  # the next question counts anew
        return self._job.merge_totals(totals)


# By these, beside the processor, numerical libraries choose their kernels.
_PACKAGES = ("noisegate", "numpy", "pyarrow", "scipy", "torch", "torchvision")
_ENVIRONMENT_VARIABLES = (
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "OPENBLAS_CORETYPE",
    "NPY_DISABLE_CPU_FEATURES",
    "ATEN_CPU_CAPABILITY",
)
# How the lines of /proc/cpuinfo begin that describe the processor.
_PROCESSOR_LINES = (
    "vendor_id",
    "cpu family",
    "model",
    "stepping",
    "flags",
    "CPU ",
    "Features",
)
# Seeds the made-up records of fingerprints.
_FINGERPRINT_SEED = 20261123


class SumJob:
    """Sums the questions of one round over the parts of a worker.

    Args:
        tasks: The questions, by name.
    """

    def __init__(self, tasks: Mapping[str, SumTask]) -> None:
        self._tasks = tasks

    @cached_property
    def _totals(self) -> Totals:
        """The sums so far.

        They are made in the worker: arrays that Ray brings there cannot be written to.
        """
        return Totals(self._tasks)

    def add_part(self, number: int, part: Part) -> int:
        """Adds the records of a part to the sums.

        Args:
            number: Number of the part; not used.
            part: The part.

        Returns:
            Number of its records.
        """
        totals = LocalEngine(threads=1).sum(part, self._tasks, None)
        self._totals.merge(totals)
        return totals.records

    def total(self) -> Totals:
        """Returns the sums so far; private."""
        return self._totals

    def merge_totals(self, totals_of_workers: Sequence[Totals]) -> Totals:
        """Adds up the sums of several workers."""
        merged_totals = Totals(self._tasks)
        for totals in totals_of_workers:
            merged_totals.merge(totals)
        return merged_totals

    def probe_sums(
        self, layout: Layout, random: np.random.Generator
    ) -> Iterator[npt.NDArray[np.int64]]:
        """Yields sums over made-up records, for comparison between machines.

        They are of one record, of a full block, and of one more.

        Args:
            layout: Columns of the records.
            random: Draws the records.

        Yields:
            The sum of each question, (columns, dim), in grid units.
        """
        for rows in (1, BLOCK_ROWS, BLOCK_ROWS + 1):
            records = Encoded([made_up_records(layout, rows, random)])
            totals = LocalEngine(threads=1).sum(records, self._tasks, None)
            yield from (totals.sums[name] for name in sorted(totals.sums))


Job: TypeAlias = SumJob | HeldGradients
"""What a worker does with the parts that it is given; it can be pickled before it has
any."""


class Worker:
    """One process of the cluster, with the parts that it holds for its job."""

    def __init__(self) -> None:
        self._job: Job = SumJob({})
        # Number of records of each part, by number of the part.
        self._parts: dict[int, int] = {}

    def begin(self, job: Job, layout: Layout) -> str:
        """Begins a job, from nothing.

        Args:
            job: The job.
            layout: Columns of the records.

        Returns:
            The fingerprint of this process.
        """
        self._job = job
        self._parts = {}
        return fingerprint(job, layout)

    def add(self, number: int, part: Part) -> int | Exception:
        """Takes a part, once.

        A second call with the same number adds nothing, and a part that fails adds
        nothing either. `test_a_repeated_part_counts_once` watches over this.

        Args:
            number: Number of the part.
            part: Its description.

        Returns:
            Number of its records; or what stopped it.
        """
        if number not in self._parts:
            result = _result_or_error(partial(self._job.add_part, number, part))
            if isinstance(result, Exception):
                return result
            self._parts[number] = result
        return self._parts[number]

    def totals(self, *question: Any) -> tuple[Mapping[int, int], Any] | Exception:
        """Returns the sums over the parts that were taken.

        Args:
            question: What the job's `total` takes.

        Returns:
            Number of records of each part that is in the sums, and the sums; or what
            stopped it.
        """
        result = _result_or_error(partial(self._job.total, *question))
        if isinstance(result, Exception):
            return result
        return self._parts, result


def _result_or_error(work: Callable[[], Any]) -> Any:
    """Returns what some work returns, or its error.

    The message of an unforeseen error is left out: it may quote a record.
    """
    try:
        return work()
    except UserError as error:
        return error
    except Exception as error:
        last_frame = traceback.extract_tb(error.__traceback__)[-1]
        file_name = Path(last_frame.filename).name
        return RuntimeError(
            f"{type(error).__name__} in a worker, {file_name}, line {last_frame.lineno}"
        )


def fingerprint(job: Job, layout: Layout) -> str:
    """Hashes all that decides on the bits of sums in this process.

    That is its processor, versions and settings, and, as a trial, the integers that
    made-up records add up to.

    Args:
        job: The job.
        layout: Columns of the made-up records.

    Returns:
        SHA-256 in hexadecimal.
    """
    random = np.random.Generator(np.random.Philox(_FINGERPRINT_SEED))
    versions = [(name, _version(name)) for name in _PACKAGES]
    settings = [(name, os.environ.get(name)) for name in _ENVIRONMENT_VARIABLES]
    digest = hashlib.sha256(repr((_processor(), sys.version, versions)).encode())
    digest.update(repr(settings).encode())
    for sums in job.probe_sums(layout, random):
        digest.update(sums.tobytes())
    return digest.hexdigest()


def _processor() -> tuple[str, ...]:
    """Returns a description of the processor."""
    lines: set[str] = set()
    with suppress(OSError):  # there is no such file but on Linux
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        lines = {
            line for line in text.splitlines() if line.startswith(_PROCESSOR_LINES)
        }
    return platform.machine(), platform.processor(), *sorted(lines)


def _version(package: str) -> str | None:
    """Returns the version of an installed package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
