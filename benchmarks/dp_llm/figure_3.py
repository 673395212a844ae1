"""Figure 3 of DP-LLM, without privacy: test images of two classes, each with the three maps that weigh most.

    python benchmarks/dp_llm/figure_3.py --data DIR --out OUT [--dataset fashion-mnist] [--epochs 20] [--projection 0]
        [--temperature 1] [--json FILE]

The paper has FashionMNIST; `--dataset mnist` stands in where only that is at hand. The picture goes to
OUT/figure_3-….png. What is trained is kept in OUT, also for the other figures.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from harness.options import choice, needed, option, optional, read_options
from harness.printing import run_main
from harness.results import write_json
from maps import NAMES, SHAPE, Maps, Pixels, Setup, prepared, test_images
from rich.console import Console
from rich.progress import Progress

from noisegate_evaluate.reporting.pictures import MapRow, maps_picture

# Coats and sandals in the paper's figure; in MNIST digits that are written in more than one way.
SHOWN = {"fashion-mnist": (4, 5), "mnist": (4, 7)}
STRONGEST, IMAGES = 3, 4
# What the paper trains it to.
PUBLISHED = {"fashion-mnist": 0.87}


def main() -> int:
    """Draws the picture; 0 when it could, 2 when it cannot run."""
    options = read_options(
        __doc__,
        data=needed(Path, "folder of the data set"),
        out=needed(Path),
        dataset=choice(tuple(SHOWN), "fashion-mnist"),
        epochs=20,
        projection=option(300, "D'; 0 for none, where single maps are smoother"),
        temperature=optional(float, "T; the authors' is 1, for MNIST 30"),
        seed=0,
        json=optional(Path),
    )
    console = Console()
    chosen = {
        "projection": options.projection or None,
        "temperature": options.temperature,
        "seed": options.seed,
    }
    setup = Setup(
        epsilon=math.inf, epochs=options.epochs, dataset=options.dataset, **chosen
    )
    place = options.out / f"figure_3-{setup.name}.png"
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("training")
        maps = prepared(
            setup,
            options.data,
            options.out,
            lambda done, of: progress.update(task, completed=done, total=of),
        )
    images, labels = test_images(options.dataset, options.data)
    rows, first = [], []
    for kind in SHOWN[options.dataset]:
        for image in images[labels == kind][:IMAGES]:
            rows.append(
                strongest_row(
                    maps, image, f"{NAMES[options.dataset][kind]}", options.dataset
                )
            )
            first.append(maps.strongest(image, 1)[2][0])
    title = f"The {STRONGEST} strongest maps, {options.dataset}, no privacy"
    maps_picture(rows, place, shape=SHAPE, title=title)
    told = {
        "dataset": options.dataset,
        "epochs": options.epochs,
        "accuracy": maps.told["accuracy"],
    }
    told |= {
        "paper": PUBLISHED.get(options.dataset),
        "weight of the strongest map": float(np.mean(first)),
    }
    console.print(
        f"Accuracy on test images {told['accuracy']:.4f} after {options.epochs} epochs, in the paper "
        f"{told['paper'] or '(which has FashionMNIST only)'}; the strongest map has "
        f"{np.mean(first):.0%} of the weight in the mean. Picture: {place}"
    )
    write_json(options.json, told)
    return 0


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
