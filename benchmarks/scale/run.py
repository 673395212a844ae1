"""How fast the gate counts, on one core, on threads and on Ray workers, in how much memory, and whether the bits agree.

How many steps of a training it takes a second is measured too.

    python benchmarks/scale/run.py [--rows 10000000] [--workers 1,2,4] [--steps 20] [--out DIR] [--json]

Each measure is a process of its own, and is kept in DIR/results.json: a run that was stopped goes on from there, and
`--again` measures anew. The exit code is 1 where bits differ or a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import Option, hidden, option, optional, read_options
from harness.results import write_json

RATIO_GOAL, WORKERS_GOAL = 0.7, 1.8
Results = dict[str, dict[str, Any]]


def main() -> int:
    """Runs what is not measured yet; 0 where all goals are met, else 1."""
    options = read_options(
        __doc__,
        rows=option(10_000_000, "a multiple of a million, or less"),
        workers=Option(
            kind=_numbers,
            default=[1, 2, 4],
            help='of Ray, such as 1,2,4; "" leaves Ray out',
        ),
        repeats=5,
        steps=20,
        out=optional(Path),
        again=False,
        json=False,
        measure=hidden(optional(str)),
    )
    if options.measure:
        print(json.dumps(_measured(options)))
        return 0
    with tempfile.TemporaryDirectory(prefix="noisegate-scale-") as folder:
        options.out = options.out or Path(folder)
        options.out.mkdir(parents=True, exist_ok=True)
        results = _all(options)
    missed = _missed(results)
    if options.json:
        print(
            json.dumps(
                {"rows": options.rows, "results": results, "missed": missed}, indent=2
            )
        )
    else:
        _print(results, options.rows, missed)
    return 1 if missed else 0


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def _jobs(options: argparse.Namespace) -> list[str]:
    jobs = [
        "one core",
        "expected",
        "scan",
        *(f"local {n}" for n in sorted({1, *options.workers})),
    ]
    if options.workers:
        jobs += [
            *(f"ray {n}" for n in options.workers),
            f"killed {max(2, *options.workers)}",
        ]
    if options.steps:
        jobs += [f"steps local {n}" for n in sorted({1, *options.workers})] + [
            f"steps ray {n}" for n in options.workers
        ]
    return jobs


def _all(options: argparse.Namespace) -> Results:
    """Returns the results of all jobs, each written down as soon as there is one."""
    from rich.console import Console

    path, console = options.out / f"results-{options.rows}.json", Console(stderr=True)
    results: Results = (
        {}
        if options.again or not path.exists()
        else json.loads(path.read_text(encoding="utf-8"))
    )
    for job in _jobs(options):
        if job in results:
            continue
        with console.status(f"{options.rows:,} rows: {job}"):
            command = [
                sys.executable,
                __file__,
                "--measure",
                job,
                "--out",
                str(options.out),
            ]
            command += [
                "--rows",
                str(options.rows),
                "--repeats",
                str(options.repeats),
                "--steps",
                str(options.steps),
            ]
            done = subprocess.run(
                command, check=False, stdout=subprocess.PIPE, text=True
            )
        if done.returncode:
            raise SystemExit(
                f"{job}: failed, as told above. What was measured is kept; run the command again."
            )
        results[job] = json.loads(done.stdout.splitlines()[-1])
        write_json(path, results)
    return results


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    import measures

    place, rows, (job, _, number) = (
        options.out,
        options.rows,
        options.measure.partition(" "),
    )
    if options.measure == "one core":
        return measures.one_core(place, rows, options.repeats)
    if job == "expected":
        return {"sums": measures.expected_sums(place, rows)}
    if job == "scan":
        return measures.scanned(place, rows)
    if job == "steps":
        from steps import steps

        engine, _, workers = number.partition(" ")
        return steps(place, rows, engine, int(workers), options.steps)
    if job == "local":
        return measures.local(place, rows, int(number))
    return measures.ray(place, rows, int(number), kill=job == "killed")


def _missed(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns which goals are missed, in words."""
    found = [
        f"{kind}: {race['ratio']:.2f} of bare PyArrow and bincount, goal {RATIO_GOAL}"
        for kind, race in results["one core"].items()
        if race["ratio"] < RATIO_GOAL
    ]
    expected = results["expected"]["sums"]
    found += [
        f"{job}: other bits"
        for job, one in results.items()
        if one.get("sums", expected) != expected
    ]
    if "ray 1" in results and "ray 2" in results:
        gain = results["ray 1"]["seconds"] / results["ray 2"]["seconds"]
        if gain < WORKERS_GOAL:
            found.append(f"two workers: {gain:.2f} times one, goal {WORKERS_GOAL}")
    return found


def _print(results: Results, rows: int, missed: list[str]) -> None:
    from harness.printing import print_table

    races = [
        [
            kind,
            f"{race['gate_rows_per_second'] / 1e6:.2f}",
            f"{race['bare_rows_per_second'] / 1e6:.2f}",
            f"{race['ratio']:.2f}",
        ]
        for kind, race in results["one core"].items()
    ]
    print_table(
        "One core, million rows a second, least of several",
        ["file", "gate", "bare PyArrow and bincount", "ratio"],
        races,
    )
    expected = results["expected"]["sums"]
    headings = ["", "seconds", "rows/s", "rows/s a busy core", "driver MB", "worker MB"]
    print_table(
        f"{rows:,} rows x 20 columns in Parquet, counts of 190 pairs",
        [*headings, "bits"],
        [
            _row(job, one, rows, expected)
            for job, one in results.items()
            if "seconds" in one and "steps_per_second" not in one
        ],
    )
    headings = ["", "steps/s", "core seconds a step", "of the busiest worker"]
    print_table(
        "Steps of DP-SGD on samples of about 4,096 records",
        [*headings, "first step, seconds", "driver MB", "worker MB"],
        [
            [job.removeprefix("steps "), *_steps_row(one)]
            for job, one in results.items()
            if "steps_per_second" in one
        ],
    )
    print("\n".join(missed) or "All goals are met.")


def _steps_row(one: Mapping[str, Any]) -> list[str]:
    count = one["steps_per_second"] * one["seconds"]
    spent = one["driver_processor_seconds"] + (one["worker_processor_seconds"] or 0.0)
    busiest = one["busiest_worker_seconds"]
    figures = [f"{one['steps_per_second']:.2f}", f"{spent / count:.2f}"]
    figures += [
        "" if busiest is None else f"{busiest / count:.2f}",
        f"{one['start_seconds']:.1f}",
    ]
    peaks = [one[f"{who}_megabytes"] for who in ("driver", "worker")]
    return [*figures, *("" if peak is None else f"{peak:,.0f}" for peak in peaks)]


def _row(job: str, one: Mapping[str, Any], rows: int, expected: str) -> list[str]:
    spent = one.get("worker_processor_seconds") or one.get("driver_processor_seconds")
    figures = [
        f"{one['seconds']:.1f}",
        *(
            "" if each is None else f"{rows / each:,.0f}"
            for each in (one["seconds"], spent)
        ),
    ]
    peaks = [one.get(f"{who}_megabytes") for who in ("driver", "worker")]
    bits = (
        "" if "sums" not in one else "equal" if one["sums"] == expected else "DIFFERENT"
    )
    return [
        job,
        *figures,
        *("" if peak is None else f"{peak:,.0f}" for peak in peaks),
        bits,
    ]


if __name__ == "__main__":
    sys.exit(main())
