"""Settings of DP-DRE as its paper has them, beside those that were found to do better with few noisy steps.

Wu, Guo and Chaudhuri (2023), https://arxiv.org/abs/2309.00008, table 4, the first row of CIFAR-10: 16 hidden units,
3,000 steps on batches of 64. Which clipping norm, learning rate and number of private images go with them the text at
hand does not say; 50,000 images, 1e-3 and 1 stand in. Features are as the encoder gives them, up to their mean and one
length, and the last weights count, as in section 3.2.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from noisegate.methods.generative import GenerativeMethod
from noisegate.methods.public_features import ReferenceSettings
from noisegate.settings import Count, Fraction, Positive, Unit, Widths, by_preset, settings

Preset: TypeAlias = Literal["default", "paper"]

MAX_CLIP_NORM = 2.0
"""The largest clipping norm that is chosen where none was asked for."""

MAX_NOISE_STD = 8.65
"""Where none was asked for: the most noise on each number of a sum of gradients, in the units of the gradients.

It is what 500 steps at ε = 1 have with the largest norm. With more noise in a step, Adam follows nothing else: at
ε = 0.1 a smaller norm, which changes the gradients but lets them be heard, is worth more (docs/public-data.md).
"""


def clip_norm_for(noise_multiplier: float) -> float:
    """Returns the clipping norm for a noise multiplier, both public: the largest, or less where the noise is loud."""
    return MAX_CLIP_NORM if noise_multiplier * MAX_CLIP_NORM <= MAX_NOISE_STD else MAX_NOISE_STD / noise_multiplier


@settings
class DensityRatioSettings(ReferenceSettings, GenerativeMethod):
    """Settings of DP-DRE; none of them depends on private data."""

    preset: Preset = "default"
    """"paper": the settings below are as in the paper's table 4."""
    hidden: Widths = (16,)
    """Widths of the discriminator's hidden layers."""
    steps: Count = by_preset(500, paper=3000)
    """How many noisy gradients are taken, which is what costs privacy."""
    sampling_probability: Fraction = by_preset(0.05, paper=64 / 50_000)
    """Poisson sampling probability per step."""
    whitening: Unit = by_preset(0.5, paper=0.0)
    """How far directions are brought to the same spread, from 0 to 1."""
    batch: Count = 1024
    """References in a step."""
    clip_norm: Positive | None = by_preset(None, paper=1.0)  # type: ignore[assignment]
    """L2 norm that the gradient at each private record is clipped to; None for `clip_norm_for` the noise."""
    learning_rate: Positive = by_preset(0.02, paper=1e-3)
    """Of Adam."""
    averaged: Fraction = by_preset(0.5, paper=1e-9)
    """Part of the steps, the last ones, whose weights are averaged."""
    most_weight: Positive = 1e4
    """Weights D/(1 − D) are at most this, so that they are finite whatever the discriminator says."""
