"""The speed of this checkout beside that of another commit, in one run on one machine.

    python benchmarks/speed/commits.py [--before COMMIT] [--repeats 9] [--json FILE]

The earlier commit is checked out into a temporary folder and installed there, with
`make environment`, by its own lock. Each task runs in a process of its own, in
turns, now of one commit and now of the other, so that other work on the machine meets
both; medians of processor seconds are compared. A refactoring passes if no task takes
more than 1.05 times as long (`--limit`). The command ends with 0 if so, else with 1.

Tasks: the whole `noisegate fit` of a CSV file of 200,000 records with its page, `plan`,
`sample` of 100,000 records, and reading the file alone.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from harness.options import option, optional, read_options
from harness.results import write_json

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = """
[columns.age]
kind = "integer"
lower = 0
upper = 99
[columns.income]
kind = "continuous"
lower = 0.0
upper = 100000.0
[columns.job]
kind = "categorical"
levels = ["none", "part", "full"]
[columns.ill]
kind = "boolean"
"""
# What each task runs, in a folder that has data.csv, schema.toml and a model.
READ = """
try:
    from noisegate.sources import open_source
except ImportError:  # as it was called until November 2026
    from noisegate.data import open_source
from noisegate import Schema
schema = Schema.from_toml("schema.toml")
records = sum(len(batch) for batch in open_source("data.csv", schema).batches())
assert records == 200_000, records
"""
TASKS = {
    "fit": ["fit", "data.csv", "--schema", "schema.toml", "--epsilon", "1"],
    "plan": ["plan", "--schema", "schema.toml", "--epsilon", "1"],
    "sample": ["sample", "model", "-n", "100000", "--out", "sample.csv"],
    "read": READ,
}


def write_records(folder: Path, rows: int) -> None:
    """Writes `rows` made-up records and their schema."""
    generator = np.random.default_rng(0)
    age = generator.integers(0, 100, rows)
    income = np.round(generator.gamma(2.0, 15_000.0, rows).clip(0, 100_000), 2)
    job = np.array(["none", "part", "full"])[generator.integers(0, 3, rows)]
    ill = np.where(generator.random(rows) < age / 150, "true", "false")
    lines = (
        f"{a},{b},{c},{d}" for a, b, c, d in zip(age, income, job, ill, strict=True)
    )
    text = "age,income,job,ill\n" + "\n".join(lines) + "\n"
    (folder / "data.csv").write_text(text, encoding="utf-8")
    (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")


def processor_seconds(task: str, checkout: Path, folder: Path) -> float:
    """Runs a task with what a checkout has installed; returns what it took, in seconds."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HOME": str(folder)}
    environment["NOISEGATE_LEDGER"] = str(folder / "ledger.db")
    # Else each run would compile every file that it imports, docstrings and all.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    programs = checkout / ".venv" / "bin"
    arguments = TASKS[task]
    if isinstance(arguments, str):
        command = [str(programs / "python"), "-W", "ignore", "-c", arguments]
    else:
        command = [str(programs / "noisegate"), *arguments]
    if task == "fit":
        out = Path(tempfile.mkdtemp(dir=folder)) / "model"
        command += ["--out", str(out)]
    for written in folder.glob("sample.csv*"):
        written.unlink()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Compares the two checkouts, prints a table and ends with the verdict."""
    options = read_options(
        __doc__,
        before=option("HEAD~1", "the earlier commit"),
        repeats=9,
        rows=200_000,
        limit=1.05,
        json=optional(Path),
    )
    with tempfile.TemporaryDirectory() as name:
        earlier, folder = Path(name) / "earlier", Path(name) / "desk"
        folder.mkdir()
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run(
            [*git, "add", "--detach", str(earlier), options.before], check=True
        )
        try:
            subprocess.run(["make", "environment"], cwd=earlier, check=True)
            write_records(folder, options.rows)
            ratios = compare({"before": earlier, "now": ROOT}, folder, options.repeats)
        finally:
            subprocess.run([*git, "remove", "--force", str(earlier)], check=True)
    write_json(options.json, ratios)
    sys.exit(any(row["ratio"] > options.limit for row in ratios.values()))


def compare(
    checkouts: dict[str, Path], folder: Path, repeats: int
) -> dict[str, dict[str, float]]:
    """Returns, for each task, the median seconds of both checkouts and their ratio."""
    ratios: dict[str, dict[str, float]] = {}
    # What `sample` draws from; with it, both checkouts have compiled their byte code.
    for checkout in checkouts.values():
        processor_seconds("fit", checkout, folder)
    fitted = next(folder.glob("*/model"))
    fitted.rename(folder / "model")
    for task in TASKS:
        seconds: dict[str, list[float]] = {which: [] for which in checkouts}
        for _ in range(repeats):
            for which, checkout in checkouts.items():
                seconds[which].append(processor_seconds(task, checkout, folder))
        medians = {
            which: statistics.median(values) for which, values in seconds.items()
        }
        ratios[task] = {**medians, "ratio": medians["now"] / medians["before"]}
        print(
            f"{task:8} before {medians['before']:6.2f} s, now {medians['now']:6.2f} s, "
            f"ratio {ratios[task]['ratio']:.3f}",
            flush=True,
        )
    return ratios


if __name__ == "__main__":
    main()
