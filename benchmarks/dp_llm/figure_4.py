"""Figure 4 of DP-LLM, without privacy: what attributions of a CNN show of an image, beside its strongest linear map.

    python benchmarks/dp_llm/figure_4.py --data DIR --out OUT [--dataset fashion-mnist] [--epochs 20] [--cnn-epochs 5]
        [--projection 0] [--temperature 1] [--json FILE]

One test image of each class; Integrated Gradients, not multiplied with the image as in the paper, and SmoothGrad, both
by Captum. The paper has FashionMNIST, with both classifiers at 87 %; `--dataset mnist` stands in
where only that is at hand. The picture goes to OUT/figure_4-….png. What is trained is kept in OUT.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
from attributions import integrated_gradients, smooth_gradients
from cnn import prepared_cnn
from harness.options import choice, needed, option, optional, read_options
from harness.printing import run_main
from harness.results import write_json
from maps import NAMES, SHAPE, Pixels, Setup, prepared, test_images
from rich.console import Console
from rich.progress import Progress
from torch import nn

from noisegate_evaluate.reporting.pictures import MapRow, maps_picture

# What the paper trains both to.
PUBLISHED = {"fashion-mnist": 0.87}


def main() -> int:
    """Draws the picture; 0 when it could, 2 when it cannot run."""
    options = read_options(
        __doc__,
        data=needed(Path, "folder of the data set"),
        out=needed(Path),
        dataset=choice(tuple(NAMES), "fashion-mnist"),
        epochs=20,
        cnn_epochs=5,
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
    place = options.out / f"figure_4-{setup.name}.png"
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("training")

        def report(done: int, steps: int) -> None:
            progress.update(task, completed=done, total=steps)

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
        found, best, weights = maps.strongest(image, 1)
        shown = np.concatenate([attributions(network, image, kind), best])
        captions = ("IG of the CNN", "SG of the CNN", f"LLM, σ = {weights[0]:.2f}")
        name = f"{name}: {NAMES[options.dataset][found]}"
        rows.append(MapRow(name=name, image=image, maps=shown, captions=captions))
    maps_picture(
        rows,
        place,
        shape=SHAPE,
        title=f"Attributions and maps, {options.dataset}, no privacy",
    )
    told = {"dataset": options.dataset, "maps": maps.told["accuracy"], "cnn": accuracy}
    told |= {"paper": PUBLISHED.get(options.dataset)}
    console.print(
        f"Accuracy on test images: maps {told['maps']:.4f} ({options.epochs} epochs), CNN {accuracy:.4f} "
        f"({options.cnn_epochs}); in the paper {told['paper'] or '(which has FashionMNIST only)'}. Picture: {place}"
    )
    write_json(options.json, told)
    return 0


def attributions(network: nn.Module, image: Pixels, kind: int) -> Pixels:
    """Returns Integrated Gradients and SmoothGrad of an image, (pixels,), for one class, (2, pixels)."""
    one, of = torch.from_numpy(image[None]), torch.tensor([kind])
    both = integrated_gradients(network, one, of), smooth_gradients(network, one, of)
    return torch.cat(both).numpy()


if __name__ == "__main__":
    run_main(main)
