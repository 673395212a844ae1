"""Losses of Gaussian sums over Poisson samples, of one step on a lattice and of many together: G-03."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
UNIT = 2.0**-53  # largest relative error of one rounding in float64
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


def lattice_losses(
    steps: Steps, pair: Pair, interval: float, reach: float
) -> LatticeLosses | None:
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
    kept = np.maximum(lower - lower_error, 0.0)[1:-1] * np.exp(
        np.minimum(losses[:-1] - widened, 700.0)
    )
    gap = inner * (1 + 16 * UNIT) - kept * (1 - (32 + 4 * np.abs(losses[:-1])) * UNIT)
    moved = np.minimum(
        np.maximum(gap, 0.0) * (1 + 8 * UNIT) / -math.expm1(-(interval + 2 * widened)),
        inner,
    )
    masses = np.zeros(len(losses))
    masses[:-1] += inner - moved
    masses[1:] += moved
    masses[0] += total[0]
    masses *= 1 + 8 * UNIT
    lost = float(total[-1])
    return LatticeLosses(
        first=first,
        interval=interval,
        masses=masses,
        infinite=lost,
        widened=widened,
        count=steps.count,
    )


def _log_mixture(t: Floats, rate: float) -> Floats:
    """Returns ln(1 − q + q·e^t), which lies between 0 and t; its error is at most that of `_loss_error`."""
    if rate == 1:
        return t
    far = np.logaddexp(math.log1p(-rate), math.log(rate) + t)
    if rate <= 0.5:
        return np.where(t < _FAR, np.log1p(rate * np.expm1(np.minimum(t, _FAR))), far)
    return np.where(
        t > -_FAR, t + np.log1p((1 - rate) * np.expm1(np.minimum(-t, _FAR))), far
    )


def _loss(z: Floats, steps: Steps, pair: Pair) -> Floats:
    """Returns ln dP/dQ at z."""
    m, zero = steps.shift, np.zeros_like(z)
    with np.errstate(all="ignore"):  # infinite places, which are meant
        upper = _log_mixture(m * z - m * m / 2, steps.rate) if pair.upper else zero
        lower = _log_mixture(-m * z - m * m / 2, steps.rate) if pair.lower else zero
        return upper - lower


def _loss_error(z: Floats, steps: Steps) -> Floats:
    """Returns a bound on the error of `_loss`: of t, then of ln(1 − q + q·e^t), whose slope in t is at most 1."""
    # With q ≤ ½, y = q·expm1(t) is off by 4 roundings, which moves ln(1 + y) by 4u|y|/(1 + y) ≤ 8u·|ln(1 + y)| ≤ 8u|t|;
    # likewise with q > ½. Far out both logarithms of `far` are off by a few roundings of their own size.
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
        root = np.where(
            size > 20, size + math.log(2), np.arcsinh(np.exp(np.minimum(size, 20.0)))
        )
        return np.asarray((losses / 2 + np.sign(losses) * root) / m)


def _mismatch(places: Floats, losses: Floats, steps: Steps, pair: Pair) -> float:
    """Returns how far the losses at `places` are at most from what they should be, on the side that matters."""
    gap = _loss(places, steps, pair) - losses
    off = np.where(
        places == -math.inf, -gap, np.where(places == math.inf, gap, np.abs(gap))
    )
    return float(
        np.max(
            np.maximum(off, 0.0)
            + _loss_error(places, steps)
            + 4 * UNIT * np.abs(losses)
        )
    )


def _masses(
    places: Floats, steps: Steps, centre: float | None
) -> tuple[Floats, Floats]:
    """Returns the masses below, between and above places, of N(0, 1) or (1 − q)·N(0, 1) + q·N(c, 1), and errors."""
    if centre is None:
        return _normal_masses(places)
    (still, still_error), (moved, moved_error) = (
        _normal_masses(places),
        _normal_masses(places - centre),
    )
    out, sampled = 1 - steps.rate, steps.rate
    return out * still + sampled * moved, out * still_error + sampled * moved_error


def _normal_masses(places: Floats) -> tuple[Floats, Floats]:
    from scipy.special import ndtr

    z = np.concatenate([[-math.inf], places, [math.inf]])
    below, above = ndtr(z), ndtr(-z)
    left = z[1:] <= 0  # there the distribution function is the small one
    error = _ERROR + _ERROR_FAR * np.minimum(z * z, 1e4)
    masses = np.where(left, below[1:] - below[:-1], above[:-1] - above[1:])
    smaller = np.where(
        left,
        (error * below)[1:] + (error * below)[:-1],
        (error * above)[1:] + (error * above)[:-1],
    )
    return masses, smaller + _UNDERFLOW


LEAST_DELTA = 1e-200  # below, normal tails come near the smallest numbers of float64
_MOST_LOSSES, _MOST_EPSILON = 2**22, 1e12
# Parts of δ, and of Chernoff's bound, that are given away to tails.
_CUT, _OUTSIDE = 1e-7, 1e-12
# Part of δ that numerical errors may add before another tilt is tried, and how many are tried.
_ADDED, _TILTS = 1e-3, 12


def composed_epsilon(
    steps: Sequence[Steps], pairs: Sequence[Pair], delta: float
) -> float:
    """Returns an upper bound on the ε ≥ 0 for which the composition of all `steps` is (ε, δ)-DP, δ ≥ `LEAST_DELTA`."""
    # All steps go the same way, so the dearest of the dominating pairs counts.
    return max(_epsilon(steps, pair, delta) for pair in pairs)


def _epsilon(steps: Sequence[Steps], pair: Pair, delta: float) -> float:
    interval = _interval(steps)
    for _ in range(200):
        lattices = _lattices(steps, pair, interval, delta)
        if (
            lattices is not None
            and (found := _least_epsilon(lattices, delta)) is not None
        ):
            return found
        interval *= 2
    return math.inf


def _least_epsilon(lattices: Sequence[LatticeLosses], delta: float) -> float | None:
    """Returns the least ε of some tilts, each of which is a bound; None if there would be too many losses."""
    # Chernoff's best tilt grows without end where δ is near the chance of all losses; then a smaller one is tried.
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
    """Returns how finely losses are discretised: a tenth of their root mean square in one step, as a rule of thumb."""
    # Beyond a million steps, a ten-thousandth of that of all of them together, or time would grow with the steps.
    # The Rényi divergence of order 2 of a step.
    squares = [
        math.log1p(step.rate**2 * math.expm1(min(step.shift**2, 700.0)))
        for step in steps
    ]
    together = math.fsum(
        step.count * square for step, square in zip(steps, squares, strict=True)
    )
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
        rounding = (
            1
            + 1e-9
            + 16 * UNIT * self.theta * float(np.max(np.abs(self.losses)) + abs(epsilon))
        )
        found = float(np.dot(self.tilted[start:], weights)) * rounding + self.outside
        finite = self.log_factor - self.theta * epsilon + math.log(found)
        return (
            float(np.logaddexp(finite, math.log(self.infinite)))
            if self.infinite > 0
            else finite
        )

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
        # Where the search stops does not matter: what is returned is checked. The root may be far below `high`.
        root = brentq(
            lambda epsilon: self.log_delta(epsilon) - target,
            0.0,
            high,
            xtol=1e-15 * high,
            rtol=1e-9,
        )
        tries = (min(float(root) * (1 + off), high) for off in (1e-8, 1e-6, 1e-4, 1e-2))
        return (
            next((found for found in tries if self.log_delta(found) <= target), high)
            + self.raised
        )


def _lattices(
    steps: Sequence[Steps], pair: Pair, interval: float, delta: float
) -> list[LatticeLosses] | None:
    """Returns the losses of each kind of step, or None if the interval is too small for one."""
    from scipy.special import ndtri

    count = sum(step.count for step in steps)
    reach = -float(ndtri(delta * _CUT / count))
    whole = Pair(upper=True, lower=False)
    parts = (
        lattice_losses(step, whole if step.rate == 1 else pair, interval, reach)
        for step in steps
    )
    lattices = [part for part in parts if part is not None]
    return lattices if len(lattices) == len(steps) else None


def _composed(lattices: Sequence[LatticeLosses], theta: float) -> _Composed | None:
    """Returns the composition at a tilt, or None if there would be too many losses to look at."""
    window, interval = _window(lattices, theta), lattices[0].interval
    if window is None:
        return None
    first, size = window
    largest = [
        abs(theta) * interval * max(abs(part.first), abs(part.first + len(part.masses)))
        for part in lattices
    ]
    off = math.fsum(
        part.count * (8 * most + 128) * UNIT
        for part, most in zip(lattices, largest, strict=True)
    )
    found, error = _convolved(
        [_tilt(part, theta)[1] for part in lattices],
        [part.count for part in lattices],
        size,
    )
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
    exponents = (theta * part.interval) * np.arange(
        part.first, part.first + len(part.masses)
    )
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

    found = minimize_scalar(
        bound,
        bounds=(math.log(1e-3), math.log(1e9)),
        method="bounded",
        options={"xatol": 1e-2},
    )
    return math.exp(float(found.x))


def _window(lattices: Sequence[LatticeLosses], theta: float) -> tuple[int, int] | None:
    """Returns the first lattice point, and how many, a power of two, hold nearly all tilted loss; None if too many."""
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


def _convolved(
    masses: Sequence[Floats], counts: Sequence[int], size: int
) -> tuple[Floats, float]:
    """Returns the convolution of masses[j], counts[j] times each, for all j, modulo `size`, and its largest error."""
    # Each of the masses adds up to 1, and `size` is a power of two.
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


def _power(
    values: npt.NDArray[np.complex128], exponent: int
) -> npt.NDArray[np.complex128]:
    """Returns values to the power of `exponent` by repeated squaring, off by as many products."""
    found = np.ones_like(values)
    while exponent:
        if exponent & 1:
            found = found * values
        exponent >>= 1
        if exponent:
            values = values * values
    return found
