"""What one process of a cluster does: it sums parts of the records, each once, and says how it computes.

Records never leave it. It takes up a part as a whole or not at all, and a second time changes nothing (G-29).
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from noisegate.data.tables.parts import Part
from noisegate.errors import UserError
from noisegate.gate.execution import BLOCK_ROWS, made_up_records
from noisegate.gate.sums import Encoded, LocalEngine, SumTask, Totals
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


class Worker:
    """One process of the cluster, and the sums of the parts that it was given in this round."""

    def __init__(self) -> None:
        self._tasks: Mapping[str, SumTask] = {}
        self._totals, self._parts = Totals({}), dict[int, int]()

    def begin(self, tasks: Mapping[str, SumTask], layout: Layout) -> str:
        """Begins a round, from nothing; returns what must be the same wherever these sums are computed."""
        self._tasks = tasks
        self._totals, self._parts = Totals(tasks), {}
        return fingerprint(tasks, layout)

    def add(self, number: int, part: Part) -> int | Exception:
        """Returns how many records a part has, which are in the totals by then, once; or what stopped it.

        An error is returned, and one that nobody foresaw without its message, which might quote a record: Ray would
        write what is raised into its logs.
        """
        try:
            if number not in self._parts:
                found = LocalEngine(threads=1).sum(part, self._tasks, None)
                self._totals.merge(found)
                self._parts[number] = found.records
        except UserError as error:
            return error
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            return RuntimeError(f"{type(error).__name__} in a worker, {Path(last.filename).name}, line {last.lineno}")
        return self._parts[number]

    def totals(self) -> tuple[Mapping[int, int], Totals]:
        """Returns the sums, and how many records of which parts are in them."""
        return self._parts, self._totals


def fingerprint(tasks: Mapping[str, SumTask], layout: Layout) -> str:
    """Returns a hash of the processor, of versions, and of the integers that made-up records add up to, here."""
    random = np.random.Generator(np.random.Philox(20261123))
    found = hashlib.sha256(repr((_processor(), sys.version, [(name, _version(name)) for name in _PACKAGES])).encode())
    found.update(repr([(name, os.environ.get(name)) for name in _SETTINGS]).encode())
    for rows in (1, BLOCK_ROWS, BLOCK_ROWS + 1):
        totals = LocalEngine(threads=1).sum(Encoded([made_up_records(layout, rows, random)]), tasks, None)
        for name in sorted(totals.sums):
            found.update(totals.sums[name].tobytes())
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
