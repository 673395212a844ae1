"""What one process of a cluster does: it takes up parts of the records, each once, and says how it computes.

Records never leave it, exact sums over all its parts do. It takes up a part as a whole or not at all (G-29).
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from noisegate.data.tables.parts import Part
from noisegate.errors import UserError
from noisegate.gate.execution import BLOCK_ROWS, Encoded, made_up_records
from noisegate.gate.sums import LocalEngine, SumTask, Totals
from noisegate.schema import Layout

# What kernels are chosen by, beside the processor.
_PACKAGES = ("noisegate", "numpy", "pyarrow", "scipy", "torch", "torchvision")
_SETTINGS = (
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "OPENBLAS_CORETYPE",
    "NPY_DISABLE_CPU_FEATURES",
    "ATEN_CPU_CAPABILITY",
)
_PROCESSOR = ("vendor_id", "cpu family", "model", "stepping", "flags", "CPU ", "Features")


class Job(Protocol):
    """What a worker does with the parts that it is given; it can be pickled before it has any."""

    done: ClassVar[str]
    """What the log calls a part that is done."""

    def add(self, number: int, part: Part) -> int:
        """Takes up a part, as a whole or not at all; returns how many records it has."""
        ...

    def total(self, *question: Any) -> Any:
        """Returns the exact sums over all parts that were taken up."""
        ...

    def merged(self, found: Sequence[Any]) -> Any:
        """Returns the sums of several workers together."""
        ...

    def tried(self, layout: Layout, random: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
        """Yields what made-up records add up to; takes up none of them."""
        ...


class SumJob:
    """The sums of one round."""

    done: ClassVar[str] = "part summed"

    def __init__(self, tasks: Mapping[str, SumTask]) -> None:
        self._tasks = tasks

    @cached_property
    def _totals(self) -> Totals:
        return Totals(self._tasks)  # of the worker, as arrays that Ray has brought there cannot be written to

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

    def tried(self, layout: Layout, random: np.random.Generator) -> Iterator[npt.NDArray[np.int64]]:
        """Yields the sums of blocks that are full, and that are not."""
        for rows in (1, BLOCK_ROWS, BLOCK_ROWS + 1):
            records = Encoded([made_up_records(layout, rows, random)])
            totals = LocalEngine(threads=1).sum(records, self._tasks, None)
            yield from (totals.sums[name] for name in sorted(totals.sums))


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
        return RuntimeError(f"{type(error).__name__} in a worker, {Path(last.filename).name}, line {last.lineno}")


def fingerprint(job: Job, layout: Layout) -> str:
    """Returns a hash of the processor, of versions, and of the integers that made-up records add up to, here."""
    random = np.random.Generator(np.random.Philox(20261123))
    found = hashlib.sha256(repr((_processor(), sys.version, [(name, _version(name)) for name in _PACKAGES])).encode())
    found.update(repr([(name, os.environ.get(name)) for name in _SETTINGS]).encode())
    for sums in job.tried(layout, random):
        found.update(sums.tobytes())
    return found.hexdigest()


def _processor() -> tuple[str, ...]:
    """Returns what kernels are chosen by: the processor's model and what it can do."""
    lines: set[str] = set()
    with suppress(OSError):
        told = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        lines = {line for line in told if line.startswith(_PROCESSOR)}
    return platform.machine(), platform.processor(), *sorted(lines)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
