"""One pass over the records by workers of a Ray cluster, some of which may be lost.

The records come in parts, such as a stretch of a file. A description of each part goes
to a worker, which reads it and keeps its sums; records never leave a worker, but exact
sums over all its parts do::

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
"""How many workers may be lost over one part. Without a limit, a part that kills every
worker which reads it would be read for ever."""
PROGRESS_SECONDS = 0.5
"""How often `progress` is called while workers read. An error in it stops the pass."""


@dataclass(kw_only=True, eq=False)
class Pool:
    """The worker processes of one run, which serve all its passes in turn.

    A worker is one Ray actor: a process of the cluster with one core, which runs an
    object of the class `Worker`.

    Attributes:
        worker_count: How many workers are hired at most.
        wait_seconds: How long a pass waits for the first worker to begin.
        actors: Ray's handles of the workers that are hired, by which they are called.
        current_pass: The pass whose sums the workers hold; None before the first one.
            A worker holds those of one pass at a time.
    """

    worker_count: int
    wait_seconds: float
    actors: list[Any] = field(default_factory=list)
    current_pass: Pass | None = None

    def hire(self) -> Any:
        """Hires one more worker, which starts once the cluster has a core for it.

        Returns:
            Ray's handle of the worker.
        """
        import ray

        actor = ray.remote(Worker).options(num_cpus=1).remote()
        self.actors.append(actor)
        return actor

    def dismiss(self, actor: Any) -> None:
        """Ends a worker, whether it still lives or not; it is not called again.

        Args:
            actor: Ray's handle of the worker.
        """
        import ray

        self.actors.remove(actor)
        # A worker that is gone or out of reach cannot be killed, and need not be.
        with suppress(Exception):
            ray.kill(actor)

    def close(self) -> None:
        """Ends all workers. A second call finds none; a later pass hires others."""
        for actor in list(self.actors):
            self.dismiss(actor)


@dataclass(eq=False)
class _WorkerStatus:
    """What this process knows of one worker in one pass.

    Attributes:
        actor: Ray's handle of the worker.
        has_begun: Whether the worker has begun the job of this pass, and its
            fingerprint was that of this process.
        record_counts: Number of records of each part that is in the worker's sums, by
            index of the part.
    """

    actor: Any
    has_begun: bool = False
    record_counts: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Call:
    """A call of a worker that has not returned yet.

    Attributes:
        worker: The worker that was called.
        part_index: Index of the part that the worker reads; None for a call of `begin`.
    """

    worker: _WorkerStatus
    part_index: int | None


class Pass:
    """Sums all parts of the records on the workers of a pool.

    A part is a piece of the records that one worker reads at a time, such as a stretch
    of a file; it is called by its index in `parts`. Workers read each part once and
    hold the sums, so that `totals` can be asked for again, as in every step of a
    training.

    A worker gets one call at a time: `begin`, then `add` for part after part. So
    `_pending_calls` has at most one entry for each worker, and a worker without one is
    idle.

    Args:
        pool: The workers.
        parts: Descriptions of the parts, from which a worker reads the records.
        job: What a worker does with its parts.
        layout: Columns of the records, for the fingerprint.
        progress: Called with the number of records read so far.
        max_parts_per_worker: How many parts a worker gets while other workers may still
            begin; None for no limit.

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
        self._layout = layout
        self._progress = progress
        if max_parts_per_worker is None:
            self._max_parts_per_worker = len(parts)
        else:
            self._max_parts_per_worker = max_parts_per_worker
        self._fingerprint = fingerprint(job, layout)
        try:
            # Ray's reference to the job, which is stored once for all workers.
            self._stored_job = ray.put(job)
        except (TypeError, PicklingError) as error:
            raise OptionError(
                "engine='ray': a map or a loss of this method cannot be sent to "
                f"workers ({type(error).__name__}): let it hold no lock, file, "
                "generator or thread; or leave the engine out"
            ) from None

        # Indices of the parts that no worker was given, ascending.
        self._unread_parts: list[int] = []
        # The workers of this pass that were not lost.
        self._workers: list[_WorkerStatus] = []
        # Calls that have not returned, by Ray's handle of the call.
        self._pending_calls: dict[Any, _Call] = {}
        # Errors in reading parts, by index of the part.
        self._errors_by_part: dict[int, Exception] = {}
        # Number of workers that were lost while they read a part, by its index; under
        # None, those that were lost while they began or summed.
        self._lost_workers_by_part: Counter[int | None] = Counter()
        # When a worker was hired last, in seconds of the monotonic clock.
        self._last_hired_at = 0.0

    def totals(self, *arguments: Any) -> Any:
        """Computes the exact totals over all parts.

        Where a worker is lost meanwhile, its parts are read again by others, until all
        parts are in the totals.

        Args:
            arguments: Arguments of the job's `total`: none for sums of one round; the
                number of a step and its parameters for gradients.

        Returns:
            What the job's `merge_totals` returns; private.

        Raises:
            DataError: if too many workers are lost, or a part cannot be read.
            OptionError: if no worker can begin, or a worker computes differently from
                this process.
        """
        while True:
            self.read_parts()
            totals = self._merged_totals(*arguments)
            if totals is not None:
                return totals
            # A worker was lost, so its parts are unread again.

    def read_parts(self) -> int:
        """Makes workers read all parts that are in no worker's sums.

        These are all parts in the first call, and where another pass has used the
        workers since the last call.

        Returns:
            Number of records; private.

        Raises:
            DataError: if too many workers are lost, or a part cannot be read.
            OptionError: if no worker can begin, or a worker computes differently from
                this process.
        """
        if self._pool.current_pass is not self:
            self._start_over()
        self._wait_for_parts()
        return self._record_count

    @property
    def _record_count(self) -> int:
        """Number of records in the sums of all workers; private."""
        return sum(sum(worker.record_counts.values()) for worker in self._workers)

    def _start_over(self) -> None:
        """Marks all parts as unread, and makes all workers of the pool begin the job.

        Called when the workers hold no sums, or those of another pass. `Worker.begin`,
        which is called for each of them, replaces the sums of that pass by empty ones.

        What this process knew of workers, calls, errors and losses in an earlier use of
        this pass is forgotten. Workers are hired up to the limit of the pool, but not
        more than there are parts.
        """
        self._pool.current_pass = self
        self._unread_parts = list(range(len(self._parts)))
        self._workers = []
        self._pending_calls = {}
        self._errors_by_part = {}
        self._lost_workers_by_part = Counter()
        self._last_hired_at = time.monotonic()
        needed_workers = min(self._pool.worker_count, len(self._parts))
        while len(self._pool.actors) < needed_workers:
            self._pool.hire()
        for actor in self._pool.actors:
            self._begin_job(actor)

    def _begin_job(self, actor: Any) -> None:
        """Makes a worker begin the job of this pass, from empty sums.

        Does not wait for the worker: `_take_result` takes its fingerprint later.

        Args:
            actor: Ray's handle of the worker.
        """
        worker = _WorkerStatus(actor)
        self._workers.append(worker)
        call_handle = actor.begin.remote(self._stored_job, self._layout)
        self._pending_calls[call_handle] = _Call(worker, None)

    def _wait_for_parts(self) -> None:
        """Gives parts to workers until all parts are read.

        Raises:
            OptionError: if no worker can begin, or a worker computes differently from
                this process.
            DataError: if too many workers are lost.
            Exception: the error in reading the first part that has one.
        """
        import ray

        while self._unread_parts or self._is_reading:
            self._give_out_parts()
            ended_calls, _ = ray.wait(
                list(self._pending_calls), num_returns=1, timeout=PROGRESS_SECONDS
            )
            for call_handle in ended_calls:
                self._take_result(call_handle)
            if self._progress:
                self._progress(self._record_count)
            nobody_has_begun = not any(worker.has_begun for worker in self._workers)
            if self._is_wait_over and nobody_has_begun:
                raise OptionError(
                    "engine='ray': no worker could begin within "
                    f"{self._pool.wait_seconds:g} seconds: every core of the cluster "
                    "is at work, or its machines do not answer (`ray status` tells "
                    "which); wait until others are done, or give a longer wait_seconds"
                )
        if self._errors_by_part:
            raise self._errors_by_part[self._first_failed_part]

    @property
    def _is_reading(self) -> bool:
        """Whether any worker is reading a part."""
        return any(call.part_index is not None for call in self._pending_calls.values())

    def _give_out_parts(self) -> None:
        """Gives the next unread part to each idle worker.

        A worker gets at most `_max_parts_per_worker` parts, so that those that begin
        late get some too. Once the wait for late workers is over, the limit is lifted.
        """
        busy_workers = {id(call.worker) for call in self._pending_calls.values()}
        if self._is_wait_over:
            max_parts = len(self._parts)
        else:
            max_parts = self._max_parts_per_worker
        for worker in self._workers:
            is_idle = id(worker) not in busy_workers
            has_room = len(worker.record_counts) < max_parts
            if self._unread_parts and is_idle and has_room:
                part_index = self._unread_parts.pop(0)
                call_handle = worker.actor.add.remote(
                    part_index, self._parts[part_index]
                )
                self._pending_calls[call_handle] = _Call(worker, part_index)

    @property
    def _is_wait_over(self) -> bool:
        """Whether the worker that was hired last should have begun by now."""
        return time.monotonic() - self._last_hired_at > self._pool.wait_seconds

    def _take_result(self, call_handle: Any) -> None:
        """Takes what a worker has returned, or replaces a worker that was lost.

        A worker returns its fingerprint when it has begun, and the number of records or
        an error when it has read a part. A part with an error is not read again, as it
        would fail again. Of the unread parts, only those before it are still read: one
        of them may have the error that is to be raised, that of the first part.

        Args:
            call_handle: Ray's handle of a call that has ended.

        Raises:
            OptionError: if the worker computes differently from this process.
            DataError: if too many workers are lost.
        """
        import ray

        call = self._pending_calls.pop(call_handle)
        try:
            result = ray.get(call_handle)
        except ray.exceptions.RayError:
            self._replace_worker(call.worker, call.part_index)
            return
        if call.part_index is None:
            self._check_fingerprint(result)
            call.worker.has_begun = True
        elif isinstance(result, Exception):
            self._errors_by_part[call.part_index] = result
            self._unread_parts = self._before_first_error(self._unread_parts)
        else:
            # Not logged: the number of parts tells the size of the private files.
            call.worker.record_counts[call.part_index] = result

    def _check_fingerprint(self, worker_fingerprint: str) -> None:
        """Checks that a worker computes the same bits as this process.

        Args:
            worker_fingerprint: What `fingerprint` has returned in the worker.

        Raises:
            OptionError: if the fingerprint of this process is another one.
        """
        if worker_fingerprint != self._fingerprint:
            raise OptionError(
                "engine='ray': a worker computes in another way than this process, "
                "on another processor or with other versions, so that a record's "
                "vector would depend on who reads it; run fit on a machine like "
                "the workers', all with the same installation"
            )

    def _replace_worker(self, worker: _WorkerStatus, part_index: int | None) -> None:
        """Hires another worker for one that was lost, and has its parts read again.

        The sums of a lost worker are lost with it. So all parts in them are unread
        again, and with them the part that it was reading.

        A worker may be lost only because it is out of reach. So its calls are forgotten
        and it is killed: what it may still return is in no total.

        Example: worker A has summed parts 0 and 3 and is lost while it reads part 5;
        parts 7 and 8 are unread. Then 0, 3, 5, 7 and 8 are unread.

        After an error in some part, the parts behind it are not read again, and
        `_merged_totals` refuses to add up without them.

        What a change must keep: each part is in the totals once. The tests
        `test_a_lost_worker_changes_no_total` and
        `test_a_part_that_ends_every_worker_is_given_up` notice when it is not.

        Args:
            worker: The worker that was lost.
            part_index: Index of the part that it was reading; None if it was lost while
                it began or summed.

        Raises:
            DataError: if more than `MAX_LOSSES` workers were lost over this part.
        """
        self._lost_workers_by_part[part_index] += 1
        # Neither worker nor part is logged: they tell the number of parts, and with it
        # the size of the private files.
        LOG.warning("%s", json.dumps({"event": "worker lost"}))
        self._workers.remove(worker)
        self._pending_calls = {
            call_handle: call
            for call_handle, call in self._pending_calls.items()
            if call.worker is not worker
        }
        self._pool.dismiss(worker.actor)
        if self._lost_workers_by_part[part_index] > MAX_LOSSES:
            raise _too_many_losses(part_index)
        lost_parts = [*worker.record_counts] + (
            [] if part_index is None else [part_index]
        )
        # Ascending, as `_give_out_parts` takes the first one.
        self._unread_parts = sorted(
            self._before_first_error([*self._unread_parts, *lost_parts])
        )
        self._begin_job(self._pool.hire())
        # The wait for the new worker begins. Until it ends, other workers keep to
        # `_max_parts_per_worker`, so that the new one gets some of the lost parts.
        self._last_hired_at = time.monotonic()

    def _before_first_error(self, part_indices: Sequence[int]) -> list[int]:
        """Selects the parts that stand before the first part with an error.

        Args:
            part_indices: Indices of parts, in any order.

        Returns:
            Those below the first index with an error, in the same order; all of them
            if there is no error.
        """
        return [index for index in part_indices if index < self._first_failed_part]

    @property
    def _first_failed_part(self) -> int:
        """Index of the first part with an error; the number of parts without errors."""
        return min(self._errors_by_part, default=len(self._parts))

    def _merged_totals(self, *arguments: Any) -> Any:
        """Adds up the totals of all workers, and checks that each part is in them once.

        Each worker returns, beside its totals, which parts are in them. These must be
        the parts that this process has counted for the worker, no two workers may have
        the same part, and together they must have all parts.

        All workers are called before the first result is awaited, so that they sum at
        the same time.

        Args:
            arguments: Arguments of the job's `total`.

        Returns:
            The totals over all parts; None if a worker was lost meanwhile.

        Raises:
            Exception: an error in a worker.
            RuntimeError: if a part is in no total, or in two.
        """
        import ray

        calls = [
            (worker, worker.actor.totals.remote(*arguments))
            for worker in self._workers
            if worker.record_counts
        ]
        totals_of_workers: list[Any] = []
        summed_parts: set[int] = set()
        for worker, call_handle in calls:
            try:
                result = ray.get(call_handle)
            except ray.exceptions.RayError:
                # What other workers have returned is dropped: they are called again.
                self._replace_worker(worker, None)
                return None
            if isinstance(result, Exception):
                raise result
            record_counts, total = result
            is_as_counted = record_counts == worker.record_counts
            if not is_as_counted or not summed_parts.isdisjoint(record_counts):
                raise RuntimeError("a part of the records is in no sum, or in two")
            summed_parts.update(record_counts)
            totals_of_workers.append(total)
        if summed_parts != set(range(len(self._parts))):
            raise RuntimeError("a part of the records is in no sum")
        # Losses are limited for each call of `totals`, not for a whole training.
        self._lost_workers_by_part.clear()
        return self._job.merge_totals(totals_of_workers)


