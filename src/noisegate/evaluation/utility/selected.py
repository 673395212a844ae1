"""Networks trained on synthetic images, chosen by synthetic images, and tested once on real ones.

This is the "syn" protocol of DPImageBench ([Gong et al., 2025](https://arxiv.org/abs/2503.14681)): of the synthetic
images a share is held out, and the epoch is the one with the highest accuracy on that share. Choosing by accuracy on
real images, as many papers did, reads the real images once for each choice: the figure is too high, and what was chosen
is not private. The recipe was settled on simulated digits (``benchmarks/simulated_digits.py``) and on samples of
mixtures fitted to them, never on a data set that results are reported on.

The networks have batch normalisation, which mixes the images of a batch: nothing private is trained with them. The
small one takes a few million multiplications for an image of 28 x 28, so that 60,000 images are learnt from in minutes
on one core. The wide one is WRN-16-2 ([Zagoruyko and Komodakis, 2016](https://arxiv.org/abs/1605.07146)), which wants a
GPU at that size, as does the ResNet18 of :mod:`noisegate.networks.classifiers`. All take (rows, channels, height,
width) of any size and give logits, (rows, classes). torch is loaded when this module is.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from torch import nn

from noisegate.devices import choose_device, one_thread, seeded
from noisegate.errors import OptionError
from noisegate.evaluation.utility.network_settings import SelectionRecipe
from noisegate.evaluation.utility.psg import finite_odds
from noisegate.evaluation.utility.recipe import Answer, EpochDone, LabelledRows, NetworkChoice
from noisegate.networks.classifiers import build_resnet18
from noisegate.networks.weights import check_sizes
from noisegate.schema.pixels import ImageShape

RISE = 0.25
"""Share of the steps in which the learning rate rises."""

LEFT = 3
"""Rows and columns that the small network keeps in front of its linear layer."""

WIDE_DEPTH, WIDE_FACTOR = 16, 2

_SEEN_AT_ONCE = 1000


def selected_answer(
    fresh: Callable[[], nn.Module],
    train: LabelledRows,
    test: LabelledRows,
    recipe: SelectionRecipe,
    *,
    seed: int,
    progress: EpochDone | None,
) -> Answer:
    """Train fresh networks on a share of some images, choose by the rest, and ask the chosen one once about others.

    Raises:
        UntrainableError: its scores are not finite.
    """
    device = choose_device(recipe.device)
    kept, held = _split(len(train.labels), recipe.held_out, seed)
    histories: list[tuple[float, ...]] = []
    chosen: tuple[float, float, int, nn.Module | None] = -1.0, 0.0, 0, None
    with one_thread(device):
        source = ImageBatches(train, device, standard=kept)
        for rate in recipe.learning_rates:
            network = fresh()
            accuracies: list[float] = []
            for accuracy in _epochs(network, source, kept, held, recipe, rate, seed):
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
        scores = finite_odds(_logits(best, source.like(test)))
    return Answer(scores=scores, choice=NetworkChoice(held_out_accuracy=tuple(histories), rate=rate, epoch=epoch))


class ImageBatches:
    """Images given out in batches on a device, standardised as those trained on are.

    Args:
        rows: images, float32 in [0, 1] or uint8.
        device: where the batches go. The rows stay where they are: a GPU need not hold them all.
        standard: places of the rows whose mean and deviation of each channel standardise.
    """

    def __init__(self, rows: LabelledRows, device: torch.device, *, standard: np.ndarray) -> None:
        self.rows, self.device = rows, device
        height, width, channels = rows.image
        total = np.zeros((2, channels))
        for part in np.array_split(standard, -(-len(standard) // _SEEN_AT_ONCE)):
            values = rows.features[part].reshape(len(part), -1, channels).astype(np.float64) / self._full(rows)
            total += values.sum(axis=(0, 1)), np.square(values).sum(axis=(0, 1))
        mean, square = total / (len(standard) * height * width)
        spread = np.sqrt(np.maximum(square - mean**2, 0))
        self.mean, self.spread = mean, np.where(spread > 0, spread, 1.0)

    def like(self, rows: LabelledRows) -> ImageBatches:
        """Give other rows, standardised with the same figures."""
        other = copy.copy(self)
        other.rows = rows
        return other

    def __len__(self) -> int:
        """Number of images."""
        return len(self.rows.labels)

    def batch(self, places: np.ndarray) -> torch.Tensor:
        """Give images as float32, (rows, channels, height, width)."""
        images = torch.from_numpy(self.rows.features[places]).to(self.device).float() / self._full(self.rows)
        mean, spread = (
            torch.tensor(figure, dtype=torch.float32, device=self.device) for figure in (self.mean, self.spread)
        )
        return ((images - mean) / spread).permute(0, 3, 1, 2)

    def labels(self, places: np.ndarray) -> torch.Tensor:
        """Give class codes."""
        return torch.from_numpy(self.rows.labels[places].astype(np.int64)).to(self.device)

    @staticmethod
    def _full(rows: LabelledRows) -> float:
        return 255.0 if rows.features.dtype == np.uint8 else 1.0


def moved(images: torch.Tensor, most: int, random: np.random.Generator) -> torch.Tensor:
    """Move each image, (channels, height, width), by at most so many pixels; its edge comes in from outside."""
    if not most:
        return images
    rows, _, height, width = images.shape
    padded = torch.nn.functional.pad(images, (most,) * 4, mode="replicate")
    down, right = (torch.from_numpy(random.integers(0, 2 * most + 1, rows)).to(images.device) for _ in range(2))
    each = torch.arange(rows, device=images.device)[:, None, None]
    rows_of = down[:, None] + torch.arange(height, device=images.device)
    columns_of = right[:, None] + torch.arange(width, device=images.device)
    return padded.permute(0, 2, 3, 1)[each, rows_of[:, :, None], columns_of[:, None, :]].permute(0, 3, 1, 2)


def _split(rows: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Places to train on, and places to choose by."""
    order = np.random.default_rng(seed).permutation(rows)
    held = min(max(round(rows * share), 1), rows - 2)
    return order[held:], order[:held]


