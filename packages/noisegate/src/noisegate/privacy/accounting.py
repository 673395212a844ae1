"""Events to (ε, δ). The only file that turns what was run into a guarantee (G-03).

* Gaussian events, and samples that hold every record, compose in closed form and
  without SciPy, so that the command line starts at once.
* Other Poisson-sampled events, beside Gaussian ones, go through `privacy.composition`;
  of whole samples: G-24, G-26.
* ρ-zCDP events, Gaussian ones too, add up (G-16). Together with Poisson-sampled events
  they are refused.
* Each sampler's distance from the ideal Gaussian is charged (G-04, G-05, G-18, G-32),
  and so is what a threshold may let through (G-15).

`dp_accounting`, the oracle of the tests, computes the same curves, and takes over two
seconds to import.
"""

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache
from itertools import accumulate

from noisegate.errors import CalibrationError, require
from noisegate.privacy.events import (
    TOEPLITZ,
    Adjacency,
    BatchGaussianEvent,
    ContinualGaussianEvent,
    Event,
    GaussianEvent,
    SampledGaussianEvent,
    Sampler,
    ShardGaussianEvent,
    ThresholdedGaussianEvent,
    ZeroConcentratedEvent,
)

# Variance, in squared grid units, given up in the proof of the discrete Gaussian (G-04).
SMOOTHING_VARIANCE = 4.0
_ETA = (
    2
    * math.exp(-2 * math.pi**2 * SMOOTHING_VARIANCE)
    / (1 - math.exp(-2 * math.pi**2 * SMOOTHING_VARIANCE))
)
_KAPPA = 2 * _ETA / (1 - _ETA)  # at least ln((1+η)/(1−η))
# Total-variation distance of one rounded float64 draw from the ideal rounded Gaussian.
ROUNDED_DISTANCE = 2.0**-42
# A convolved draw: up to six table draws of 2⁻²⁸⁰ each, and two factors of (1 + η) for each, beside the smoothing's.
_CONVOLVED_DISTANCE, _CONVOLVED_KAPPAS = 2.0**-277, 8
MOST_SHARES = 1000
"""How many shares of one noise there are at most: each is charged as a sum of so many discrete Gaussians (G-32)."""
# Grid units: below, the proofs of both samplers say nothing; above, 64-bit sums could overflow.
MINIMUM_STD, MAXIMUM_STD = 16.0, 2.0**50
_MOST_STEPS = 10**9
# ε, μ and ρ are moved to the safe side by this relative amount, far above the rounding error of the formulas: no term
# of that for ρ-zCDP exceeds 1e11 on the orders that are tried.
_SAFETY = 1e-9
_SMALLEST_MU = 1e-5
_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
_LOWEST, _HIGHEST = math.log(1e-4), math.log(1e10)  # of α − 1
_GOLDEN = (math.sqrt(5) - 1) / 2


_Gaussian = GaussianEvent | SampledGaussianEvent | ThresholdedGaussianEvent


