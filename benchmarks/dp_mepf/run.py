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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from harness.options import (
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

sys.path.insert(0, str(Path(__file__).parent))

from mepf_rates import RATES
from mepf_rows import STOPPING, Book, Row, accuracies, draw, fitted, frechet
from rich.console import Console

from noisegate_evaluate import named_features


def main() -> int:
    """Fits, or takes the models that are there, and prints their scores; 2 when it cannot run."""
    options, console = _options(), Console()
    options.out.mkdir(parents=True, exist_ok=True)
    book = Book(options.json or options.out / "rows.json")
    for epsilon in options.epsilon:
        for moments in options.moments:
            row = _row(options, epsilon, moments)
            told = {
                name: str(getattr(options, name))
                for name in ("train", "test", "images", "features")
            }
            found = book.row(row, told, lambda row=row: _figures(options, row))
            console.print_json(data=found)
    return 0


def _row(options: argparse.Namespace, epsilon: float, moments: int) -> Row:
    grey = options.channels == 1
    given = {name: getattr(options, name) for name in ("network", "weights", "sha256")}
    return Row(
        data=options.rates or ("mnist" if grey else "cifar10"),
        shape=(options.size, options.size, options.channels),
        classes=0 if options.unlabelled else options.classes,
        epsilon=epsilon,
        moments=moments,
        preset={"paper": "paper-grey" if grey else "paper"}.get(
            options.preset, options.preset
        ),
        stopping=options.stopping,
        steps=options.steps,
        settings={name: value for name, value in given.items() if value is not None},
        adjacency=options.adjacency,
        seed=options.seed,
    )


def _figures(options: argparse.Namespace, row: Row) -> Mapping[str, Any]:
    fields = (
        row.preset,
        row.stopping,
        row.classes,
        row.moments,
        f"{row.epsilon:g}",
        row.steps or "all",
        row.seed,
    )
    name = "-".join(map(str, fields))
    made = fitted(
        row,
        options.train,
        options.out / name,
        device=options.device,
        records=options.records,
    )
    draw(made, options.out / f"{name}.png", seed=row.seed)
    found: dict[str, Any] = {}
    if options.features != "none":
        features = named_features(options.features, options.features_weights)
        found |= frechet(
            row,
            made,
            options.train,
            images=min(options.images, 5000),
            features=features,
        )
    if row.classes and options.test is not None:
        found |= accuracies(
            row,
            made,
            options.test,
            images=options.images,
            classifiers=options.classifiers,
        )
    return {
        "certified_epsilon": made.certificate.check(),
        "discrepancy": made.summary.discrepancy,
        "figures": found,
    }


def _options() -> argparse.Namespace:
    rates = sorted({name for name, _ in RATES})
    return read_options(
        __doc__,
        train=positional(Path, "private images"),
        test=optional(Path, "other images of the same kind"),
        out=needed(Path),
        json=optional(Path),
        size=32,
        channels=choice([1, 3], 3),
        classes=10,
        unlabelled=option(False, "images alone"),
        epsilon=[1.0],
        moments=choices([1, 2], [2], "1 for φ₁, 2 for φ₁ and φ₂"),
        adjacency=choice(["add-remove", "replace-one"]),
        records=optional(int, "the number of images, public under replace-one"),
        preset=choice(
            ["paper", "small"], text="small: 1,600 steps of a small generator"
        ),
        steps=optional(int),
        stopping=choice(
            sorted(STOPPING), "none", "by the encoder's channels, or by Inception"
        ),
        rates=Option(
            kind=str,
            choices=tuple(rates),
            help="whose learning rates; MNIST's for grey images, else CIFAR-10's",
        ),
        network=optional(str, '"encoder", "torchvision:NAME"; the preset\'s'),
        weights=optional(str, "file of its weights"),
        sha256=optional(str, "digest of that file"),
        images=60_000,
        classifiers="mlp,logistic",
        features=option(
            "encoder",
            'of the distance; "inception-v3" needs weights, "none" leaves it out',
        ),
        features_weights=optional(Path, "file of Inception's weights"),
        seed=0,
        device="auto",
    )


if __name__ == "__main__":
    run_main(main)
