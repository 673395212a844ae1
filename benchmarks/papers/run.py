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
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import Option, hidden, option, optional, read_options
from rich.console import Console
from rich.table import Table

from papers.items import ROOT, read_items
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
        hours=option(2.0, "budget of wall-clock time (default: 2)"),
        only=Option(
            kind=str, default=[], is_list=True, help="some commands, by their ids"
        ),
        again=False,
        list=False,
        page=option(False, "write the page, and run none"),
        json=optional(Path),
        results=hidden(option(RESULTS)),
        to=hidden(option(PAGE)),
    )
    console, runs = Console(highlight=False), read_runs()
    known = {run.id for run in runs}
    if unknown := [name for name in options.only if name not in known]:
        console.print(
            f"[red]--only {unknown[0]}: there is no such command; --list names them.[/red]"
        )
        return 2
    if options.list:
        _list(console, runs, options)
        return 0
    failed = []
    if not options.page:
        if options.data is None or not options.data.is_dir():
            console.print(
                "[red]--data: name the folder that holds adult, cifar10, mnist or papers.[/red]"
            )
            return 2
        failed = _all(
            console,
            [run for run in runs if not options.only or run.id in options.only],
            options,
        )
    results = {
        run.id: result for run in runs if (result := read_result(run, options.results))
    }
    changed = write(page(read_items(), runs, results), options.to)
    if options.to == PAGE:
        write(summary(read_items(), runs, results), SUMMARY)
    console.print(
        f"{options.to}: {'written' if changed else 'as it was'}, {len(results)} of {len(runs)} commands run."
    )
    return 1 if failed else 0


def _all(
    console: Console, runs: Sequence[Run], options: argparse.Namespace
) -> list[str]:
    """Runs what fits in the budget; returns the ids of what failed."""
    end, failed = time.monotonic() + 3600 * options.hours, []
    for place, run in enumerate(runs, start=1):
        left = end - time.monotonic()
        said = f"{place} of {len(runs)} {run.id}"
        missing = [name for name in run.data if not (options.data / name).is_dir()]
        if read_result(run, options.results) and not options.again:
            console.print(f"{said}: kept", style="dim")
        elif missing:
            console.print(f"{said}: no data, {options.data / missing[0]} is not there")
        elif 60 * run.minutes > left:
            console.print(
                f"{said}: takes {run.minutes:g} minutes, {max(left, 0) / 60:.0f} are left"
            )
        else:
            reason = _one(console, run, options, left)
            console.print(f"{said}: {reason or 'done'}")
            failed += [run.id] if reason else []
    return failed


def _one(
    console: Console, run: Run, options: argparse.Namespace, seconds: float
) -> str:
    """Runs one command and keeps its figures; returns why there are none, or nothing."""
    folder = (options.out / run.id).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    started, begun, log = time.monotonic(), time.time(), folder / "log.txt"
    command = [sys.executable, *run.arguments(options.data.resolve(), folder)]
    with (
        log.open("w", encoding="utf-8") as file,
        console.status(f"{run.id}, about {run.minutes:g} minutes"),
    ):
        try:
            ended = subprocess.run(
                command,
                cwd=ROOT,
                stdout=file,
                stderr=file,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"stopped at the end of the budget; it goes on in {folder} next time"
    written = folder / "figures.json"
    # A traceback ends with the code of a missed target: its figures are then none, or those of an earlier run.
    fresh = written.exists() and (
        ended.returncode == MET or written.stat().st_mtime >= begun - 1
    )
    if ended.returncode not in (MET, MISSED) or not fresh:
        return f"ended with code {ended.returncode}{'' if fresh else ' and without figures'}; see {log}"
    try:
        figures = figures_of(run, json.loads(written.read_text(encoding="utf-8")))
    except ValueError as error:
        return f"{error}; see {log}"
    result = Result(
        figures=figures,
        date=datetime.now(UTC).date().isoformat(),
        seconds=round(time.monotonic() - started, 1),
        revision=_revision(),
    )
    result.save(options.results / f"{run.id}.json")
    return ""


def _revision() -> str:
    """The commit of the program; empty outside of a repository."""
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip()


def _list(console: Console, runs: Sequence[Run], options: argparse.Namespace) -> None:
    rows = [
        {
            "id": run.id,
            "data": list(run.data),
            "minutes": run.minutes,
            "run": result.date
            if (result := read_result(run, options.results))
            else None,
            "command": run.shown(),
        }
        for run in runs
        if not options.only or run.id in options.only
    ]
    if options.json:
        options.json.write_text(
            json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    table = Table(title=f"Data sets: {', '.join(DATA)}", title_justify="left")
    for heading in ("command", "data", "minutes", "run"):
        table.add_column(heading, justify="right" if heading == "minutes" else "left")
    for row in rows:
        table.add_row(
            str(row["id"]),
            " ".join(row["data"]),
            f"{row['minutes']:g}",
            row["run"] or "no",
        )  # type: ignore[arg-type]
    console.print(table)


if __name__ == "__main__":
    # The commands bring their own threads; a tool that runs for hours should not hold up what else runs.
    os.nice(5)
    sys.exit(main())
