"""What noisy counts of cells say about the shares of these cells, when some of them drown.

Counts x ≥ 0 are seen as y = x + noise. Their shares are Dirichlet about what was known before, q, so that for a given
total each count is a gamma variable of mean total · q and shape a · k · q, k the number of cells. The strength a is not
known: the posterior means under several, from a = 0.1 (most cells are empty) to a = ∞ (shares are q), are averaged with
the weights that their evidence gives them (empirical Bayes; Robbins 1956, Efron and Morris 1973; averaging, Hoeting et
al. 1999). So where the noise drowns everything the answer is q itself, where a few levels stand out the others
share what is left, and where the noise is small the counts speak for themselves.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from jaxtyping import Float

    Array = npt.NDArray[Any]

Floats = npt.NDArray[np.float64]

# Strengths a of the prior; the last before infinity leaves a cell a hundredth part of its count.
_STRENGTHS = np.geomspace(0.1, 10_000, 11)
# A gamma density this narrow or peaked is beyond the quadrature.
_LEAST_SHAPE = 0.05
# Points of the quadrature, and how many standard deviations of the noise, and of the prior, it spans.
_POINTS, _NOISE_SPAN, _PRIOR_SPAN = 40, 7.0, 9.0
# A share that the prior rules out altogether would be ruled out whatever the counts say.
_LEAST_PRIOR = 1e-6

_log_gamma = np.vectorize(math.lgamma, otypes=[float])


def posterior_shares(
    noisy: Float[Any, " cells"], noise_std: float, prior: Float[Any, " cells"], total: float
) -> Floats:
    """Returns the posterior mean of the shares of cells, (cells,), positive and 1 in all.

    Args:
        noisy: Counts with Gaussian noise, in units of records.
        noise_std: Its standard deviation on each, positive.
        prior: Shares as they are thought to be before, 1 in all.
        total: Number of records in all cells, as well as it is known; positive.

    Examples:
        >>> import numpy as np
        >>> uniform = np.full(4, 0.25)
        >>> posterior_shares(np.array([900.0, 60.0, 40.0, 0.0]), 5.0, uniform, 1000.0).round(2).tolist()
        [0.9, 0.06, 0.04, 0.0]
        >>> posterior_shares(np.array([900.0, 60.0, 40.0, 0.0]), 50_000.0, uniform, 1000.0).round(2).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    prior = np.maximum(prior, _LEAST_PRIOR)
    prior = prior / prior.sum()
    means, evidence = _gamma_posterior(noisy, noise_std, prior * total)
    means /= means.sum(axis=1, keepdims=True)
    apart = (noisy - total * prior) / noise_std
    means, evidence = np.vstack([means, prior]), np.append(evidence, -0.5 * float(apart @ apart))
    weights = np.exp(evidence - evidence.max())
    return np.asarray(weights @ means / weights.sum())


def _gamma_posterior(noisy: Floats, noise_std: float, expected: Floats) -> tuple[Floats, Floats]:
    """Returns posterior means of counts, (strengths, cells), and the log evidence of each strength, (strengths,)."""
    shapes = np.maximum(_STRENGTHS[:, None] * (expected / expected.mean()), _LEAST_SHAPE)
    # What neither the noise nor the prior leaves possible is not looked at.
    spread = _PRIOR_SPAN / np.sqrt(shapes)
    lowest, highest = expected * np.maximum(1 - spread, 0), expected * (1 + spread + 40 / shapes)
    low = np.maximum(noisy - _NOISE_SPAN * noise_std, lowest)
    high = np.minimum(np.maximum(noisy, 0) + _NOISE_SPAN * noise_std, highest)
    low, high = np.where(low < high, low, lowest), np.where(low < high, high, highest)
    # Points are even in x^b, b at most the shape: the density may have a pole at 0.
    power = np.minimum(shapes, 1)[..., None]
    ratio = (low / high)[..., None] ** power
    logs = np.log(ratio + (1 - ratio) * (np.arange(_POINTS) + 0.5) / _POINTS) / power + np.log(high)[..., None]
    points = np.exp(logs)
    rates = shapes / expected
    log_density = (shapes[..., None] - power) * logs - rates[..., None] * points
    log_density -= 0.5 * ((points - noisy[:, None]) / noise_std) ** 2
    peak = log_density.max(axis=2)
    density = np.exp(log_density - peak[..., None])
    mass = density.sum(axis=2)
    # The width of a step in x^b, and the constant of the gamma density.
    width = power[..., 0] * np.log(high) + np.log1p(-ratio[..., 0]) - np.log(power[..., 0] * _POINTS)
    constant = shapes * np.log(rates) - _log_gamma(shapes)
    evidence = (np.log(mass) + peak + width + constant).sum(axis=1)
    return (density * points).sum(axis=2) / mass, evidence