def effective_multiplier(event: _Gaussian) -> float:
    """Returns the noise multiplier of the ideal Gaussian that `event` is charged as."""
    if not MINIMUM_STD <= event.noise_std <= MAXIMUM_STD:
        raise CalibrationError(
            f"event {event.name!r}: noise_std={event.noise_std:g} grid units is outside [{MINIMUM_STD:g}, "
            f"{MAXIMUM_STD:g}]; no guarantee is proved there."
        )
    if isinstance(event, ContinualGaussianEvent):
        numbers = -(-event.coordinates // event.periods)
        least = continual_sensitivity(
            event.weights, event.record, event.corrected, numbers
        )
        if event.sensitivity < least or event.noise_std > MAXIMUM_STD / 2**10:
            raise CalibrationError(
                f"event {event.name!r}: its matrix has a sensitivity of {least:g}, or noise too large."
            )
    if event.sampler is not Sampler.ROUNDED_GAUSSIAN:
        return math.sqrt(event.noise_std**2 - SMOOTHING_VARIANCE) / event.sensitivity
    return event.noise_multiplier


def continual_sensitivity(
    weights: Sequence[int], record: float, corrected: int, numbers: int
) -> float:
    """Returns the L2 sensitivity of all periods of a `ContinualGaussianEvent`, of so many `numbers` each (G-34).

    To take noise back is rounded, which moves a number of a period by less than one grid unit more.
    """
    moved = math.sqrt(corrected * sum(one * one for one in weights)) / TOEPLITZ * record
    return (moved + math.sqrt(2 * len(weights) * numbers)) * (1 + 1e-12)


def noise_taken(weights: Sequence[int], periods: int) -> list[float]:
    """Returns by how much the fresh noise of a period is in the noise of its own sum, and of those after it."""
    taken: list[float] = []
    for period in range(periods):
        back = sum(
            one * other
            for one, other in zip(weights[1:], reversed(taken), strict=False)
        )
        taken.append(float(period == 0) - back / TOEPLITZ)
    return taken


def prefix_noise(
    weights: Sequence[int], period: int, window: int | None = None
) -> float:
    """Returns the noise of the total of all periods so far, or of the last `window`, over the fresh noise of one."""
    totals = list(accumulate(noise_taken(weights, period)))
    gone = [*[0.0] * min(window or period, period), *totals]
    return math.hypot(*(one - other for one, other in zip(totals, gone, strict=False)))


def sampler_slack(events: Sequence[Event], epsilon: float) -> tuple[float, float]:
    """Returns what samplers and thresholds cost beside the ideal noise: (added to ε, added to δ) at this ε."""
    kappa = distance = 0.0
    for event in events:
        if isinstance(event, ZeroConcentratedEvent):
            continue  # its ρ is of the noise as it was drawn
        draws = event.coordinates * (
            event.steps if isinstance(event, SampledGaussianEvent) else 1
        )
        if event.sampler is Sampler.DISCRETE_GAUSSIAN:
            kappa += draws * _KAPPA
        elif event.sampler is Sampler.SUMMED_GAUSSIAN:
            kappa += draws * MOST_SHARES * _KAPPA
        elif event.sampler is Sampler.CONVOLVED_GAUSSIAN:
            kappa += draws * _CONVOLVED_KAPPAS * _KAPPA
            distance += draws * _CONVOLVED_DISTANCE
        else:
            distance += draws * ROUNDED_DISTANCE
    odds = threshold_odds(events)
    let_through = -math.log1p(-odds) if odds < 1 else math.inf
    factor = (
        1 + math.exp(epsilon + let_through) if epsilon + let_through < 700 else math.inf
    )
    return 2 * kappa + let_through, odds + (distance * factor if distance else 0.0)


def threshold_odds(events: Sequence[Event]) -> float:
    """Returns an upper bound on the probability that a key of one record alone passes any threshold in `events` (G-15).

    Its count is `weight`; a discrete Gaussian reaches m at most as often as a continuous one reaches m − 1, for m ≥ 1.
    """
    odds = 0.0
    for event in events:
        if isinstance(event, ThresholdedGaussianEvent):
            above = event.threshold - event.weight - 1
            tail = (
                0.5 * math.erfc(above / event.noise_std / math.sqrt(2))
                if above >= 0
                else 1.0
            )
            odds += event.keys * tail * (1 + 1e-9)
    return odds


def epsilon(
    events: Sequence[Event], delta: float, adjacency: Adjacency = Adjacency.ADD_REMOVE
) -> float:
    """Returns an upper bound on ε for which the composition of `events` is (ε, δ)-DP.

    Each event already states its sensitivity under `adjacency`, which Poisson-sampled ones need. The bound is infinite
    where the samplers alone cost more than `delta`, in (0, 1).

    Examples:
        >>> from noisegate.privacy.accounting import epsilon
        >>> from noisegate.privacy.events import GaussianEvent, Sampler
        >>> noise = {"noise_std": 20.0, "sampler": Sampler.DISCRETE_GAUSSIAN}
        >>> sums = GaussianEvent(name="sums", sensitivity=1, coordinates=4, **noise)
        >>> [round(epsilon([sums] * times, delta=1e-5), 4) for times in (1, 4)]
        [0.1609, 0.3425]
    """
    if not events:
        return 0.0
    ideal = _ideal_epsilon(events, delta, adjacency)
    for _ in range(60):
        extra_epsilon, extra_delta = sampler_slack(events, ideal)
        if extra_delta == 0:
            return ideal + extra_epsilon
        # δ(ε) + slack(ε) ≤ δ: raise ε until the ideal curve leaves room for the slack, which grows with ε.
        if extra_delta >= delta:
            return math.inf
        needed = _ideal_epsilon(events, delta - extra_delta, adjacency)
        if needed <= ideal:
            return ideal + extra_epsilon
        ideal = needed * (1 + 1e-12)
    return math.inf


def _ideal_epsilon(
    events: Sequence[Event], delta: float, adjacency: Adjacency
) -> float:
    concentrated = [
        event for event in events if isinstance(event, ZeroConcentratedEvent)
    ]
    steps = [event for event in events if isinstance(event, SampledGaussianEvent)]
    if concentrated and steps:
        raise CalibrationError(
            f"event {concentrated[0].name!r} is stated in zCDP and {steps[0].name!r} is of Poisson "
            "samples: no bound is proved for them together. Choose other methods for this data set."
        )
    others = [
        event
        for event in events
        if isinstance(event, GaussianEvent | ThresholdedGaussianEvent)
    ]
    mu = total_mu([*others, *(event for event in steps if event.rate == 1)], adjacency)
    if sampled := tuple(event for event in steps if event.rate < 1):
        return _sampled_epsilon(mu, sampled, delta, adjacency)
    if not concentrated:
        return gaussian_epsilon(mu, delta)
    rho = math.fsum(event.rho for event in concentrated) + rho_of_gaussian(mu)
    return zcdp_epsilon(rho * (1 + 1e-14), delta)


def total_mu(
    events: Sequence[_Gaussian], adjacency: Adjacency = Adjacency.ADD_REMOVE
) -> float:
    """Returns the Gaussian-DP parameter √(Σ (Δᵢ/σᵢ)²) of the composition of events on all records."""
    return math.sqrt(math.fsum(_square_of_mu(event, adjacency) for event in events)) * (
        1 + 1e-14
    )


def _square_of_mu(event: _Gaussian, adjacency: Adjacency) -> float:
    if not isinstance(event, SampledGaussianEvent):
        return effective_multiplier(event) ** -2
    # A replaced record moves a sum by twice its norm. The vector of a whole sample or of a shard moves by its diameter
    # at most, whatever becomes of a record (G-24, G-26).
    whole = isinstance(event, BatchGaussianEvent | ShardGaussianEvent)
    twice = adjacency is Adjacency.REPLACE_ONE and not whole
    return event.uses * ((2 if twice else 1) / effective_multiplier(event)) ** 2


@lru_cache(maxsize=4)
def _sampled_epsilon(
    mu: float,
    events: tuple[SampledGaussianEvent, ...],
    delta: float,
    adjacency: Adjacency,
) -> float:
    """Returns ε of samples and a Gaussian mechanism; takes up to a second, and NumPy, which other events do without."""
    require("scipy", "the cost of steps on Poisson samples")
    from noisegate.privacy import composition
    from noisegate.privacy.composition import Pair, Steps

    if delta < composition.LEAST_DELTA:
        raise CalibrationError(
            f"delta={delta:g} is below {composition.LEAST_DELTA:g}, the least for which steps on Poisson samples are "
            "accounted; raise delta."
        )
    if sum(event.steps for event in events) > _MOST_STEPS:
        raise CalibrationError(
            f"event {events[0].name!r}: above {_MOST_STEPS:g} steps no bound is computed."
        )
    steps = [
        Steps(rate=event.rate, shift=_shift(event), count=event.steps)
        for event in events
    ]
    if mu > 0:
        steps.append(Steps(rate=1.0, shift=mu, count=1))
    # What a record may do to a sample: be in it or not, in one of the neighbours; or be another one in the other.
    present, absent, replaced = (
        Pair(upper=u, lower=v) for u, v in ((True, False), (False, True), (True, True))
    )
    # The pair of a replaced record dominates both others (G-26), so it does for all steps beside those of shards.
    of_shards = any(isinstance(event, ShardGaussianEvent) for event in events)
    if (
        mu == 0
        and not of_shards
        and adjacency is Adjacency.ADD_REMOVE
        and sum(event.steps for event in events) == 1
    ):
        return single_step_epsilon(events[0].rate, _shift(events[0]), delta)
    pairs = (
        (replaced,)
        if of_shards or adjacency is Adjacency.REPLACE_ONE
        else (present, absent)
    )
    return composition.composed_epsilon(steps, pairs, delta)


def single_step_epsilon(rate: float, shift: float, delta: float) -> float:
    """Returns an upper bound on the least ε ≥ 0 of one sum over a Poisson sample, in closed form (G-03).

    `rate` and `delta` are in (0, 1); `shift` is the norm of a record over the standard deviation of the noise.
    """
    if delta >= rate:
        return 0.0
    # The record is there: P − e^ε·Q = q·(N(m) − (1 + (e^ε − 1)/q)·N(0)).
    whole = gaussian_epsilon(shift, delta / rate)
    present = (
        math.log1p(rate * math.expm1(whole))
        if whole < 30
        else whole + math.log(rate + math.exp(-whole))
    )
    target, most = math.log(delta), -math.log1p(-rate)

    def above(epsilon: float) -> bool:
        """The record is not there: P − e^ε·Q = d·N(0) − (e^ε − d)·N(−m), where d = 1 − e^ε·(1 − q)."""
        if epsilon >= most:
            return False
        left = -math.expm1(epsilon - most)
        return (
            math.log(left) + log_delta(shift, epsilon + math.log(rate / left)) > target
        )

    absent = _crossing(above)[1] if above(0.0) else 0.0
    return max(present, absent) * (1 + 2 * _SAFETY)


def _shift(event: SampledGaussianEvent) -> float:
    """Returns how far the vector of a record, or of a shard that was asked, is from none, over the noise."""
    # A shard's event states the distance of two vectors, which have half of it as norm.
    parts = 2 if isinstance(event, ShardGaussianEvent) else 1
    return (1 + 1e-14) / effective_multiplier(event) / parts


def _log_normal_cdf(x: float) -> float:
    """Returns log Φ(x) for any finite x."""
    if x > 0:
        return math.log1p(-0.5 * math.erfc(x / math.sqrt(2)))
    if x > -25:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2)))
    # Asymptotic expansion of the Mills ratio; below −25 the first dropped term is under 1e-13.
    square = x * x
    term, total = 1.0, 1.0
    for k in range(1, 9):
        term *= -(2 * k - 1) / square
        total += term
    return -0.5 * square - math.log(-x) - _LOG_ROOT_2PI + math.log(total)


