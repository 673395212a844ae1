"""The papers' "full MMD": a generator fitted to real images by the MMD itself, without privacy. A reference alone.

DP-HP (Vinaroz et al. 2022), section 5.3 and equation 2: no random features, no embedding that is released, a fresh
batch of real images in each step. It tells what a method loses by its features and its noise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from noisegate.devices import one_thread
from noisegate_images.models.image import ImageGenerator, build_image_generator
from noisegate_images.models.image_network import ImageNetwork
from noisegate_images.training.adam import Adam, one_cycle

STEPS, BATCH, LEARNING_RATE = 3000, 200, 5e-3
LENGTH_SCALE = 5.0
"""Of the Gaussian kernel of all pixels; steps, rate and it are DP-MERF's defaults, chosen on simulated digits."""


def labelled_mmd(
    made: Tensor, real: Tensor, labels: Tensor, *, length_scale: float
) -> Tensor:
    """Returns the squared MMD of two batches with the same labels, without bias, less what is constant.

    Args:
        made: (rows, pixels).
        real: (rows, pixels).
        labels: Of both, (rows,); the kernel is 0 between different ones.
        length_scale: Of the Gaussian kernel.
    """

    def kernel(one: Tensor, two: Tensor) -> Tensor:
        # A distance has no gradient at 0, its square has.
        squares = (
            one.square().sum(dim=1)[:, None] + two.square().sum(dim=1) - 2 * one @ two.T
        )
        return (squares / (-2 * length_scale**2)).exp()

    same = labels[:, None] == labels
    others = same & ~torch.eye(len(labels), dtype=torch.bool)
    return kernel(made, made)[others].mean() - 2 * kernel(made, real)[same].mean()


def fitted_by_mmd(
    design: ImageNetwork,
    images: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int64],
    *,
    steps: int,
    seed: int,
    report: Callable[[int], None],
) -> ImageGenerator:
    """Returns a generator in evaluation mode, fitted to images, (records, pixels) in [0, 1], and labels from 0."""
    generator = build_image_generator(design, int(labels.max()) + 1, seed=seed)
    adam = Adam(dict(generator.named_parameters()), learning_rate=LEARNING_RATE)
    order, random = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    with one_thread(torch.device("cpu")):
        for step in range(steps):
            chosen = order.choice(len(images), BATCH, replace=False)
            real, wanted = (
                torch.from_numpy(images[chosen]),
                torch.from_numpy(labels[chosen]),
            )
            made = generator(generator.noise(BATCH, random), wanted)
            loss = labelled_mmd(made, real, wanted, length_scale=LENGTH_SCALE)
            adam.descend(loss, scale=one_cycle(step / steps))
            report(step + 1)
    return generator.eval()


def drawn(
    generator: ImageGenerator, rows: int, *, seed: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Returns images, (rows, pixels), and labels in turn."""
    labels, random = (
        torch.arange(rows) % generator.classes,
        torch.Generator().manual_seed(seed),
    )
    with torch.inference_mode(), one_thread(torch.device("cpu")):
        parts = [
            generator(generator.noise(len(part), random), part)
            for part in torch.split(labels, 1000)
        ]
    return torch.cat(parts).numpy(), labels.numpy()
