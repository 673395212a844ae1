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

from isolated import Limits
from peer_packages import PEERS
from rich.console import Console
from runs import Run, fit, read, score, write
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
    write(options.out / "results.json", results(options.out))
    console.print(f"Written: {options.out / 'results.json'}. {CAVEAT}")
    return 0 if len(ready) == len(options.tables) else 1


def _answered(path: Path) -> bool:
    """Whether a run needs nothing more: it failed, or it is scored."""
    return path.exists() and (read(path)["status"] != "done" or "scores" in read(path))


def _publish(table: str, out: Path, judge: Callable[[str], Judge]) -> None:
    """Brings results.json up to date, with what real data reaches on the table."""
    path = out / "runs" / table / "ceiling.json"
    if not path.exists():
        write(path, {"table": table, "scores": judge(table).ceiling()})
    write(out / "results.json", results(out))


def results(out: Path) -> dict[str, Any]:
    """Everything that was answered so far below the output folder, from this command and earlier ones."""
    found = sorted((out / "runs").glob("*/*/*.json"))
    ceilings = [read(path) for path in sorted((out / "runs").glob("*/ceiling.json"))]
    return {
        "caveat": CAVEAT,
        "ceilings": {entry["table"]: entry["scores"] for entry in ceilings},
        "runs": [
            _portable(read(path), out)
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=None, help="folder in or below which the files are"
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="where tables, environments and answers are kept",
    )
    parser.add_argument(
        "--tables",
        nargs="+",
        default=list(TABLES),
        choices=[*TABLES, *NEW],
        metavar="TABLE",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        default=usual,
        choices=known,
        metavar="METHOD",
        help=f"{', '.join(known)}; {len(usual)} of them if not given",
    )
    parser.add_argument(
        "--epsilons", nargs="+", type=float, default=list(EPSILONS), metavar="E"
    )
    parser.add_argument(
        "--seeds", type=int, default=5, metavar="N", help="run i has seed i"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=2.0,
        metavar="HOURS",
        help="on the wall, for one run",
    )
    parser.add_argument(
        "--cpu-minutes",
        type=float,
        default=30.0,
        metavar="M",
        help="of the processor, for one run",
    )
    parser.add_argument(
        "--memory", type=float, default=12.0, metavar="GB", help="for one run"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="of numerical libraries, for every method",
    )
    parser.add_argument(
        "--again", action="store_true", help="run also what is done already"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
