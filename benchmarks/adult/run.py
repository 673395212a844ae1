"""Adult, end to end: fit on train.csv through the gate, sample, score on test.csv, compare with the targets.

    python benchmarks/adult/run.py --data DIR [--method auto] [--epsilon 1] [--seeds 5] [--json FILE]

DIR holds train.csv and test.csv of the UCI table "Adult". The figures are computed on real data, outside the guarantee.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa
from harness.options import needed, optional, read_options
from harness.printing import run_main
from harness.results import write_json
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from noisegate import Gate, Schema
from noisegate.methods.registry import method_named
from noisegate.sources.frames import read_table
from noisegate_evaluate import CAVEAT, Report, evaluate_tables

HERE = Path(__file__).parent
ROWS = 32_561
TITLES = {
    "roc_auc": "ROC-AUC",
    "average_precision": "average precision",
    "f1": "F1",
    "distance_1": "1-way distance",
    "distance_2": "2-way distance",
    "distance_3": "3-way distance",
    "fit_seconds": "gate + fit + sample, s",
    "peak_megabytes": "peak memory, MB",
}


@dataclass(frozen=True, kw_only=True)
class Target:
    """What the mean over the seeds must reach; `at` is the good side, "least" or "most"."""

    value: float
    at: str
    tolerance: float
    source: str

    def met(self, found: float) -> bool:
        """Whether `found` is on the good side of the value, or within the tolerance of it."""
        if self.at == "least":
            return found >= self.value - self.tolerance
        return found <= self.value + self.tolerance

    def __str__(self) -> str:
        sign = "≥" if self.at == "least" else "≤"
        return f"{sign} {self.value:g}" + (
            f" ± {self.tolerance:g}" if self.tolerance else ""
        )


def main() -> int:
    """Runs the benchmark; 0 when every target is met, 1 when one is missed, 2 when it cannot run."""
    options = read_options(
        __doc__,
        data=needed(Path, "folder with train.csv and test.csv"),
        method="auto",
        epsilon=1.0,
        delta=1e-5,
        seeds=5,
        device="cpu",
        json=optional(Path),
    )
    console = Console()
    schema = Schema.from_toml(HERE / "schema.toml")
    train, test = (
        read_table(options.data / name, schema) for name in ("train.csv", "test.csv")
    )
    runs, reports = _runs(options, schema, train, test, console)
    targets = _targets(options)
    mean = {name: statistics.fmean(run[name] for run in runs) for name in TITLES}
    _print(console, runs, mean, _ceiling(reports[0]), targets)
    met = {name: target.met(mean[name]) for name, target in targets.items()}
    if options.json:
        content = {
            "caveat": CAVEAT,
            "method": options.method,
            "epsilon": options.epsilon,
            "delta": options.delta,
            "runs": runs,
            "mean": mean,
            "ceiling": _ceiling(reports[0]),
            "targets": {
                name: {**asdict(target), "met": met[name]}
                for name, target in targets.items()
            },
        }
        write_json(options.json, content)
    return 0 if all(met.values()) else 1


def _targets(options: argparse.Namespace) -> dict[str, Target]:
    """Returns what is expected of this method at this budget; at another one the figures stand alone."""
    if options.delta != 1e-5:
        return {}
    entries = tomllib.loads((HERE / "expected.toml").read_text())["target"]
    return {
        entry["figure"]: Target(
            value=entry["value"], at=entry["at"], tolerance=0.0, source=entry["source"]
        )
        for entry in entries
        if (entry["method"], entry["epsilon"]) == (options.method, options.epsilon)
    }


def _runs(
    options: argparse.Namespace,
    schema: Schema,
    train: pa.Table,
    test: pa.Table,
    console: Console,
) -> tuple[list[dict[str, float]], list[Report]]:
    made = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("fit and sample", total=options.seeds)
        # All fits come first: the peak of memory is then theirs, not the classifiers'.
        for seed in range(options.seeds):
            started = time.perf_counter()
            gate = Gate(
                options.data / "train.csv",
                schema=schema,
                epsilon=options.epsilon,
                delta=options.delta,
            )
            # The seed is of the public randomness: features, weights, fitting. The private noise takes none.
            synthesizer = method_named(options.method)(seed=seed).fit(
                gate, device=options.device
            )
            synthetic = synthesizer.sample(ROWS, seed=seed)
            made.append((synthetic, time.perf_counter() - started, _peak_megabytes()))
            progress.advance(task)
        task = progress.add_task("evaluate", total=options.seeds)
        runs, reports = [], []
        for seed, (synthetic, seconds, megabytes) in enumerate(made):
            reports.append(evaluate_tables(synthetic, test, schema, train=train))
            runs.append(
                {
                    "seed": seed,
                    **_figures(reports[-1]),
                    "fit_seconds": seconds,
                    "peak_megabytes": megabytes,
                }
            )
            progress.advance(task)
    return runs, reports


def _figures(report: Report) -> dict[str, float]:
    assert report.downstream is not None  # Adult has a label
    mean = report.downstream.mean
    scores = {
        "roc_auc": mean.roc_auc,
        "average_precision": mean.average_precision,
        "f1": mean.f1,
    }
    return scores | {
        f"distance_{order}": report.marginals.order(order).mean for order in (1, 2, 3)
    }


def _ceiling(report: Report) -> dict[str, float]:
    """What real training data reach: the ceiling of the scores, and what sampling alone does to the distances."""
    assert report.ceiling is not None
    assert report.floor is not None
    mean = report.ceiling.mean
    scores = {
        "roc_auc": mean.roc_auc,
        "average_precision": mean.average_precision,
        "f1": mean.f1,
    }
    return scores | {
        f"distance_{order}": report.floor.order(order).mean for order in (1, 2, 3)
    }


def _peak_megabytes() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (
        1e6 if sys.platform == "darwin" else 1e3
    )  # bytes there, kilobytes elsewhere


def _print(
    console: Console,
    runs: Sequence[Mapping[str, float]],
    mean: Mapping[str, float],
    ceiling: Mapping[str, float],
    targets: Mapping[str, Target],
) -> None:
    page = Table(
        title="Adult: synthetic training data, scored on the real test table",
        title_justify="left",
    )
    page.add_column("figure")
    for run in runs:
        page.add_column(f"seed {run['seed']}", justify="right")
    for heading in ("mean", "real data", "target"):
        page.add_column(heading, justify="right")
    page.add_column("")
    for name, title in TITLES.items():
        digits = 1 if name in ("fit_seconds", "peak_megabytes") else 4
        real = f"{ceiling[name]:.{digits}f}" if name in ceiling else ""
        target = targets.get(name)
        verdict = (
            ""
            if target is None
            else "[green]pass[/green]"
            if target.met(mean[name])
            else "[red]miss[/red]"
        )
        figures = [f"{values[name]:.{digits}f}" for values in (*runs, mean)]
        page.add_row(title, *figures, real, str(target or ""), verdict)
    console.print(page)
    for name, target in targets.items():
        console.print(f"{TITLES[name]} {target}: {target.source}.")
    console.print(CAVEAT, style="bold")


if __name__ == "__main__":
    run_main(main)
