"""How networks that score images are trained: as Private Set Generation's code does, or chosen by held-out images."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import nn

from noisegate.devices import choose_device, one_thread
from noisegate_evaluate.utility.networks import (
    BATCH,
    LATER_RATE,
    LEARNING_RATE,
    MOMENTUM,
    WEIGHT_DECAY,
    SelectionRecipe,
    Training,
)
from noisegate_evaluate.utility.recipe import (
    Answer,
    EpochDone,
    LabelledRows,
    NetworkChoice,
    UntrainableError,
    log_odds,
)

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int64

Fresh: TypeAlias = Callable[[], nn.Module]
Told: TypeAlias = EpochDone | None
SHIFT = 1 / 8
SCALE = 0.2
DEGREES = 45.0
RISE = 0.25  # share of the steps in which the learning rate rises
_SEEN_AT_ONCE = 1000
_Split: TypeAlias = tuple[
    np.ndarray, np.ndarray
]  # places to train on, and places to choose by


def last_answer(
    network: nn.Module,
    train: LabelledRows,
    test: LabelledRows,
    training: Training,
    seed: int,
    progress: Told,
) -> Answer:
    """Returns what a network, which is on its device, says of the test images, asked once after the last epoch.

    Chen, Kerkouche and Fritz (NeurIPS 2022), https://arxiv.org/abs/2211.04446, Table 2. Otherwise than in their code,
    all three changes of augmentation are one bilinear resampling, and images are standardised by the *training* images.
    """
    device = next(network.parameters()).device
    random = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(
        network.parameters(),
        lr=LEARNING_RATE,
        momentum=MOMENTUM,
        weight_decay=WEIGHT_DECAY,
    )
    with one_thread(device):
        images, real = (
            intensities(rows.features, device).contiguous() for rows in (train, test)
        )
        mean = images.mean(dim=(0, 2, 3), keepdim=True)
        deviation = (images - mean).square().mean(dim=(0, 2, 3), keepdim=True).sqrt()
        # 1 for a channel that is the same everywhere.
        deviation = deviation.where(deviation > 0, deviation.new_ones(()))
        images = (images - mean) / deviation
        labels = torch.tensor(train.labels, dtype=torch.long, device=device)
        network.train()
        for epoch in range(training.passes):
            if 2 * epoch >= training.passes:
                optimizer.param_groups[0]["lr"] = LATER_RATE
            order = torch.randperm(len(images), generator=random).to(device)
            for batch in torch.split(order, BATCH):
                shown = (
                    altered(images[batch], random)
                    if training.augment
                    else images[batch]
                )
                _descend(optimizer, network(shown), labels[batch])
            if progress is not None:
                progress(epoch + 1, training.passes)
        network.eval()
        with torch.inference_mode():
            logits = torch.cat(
                [
                    network((batch - mean) / deviation)
                    for batch in torch.split(real, BATCH)
                ]
            )
    return Answer(scores=_finite_odds(logits))


def selected_answer(
    fresh: Fresh,
    train: LabelledRows,
    test: LabelledRows,
    recipe: SelectionRecipe,
    seed: int,
    progress: Told,
) -> Answer:
    """Returns what the best of fresh networks says, trained on a share of the images and chosen by the rest.

    The "syn" protocol of DPImageBench, Gong and others (2025), https://arxiv.org/abs/2503.14681: the epoch with the
    highest accuracy on held-out images. The recipe was settled on simulated digits
    (benchmarks/simulated_digits.py of commit 14f1ae5e).
    """
    device = choose_device(recipe.device)
    split = _split(len(train.labels), recipe.held_out, seed)
    histories: list[tuple[float, ...]] = []
    chosen: tuple[float, float, int, nn.Module | None] = -1.0, 0.0, 0, None
    with one_thread(device):
        source = ImageBatches(train, device, standard=split[0])
        for rate in recipe.learning_rates:
            network = fresh()
            accuracies: list[float] = []
            for accuracy in _epochs(network, source, split, recipe, rate, seed):
                accuracies.append(accuracy)
                # Of equals the later, whose learning rate is lower.
                if accuracy >= chosen[0]:
                    chosen = accuracy, rate, len(accuracies), copy.deepcopy(network)
                if progress is not None:
                    done = len(histories) * recipe.epochs + len(accuracies)
                    progress(done, recipe.epochs * len(recipe.learning_rates))
            histories.append(tuple(accuracies))
        _, rate, epoch, best = chosen
        assert best is not None  # there is at least one epoch
        scores = _finite_odds(_logits(best, source.like(test)))
    return Answer(
        scores=scores,
        choice=NetworkChoice(
            held_out_accuracy=tuple(histories), rate=rate, epoch=epoch
        ),
    )


def intensities(
    features: np.ndarray, device: torch.device
) -> Float32[torch.Tensor, "rows channels height width"]:
    """Returns images, (rows, height, width, channels), as float32 in [0, 1], a view (rows, channels, height, width)."""
    images = torch.from_numpy(features).to(device).float()
    return (images / 255 if features.dtype == np.uint8 else images).permute(0, 3, 1, 2)


def _descend(
    optimizer: torch.optim.Optimizer,
    logits: Float[torch.Tensor, "rows classes"],
    labels: Int64[torch.Tensor, " rows"],
) -> None:
    loss = nn.functional.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def _finite_odds(logits: Float[torch.Tensor, "rows classes"]) -> np.ndarray:
    """Returns logits as log-odds: probabilities of sure predictions round to 0 and 1, and ties have no order."""
    exact: np.ndarray = logits.double().cpu().numpy()
    if not np.isfinite(exact).all():
        raise UntrainableError("its scores are not finite")
    return log_odds(exact)


def altered(
    images: Float[torch.Tensor, "rows channels height width"], random: torch.Generator
) -> Float[torch.Tensor, "rows channels height width"]:
    """Returns standardised images, each shifted, scaled or turned by randomness on the CPU."""
    rows, _, height, width = images.shape
    kind = torch.randint(3, (rows,), generator=random)
    drawn = torch.rand((rows, 2), generator=random)
    scales = nn.functional.pad(
        torch.diag_embed(1 / (1 + SCALE * (2 * drawn - 1))), (0, 1)
    )
    ways = torch.stack(
        [_shifts(drawn, height, width), scales, _turns(drawn, height / width)]
    )
    chosen = ways[kind, torch.arange(rows)].to(images.device)
    grid = nn.functional.affine_grid(chosen, list(images.shape), align_corners=False)
    return nn.functional.grid_sample(images, grid, align_corners=False)


def _shifts(
    drawn: Float[torch.Tensor, "rows 2"], height: int, width: int
) -> Float[torch.Tensor, "rows 2 3"]:
    pixels = torch.tensor([width, height], dtype=torch.float32)
    most = (pixels * SHIFT).round()
    moved = ((2 * most + 1) * drawn).floor().clamp(max=2 * most) - most
    return torch.cat(
        [torch.eye(2).expand(len(drawn), 2, 2), (2 * moved / pixels)[:, :, None]], dim=2
    )


def _turns(
    drawn: Float[torch.Tensor, "rows 2"], aspect: float
) -> Float[torch.Tensor, "rows 2 3"]:
    angle = (2 * drawn[:, 0] - 1) * math.radians(DEGREES)
    # The square [-1, 1]² stands for an image that is wider or higher: a turn must not shear it.
    first = torch.stack([angle.cos(), -angle.sin() * aspect], dim=1)
    second = torch.stack([angle.sin() / aspect, angle.cos()], dim=1)
    return nn.functional.pad(torch.stack([first, second], dim=1), (0, 1))


class ImageBatches:
    """Images, float32 in [0, 1] or uint8, given out in batches on a device.

    They are standardised by the mean and deviation of each channel of the rows at the places ``standard``, and stay
    where they are: a GPU need not hold them all.
    """

    def __init__(
        self, rows: LabelledRows, device: torch.device, *, standard: np.ndarray
    ) -> None:
        self.rows = rows
        self.device = device
        height, width, channels = rows.image
        full = 255.0 if rows.features.dtype == np.uint8 else 1.0
        total = np.zeros((2, channels))
        for part in np.array_split(standard, -(-len(standard) // _SEEN_AT_ONCE)):
            values = (
                rows.features[part].reshape(len(part), -1, channels).astype(np.float64)
                / full
            )
            total += values.sum(axis=(0, 1)), np.square(values).sum(axis=(0, 1))
        mean, square = total / (len(standard) * height * width)
        spread = np.sqrt(np.maximum(square - mean**2, 0))
        self._mean, self._spread = (
            torch.tensor(figure[:, None, None], dtype=torch.float32, device=device)
            for figure in (mean, np.where(spread > 0, spread, 1.0))
        )

    def like(self, rows: LabelledRows) -> ImageBatches:
        """Returns other rows, standardised with the same figures."""
        other = copy.copy(self)
        other.rows = rows
        return other

    def batch(
        self, places: np.ndarray
    ) -> Float32[torch.Tensor, "rows channels height width"]:
        """Returns standardised images."""
        return (
            intensities(self.rows.features[places], self.device) - self._mean
        ) / self._spread

    def labels(self, places: np.ndarray) -> Int64[torch.Tensor, " rows"]:
        """Returns class codes."""
        return torch.from_numpy(self.rows.labels[places].astype(np.int64)).to(
            self.device
        )


def shifted(
    images: Float[torch.Tensor, "rows channels height width"],
    most: int,
    random: np.random.Generator,
) -> Float[torch.Tensor, "rows channels height width"]:
    """Moves each image by at most so many pixels; its edge comes in from outside."""
    if not most:
        return images
    rows, _, height, width = images.shape
    padded = nn.functional.pad(images, (most,) * 4, mode="replicate")
    down, right = (
        torch.from_numpy(random.integers(0, 2 * most + 1, rows)).to(images.device)
        for _ in range(2)
    )
    # All places of each image: (rows, channels, down, right, height, width).
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    return windows[torch.arange(rows, device=images.device), :, down, right]


def _split(rows: int, share: float, seed: int) -> _Split:
    order = np.random.default_rng(seed).permutation(rows)
    held = min(max(round(rows * share), 1), rows - 2)
    return order[held:], order[:held]


def _epochs(
    network: nn.Module,
    images: ImageBatches,
    split: _Split,
    recipe: SelectionRecipe,
    rate: float,
    seed: int,
) -> Iterator[float]:
    """Trains at one learning rate; yields the accuracy on the held-out images after each epoch."""
    kept, held = split
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=rate, weight_decay=recipe.weight_decay
    )
    # Whole batches, a little larger: batch normalisation wants no last one of a single image.
    steps = max(len(kept) // recipe.batch, 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, partial(_cycle, steps=recipe.epochs * steps)
    )
    random = np.random.default_rng([seed, 1])
    for _ in range(recipe.epochs):
        network.train()
        for places in np.array_split(random.permutation(kept), steps):
            shown = shifted(images.batch(places), recipe.shift, random)
            _descend(optimizer, network(shown), images.labels(places))
            schedule.step()
        given = _logits(network, images, held).argmax(dim=1).cpu().numpy()
        yield float(np.mean(given == images.rows.labels[held]))


def _cycle(step: int, steps: int) -> float:
    rise = RISE * steps
    if step < rise:
        return (step + 1) / (rise + 1)
    return (1 + math.cos(math.pi * (step - rise) / (steps - rise))) / 2


def _logits(
    network: nn.Module, images: ImageBatches, places: np.ndarray | None = None
) -> Float[torch.Tensor, "rows classes"]:
    where = np.arange(len(images.rows.labels)) if places is None else places
    network.eval()
    with torch.inference_mode():
        parts = [
            network(images.batch(part))
            for part in np.array_split(where, -(-len(where) // _SEEN_AT_ONCE))
        ]
    return torch.cat(parts)
