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
import shlex
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.commands import ONLY, run_logged, select
from harness.options import choice, option, optional, read_options
from harness.printing import print_table
from harness.results import read_json, write_json

HERE = Path(__file__).resolve().parent
DONE, UNFINISHED, FAILED, WAITING = "done", "unfinished", "failed", "not run"
OF_THE_QUEUE = {"log.txt", "state.json", "ledger.db"}
"""Files in a job's folder that are there before it has done anything."""


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
        before: dict[str, Any] = {"state": WAITING, "slices": 0}
        return dict(read_json(self.folder(options) / "state.json", before))

    def missing(self, options: argparse.Namespace) -> str | None:
        """Returns what it needs and is not here, or None."""
        from noisegate.methods.registry import METHODS

        if self.method is not None and self.method not in METHODS:
            return f"there is no method {self.method}"
        for name in self.needs:
            if options.data is None or not (options.data / name).is_dir():
                return f"no {name} under --data"
        return None


def read_jobs(path: Path) -> list[Job]:
    """Returns the jobs of a file in their order; a ValueError if two have one id."""
    jobs = [
        Job(**{**entry, "needs": tuple(entry.get("needs", ()))})
        for entry in tomllib.loads(path.read_text("utf-8"))["job"]
    ]
    if len({job.id for job in jobs}) < len(jobs):
        raise ValueError(f"{path}: two jobs have one id")
    return jobs


def run_job(job: Job, options: argparse.Namespace) -> str:
    """Runs a job for one slice, and writes down how it ended; returns that."""
    folder = job.folder(options)
    before = job.state(options)
    folder.mkdir(parents=True, exist_ok=True)
    has_begun = bool({path.name for path in folder.iterdir()} - OF_THE_QUEUE)
    resumed = before["state"] in (UNFINISHED, FAILED) and has_begun
    arguments = job.arguments(options, resumed=resumed)
    print(f"{job.id}: {shlex.join(arguments)}", flush=True)
    log = folder / "log.txt"
    with log.open("a", encoding="utf-8") as file:
        file.write(f"\n$ {shlex.join(arguments)}\n")
    start = time.monotonic()
    code = run_logged(arguments, log, 60 * options.minutes)
    seconds = time.monotonic() - start
    if code is None:
        state = UNFINISHED
    else:
        state = FAILED if code else DONE
    record = {
        "state": state,
        "slices": before["slices"] + 1,
        "code": code,
        "device": options.device,
        "seconds": round(before.get("seconds", 0) + seconds, 1),
        "ended": datetime.now(UTC).isoformat("T", "seconds"),
    }
    write_json(folder / "state.json", record, indent=1)
    print(
        f"{job.id}: {state} after {seconds:.0f} s, slice {record['slices']}; expected: {job.expected}",
        flush=True,
    )
    return state


def has_gpu(device: str) -> bool:
    """Returns whether there is such a device; the CPU always is, and is there to try the queue."""
    if device == "cpu":
        return True
    import torch

    return torch.cuda.is_available()


def listed(jobs: Sequence[Job], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Prints the queue, and returns it as JSON values."""
    rows = [
        {
            "id": job.id,
            **job.state(options),
            "proves": job.proves,
            "expected": job.expected,
            "minutes": job.minutes,
            "command": shlex.join(job.arguments(options, resumed=False)),
            "missing": job.missing(options),
        }
        for job in jobs
    ]
    names = ("id", "state", "slices", "minutes", "proves", "expected")
    print_table(
        "Queue for a GPU",
        ["job", *names[1:]],
        [[row[name] for name in names] for row in rows],
        n_left=len(names),
    )
    write_json(options.json, rows, indent=1)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs or lists the queue; see above for the exit codes."""
    options = read_options(
        __doc__,
        arguments,
        data=optional(lambda name: Path(name).resolve(), "folder of data sets"),
        out=Path("gpu-queue"),
        only=ONLY,
        list=False,
        again=False,
        minutes=option(9.0, "of one job in one call"),
        device=choice(["cuda", "cpu"]),
        jobs=HERE / "jobs.toml",
        json=optional(Path),
    )
    jobs = select(read_jobs(options.jobs), options.only)
    if options.list or not has_gpu(options.device):
        rows = listed(jobs, options)
        waiting = [row["id"] for row in rows if row["state"] != DONE]
        if not options.list:
            print(
                f"No GPU is at hand, nothing was run. Not run or unfinished: {', '.join(waiting) or 'none'}."
            )
        return 0
    states = []
    for job in jobs:
        if (missing := job.missing(options)) is not None:
            print(f"{job.id}: left out, {missing}.")
        elif job.state(options)["state"] == DONE and not options.again:
            print(f"{job.id}: done before.")
        else:
            states.append(run_job(job, options))
    listed(jobs, options)
    return int(FAILED in states)


if __name__ == "__main__":
    sys.exit(main())
