"""Figure 3 of DP-LLM, without privacy: test images of two classes, each with the three maps that weigh most.

    python benchmarks/dp_llm/figure_3.py --data DIR --out OUT [--dataset fashion-mnist] [--epochs 20] [--projection 0]
        [--temperature 1] [--json FILE]

The paper has FashionMNIST; `--dataset mnist` stands in where only that is at hand. The picture goes to
OUT/figure_3-….png. What is trained is kept in OUT, also for the other figures.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from harness.options import read_options
from harness.printing import run_main
from harness.results import write_json
from maps import (
    NAMES,
    PUBLISHED,
    SHAPE,
    WITHOUT_PRIVACY,
    Maps,
    Pixels,
    prepared,
    setup_of,
    test_images,
    training_bar,
)

from noisegate_evaluate.reporting.pictures import MapRow, maps_picture

# Coats and sandals in the paper's figure; in MNIST digits that are written in more than one way.
SHOWN = {"fashion-mnist": (4, 5), "mnist": (4, 7)}
STRONGEST, IMAGES = 3, 4


def main() -> None:
    """Draws the picture."""
    options = read_options(__doc__, **WITHOUT_PRIVACY)
    setup = setup_of(options)
    with training_bar() as report:
        maps = prepared(setup, options.data, options.out, report)
    images, labels = test_images(options.dataset, options.data)
    rows = []
    first_weights = []
    for kind in SHOWN[options.dataset]:
        for image in images[labels == kind][:IMAGES]:
            name = NAMES[options.dataset][kind]
            rows.append(strongest_row(maps, image, name, options.dataset))
            first_weights.append(maps.strongest(image, 1)[2][0])
    path = options.out / f"figure_3-{setup.name}.png"
    title = f"The {STRONGEST} strongest maps, {options.dataset}, no privacy"
    maps_picture(rows, path, shape=SHAPE, title=title)
    figures = {
        "dataset": options.dataset,
        "epochs": options.epochs,
        "accuracy": maps.told["accuracy"],
        "paper": PUBLISHED.get(options.dataset),
        "weight of the strongest map": float(np.mean(first_weights)),
    }
    print(
        f"Accuracy on test images {figures['accuracy']:.4f} after {options.epochs} epochs, in the paper "
        f"{figures['paper'] or '(which has FashionMNIST only)'}; the strongest map has "
        f"{np.mean(first_weights):.0%} of the weight in the mean. Picture: {path}"
    )
    write_json(options.json, figures)


def strongest_row(maps: Maps, image: Pixels, label: str, dataset: str) -> MapRow:
    """Returns an image, (pixels,), with its strongest maps: its label, what is predicted, and their weights."""
    found, best, weights = maps.strongest(image, STRONGEST)
    captions = tuple(f"σ = {weight:.2f}" for weight in weights)
    return MapRow(
        name=f"{label}: {NAMES[dataset][found]}",
        image=image,
        maps=best,
        captions=captions,
    )


if __name__ == "__main__":
    run_main(main)
