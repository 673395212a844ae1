"""How long a private gradient step takes, beside Opacus and beside the same step without privacy.

    python benchmarks/speed/gradients.py [--models convnet dp-llm mlp] [--threads 1] [--rounds 7] [--json FILE]

Every contender is a process of its own, and they take steps in turns: other work on the machine meets all of them. Our
step is that of `Gate.gradients`: a Poisson sample, padding, gradients, clipping on the grid, the exact sum, and noise
from the operating system's entropy. Opacus draws its Poisson sample too, clips in float32, and adds noise of torch's
generator. Records are made up, 256 a step on average for all, in float32.

Opacus is no dependency: uv installs it into a folder that only its processes see, without dependencies of its own, so
that both sides run on one and the same torch.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import choices, option, optional, read_options
from harness.results import write_json
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
OPACUS = ("opacus==1.6.0", "opt-einsum==3.4.0")
CONTENDERS = ("noisegate", "opacus, hooks", "opacus, ghost", "no privacy")
MODELS = ("convnet", "dp-llm", "mlp")
GOAL = 1.3
# The first steps read the records, probe, and fill caches.
WARM = 2


@dataclass(kw_only=True)
class Runner:
    """A contender at work, and what its steps took."""

    process: subprocess.Popen[str]
    steps: list[list[float]]

    def step(self) -> list[float]:
        """Lets it take a step; returns seconds by the clock and of the processor."""
        assert self.process.stdin is not None
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        seconds: list[float] = self._answer()
        return seconds

    def end(self) -> float:
        """Ends it; returns the peak of its memory in MB."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        peak: float = self._answer()["megabytes"]
        self.process.wait()
        return peak

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"a contender ended with exit code {self.process.wait()}"
            )
        return json.loads(line)


def main() -> int:
    """Runs the benchmark; 0 when the goal is met for every model, else 1."""
    options = read_options(
        __doc__,
        models=choices(MODELS),
        threads=1,
        rounds=option(7, "steps of each contender, in turns; medians are compared"),
        opacus=option(HERE.parents[1] / "build" / "opacus", "folder to keep it in"),
        json=optional(Path),
    )
    console = Console()
    folder = _opacus(options.opacus)
    results = {}
    for model in options.models:
        with console.status(model):
            results[model] = _race(model, folder, options)
        _print(console, model, results[model], options)
    if options.json:
        content = {
            "threads": options.threads,
            "rounds": options.rounds,
            "load": os.getloadavg(),
            "models": results,
        }
        write_json(options.json, content)
    met = all(
        result["noisegate"]["over_opacus"] * GOAL <= 1 for result in results.values()
    )
    console.print(
        f"Goal: at least {GOAL} times as fast as Opacus at its best, and no more memory than it takes then."
    )
    return 0 if met and all(_small(result) for result in results.values()) else 1


def _opacus(folder: Path) -> Path:
    """Installs Opacus into a folder unless it is there."""
    if not (folder / "opacus").exists():
        uv = shutil.which("uv") or shutil.which(
            "uv", path=HERE.parents[1] / ".venv-tools" / "bin"
        )
        if uv is None:
            raise RuntimeError(
                "uv was not found; put it on the PATH, or run `make environment` in this checkout"
            )
        command = [
            uv,
            "pip",
            "install",
            "--quiet",
            "--python",
            sys.executable,
            "--no-deps",
            "--target",
            str(folder),
        ]
        subprocess.run([*command, *OPACUS], check=True)
    return folder


def _race(
    model: str, folder: Path, options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    runners = {
        name: _start(name, model, folder, options.threads) for name in CONTENDERS
    }
    for turn in range(WARM + options.rounds):
        for runner in runners.values():
            seconds = runner.step()
            if turn >= WARM:
                runner.steps.append(seconds)
    peaks = {name: runner.end() for name, runner in runners.items()}
    best = min(CONTENDERS[1:3], key=lambda name: _median(runners[name], 1))
    return {
        name: {
            "milliseconds": 1e3 * _median(runner, 0),
            "least_milliseconds": 1e3 * min(step[0] for step in runner.steps),
            "processor_milliseconds": 1e3 * _median(runner, 1),
            "over_opacus": _ratio(runner, runners[best]),
            "over_no_privacy": _ratio(runner, runners["no privacy"]),
            "peak_megabytes": peaks[name],
        }
        for name, runner in runners.items()
    }


def _start(name: str, model: str, folder: Path, threads: int) -> Runner:
    count = str(threads)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
    }
    if name.startswith("opacus"):
        environment["PYTHONPATH"] = str(folder)
    command = [sys.executable, str(HERE / "gradient_contenders.py"), name, model, count]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    return Runner(process=process, steps=[])


def _median(runner: Runner, which: int) -> float:
    return statistics.median(step[which] for step in runner.steps)


def _ratio(runner: Runner, other: Runner) -> float:
    """Median over rounds of the ratio of processor times: work of others on the machine hardly counts in it."""
    return statistics.median(
        mine[1] / theirs[1]
        for mine, theirs in zip(runner.steps, other.steps, strict=True)
    )


def _small(result: dict[str, dict[str, float]]) -> bool:
    best = min(CONTENDERS[1:3], key=lambda name: result[name]["over_opacus"])
    return result["noisegate"]["peak_megabytes"] <= result[best]["peak_megabytes"]


def _print(
    console: Console,
    model: str,
    result: dict[str, dict[str, float]],
    options: argparse.Namespace,
) -> None:
    title = f"{model}: a step on 256 records, {options.threads} thread(s), load {os.getloadavg()[0]:.1f}"
    page = Table(title=title, title_justify="left")
    page.add_column("")
    for heading in (
        "ms",
        "least ms",
        "processor ms",
        "/ Opacus' best",
        "/ no privacy",
        "peak MB",
    ):
        page.add_column(heading, justify="right")
    for name, row in result.items():
        times = [
            f"{row[key]:,.1f}"
            for key in ("milliseconds", "least_milliseconds", "processor_milliseconds")
        ]
        ratios = [f"{row[key]:.2f}" for key in ("over_opacus", "over_no_privacy")]
        page.add_row(name, *times, *ratios, f"{row['peak_megabytes']:,.0f}")
    console.print(page)


if __name__ == "__main__":
    sys.exit(main())
