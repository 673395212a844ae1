"""Composes steps on Poisson samples: from their privacy losses to ε at a δ (G-03).

The *privacy loss* of an outcome z is ln dP(z)/dQ(z), where P and Q are the
distributions of a step's output on two neighbours. Losses of several steps add up, so
the loss of all of them is a convolution, and δ at an ε follows from its tail. It is
computed like this::

    StepKind, DominatingPair
                ──► losses of one step on a lattice of points i·h   `lattice_losses`
                ──► tilted by e^(θ·loss)                            `_tilt`
                ──► convolved by a Fourier transform, in a window   `_compose`
                ──► δ at an ε, and the root of that                 `_ComposedLosses`

*On a lattice.* Losses between two points of the lattice move to these, such that the
masses of both P and Q are kept (*Connect the Dots*, Doroshenko and others 2022,
https://arxiv.org/abs/2207.04380). The result dominates the step: whatever it is
composed with, it costs no less.

*Tilted.* The transform is off by about 10⁻¹⁶ at every loss, too much for the far tail
that decides on a small δ. Masses that are multiplied with e^(θ·loss), as in Chernoff's
bound, are large in that tail.

All errors, of the transform too, are bounded and added, so that the result is an upper
bound for every interval h, tilt θ and window. A bad choice only costs tightness.

*How tight it is.* Rounding up gives away some 10⁻⁷ of ε. The interval gives away below
2 · 10⁻³ of ε for plans of many steps; on single steps, where the closed form tells,
below 1 % of ε or 0.003, whichever is more. It is the most where δ is near the chance
that the record is sampled at all, and ε is near 0. At δ = 10⁻⁵ the result agrees with
`dp_accounting` on the same lattice within some 10⁻⁶ of ε. A step has at most 2¹⁸
points; where that makes the interval larger (a noise multiplier of 0.6 at rate 10⁻⁴ and
a million steps), ε is larger by up to 0.13 %.

SciPy is imported where it is used, since it need not be installed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

UNIT = 2.0**-53
"""Largest relative error of one rounding in float64."""
MIN_DELTA = 1e-200
"""Smallest δ: below, normal tails come near the smallest numbers of float64."""

# Points of the lattice of one step, and of the window of all steps.
_MAX_POINTS = 2**18
_MAX_WINDOW = 2**22
# Beyond this, e^t is too large or too small for the usual formula of ln(1 − q + q·e^t).
_FAR = 30.0
# exp of more than this would be near the largest float64.
_MAX_EXPONENT = 700.0

# Relative error of SciPy's normal distribution function at z: 64 + 8z² roundings. It is
# the complementary error function of Cephes, whose relative error is at most 5.7e-14
# down to 1e-308 and a few roundings near 0, so this has room for the rounding of z − c
# and of differences.
_CDF_ERROR = 64 * UNIT
_CDF_ERROR_FAR = 8 * UNIT
# Added to every such error, since smaller numbers lose digits.
_UNDERFLOW = 1e-300

# Parts of δ, and of Chernoff's bound, that are given away to tails that are cut off.
_CUT_PART = 1e-7
_OUTSIDE = 1e-12
# A tilt is good enough where numerical errors add no larger part of δ.
_MAX_ERROR_PART = 1e-3
_MAX_TILTS = 12
# Beyond, the search for ε is given up.
_MAX_EPSILON = 1e12
# What is tried above the root that a search finds, relative to it, until it is an upper
# bound.
_ROOT_MARGINS = (1e-8, 1e-6, 1e-4, 1e-2)
# The interval is doubled until the lattice is small enough.
_MAX_DOUBLINGS = 200
# The interval to begin with, relative to the root mean square of the loss of one step,
# and of all steps. Both were tried: finer ones take longer, and hardly lower ε.
_INTERVAL_OF_STEP = 0.1
_INTERVAL_OF_ALL = 1e-4
# Where losses are large, most of their square is in a few steps, and the others must
# not be blurred for these: a larger root mean square than this counts as this.
_MAX_STEP_LOSS = 0.2
_MIN_INTERVAL = 1e-12


@dataclass(frozen=True, kw_only=True)
class StepKind:
    """Equal steps: sums over Poisson samples with one rate and one noise.

    Attributes:
        rate: Sampling probability q, in (0, 1].
        shift: Norm m of a record over the standard deviation of the noise; with q = 1,
            the Gaussian-DP μ.
        count: How many of these steps are composed.
    """

    rate: float
    shift: float
    count: int


@dataclass(frozen=True, kw_only=True)
class DominatingPair:
    """Two distributions P and Q that are at least as far apart as a step's outputs.

    The neighbours differ in one record, which is in the sample with probability q. So
    an output is a mixture, or N(0, 1) where the neighbour has no such record. Under
    add-remove P or Q is a mixture, whichever neighbour has the record, and both pairs
    are accounted. Under replace-one both are, with means on opposite sides (G-21).

    The privacy loss is ln dP/dQ of an outcome that is drawn from P.

    Attributes:
        p_is_mixture: Whether P is (1 − q)·N(0, 1) + q·N(m, 1) and not N(0, 1).
        q_is_mixture: Whether Q is (1 − q)·N(0, 1) + q·N(−m, 1) and not N(0, 1).
    """

    p_is_mixture: bool
    q_is_mixture: bool


@dataclass(frozen=True, kw_only=True)
class LatticeLosses:
    """Finitely many losses that dominate those of a step, once raised by `widening`.

    Attributes:
        first_index: Index of the lowest loss, which is this times `interval`.
        interval: Distance h between two losses.
        masses: Probability of each loss, rounded up, (losses,).
        infinite_mass: Probability of an infinite loss, rounded up.
        widening: What every loss must still be raised by. It is one number a step, so
            `_ComposedLosses.epsilon` adds it once, at the end.
        count: How many such steps are composed.
    """

    first_index: int
    interval: float
    masses: Floats
    infinite_mass: float
    widening: float
    count: int


def composed_epsilon(
    step_kinds: Sequence[StepKind], pairs: Sequence[DominatingPair], delta: float
) -> float:
    """Computes ε of the composition of all steps (G-03).

    Args:
        step_kinds: Kinds of steps, and how many of each.
        pairs: Pairs of outputs that dominate what a record may do to a step. All steps
            have the same one, since the record is the same.
        delta: δ of the guarantee, at least `MIN_DELTA`.

    Returns:
        An upper bound on ε ≥ 0, for the pair that costs most; infinite if none is
        found.
    """
    return max(_pair_epsilon(step_kinds, pair, delta) for pair in pairs)


def _pair_epsilon(
    step_kinds: Sequence[StepKind], pair: DominatingPair, delta: float
) -> float:
    """Computes ε for one pair, on the finest lattice that is small enough.

    Losses are rounded up to the lattice, so ε is an upper bound on every lattice, and a
    coarser one costs only tightness.

    Returns:
        An upper bound on ε; infinite if no lattice is small enough.
    """
    interval = _choose_interval(step_kinds)
    for _ in range(_MAX_DOUBLINGS):
        lattices = _discretise(step_kinds, pair, interval, delta)
        if lattices is not None:
            epsilon = _epsilon_on_lattices(lattices, delta)
            if epsilon is not None:
                return epsilon
        interval *= 2
    return math.inf


def _choose_interval(step_kinds: Sequence[StepKind]) -> float:
    """Chooses how finely losses are discretised, by a rule of thumb.

    Every interval gives an upper bound on ε, and a good one a tight bound in short
    time.

    Args:
        step_kinds: Kinds of steps, and how many of each.

    Returns:
        The interval: a tenth of the root mean square of the loss in one step. Beyond a
        million steps, a ten-thousandth of that of all of them together: else time would
        grow with them.
    """
    # The Rényi divergence of order 2 of a step is about the mean square of its loss.
    mean_squares = [
        math.log1p(step.rate**2 * math.expm1(min(step.shift**2, _MAX_EXPONENT)))
        for step in step_kinds
    ]
    mean_square_of_all = math.fsum(
        step.count * mean_square
        for step, mean_square in zip(step_kinds, mean_squares, strict=True)
    )
    step_count = sum(step.count for step in step_kinds)
    rms_loss_of_step = math.sqrt(mean_square_of_all / step_count)
    rms_loss_of_all = math.sqrt(mean_square_of_all)
    return max(
        _INTERVAL_OF_STEP * min(rms_loss_of_step, _MAX_STEP_LOSS),
        _INTERVAL_OF_ALL * rms_loss_of_all,
        _MIN_INTERVAL,
    )


def _epsilon_on_lattices(
    lattices: Sequence[LatticeLosses], delta: float
) -> float | None:
    """Computes the least ε of several tilts, each of which gives an upper bound.

    The least of several upper bounds is one, so tilts may be chosen by any rule.

    Args:
        lattices: Losses of each kind of step, with one interval.
        delta: δ of the guarantee.

    Returns:
        An upper bound on ε; None if there would be too many losses.
    """
    # Chernoff's best tilt grows without end where δ is near the chance of all losses;
    # then errors add much to δ, and a smaller one is tried.
    tilt = _best_tilt(lattices, delta)
    least_epsilon = None
    for _ in range(_MAX_TILTS):
        composed = _compose(lattices, tilt)
        if composed is None:
            break
        epsilon = composed.epsilon(delta)
        if least_epsilon is not None and epsilon >= least_epsilon:
            break
        least_epsilon = epsilon
        if composed.error_part(epsilon) < _MAX_ERROR_PART:
            break
        tilt /= 8
    return least_epsilon


# Losses of one step on a lattice.


def _discretise(
    step_kinds: Sequence[StepKind], pair: DominatingPair, interval: float, delta: float
) -> list[LatticeLosses] | None:
    """Puts the losses of each kind of step on a lattice.

    All steps together cut off at most `_CUT_PART` of δ in their tails.

    Args:
        step_kinds: Kinds of steps.
        pair: Which of P and Q are mixtures.
        interval: Distance between two losses.
        delta: δ of the guarantee, of which a small part goes to tails.

    Returns:
        The losses of each kind; None if the interval is too small for one.
    """
    from scipy.special import ndtri

    step_count = sum(step.count for step in step_kinds)
    reach = -float(ndtri(delta * _CUT_PART / step_count))
    # Without sampling nothing is a mixture: P is N(m, 1) and Q is N(0, 1).
    unsampled_pair = DominatingPair(p_is_mixture=True, q_is_mixture=False)
    lattices = []
    for step in step_kinds:
        step_pair = unsampled_pair if step.rate == 1 else pair
        lattice = lattice_losses(step, step_pair, interval, reach)
        if lattice is None:
            return None
        lattices.append(lattice)
    return lattices


def lattice_losses(
    step: StepKind, pair: DominatingPair, interval: float, reach: float
) -> LatticeLosses | None:
    """Puts the losses of one step on a lattice, rounded up (G-03, *One step*).

    The line of outcomes is cut where the loss is a multiple of h. Between two cuts P
    has mass p and Q mass r, and losses lie between those of the cuts; so p is split
    between these two (`_mass_moved_up`). For whatever it is composed with, δ is no less
    than with the step itself, since it grows with all that is rounded here: p is
    rounded up, r is rounded down, what moves up is rounded up, and all losses must be
    raised by `widening`, as at the cuts the loss is only nearly a multiple of h.

    Args:
        step: Sampling probability q and shift m of the step.
        pair: Which of P and Q are mixtures.
        interval: Distance h between two losses.
        reach: How many standard deviations of the noise are covered. What lies below
            goes to the lowest loss, and above to an infinite one: both go up.

    Returns:
        Losses that dominate those of the step; None if there are more than
        `_MAX_POINTS`.
    """
    index_range = _lattice_range(step, pair, interval, reach)
    if index_range is None:
        return None
    first_index, last_index = index_range
    indices = np.arange(first_index, last_index + 1)
    losses = interval * indices.astype(np.float64)

    # The cuts. Their losses are those of the lattice but for errors of the formula, for
    # which `widening` makes up, so the order of these two lines matters: whatever
    # changes the outcomes has to come before their losses are compared.
    outcomes = np.maximum.accumulate(_outcomes_with_loss(losses, step, pair))
    widening = _max_loss_mismatch(outcomes, losses, step, pair)

    p_mean = step.shift if pair.p_is_mixture else None
    q_mean = -step.shift if pair.q_is_mixture else None
    p_masses, p_errors = _mixture_masses(outcomes, step, p_mean)
    q_masses, q_errors = _mixture_masses(outcomes, step, q_mean)
    # P up and Q down, never the other way round: both make δ larger. 8 roundings cover
    # those of the mixture, of the sum and of this product.
    p_rounded_up = (p_masses + p_errors) * (1 + 8 * UNIT)
    q_rounded_down = np.maximum(q_masses - q_errors, 0.0)

    # Entry 0 is the mass below the lowest cut, and the last one that above the highest:
    # they go up to the lowest loss, and to infinity.
    p_between = p_rounded_up[1:-1]
    moved_up = _mass_moved_up(
        p_between, q_rounded_down[1:-1], losses, interval, widening
    )
    masses = np.zeros(len(losses))
    masses[:-1] += p_between - moved_up
    masses[1:] += moved_up
    masses[0] += p_rounded_up[0]
    masses *= 1 + 8 * UNIT  # covers the roundings of these sums
    return LatticeLosses(
        first_index=first_index,
        interval=interval,
        masses=masses,
        infinite_mass=float(p_rounded_up[-1]),
        widening=widening,
        count=step.count,
    )


def _lattice_range(
    step: StepKind, pair: DominatingPair, interval: float, reach: float
) -> tuple[int, int] | None:
    """Finds which points of the lattice the losses of one step lie between.

    Args:
        step: Sampling probability q and shift m of the step.
        pair: Which of P and Q are mixtures.
        interval: Distance h between two losses.
        reach: How many standard deviations of the noise are covered on either side of
            the means of P.

    Returns:
        Indices of the lowest and of the highest loss, which differ by 1 at least; None
        if there would be more than `_MAX_POINTS` losses.
    """
    highest_mean = step.shift if pair.p_is_mixture else 0.0
    lowest_mean = step.shift if step.rate == 1 and pair.p_is_mixture else 0.0
    extreme_outcomes = np.array([lowest_mean - reach, highest_mean + reach])
    lowest, highest = _privacy_loss(extreme_outcomes, step, pair) / interval
    # Not `>=`, so that it is also None where one of them is not a number.
    if not highest - lowest < _MAX_POINTS:
        return None
    first_index = math.floor(lowest)
    last_index = max(math.ceil(highest), first_index + 1)
    return first_index, last_index


def _mass_moved_up(
    p_masses: Floats, q_masses: Floats, losses: Floats, interval: float, widening: float
) -> Floats:
    """Computes how much mass between two losses moves to the upper one (G-03).

    Between outcomes with the losses a < b, let P have the mass p and Q the mass r. Then
    y = (p − eᵃ·r)/(1 − e^(a − b)) of p moves to b and the rest to a, which keeps both
    masses. Here a is a loss minus the widening, and b the next one plus the widening.

    Args:
        p_masses: Mass of P between losses, rounded up, (losses − 1,).
        q_masses: Mass of Q between losses, rounded down, (losses − 1,).
        losses: Losses of the lattice, ascending, (losses,).
        interval: Distance between two losses.
        widening: How far the losses of outcomes may be from those of the lattice.

    Returns:
        y, rounded up to at most `p_masses`, (losses − 1,): mass that is moved too far costs δ,
        and never saves it.
    """
    lower_losses = losses[:-1]
    likelihood_ratios = np.exp(np.minimum(lower_losses - widening, _MAX_EXPONENT))
    scaled_q_masses = q_masses * likelihood_ratios
    # y grows with p and falls with eᵃ·r, so p is rounded up and eᵃ·r down. The exponent
    # a has two roundings of its own size, which exp turns into relative ones; 4·|a| is
    # twice that, and 32 are far more than the roundings of exp and of the products.
    excess = p_masses * (1 + 16 * UNIT) - scaled_q_masses * (
        1 - (32 + 4 * np.abs(lower_losses)) * UNIT
    )
    max_distance = interval + 2 * widening
    moved_up = np.maximum(excess, 0.0) * (1 + 8 * UNIT) / -math.expm1(-max_distance)
    return np.minimum(moved_up, p_masses)


def _privacy_loss(outcomes: Floats, step: StepKind, pair: DominatingPair) -> Floats:
    """Computes the privacy loss ln dP/dQ of outcomes of one step.

    The density of N(m, 1) over that of N(0, 1) at z is e^t with t = mz − m²/2. So that
    of a mixture is 1 − q + q·e^t, and of its mirror image the same with −m. P and Q are
    mixtures or N(0, 1) itself, whose logarithm is 0 here.

    Args:
        outcomes: Outcomes z in standard deviations of the noise, (outcomes,); they may
            be infinite.
        step: Sampling probability q and shift m of the step.
        pair: Which of P and Q are mixtures.

    Returns:
        The losses, (outcomes,), off by at most `_privacy_loss_error`.
    """
    m = step.shift
    zero = np.zeros_like(outcomes)
    with np.errstate(all="ignore"):  # infinite outcomes are meant
        if pair.p_is_mixture:
            log_p = _log_mixture(m * outcomes - m * m / 2, step.rate)
        else:
            log_p = zero
        if pair.q_is_mixture:
            log_q = _log_mixture(-m * outcomes - m * m / 2, step.rate)
        else:
            log_q = zero
        return log_p - log_q


def _log_mixture(t: Floats, rate: float) -> Floats:
    """Computes ln(1 − q + q·e^t), which lies between 0 and t.

    Written as ln(1 + q(e^t − 1)) for q ≤ ½, or as t + ln(1 + (1 − q)(e^−t − 1)) above,
    nothing cancels near t = 0. Where e^t would overflow, both terms are added by their
    logarithms.

    Args:
        t: Logarithms of the ratio of densities, of any shape; they may be infinite.
        rate: q, in (0, 1].

    Returns:
        In the shape of `t`. The error counts in `_privacy_loss_error`.
    """
    if rate == 1:
        return t
    far = np.logaddexp(math.log1p(-rate), math.log(rate) + t)
    if rate <= 0.5:
        near = np.log1p(rate * np.expm1(np.minimum(t, _FAR)))
        return np.where(t < _FAR, near, far)
    near = t + np.log1p((1 - rate) * np.expm1(np.minimum(-t, _FAR)))
    return np.where(t > -_FAR, near, far)


def _privacy_loss_error(outcomes: Floats, step: StepKind) -> Floats:
    """Bounds the rounding error of `_privacy_loss`.

    It is that of t = ±mz − m²/2, and then of ln(1 − q + q·e^t), whose slope in t is at
    most 1, so that the error of t does not grow.

    Args:
        outcomes: Outcomes z, (outcomes,); they may be infinite.
        step: Sampling probability q and shift m of the step.

    Returns:
        Upper bounds on the absolute errors, (outcomes,).
    """
    # With q ≤ ½, y = q·expm1(t) is off by 4 roundings, which moves ln(1 + y) by
    # 4u|y|/(1 + y) ≤ 8u·|ln(1 + y)| ≤ 8u|t|; likewise with q > ½. Far out both
    # logarithms of `far` are off by a few roundings of their own size.
    m = step.shift
    is_finite = np.isfinite(outcomes)
    size = np.where(is_finite, np.abs(outcomes), 0.0)
    if step.rate == 1:
        logarithms = 0.0
    else:
        logarithms = -math.log(step.rate) - math.log1p(-step.rate)
    is_far = ~is_finite | (m * size + m * m / 2 > _FAR)
    # Each of up to two logarithms is off by 3 roundings of t and 10 of its own, and
    # their difference by one more: fewer than 30, of which 64 is above twice.
    return 64 * UNIT * (m * size + m * m + np.where(is_far, logarithms, 0.0))


def _outcomes_with_loss(losses: Floats, step: StepKind, pair: DominatingPair) -> Floats:
    """Finds approximately which outcomes have given losses, by a formula.

    With t = mz − m²/2 and t′ = −mz − m²/2 the loss of an outcome z is::

        ln(1 − q + q·e^t)                             if P alone is a mixture
        −ln(1 − q + q·e^t′)                           if Q alone is one
        ln(1 − q + q·e^t) − ln(1 − q + q·e^t′)        if both are

    It grows with z, and is solved for z. The formula may be inexact: the losses of the
    outcomes are computed again, and `_max_loss_mismatch` bounds how far they are off.

    Args:
        losses: Losses, ascending, (losses,).
        step: Sampling probability q and shift m of the step.
        pair: Which of P and Q are mixtures.

    Returns:
        The outcome with each loss, (losses,); infinite where none has it.
    """
    m = step.shift
    with np.errstate(all="ignore"):
        if not pair.q_is_mixture:
            return (_inverse_log_mixture(losses, step.rate) + m * m / 2) / m
        if not pair.p_is_mixture:
            return -(_inverse_log_mixture(-losses, step.rate) + m * m / 2) / m
        # With v = e^(mz − loss/2): v − 1/v = 2·sinh(loss/2)·(1 − q)/q·e^(m²/2), so ln v
        # is the inverse hyperbolic sine of half of that, here by its logarithm.
        log_sinh = np.log(-np.expm1(-np.abs(losses))) + np.abs(losses) / 2 - math.log(2)
        log_half = log_sinh + math.log1p(-step.rate) - math.log(step.rate) + m * m / 2
        log_v = np.where(
            log_half > 20,
            log_half + math.log(2),
            np.arcsinh(np.exp(np.minimum(log_half, 20.0))),
        )
        return np.asarray((losses / 2 + np.sign(losses) * log_v) / m)


def _inverse_log_mixture(y: Floats, rate: float) -> Floats:
    """Finds t with ln(1 − q + q·e^t) = y approximately: inverts `_log_mixture`.

    Args:
        y: Losses, of any shape.
        rate: q, in (0, 1].

    Returns:
        In the shape of `y`; −∞ where y is below ln(1 − q), which no t gives.
    """
    if rate == 1:
        return y
    far = y + np.log1p(-np.minimum((1 - rate) * np.exp(-y), 1.0)) - math.log(rate)
    if rate > 0.5:
        return far
    near = np.log1p(np.maximum(np.expm1(np.minimum(y, _FAR)) / rate, -1.0))
    return np.where(y < _FAR, near, far)


def _max_loss_mismatch(
    outcomes: Floats, losses: Floats, step: StepKind, pair: DominatingPair
) -> float:
    """Bounds how far the losses of the cuts are from the points of the lattice (G-03).

    Let L(z) be the loss of an outcome z, which grows with z, and zᵢ the cut for the
    point ℓᵢ. `lattice_losses` needs a number w such that all outcomes between two cuts
    have losses from ℓᵢ − w to ℓᵢ₊₁ + w. Each cut bounds two such intervals::

        between zᵢ and the cut above    ℓᵢ − w ≤ L(zᵢ)    so w ≥ −(L(zᵢ) − ℓᵢ)
        between zᵢ and the cut below    L(zᵢ) ≤ ℓᵢ + w    so w ≥   L(zᵢ) − ℓᵢ

    A finite cut has outcomes on both sides, so w ≥ |L(zᵢ) − ℓᵢ|. A cut at −∞ has none
    below it, so only the first condition is left, and at +∞ only the second. Such a cut
    stands for a point that no outcome reaches: with P alone a mixture, L(−∞) is
    ln(1 − q), and all ℓᵢ below that have their cut there.

    Nothing here is NaN: of ln dP and ln dQ at an infinite outcome at most one is
    infinite, and the rounding error is finite everywhere. An infinite w would make ε
    infinite, which is an upper bound.
    `test_points_that_are_found_badly_cost_tightness_and_nothing_else` moves the cuts.

    Args:
        outcomes: The cuts, ascending, (losses,): outcomes that `_outcomes_with_loss`
            finds for the losses.
        losses: Points of the lattice, ascending, (losses,).
        step: Sampling probability q and shift m of the step.
        pair: Which of P and Q are mixtures.

    Returns:
        w, rounded up; not negative.
    """
    difference = _privacy_loss(outcomes, step, pair) - losses
    mismatch = np.select(
        [outcomes == -math.inf, outcomes == math.inf],
        [-difference, difference],
        default=np.abs(difference),
    )
    rounding = _privacy_loss_error(outcomes, step)
    # A point is a rounded product i·h, and the difference from it is rounded: two
    # roundings of its size, doubled for room.
    rounding_of_losses = 4 * UNIT * np.abs(losses)
    return float(np.max(np.maximum(mismatch, 0.0) + rounding + rounding_of_losses))


def _mixture_masses(
    outcomes: Floats, step: StepKind, mean: float | None
) -> tuple[Floats, Floats]:
    """Computes the probabilities of an output below, between and above outcomes.

    The output is N(0, 1), or with the record in question in the sample N(c, 1); so it
    is the mixture (1 − q)·N(0, 1) + q·N(c, 1).

    Args:
        outcomes: Outcomes, ascending, (outcomes,).
        step: The step, of which only the sampling probability q is used.
        mean: c; None for an output that is N(0, 1) whatever the sample is.

    Returns:
        The masses, and upper bounds on their errors, (outcomes + 1,) each: the first is
        below the lowest outcome, the last above the highest.
    """
    masses_without, errors_without = _normal_masses(outcomes)
    if mean is None:
        return masses_without, errors_without
    masses_with, errors_with = _normal_masses(outcomes - mean)
    rate = step.rate
    masses = (1 - rate) * masses_without + rate * masses_with
    errors = (1 - rate) * errors_without + rate * errors_with
    return masses, errors


def _normal_masses(outcomes: Floats) -> tuple[Floats, Floats]:
    """Computes the probabilities of N(0, 1) below, between and above outcomes.

    A mass is the difference of two values of the distribution function Φ. Its error is
    bounded by those of both; later it is added to masses of P and taken off those of Q.

    Args:
        outcomes: Outcomes, ascending, (outcomes,).

    Returns:
        The masses, and upper bounds on their errors, (outcomes + 1,) each: the first is
        below the lowest outcome, the last above the highest.
    """
    from scipy.special import ndtr

    bounds = np.concatenate([[-math.inf], outcomes, [math.inf]])
    below = ndtr(bounds)
    above = ndtr(-bounds)
    # Left of 0 differences of Φ are taken, and right of it differences of 1 − Φ: on
    # either side of what is small there, so that nothing cancels.
    is_left = bounds[1:] <= 0
    masses = np.where(is_left, below[1:] - below[:-1], above[:-1] - above[1:])
    relative_error = _CDF_ERROR + _CDF_ERROR_FAR * np.minimum(bounds * bounds, 1e4)
    error_below = relative_error * below
    error_above = relative_error * above
    errors = np.where(
        is_left,
        error_below[1:] + error_below[:-1],
        error_above[1:] + error_above[:-1],
    )
    return masses, errors + _UNDERFLOW


# Losses of all steps together.


@dataclass(frozen=True, kw_only=True)
class _ComposedLosses:
    """The losses of all steps together, tilted, in a window of the lattice (G-03).

    Attributes:
        losses: Losses in the window, ascending, (losses,).
        tilted_masses: Their probabilities under the tilt, rounded up, (losses,).
        error: Upper bound on the error of each, which was added to it.
        tilt: θ.
        log_factor: ln Mᴷ, the logarithm of what tilted masses add up to before they are
            divided by it, and what its rounding may add.
        outside_mass: Tilted probability outside of the window, rounded up.
        infinite_mass: Probability of an infinite loss, rounded up.
        widening: What the losses must still be raised by, for all steps together.
    """

    losses: Floats
    tilted_masses: Floats
    error: float
    tilt: float
    log_factor: float
    outside_mass: float
    infinite_mass: float
    widening: float

    def epsilon(self, delta: float) -> float:
        """Computes an upper bound on the least ε ≥ 0 for δ; it may be infinite.

        `log_delta` falls with ε. So its root is searched between 0 and Chernoff's ε,
        and what is returned is above the root: it was evaluated, and its δ does not
        exceed `delta`.
        """
        from scipy.optimize import brentq

        target = math.log(delta)
        if self.infinite_mass >= delta:
            return math.inf
        if self.log_delta(0.0) <= target:
            return self.widening
        sufficient = max((self.log_factor - target) / self.tilt, 1e-12)
        while self.log_delta(sufficient) > target:
            sufficient *= 2
            if sufficient > _MAX_EPSILON:
                return math.inf
        # Where the search stops does not matter, since what is returned is checked. The
        # root may be far below `sufficient`, 2,400 times for q = 3.57·10⁻⁵ and a noise
        # multiplier of 0.5487 in one step at δ = 4.9·10⁻⁶.
        root = brentq(
            lambda epsilon: self.log_delta(epsilon) - target,
            0.0,
            sufficient,
            xtol=1e-15 * sufficient,
            rtol=1e-9,
        )
        for margin in _ROOT_MARGINS:
            epsilon = min(float(root) * (1 + margin), sufficient)
            if self.log_delta(epsilon) <= target:
                return epsilon + self.widening
        return sufficient + self.widening

    def log_delta(self, epsilon: float) -> float:
        """Computes the logarithm of an upper bound on δ at `epsilon` + `widening`.

        It is the sum of `_compose`, in logarithms, as Mᴷ and e^(−θε) alone may
        overflow. Masses are rounded up already; the sum is multiplied with what its own
        rounding and that of the weights may take away.
        """
        first_beyond, weights = self._weights_beyond(epsilon)
        # Sums and exponents are off by less than a billionth, however long.
        largest = float(np.max(np.abs(self.losses)) + abs(epsilon))
        rounding = 1 + 1e-9 + 16 * UNIT * self.tilt * largest
        tail = float(np.dot(self.tilted_masses[first_beyond:], weights)) * rounding
        tail_with_outside = tail + self.outside_mass
        log_finite = self.log_factor - self.tilt * epsilon + math.log(tail_with_outside)
        if self.infinite_mass > 0:
            return float(np.logaddexp(log_finite, math.log(self.infinite_mass)))
        return log_finite

    def error_part(self, epsilon: float) -> float:
        """Computes the fraction of δ at `epsilon` that only pays for numerical errors.

        It is from 0 to 1.

        Where it is large, another tilt gives a tighter bound.
        """
        first_beyond, weights = self._weights_beyond(max(epsilon - self.widening, 0.0))
        masses = self.tilted_masses[first_beyond:]
        total = float(np.dot(masses, weights)) + self.outside_mass
        error = self.error * float(np.sum(weights)) + self.outside_mass
        return error / total

    def _weights_beyond(self, epsilon: float) -> tuple[int, Floats]:
        """Computes how tilted masses of losses beyond ε count for δ.

        Returns:
            The index of the first such loss, and the weight of each from there on,
            e^(−θ(loss − ε))·(1 − e^(−(loss − ε))).
        """
        first_beyond = int(np.searchsorted(self.losses, epsilon, side="right"))
        excess = self.losses[first_beyond:] - epsilon
        return first_beyond, np.exp(-self.tilt * excess) * -np.expm1(-excess)


def _compose(lattices: Sequence[LatticeLosses], tilt: float) -> _ComposedLosses | None:
    """Composes the losses of all steps, so that no δ computed from them is too small.

    Losses of steps add up, so the distribution of their sum is the convolution of those
    of the steps. It is computed for tilted masses x = p·e^(θ·loss)/M, as the
    transform's error is then small beside the tail that decides. With K steps (G-03,
    *Many steps*)::

        δ(ε) = K·p(∞) + Mᴷ·e^(−θε) · Σ_{loss > ε} x^{*K}(loss)·weight(loss)

    Whatever is computed inexactly is rounded to the side where δ grows:

    - each x^{*K}(loss) is raised by the bound on the error of the transform;
    - sums beyond the window wrap around into it, where they count once more. What they
      would have counted in their own place is at most `outside_mass`, which is added;
    - ln Mᴷ is raised by the relative rounding error of all weights e^(θ·loss);
    - the chance of an infinite loss is the sum of those of the steps (union bound);
    - losses are raised by the widenings of all steps together.

    So any θ gives an upper bound, and a bad one a loose bound. What a change must keep
    is this list. Each mass is compared with fractions by
    `test_a_composition_is_above_the_exact_convolution_of_its_parts_everywhere`.

    Args:
        lattices: Losses of each kind of step, with one interval.
        tilt: θ, positive.

    Returns:
        The losses of all steps together; None if the window would be too large.
    """
    window = _find_window(lattices, tilt)
    if window is None:
        return None
    first_index, size = window
    interval = lattices[0].interval

    tilted_masses = [_tilt(lattice, tilt).masses for lattice in lattices]
    counts = [lattice.count for lattice in lattices]
    convolution, error = _convolve(tilted_masses, counts, size)
    # Entry 0 of the convolution is the sum of the lowest losses of all steps, and the
    # others are known modulo `size` only: turn it until the window's first loss leads.
    lowest_index = sum(lattice.count * lattice.first_index for lattice in lattices)
    in_window = np.roll(convolution, -((first_index - lowest_index) % size))
    infinite_mass = math.fsum(
        lattice.count * lattice.infinite_mass for lattice in lattices
    )
    widening = math.fsum(lattice.count * lattice.widening for lattice in lattices)
    return _ComposedLosses(
        losses=interval * (np.arange(size, dtype=np.float64) + float(first_index)),
        # Rounding may leave an entry below zero, where the exact one cannot be.
        tilted_masses=np.maximum(in_window, 0.0) + error,
        error=error,
        tilt=tilt,
        log_factor=_log_moment(lattices, tilt) + _tilting_error(lattices, tilt),
        # `_OUTSIDE` on each side of the window; 2.1 and 1.01 round up.
        outside_mass=2.1 * _OUTSIDE,
        infinite_mass=1.01 * infinite_mass,
        widening=widening * (1 + 1e-9),
    )


def _tilting_error(lattices: Sequence[LatticeLosses], tilt: float) -> float:
    """Bounds the relative rounding error of all steps' tilted masses together.

    In each step the exponent θ·loss, its exp, the product with a mass, their sum M and
    the quotient are rounded: (8·max|θ·loss| + 128)u relative to a mass, with u = 2⁻⁵³.

    Args:
        lattices: Losses of each kind of step.
        tilt: θ.

    Returns:
        An upper bound on the logarithm of the factor by which a product of masses, one
        of each step, may be off.
    """
    errors = []
    for lattice in lattices:
        end_index = lattice.first_index + len(lattice.masses)
        max_index = max(abs(lattice.first_index), abs(end_index))
        largest_exponent = abs(tilt) * lattice.interval * max_index
        errors.append(lattice.count * (8 * largest_exponent + 128) * UNIT)
    return math.fsum(errors)


@dataclass(frozen=True, kw_only=True)
class _TiltedLosses:
    """The losses of one step, weighed by e^(θ·loss) so that large ones are not rare.

    The masses p of a step add up to nearly 1, and so do the tilted ones, which are
    divided by their sum M. What M takes away is put back at the end (`_compose`).

    Attributes:
        log_moment: ln M with M = Σ p·e^(θ·loss).
        masses: The tilted masses p·e^(θ·loss)/M, (losses,).
    """

    log_moment: float
    masses: Floats


def _tilt(lattice: LatticeLosses, tilt: float) -> _TiltedLosses:
    """Tilts the losses of one step.

    Args:
        lattice: Losses of the step, of which the infinite one is left out.
        tilt: θ, of either sign.
    """
    indices = np.arange(lattice.first_index, lattice.first_index + len(lattice.masses))
    exponents = (tilt * lattice.interval) * indices
    # Taken off before exp, which would overflow.
    largest = float(np.max(exponents))
    weights = lattice.masses * np.exp(exponents - largest)
    total = float(np.sum(weights))
    return _TiltedLosses(log_moment=largest + math.log(total), masses=weights / total)


def _log_moment(lattices: Sequence[LatticeLosses], tilt: float) -> float:
    """Computes ln E[e^(θ·loss)] of all steps together: what Chernoff's bound needs.

    It is the sum of K·ln M over the kinds of steps, since steps are independent.
    """
    return math.fsum(
        lattice.count * _tilt(lattice, tilt).log_moment for lattice in lattices
    )


def _best_tilt(lattices: Sequence[LatticeLosses], delta: float) -> float:
    """Finds approximately the θ for which Chernoff's bound is δ at the least ε.

    The bound is P(loss > ε) ≤ E[e^(θ·loss)]·e^(−θε) for every θ > 0; it equals δ at
    ε = (ln E[e^(θ·loss)] − ln δ)/θ. The search need not be exact, since every θ gives
    an upper bound in `_compose`.
    """
    from scipy.optimize import minimize_scalar

    def chernoff_epsilon(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        return (_log_moment(lattices, tilt) - math.log(delta)) / tilt

    minimum = minimize_scalar(
        chernoff_epsilon,
        bounds=(math.log(1e-3), math.log(1e9)),
        method="bounded",
        options={"xatol": 1e-2},
    )
    return math.exp(float(minimum.x))


def _find_window(
    lattices: Sequence[LatticeLosses], tilt: float
) -> tuple[int, int] | None:
    """Finds a window that holds the tilted sum of all losses but with tiny probability.

    Let X be that sum, in the distribution that θ tilts to, and E[·] be without a tilt.
    By Chernoff's bound, for every s > 0::

        P(X ≥ b) ≤ E[e^((θ + s)·loss)] / E[e^(θ·loss)] · e^(−s·b)

    which is `_OUTSIDE` at b = (ln of the quotient − ln `_OUTSIDE`)/s; for s < 0 the
    same b bounds X from below. Each s gives a valid bound, so the tightest of several
    is taken, and which ones are tried matters for time only. Bounds are rounded
    outwards to the lattice, with one point more as room for rounding.

    Args:
        lattices: Losses of each kind of step, with one interval.
        tilt: θ.

    Returns:
        The index of the window's first loss, which is the index times the interval; and
        the number of losses in it, a power of two, as the transform wants it. At most
        `_OUTSIDE` of the tilted probability is outside on each side. None if more than
        `_MAX_WINDOW` losses would be needed.
    """
    interval = lattices[0].interval
    log_moment = _log_moment(lattices, tilt)

    def chernoff_bound(tilt_change: float) -> float:
        """Returns b for s = `tilt_change`, in intervals: above X if s > 0, else below."""
        log_quotient = _log_moment(lattices, tilt + tilt_change) - log_moment
        return (log_quotient - math.log(_OUTSIDE)) / tilt_change / interval

    # No sum is outside of these; so nothing is cut off to begin with.
    first_index = sum(lattice.count * lattice.first_index for lattice in lattices)
    last_index = sum(
        lattice.count * (lattice.first_index + len(lattice.masses) - 1)
        for lattice in lattices
    )
    # The best s is some multiple of the reciprocal of the standard deviation of X: were
    # X normal, 7.4 of it for 10⁻¹².
    variance = _tilted_variance(lattices, tilt)
    reciprocal_std = 1 / (interval * math.sqrt(max(variance, 1.0)))
    for multiple in (0.25, 0.5, 1, 2, 4, 6, 8, 12, 16):
        tilt_change = multiple * reciprocal_std
        last_index = min(last_index, math.ceil(chernoff_bound(tilt_change)) + 1)
        first_index = max(first_index, math.floor(chernoff_bound(-tilt_change)) - 1)

    # The transform must hold the losses of a single step without wrapping them around.
    min_size = max(
        last_index - first_index + 1, *(len(lattice.masses) for lattice in lattices), 2
    )
    if min_size > _MAX_WINDOW:
        return None
    return first_index, 1 << (min_size - 1).bit_length()


def _tilted_variance(lattices: Sequence[LatticeLosses], tilt: float) -> float:
    """Computes the variance of the tilted losses of all steps, in squared intervals.

    Steps are independent under the tilt too, so their variances add up.
    """
    total = 0.0
    for lattice in lattices:
        tilted_masses = _tilt(lattice, tilt).masses
        indices = np.arange(len(lattice.masses))
        mean = float(np.dot(tilted_masses, indices))
        variance = float(np.dot(tilted_masses, (indices - mean) ** 2))
        total += lattice.count * variance
    return total


def _convolve(
    masses: Sequence[Floats], counts: Sequence[int], size: int
) -> tuple[Floats, float]:
    """Convolves distributions with each other, and bounds the error of the result.

    The circular convolution is the inverse transform of the product of the transforms:
    Π Fⱼ^counts[j], with Fⱼ that of masses[j]. Errors are followed through it as upper
    bounds on moduli (G-03, *Many steps*), in units u = 2⁻⁵³:

    1. Masses add up to 1, so |F| ≤ 1, and each computed F is off by at most
       γ = 16u·log₂ size.
    2. A factor F that is taken K times has K relative errors of (γ + 3u)/(|F| + γ), 3u
       for the complex product; the exact modulus is at most (|F| + γ)^K.
    3. An entry of the inverse transform is a mean over the frequencies, so it is off by
       at most the mean of these errors, and of γ times the moduli for its own rounding.

    What a change must keep: each rounding is in one of the three, as the result is
    taken for exact but for this error. It is compared with fractions by
    `test_the_error_of_the_transform_is_bounded_and_small`.

    Args:
        masses: Masses of each distribution, which add up to 1, (losses,) each; at most
            `size` of them.
        counts: How often each distribution occurs.
        size: Length of the result, a power of two. Sums that exceed it wrap around.

    Returns:
        The convolution, (size,), whose entries may be slightly negative; and an upper
        bound on the error of each entry, whichever its sign.

    Example: convolving [0.5, 0.5] twice gives [0.25, 0.5, 0.25, 0] for size 4, and
    [0.5, 0.5] for size 2, as the sum 2 wraps around to 0.
    """
    gamma = 16 * UNIT * (size.bit_length() - 1)
    frequency_count = size // 2 + 1  # of real data; the others are their conjugates
    product = np.ones(frequency_count, dtype=np.complex128)
    # Upper bounds on the moduli of the exact product, and on its relative errors.
    moduli = np.ones(frequency_count)
    relative_errors = np.zeros(frequency_count)
    for step_masses, count in zip(masses, counts, strict=True):
        spectrum = np.fft.rfft(step_masses, size)
        product *= _power(spectrum, count)
        max_modulus = np.abs(spectrum) + gamma
        moduli *= max_modulus ** float(count)
        relative_errors += count * (gamma + 3 * UNIT) / max_modulus
    # Doubled for the conjugate frequencies. 1.01 covers the rounding of the bound
    # itself.
    error = 1.01 * 2 * float(np.sum(moduli * (relative_errors + gamma))) / size
    return np.fft.irfft(product, size), error


def _power(
    values: npt.NDArray[np.complex128], exponent: int
) -> npt.NDArray[np.complex128]:
    """Computes values^exponent by repeated squaring.

    Each squaring doubles the relative error so far and adds one product's. So the
    result is off by no more than after `exponent` products one by one, which
    `_convolve` charges.

    Args:
        values: Complex numbers, of any shape.
        exponent: Positive.

    Returns:
        The powers, in the shape of `values`.
    """
    power = np.ones_like(values)
    square = values  # values^(2^i) in the i-th round
    remaining = exponent
    while remaining:
        if remaining & 1:
            power = power * square
        remaining >>= 1
        if remaining:
            square = square * square
    return power
