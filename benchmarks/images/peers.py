"""Peers in one table: methods that make images, each on the same sets, scored alike, beside `joint`.

    python benchmarks/images/peers.py --data DIR --out OUT [--sets mnist-8k] [--epsilon 1 10] [--methods dp-merf joint]

Each run is one of ../baselines/run.py, in a process of its own: gate and fit, synthetic images, and classifiers that
saw these alone (the convolutional network is chosen by held-out synthetic images), each tested once on real test
images. A run that has ended is a file of --out and is not made again: stop and start as you like. DIR has a folder for
each publisher's data set, mnist and cifar10. `peers_page.py OUT` takes the runs into peers.json and writes peers.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import choices, needed, option, read_options
from harness.printing import run_main
from papers.catalogue import published
from rich.console import Console

RUN = Path(__file__).parents[1] / "baselines" / "run.py"
FOLDERS = {"mnist": "mnist", "mnist-8k": "mnist", "cifar10-grey": "cifar10"}
PEERS: dict[str, dict[str, Any]] = {
    **{"joint": {}, "dp-merf": {}, "dp-hp": {}, "dp-mepf": {}, "pe": {}},
    **{"dp-gan": {"steps": 400}, "dp-sinkhorn": {"steps": 300}},
    **{
        "dpdm": {"steps": 100, "noise_draws": 1},
        "dp-feta": {"steps": 100, "noise_draws": 1},
    },
}
"""Settings that are not the defaults: the schedules of ../baselines, for a processor. None was chosen on a test set."""
SAMPLES, SIZE = {"dp-gan": 256, "dp-sinkhorn": 256, "dpdm": 512, "dp-feta": 512}, 60_000
"""Records that a step's sample is expected to have by default, of so many; here of each set."""


class Run(NamedTuple):
    """What tells one run from another."""

    data_set: str
    epsilon: float
    method: str
    seed: int
    made: int

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"{self.method}-{self.data_set}-{self.epsilon:g}-{self.made}-{self.seed}.json"

    def command(self, data: Path, out: Path) -> list[str]:
        """Returns the command that makes it."""
        settings = dict(PEERS[self.method])
        if (
            self.method in SAMPLES
            and (records := published(self.data_set).train_records) != SIZE
        ):
            settings["sampling_probability"] = round(SAMPLES[self.method] / records, 6)
        told: dict[str, Any] = {
            "method": self.method,
            "data-set": self.data_set,
            "settings": json.dumps(settings),
        }
        told |= {
            "data": data / FOLDERS[self.data_set],
            "epsilon": f"{self.epsilon:g}",
            "made": self.made,
        }
        told |= {"first-seed": self.seed, "json": out / self.name}
        return [
            sys.executable,
            str(RUN),
            *(f"--{name}={value}" for name, value in told.items()),
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the runs that are not there; 1 when one did not end well, 2 when nothing can be run."""
    options, console, failed = (
        read_options(
            __doc__,
            arguments,
            data=needed(Path),
            out=needed(Path),
            sets=choices(FOLDERS),
            epsilon=[0.2, 1.0, 10.0],
            methods=choices(PEERS),
            seeds=1,
            made=option(10_000, "synthetic images"),
            minutes=option(120.0, "wall-clock limit of a run"),
        ),
        Console(),
        0,
    )
    for name in options.sets:
        published(name).find(options.data / FOLDERS[name], *published(name).files)
    options.out.mkdir(parents=True, exist_ok=True)
    for run in _runs(options):
        if (options.out / run.name).exists():
            console.print(f"{run.name}: there")
            continue
        try:
            code = subprocess.run(
                run.command(options.data, options.out), timeout=60 * options.minutes
            ).returncode
        except subprocess.TimeoutExpired:
            console.print(
                f"{run.name}: not done in {options.minutes:g} minutes; give it more with --minutes"
            )
            code = 1
        failed |= bool(code)
    return failed


def _runs(options: argparse.Namespace) -> Iterator[Run]:
    parts = (
        options.sets,
        options.epsilon,
        options.methods,
        range(options.seeds),
        [options.made],
    )
    return (Run(*run) for run in itertools.product(*parts))


if __name__ == "__main__":
    run_main(main)
