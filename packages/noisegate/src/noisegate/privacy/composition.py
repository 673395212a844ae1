"""Losses of many steps together: a Fourier transform whose rounding error is proved, relative to the δ that is asked.

Guarantee G-03 for compositions. The masses of a step are tilted by e^{θ·loss}, so that errors of the transform are
relative to Chernoff's bound on the tail beyond ε and not to 1. docs/guarantees.md proves the formula, and bounds what
is added for the transforms, for the window that they are periodic in, and for the tilt. Each part is an upper bound for
every θ, interval and window; a poor choice costs tightness, never validity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisegate.privacy.lattice import UNIT, Floats, LatticeLosses, Pair, Steps, lattice_losses

LEAST_DELTA = 1e-200
"""Below, normal tails come near the smallest numbers of float64."""

_MOST_LOSSES, _MOST_EPSILON = 2**22, 1e12
# Parts of δ, and of Chernoff's bound, that are given away to tails.
_CUT, _OUTSIDE = 1e-7, 1e-12
# Part of δ that numerical errors may add before another tilt is tried, and how many are tried.
_ADDED, _TILTS = 1e-3, 12


def composed_epsilon(steps: Sequence[Steps], pairs: Sequence[Pair], delta: float) -> float:
    """Returns an upper bound on the ε ≥ 0 for which the composition of all `steps` is (ε, δ)-DP.

    δ is at least `LEAST_DELTA`; all steps go the same way, so the dearest of the dominating pairs counts.
    """
    return max(_epsilon(steps, pair, delta) for pair in pairs)


def _epsilon(steps: Sequence[Steps], pair: Pair, delta: float) -> float:
    interval = _interval(steps)
    for _ in range(200):
        lattices = _lattices(steps, pair, interval, delta)
        if lattices is not None and (found := _least_epsilon(lattices, delta)) is not None:
            return found
        interval *= 2
    return math.inf


def _least_epsilon(lattices: Sequence[LatticeLosses], delta: float) -> float | None:
    """Returns the least ε of some tilts, each of which is a bound; None if there would be too many losses to look at.

    The best tilt for Chernoff's bound grows without end where losses are bounded and δ is near the chance of all of
    them, as in a single step: what errors add then decides, and a smaller tilt is tried.
    """
    theta, least = _best_tilt(lattices, delta), None
    for _ in range(_TILTS):
        composed = _composed(lattices, theta)
        if composed is None:
            break
        found = composed.epsilon(delta)
        if least is not None and found >= least:
            break
        least = found
        if composed.added(found) < _ADDED:
            break
        theta /= 8
    return least


def _interval(steps: Sequence[Steps]) -> float:
    """Returns how finely losses are discretised: a tenth of their root mean square in one step, as a rule of thumb.

    A fixed interval would be too coarse for thousands of steps that each lose little, doubling ε, and too fine for the
    few that lose much. Beyond a million steps, a ten-thousandth of the root mean square of all of them together, or
    time would grow with the steps.
    """
    # The Rényi divergence of order 2 of a step.
    squares = [math.log1p(step.rate**2 * math.expm1(min(step.shift**2, 700.0))) for step in steps]
    together = math.fsum(step.count * square for step, square in zip(steps, squares, strict=True))
    # Where losses are large, most of their square is in a few steps, which the rest must not be blurred for.
    one = 0.1 * min(math.sqrt(together / sum(step.count for step in steps)), 0.2)
    return max(one, 1e-4 * math.sqrt(together), 1e-12)


@dataclass(frozen=True, kw_only=True)
class _Composed:
    """The losses of all steps together, tilted, in a window."""

    losses: Floats  # the lattice in the window
    tilted: Floats  # their probabilities under the tilt, rounded up
    error: float  # what each of them is rounded up by
    theta: float
    log_factor: float  # ln M^K and what its rounding may add
    outside: float  # tilted probability outside of the window, rounded up
    infinite: float  # probability that everything is lost, rounded up
    raised: float  # what the losses are to be raised by

    def _weights(self, epsilon: float) -> tuple[int, Floats]:
        """Returns the place of the first loss beyond ε, and what each from there on weighs."""
        start = int(np.searchsorted(self.losses, epsilon, side="right"))
        beyond = self.losses[start:] - epsilon
        return start, np.exp(-self.theta * beyond) * -np.expm1(-beyond)

    def added(self, epsilon: float) -> float:
        """Returns which part of δ at `epsilon` is added for errors."""
        start, weights = self._weights(max(epsilon - self.raised, 0.0))
        total = float(np.dot(self.tilted[start:], weights)) + self.outside
        return (self.error * float(np.sum(weights)) + self.outside) / total

    def log_delta(self, epsilon: float) -> float:
        """Returns the logarithm of an upper bound on δ at `epsilon` + `raised`."""
        start, weights = self._weights(epsilon)
        # Sums and exponents are off by less than a billionth, however long.
        rounding = 1 + 1e-9 + 16 * UNIT * self.theta * float(np.max(np.abs(self.losses)) + abs(epsilon))
        found = float(np.dot(self.tilted[start:], weights)) * rounding + self.outside
        finite = self.log_factor - self.theta * epsilon + math.log(found)
        return float(np.logaddexp(finite, math.log(self.infinite))) if self.infinite > 0 else finite

    def epsilon(self, delta: float) -> float:
        """Returns an upper bound on the least ε ≥ 0 for `delta`."""
        from scipy.optimize import brentq

        target = math.log(delta)
        if self.infinite >= delta:
            return math.inf
        if self.log_delta(0.0) <= target:
            return self.raised
        high = max((self.log_factor - target) / self.theta, 1e-12)
        while self.log_delta(high) > target:
            high *= 2
            if high > _MOST_EPSILON:
                return math.inf
        # Where the search stops is no matter of validity: what is returned is checked. It stops relative to the root,
        # which may be a thousandth of `high` and less.
        root = brentq(lambda epsilon: self.log_delta(epsilon) - target, 0.0, high, xtol=1e-15 * high, rtol=1e-9)
        tries = (min(float(root) * (1 + off), high) for off in (1e-8, 1e-6, 1e-4, 1e-2))
        return next((found for found in tries if self.log_delta(found) <= target), high) + self.raised


def _lattices(steps: Sequence[Steps], pair: Pair, interval: float, delta: float) -> list[LatticeLosses] | None:
    """Returns the losses of each kind of step, or None if the interval is too small for one."""
    from scipy.special import ndtri

    count = sum(step.count for step in steps)
    reach = -float(ndtri(delta * _CUT / count))
    whole = Pair(upper=True, lower=False)
    parts = (lattice_losses(step, whole if step.rate == 1 else pair, interval, reach) for step in steps)
    lattices = [part for part in parts if part is not None]
    return lattices if len(lattices) == len(steps) else None


def _composed(lattices: Sequence[LatticeLosses], theta: float) -> _Composed | None:
    """Returns the composition at a tilt, or None if there would be too many losses to look at."""
    window, interval = _window(lattices, theta), lattices[0].interval
    if window is None:
        return None
    first, size = window
    largest = [abs(theta) * interval * max(abs(part.first), abs(part.first + len(part.masses))) for part in lattices]
    off = math.fsum(part.count * (8 * most + 128) * UNIT for part, most in zip(lattices, largest, strict=True))
    found, error = _convolved([_tilt(part, theta)[1] for part in lattices], [part.count for part in lattices], size)
    lowest = sum(part.count * part.first for part in lattices)
    found = np.roll(found, -((first - lowest) % size))
    return _Composed(
        losses=interval * (np.arange(size, dtype=np.float64) + float(first)),
        tilted=np.maximum(found, 0.0) + error,
        error=error,
        theta=theta,
        log_factor=_log_moment(lattices, theta) + off,
        outside=2.1 * _OUTSIDE,
        infinite=1.01 * math.fsum(part.count * part.infinite for part in lattices),
        raised=math.fsum(part.count * part.widened for part in lattices) * (1 + 1e-9),
    )


def _log_moment(lattices: Sequence[LatticeLosses], theta: float) -> float:
    """Returns ln E[e^{θ·loss}] of all steps together."""
    return math.fsum(part.count * _tilt(part, theta)[0] for part in lattices)


def _tilt(part: LatticeLosses, theta: float) -> tuple[float, Floats]:
    """Returns ln M = ln Σ p·e^{θ·loss} of one step, and x = p·e^{θ·loss}/M."""
    exponents = (theta * part.interval) * np.arange(part.first, part.first + len(part.masses))
    most = float(np.max(exponents))
    weights = part.masses * np.exp(exponents - most)
    total = float(np.sum(weights))
    return most + math.log(total), weights / total


def _best_tilt(lattices: Sequence[LatticeLosses], delta: float) -> float:
    """Returns about the θ for which Chernoff's bound is δ at the least ε."""

    def bound(log_theta: float) -> float:
        theta = math.exp(log_theta)
        return (_log_moment(lattices, theta) - math.log(delta)) / theta

    from scipy.optimize import minimize_scalar

    found = minimize_scalar(bound, bounds=(math.log(1e-3), math.log(1e9)), method="bounded", options={"xatol": 1e-2})
    return math.exp(float(found.x))


