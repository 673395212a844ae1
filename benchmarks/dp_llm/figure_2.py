"""Figure 2 of DP-LLM: what explains a digit at ε = 2 and 5.2, with and without a projection, beside private CNNs.

    python benchmarks/dp_llm/figure_2.py --data DIR --out OUT [--epochs 20] [--cnn-steps 700] [--json FILE]

Two test images. Of each, the three strongest maps of three classifiers with the authors' settings (ε = 2 with 300
dimensions, ε = 2 without a projection, ε = 5.2 without), and Integrated Gradients and SmoothGrad of two networks
trained by DP-SGD at ε = 2 and 5.4 (`noisegate_papers.methods.classifiers`; the paper does not say which CNN it has).
Fewer epochs or steps are a reduced schedule, and the picture says so. It goes to OUT/figure_2.png, with one blurred by
a pixel beside it; what is trained is kept in OUT.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

import numpy as np
from cnn import prepared_private_cnn
from figure_4 import attributions
from maps import SHAPE, Setup, prepared, test_images
from rich.console import Console
from rich.progress import Progress

from noisegate import UserError
from noisegate_evaluate.reporting.pictures import MapRow, maps_picture

MAPS = ((2.0, 300), (2.0, None), (5.2, None))
NETWORKS = (2.0, 5.4)
SHOWN = (2, 7)  # digits
STRONGEST = 3
FULL = {"epochs": 20, "cnn_steps": 700}


def main() -> int:
    """Draws the pictures; 0 when it could, 2 when it cannot run."""
    options = _options()
    console = Console(width=120)
    try:
        with Progress(console=console, transient=True) as progress:
            whole, part = (
                progress.add_task("classifiers", total=len(MAPS) + len(NETWORKS)),
                progress.add_task("steps"),
            )

            def report(done: int, steps: int) -> None:
                progress.update(part, completed=done, total=steps)

            maps, networks = [], []
            for epsilon, projection in MAPS:
                setup = Setup(
                    epsilon=epsilon, projection=projection, epochs=options.epochs
                )
                maps.append(prepared(setup, options.data, options.out, report))
                progress.advance(whole)
            for epsilon in NETWORKS:
                networks.append(
                    prepared_private_cnn(
                        options.data, options.out, epsilon, options.cnn_steps, report
                    )
                )
                progress.advance(whole)
        images, labels = test_images("mnist", options.data)
        rows, weights = [], []
        for digit in SHOWN:
            image = images[labels == digit][0]
            shown, captions = [], []
            for (epsilon, projection), one in zip(MAPS, maps, strict=True):
                _, best, sigma = one.strongest(image, STRONGEST)
                shown.append(best)
                weights.append(float(sigma[0]))
                captions += [
                    f"{epsilon:g} {projection or 'all'}: {value:.2f}" for value in sigma
                ]
            for epsilon, (network, _) in zip(NETWORKS, networks, strict=True):
                shown.append(attributions(network, 2 * image, digit))
                captions += [f"IG, {epsilon:g}", f"SG, {epsilon:g}"]
            rows.append(
                MapRow(
                    name=str(digit),
                    image=image,
                    maps=np.concatenate(shown),
                    captions=tuple(captions),
                )
            )
        reduced = ""
        if (options.epochs, options.cnn_steps) != tuple(FULL.values()):
            reduced = f" (reduced schedule: {options.epochs} epochs, CNN {options.cnn_steps} steps)"
        title = f"Three strongest maps by ε and projection, and attributions of private CNNs{reduced}"
        maps_picture(rows, options.out / "figure_2.png", shape=SHAPE, title=title)
        maps_picture(
            rows,
            options.out / "figure_2-smooth.png",
            shape=SHAPE,
            title=f"{title}, blurred",
            smooth=1.0,
        )
    except UserError as error:
        console.print(f"[red]{error}[/red]")
        return 2
    told = [
        {**one.told, "classifier": "maps", "epsilon": epsilon, "projection": projection}
        for (epsilon, projection), one in zip(MAPS, maps, strict=True)
    ] + [
        {"classifier": "CNN", "epsilon": e, "accuracy": a}
        for e, (_, a) in zip(NETWORKS, networks, strict=True)
    ]
    for one in told:
        console.print(
            f"{one['classifier']} ε = {one['epsilon']:g} {one.get('projection') or ''}: {one['accuracy']:.4f}"
        )
    console.print(
        f"The strongest map has {statistics.fmean(weights):.0%} of the weight. Pictures: {options.out}"
    )
    if options.json:
        options.json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Figure 2 of DP-LLM: maps by ε and projection, beside private CNNs."
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of MNIST")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="folder of pictures, and of what was trained",
    )
    parser.add_argument(
        "--epochs",
        type=int,
        default=FULL["epochs"],
        help="of the maps; the paper has 20",
    )
    parser.add_argument("--cnn-steps", type=int, default=FULL["cnn_steps"])
    parser.add_argument(
        "--json", type=Path, default=None, help="write the accuracies there"
    )
    options = parser.parse_args()
    if min(options.epochs, options.cnn_steps) < 1:
        parser.error("--epochs and --cnn-steps must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
