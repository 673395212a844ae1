"""Sums on the machines of a Ray cluster (G-29, G-33).

Descriptions of parts of the records go to workers, exact totals come back; noise is
drawn in this process. The totals are private like the records. So the cluster, its
object store and its network must be as private as the records.

All workers must compute as this process does. One on another processor, with other
versions, or that sums simulated records to other integers, is refused.

How to read it: `RayEngine` is what a user gives the gate, and joins a cluster or starts
one; `_WorkerRounds` sums by its workers, in passes (`engines.ray_round`).
"""

import math
import os
import re
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

from noisegate.devices import usable_cores
from noisegate.errors import OptionError, require, said
from noisegate.gate.engines.ray_round import Pass, Pool, SumJob
from noisegate.gate.samples import HeldGradients, Integers, StepTask
from noisegate.gate.sums import OpenEngine, Progress, SumTask, Totals, hold_here
from noisegate.sources.tables.tables import Source

MIN_PARTS_PER_WORKER = 8
"""With this number of parts for each worker, or more, all workers hold nearly as many
records. Every step of a training waits for the worker with most records."""
ANSWER_SECONDS = 10.0
"""How long an address may take to answer."""
FIRST_WITH_TOKEN = (2, 59)
"""First version of Ray whose clusters for one process require a token."""

# Ray takes names of levels too, though its types do not say so.
_LOGGING_LEVEL: Any = "ERROR"
# Ray starts slowly on a busy machine, and waits only seconds for its own processes.
_START_ATTEMPTS = 2
# How a connection of HTTP/2 begins, which Ray speaks: a preface, and an empty frame of
# settings. A frame has three bytes of length, one of its kind, and five more. The
# answer begins with a frame of settings too.
_SETTINGS_KIND = b"\x04"
_LENGTH_SIZE = 3
_GREETING = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + bytes(_LENGTH_SIZE)
    + _SETTINGS_KIND
    + bytes(5)
)


