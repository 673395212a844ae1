"""One command in a process of its own, with limits on its time and memory; its memory is measured from outside."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

LAST_LINES = 12
# Often enough for a peak that lasts; a process of less than this is not measured, and none of the methods is.
POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a command ended.

    Attributes:
        status: "done", "failed", "timeout" or "memory".
        seconds: wall time of the whole process, start and imports counted.
        peak_megabytes: largest sum of resident memory over the process and its children, sampled.
        error: the last lines it wrote, when it did not end well; else "".
    """

    status: str
    seconds: float
    peak_megabytes: float
    error: str


def run_limited(
    command: Sequence[str], log: Path, *, seconds: float, megabytes: float, environment: Mapping[str, str]
) -> Outcome:
    """Runs a command to its end or to the first limit that it meets; what it writes goes to `log`.

    Args:
        command: the program and its arguments.
        log: file for its output and errors.
        seconds: wall time after which it is ended.
        megabytes: resident memory, children counted, above which it is ended.
        environment: all of its environment variables.
    """
    started = time.perf_counter()
    peak, status = 0.0, "done"
    with log.open("wb") as output:
        process = psutil.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=dict(environment))
        while True:
            peak = max(peak, _megabytes(process))
            elapsed = time.perf_counter() - started
            if elapsed > seconds or peak > megabytes:
                status = "timeout" if elapsed > seconds else "memory"
                _end(process)
                break
            try:
                process.wait(timeout=POLL_SECONDS)
                break
            except psutil.TimeoutExpired:
                continue
    elapsed = time.perf_counter() - started
    if status == "done" and process.returncode != 0:
        status = "failed"
    error = "" if status == "done" else _last_lines(log) or f"ended with exit code {process.returncode}"
    return Outcome(status=status, seconds=elapsed, peak_megabytes=peak, error=error)


def _megabytes(process: psutil.Process) -> float:
    total = 0
    for member in _family(process):
        try:
            total += member.memory_info().rss
        except psutil.Error:  # it ended meanwhile
            continue
    return total / 1e6


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
    lines = [line.rstrip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return "\n".join(lines[-LAST_LINES:])
