"""The queue of what waits for a GPU: each job at most nine minutes, in the order of what it proves, resumable.

    python benchmarks/gpu/run.py --data DIR --out DIR [--only ID ...] [--minutes 9] [--again]
    python benchmarks/gpu/run.py --list [--out DIR] [--json FILE]

DIR of --data has a folder for each data set: mnist, cifar10. A job that has not ended in its time is told to stop, and
goes on where it stood when the queue is run again; one that is done is not run again without --again. What it printed
is in --out/ID/log.txt, and how it ended in --out/ID/state.json. Where no GPU is at hand, nothing is run: the list says
what was not, and the exit code is 0. Exit code 1: a job failed; 2: wrong options.
"""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import Option, choice, option, optional, read_options
from harness.results import write_json
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GRACE = 30
"""Seconds in which a job that is told to stop may keep where it stands."""

DONE, UNFINISHED, FAILED, WAITING = "done", "unfinished", "failed", "not run"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One command of the queue; see jobs.toml for what each field is."""

    id: str
    proves: str
    command: str
    expected: str
    minutes: float
    needs: tuple[str, ...] = ()
    again: str | None = None
    method: str | None = None

    def arguments(self, options: argparse.Namespace, *, resumed: bool) -> list[str]:
        """Returns the command, filled in; the one that goes on where the job was begun before and has one."""
        words = {
            "data": options.data,
            "out": self.folder(options),
            "device": options.device,
            "python": sys.executable,
        }
        command = self.again if resumed and self.again else self.command
        return [word.format(**words) for word in shlex.split(command, posix=True)]

    def folder(self, options: argparse.Namespace) -> Path:
        """Returns where it keeps what it makes."""
        return Path(options.out).resolve() / self.id

    def state(self, options: argparse.Namespace) -> dict[str, Any]:
        """Returns how it ended the last time."""
        path = self.folder(options) / "state.json"
        found: dict[str, Any] = (
            json.loads(path.read_text("utf-8"))
            if path.exists()
            else {"state": WAITING, "slices": 0}
        )
        return found

    def missing(self, options: argparse.Namespace) -> str | None:
        """Returns what it needs and is not here, or None."""
        from noisegate.methods.registry import METHODS

        if self.method is not None and self.method not in METHODS:
            return f"there is no method {self.method}"
        absent = [
            name
            for name in self.needs
            if options.data is None or not (options.data / name).is_dir()
        ]
        return f"no {absent[0]} under --data" if absent else None


def read_jobs(path: Path) -> list[Job]:
    """Returns the jobs of a file in their order; a ValueError if two have one id."""
    jobs = [
        Job(**{**entry, "needs": tuple(entry.get("needs", ()))})
        for entry in tomllib.loads(path.read_text("utf-8"))["job"]
    ]
    if len({job.id for job in jobs}) < len(jobs):
        raise ValueError(f"{path}: two jobs have one id")
    return jobs


def run_job(job: Job, options: argparse.Namespace, console: Console) -> str:
    """Runs a job for one slice, and writes down how it ended; returns that."""
    folder, before = job.folder(options), job.state(options)
    folder.mkdir(parents=True, exist_ok=True)
    kept = {one.name for one in folder.iterdir()} - {
        "log.txt",
        "state.json",
        "ledger.db",
    }
    resumed = before["state"] in (UNFINISHED, FAILED) and bool(kept)
    arguments, begun = job.arguments(options, resumed=resumed), time.monotonic()
    console.print(f"{job.id}: {shlex.join(arguments)}")
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        log.write(f"\n$ {shlex.join(arguments)}\n")
        log.flush()
        process = subprocess.Popen(
            arguments,
            cwd=ROOT,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code = _ended(process, 60 * options.minutes)
    state = UNFINISHED if code is None else FAILED if code else DONE
    seconds = time.monotonic() - begun
    record = {
        "state": state,
        "slices": before["slices"] + 1,
        "code": code,
        "device": options.device,
    }
    record |= {
        "seconds": round(before.get("seconds", 0) + seconds, 1),
        "ended": datetime.now(UTC).isoformat("T", "seconds"),
    }
    write_json(folder / "state.json", record, indent=1)
    console.print(
        f"{job.id}: {state} after {seconds:.0f} s, slice {record['slices']}; expected: {job.expected}"
    )
    return state


def _ended(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Returns the exit code of a process, or None where it did not end in its time and was told to stop."""
    try:
        return process.wait(seconds)
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as stopped:
        # An interrupt as from a keyboard: a fit keeps its checkpoint and says how to go on.
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        process.kill()
        process.wait()
        if isinstance(stopped, KeyboardInterrupt):
            raise
        return None


def has_gpu(device: str) -> bool:
    """Returns whether there is such a device; the CPU always is, and is there to try the queue."""
    if device == "cpu":
        return True
    import torch

    return torch.cuda.is_available()


def listed(
    jobs: Sequence[Job], options: argparse.Namespace, console: Console
) -> list[dict[str, Any]]:
    """Prints the queue, and returns it as JSON values."""
    page = Table(
        "job",
        "state",
        "slices",
        "minutes",
        "proves",
        "expected",
        title="Queue for a GPU",
        title_justify="left",
    )
    rows = []
    for job in jobs:
        state = job.state(options)
        row = {
            "id": job.id,
            **state,
            "proves": job.proves,
            "expected": job.expected,
            "minutes": job.minutes,
        }
        row |= {
            "command": shlex.join(job.arguments(options, resumed=False)),
            "missing": job.missing(options),
        }
        rows.append(row)
        page.add_row(
            job.id,
            state["state"],
            str(state["slices"]),
            f"{job.minutes:g}",
            job.proves,
            job.expected,
        )
    console.print(page)
    write_json(options.json, rows, indent=1)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs or lists the queue; see above for the exit codes."""
    options, console = (
        read_options(
            __doc__,
            arguments,
            data=optional(lambda name: Path(name).resolve(), "folder of data sets"),
            out=Path("gpu-queue"),
            only=Option(kind=str, default=[], is_list=True, help="these jobs"),
            list=False,
            again=False,
            minutes=option(9.0, "of one job in one call"),
            device=choice(["cuda", "cpu"]),
            jobs=HERE / "jobs.toml",
            json=optional(Path),
        ),
        Console(highlight=False),
    )
    jobs = read_jobs(options.jobs)
    if unknown := [
        name for name in options.only if name not in {job.id for job in jobs}
    ]:
        console.print(
            f"[red]--only {unknown[0]}: there is no such job; --list names them.[/red]"
        )
        return 2
    jobs = [job for job in jobs if not options.only or job.id in options.only]
    if options.list or not has_gpu(options.device):
        rows = listed(jobs, options, console)
        waiting = [row["id"] for row in rows if row["state"] != DONE]
        if not options.list:
            console.print(
                f"No GPU is at hand, nothing was run. Not run or unfinished: {', '.join(waiting) or 'none'}."
            )
        return 0
    ends = []
    for job in jobs:
        if (missing := job.missing(options)) is not None:
            console.print(f"{job.id}: left out, {missing}.")
        elif job.state(options)["state"] == DONE and not options.again:
            console.print(f"{job.id}: done before.")
        else:
            ends.append(run_job(job, options, console))
    listed(jobs, options, console)
    return 1 if FAILED in ends else 0


if __name__ == "__main__":
    sys.exit(main())
