"""Peers in one table: methods that make images, each on the same sets, scored alike, beside `joint`.

    python benchmarks/images/peers.py --data DIR --out OUT [--sets mnist-8k] [--epsilon 1 10] [--methods dp-merf joint]

Each run is one of ../baselines/run.py, in a process of its own: gate and fit, synthetic images, and classifiers that
saw these alone (the convolutional network is chosen by held-out synthetic images), each tested once on real test
images. A run that has ended is a file of --out and is not made again: stop and start as you like. DIR has a folder for
each publisher's data set, mnist and cifar10. `peers_page.py OUT` takes the runs into peers.json and writes peers.md.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import choices, needed, option, read_options
from harness.printing import run_main
from papers.catalogue import published

RUN = Path(__file__).parents[1] / "baselines" / "run.py"
FOLDERS = {"mnist": "mnist", "mnist-8k": "mnist", "cifar10-grey": "cifar10"}
PEERS: dict[str, dict[str, Any]] = {
    "joint": {},
    "dp-merf": {},
    "dp-hp": {},
    "dp-mepf": {},
    "pe": {},
    "dp-gan": {"steps": 400},
    "dp-sinkhorn": {"steps": 300},
    "dpdm": {"steps": 100, "noise_draws": 1},
    "dp-feta": {"steps": 100, "noise_draws": 1},
}
"""Settings that are not the defaults: the schedules of ../baselines, for a processor. None was chosen on a test set."""
SAMPLES, SIZE = {"dp-gan": 256, "dp-sinkhorn": 256, "dpdm": 512, "dp-feta": 512}, 60_000
"""Records that a step's sample is expected to have by default, of so many; here of each set."""


def settings_of(method: str, data_set: str) -> dict[str, Any]:
    """Returns the settings of a method on a set."""
    settings = dict(PEERS[method])
    records = published(data_set).train_records
    if method in SAMPLES and records != SIZE:
        settings["sampling_probability"] = round(SAMPLES[method] / records, 6)
    return settings


def main() -> int:
    """Makes the runs that are not there; 1 when one did not end well, 2 when nothing can be run."""
    options = read_options(
        __doc__,
        data=needed(Path, "folder with mnist and cifar10; see ../papers/README.md"),
        out=needed(Path, "folder of runs; what is there is kept"),
        sets=choices(FOLDERS),
        epsilon=[0.2, 1.0, 10.0],
        methods=choices(PEERS),
        seeds=1,
        made=option(10_000, "synthetic images"),
        minutes=option(120.0, "wall-clock limit of a run"),
    )
    for name in options.sets:
        published(name).find(options.data / FOLDERS[name], *published(name).files)
    options.out.mkdir(parents=True, exist_ok=True)
    failed = False
    for data_set, epsilon, method, seed in itertools.product(
        options.sets, options.epsilon, options.methods, range(options.seeds)
    ):
        name = f"{method}-{data_set}-{epsilon:g}-{options.made}-{seed}.json"
        if (options.out / name).exists():
            print(f"{name}: there", flush=True)
            continue
        given = {
            "method": method,
            "data-set": data_set,
            "settings": json.dumps(settings_of(method, data_set)),
            "data": options.data / FOLDERS[data_set],
            "epsilon": f"{epsilon:g}",
            "made": options.made,
            "first-seed": seed,
            "json": options.out / name,
        }
        arguments = [f"--{option}={value}" for option, value in given.items()]
        command = [sys.executable, str(RUN), *arguments]
        try:
            code = subprocess.run(command, timeout=60 * options.minutes).returncode
        except subprocess.TimeoutExpired:
            print(
                f"{name}: not done in {options.minutes:g} minutes; give it more with --minutes",
                flush=True,
            )
            code = 1
        failed |= code != 0
    return int(failed)


if __name__ == "__main__":
    run_main(main)
