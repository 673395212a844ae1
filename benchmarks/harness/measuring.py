"""Time and memory of this process."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def measured_seconds() -> Iterator[dict[str, float]]:
    """Measures a block; what it yields has the seconds when the block has ended, on the wall and of the processor."""
    seconds: dict[str, float] = {}
    wall_start = time.perf_counter()
    cpu_start = time.process_time()
    yield seconds
    seconds["wall"] = time.perf_counter() - wall_start
    seconds["cpu"] = time.process_time() - cpu_start


def seconds_of(
    run: Callable[[], Any], clock: Callable[[], float] = time.perf_counter
) -> float:
    """Returns how long a call takes by a clock."""
    start = clock()
    run()
    return clock() - start


def race(
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float, float]:
    """Times two calls in turns, so that other work on the machine meets both.

    Returns:
        The medians of our seconds, of theirs, and of their seconds over ours.
    """
    times = [
        (seconds_of(ours, clock), seconds_of(theirs, clock)) for _ in range(repeats)
    ]
    return (
        statistics.median(our_seconds for our_seconds, _ in times),
        statistics.median(their_seconds for _, their_seconds in times),
        statistics.median(their / our for our, their in times),
    )


def peak_megabytes() -> float:
    """Returns the most memory that this process has held so far, in MB."""
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux ru_maxrss of a fresh process starts at what its parent used; VmHWM is this program's own.
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1]) / 1e3
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    bytes_of_unit = 1 if sys.platform == "darwin" else 1e3
    return peak * bytes_of_unit / 1e6