def _window(lattices: Sequence[LatticeLosses], theta: float) -> tuple[int, int] | None:
    """Returns the first lattice point and the number of points, a power of two, beyond which hardly any tilted loss is.

    None if there are too many.
    """
    interval, here = lattices[0].interval, _log_moment(lattices, theta)
    first = sum(part.count * part.first for part in lattices)
    last = sum(part.count * (part.first + len(part.masses) - 1) for part in lattices)
    scale = 1 / (interval * math.sqrt(max(_variance(lattices, theta), 1.0)))
    for times in (0.25, 0.5, 1, 2, 4, 6, 8, 12, 16):
        step = times * scale
        up = _log_moment(lattices, theta + step) - here - math.log(_OUTSIDE)
        last = min(last, math.ceil(up / step / interval) + 1)
        down = _log_moment(lattices, theta - step) - here - math.log(_OUTSIDE)
        first = max(first, math.floor(-down / step / interval) - 1)
    wanted = max(last - first + 1, *(len(part.masses) for part in lattices), 2)
    return (first, 1 << (wanted - 1).bit_length()) if wanted <= _MOST_LOSSES else None


def _variance(lattices: Sequence[LatticeLosses], theta: float) -> float:
    """Returns the variance of the tilted losses of all steps together, in squared intervals."""
    total = 0.0
    for part in lattices:
        tilted, places = _tilt(part, theta)[1], np.arange(len(part.masses))
        mean = float(np.dot(tilted, places))
        total += part.count * float(np.dot(tilted, (places - mean) ** 2))
    return total


