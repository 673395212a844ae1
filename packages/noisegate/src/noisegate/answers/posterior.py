"""Shares of cells from noisy counts, by what is known of them before."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from noisegate.answers.domain import Floats

if TYPE_CHECKING:
    from jaxtyping import Float

# Strengths of the prior that are averaged, but for infinity. With the weakest most
# cells are empty; the strongest leaves a cell a hundredth part of its count.
_STRENGTHS = np.geomspace(0.1, 10_000, 11)
# A gamma density that is narrower or more peaked is beyond the quadrature.
_MIN_SHAPE = 0.05
# Points of the quadrature. They span so many standard deviations of the noise, and of
# the prior, and so many means of its exponential tail.
_N_POINTS = 40
_NOISE_SPAN = 7.0
_PRIOR_SPAN = 9.0
_TAIL_SPAN = 40
# A share that the prior rules out would be ruled out whatever the counts say.
_MIN_PRIOR = 1e-6

_log_gamma = np.vectorize(math.lgamma, otypes=[float])


def posterior_shares(
    noisy: Float[Any, " cells"],
    noise_std: float,
    prior: Float[Any, " cells"],
    total: float,
) -> Floats:
    """Computes the posterior mean of the shares of cells.

    Counts x ≥ 0 are seen as y = x + noise. Their shares are Dirichlet about the prior
    q: each count is a gamma variable of mean total·q and shape a·k·q, with k the number
    of cells. The strength a is not known. So the posterior means under several
    strengths, from 0.1 (most cells are empty) to ∞ (shares are q), are averaged by
    their evidence (empirical Bayes: Robbins 1956, Efron and Morris 1973; averaging:
    Hoeting and others 1999). Where everything is below the noise, the result is q.

    Args:
        noisy: Counts with Gaussian noise, in records.
        noise_std: Standard deviation of the noise on each, positive.
        prior: Shares as they are thought to be before; they sum to 1.
        total: Number of records in all cells, as well as it is known; positive.

    Returns:
        The shares, (cells,), positive; they sum to 1.

    Examples:
        >>> import numpy as np
        >>> uniform = np.full(4, 0.25)
        >>> noisy = np.array([900.0, 60.0, 40.0, 0.0])
        >>> posterior_shares(noisy, 5.0, uniform, 1000.0).round(2).tolist()
        [0.9, 0.06, 0.04, 0.0]
        >>> posterior_shares(noisy, 50_000.0, uniform, 1000.0).round(2).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    positive_prior = np.maximum(prior, _MIN_PRIOR)
    shares_before = positive_prior / positive_prior.sum()
    means, evidence = _gamma_posterior(noisy, noise_std, shares_before * total)
    means /= means.sum(axis=1, keepdims=True)
    # Of infinite strength.
    distance = (noisy - total * shares_before) / noise_std
    all_means = np.vstack([means, shares_before])
    all_evidence = np.append(evidence, -0.5 * float(distance @ distance))
    weights = np.exp(all_evidence - all_evidence.max())
    return np.asarray(weights @ all_means / weights.sum())


def _gamma_posterior(
    noisy: Floats, noise_std: float, expected: Floats
) -> tuple[Floats, Floats]:
    """Computes the posterior of counts under each strength of the prior.

    Args:
        noisy: Noisy counts, (cells,).
        noise_std: Standard deviation of their noise.
        expected: Means of the prior, (cells,).

    Returns:
        Posterior means, (strengths, cells), and the logarithm of the evidence of each
        strength, (strengths,).
    """
    shapes = np.maximum(_STRENGTHS[:, None] * (expected / expected.mean()), _MIN_SHAPE)
    low, high = _integration_bounds(noisy, noise_std, expected, shapes)
    # Points are even in x^b, with b at most the shape, as the density may have a pole
    # at 0.
    power = np.minimum(shapes, 1)[..., None]
    ratio = (low / high)[..., None] ** power
    logs = (
        np.log(ratio + (1 - ratio) * (np.arange(_N_POINTS) + 0.5) / _N_POINTS) / power
        + np.log(high)[..., None]
    )
    points = np.exp(logs)
    rates = shapes / expected
    log_density = (shapes[..., None] - power) * logs - rates[..., None] * points
    log_density -= 0.5 * ((points - noisy[:, None]) / noise_std) ** 2
    peak = log_density.max(axis=2)
    density = np.exp(log_density - peak[..., None])
    mass = density.sum(axis=2)
    # The width of a step in x^b, and the constant of the gamma density.
    log_width = (
        power[..., 0] * np.log(high)
        + np.log1p(-ratio[..., 0])
        - np.log(power[..., 0] * _N_POINTS)
    )
    log_constant = shapes * np.log(rates) - _log_gamma(shapes)
    evidence = (np.log(mass) + peak + log_width + log_constant).sum(axis=1)
    return (density * points).sum(axis=2) / mass, evidence


def _integration_bounds(
    noisy: Floats, noise_std: float, expected: Floats, shapes: Floats
) -> tuple[Floats, Floats]:
    """Returns between which counts the quadrature looks, (strengths, cells) each.

    What neither the noise nor the prior leaves possible is left out; where they
    contradict each other, the prior decides.
    """
    spread = _PRIOR_SPAN / np.sqrt(shapes)
    prior_low = expected * np.maximum(1 - spread, 0)
    prior_high = expected * (1 + spread + _TAIL_SPAN / shapes)
    low = np.maximum(noisy - _NOISE_SPAN * noise_std, prior_low)
    high = np.minimum(np.maximum(noisy, 0) + _NOISE_SPAN * noise_std, prior_high)
    is_possible = low < high
    return np.where(is_possible, low, prior_low), np.where(
        is_possible, high, prior_high
    )
