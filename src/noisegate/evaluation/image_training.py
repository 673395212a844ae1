"""How a network is trained on images and scored on others, always with the weights after the last epoch.

Stochastic gradient descent on the cross entropy as in the public code of PSG (Chen, Kerkouche and Fritz, NeurIPS 2022):
momentum, weight decay, a step of the learning rate at half of the epochs. Nothing is chosen by looking at the test
images: they are read once, when training is over.

Otherwise than there, images are standardised with the mean and deviation of each channel of the *training* images, and
not with constants that were computed from the private data sets.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisegate.errors import DataError, OptionError
from noisegate.evaluation.class_scores import log_odds
from noisegate.evaluation.networks import build_network
from noisegate.evaluation.scores import score
from noisegate.evaluation.training import LabelledRows, Outcome, constant_scores
from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    import torch
    from torch import nn

BATCH = 256
LEARNING_RATE = 0.01
LATER_RATE = 0.001
MOMENTUM = 0.9
WEIGHT_DECAY = 5e-4
EPOCHS = 300
AUGMENTED_EPOCHS = 1000

EpochDone = Callable[[int, int], None]
"""Told how many epochs are done, and how many there will be."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """What may be chosen about the training.

    Attributes:
        epochs: passes over the training images; None for the paper's 300, or 1000 with ``augment``.
        augment: crop, scale or rotate each image at random in each pass, as the paper does for MNIST and FashionMNIST.
        device: "cpu", "cuda", "mps", or "auto" for a GPU when there is one. The same seed gives the same scores on a
            CPU; a GPU may add in another order.

    Raises:
        OptionError: ``epochs`` is below 1, or ``device`` is none of these.
    """

    epochs: int | None = None
    augment: bool = False
    device: str = "auto"

    def __post_init__(self) -> None:
        epochs = self.epochs
        if epochs is not None and (isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1):
            raise OptionError(f"epochs is {epochs!r}; expected a whole number, at least 1")
        if self.device not in ("auto", "cpu", "cuda", "mps"):
            raise OptionError(f"device is {self.device!r}; expected 'auto', 'cpu', 'cuda' or 'mps'")

    @property
    def passes(self) -> int:
        """Number of epochs."""
        return self.epochs or (AUGMENTED_EPOCHS if self.augment else EPOCHS)

    def to_json(self) -> dict[str, object]:
        """Every setting as JSON values."""
        return {
            "optimizer": "SGD",
            "epochs": self.passes,
            "batch": BATCH,
            "learning_rate": LEARNING_RATE,
            "learning_rate_after_half": LATER_RATE,
            "momentum": MOMENTUM,
            "weight_decay": WEIGHT_DECAY,
            "augmentation": "crop, scale or rotate" if self.augment else None,
            "standardised_with": "mean and deviation of each channel of the training images",
            "scored": "after the last epoch",
        }


def train_and_score_network(
    name: str,
    train: LabelledRows,
    test: LabelledRows,
    *,
    shape: ImageShape,
    classes: int,
    training: Training,
    seed: int,
    progress: EpochDone | None = None,
) -> Outcome:
    """Train a network on some images and score it on others; on a CPU with one thread.

    A network without at least two classes to learn, or whose scores are not finite in the end, is scored as a constant
    predictor.

    Args:
        name: of the network.
        train: images to train on, pixels in [0, 1], row by row with the channels of a pixel side by side.
        test: real images of at least two classes, in the same form.
        shape: of the images.
        classes: number of classes.
        training: settings.
        seed: of the weights, the order of the images and the augmentation; public.
        progress: told after each epoch.

    Returns:
        Its scores and notes.

    Raises:
        OptionError: there is no such network or no such device here.
        DataError: the rows do not have the size of the images.
    """
    for what, rows in (("training", train), ("test", test)):
        if rows.features.shape[1] != shape.size:
            raise DataError(
                f"the {what} rows have {rows.features.shape[1]} features; expected {shape.size}, those of images of "
                f"{shape}"
            )
    start = time.perf_counter()
    found = len(np.unique(train.labels))
    logits = None if found < 2 else _logits(name, train, test, shape, classes, training, seed, progress)
    notes: tuple[str, ...] = ()
    if logits is None or not np.isfinite(logits).all():
        reason = f"the training images have {found} class(es)" if found < 2 else "its scores are not finite"
        notes = (f"could not be trained and is scored as a constant predictor ({reason})",)
        given = constant_scores(train.labels, len(test.labels), classes)
    else:
        # Not probabilities: those of sure predictions round to 0 and 1, and rows that are tied have no order.
        given = log_odds(logits)
    seconds = time.perf_counter() - start
    return Outcome(name=name, scores=score(test.labels, given), notes=notes, seconds=seconds)


def device_name(training: Training) -> str:
    """Name the device that a training will run on.

    Raises:
        OptionError: there is no such device here.
    """
    import torch

    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if training.device == "auto":
        return "cuda" if there["cuda"] else "cpu"
    if not there[training.device]:
        names = ", ".join(repr(name) for name in ("auto", *there) if there.get(name, True))
        raise OptionError(f"device {training.device!r} is not available here; choose one of {names}")
    return training.device


def _logits(
    name: str,
    train: LabelledRows,
    test: LabelledRows,
    shape: ImageShape,
    classes: int,
    training: Training,
    seed: int,
    progress: EpochDone | None,
) -> np.ndarray:
    """The logits of a trained network per test image and class, float64."""
    import torch

    device = torch.device(device_name(training))
    with one_thread(device):
        network = build_network(name, shape, classes, seed=seed).to(device)
        images, real = (_images(rows.features, shape, device) for rows in (train, test))
        mean, deviation = _moments(images)
        labels = torch.tensor(train.labels, dtype=torch.long, device=device)
        _fit(network, (images - mean) / deviation, labels, training, seed, progress)
        network.eval()
        with torch.inference_mode():
            logits = torch.cat([network((batch - mean) / deviation) for batch in torch.split(real, BATCH)])
    return logits.double().cpu().numpy()


def _images(features: np.ndarray, shape: ImageShape, device: torch.device) -> torch.Tensor:
    """Rows of intensities as (rows, channels, height, width)."""
    import torch

    rows = torch.tensor(features, dtype=torch.float32, device=device)
    return rows.reshape(-1, shape.height, shape.width, shape.channels).permute(0, 3, 1, 2).contiguous()


def _moments(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and deviation of each channel; 1 for a channel that is the same everywhere."""
    mean = images.mean(dim=(0, 2, 3), keepdim=True)
    deviation = (images - mean).square().mean(dim=(0, 2, 3), keepdim=True).sqrt()
    return mean, deviation.where(deviation > 0, deviation.new_ones(()))


def _fit(
    network: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    training: Training,
    seed: int,
    progress: EpochDone | None,
) -> None:
    import torch

    random = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
    network.train()
    for epoch in range(training.passes):
        if 2 * epoch >= training.passes:
            optimizer.param_groups[0]["lr"] = LATER_RATE
        order = torch.randperm(len(images), generator=random).to(images.device)
        for batch in torch.split(order, BATCH):
            shown = images[batch]
            if training.augment:
                from noisegate.evaluation.augmentation import altered

                shown = altered(shown, random)
            loss = torch.nn.functional.cross_entropy(network(shown), labels[batch])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        if progress is not None:
            progress(epoch + 1, training.passes)


@contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """Keep torch on one thread of the CPU: sums on several round differently from machine to machine.

    Args:
        device: where the sums are made; on a GPU nothing changes.
    """
    import torch

    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