def _too_many_losses(part_index: int | None) -> DataError:
    """Returns the error of a pass that lost more workers than it may.

    Args:
        part_index: Index of the part over which they were lost; None if they were lost
            while they began or summed. The message does not tell the index.
    """
    if part_index is None:
        stage = "before they began"
    else:
        stage = "over the same part of the records"
    return DataError(
        f"engine='ray': {MAX_LOSSES + 1} workers were lost {stage}; look into "
        "the logs of Ray: maybe they had no memory left (a smaller part_bytes, "
        "fewer workers), or noisegate is not installed there"
    )


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
# Seeds the simulated records of fingerprints.
_FINGERPRINT_SEED = 20261123


class SumJob:
    """Sums the vectors of the records in a worker's parts, for one round of queries.

    Args:
        tasks: The sum to take for each query, by name of the query.
    """

    def __init__(self, tasks: Mapping[str, SumTask]) -> None:
        self._tasks = tasks

    @cached_property
    def _totals(self) -> Totals:
        """Exact sums over the parts that were added so far; private.

        They are created in the worker, when they are first used: arrays that Ray has
        brought there are read-only.
        """
        return Totals(self._tasks)

    def add_part(self, part_index: int, part: Part) -> int:
        """Reads the records of a part and adds them to the sums.

        Args:
            part_index: Index of the part. It is not used here; `HeldGradients`, the
                other kind of job, draws samples by it.
            part: Description of the part, from which its records are read.

        Returns:
            Number of records of the part.
        """
        totals = LocalEngine(threads=1).sum(part, self._tasks, None)
        self._totals.merge(totals)
        return totals.records

    def total(self) -> Totals:
        """Returns the exact sums over the parts that were added so far; private."""
        return self._totals

    def merge_totals(self, totals_of_workers: Sequence[Totals]) -> Totals:
        """Adds up the sums of several workers.

        Args:
            totals_of_workers: What `total` has returned in each worker.
        """
        merged_totals = Totals(self._tasks)
        for totals in totals_of_workers:
            merged_totals.merge(totals)
        return merged_totals

    def probe_sums(
        self, layout: Layout, random: np.random.Generator
    ) -> Iterator[npt.NDArray[np.int64]]:
        """Yields sums over simulated records, by which machines are compared.

        Two machines that round differently give different integers here, so
        `fingerprint` hashes these sums. Kernels may round differently in a block that
        is padded. So the sums are taken over one record, over a full block, and over
        one record more than that.

        Args:
            layout: Columns of the simulated records.
            random: Draws the records.

        Yields:
            The sum for each query, by name in ascending order, (columns, dim), in grid
            units.
        """
        for record_count in (1, BLOCK_ROWS, BLOCK_ROWS + 1):
            records = Encoded([made_up_records(layout, record_count, random)])
            totals = LocalEngine(threads=1).sum(records, self._tasks, None)
            yield from (totals.sums[name] for name in sorted(totals.sums))


