"""Figure 4 of DP-LLM, without privacy: what attributions of a CNN show of an image, beside its strongest linear map.

    python benchmarks/dp_llm/figure_4.py --data DIR --out OUT [--dataset fashion-mnist] [--epochs 20] [--cnn-epochs 5]
        [--projection 0] [--temperature 1] [--json FILE]

One test image of each class; Integrated Gradients, not multiplied with the image as in the paper, and SmoothGrad, both
by Captum. The paper has FashionMNIST, with both classifiers at 87 %; `--dataset mnist` stands in
where only that is at hand. The picture goes to OUT/figure_4-….png. What is trained is kept in OUT.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from attributions import integrated_gradients, smooth_gradients
from cnn import prepared_cnn
from harness.options import read_options
from harness.printing import run_main
from harness.results import write_json
from maps import (
    NAMES,
    PUBLISHED,
    SHAPE,
    WITHOUT_PRIVACY,
    Pixels,
    prepared,
    setup_of,
    test_images,
    training_bar,
)
from torch import nn

from noisegate_evaluate.reporting.pictures import MapRow, maps_picture


def main() -> None:
    """Draws the picture."""
    options = read_options(__doc__, **WITHOUT_PRIVACY, cnn_epochs=5)
    setup = setup_of(options)
    with training_bar() as report:
        maps = prepared(setup, options.data, options.out, report)
        network, accuracy = prepared_cnn(
            options.dataset,
            options.data,
            options.out,
            epochs=options.cnn_epochs,
            seed=options.seed,
            report=report,
        )
    images, labels = test_images(options.dataset, options.data)
    rows = []
    for kind, name in enumerate(NAMES[options.dataset]):
        image = images[labels == kind][0]
        predicted, best, weights = maps.strongest(image, 1)
        rows.append(
            MapRow(
                name=f"{name}: {NAMES[options.dataset][predicted]}",
                image=image,
                maps=np.concatenate([attributions(network, image, kind), best]),
                captions=(
                    "IG of the CNN",
                    "SG of the CNN",
                    f"LLM, σ = {weights[0]:.2f}",
                ),
            )
        )
    path = options.out / f"figure_4-{setup.name}.png"
    title = f"Attributions and maps, {options.dataset}, no privacy"
    maps_picture(rows, path, shape=SHAPE, title=title)
    figures = {
        "dataset": options.dataset,
        "maps": maps.told["accuracy"],
        "cnn": accuracy,
        "paper": PUBLISHED.get(options.dataset),
    }
    print(
        f"Accuracy on test images: maps {figures['maps']:.4f} ({options.epochs} epochs), CNN {accuracy:.4f} "
        f"({options.cnn_epochs}); in the paper {figures['paper'] or '(which has FashionMNIST only)'}. Picture: {path}"
    )
    write_json(options.json, figures)


def attributions(network: nn.Module, image: Pixels, kind: int) -> Pixels:
    """Returns Integrated Gradients and SmoothGrad of an image, (pixels,), for one class, (2, pixels)."""
    one, of = torch.from_numpy(image[None]), torch.tensor([kind])
    both = integrated_gradients(network, one, of), smooth_gradients(network, one, of)
    return torch.cat(both).numpy()


if __name__ == "__main__":
    run_main(main)
