"""One command in a process of its own, with limits on its time and memory, both measured from outside."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

LAST_LINES = 12
# How often it is looked at. A look reads the table of all processes, so a run of hours has fewer of them in a minute.
# The interval is a hundredth of the time so far, between these two.
SHORTEST_POLL, LONGEST_POLL = 0.2, 2.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a command ended.

    Attributes:
        status: "done", "failed", "timeout" or "memory".
        seconds: wall time of the whole process, start and imports counted.
        cpu_seconds: seconds of the processor, of the process and its children, sampled.
        peak_megabytes: largest sum of resident memory over the process and its children, sampled.
        error: the last lines it wrote and the limit it met, when it did not end well; else "".
    """

    status: str
    seconds: float
    cpu_seconds: float
    peak_megabytes: float
    error: str


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one command may use.

    Attributes:
        seconds: on the wall.
        cpu_seconds: of the processor, children counted; other work on the machine does not count.
        megabytes: of resident memory, children counted.
    """

    seconds: float
    cpu_seconds: float
    megabytes: float


def run_limited(
    command: Sequence[str], log: Path, limits: Limits, environment: Mapping[str, str]
) -> Outcome:
    """Runs a command to its end or to the first limit that it meets; what it writes goes to `log`.

    Args:
        command: the program and its arguments.
        log: file for its output and errors.
        limits: it is ended, with its children, when it meets one.
        environment: all of its environment variables.
    """
    started = time.perf_counter()
    peak, worked, met = 0.0, 0.0, None
    with log.open("wb") as output:
        process = psutil.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=dict(environment)
        )
        while True:
            megabytes, cpu_seconds = _use(process)
            peak, worked = max(peak, megabytes), max(worked, cpu_seconds)
            if met := _limit(time.perf_counter() - started, worked, peak, limits):
                _end(process)
                break
            try:
                passed = time.perf_counter() - started
                process.wait(
                    timeout=min(max(passed / 100, SHORTEST_POLL), LONGEST_POLL)
                )
                break
            except psutil.TimeoutExpired:
                continue
    elapsed = time.perf_counter() - started
    status, reason = met or ("done" if process.returncode == 0 else "failed", "")
    error = (
        "" if status == "done" else "\n".join(filter(None, [_last_lines(log), reason]))
    )
    return Outcome(
        status=status,
        seconds=elapsed,
        cpu_seconds=worked,
        peak_megabytes=peak,
        error=error
        or ("" if status == "done" else f"ended with exit code {process.returncode}"),
    )


def _limit(
    seconds: float, cpu_seconds: float, megabytes: float, limits: Limits
) -> tuple[str, str] | None:
    """The status and the words for the first limit that is met."""
    if seconds > limits.seconds:
        return "timeout", f"ended at its limit of {limits.seconds:,.0f} s"
    if cpu_seconds > limits.cpu_seconds:
        return (
            "timeout",
            f"ended at its limit of {limits.cpu_seconds:,.0f} s of the processor",
        )
    if megabytes > limits.megabytes:
        return "memory", f"ended at its limit of {limits.megabytes:,.0f} MB"
    return None


def _use(process: psutil.Process) -> tuple[float, float]:
    """Megabytes now and seconds of the processor so far, of a process, its children, and those that ended."""
    megabytes, seconds = 0.0, 0.0
    for member in _family(process):
        try:
            megabytes += member.memory_info().rss / 1e6
            # user, system, and both of the children that were waited for.
            seconds += sum(member.cpu_times()[:4])
        except psutil.Error:  # it ended meanwhile
            continue
    return megabytes, seconds


def _family(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def _end(process: psutil.Popen) -> None:
    for member in _family(process):
        try:
            member.kill()
        except psutil.Error:
            continue
    process.wait()


def _last_lines(log: Path) -> str:
    lines = [
        line.rstrip()
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
        if line.strip()
    ]
    return "\n".join(lines[-LAST_LINES:])
