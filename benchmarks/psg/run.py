"""One private set of PSG: make it, train a ConvNet on it alone, score it on the test images.

    python benchmarks/psg/run.py --data DIR --out DIR [--epsilon 10] [--samples-per-class 10] [--schedule laptop]
    python benchmarks/psg/run.py --data DIR --out DIR --set ema_decay=0.99 outer=3       # with other settings

Tables and figures of the paper have commands of their own. What is made is kept in --out and not made again: stop and
start as you like. A run that is stopped in the middle goes on where it stood, and its steps are paid for once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import Option, option, read_options
from harness.printing import run_main
from psg.sets import OPTIONS, cell_of, published, run_cells


def main() -> None:
    """Runs the benchmark."""
    options = read_options(
        __doc__,
        **OPTIONS,
        epsilon=option([10.0], "one set, or one for each"),
        samples_per_class=10,
        network=option("ConvNet", "which network is trained on the set"),
        set=Option(
            kind=_setting, default=[], is_list=True, help="NAME=VALUE, settings of psg"
        ),
    )
    key = {"method": "psg", "samples_per_class": options.samples_per_class}
    cells = [
        cell_of(
            options,
            f"{options.samples_per_class} of each class",
            f"ε = {epsilon:g}",
            samples_per_class=options.samples_per_class,
            epsilon=epsilon,
            network=options.network,
            paper=published(
                "1", options.data_set, options.network, epsilon=epsilon, **key
            ),
            settings=dict(options.set),
        )
        for epsilon in options.epsilon
    ]
    run_cells("PSG", options, cells)


def _setting(text: str) -> tuple[str, Any]:
    """Returns a setting and its value, in JSON."""
    name, _, value = text.partition("=")
    return name, json.loads(value)


if __name__ == "__main__":
    run_main(main)
