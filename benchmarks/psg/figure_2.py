"""Figures 2 and 5 of PSG: accuracy against ε, of images moved by themselves and of images that a prior makes.

    python benchmarks/psg/figure_2.py --data DIR --out DIR [--epsilon 1 10] [--prior none dcgan] [--plot FILE.png]

Each point is a run of its own, calibrated for its ε; the paper reads one run on its way. It prints no numbers for these
curves, but those of Table 1. See README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from psg.sets import Cell, method_of, parser_of, published, run_cells
from psg.table_3 import PRIORS

SAMPLES = 10


def main() -> int:
    """Makes the page, and the plot if one is asked for; 0 when it ran, 2 when it cannot."""
    parser = parser_of(__doc__ or "")
    parser.add_argument(
        "--epsilon", type=float, nargs="+", default=[0.5, 1.0, 2.0, 5.0, 10.0]
    )
    parser.add_argument("--prior", nargs="+", choices=PRIORS, default=["none"])
    parser.add_argument("--samples-per-class", type=int, default=SAMPLES)
    parser.add_argument(
        "--plot", type=Path, default=None, help="draw it there, from --json"
    )
    options = parser.parse_args()
    if options.plot and not options.json:
        parser.error("--plot draws what is in --json: give both")
    cells = []
    for prior in options.prior:
        network = {} if prior == "none" else {"prior": True, "prior_network": prior}
        for epsilon in options.epsilon:
            given = {"steps": options.steps, "width": options.width, **network}
            method = method_of(
                options.schedule,
                samples_per_class=options.samples_per_class,
                epsilon=epsilon,
                **given,
            )
            told = {
                "method": "psg",
                "epsilon": epsilon,
                "samples_per_class": options.samples_per_class,
            }
            paper = (
                published("1", options.data_set, **told) if prior == "none" else None
            )
            cells.append(
                Cell(
                    row=f"prior: {prior}",
                    column=f"ε = {epsilon:g}",
                    method=method,
                    epsilon=epsilon,
                    paper=paper,
                )
            )
    code = run_cells(
        f"PSG, Figures 2 and 5, {options.samples_per_class} of each class",
        options,
        cells,
    )
    if options.plot and code == 0:
        draw(options)
    return code


def draw(options: argparse.Namespace) -> None:
    """Writes the curves into --plot."""
    from matplotlib.figure import Figure

    content = json.loads(options.json.read_text())
    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    for row in dict.fromkeys(one["row"] for one in content["cells"]):
        points = sorted(
            (one["epsilon"], one["accuracy"])
            for one in content["cells"]
            if one["row"] == row
        )
        axes.plot(*zip(*points, strict=True), marker="o", label=row)
    axes.set_xscale("log")
    axes.set_xlabel("ε")
    axes.set_ylabel("accuracy of a ConvNet")
    axes.set_title(f"{content['data_set']}: {content['schedule']}", fontsize=9)
    axes.legend()
    figure.savefig(options.plot, dpi=150)


if __name__ == "__main__":
    sys.exit(main())