def _epochs(
    network: nn.Module,
    images: ImageBatches,
    kept: np.ndarray,
    held: np.ndarray,
    recipe: SelectionRecipe,
    rate: float,
    seed: int,
) -> Iterator[float]:
    """Train at one learning rate; gives the accuracy on the held-out images after each epoch."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=recipe.weight_decay)
    # Whole batches, a little larger: batch normalisation wants no last one of a single image.
    steps = max(len(kept) // recipe.batch, 1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, partial(_cycle, steps=recipe.epochs * steps))
    random = np.random.default_rng([seed, 1])
    for _ in range(recipe.epochs):
        network.train()
        for places in np.array_split(random.permutation(kept), steps):
            shown = moved(images.batch(places), recipe.shift, random)
            loss = torch.nn.functional.cross_entropy(network(shown), images.labels(places))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
        given = _logits(network, images, held).argmax(dim=1).cpu().numpy()
        yield float(np.mean(given == images.rows.labels[held]))


def _cycle(step: int, steps: int) -> float:
    """The share of the highest learning rate: straight up for a quarter of the steps, then half a cosine down."""
    rise = RISE * steps
    if step < rise:
        return (step + 1) / (rise + 1)
    return (1 + math.cos(math.pi * (step - rise) / (steps - rise))) / 2


def _logits(network: nn.Module, images: ImageBatches, places: np.ndarray | None = None) -> torch.Tensor:
    """The logits of images."""
    where = np.arange(len(images)) if places is None else places
    network.eval()
    with torch.inference_mode():
        parts = [network(images.batch(part)) for part in np.array_split(where, -(-len(where) // _SEEN_AT_ONCE))]
    return torch.cat(parts)


def build_selected(name: str, shape: ImageShape, classes: int, *, seed: int) -> nn.Module:
    """Build a network of :data:`SELECTED_NETWORKS` with fresh weights, in float32 on the CPU; the seed is public.

    Raises:
        OptionError: there is no such network.
    """
    builders = {"cnn": build_small, "resnet": build_resnet18, "wrn": build_wide}
    if name not in builders:
        raise OptionError(f"network {name!r} is not known; expected some of {', '.join(builders)}")
    return builders[name](shape, classes, seed=seed)


def build_small(shape: ImageShape, classes: int, *, seed: int) -> nn.Sequential:
    """Build a convolutional network with fresh weights, in float32 on the CPU; the seed is public.

    Four convolutions, of which the first and the third halve the image, each with batch normalisation and ReLU; the
    mean over a 3 x 3 grid and a linear layer. There is no dropout: its draws would depend on what else draws random
    numbers.

    Raises:
        OptionError: classes is no positive whole number.
    """
    check_sizes("the CNN", classes=classes)
    with seeded(seed):
        return nn.Sequential(
            *_convolved(shape.channels, 32, kernel=5, stride=2),
            *_convolved(32, 32),
            *_convolved(32, 64, stride=2),
            *_convolved(64, 64),
            nn.AdaptiveAvgPool2d(LEFT),
            nn.Flatten(),
            nn.Linear(64 * LEFT * LEFT, classes),
        )


def _convolved(entering: int, channels: int, *, kernel: int = 3, stride: int = 1) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(entering, channels, kernel, stride=stride, padding=kernel // 2, bias=False)
    return convolution, nn.BatchNorm2d(channels), nn.ReLU()


class WideBlock(nn.Module):
    """Normalisation, ReLU and convolution, twice, around which the input is led past; the first has the stride."""

    def __init__(self, entering: int, channels: int, stride: int) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.BatchNorm2d(entering), nn.ReLU())
        self.body = nn.Sequential(
            nn.Conv2d(entering, channels, kernel_size=3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False),
        )
        same = entering == channels and stride == 1
        self.past = None if same else nn.Conv2d(entering, channels, kernel_size=1, stride=stride, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Give activations, (rows, channels, height / stride, width / stride)."""
        active: torch.Tensor = self.before(images)
        around = images if self.past is None else self.past(active)
        return torch.add(self.body(active), around)


def build_wide(shape: ImageShape, classes: int, *, seed: int) -> nn.Sequential:
    """Build a WRN-16-2 with fresh weights, in float32 on the CPU; the seed is public.

    Raises:
        OptionError: classes is no positive whole number.
    """
    check_sizes("WRN-16-2", classes=classes)
    entering, blocks = 16, (WIDE_DEPTH - 4) // 6
    with seeded(seed):
        layers: list[nn.Module] = [nn.Conv2d(shape.channels, entering, kernel_size=3, padding=1, bias=False)]
        for stage, channels in enumerate((16 * WIDE_FACTOR, 32 * WIDE_FACTOR, 64 * WIDE_FACTOR)):
            for block in range(blocks):
                layers.append(WideBlock(entering, channels, 2 if stage and not block else 1))
                entering = channels
        layers += [nn.BatchNorm2d(entering), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(entering, classes))