def _convolved(masses: Sequence[Floats], counts: Sequence[int], size: int) -> tuple[Floats, float]:
    """Returns the convolution of masses[j] with itself counts[j] times for all j, modulo `size`, and its largest error.

    Each of the masses adds up to 1, and `size` is a power of two.
    """
    gamma = 16 * UNIT * (size.bit_length() - 1)
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    moduli, sums = np.ones(len(product)), np.zeros(len(product))
    for part, count in zip(masses, counts, strict=True):
        spectrum = np.fft.rfft(part, size)
        product *= _power(spectrum, count)
        above = np.abs(spectrum) + gamma
        moduli *= above ** float(count)
        sums += count * (gamma + 3 * UNIT) / above
    # Twice, as only half of the frequencies are stored; a hundredth for the rounding of this bound itself.
    error = 1.01 * 2 * float(np.sum(moduli * (sums + gamma))) / size
    return np.fft.irfft(product, size), error


def _power(values: npt.NDArray[np.complex128], exponent: int) -> npt.NDArray[np.complex128]:
    """Returns values to the power of `exponent` by repeated squaring, off by as many products."""
    found = np.ones_like(values)
    while exponent:
        if exponent & 1:
            found = found * values
        exponent >>= 1
        if exponent:
            values = values * values
    return found