Job: TypeAlias = SumJob | HeldGradients
"""What a worker does with the parts that it is given. It is sent to workers, so it must
be picklable before any part was added."""


class Worker:
    """The side of a worker: an object in a process of the cluster, called by `Pass`."""

    def __init__(self) -> None:
        # What is done with the parts; it holds the sums.
        self._job: Job = SumJob({})
        # Number of records of each part that is in the sums, by index of the part.
        self._record_counts: dict[int, int] = {}

    def begin(self, job: Job, layout: Layout) -> str:
        """Begins a job with no parts; sums of an earlier job are dropped.

        Args:
            job: The job.
            layout: Columns of the records, for the fingerprint.

        Returns:
            The fingerprint of this process, see `fingerprint`.
        """
        self._job = job
        self._record_counts = {}
        return fingerprint(job, layout)

    def add(self, part_index: int, part: Part) -> int | Exception:
        """Reads a part and adds its records to the sums, once.

        A second call with the same index adds nothing, and neither does a part that
        fails. `test_a_repeated_part_counts_once` notices if one does.

        Args:
            part_index: Index of the part.
            part: Description of the part, from which its records are read.

        Returns:
            Number of records of the part; or the error that stopped the reading.
        """
        if part_index not in self._record_counts:
            result = _result_or_error(partial(self._job.add_part, part_index, part))
            if isinstance(result, Exception):
                return result
            self._record_counts[part_index] = result
        return self._record_counts[part_index]

    def totals(self, *arguments: Any) -> tuple[Mapping[int, int], Any] | Exception:
        """Returns the exact sums over the parts of this worker; private.

        Args:
            arguments: Arguments of the job's `total`: none for sums of one round; the
                number of a step and its parameters for gradients.

        Returns:
            Number of records of each part that is in the sums, by index of the part,
            and the sums; or the error that stopped the summing.
        """
        result = _result_or_error(partial(self._job.total, *arguments))
        if isinstance(result, Exception):
            return result
        return self._record_counts, result


def _result_or_error(work: Callable[[], Any]) -> Any:
    """Calls a function in a worker, and returns its error instead of raising it.

    Ray passes a raised error on with its message and traceback, which may quote a
    record. So errors are returned as values: of an unforeseen one only its type, and
    the file and line where it was raised.

    Args:
        work: The function.

    Returns:
        The result of the function, or its error.
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
    """Hashes everything that may decide on the bits of sums in this process.

    These are its processor, the versions of its packages, the settings that choose
    numerical kernels, and the integers that simulated records add up to. A worker whose
    fingerprint differs from that of the calling process is refused, since a record's
    vector must not depend on who computes it.

    Args:
        job: The job, which is tried on simulated records.
        layout: Columns of the simulated records.

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
    """Describes the processor of this machine: what kernels are chosen by.

    Returns:
        The architecture, and on Linux the lines of ``/proc/cpuinfo`` that name the
        model and its instruction sets, each once.
    """
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
