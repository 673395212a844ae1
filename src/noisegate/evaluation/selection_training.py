"""How a classifier is trained on some images and chosen by others, for the protocol of ``synthetic_selection``.

The recipe was settled on simulated digits (``benchmarks/simulated_digits.py``) and on samples of mixtures fitted to
them, never on a data set that results are reported on.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from noisegate.errors import OptionError
from noisegate.evaluation.image_training import Training, device_name, one_thread
from noisegate.evaluation.selection_images import SEEN_AT_ONCE, Images, moved
from noisegate.evaluation.training import LabelledRows
from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    from torch import nn

SELECTED_NETWORKS = ("cnn", "resnet", "wrn")
"""The small network, ResNet18 and WRN-16-2."""

RISE = 0.25
"""Share of the steps in which the learning rate rises."""

EpochDone = Callable[[int, int], None]
"""Told how many epochs are done, and how many there will be."""


@dataclass(frozen=True, kw_only=True)
class SelectionRecipe:
    """The settings of the training and of the choice.

    Attributes:
        epochs: passes over the images trained on; the learning rate rises and falls once within them.
        batch: images in a step.
        learning_rates: the highest of each cycle. Several are several trainings, of which the best is kept.
        weight_decay: of AdamW.
        held_out: share of the given images that are kept out of the training, to choose by.
        shift: most pixels by which an image is moved at random in each pass, along each side; 0 for none.
        device: "cpu", "cuda", "mps", or "auto" for a GPU when there is one.

    Raises:
        OptionError: a setting is out of its range.
    """

    epochs: int = 6
    batch: int = 128
    learning_rates: tuple[float, ...] = (3e-3,)
    weight_decay: float = 1e-2
    held_out: float = 1 / 12
    shift: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch", 2), ("shift", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise OptionError(f"{name} is {value!r}; expected a whole number, at least {least}")
        if not self.learning_rates or not all(0 < rate < np.inf for rate in self.learning_rates):
            raise OptionError(f"learning_rates is {self.learning_rates!r}; expected one or several positive numbers")
        if not 0 <= self.weight_decay < np.inf:
            raise OptionError(f"weight_decay is {self.weight_decay!r}; expected a number, at least 0")
        if not 0 < self.held_out < 1:
            raise OptionError(f"held_out is {self.held_out!r}; expected a share between 0 and 1")
        Training(device=self.device)

    def to_json(self) -> dict[str, object]:
        """Every setting as JSON values, those that are fixed too."""
        return {
            "optimizer": "AdamW",
            "schedule": "linear rise of the learning rate over a quarter of the steps, then half a cosine down",
            "epochs": self.epochs,
            "batch": self.batch,
            "learning_rates": list(self.learning_rates),
            "weight_decay": self.weight_decay,
            "augmentation": f"moved by up to {self.shift} pixels" if self.shift else None,
            "held_out": self.held_out,
            "chosen": "the epoch with the highest accuracy on held-out images of the same source; of equals the last",
            "precision": "float32",
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Selected:
    """A network as it was after the epoch that the held-out images chose.

    Attributes:
        logits: of the test images, float64 of shape (rows, classes).
        held_out_accuracy: after each epoch, per learning rate.
        rate: the learning rate that was chosen.
        epoch: the epoch that was chosen, from 1.
        seconds: of training and testing.
    """

    logits: np.ndarray
    held_out_accuracy: tuple[tuple[float, ...], ...]
    rate: float
    epoch: int
    seconds: float


def build_selected(name: str, shape: ImageShape, classes: int, *, seed: int) -> nn.Module:
    """Build a network of :data:`SELECTED_NETWORKS` with fresh weights, in float32 on the CPU.

    Args:
        name: of the network.
        shape: of the images.
        classes: number of classes.
        seed: of the weights; public.

    Raises:
        OptionError: there is no such network.
    """
    from noisegate.evaluation.selection_networks import build_small, build_wide
    from noisegate.networks.residual import build_resnet18

    builders = {"cnn": build_small, "resnet": build_resnet18, "wrn": build_wide}
    if name not in builders:
        raise OptionError(f"network {name!r} is not known; expected some of {', '.join(builders)}")
    return builders[name](shape, classes, seed=seed)


def train_selected(
    name: str,
    train: LabelledRows,
    test: LabelledRows,
    *,
    shape: ImageShape,
    classes: int,
    recipe: SelectionRecipe,
    seed: int,
    progress: EpochDone | None = None,
) -> Selected:
    """Train on a share of some images, choose by the rest of them, and ask the chosen network once about others.

    Args:
        name: of the network.
        train: images of at least two classes and at least four rows; a share of them is held out.
        test: real images; read once, after the choice.
        shape: of the images.
        classes: number of classes.
        recipe: settings.
        seed: of the weights, of the draw of the held-out images, their order and shifts; public.
        progress: told after each epoch.

    Returns:
        What the chosen network says of the test images, and how it was chosen.
    """
    import torch

    start = time.perf_counter()
    device = torch.device(device_name(Training(device=recipe.device)))
    with one_thread(device):
        kept, held = _split(len(train.labels), recipe.held_out, seed)
        source = Images(train, shape, device, standard=kept)
        histories: list[tuple[float, ...]] = []
        best = _Best()
        for rate in recipe.learning_rates:
            network = build_selected(name, shape, classes, seed=seed).to(device)
            run = _Run(network=network, images=source, kept=kept, held=held, recipe=recipe, rate=rate, seed=seed)
            told = None if progress is None else _counted(progress, len(histories), recipe)
            histories.append(run.fit(best, told))
        logits = _logits(best.network(), source.like(test))
    return Selected(
        logits=logits,
        held_out_accuracy=tuple(histories),
        rate=best.rate,
        epoch=best.epoch,
        seconds=time.perf_counter() - start,
    )


def _counted(progress: EpochDone, before: int, recipe: SelectionRecipe) -> EpochDone:
    """Count on from the epochs of an earlier learning rate."""
    total = recipe.epochs * len(recipe.learning_rates)
    return lambda epoch, _: progress(before * recipe.epochs + epoch, total)


def _split(rows: int, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Places to train on, and places to choose by."""
    order = np.random.default_rng(seed).permutation(rows)
    held = min(max(round(rows * share), 1), rows - 2)
    return order[held:], order[:held]


