"""DP-MEPF as the paper runs it, on any images: MNIST, CIFAR-10 in colour, your own.

    python benchmarks/dp_mepf/run.py TRAIN --test TEST --size 28 --channels 1 --out DIR --preset small
    python benchmarks/dp_mepf/run.py TRAIN --size 32 --channels 3 --unlabelled --stopping inception --out DIR

TRAIN (private) and TEST are anything that `noisegate fit` reads: Parquet with an image column, class folders, .npz,
torchvision's files. With --test accuracies of classifiers are measured, and the Fréchet distance to TRAIN always.
Learning rates are those of Table 7 for the data set of --rates. A model or a row that is in --out is not made again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.images import draw_grid
from harness.options import (
    ADJACENCY,
    Option,
    choice,
    choices,
    needed,
    option,
    optional,
    positional,
    read_options,
)
from harness.printing import run_main
from harness.results import Rows
from mepf_rates import RATES
from mepf_rows import (
    MEASURING,
    NETWORK,
    STOPPING,
    Row,
    fitted,
    measured,
    network_of,
    preset_of,
    row_of,
    scored,
)
from rich.console import Console


def main() -> None:
    """Fits, or takes the models that are there, and prints their scores."""
    options = read_options(
        __doc__,
        train=positional(Path, "private images"),
        test=optional(Path, "other images of the same kind"),
        out=needed(Path),
        size=32,
        channels=choice([1, 3], 3),
        classes=10,
        unlabelled=option(False, "images alone"),
        epsilon=[1.0],
        moments=choices([1, 2], [2], "1 for φ₁, 2 for φ₁ and φ₂"),
        adjacency=ADJACENCY,
        records=optional(int, "the number of images, public under replace-one"),
        stopping=choice(
            sorted(STOPPING), "none", "by the encoder's channels, or by Inception"
        ),
        rates=Option(
            kind=str,
            choices=tuple(sorted({name for name, _ in RATES})),
            help="whose learning rates; MNIST's for grey images, else CIFAR-10's",
        ),
        classifiers="mlp,logistic",
        features=option(
            "encoder",
            'of the distance; "inception-v3" needs weights, "none" leaves it out',
        ),
        seed=0,
        **NETWORK,
        **MEASURING,
    )
    options.out.mkdir(parents=True, exist_ok=True)
    book = Rows(options.json or options.out / "rows.json")
    names = ("train", "test", "images", "features")
    told = {name: str(getattr(options, name)) for name in names}
    for epsilon in options.epsilon:
        for moments in options.moments:
            row = _row(options, epsilon, moments)
            figures = row_of(book, row, told, lambda row=row: _figures(options, row))
            Console().print_json(data=figures)


def _row(options: argparse.Namespace, epsilon: float, moments: int) -> Row:
    is_grey = options.channels == 1
    return Row(
        data=options.rates or ("mnist" if is_grey else "cifar10"),
        shape=(options.size, options.size, options.channels),
        classes=0 if options.unlabelled else options.classes,
        epsilon=epsilon,
        moments=moments,
        preset=preset_of(options.preset, options.channels),
        stopping=options.stopping,
        steps=options.steps,
        settings=network_of(options),
        adjacency=options.adjacency,
        seed=options.seed,
    )


def _figures(options: argparse.Namespace, row: Row) -> dict[str, Any]:
    name = (
        f"{row.preset}-{row.stopping}-{row.classes}-{row.moments}-{row.epsilon:g}"
        f"-{row.steps or 'all'}-{row.seed}"
    )
    model = fitted(
        row,
        options.train,
        options.out / name,
        device=options.device,
        records=options.records,
    )
    draw_grid(model, options.out / f"{name}.png", seed=row.seed, n_images=2000)
    figures: dict[str, Any] = {}
    if options.features != "none":
        figures |= measured(options, row, model, options.train)
    if row.classes and options.test is not None:
        figures |= scored(
            row,
            model,
            options.test,
            images=options.images,
            classifiers=options.classifiers,
        )
    return {
        "certified_epsilon": model.certificate.check(),
        "discrepancy": model.summary.discrepancy,
        "figures": figures,
    }


if __name__ == "__main__":
    run_main(main)