@dataclass(frozen=True, kw_only=True)
class RayEngine:
    """Sums tables and images in files on a Ray cluster, bit for bit as one machine.

    Every machine must see the files under the same path, and must have the same
    processor and the same installation as the machine that runs this. Needs the extra
    ``ray``.

    Attributes:
        address: ``HOST:PORT`` of the head of a cluster that this machine is part of, or
            "auto"; None for processes of this machine. A process can join one cluster
            only. If it has joined one before, that cluster is used, whatever the
            address.
        workers: Number of worker processes, of one core each; None for one on each
            core.
        part_bytes: Approximate number of bytes that a worker reads at a time. They are
            read again if the worker is lost.
        wait_seconds: How long, in seconds, a run waits for its first worker if all
            cores of the cluster are busy.

    Raises:
        OptionError: if a number is not positive.

    Examples:
        >>> from noisegate import RayEngine
        >>> RayEngine(workers=2).part_bytes
        33554432
    """

    one_core: ClassVar[bool] = True
    in_parts: ClassVar[bool] = True

    address: str | None = None
    workers: int | None = None
    part_bytes: int = 1 << 25
    wait_seconds: float = 120.0

    def __post_init__(self) -> None:
        for name in ("workers", "part_bytes"):
            value = getattr(self, name)
            is_positive_integer = (
                isinstance(value, int) and not isinstance(value, bool) and value >= 1
            )
            if value is not None and not is_positive_integer:
                raise OptionError(f"{name}={value!r} must be a positive whole number.")
        if not self.wait_seconds > 0:
            raise OptionError(
                f"wait_seconds={self.wait_seconds!r} must be a positive number of "
                "seconds."
            )

    def check(self, source: Any, *, sums: bool, device: str = "cpu") -> None:
        """Joins the cluster, and refuses a query that workers cannot sum.

        This check runs before anything is spent. So a cluster that cannot be joined
        costs nothing.

        Args:
            source: The private records, which must be in files.
            sums: Whether the query is a sum of vectors or of gradients. Workers can
                compute no others.
            device: Device on which torch computes gradients. Workers have only the CPU.

        Raises:
            OptionError: if the query, the device or the source does not fit, or no
                cluster can be joined.
        """
        if not sums:
            raise OptionError(
                "engine='ray': this method asks for more than sums over the records, "
                "in an order that one machine keeps; choose one that sums vectors or "
                "gradients, such as pairwise or dp-cgan, or leave it out"
            )
        if device != "cpu":
            raise OptionError(
                f"device={device!r}: workers of engine='ray' compute on the CPU; give "
                f"{said('device', 'cpu')}, or leave the engine out"
            )
        source.check_can_be_split()
        self._join_cluster()

    @contextmanager
    def opened(self) -> Iterator[OpenEngine]:
        """Opens the engine for all rounds of one run, and ends its workers afterwards.

        A round is one pass over the records. Workers start in the first round, and
        serve all rounds.

        Yields:
            The object that sums each round, a `_WorkerRounds`.
        """
        self._join_cluster()
        pool = Pool(worker_count=self._worker_count(), wait_seconds=self.wait_seconds)
        try:
            yield _WorkerRounds(pool, self.part_bytes)
        finally:
            pool.close()

    def sum(
        self,
        source: Source[Any],
        tasks: Mapping[str, SumTask],
        progress: Progress | None,
    ) -> Totals:
        """Sums the vectors of all records with workers that end with this call.

        Args:
            source: The private records, which can be split into parts.
            tasks: The sum to take for each query, by name of the query.
            progress: Called with the number of records summed so far.

        Returns:
            The exact totals; private.
        """
        with self.opened() as rounds:
            return rounds.sum(source, tasks, progress)

    def hold(
        self, source: Source[Any], task: StepTask, progress: Progress | None
    ) -> Any:
        """Reads all records into this process: workers would end with this call."""
        return hold_here(source, task, progress)

    def _join_cluster(self) -> None:
        """Makes this process part of a cluster, unless it is part of one already.

        With an address, it joins that cluster; without one, it starts a cluster on this
        machine for this process alone.

        Raises:
            OptionError: if no cluster can be joined or started.
        """
        require("ray", "engine='ray'")
        import ray

        # Ray lets a process be in one cluster only. Whoever has joined it to one, an
        # earlier run or the program around it, has chosen, and other work may continue
        # there: so it is neither left nor compared with the address.
        if ray.is_initialized():
            return
        # A library of privacy does not tell others that it runs.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if self.address is None:
            self._start_local_cluster()
            return
        self._check_reachable(self.address)
        try:
            ray.init(self.address, log_to_driver=False, logging_level=_LOGGING_LEVEL)
        except Exception as error:
            # Ray documents no errors of `init`, and raises those of several libraries.
            # Their type says what matters; their text is about Ray's own processes.
            raise self._unreachable(type(error).__name__) from None

    def _worker_count(self) -> int:
        """Returns how many workers to hire in the cluster that was joined.

        These are the option `workers`, or else one for each core of the cluster.
        """
        import ray

        # As `Any`, since Ray's types lack this function.
        cluster: Any = ray
        resources: Mapping[str, float] = cluster.cluster_resources()
        return self.workers or max(int(resources.get("CPU", 1)), 1)

    def _start_local_cluster(self) -> None:
        """Starts Ray on this machine, for this process alone.

        The token is protected before Ray starts, as its ports are open from then on.

        Raises:
            OptionError: if it cannot be started, or would be open to other users.
        """
        import ray

        _check_protected()
        _keep_token_private()
        for _ in range(_START_ATTEMPTS):
            try:
                ray.init(
                    "local",
                    num_cpus=self.workers or usable_cores(),
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=_LOGGING_LEVEL,
                )
                return
            except Exception as error:
                ray.shutdown()
                error_type = type(error).__name__
        raise OptionError(
            f"engine='ray': Ray could not be started on this machine ({error_type}; "
            "its logs lie in the folder ray of the temporary files); try again when "
            "less runs here, or give the address of a cluster"
        )

    def _check_reachable(self, address: str) -> None:
        """Checks that Ray answers at an address, within seconds.

        Ray itself would wait minutes for an address that does not answer. So a
        connection of HTTP/2, which Ray speaks, is begun here first, and its answer is
        examined.

        Args:
            address: ``HOST:PORT``, or "auto", which is not checked.

        Raises:
            OptionError: if nothing answers there, or something other than Ray.
        """
        if address == "auto":
            return
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise self._unreachable("no HOST:PORT")
        # The brackets of an address of IPv6 are left out.
        endpoint = (host.strip("[]"), int(port))
        try:
            with socket.create_connection(endpoint, ANSWER_SECONDS) as connection:
                connection.sendall(_GREETING)
                answer = connection.recv(_LENGTH_SIZE + 1)
                is_ray = answer[_LENGTH_SIZE:] == _SETTINGS_KIND
        except (OSError, OverflowError) as error:
            problem = getattr(error, "strerror", None) or type(error).__name__
            raise self._unreachable(problem) from None
        if not is_ray:
            raise self._unreachable("the server there is not Ray")

    def _unreachable(self, reason: str) -> OptionError:
        """Returns the error of a cluster that cannot be joined.

        Args:
            reason: Why not, for the message.
        """
        return OptionError(
            f"address={self.address!r}: no Ray cluster could be joined ({reason}); run "
            "on a machine of the cluster, with HOST:PORT of the one where `ray start "
            "--head` runs, or 'auto', and with RAY_AUTH_MODE=token where it asks for a "
            "token; or leave the address out for this machine alone"
        )


