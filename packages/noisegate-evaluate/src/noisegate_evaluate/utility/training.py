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
SHIFT = 1 / 8
SCALE = 0.2
DEGREES = 45.0
# Share of the steps in which the learning rate rises.
RISE = 0.25
_IMAGES_AT_ONCE = 1000
# Indices of the images to train on, and of those to choose by.
_Split: TypeAlias = tuple[np.ndarray, np.ndarray]


def last_answer(
    network: nn.Module,
    train: LabelledRows,
    test: LabelledRows,
    training: Training,
    seed: int,
    progress: EpochDone | None,
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
                inputs = images[batch]
                if training.augment:
                    inputs = altered(inputs, random)
                _descend(optimizer, network(inputs), labels[batch])
            if progress is not None:
                progress(epoch + 1, training.passes)
        network.eval()
        with torch.inference_mode():
            standardised = (
                (batch - mean) / deviation for batch in torch.split(real, BATCH)
            )
            logits = torch.cat([network(batch) for batch in standardised])
    return Answer(scores=_finite_odds(logits))


def selected_answer(
    fresh: Fresh,
    train: LabelledRows,
    test: LabelledRows,
    recipe: SelectionRecipe,
    seed: int,
    progress: EpochDone | None,
) -> Answer:
    """Returns what the best of fresh networks says, trained on a share of the images and chosen by the rest.

    The "syn" protocol of DPImageBench, Gong and others (2025), https://arxiv.org/abs/2503.14681: the epoch with the
    highest accuracy on held-out images. The recipe was settled on simulated digits
    (benchmarks/simulated_digits.py of commit 14f1ae5e).
    """
    device = choose_device(recipe.device)
    split = _split(len(train.labels), recipe.held_out, seed)
    histories: list[tuple[float, ...]] = []
    # The highest accuracy, its learning rate and epoch, and the network.
    best: tuple[float, float, int, nn.Module | None] = -1.0, 0.0, 0, None
    with one_thread(device):
        source = ImageBatches(train, device, standard=split[0])
        for rate in recipe.learning_rates:
            network = fresh()
            accuracies: list[float] = []
            for accuracy in _epochs(network, source, split, recipe, rate, seed):
                accuracies.append(accuracy)
                # Of equals the later, whose learning rate is lower.
                if accuracy >= best[0]:
                    best = accuracy, rate, len(accuracies), copy.deepcopy(network)
                if progress is not None:
                    done = len(histories) * recipe.epochs + len(accuracies)
                    progress(done, recipe.epochs * len(recipe.learning_rates))
            histories.append(tuple(accuracies))
        _, rate, epoch, best_network = best
        assert best_network is not None  # there is at least one epoch
        scores = _finite_odds(_logits(best_network, source.like(test)))
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
    scores: np.ndarray = logits.double().cpu().numpy()
    if not np.isfinite(scores).all():
        raise UntrainableError("its scores are not finite")
    return log_odds(scores)


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
    # Of each kind a map of each image, (3, rows, 2, 3), of which one is taken.
    kinds = [_shifts(drawn, height, width), scales, _turns(drawn, height / width)]
    maps = torch.stack(kinds)[kind, torch.arange(rows)].to(images.device)
    grid = nn.functional.affine_grid(maps, list(images.shape), align_corners=False)
    return nn.functional.grid_sample(images, grid, align_corners=False)


def _shifts(
    drawn: Float[torch.Tensor, "rows 2"], height: int, width: int
) -> Float[torch.Tensor, "rows 2 3"]:
    """Returns maps that shift images by whole pixels, at most an eighth of a side."""
    pixels = torch.tensor([width, height], dtype=torch.float32)
    farthest = (pixels * SHIFT).round()
    shifts = ((2 * farthest + 1) * drawn).floor().clamp(max=2 * farthest) - farthest
    unchanged = torch.eye(2).expand(len(drawn), 2, 2)
    return torch.cat([unchanged, (2 * shifts / pixels)[:, :, None]], dim=2)


def _turns(
    drawn: Float[torch.Tensor, "rows 2"], aspect: float
) -> Float[torch.Tensor, "rows 2 3"]:
    """Returns maps that turn images, whose height over their width is `aspect`."""
    angle = (2 * drawn[:, 0] - 1) * math.radians(DEGREES)
    # The square [-1, 1]² stands for an image that is wider or higher: a turn must not shear it.
    first = torch.stack([angle.cos(), -angle.sin() * aspect], dim=1)
    second = torch.stack([angle.sin() / aspect, angle.cos()], dim=1)
    return nn.functional.pad(torch.stack([first, second], dim=1), (0, 1))


class ImageBatches:
    """Images, float32 in [0, 1] or uint8, given out in batches on a device.

    They are standardised by the mean and deviation of each channel of some rows, whose indices are ``standard``, and
    stay where they are: a GPU need not hold them all.
    """

    def __init__(
        self, rows: LabelledRows, device: torch.device, *, standard: np.ndarray
    ) -> None:
        self.rows = rows
        self.device = device
        height, width, channels = rows.image
        full = 255.0 if rows.features.dtype == np.uint8 else 1.0
        total = np.zeros((2, channels))
        for part in _parts(standard):
            pixels = rows.features[part].reshape(len(part), -1, channels)
            values = pixels.astype(np.float64) / full
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
        self, indices: np.ndarray
    ) -> Float32[torch.Tensor, "rows channels height width"]:
        """Returns standardised images."""
        images = intensities(self.rows.features[indices], self.device)
        return (images - self._mean) / self._spread

    def labels(self, indices: np.ndarray) -> Int64[torch.Tensor, " rows"]:
        """Returns class codes."""
        codes = self.rows.labels[indices].astype(np.int64)
        return torch.from_numpy(codes).to(self.device)