def log_delta(mu: float, epsilon: float) -> float:
    """Returns log δ such that the μ-GDP mechanism is exactly (ε, δ)-DP; −inf when δ is 0 in float64."""
    if mu <= 0:
        return -math.inf
    first = _log_normal_cdf(mu / 2 - epsilon / mu)
    second = epsilon + _log_normal_cdf(-mu / 2 - epsilon / mu)
    gap = second - first
    return first + math.log(-math.expm1(gap)) if gap < 0 else -math.inf


def _crossing(below: Callable[[float], bool]) -> tuple[float, float]:
    """Returns two neighbouring floats above 0: the last that is `below` a monotone curve, and the first that is not."""
    low, high = 0.0, 1.0
    while below(high):
        low, high = high, 2 * high
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if below(middle) else (low, middle)
    return low, high


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Returns an upper bound on the smallest ε ≥ 0 for which the μ-GDP mechanism is (ε, δ)-DP."""
    # Below 1e-5 the two terms of the curve cancel to rounding error; the curve grows with μ, so this is the safe side.
    mu = max(mu, _SMALLEST_MU)
    target = math.log(delta)
    if log_delta(mu, 0.0) <= target - _SAFETY:
        return 0.0
    return _crossing(lambda epsilon: log_delta(mu, epsilon) > target)[1] * (1 + _SAFETY)


def mu_for(epsilon: float, delta: float) -> float:
    """Returns a lower bound on the largest μ for which the μ-GDP mechanism is (ε, δ)-DP: ε positive, δ in (0, 1).

    Examples:
        >>> from noisegate.privacy.accounting import gaussian_epsilon, mu_for
        >>> mu = mu_for(1.0, 1e-5)
        >>> round(1 / mu, 2), round(gaussian_epsilon(mu, 1e-5), 6)
        (3.73, 1.0)
    """
    target = math.log(delta)
    # Twice the safety of `gaussian_epsilon`, so that an event calibrated here is found to cost no more than was asked.
    return _crossing(lambda mu: log_delta(mu, epsilon) <= target)[0] * (1 - 4 * _SAFETY)


def rho_of_gaussian(mu: float) -> float:
    """Returns the least ρ for which every μ-GDP mechanism is ρ-zCDP (Dong, Roth and Su 2019, Corollary B.6)."""
    return mu * mu / 2


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Returns an ε ≥ 0 for which every ρ-zCDP mechanism is (ε, δ)-DP."""
    low, high = _LOWEST, _HIGHEST
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = _epsilon_at(left, rho, delta), _epsilon_at(right, rho, delta)
    for _ in range(100):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = _epsilon_at(left, rho, delta)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = _epsilon_at(right, rho, delta)
    return max(min(at_left, at_right) * (1 + _SAFETY), 0.0)


