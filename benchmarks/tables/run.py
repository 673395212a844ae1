"""The bake-off: every method on every table at every ε, each in its own environment, all scored by the same code.

    python benchmarks/tables/run.py --data DIR --out DIR [--tables ...] [--methods ...] [--epsilons ...] [--seeds N]

One seed of everything comes first, then the next, so that it may be stopped at any time: what is done is kept, each run
is scored as soon as it ends, and the command given again goes on. OUT/results.json holds all that is known; `report.py`
makes the tables and pictures from it. The figures are computed on real data, outside the guarantee.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import choices, needed, option, optional, read_options
from harness.results import read_json, write_json
from isolated import Limits
from peer_packages import PEERS
from rich.console import Console
from runs import Run, fit, score
from scoring import Judge
from tables import NEW, TABLES, prepare

from noisegate.methods.registry import METHODS
from noisegate_evaluate import CAVEAT

EPSILONS = (0.1, 1.0, 10.0)
OURS = (
    "pairwise",
    "mst",
    "aim",
    "dp-merf",
)  # asked without --methods; any other may be named


HERE = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is missing; 0 when every run has an answer, also where the answer is that a peer failed."""
    options = _options(arguments)
    console = Console()
    ready = _prepared(options, console)
    grid = [
        Run(table=table, method=method, epsilon=epsilon, seed=seed)
        for seed in range(options.seeds)
        for table in ready
        for epsilon in options.epsilons
        for method in options.methods
    ]
    limits = Limits(
        seconds=options.timeout * 3600,
        cpu_seconds=options.cpu_minutes * 60,
        megabytes=options.memory * 1e3,
    )
    judge = cache(lambda table: Judge(options.out / "tables" / table))
    missing = [
        run for run in grid if options.again or not _answered(run.path(options.out))
    ]
    console.print(f"{len(grid)} runs, {len(grid) - len(missing)} of them done before.")
    started = time.monotonic()
    for place, run in enumerate(missing):
        if options.again or not run.path(options.out).exists():
            fit(run, options.out, limits, options.threads)
        answer = score(run, options.out, lambda run=run: judge(run.table))
        _publish(run.table, options.out, judge)
        left = (time.monotonic() - started) / (place + 1) * (len(missing) - place - 1)
        about = timedelta(seconds=round(left))
        console.print(
            f"{place + 1}/{len(missing)}  {run}: {_in_words(answer)}; about {about} left",
            highlight=False,
        )
    write_json(options.out / "results.json", results(options.out))
    console.print(f"Written: {options.out / 'results.json'}. {CAVEAT}")
    return 0 if len(ready) == len(options.tables) else 1


def _answered(path: Path) -> bool:
    """Whether a run needs nothing more: it failed, or it is scored."""
    return path.exists() and (
        read_json(path)["status"] != "done" or "scores" in read_json(path)
    )


def _publish(table: str, out: Path, judge: Callable[[str], Judge]) -> None:
    """Brings results.json up to date, with what real data reaches on the table."""
    path = out / "runs" / table / "ceiling.json"
    if not path.exists():
        write_json(path, {"table": table, "scores": judge(table).ceiling()})
    write_json(out / "results.json", results(out))


def results(out: Path) -> dict[str, Any]:
    """Everything that was answered so far below the output folder, from this command and earlier ones."""
    found = sorted((out / "runs").glob("*/*/*.json"))
    ceilings = [
        read_json(path) for path in sorted((out / "runs").glob("*/ceiling.json"))
    ]
    return {
        "caveat": CAVEAT,
        "ceilings": {entry["table"]: entry["scores"] for entry in ceilings},
        "runs": [
            _portable(read_json(path), out)
            for path in found
            if not path.name.endswith(".meta.json")
        ],
    }


def _portable(answer: dict[str, Any], out: Path) -> dict[str, Any]:
    """An answer without the folders of this machine."""
    return {
        **answer,
        "error": answer["error"]
        .replace(str(out.resolve()), "OUT")
        .replace(str(HERE), "tables"),
    }


def _prepared(options: argparse.Namespace, console: Console) -> list[str]:
    ready = []
    for table in options.tables:
        try:
            with console.status(f"{table}: preparing the table"):
                home = options.out / "environments"
                prepare(
                    table, options.out / "tables", data=options.data, environments=home
                )
            ready.append(table)
        except RuntimeError as error:
            console.print(f"[red]{table}: {error}[/red]")
    return ready


def _in_words(answer: dict[str, Any]) -> str:
    if answer["status"] == "done":
        return f"{answer['seconds']:.1f} s, {answer['peak_megabytes']:.0f} MB"
    return f"{answer['status']}: {answer['error'].splitlines()[-1]}"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    known, usual = [*sorted(METHODS), *PEERS], [*OURS, *PEERS]
    return read_options(
        __doc__,
        arguments,
        data=optional(Path, "folder in or below which the files are"),
        out=needed(Path),
        tables=choices([*TABLES, *NEW], list(TABLES)),
        methods=choices(known, usual),
        epsilons=list(EPSILONS),
        seeds=5,
        timeout=option(2.0, "on the wall, for one run"),
        cpu_minutes=option(30.0, "of the processor, for one run"),
        memory=option(12.0, "for one run"),
        threads=1,
        again=False,
    )


if __name__ == "__main__":
    sys.exit(main())
