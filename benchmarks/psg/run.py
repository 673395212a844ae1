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

from psg.sets import Cell, method_of, parser_of, published, run_cells


def main() -> int:
    """Runs the benchmark; 0 when it ran, 2 when it cannot."""
    parser = parser_of(__doc__ or "")
    parser.add_argument(
        "--epsilon",
        type=float,
        nargs="+",
        default=[10.0],
        help="one set, or one for each",
    )
    parser.add_argument("--samples-per-class", type=int, default=10)
    parser.add_argument(
        "--network", default="ConvNet", help="which network is trained on the set"
    )
    parser.add_argument(
        "--set",
        nargs="+",
        type=_setting,
        default=[],
        metavar="NAME=VALUE",
        help="settings of psg",
    )
    options = parser.parse_args()
    given = {"steps": options.steps, "width": options.width, **dict(options.set)}
    cells = []
    for epsilon in options.epsilon:
        told = {
            "method": "psg",
            "epsilon": epsilon,
            "samples_per_class": options.samples_per_class,
        }
        cells.append(
            Cell(
                row=f"{options.samples_per_class} of each class",
                column=f"ε = {epsilon:g}",
                method=method_of(
                    options.schedule,
                    samples_per_class=options.samples_per_class,
                    epsilon=epsilon,
                    **given,
                ),
                epsilon=epsilon,
                network=options.network,
                paper=published("1", options.data_set, options.network, **told),
            )
        )
    return run_cells("PSG", options, cells)


def _setting(text: str) -> tuple[str, Any]:
    """Returns a setting and its value, in JSON."""
    name, _, value = text.partition("=")
    return name, json.loads(value)


if __name__ == "__main__":
    sys.exit(main())
