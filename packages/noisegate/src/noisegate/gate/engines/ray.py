"""Sums on the machines of a Ray cluster: descriptions of parts go to workers, exact totals come back (G-29, G-33).

The totals are private, like the records: so is the cluster, its object store and its
network. Noise is drawn here. All workers must compute alike, and as this process does:
one on another processor, with other versions, or that sums made-up records to other
integers, is refused.
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
from noisegate.gate.sums import Engine, Progress, SumTask, Totals
from noisegate.sources.tables.tables import Source

EVEN = 8  # so many parts for each worker make their shares of the records nearly equal, as steps that wait for all need
ANSWER_SECONDS = 10.0  # how long an address may take to answer
FIRST_WITH_TOKEN = (
    2,
    59,
)  # from this version on, a cluster that Ray starts for one process asks for a token
_SETTINGS = b"\x04"
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + _SETTINGS + bytes(5)
"""How HTTP/2 begins, which Ray speaks; the answer is a frame of settings, whose kind stands behind three bytes."""
_QUIET: Mapping[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}


@dataclass(frozen=True, kw_only=True)
class RayEngine(Engine):
    """Sums parts of tables and images in files in the processes of a Ray cluster, to the bits of one machine.

    Every machine must see the files under the same path, and be like the one that runs this: the same processor, the
    same installation. Needs the extra ``ray``.

    The ``address`` is ``HOST:PORT`` of the head of a cluster that this machine is part of, or "auto"; None is for
    processes of this machine, or for the cluster that this process has joined before. There are so many ``workers``,
    processes of one core each, None for one on each core, and a worker reads about ``part_bytes`` of a file at a time,
    which are read again if it is lost. Where the cluster has no core to spare, a run waits ``wait_seconds`` for its
    first worker.

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
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int) or value < 1
            ):
                raise OptionError(f"{name}={value!r} must be a positive whole number.")
        if not self.wait_seconds > 0:
            raise OptionError(
                f"wait_seconds={self.wait_seconds!r} must be a positive number of seconds."
            )

    def check(self, source: Any, *, sums: bool, device: str = "cpu") -> None:
        """Refuses other records than those in files, and queries that are no sums; joins the cluster."""
        if not sums:
            raise OptionError(
                "engine='ray': this method asks for more than sums over the records, in an order that one machine "
                "keeps; choose one that sums vectors or gradients, such as pairwise or dp-cgan, or leave it out"
            )
        if device != "cpu":
            cure = f"give {said('device', 'cpu')}, or leave the engine out"
            raise OptionError(
                f"device={device!r}: workers of engine='ray' compute on the CPU; {cure}"
            )
        source.check_parts()
        self._join()

    @contextmanager
    def opened(self) -> Iterator[Engine]:
        """Yields the engine of one run, whose workers are hired in its first round and kept for the others."""
        pool = Pool(workers=self._join(), wait_seconds=self.wait_seconds)
        try:
            yield _Rounds(pool, self.part_bytes)
        finally:
            pool.close()

    def sum(
        self,
        source: Source[Any],
        tasks: Mapping[str, SumTask],
        progress: Progress | None,
    ) -> Totals:
        """Returns the exact totals over all records of `source`, by workers of this round alone."""
        with self.opened() as run:
            return run.sum(source, tasks, progress)

    def _join(self) -> int:
        """Makes sure that this process is part of a cluster; returns how many workers there are to be."""
        require("ray", "engine='ray'")
        import ray

        if not ray.is_initialized():
            # A library of privacy does not tell others that it runs.
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            if self.address is None:
                self._start()
            else:
                self._answers(self.address)
                try:
                    ray.init(self.address, **_QUIET)
                except Exception as error:
                    raise self._unreachable(type(error).__name__) from None
        resources: Mapping[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        return self.workers or max(int(resources.get("CPU", 1)), 1)

    def _start(self) -> None:
        """Starts Ray on this machine; twice, as it gives itself few seconds where others are at work."""
        import ray

        _check_protected()
        _keep_token_private()
        for _ in range(2):
            try:
                ray.init(
                    "local",
                    num_cpus=self.workers or usable_cores(),
                    include_dashboard=False,
                    **_QUIET,
                )
                return
            except Exception as error:
                ray.shutdown()
                reason = type(error).__name__
        raise OptionError(
            f"engine='ray': Ray could not be started on this machine ({reason}; its logs lie in the folder ray of the "
            "temporary files); try again when less runs here, or give the address of a cluster"
        )

    def _answers(self, address: str) -> None:
        """Asks whether anybody is there, as Ray would wait for minutes."""
        if address == "auto":
            return
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            raise self._unreachable("no HOST:PORT")
        try:
            with socket.create_connection(
                (host.strip("[]"), int(port)), ANSWER_SECONDS
            ) as there:
                there.sendall(_GREETING)
                reason = (
                    ""
                    if there.recv(4)[3:] == _SETTINGS
                    else "what answers there is no Ray"
                )
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
        if reason:
            raise self._unreachable(reason)

    def _unreachable(self, reason: str) -> OptionError:
        return OptionError(
            f"address={self.address!r}: no Ray cluster could be joined ({reason}); run on a machine of the cluster, "
            "with HOST:PORT of the one where `ray start --head` runs, or 'auto', and with RAY_AUTH_MODE=token where it "
            "asks for a token; or leave the address out for this machine alone"
        )


def _check_protected() -> None:
    """Refuses to start a cluster that asks for no token: whoever reaches its ports would run code beside the records.

    Raises:
        OptionError: if the installed Ray is too old for tokens, or the environment turns them off.
    """
    installed_version = version("ray")
    release = tuple(int(part) for part in re.findall(r"\d+", installed_version)[:2])
    needed = ".".join(map(str, FIRST_WITH_TOKEN))
    if release < FIRST_WITH_TOKEN:
        raise OptionError(
            f"engine='ray': Ray {installed_version} starts a cluster that asks for no token, so other users of this "
            f"machine could reach the records; install Ray {needed} or later (`pip install 'noisegate[ray]'`), or "
            "leave the engine out"
        )
    mode = os.environ.get("RAY_AUTH_MODE", "token")
    if mode.lower() != "token":
        raise OptionError(
            f"engine='ray': RAY_AUTH_MODE={mode} in the environment turns off the token of the cluster that would be "
            "started here, so other users of this machine could reach the records; remove the variable"
        )


def _keep_token_private() -> None:
    """Makes the file of Ray's token, which Ray would make readable by others, or closes it to them."""
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
class _Rounds(Engine):
    """The rounds of one run, and its steps."""

    pool: Pool
    part_bytes: int

    def sum(
        self,
        source: Source[Any],
        tasks: Mapping[str, SumTask],
        progress: Progress | None,
    ) -> Totals:
        parts = list(source.parts(self.part_bytes, self.pool.workers))
        try:
            totals: Totals = Pass(
                self.pool, parts, SumJob(tasks), source.schema.layout, progress
            ).totals()
        except BaseException:
            self.pool.close()  # what its workers are still at belongs to a round that is over
            raise
        if not totals.records:
            raise source.no_records()
        return totals

    def hold(
        self, source: Source[Any], task: StepTask, progress: Progress | None
    ) -> Any:
        workers = self.pool.workers
        parts = list(source.parts(self.part_bytes, 1))
        if len(parts) < EVEN * workers:
            parts = list(source.shares(workers, thinned=True))
        job, most = HeldGradients(task), math.ceil(len(parts) / workers)
        held = _Steps(Pass(self.pool, parts, job, source.schema.layout, progress, most))
        if not held.records:
            raise source.no_records()
        return held


@dataclass(frozen=True)
class _Steps:
    """Records that workers hold, and the steps of a session over them."""

    parts: Pass

    @property
    def records(self) -> int:
        return self.parts.read()

    def total(self, step: int, parameters: Mapping[str, Any]) -> Integers:
        import ray

        total: Integers = self.parts.totals(step, ray.put(dict(parameters)))
        return total
