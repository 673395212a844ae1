"""The privacy losses of a Gaussian sum over a Poisson sample, from above, on a lattice: guarantee G-03 for one step.

A step is dominated by a pair of mixtures of normal distributions (Zhu, Dong and Wang, AISTATS 2022,
https://arxiv.org/abs/2106.08567), mirrored where that makes the loss grow along the line, and put on the lattice
{i·h} by *Connect the Dots* (Doroshenko et al., PoPETs 2022, https://arxiv.org/abs/2207.04380). docs/guarantees.md
proves that rounding only adds: masses of P are rounded up by `_ERROR` and those of Q down, losses are widened by their
error (`widened`), what lies below the lattice goes to its lowest point, what lies above counts as lost (`infinite`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
UNIT = 2.0**-53
"""Largest relative error of one rounding in float64."""
_MOST_POINTS, _FAR = 2**18, 30.0
# SciPy's ndtr is the complementary error function of Cephes, whose relative error is at most 5.7e-14 down to 1e-308 and
# a few roundings near 0: both are far below (64 + 8z²) roundings. That also holds rounding z − c, and differences.
_ERROR, _ERROR_FAR, _UNDERFLOW = 64 * UNIT, 8 * UNIT, 1e-300


@dataclass(frozen=True, kw_only=True)
class Steps:
    """`count` sums over Poisson samples."""

    rate: float  # sampling probability q, in (0, 1]
    shift: float  # norm of a record over the standard deviation of the noise; with q = 1, the Gaussian-DP μ
    count: int


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Which of the two outputs is a mixture because the record may be in the sample."""

    upper: bool  # P, which the loss is drawn from
    lower: bool  # Q


@dataclass(frozen=True, kw_only=True)
class LatticeLosses:
    """Finitely many losses that dominate those of a step, once each is raised by `widened`."""

    first: int  # the lowest loss is first · interval
    interval: float
    masses: Floats  # rounded up
    infinite: float  # probability that everything is lost, rounded up
    widened: float
    count: int  # of such steps


def lattice_losses(steps: Steps, pair: Pair, interval: float, reach: float) -> LatticeLosses | None:
    """Returns the losses of one step, or None if the interval is so small that there are too many."""
    lowest = (steps.shift if steps.rate == 1 and pair.upper else 0.0) - reach
    highest = (steps.shift if pair.upper else 0.0) + reach
    ends = _loss(np.array([lowest, highest]), steps, pair) / interval
    if not ends[1] - ends[0] < _MOST_POINTS:
        return None
    first, last = math.floor(ends[0]), max(math.ceil(ends[1]), math.floor(ends[0]) + 1)
    losses = interval * np.arange(first, last + 1)
    places = np.maximum.accumulate(_place(losses, steps, pair))
    widened = _mismatch(places, losses, steps, pair)
    upper, upper_error = _masses(places, steps, steps.shift if pair.upper else None)
    lower, lower_error = _masses(places, steps, -steps.shift if pair.lower else None)
    # P of the two ends and between the points; Q between them.
    total = (upper + upper_error) * (1 + 8 * UNIT)
    inner = total[1:-1]
    kept = np.maximum(lower - lower_error, 0.0)[1:-1] * np.exp(np.minimum(losses[:-1] - widened, 700.0))
    gap = inner * (1 + 16 * UNIT) - kept * (1 - (32 + 4 * np.abs(losses[:-1])) * UNIT)
    moved = np.minimum(np.maximum(gap, 0.0) * (1 + 8 * UNIT) / -math.expm1(-(interval + 2 * widened)), inner)
    masses = np.zeros(len(losses))
    masses[:-1] += inner - moved
    masses[1:] += moved
    masses[0] += total[0]
    masses *= 1 + 8 * UNIT
    lost = float(total[-1])
    return LatticeLosses(
        first=first, interval=interval, masses=masses, infinite=lost, widened=widened, count=steps.count
    )


def _log_mixture(t: Floats, rate: float) -> Floats:
    """Returns ln(1 − q + q·e^t), which lies between 0 and t; its error is at most that of `_loss_error`."""
    if rate == 1:
        return t
    far = np.logaddexp(math.log1p(-rate), math.log(rate) + t)
    if rate <= 0.5:
        return np.where(t < _FAR, np.log1p(rate * np.expm1(np.minimum(t, _FAR))), far)
    return np.where(t > -_FAR, t + np.log1p((1 - rate) * np.expm1(np.minimum(-t, _FAR))), far)


