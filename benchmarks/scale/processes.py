"""This process and the Ray workers that descend from it, watched from a thread: memory and processor time."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

_TICKS = os.sysconf("SC_CLK_TCK")
_EVERY = 0.5  # seconds


class Watched:
    """What the processes use inside a ``with`` block; Linux alone."""

    def __enter__(self) -> Self:
        self._over = threading.Event()
        self._peaks: dict[int, float] = {}
        self._ticks: dict[int, tuple[int, int]] = {}
        self._look()
        self._thread = threading.Thread(target=self._keep_looking, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def a_worker(self) -> int:
        """Returns the number of a worker that is alive."""
        return next(one for one in _descendants() if _is_worker(one))

    def found(self) -> dict[str, Any]:
        """Returns peaks of memory of this process and of its largest worker, and processor seconds of both kinds."""
        own, spent = (
            os.getpid(),
            {
                one: (last - first) / _TICKS
                for one, (first, last) in self._ticks.items()
            },
        )
        workers = [one for one in self._peaks if one != own]
        return {
            "driver_megabytes": self._peaks[own],
            "worker_megabytes": max(
                (self._peaks[one] for one in workers), default=None
            ),
            "driver_processor_seconds": spent[own],
            "worker_processor_seconds": sum(spent[one] for one in workers)
            if workers
            else None,
            "busiest_worker_seconds": max(
                (spent[one] for one in workers), default=None
            ),
        }

    def _keep_looking(self) -> None:
        while not self._over.wait(_EVERY):
            self._look()

    def _look(self) -> None:
        for one in [
            os.getpid(),
            *(each for each in _descendants() if _is_worker(each)),
        ]:
            with suppress(OSError, StopIteration):
                status = (
                    Path(f"/proc/{one}/status")
                    .read_text(encoding="ascii", errors="replace")
                    .splitlines()
                )
                held = next(line for line in status if line.startswith("VmRSS:"))
                self._peaks[one] = max(
                    self._peaks.get(one, 0.0), int(held.split()[1]) / 1e3
                )
                user, system = (
                    Path(f"/proc/{one}/stat")
                    .read_text(encoding="ascii")
                    .rpartition(")")[2]
                    .split()[11:13]
                )
                ticks = int(user) + int(system)
                self._ticks[one] = self._ticks.get(one, (ticks, ticks))[0], ticks


def _descendants() -> list[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                stat = (entry / "stat").read_text(encoding="ascii", errors="replace")
                parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found, fresh = list[int](), {os.getpid()}
    while fresh:
        fresh = {child for child, parent in parents.items() if parent in fresh}
        found += fresh
    return found


def _is_worker(one: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{one}/cmdline").read_bytes().startswith(b"ray::W")
    return False