class _Best:
    """The network that was best so far."""

    accuracy, rate, epoch = -1.0, 0.0, 0
    _network: nn.Module | None = None

    def offer(self, network: nn.Module, accuracy: float, rate: float, epoch: int) -> None:
        """Keep a copy unless an earlier one was better; of equals the later, whose learning rate is lower."""
        if accuracy >= self.accuracy:
            self.accuracy, self.rate, self.epoch = accuracy, rate, epoch
            self._network = copy.deepcopy(network)

    def network(self) -> nn.Module:
        assert self._network is not None  # there is at least one epoch
        return self._network


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One training at one learning rate."""

    network: nn.Module
    images: Images
    kept: np.ndarray
    held: np.ndarray
    recipe: SelectionRecipe
    rate: float
    seed: int

    def fit(self, best: _Best, progress: EpochDone | None) -> tuple[float, ...]:
        """Train, and offer the network after each epoch; returns the accuracies on the held-out images."""
        import torch

        recipe = self.recipe
        optimizer = torch.optim.AdamW(self.network.parameters(), lr=self.rate, weight_decay=recipe.weight_decay)
        # Whole batches, a little larger: batch normalisation wants no last one of a single image.
        steps = max(len(self.kept) // recipe.batch, 1)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, partial(_cycle, steps=recipe.epochs * steps))
        random = np.random.default_rng([self.seed, 1])
        accuracies: list[float] = []
        for epoch in range(1, recipe.epochs + 1):
            self.network.train()
            for places in np.array_split(random.permutation(self.kept), steps):
                loss = torch.nn.functional.cross_entropy(
                    self.network(moved(self.images.batch(places), recipe.shift, random)), self.images.labels(places)
                )
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
            given = _logits(self.network, self.images, self.held).argmax(axis=1)
            accuracies.append(float(np.mean(given == self.images.rows.labels[self.held])))
            best.offer(self.network, accuracies[-1], self.rate, epoch)
            if progress is not None:
                progress(epoch, recipe.epochs)
        return tuple(accuracies)


def _cycle(step: int, steps: int) -> float:
    """The share of the highest learning rate: straight up for a quarter of the steps, then half a cosine down."""
    rise = RISE * steps
    if step < rise:
        return (step + 1) / (rise + 1)
    return (1 + math.cos(math.pi * (step - rise) / (steps - rise))) / 2


def _logits(network: nn.Module, images: Images, places: np.ndarray | None = None) -> np.ndarray:
    """The logits of images, float64."""
    import torch

    where = np.arange(len(images)) if places is None else places
    network.eval()
    with torch.inference_mode():
        parts = [network(images.batch(part)) for part in np.array_split(where, -(-len(where) // SEEN_AT_ONCE))]
    return torch.cat(parts).double().cpu().numpy()
