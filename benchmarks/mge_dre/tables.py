"""One table or figure of the paper: our rows beside its rows. Each script of this folder names what is in it."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import optional, read_options
from harness.printing import print_table
from harness.results import write_json
from mge_dre import run
from mge_dre.published import EPSILONS, PAPER_ROWS, Rows

STAND_IN = (
    "The paper: IC-GAN on ImageNet, 224 pixels, Inception's features, best of several settings by FID on the private "
    "images. Here: vehicles of CIFAR-10's test images, 32 pixels, the encoder and decoder of the package, features of "
    "an encoder that no method uses; settings fixed beforehand. Distances are not on one scale: what can be compared "
    "is the order of the methods and how they fall with epsilon."
)
"""What differs, which stands under each table."""

MEPF_PAPER = 200_000
"""Steps of DP-MEPF in the paper; fewer are said to be."""


def command(
    title: str,
    figures: Mapping[str, Rows | None],
    *,
    private: str,
    paper: str,
    description: str,
) -> None:
    """Runs what is not there yet, prints each figure beside the paper's, and writes JSON where it is asked for.

    Args:
        title: What it is in the paper.
        figures: By the name of our figure, the paper's rows of five; None where the paper draws them only.
        private: Which images are private where nobody says otherwise; see `run`.
        paper: The paper's data set.
        description: For --help.
    """
    options = read_options(
        description,
        **run.OPTIONS
        | {
            "private": replace(run.OPTIONS["private"], default=private),
            "epsilon": EPSILONS,
            "json": optional(Path, "file for the rows"),
        },
    )
    page = described(options, title, paper)
    rows = run.figures_of(options)
    for figure, published in figures.items():
        page["figures"][figure] = beside(options.epsilon, rows, figure, published)
        show(title, figure, options.epsilon, page["figures"][figure])
    print(page["differs"], page["reduced"])
    write_json(options.json, page)


def described(options: argparse.Namespace, title: str, paper: str) -> dict[str, Any]:
    """Returns what is said of a table, beside its figures."""
    short = options.mepf_steps < MEPF_PAPER and "dp-mepf" in options.methods
    return {
        "table": title,
        "paper_set": paper,
        "private": options.private,
        "seed": options.seed,
        "images": options.images,
        "tolerance": "none: other data and features than the paper's; the order of methods counts",
        "differs": STAND_IN,
        "reduced": f"dp-mepf: {options.mepf_steps:,} of {MEPF_PAPER:,} steps."
        if short
        else "",
        "figures": {},
    }


def beside(
    epsilons: list[float], rows: Mapping[str, Any], figure: str, published: Rows | None
) -> list[dict[str, Any]]:
    """Returns a row for each of ours, with what the paper has at the same place, where it has such a row."""
    found = []
    for name, row in rows.items():
        ours = [run.value_of(row, epsilon, figure) for epsilon in epsilons]
        if all(value is None for value in ours):
            continue
        printed = (published or {}).get(PAPER_ROWS.get(name, ""), ())
        at = dict(
            zip(
                EPSILONS,
                printed * (len(EPSILONS) // max(len(printed), 1)),
                strict=False,
            )
        )
        theirs = [at.get(epsilon) for epsilon in epsilons]
        found.append(
            {
                "row": name,
                "paper_row": PAPER_ROWS.get(name),
                "ours": ours,
                "paper": theirs,
            }
        )
    return found


def show(
    title: str, figure: str, epsilons: list[float], rows: list[dict[str, Any]]
) -> None:
    """Prints a table: ours, and the paper's in brackets."""
    headings = [
        "no privacy" if math.isinf(epsilon) else f"ε = {epsilon:g}"
        for epsilon in epsilons
    ]
    lines = []
    for row in rows:
        cells = []
        for ours, paper in zip(row["ours"], row["paper"], strict=True):
            text = "-" if ours is None else f"{ours:.3f}"
            cells.append(text if paper is None else f"{text} ({paper:g})")
        lines.append([row["row"], *cells])
    print_table(f"{title}: {figure}; the paper's in brackets", ["", *headings], lines)
