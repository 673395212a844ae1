"""How generators are fitted to a release. Nothing here can change the privacy of a result."""

from __future__ import annotations

from typing import Annotated, Literal

from noisegate.models.checkpoint import FitState as FitState  # where it was
from noisegate.settings import LearningRate, Settings, Steps, Unit, Whole, Within, settings

PriorNetwork = Literal["convolutional", "dcgan"]
_AtLeastTwo = Annotated[int, Within(ge=2), "a whole number, 2 or more"]
_Power = Annotated[float, Within(ge=-4, le=4)]


@settings
class MomentSettings(Settings):
    """How a generator is matched to a release; see `noisegate_images.training.moment_matching`."""

    steps: Whole = 1500
    "Most optimiser steps."
    batch: _AtLeastTwo = 256
    "Noise vectors a step, over all classes together."
    learning_rate: LearningRate = 5e-3
    "Of Adam; with a schedule its peak."
    prior_rate: Unit = 0.1
    "Part of that at which weights learn that were learnt from public images before."
    ema_decay: Unit = 0.99
    "Decay of the exponential average of the weights, which is what is kept; 0 keeps the weights as they are."
    stop_at_noise: bool = True
    "Stop when the distance is what the noise alone would leave (the discrepancy principle)."
    class_power: Annotated[_Power | None, "a number from -4 to 4; leave it out for equal weights"] = None
    """None weighs classes alike as far as they stand out of the noise, a number by their share to this power, in noise
    standard deviations; see `noisegate_images.training.moment_matching.class_weights`."""
    check_every: Steps = 200
    "Steps between looks at the stopping rule."
    check_batches: _AtLeastTwo = 32
    "Fresh batches for a look at the distance."


@settings
class FitSettings(MomentSettings):
    """How the generators of DP-MERF, DP-HP and the joint embedding are fitted."""

    renamed = {"averaging": "ema_decay", "apart": "independent_halves"}  # noqa: RUF012

    check_batches: Annotated[int, Within(ge=3), "a whole number, 3 or more"] = 32
    total_variation: Unit = 0.0
    """Of images: weight of the mean difference of neighbouring pixels beside the loss, whose largest value is about 1,
    as a multiple of the root of the loss that noise alone adds: what a release says is not smoothed away."""
    independent_halves: bool = False
    "Normalise the halves of a batch apart, side by side on two cores."