def shifted(
    images: Float[torch.Tensor, "rows channels height width"],
    farthest: int,
    random: np.random.Generator,
) -> Float[torch.Tensor, "rows channels height width"]:
    """Moves each image by at most so many pixels; its edge comes in from outside."""
    if not farthest:
        return images
    rows, _, height, width = images.shape
    padded = nn.functional.pad(images, (farthest,) * 4, mode="replicate")
    down, right = (
        torch.from_numpy(random.integers(0, 2 * farthest + 1, rows)).to(images.device)
        for _ in range(2)
    )
    # All positions of each image: (rows, channels, down, right, height, width).
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    return windows[torch.arange(rows, device=images.device), :, down, right]


def _split(rows: int, share: float, seed: int) -> _Split:
    """Returns a random split of so many rows, of which a share is held out: at least one, and all but two at most."""
    order = np.random.default_rng(seed).permutation(rows)
    count = min(max(round(rows * share), 1), rows - 2)
    return order[count:], order[:count]


def _epochs(
    network: nn.Module,
    images: ImageBatches,
    split: _Split,
    recipe: SelectionRecipe,
    rate: float,
    seed: int,
) -> Iterator[float]:
    """Trains at one learning rate; yields the accuracy on the held-out images after each epoch."""
    training, held_out = split
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=rate, weight_decay=recipe.weight_decay
    )
    # Whole batches, a little larger: batch normalisation wants no last one of a single image.
    steps = max(len(training) // recipe.batch, 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, partial(_cycle, steps=recipe.epochs * steps)
    )
    random = np.random.default_rng([seed, 1])
    for _ in range(recipe.epochs):
        network.train()
        for batch in np.array_split(random.permutation(training), steps):
            inputs = shifted(images.batch(batch), recipe.shift, random)
            _descend(optimizer, network(inputs), images.labels(batch))
            schedule.step()
        predicted = _logits(network, images, held_out).argmax(dim=1).cpu().numpy()
        yield float(np.mean(predicted == images.rows.labels[held_out]))


def _cycle(step: int, steps: int) -> float:
    """Returns the share of the learning rate at a step: it rises in a line, and falls as half a cosine."""
    rise = RISE * steps
    if step < rise:
        return (step + 1) / (rise + 1)
    return (1 + math.cos(math.pi * (step - rise) / (steps - rise))) / 2


def _logits(
    network: nn.Module, images: ImageBatches, indices: np.ndarray | None = None
) -> Float[torch.Tensor, "rows classes"]:
    """Returns what a network says of some images, None for all."""
    if indices is None:
        indices = np.arange(len(images.rows.labels))
    network.eval()
    with torch.inference_mode():
        return torch.cat([network(images.batch(part)) for part in _parts(indices)])


def _parts(indices: np.ndarray) -> list[np.ndarray]:
    """Splits indices into parts of as many images as are examined together."""
    return np.array_split(indices, -(-len(indices) // _IMAGES_AT_ONCE))
