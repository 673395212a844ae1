"""Settings and schedules of the training in the papers' methods. Nothing here can change the privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import numpy as np

from noisegate.settings import (
    Count,
    Positive,
    Seed,
    Steps,
    TwoOrMore,
    Unit,
    Whole,
    Within,
    settings,
)
from noisegate_images.training.fit import MomentSettings

_Small = Annotated[float, Within(gt=0, le=10), "a positive number, 10 or less"]


@settings
class PerceptualFitSettings(MomentSettings):
    """Settings of the fit of DP-MEPF's generator; see `noisegate_papers.training.perceptual_matching`."""

    renamed = {"averaging": "ema_decay"}  # noqa: RUF012

    steps: Whole = 3000
    batch: TwoOrMore = 128
    ema_decay: Unit = 0.998
    stop_at_noise: bool = False
    check_every: Steps = 500
    check_batches: TwoOrMore = 16
    check_images: Steps = 5000
    "Number of images that are compared with the validation embedding."
    schedule: Literal["constant", "one-cycle"] = "one-cycle"
    'Schedule of the learning rate; "one-cycle" is a short rise, then a cosine to zero.'
    loss: Literal["squared", "moving-average"] = "squared"
    "Squared distance of the means of a batch, or GFMN's moving average of the difference."
    average_rate: _Small = 1e-4
    "Learning rate of the Adam that updates the moving average."
    average_eps: _Small = 1e-8
    "eps of the Adam that updates the moving average."
    average_reduction: Literal["mean", "sum"] = "mean"
    "Whether squared differences between moving average and difference are averaged or summed over the features."


@settings
class AdversarialConfig:
    """Settings of the training of generator and discriminator; none of it uses private records."""

    renamed: ClassVar[Mapping[str, str]] = {
        "discriminator_rate": "discriminator_learning_rate",
        "generator_rate": "generator_learning_rate",
    }

    discriminator_steps: Count = 5
    """Number of steps of the discriminator for each step of the generator (n_D)."""
    batch: Count = 128
    """Number of generated records in a step."""
    discriminator_learning_rate: Positive = 1e-3
    """Learning rate of the discriminator, for Adam."""
    generator_learning_rate: Positive = 1e-3
    """Learning rate of the generator, for Adam."""
    seed: Seed = 0
    """Seed for non-private randomness: initial weights, noise vectors, labels. The noise that protects the records
    cannot be seeded."""


@settings
class SetSchedule:
    """Settings of the computations between the steps of PSG; none of them uses private records."""

    batches: Count = 10
    """Number of steps between two trainings of the network on the set (K)."""
    outer: Count = 10
    """Number of trainings before the network gets new initial weights (T)."""
    epochs: Whole = 10
    """Number of passes over the set in one training of the network (J)."""
    network_learning_rate: Positive = 0.01
    """Learning rate of these trainings, by plain gradient descent."""
    ema_decay: Unit = 0.0
    """Decay of the moving average of the set over the steps, which is released; 0 releases the set of the last step."""
    seed: Seed = 0
    """Seed for non-private randomness: networks, orders, the initial set. The samples and the private noise have no
    seed."""

    def stream(self, kind: int, number: int) -> int:
        """Returns the seed of the `number`-th network or order: another for each."""
        return int(
            np.random.SeedSequence([self.seed, kind, number]).generate_state(
                1, np.uint64
            )[0]
            >> np.uint64(1)
        )
