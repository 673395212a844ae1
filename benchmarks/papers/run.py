"""Runs the commands of the papers' tables and figures that fit in a budget of hours, and writes results.md.

    python benchmarks/papers/run.py --data DIR [--out DIR] [--hours 2] [--only ID ...] [--again]
    python benchmarks/papers/run.py --list [--json FILE]     # what there is, what was run, what it takes
    python benchmarks/papers/run.py --page                   # only write the page again

DIR has a folder for each data set: adult, cifar10, mnist, papers; what is not there is left out and said. Commands come
in the order of runs.toml, the most telling first. Each keeps what it makes in a folder of its own under --out and goes
on there when it is started again; one that would not end within the budget is left for another time. What came of a
command is kept in results/ and not made again without --again. Exit code 0: all that could be run was run; 1: a command
failed or ran out of time; 2: wrong options.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.commands import ONLY, commit, run_logged, select
from harness.options import fail, hidden, option, optional, read_options
from harness.printing import print_table
from harness.results import read_json, write_json

from papers.items import read_items
from papers.page import PAGE, SUMMARY, page, summary, write
from papers.runs import DATA, RESULTS, Result, Run, figures_of, read_result, read_runs

MET, MISSED = 0, 1
"""Exit codes of commands that ended: the target was met, or missed; both have figures."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is asked for; see above for the exit codes."""
    options = read_options(
        __doc__,
        arguments,
        data=optional(Path, "folder with adult, cifar10, mnist, papers"),
        out=Path("papers-out"),
        hours=option(2.0, "budget of wall-clock time"),
        only=ONLY,
        again=False,
        list=False,
        page=option(False, "write the page, and run none"),
        json=optional(Path, "with --list: write it there"),
        results=hidden(RESULTS),
        to=hidden(PAGE),
    )
    runs = read_runs()
    selected = select(runs, options.only)
    if options.list:
        _list(selected, options)
        return 0
    has_failed = False
    if not options.page:
        if options.data is None or not options.data.is_dir():
            fail("--data: name the folder that holds adult, cifar10, mnist or papers.")
        has_failed = _run_all(selected, options)
    results = {
        run.id: result for run in runs if (result := read_result(run, options.results))
    }
    is_new = write(page(read_items(), runs, results), options.to)
    if options.to == PAGE:
        write(summary(read_items(), runs, results), SUMMARY)
    print(
        f"{options.to}: {'written' if is_new else 'as it was'}, {len(results)} of {len(runs)} commands run."
    )
    return int(has_failed)


def _run_all(runs: Sequence[Run], options: argparse.Namespace) -> bool:
    """Runs what fits in the budget; returns whether one failed."""
    end = time.monotonic() + 3600 * options.hours
    has_failed = False
    for number, run in enumerate(runs, start=1):
        seconds_left = end - time.monotonic()
        missing = [name for name in run.data if not (options.data / name).is_dir()]
        if read_result(run, options.results) and not options.again:
            outcome = "kept"
        elif missing:
            outcome = f"no data, {options.data / missing[0]} is not there"
        elif 60 * run.minutes > seconds_left:
            minutes_left = max(seconds_left, 0) / 60
            outcome = f"takes {run.minutes:g} minutes, {minutes_left:.0f} are left"
        else:
            reason = _run_one(run, options, seconds_left)
            outcome = reason or "done"
            has_failed |= bool(reason)
        print(f"{number} of {len(runs)} {run.id}: {outcome}", flush=True)
    return has_failed


def _run_one(run: Run, options: argparse.Namespace, seconds: float) -> str:
    """Runs one command and keeps its figures; returns why there are none, or nothing."""
    folder = (options.out / run.id).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log.txt"
    start = time.time()
    command = [sys.executable, *run.arguments(options.data.resolve(), folder)]
    code = run_logged(command, log, seconds)
    if code is None:
        return f"stopped at the end of the budget; it goes on in {folder} next time"
    path = folder / "figures.json"
    # A traceback ends with the code of a missed target: its figures are then none, or those of an earlier run.
    is_fresh = path.exists() and (code == MET or path.stat().st_mtime >= start - 1)
    if code not in (MET, MISSED) or not is_fresh:
        without = "" if is_fresh else " and without figures"
        return f"ended with code {code}{without}; see {log}"
    try:
        figures = figures_of(run, read_json(path))
    except ValueError as error:
        return f"{error}; see {log}"
    result = Result(
        figures=figures,
        date=datetime.now(UTC).date().isoformat(),
        seconds=round(time.time() - start, 1),
        revision=commit(),
    )
    result.save(options.results / f"{run.id}.json")
    return ""


def _list(runs: Sequence[Run], options: argparse.Namespace) -> None:
    results = {run.id: read_result(run, options.results) for run in runs}
    rows = [
        {
            "id": run.id,
            "data": list(run.data),
            "minutes": run.minutes,
            "run": result.date if (result := results[run.id]) else None,
            "command": run.shown(),
        }
        for run in runs
    ]
    write_json(options.json, rows, indent=1)
    lines = [
        [row["id"], " ".join(row["data"]), f"{row['minutes']:g}", row["run"] or "no"]
        for row in rows
    ]
    headings = ["command", "data", "minutes", "run"]
    print_table(f"Data sets: {', '.join(DATA)}", headings, lines, n_left=2)


if __name__ == "__main__":
    # The commands bring their own threads; a tool that runs for hours should not hold up what else runs.
    os.nice(5)
    sys.exit(main())
