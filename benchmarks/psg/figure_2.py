"""Figures 2 and 5 of PSG: accuracy against ε, of images moved by themselves and of images that a prior makes.

    python benchmarks/psg/figure_2.py --data DIR --out DIR [--epsilon 1 10] [--prior none dcgan] [--plot FILE.png]

Each point is a run of its own, calibrated for its ε; the paper reads one run on its way. It prints no numbers for these
curves, but those of Table 1. See README.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import choices, fail, optional, read_options
from harness.printing import run_main
from harness.results import read_json
from psg.sets import OPTIONS, cell_of, prior_settings, published, run_cells
from psg.table_3 import PRIORS


def main() -> None:
    """Makes the page, and the plot if one is asked for."""
    options = read_options(
        __doc__,
        **OPTIONS,
        epsilon=[0.5, 1.0, 2.0, 5.0, 10.0],
        prior=choices(PRIORS, ["none"]),
        samples_per_class=10,
        plot=optional(Path, "draw it there, from --json"),
    )
    if options.plot and not options.json:
        fail("--plot draws what is in --json: give both")
    cells = []
    for prior in options.prior:
        for epsilon in options.epsilon:
            paper = None
            if prior == "none":
                paper = published(
                    "1",
                    options.data_set,
                    method="psg",
                    epsilon=epsilon,
                    samples_per_class=options.samples_per_class,
                )
            cells.append(
                cell_of(
                    options,
                    f"prior: {prior}",
                    f"ε = {epsilon:g}",
                    samples_per_class=options.samples_per_class,
                    epsilon=epsilon,
                    paper=paper,
                    settings=prior_settings(prior),
                )
            )
    title = f"PSG, Figures 2 and 5, {options.samples_per_class} of each class"
    run_cells(title, options, cells)
    if options.plot:
        draw(options)


def draw(options: argparse.Namespace) -> None:
    """Writes the curves into --plot."""
    from matplotlib.figure import Figure

    content = read_json(options.json)
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
    run_main(main)
