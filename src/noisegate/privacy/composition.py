"""Losses of many steps together: a Fourier transform whose rounding error is proved, relative to the δ that is asked.

Guarantee G-03 for compositions. Let p be the masses of one step on the lattice (below), K steps in all. For
any θ ≥ 0 put x = p·e^{θ·loss}/M, M = Σ p·e^{θ·loss}; the K-fold convolution is then p^{*K} = M^K·e^{−θ·loss}·x^{*K},
and

    δ(ε) = M^K·e^{−θε} · Σ_{loss > ε} x^{*K}·e^{−θ(loss − ε)}·(1 − e^{−(loss − ε)}).

The factor in front is Chernoff's bound on the tail beyond ε, for the best θ a few dozen times δ(ε). The transform is
off by a few 10⁻¹⁵ for each step *relative to that*, where without θ it would be so relative to 1: for a small δ, or
many steps, that is more than δ itself. What is bounded, and added:

* *The transforms.* N is a power of two, and Σ x = 1. An entry of a fast Fourier transform is a sum over inputs along
  paths of log₂ N stages, each off by less than 8 roundings u; so every entry F of the transform is off by at most
  γ = 16u·log₂ N, and F^k, by repeated squaring, with all factors by at most Σ k(γ + 3u)·∏(|F| + γ)^k / (|F| + γ) each.
  The inverse transform takes the mean over frequencies of that, and adds γ times the mean of the moduli.
* *The window.* The transform is of period N, so that what lies outside of the N losses that are looked at is added
  inside: more, never less. What it would have added where it lies is bounded by Chernoff's bound once more.
* *The tilt.* e^{θ·loss} is off by a relative error that grows with its exponent; with the rounding of logarithms and
  sums it enters as a factor e^{K·r}.

Each part is an upper bound for every θ, interval and window; a poor choice costs tightness, never validity.

The privacy losses of a Gaussian sum over a Poisson sample, from above, on a lattice: guarantee G-03 for one step.

Let m be the norm of a record over the standard deviation of the noise, and q the sampling probability. A step is
dominated by a pair (P, Q) on the real line, P = (1 − q)·N(0, 1) + q·N(m, 1) or N(0, 1), and Q = (1 − q)·N(0, 1) +
q·N(−m, 1) or N(0, 1), mirrored where that makes the loss ln dP/dQ grow along the line: Zhu, Dong and Wang (AISTATS
2022), https://arxiv.org/abs/2106.08567, for add-remove; two mixtures for replace-one. It is put on the lattice {i·h} by
*Connect the Dots*, Doroshenko et al. (PoPETs 2022), https://arxiv.org/abs/2207.04380: the mass of P between the points
where the loss is i·h and (i+1)·h goes to these two, such that the mass of Q in between stays what it is. Nothing is
subtracted that is nearly equal without its rounding error being added back:

* A mass of P or Q is a sum of differences of normal distribution functions, each taken on the side where it is small.
  `_ERROR` bounds the error of each value; P is rounded up by it, Q down. More of P, and less of Q, moves mass upwards
  or adds some, and δ(ε) of any composition grows with both.
* The points where the loss is i·h are found by a formula that nobody needs to trust: the loss is computed there again,
  with the error `_loss_error`, and `widened` is by how much it may be off. Losses in between then lie in
  [i·h − widened, (i+1)·h + widened]; they are split between these ends, and the ends moved up to (i·h + widened).
* What lies below the lattice goes to its lowest point; what lies above it counts as lost: `infinite`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

UNIT = 2.0**-53
"""Largest relative error of one rounding in float64."""

LEAST_DELTA = 1e-200
"""Below, normal tails come near the smallest numbers of float64."""

_MOST_POINTS, _MOST_LOSSES, _MOST_EPSILON = 2**18, 2**22, 1e12
_FAR = 30.0
# SciPy's ndtr is the complementary error function of Cephes, whose relative error is at most 5.7e-14 down to 1e-308 and
# a few roundings near 0: both are far below (64 + 8z²) roundings. That also holds rounding z − c, and differences.
_ERROR, _ERROR_FAR, _UNDERFLOW = 64 * UNIT, 8 * UNIT, 1e-300
# Parts of δ, and of Chernoff's bound, that are given away to tails.
_CUT, _OUTSIDE = 1e-7, 1e-12


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


def composed_epsilon(steps: Sequence[Steps], pairs: Sequence[Pair], delta: float) -> float:
    """Returns an upper bound on the ε ≥ 0 for which the composition of all `steps` is (ε, δ)-DP.

    δ is at least `LEAST_DELTA`; all steps go the same way, so the dearest of the dominating pairs counts.
    """
    return max(_epsilon(steps, pair, delta) for pair in pairs)


def _epsilon(steps: Sequence[Steps], pair: Pair, delta: float) -> float:
    interval = _interval(steps)
    for _ in range(200):
        if (composed := _composed(steps, pair, interval, delta)) is not None:
            return composed.epsilon(delta)
        interval *= 2
    return math.inf


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
    theta: float
    log_factor: float  # ln M^K and what its rounding may add
    outside: float  # tilted probability outside of the window, rounded up
    infinite: float  # probability that everything is lost, rounded up
    raised: float  # what the losses are to be raised by

    def log_delta(self, epsilon: float) -> float:
        """Returns the logarithm of an upper bound on δ at `epsilon` + `raised`."""
        start = int(np.searchsorted(self.losses, epsilon, side="right"))
        beyond = self.losses[start:] - epsilon
        weights = np.exp(-self.theta * beyond) * -np.expm1(-beyond)
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
        # Where the search stops is no matter of validity: what is returned is checked.
        root = brentq(lambda epsilon: self.log_delta(epsilon) - target, 0.0, high, xtol=1e-9 * high, rtol=1e-9)
        found = min(float(root) * (1 + 1e-8), high)
        return (found if self.log_delta(found) <= target else high) + self.raised


def _composed(steps: Sequence[Steps], pair: Pair, interval: float, delta: float) -> _Composed | None:
    """Returns the composition, or None if there would be too many losses to look at."""
    from scipy.special import ndtri

    count = sum(step.count for step in steps)
    reach = -float(ndtri(delta * _CUT / count))
    whole = Pair(upper=True, lower=False)
    parts = (lattice_losses(step, whole if step.rate == 1 else pair, interval, reach) for step in steps)
    lattices = [part for part in parts if part is not None]
    if len(lattices) < len(steps):
        return None
    theta = _best_tilt(lattices, delta)
    window = _window(lattices, theta)
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