def _check_protected() -> None:
    """Checks that a cluster which Ray starts on this machine will require a token.

    Without a token, other users of the machine who reach the ports of the cluster could
    run code in it, and read the records.

    Raises:
        OptionError: if the installed Ray is too old for tokens, or the environment
            turns them off.
    """
    installed_version = version("ray")
    release = tuple(int(part) for part in re.findall(r"\d+", installed_version)[:2])
    if release < FIRST_WITH_TOKEN:
        needed_version = ".".join(map(str, FIRST_WITH_TOKEN))
        raise OptionError(
            f"engine='ray': Ray {installed_version} starts a cluster that asks for no "
            "token, so other users of this machine could reach the records; install "
            f"Ray {needed_version} or later (`pip install 'noisegate[ray]'`), or leave "
            "the engine out"
        )
    mode = os.environ.get("RAY_AUTH_MODE", "token")
    if mode.lower() != "token":
        raise OptionError(
            f"engine='ray': RAY_AUTH_MODE={mode} in the environment turns off the "
            "token of the cluster that would be started here, so other users of this "
            "machine could reach the records; remove the variable"
        )


def _keep_token_private() -> None:
    """Creates the file of Ray's token, readable by its owner alone.

    Ray itself would create it readable by other users. An existing file keeps its
    token, which other clusters of this user have, and is closed to other users. If the
    environment names a token, no file is needed, and nothing is done.
    """
    if os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH"):
        return
    path = Path.home() / ".ray" / "auth_token"
    with suppress(OSError):  # Ray says what is wrong with its folder
        path.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            path.chmod(0o600)
            return
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32))


@dataclass(frozen=True)
class _WorkerRounds:
    """Sums the rounds of one run, and holds records for its steps; an `OpenEngine`.

    Attributes:
        pool: The workers of the run.
        part_bytes: About how many bytes of a file a part has. A part is what a worker
            reads at a time.
    """

    pool: Pool
    part_bytes: int

    def sum(
        self,
        source: Source[Any],
        tasks: Mapping[str, SumTask],
        progress: Progress | None,
    ) -> Totals:
        """Sums the vectors of all records, in one pass of the workers.

        After an error all workers are ended, since some of them may still read for
        this round.

        Args:
            source: The private records, which can be split into parts.
            tasks: The sum to take for each query, by name of the query.
            progress: Called with the number of records summed so far.

        Returns:
            The exact totals; private.

        Raises:
            DataError: if there are no records, too many workers are lost, or a part
                cannot be read.
            OptionError: if no worker can begin, or a worker computes differently from
                this process.
        """
        parts = list(source.split_into_parts(self.part_bytes, self.pool.worker_count))
        try:
            totals: Totals = Pass(
                self.pool, parts, SumJob(tasks), source.schema.layout, progress
            ).totals()
        except BaseException:
            self.pool.close()
            raise
        if not totals.records:
            raise source.no_records_error()
        return totals

    def hold(
        self, source: Source[Any], task: StepTask, progress: Progress | None
    ) -> Any:
        """Reads all records into the memory of the workers, for the steps of a session.

        The records are split so that all workers hold nearly as many: into many parts,
        of which each worker takes the same number; or, where the files are too small
        for that, into one share for each worker, which is every n-th record.

        Args:
            source: The private records, which can be split.
            task: What all steps have in common: gradients, samples, representation.
            progress: Called with the number of records read so far.

        Returns:
            The records: their number is `record_count`, and `total(step, parameters)`
            sums over them.

        Raises:
            DataError: if there are no records.
        """
        worker_count = self.pool.worker_count
        parts = list(source.split_into_parts(self.part_bytes, 1))
        if len(parts) < MIN_PARTS_PER_WORKER * worker_count:
            # Each worker reads all files, and takes its share of each batch.
            parts = list(source.split_into_shares(worker_count, splits_batches=True))
        held_records = _HeldByWorkers(
            Pass(
                self.pool,
                parts,
                HeldGradients(task),
                source.schema.layout,
                progress,
                max_parts_per_worker=math.ceil(len(parts) / worker_count),
            )
        )
        if not held_records.record_count:
            raise source.no_records_error()
        return held_records


@dataclass(frozen=True)
class _HeldByWorkers:
    """Records that workers hold, for the steps of a session.

    Attributes:
        held_pass: The pass in which the workers have read them. Where a worker is lost,
            it has the parts of that worker read again.
    """

    held_pass: Pass

    @property
    def record_count(self) -> int:
        """Number of records; private. Records that no worker holds are read first."""
        return self.held_pass.read_parts()

    def total(self, step: int, parameters: Mapping[str, Any]) -> Integers:
        """Sums the clipped gradients of a step's sample, over all workers.

        Args:
            step: Number of the step, from 0, by which the sample is drawn.
            parameters: Parameters at which gradients are taken, by name.

        Returns:
            The exact sum, (count,), in grid units; private.
        """
        import ray

        # Stored once in the cluster, for all workers.
        stored_parameters = ray.put(dict(parameters))
        total: Integers = self.held_pass.totals(step, stored_parameters)
        return total