def _loss(z: Floats, steps: Steps, pair: Pair) -> Floats:
    """Returns ln dP/dQ at z."""
    m, zero = steps.shift, np.zeros_like(z)
    with np.errstate(all="ignore"):  # infinite places, which are meant
        upper = _log_mixture(m * z - m * m / 2, steps.rate) if pair.upper else zero
        lower = _log_mixture(-m * z - m * m / 2, steps.rate) if pair.lower else zero
        return upper - lower


def _loss_error(z: Floats, steps: Steps) -> Floats:
    """Returns a bound on the error of `_loss`: of t, then of ln(1 − q + q·e^t), whose slope in t is at most 1.

    With q ≤ ½, y = q·expm1(t) is off by 4 roundings, which moves ln(1 + y) by 4u|y|/(1 + y) ≤ 8u·|ln(1 + y)| ≤ 8u|t|;
    likewise with q > ½. Far out both logarithms of `far` are off by a few roundings of their own size.
    """
    m, size = steps.shift, np.where(np.isfinite(z), np.abs(z), 0.0)
    logs = 0.0 if steps.rate == 1 else -math.log(steps.rate) - math.log1p(-steps.rate)
    far = ~np.isfinite(z) | (m * size + m * m / 2 > _FAR)
    return 64 * UNIT * (m * size + m * m + np.where(far, logs, 0.0))


def _inverse_log_mixture(y: Floats, rate: float) -> Floats:
    """Returns about the t with ln(1 − q + q·e^t) = y; −∞ below the least y."""
    if rate == 1:
        return y
    far = y + np.log1p(-np.minimum((1 - rate) * np.exp(-y), 1.0)) - math.log(rate)
    near = np.log1p(np.maximum(np.expm1(np.minimum(y, _FAR)) / rate, -1.0))
    return far if rate > 0.5 else np.where(y < _FAR, near, far)


def _place(losses: Floats, steps: Steps, pair: Pair) -> Floats:
    """Returns about where the loss takes these values; infinite where it does not."""
    m = steps.shift
    with np.errstate(all="ignore"):
        if not pair.lower:
            return (_inverse_log_mixture(losses, steps.rate) + m * m / 2) / m
        if not pair.upper:
            return -(_inverse_log_mixture(-losses, steps.rate) + m * m / 2) / m
        # With v = e^(mz − loss/2): v − 1/v = 2·sinh(loss/2)·(1 − q)/q·e^(m²/2).
        log_half = np.log(-np.expm1(-np.abs(losses))) + np.abs(losses) / 2 - math.log(2)
        size = log_half + math.log1p(-steps.rate) - math.log(steps.rate) + m * m / 2
        root = np.where(size > 20, size + math.log(2), np.arcsinh(np.exp(np.minimum(size, 20.0))))
        return np.asarray((losses / 2 + np.sign(losses) * root) / m)


def _mismatch(places: Floats, losses: Floats, steps: Steps, pair: Pair) -> float:
    """Returns how far the losses at `places` are at most from what they should be, on the side that matters."""
    gap = _loss(places, steps, pair) - losses
    off = np.where(places == -math.inf, -gap, np.where(places == math.inf, gap, np.abs(gap)))
    return float(np.max(np.maximum(off, 0.0) + _loss_error(places, steps) + 4 * UNIT * np.abs(losses)))


def _masses(places: Floats, steps: Steps, centre: float | None) -> tuple[Floats, Floats]:
    """Returns the probability below, between and above the places, and bounds on the errors of these.

    Of N(0, 1), or with a centre c of (1 − q)·N(0, 1) + q·N(c, 1).
    """
    if centre is None:
        return _normal_masses(places)
    (still, still_error), (moved, moved_error) = _normal_masses(places), _normal_masses(places - centre)
    out, sampled = 1 - steps.rate, steps.rate
    return out * still + sampled * moved, out * still_error + sampled * moved_error


def _normal_masses(places: Floats) -> tuple[Floats, Floats]:
    from scipy.special import ndtr

    z = np.concatenate([[-math.inf], places, [math.inf]])
    below, above = ndtr(z), ndtr(-z)
    left = z[1:] <= 0  # there the distribution function is the small one
    error = _ERROR + _ERROR_FAR * np.minimum(z * z, 1e4)
    masses = np.where(left, below[1:] - below[:-1], above[:-1] - above[1:])
    smaller = np.where(left, (error * below)[1:] + (error * below)[:-1], (error * above)[1:] + (error * above)[:-1])
    return masses, smaller + _UNDERFLOW
