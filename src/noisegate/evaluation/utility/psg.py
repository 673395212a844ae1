"""Training of networks as in the public code of Private Set Generation; torch is loaded when this module is.

PSG scores its synthetic images by six networks trained on them and tested on real images
([Chen, Kerkouche and Fritz, 2022](https://arxiv.org/abs/2211.04446), Table 2): stochastic gradient descent on the cross
entropy with momentum and weight decay, and a step of the learning rate at half of the epochs. What is scored is the
network after the last epoch: no epoch, no start and no setting is chosen by its score on the real test images, which
are read once, when training is over.

Augmentation gives each image one of three changes: a shift by at most an eighth of the side (4 pixels of 28 or 32),
height and width each times 0.8 to 1.2, or a turn by at most 45 degrees. Here all three are one bilinear resampling, and
what comes in from outside is 0, the mean of standardised images. Otherwise than in the public code, images are
standardised with the mean and deviation of each channel of the *training* images, and not with constants that were
computed from the private data sets. A change of any of it is a new version of the list.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

from noisegate.devices import one_thread
from noisegate.evaluation.utility.network_settings import Training
from noisegate.evaluation.utility.recipe import EpochDone, LabelledRows, UntrainableError
from noisegate.evaluation.utility.scores import log_odds

SHIFT = 1 / 8
SCALE = 0.2
DEGREES = 45.0


def trained_scores(
    network: nn.Module,
    train: LabelledRows,
    test: LabelledRows,
    training: Training,
    *,
    seed: int,
    progress: EpochDone | None,
) -> np.ndarray:
    """Train a network, which is on its device, and ask it once about the test images.

    Returns:
        Log-odds, float64, (rows, classes).

    Raises:
        UntrainableError: they are not finite.
    """
    device = next(network.parameters()).device
    with one_thread(device):
        images, real = (_images(rows.features, device) for rows in (train, test))
        mean = images.mean(dim=(0, 2, 3), keepdim=True)
        deviation = (images - mean).square().mean(dim=(0, 2, 3), keepdim=True).sqrt()
        # 1 for a channel that is the same everywhere.
        deviation = deviation.where(deviation > 0, deviation.new_ones(()))
        labels = torch.tensor(train.labels, dtype=torch.long, device=device)
        _fit(network, (images - mean) / deviation, labels, training, seed, progress)
        network.eval()
        with torch.inference_mode():
            parts = torch.split(real, training.to_json()["batch"])
            return finite_odds(torch.cat([network((batch - mean) / deviation) for batch in parts]))


def finite_odds(logits: torch.Tensor) -> np.ndarray:
    """Turn logits into log-odds: probabilities of sure predictions round to 0 and 1, and ties have no order.

    Raises:
        UntrainableError: they are not finite.
    """
    exact: np.ndarray = logits.double().cpu().numpy()
    if not np.isfinite(exact).all():
        raise UntrainableError("its scores are not finite")
    return log_odds(exact)


def _images(features: np.ndarray, device: torch.device) -> torch.Tensor:
    """Images of intensities in [0, 1] as (rows, channels, height, width)."""
    rows = torch.tensor(features, dtype=torch.float32, device=device)
    if features.dtype == np.uint8:
        rows = rows / 255
    return rows.permute(0, 3, 1, 2).contiguous()


def _fit(
    network: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    training: Training,
    seed: int,
    progress: EpochDone | None,
) -> None:
    fixed = training.to_json()
    random = torch.Generator().manual_seed(seed)
    rates = {"lr": fixed["learning_rate"], "momentum": fixed["momentum"], "weight_decay": fixed["weight_decay"]}
    optimizer = torch.optim.SGD(network.parameters(), **rates)
    network.train()
    for epoch in range(training.passes):
        if 2 * epoch >= training.passes:
            optimizer.param_groups[0]["lr"] = fixed["learning_rate_after_half"]
        order = torch.randperm(len(images), generator=random).to(images.device)
        for batch in torch.split(order, fixed["batch"]):
            shown = altered(images[batch], random) if training.augment else images[batch]
            loss = torch.nn.functional.cross_entropy(network(shown), labels[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if progress is not None:
            progress(epoch + 1, training.passes)


def altered(images: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Give a changed copy of images.

    Args:
        images: standardised, (rows, channels, height, width).
        random: public randomness, on the CPU.

    Returns:
        The same shape, on the same device.
    """
    rows, _, height, width = images.shape
    kind = torch.randint(3, (rows,), generator=random)
    drawn = torch.rand((rows, 2), generator=random)
    ways = torch.stack([_shifts(drawn, height, width), _scales(drawn), _turns(drawn, height / width)])
    chosen = ways[kind, torch.arange(rows)].to(images.device)
    grid = torch.nn.functional.affine_grid(chosen, list(images.shape), align_corners=False)
    return torch.nn.functional.grid_sample(images, grid, align_corners=False)


def _shifts(drawn: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Maps from the new image's square [-1, 1]² to the old one's, (rows, 2, 3): by whole pixels."""
    pixels = torch.tensor([width, height], dtype=torch.float32)
    most = (pixels * SHIFT).round()
    moved = ((2 * most + 1) * drawn).floor().clamp(max=2 * most) - most
    return torch.cat([torch.eye(2).expand(len(drawn), 2, 2), (2 * moved / pixels)[:, :, None]], dim=2)


def _scales(drawn: torch.Tensor) -> torch.Tensor:
    factors = 1 + SCALE * (2 * drawn - 1)
    return torch.nn.functional.pad(torch.diag_embed(1 / factors), (0, 1))


def _turns(drawn: torch.Tensor, aspect: float) -> torch.Tensor:
    angle = (2 * drawn[:, 0] - 1) * math.radians(DEGREES)
    # The square [-1, 1]² stands for an image that is wider or higher: a turn must not shear it.
    first = torch.stack([angle.cos(), -angle.sin() * aspect], dim=1)
    second = torch.stack([angle.sin() / aspect, angle.cos()], dim=1)
    return torch.nn.functional.pad(torch.stack([first, second], dim=1), (0, 1))
