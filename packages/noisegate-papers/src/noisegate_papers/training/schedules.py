"""How what the papers train is trained: networks, sets and their schedules. Nothing here can change the privacy."""

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
    """How the generator of DP-MEPF is fitted; see `noisegate_papers.training.perceptual_matching`."""

    renamed = {"averaging": "ema_decay"}  # noqa: RUF012

    steps: Whole = 3000
    batch: TwoOrMore = 128
    ema_decay: Unit = 0.998
    stop_at_noise: bool = False
    check_every: Steps = 500
    check_batches: TwoOrMore = 16
    check_images: Steps = 5000
    "Images for a comparison with the validation embedding."
    schedule: Literal["constant", "one-cycle"] = "one-cycle"
    'Of the learning rate; "one-cycle" is a short rise, then a cosine to zero.'
    loss: Literal["squared", "moving-average"] = "squared"
    "Squared distance of the means of a batch, or GFMN's moving average of the gap."
    average_rate: _Small = 1e-4
    "Learning rate of the Adam that moves the average."
    average_eps: _Small = 1e-8
    "Its eps."
    average_reduction: Literal["mean", "sum"] = "mean"
    "Whether squared differences of average and gap are averaged or added up over the features."


@settings
class AdversarialConfig:
    """How generator and discriminator are trained; none of it uses private records."""

    renamed: ClassVar[Mapping[str, str]] = {
        "discriminator_rate": "discriminator_learning_rate",
        "generator_rate": "generator_learning_rate",
    }

    discriminator_steps: Count = 5
    """Steps of the discriminator to one of the generator (n_D)."""
    batch: Count = 128
    """Generated records in a step."""
    discriminator_learning_rate: Positive = 1e-3
    """Of Adam."""
    generator_learning_rate: Positive = 1e-3
    """Of Adam."""
    seed: Seed = 0
    """Seed for non-private randomness: initial weights, noise vectors, labels. The private noise has no seed."""


@settings
class SetSchedule:
    """What happens between the steps of PSG; none of it uses private records."""

    batches: Count = 10
    """Steps between two trainings of the network on the set (K)."""
    outer: Count = 10
    """How often that is done before a fresh network takes its place (T)."""
    epochs: Whole = 10
    """Passes over the set in one training of the network (J)."""
    network_learning_rate: Positive = 0.01
    """Of these trainings, by plain gradient descent."""
    ema_decay: Unit = 0.0
    """Of the average of the set over the steps, which is what is released; 0 releases the set of the last step."""
    seed: Seed = 0
    """Seed for non-private randomness: networks, orders, the set's start. Never of the samples or the private noise."""

    def stream(self, kind: int, number: int) -> int:
        """Returns the seed of the `number`-th network or order: another for each."""
        return int(
            np.random.SeedSequence([self.seed, kind, number]).generate_state(
                1, np.uint64
            )[0]
            >> np.uint64(1)
        )