def rho_for(epsilon: float, delta: float) -> float:
    """Returns a lower bound on the largest ρ for which `zcdp_epsilon(ρ, delta)` is at most `epsilon`."""
    # Twice the safety of `zcdp_epsilon`, so that an event calibrated here is found to cost no more than was asked.
    return _crossing(lambda rho: zcdp_epsilon(rho, delta) <= epsilon)[0] * (
        1 - 4 * _SAFETY
    )


def _epsilon_at(log_excess: float, rho: float, delta: float) -> float:
    """Returns ε(α) for α = 1 + exp(log_excess)."""
    excess = math.exp(log_excess)
    alpha = 1 + excess
    return (
        alpha * rho
        + math.log1p(-1 / alpha)
        - (math.log(delta) + math.log(alpha)) / excess
    )


def together(
    before: Sequence[Event], events: Sequence[Event], delta: float, adjacency: Adjacency
) -> tuple[float, float] | None:
    """Returns ε of Gaussian events that came before, and of all events, at one δ; None where others are among them."""
    both = (*before, *events)
    if not all(
        isinstance(event, GaussianEvent | ThresholdedGaussianEvent) for event in both
    ):
        return None
    found = epsilon(before, delta, adjacency), epsilon(both, delta, adjacency)
    return found if math.isfinite(found[1]) else None


def upwards(value: Decimal, digits: int = 6) -> float:
    """Rounds a cost to so many digits, as pages print it, never below what it is."""
    return float(Context(prec=digits, rounding=ROUND_CEILING).plus(value))
