"""Figure 2 of DP-LLM: what explains a digit at ε = 2 and 5.2, with and without a projection, beside private CNNs.

    python benchmarks/dp_llm/figure_2.py --data DIR --out OUT [--epochs 20] [--cnn-steps 700] [--json FILE]

Two test images. Of each, the three strongest maps of three classifiers with the authors' settings (ε = 2 with 300
dimensions, ε = 2 without a projection, ε = 5.2 without), and Integrated Gradients and SmoothGrad of two networks
trained by DP-SGD at ε = 2 and 5.4 (`noisegate_papers.methods.dp_sgd`; the paper does not say which CNN it has).
Fewer epochs or steps are a reduced schedule, and the picture says so. It goes to OUT/figure_2.png, with one blurred by
a pixel beside it; what is trained is kept in OUT.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from cnn import prepared_private_cnn
from figure_4 import attributions
from harness.options import needed, optional, read_options
from harness.printing import run_main
from harness.results import write_json
from maps import SHAPE, Setup, prepared, test_images
from rich.console import Console
from rich.progress import Progress

from noisegate_evaluate.reporting.pictures import MapRow, maps_picture

MAPS = ((2.0, 300), (2.0, None), (5.2, None))
NETWORKS = (2.0, 5.4)
SHOWN = (2, 7)  # digits
STRONGEST = 3
FULL = {"epochs": 20, "cnn_steps": 700}


def main() -> int:
    """Draws the pictures; 0 when it could, 2 when it cannot run."""
    options = read_options(
        __doc__,
        data=needed(Path, "folder of MNIST"),
        out=needed(Path),
        epochs=FULL["epochs"],
        cnn_steps=FULL["cnn_steps"],
        json=optional(Path),
    )
    console = Console(width=120)
    with Progress(console=console, transient=True) as progress:
        whole, part = (
            progress.add_task("classifiers", total=len(MAPS) + len(NETWORKS)),
            progress.add_task("steps"),
        )

        def report(done: int, steps: int) -> None:
            progress.update(part, completed=done, total=steps)

        maps, networks = [], []
        for epsilon, projection in MAPS:
            setup = Setup(epsilon=epsilon, projection=projection, epochs=options.epochs)
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
    write_json(options.json, told)
    return 0


if __name__ == "__main__":
    run_main(main)
