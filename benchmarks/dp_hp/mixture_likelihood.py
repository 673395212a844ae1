"""Labelled samples against the Gaussian mixture they should come from: the two-dimensional example of the papers.

The density is p(x, y) = Σ_{j in C_y} (1/C) N(x | μ_j, σ² I) with C modes in all, of which those in C_y have label y
(Vinaroz et al. 2022, DP-HP, Section 5.1; Harder et al. 2021, DP-MERF, Section 5). A low likelihood says that samples
lie where the truth has none. A high one does not say that every mode is there, so covered modes are counted beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from noisegate.errors import DataError, OptionError

_RADIUS = 3.0
# Rows at a time, so that the table of distances to the modes stays small.
_BATCH = 16_384


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledMixture:
    """A known mixture of isotropic Gaussians of equal weight, each with a label.

    Attributes:
        means: float64 of shape (modes, dimensions).
        labels: int64, the label of each mode.
        deviation: σ, the standard deviation in every direction.
    """

    means: np.ndarray
    labels: np.ndarray
    deviation: float

    def __post_init__(self) -> None:
        if (
            self.means.ndim != 2
            or len(self.means) == 0
            or self.labels.shape != self.means.shape[:1]
        ):
            raise OptionError(
                f"a mixture has means of shape {self.means.shape} and labels of shape {self.labels.shape}; expected "
                "(modes, dimensions) and (modes,), with at least one mode"
            )
        if not (self.deviation > 0 and math.isfinite(self.deviation)):
            raise OptionError(
                f"deviation is {self.deviation}; expected a positive number"
            )


def negative_log_likelihood(
    samples: np.ndarray,
    labels: np.ndarray,
    mixture: LabelledMixture,
    *,
    reduce: Literal["mean", "sum"] = "mean",
) -> float:
    """Measure how unlikely labelled samples are under the mixture: -log p(x, y), in nats.

    Args:
        samples: of shape (records, dimensions).
        labels: the label of each sample.
        mixture: the truth.
        reduce: "mean" over the samples, or their "sum".

    Returns:
        The negative log-likelihood; infinity when a label belongs to no mode, or a sample is infinitely far.

    Raises:
        OptionError: ``reduce`` is neither.
        DataError: no samples, or their shape does not fit the mixture.
    """
    if reduce not in ("mean", "sum"):
        raise OptionError(f"reduce is {reduce!r}; expected 'mean' or 'sum'")
    _check(samples, labels, mixture)
    total = 0.0
    for start in range(0, len(samples), _BATCH):
        batch = slice(start, start + _BATCH)
        total -= float(_log_densities(samples[batch], labels[batch], mixture).sum())
    return total / len(samples) if reduce == "mean" else total


@dataclass(frozen=True, kw_only=True, eq=False)
class Coverage:
    """Which modes of the mixture the samples reach.

    Attributes:
        shares: per mode, the samples of its label within 3σ of its mean, over the number expected there: about 1 for
            samples from the mixture itself where the modes of one label do not overlap.
        least: the share from which a mode counts as covered.
    """

    shares: np.ndarray
    least: float

    @property
    def covered(self) -> int:
        """Number of covered modes."""
        return int((self.shares >= self.least).sum())

    @property
    def modes(self) -> int:
        """Number of modes."""
        return len(self.shares)


def coverage(
    samples: np.ndarray,
    labels: np.ndarray,
    mixture: LabelledMixture,
    *,
    least: float = 0.2,
) -> Coverage:
    """Count the modes that the samples reach.

    A mode is covered when the samples of its label within 3σ of its mean are at least ``least`` of those expected from
    as many samples of the mixture: samples / modes, times the probability of that ball under the mode.

    Args:
        samples: of shape (records, dimensions).
        labels: the label of each sample.
        mixture: the truth.
        least: the share, in (0, 1].

    Returns:
        The share of each mode.

    Raises:
        OptionError: ``least`` is not in (0, 1].
        DataError: no samples, or their shape does not fit the mixture.
    """
    if not 0 < least <= 1:
        raise OptionError(f"least is {least}; expected a share in (0, 1]")
    _check(samples, labels, mixture)
    inside = np.zeros(len(mixture.means))
    for start in range(0, len(samples), _BATCH):
        batch = slice(start, start + _BATCH)
        near = _squares(samples[batch], mixture) <= _RADIUS**2
        inside += (near & (labels[batch, None] == mixture.labels)).sum(axis=0)
    expected = len(samples) / len(mixture.means) * _ball(_RADIUS, samples.shape[1])
    return Coverage(shares=inside / expected, least=least)


def _ball(radius: float, dimensions: int) -> float:
    """The probability that a standard Gaussian lies within a radius: the chi-squared distribution function."""
    half = radius**2 / 2
    order = 0.5 if dimensions % 2 else 1.0
    probability = math.erf(math.sqrt(half)) if dimensions % 2 else -math.expm1(-half)
    while order < dimensions / 2:
        # P(a + 1, x) = P(a, x) - x^a e^(-x) / Γ(a + 1) for the regularised lower incomplete gamma function.
        probability -= math.exp(order * math.log(half) - half - math.lgamma(order + 1))
        order += 1
    return probability


def _check(samples: np.ndarray, labels: np.ndarray, mixture: LabelledMixture) -> None:
    expected = mixture.means.shape[1]
    if (
        samples.ndim != 2
        or samples.shape[1] != expected
        or labels.shape != samples.shape[:1]
        or len(samples) == 0
    ):
        raise DataError(
            f"samples of shape {samples.shape} and labels of shape {labels.shape} do not fit a mixture in {expected} "
            "dimensions; expected (records, dimensions) and (records,), with at least one record"
        )


def _squares(samples: np.ndarray, mixture: LabelledMixture) -> np.ndarray:
    """Squared distance of each sample to each mode, in units of σ²."""
    gaps = samples[:, None, :].astype(np.float64) - mixture.means
    scaled: np.ndarray = np.square(gaps / mixture.deviation).sum(axis=2)
    return scaled


def _log_densities(
    samples: np.ndarray, labels: np.ndarray, mixture: LabelledMixture
) -> np.ndarray:
    exponents = np.where(
        labels[:, None] == mixture.labels, -0.5 * _squares(samples, mixture), -np.inf
    )
    scale = math.log(len(mixture.means)) + 0.5 * samples.shape[1] * math.log(
        2 * math.pi * mixture.deviation**2
    )
    densities: np.ndarray = np.logaddexp.reduce(exponents, axis=1) - scale
    return densities
