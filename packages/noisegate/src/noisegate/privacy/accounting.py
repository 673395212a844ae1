"""Computes what a list of events costs, as ε at a given δ (G-03).

No other file converts events to a guarantee. An event states a mechanism with its
sensitivity and its noise (`events`). `epsilon` returns an ε for which the composition
of all events is (ε, δ)-differentially private. It is an upper bound: every root is
rounded to the safe side, and what cannot be accounted for is refused.

The cost of ideal noise comes first. How it composes follows from what the events are::

    events                             composed by                  to ε by
    ─────────────────────────────────────────────────────────────────────────────────
    Gaussian sums over all records     μ² = Σ (Δ/σ)²                `gaussian_epsilon`
    … with steps on Poisson samples    privacy losses on a lattice  `composition`
    … with ρ-zCDP mechanisms (G-16)    ρ = Σ ρᵢ + μ²/2              `zcdp_epsilon`

Poisson samples and ρ-zCDP mechanisms together are refused, since no bound is proved.

To the ideal cost is added what real noise costs beside it (`sampler_slack`): the
distance of each sampler from a Gaussian (G-04, G-05, G-18, G-32), and the chance that a
threshold lets a rare key through (G-15).

Gaussian events, and samples that hold every record, are computed here in closed form
without SciPy, so that the command line starts at once. Steps on Poisson samples take up
to a second, and import `composition` when it is needed. The tests compare all of this
with `dp_accounting`, whose import takes over two seconds.

Terms: a mechanism has the *Gaussian-DP parameter* μ if its outputs on two neighbours
are at least as hard to distinguish as N(0, 1) and N(μ, 1) (Dong, Roth and Su 2019). A
*noise multiplier* is the standard deviation of the noise divided by the sensitivity.
"""

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from functools import lru_cache
from itertools import accumulate
from typing import assert_never

from noisegate.errors import CalibrationError, require
from noisegate.privacy.events import (
    TOEPLITZ,
    Adjacency,
    Batched,
    Continual,
    Event,
    Gaussian,
    NoisyEvent,
    Sampled,
    Sampler,
    Sharded,
    StepEvent,
    SumEvent,
    Thresholded,
    ZeroConcentrated,
    gaussian_of,
)

MINIMUM_STD = 16.0
"""Smallest standard deviation of noise, in grid units: below, no sampler is proved."""
MAXIMUM_STD = 2.0**50
"""Largest standard deviation, in grid units: more could overflow 64 bits (G-07)."""
SMOOTHING_VARIANCE = 4.0
"""Variance, in squared grid units, that the proof of the discrete Gaussian gives away:
noise of variance s² is charged as continuous noise of variance s² − 4 (G-04)."""
MOST_SHARES = 1000
"""Largest number of shares of one noise, each a discrete Gaussian (G-32)."""
ROUNDED_DISTANCE = 2.0**-42
"""Total variation distance of a rounded float64 draw from the ideal one (G-05).

Earlier versions drew such noise for plans of more than a million coordinates, where it
cost at most δ/10: about 1.2 million at ε = 1 and δ = 10⁻⁵. The charge doubles with
every 0.7 of ε: at ε = 10, a million coordinates would be charged 5 · 10⁻³."""

# η and κ of G-04: a discrete Gaussian, and what a continuous one is post-processed to
# in the proof, have probabilities whose ratio is at most (1 + η)/(1 − η) ≤ e^κ.
_ETA = (
    2
    * math.exp(-2 * math.pi**2 * SMOOTHING_VARIANCE)
    / (1 - math.exp(-2 * math.pi**2 * SMOOTHING_VARIANCE))
)
_DISCRETE_KAPPA = 2 * _ETA / (1 - _ETA)
# A convolved draw has up to six levels. Each of them, and the smoothing, costs a factor
# of at most e^κ, and each draw from the table 2⁻²⁸⁰ in total variation (G-18).
_CONVOLVED_KAPPAS = 8
_CONVOLVED_DISTANCE = 2.0**-277

# Noise of a stream that takes earlier noise back is added up in 64 bits too; up to this
# standard deviation there is room for that (G-34).
_MAX_CONTINUAL_STD = MAXIMUM_STD / 2**10
# Largest number of steps on samples for which a bound is computed.
_MAX_STEPS = 10**9
# Rounds in which ε is raised for what samplers cost; a few do.
_MAX_SLACK_ROUNDS = 60

# ε, μ and ρ are moved to the safe side by this relative amount, far above the rounding
# error of their formulas: no term of that for ρ-zCDP exceeds 1e11 on the orders tried.
_SAFETY = 1e-9
# The same for short sums and products, whose error is a few units of 2⁻⁵³.
_ROUND_UP = 1 + 1e-14
_ROUND_UP_MORE = 1 + 1e-12
# Below this μ the two terms of the curve of a Gaussian cancel to rounding error.
_MIN_MU = 1e-5
# exp of more than this would be near the largest float64.
_MAX_EXPONENT = 700
_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
# Range of ln(α − 1) in which the best order α of a zCDP bound is searched.
_MIN_LOG_EXCESS = math.log(1e-4)
_MAX_LOG_EXCESS = math.log(1e10)
_GOLDEN_SECTION = (math.sqrt(5) - 1) / 2


# Cost of events.


def epsilon(
    events: Sequence[Event], delta: float, adjacency: Adjacency = Adjacency.ADD_REMOVE
) -> float:
    """Computes ε of the composition of events (G-03).

    Args:
        events: The events that were run, or are planned. Each states its sensitivity
            under `adjacency`.
        delta: δ of the guarantee, in (0, 1).
        adjacency: The neighbouring relation. Only steps on Poisson samples need it,
            because they state the norm of a record.

    Returns:
        An upper bound on ε; 0 without events; infinite if the samplers alone cost more
        than `delta`.

    Raises:
        CalibrationError: if an event, or the events together, cannot be accounted for.

    Examples:
        >>> from noisegate.privacy.accounting import epsilon
        >>> from noisegate.privacy.events import Gaussian, Sampler
        >>> noise = {"noise_std": 20.0, "sampler": Sampler.DISCRETE_GAUSSIAN}
        >>> sums = Gaussian(name="sums", sensitivity=1, coordinates=4, **noise)
        >>> [round(epsilon([sums] * times, delta=1e-5), 4) for times in (1, 4)]
        [0.1609, 0.3425]
    """
    if not events:
        return 0.0
    ideal = _ideal_epsilon(events, delta, adjacency)
    # δ must cover that of the ideal noise and that of the samplers, which grows with ε.
    # So ε is raised until the ideal noise leaves room for it. What is returned has
    # passed the comparison: without it the rounds could end below the fixed point, as
    # an ε that costs more than δ.
    for _ in range(_MAX_SLACK_ROUNDS):
        extra_epsilon, extra_delta = sampler_slack(events, ideal)
        if extra_delta == 0:
            return ideal + extra_epsilon
        if extra_delta >= delta:
            return math.inf
        needed = _ideal_epsilon(events, delta - extra_delta, adjacency)
        if needed <= ideal:
            return ideal + extra_epsilon
        ideal = needed * _ROUND_UP_MORE
    return math.inf


def joint_epsilon(
    before: Sequence[Event], events: Sequence[Event], delta: float, adjacency: Adjacency
) -> float | None:
    """Computes ε of two releases on the same records together, at one δ.

    Args:
        before: Events of the earlier release.
        events: Events of the later release.
        delta: δ of the guarantee.
        adjacency: What neighbours are.

    Returns:
        ε of both. None if some event is not Gaussian: then only the sums of both ε and
        of both δ are stated. None also if no ε holds for both at this δ.
    """
    all_events = (*before, *events)
    is_gaussian = all(isinstance(event, SumEvent | Thresholded) for event in all_events)
    if not is_gaussian:
        return None
    epsilon_of_both = epsilon(all_events, delta, adjacency)
    return epsilon_of_both if math.isfinite(epsilon_of_both) else None


def round_up(value: Decimal, digits: int = 6) -> float:
    """Rounds a cost up to a number of significant digits, for a page.

    Args:
        value: The cost.
        digits: Number of significant digits.

    Returns:
        The float next to the rounded decimal, which a page shows as that decimal.

    >>> from decimal import Decimal
    >>> from noisegate.privacy.accounting import round_up
    >>> round_up(Decimal("1.00000001"), 4), round_up(Decimal("1.1"), 4)
    (1.001, 1.1)
    """
    return float(Context(prec=digits, rounding=ROUND_CEILING).plus(value))


def _ideal_epsilon(
    events: Sequence[Event], delta: float, adjacency: Adjacency
) -> float:
    """Computes ε of events as if their noise were exactly Gaussian (G-03, G-16).

    Events fall into three groups:

    1. Sums over all records compose to one Gaussian mechanism with the parameter μ.
    2. Steps on Poisson samples compose with it numerically.
    3. ρ-zCDP mechanisms add their ρ to the μ²/2 of the Gaussian one.

    What a change must keep: each event is in exactly one group. An event in none would
    be free of charge, so the type checker refuses a class of events without a case.
    `test_a_mixture_of_both_kinds_costs_more_than_each_and_less_than_the_sum` and
    `test_gaussian_events_join_them_with_half_the_square_of_mu` watch over this.

    Args:
        events: What was run.
        delta: δ of the guarantee.
        adjacency: What neighbours are.

    Raises:
        CalibrationError: if there are events of both groups 2 and 3.
    """
    _check_no_bound_is_missing(events)
    on_all_records: list[NoisyEvent] = []
    on_samples: list[StepEvent] = []
    concentrated: list[ZeroConcentrated] = []
    for event in events:
        match event:
            case Gaussian() | Continual() | Thresholded():
                on_all_records.append(event)
            case Sampled() | Batched() | Sharded():
                # A sample that holds every record is no sample.
                group = on_all_records if event.rate == 1 else on_samples
                group.append(event)
            case ZeroConcentrated():
                concentrated.append(event)
            case _:
                assert_never(event)

    mu = total_mu(on_all_records, adjacency)
    if on_samples:
        return _sampled_epsilon(mu, tuple(on_samples), delta, adjacency)
    if not concentrated:
        return gaussian_epsilon(mu, delta)
    rho = math.fsum(event.rho for event in concentrated) + rho_of_gaussian(mu)
    return zcdp_epsilon(rho * _ROUND_UP, delta)


def _check_no_bound_is_missing(events: Sequence[Event]) -> None:
    """Refuses steps on samples together with ρ-zCDP mechanisms.

    Steps whose samples hold every record are refused too, as they always were.

    Raises:
        CalibrationError: if there are events of both.
    """
    concentrated = [event for event in events if isinstance(event, ZeroConcentrated)]
    steps = [event for event in events if isinstance(event, StepEvent)]
    if concentrated and steps:
        raise CalibrationError(
            f"event {concentrated[0].name!r} is stated in zCDP and {steps[0].name!r} "
            "is of Poisson samples: no bound is proved for them together. Choose other "
            "methods for this data set."
        )


def total_mu(
    events: Sequence[NoisyEvent], adjacency: Adjacency = Adjacency.ADD_REMOVE
) -> float:
    """Computes the Gaussian-DP parameter of the composition of events, √(Σ μᵢ²).

    Args:
        events: Gaussian events on all records.
        adjacency: What neighbours are.

    Raises:
        CalibrationError: if the noise of an event is outside what is proved.
    """
    squares = (_squared_mu(event, adjacency) for event in events)
    return math.sqrt(math.fsum(squares)) * _ROUND_UP


def _squared_mu(event: NoisyEvent, adjacency: Adjacency) -> float:
    """Returns μ² of an event on all records, (moved distance / noise)² a step (G-03).

    How far a sum moves between neighbours depends on what `sensitivity` means in the
    event, which differs between classes:

    - `Gaussian`, `Continual`, `Thresholded`: the distance itself, for the adjacency of
      the run. The plan has already used 1, √2 or 2 norms (G-01), so the adjacency must
      not be used here again.
    - `Sampled`: the norm of one record, whatever the adjacency, since sampled steps are
      accounted by the norm. A replaced record moves the sum by twice that: its old
      vector goes, and its new one comes.
    - `Batched`, `Sharded`: the largest distance between any two vectors of a sample, or
      of a shard. A record can turn such a vector round, but not move it further, added,
      removed or replaced (G-24, G-26).

    `test_events_of_all_records_are_exactly_gaussian` compares the first two for both
    relations, and
    `test_samples_as_a_whole_cost_what_sums_of_records_of_their_diameter_cost` the last.

    Args:
        event: An event whose sampling rate, if it has one, is 1.
        adjacency: The neighbouring relation.
    """
    multiplier = effective_multiplier(event)
    match event:
        case Gaussian() | Continual() | Thresholded():
            return multiplier**-2
        case Sampled():
            norms_moved = 2 if adjacency is Adjacency.REPLACE_ONE else 1
            return event.steps * (norms_moved / multiplier) ** 2
        case Batched():
            return event.steps_of_a_record * (1 / multiplier) ** 2
        case Sharded():
            return event.steps * (1 / multiplier) ** 2
        case _:
            assert_never(event)


def effective_multiplier(event: NoisyEvent) -> float:
    """Returns the noise multiplier of the ideal Gaussian that an event is charged as.

    Discrete noise of variance s² is charged as continuous noise of variance s² − 4. In
    the proof, it is that continuous noise, rounded to integers at random with the
    variance 4, which uses no record (G-04, G-18, G-32). Noise that was drawn in float64
    and rounded is charged with its own variance (G-05). `sampler_slack` charges the
    distance between the samplers and the distributions of the proofs.

    Args:
        event: An event with Gaussian noise.

    Returns:
        The standard deviation of that Gaussian over the sensitivity of the event.

    Raises:
        CalibrationError: if the noise, or the sensitivity of a stream, is outside what
            is proved.
    """
    gaussian = gaussian_of(event)
    if not MINIMUM_STD <= gaussian.noise_std <= MAXIMUM_STD:
        raise CalibrationError(
            f"event {event.name!r}: noise_std={gaussian.noise_std:g} grid units is "
            f"outside [{MINIMUM_STD:g}, {MAXIMUM_STD:g}]; no guarantee is proved there."
        )
    if isinstance(event, Continual):
        _check_stream_event(event)
    if gaussian.sampler is Sampler.ROUNDED_GAUSSIAN:
        return gaussian.noise_multiplier
    smoothed_std = math.sqrt(gaussian.noise_std**2 - SMOOTHING_VARIANCE)
    return smoothed_std / gaussian.sensitivity


# What real noise costs beside the ideal one.


def sampler_slack(events: Sequence[Event], epsilon: float) -> tuple[float, float]:
    """Computes what samplers and thresholds cost beside the ideal noise.

    Probabilities of what a sampler draws are within a factor e^κ of those of the ideal
    noise, but for a total variation distance d. Those of both neighbours may be off, so
    a sampler adds 2κ to ε and (1 + e^ε)·d to δ.

    A threshold reveals a key of one record with a probability p of at most
    `threshold_probability`. It adds −ln(1 − p) to ε and p to δ (G-15).

    What a change must keep: κ and d count for every coordinate of every step, and a new
    sampler without a case here would cost nothing.
    `test_every_step_of_a_sampled_event_is_charged_its_slack` and
    `test_the_rounded_gaussian_is_charged_its_distance_on_every_coordinate` watch over
    this, and `test_the_price_of_thresholds_adds_up` over thresholds.

    Args:
        events: What was run.
        epsilon: ε of the ideal noise.

    Returns:
        What is added to ε, and what is added to δ; either may be infinite.
    """
    kappa = 0.0  # of all draws together (G-04, G-18, G-32)
    distance = 0.0  # of all draws together, in total variation (G-05, G-18)
    for event in events:
        if isinstance(event, ZeroConcentrated):
            continue  # its ρ is of the noise as it was drawn
        steps = event.steps if isinstance(event, StepEvent) else 1
        gaussian = gaussian_of(event)
        draws = gaussian.coordinates * steps
        match gaussian.sampler:
            case Sampler.DISCRETE_GAUSSIAN:
                kappa += draws * _DISCRETE_KAPPA
            case Sampler.SUMMED_GAUSSIAN:
                kappa += draws * MOST_SHARES * _DISCRETE_KAPPA
            case Sampler.CONVOLVED_GAUSSIAN:
                kappa += draws * _CONVOLVED_KAPPAS * _DISCRETE_KAPPA
                distance += draws * _CONVOLVED_DISTANCE
            case Sampler.ROUNDED_GAUSSIAN:
                distance += draws * ROUNDED_DISTANCE

    # Only one of the two neighbours has keys that the other lacks, so what a threshold
    # lets through counts once (G-15).
    passing_probability = threshold_probability(events)
    if passing_probability < 1:
        threshold_epsilon = -math.log1p(-passing_probability)
    else:
        threshold_epsilon = math.inf
    added_delta = passing_probability
    # Not for a distance of 0, which would be NaN times an infinite factor.
    if distance:
        exponent = epsilon + threshold_epsilon
        if exponent < _MAX_EXPONENT:
            distance_factor = 1 + math.exp(exponent)
        else:
            distance_factor = math.inf
        added_delta = passing_probability + distance * distance_factor
    return 2 * kappa + threshold_epsilon, added_delta


def threshold_probability(events: Sequence[Event]) -> float:
    """Bounds the probability that a key of one record alone passes a threshold (G-15).

    The count of such a key is the `weight` of the record, so its noise has to reach
    m = threshold − weight. A discrete Gaussian reaches m at most as often as a
    continuous one reaches m − 1, for m ≥ 1. A record may have several keys, whose
    probabilities are added.

    Args:
        events: What was run. Events without a threshold do not count.

    Returns:
        An upper bound for all thresholds together; it may be above 1.
    """
    probability = 0.0
    for event in events:
        if isinstance(event, Thresholded):
            distance = event.threshold - event.weight - 1
            if distance >= 0:
                noise_std = event.event.noise_std
                tail = 0.5 * math.erfc(distance / noise_std / math.sqrt(2))
            else:
                tail = 1.0
            probability += event.keys * tail * (1 + _SAFETY)
    return probability


# Streams, whose later noise takes earlier noise back (G-34).


def continual_sensitivity(
    weights: Sequence[int], record: float, corrected: int, numbers: int
) -> float:
    """Computes the L2 sensitivity of all periods of a stream together (G-34).

    A record in one period moves the answers as if all periods together were moved by
    its vector times the first column of the Toeplitz factor C: by `record` times the
    norm of that column. Earlier noise that is taken back is rounded to integers, which
    moves each number of a period by less than one grid unit more. It does so in at most
    two periods for each weight: one for the record, and one for its correction.

    Args:
        weights: First column of the Toeplitz factor, times 256.
        record: L2 sensitivity of the sum of one period, in grid units.
        corrected: Factor on the square where a record may be withdrawn or amended; or
            1.
        numbers: How many numbers a period releases.

    Returns:
        The sensitivity in grid units, rounded up.
    """
    squared_weights = sum(weight * weight for weight in weights)
    moved_by_record = math.sqrt(corrected * squared_weights) / TOEPLITZ * record
    moved_by_rounding = math.sqrt(2 * len(weights) * numbers)
    return (moved_by_record + moved_by_rounding) * _ROUND_UP_MORE


def noise_coefficients(weights: Sequence[int], periods: int) -> list[float]:
    """Computes how much of one period's fresh noise is in the answer of each period.

    The answers are x + C⁻¹ z, with the fresh noise z of each period, so these are the
    first numbers of the first column of C⁻¹ (G-34). They follow from C C⁻¹ = I: each
    makes up for what the earlier ones, times the weights, add up to.

    Args:
        weights: First column of the Toeplitz factor C, times 256.
        periods: How many periods to compute.

    Returns:
        The coefficient of the noise in its own period, 1, and in those after it,
        (periods,).
    """
    coefficients: list[float] = []
    for period in range(periods):
        taken_back = sum(
            weight * coefficient
            for weight, coefficient in zip(
                weights[1:], reversed(coefficients), strict=False
            )
        )
        coefficients.append(float(period == 0) - taken_back / TOEPLITZ)
    return coefficients


def total_noise_factor(
    weights: Sequence[int], period: int, window: int | None = None
) -> float:
    """Computes how noisy the total of several periods of a stream is (G-34).

    Each period draws fresh noise and takes back parts of the noise before, so that a
    total holds less noise than a sum of independent answers would.

    Args:
        weights: First column of the Toeplitz factor, in units of 1/256, as events
            state it.
        period: The last period of the total, counted from 1.
        window: How many periods the total is of, at least 1; None for all so far.

    Returns:
        Its standard deviation over that of the fresh noise of one period.
    """
    if window is None:
        window_length = period
    else:
        window_length = min(window, period)
    # Entry k of each list belongs to the noise that was drawn k periods before the
    # last: its factor in the total of all periods so far, ...
    factors_in_prefix = list(accumulate(noise_coefficients(weights, period)))
    # ... in the total of the periods before the window, ...
    factors_before_window = [0.0] * window_length + factors_in_prefix
    # ... and in their difference, the total of the window.
    factors_in_window = [
        factor - factor_before
        for factor, factor_before in zip(
            factors_in_prefix, factors_before_window, strict=False
        )
    ]
    return math.hypot(*factors_in_window)


def _check_stream_event(event: Continual) -> None:
    """Checks the sensitivity and the noise that a stream states (G-34).

    Other events state a sensitivity that cannot be computed from their other fields.
    The sensitivity of a stream can be computed from its weights, so one that is too
    small is detected here, whatever wrote the event.

    Raises:
        CalibrationError: if the sensitivity is too small, or the noise too large.
    """
    sums = event.event
    numbers = -(-sums.coordinates // event.periods)  # of a period, rounded up
    min_sensitivity = continual_sensitivity(
        event.weights, event.record, event.corrected, numbers
    )
    if sums.sensitivity < min_sensitivity or sums.noise_std > _MAX_CONTINUAL_STD:
        raise CalibrationError(
            f"event {event.name!r}: its matrix has a sensitivity of "
            f"{min_sensitivity:g}, or noise too large."
        )


# Steps on Poisson samples.


@lru_cache(maxsize=4)
def _sampled_epsilon(
    mu: float,
    events: tuple[StepEvent, ...],
    delta: float,
    adjacency: Adjacency,
) -> float:
    """Computes ε of steps on Poisson samples and a Gaussian mechanism (G-03).

    It takes up to a second, and needs SciPy, unlike other events. The last results are
    cached, because a plan, its check and its certificate compute the same ε one after
    the other.

    Args:
        mu: Gaussian-DP parameter of everything else; 0 if there is nothing.
        events: Steps with a rate below 1.
        delta: δ of the guarantee.
        adjacency: What neighbours are.

    Raises:
        CalibrationError: if δ is too small, or there are too many steps.
    """
    require("scipy", "the cost of steps on Poisson samples")
    from noisegate.privacy import composition
    from noisegate.privacy.composition import DominatingPair, StepKind

    if delta < composition.MIN_DELTA:
        raise CalibrationError(
            f"delta={delta:g} is below {composition.MIN_DELTA:g}, the least for which "
            "steps on Poisson samples are accounted; raise delta."
        )
    step_count = sum(event.steps for event in events)
    if step_count > _MAX_STEPS:
        raise CalibrationError(
            f"event {events[0].name!r}: above {_MAX_STEPS:g} steps no bound is "
            "computed."
        )

    is_of_shards = any(isinstance(event, Sharded) for event in events)
    is_replaced = is_of_shards or adjacency is Adjacency.REPLACE_ONE
    # The closed form needs no lattice, and is tighter. It is proved for one step alone.
    if mu == 0 and step_count == 1 and not is_replaced:
        return single_step_epsilon(events[0].rate, _shift(events[0]), delta)

    step_kinds = [
        StepKind(rate=event.rate, shift=_shift(event), count=event.steps)
        for event in events
    ]
    if mu > 0:
        step_kinds.append(StepKind(rate=1.0, shift=mu, count=1))
    if is_replaced:
        # The record may be in the sample of one neighbour, and another record in that
        # of the other (G-21). Shards have this pair too, and it dominates the two
        # below, so that it is right for the steps beside them (G-26).
        pairs = [DominatingPair(p_is_mixture=True, q_is_mixture=True)]
    else:
        # The record may be in the sample of one neighbour, whichever that is.
        pairs = [
            DominatingPair(p_is_mixture=True, q_is_mixture=False),
            DominatingPair(p_is_mixture=False, q_is_mixture=True),
        ]
    return composition.composed_epsilon(step_kinds, pairs, delta)


def _shift(event: StepEvent) -> float:
    """Returns the norm of a record, or of a shard, over the noise's standard deviation.

    It is how far the record, or the shard, moves the sum if it is in the sample;
    rounded up. The vector of a whole sample has no such norm: there it is the distance
    between two vectors (G-24).
    """
    # Where a shard may be left out, its event states 2 norms
    # (`ShardQuery.sensitivity`).
    norms_in_sensitivity = 2 if isinstance(event, Sharded) else 1
    return _ROUND_UP / effective_multiplier(event) / norms_in_sensitivity


def single_step_epsilon(rate: float, shift: float, delta: float) -> float:
    """Computes ε of one sum over a Poisson sample, in closed form (G-03).

    It holds under add-remove. Either neighbour may be the one with the record, and ε is
    the larger one of the two cases. In both, δ(ε) = sup over sets of P − e^ε·Q is
    rewritten as a multiple of the same for two Gaussians m apart, whose curve is known.

    What a change must keep: each case is an upper bound by itself, and both are needed,
    as either may be the larger. `test_one_sampled_step_by_numeric_integration` and
    `test_a_single_step_costs_its_closed_form_and_hardly_more_on_the_lattice` compare
    the result with integrals, with high precision and with `composition`.

    Args:
        rate: Sampling probability q, in (0, 1).
        shift: Norm m of a record over the standard deviation of the noise.
        delta: δ of the guarantee, in (0, 1).

    Returns:
        An upper bound on the least ε ≥ 0; 0 for δ ≥ q, as the record is in the sample
        with no more than that probability.
    """
    if delta >= rate:
        return 0.0
    epsilon_with_record = _epsilon_with_record(rate, shift, delta)
    epsilon_without_record = _epsilon_without_record(rate, shift, delta)
    return max(epsilon_with_record, epsilon_without_record) * (1 + 2 * _SAFETY)


def _epsilon_with_record(rate: float, shift: float, delta: float) -> float:
    """Computes ε of one step where P, from which outcomes come, has the record.

    With P = (1 − q)·N(0) + q·N(m) and Q = N(0),
    P − e^ε·Q = q·(N(m) − (1 + (e^ε − 1)/q)·N(0)). So δ(ε) is q times the δ of a
    Gaussian at ε′ with e^ε′ = 1 + (e^ε − 1)/q, and ε = ln(1 + q·(e^ε′ − 1)).
    """
    unsampled_epsilon = gaussian_epsilon(shift, delta / rate)
    if unsampled_epsilon < 30:
        return math.log1p(rate * math.expm1(unsampled_epsilon))
    # The same, without an overflow of e^ε′; that −q is left out only raises it.
    return unsampled_epsilon + math.log(rate + math.exp(-unsampled_epsilon))


def _epsilon_without_record(rate: float, shift: float, delta: float) -> float:
    """Computes ε of one step where P, from which outcomes come, lacks the record.

    With P = N(0) and Q = (1 − q)·N(0) + q·N(−m),
    P − e^ε·Q = d·N(0) − e^ε·q·N(−m), where d = 1 − e^ε·(1 − q). So δ(ε) is d times the
    δ of a Gaussian at ε + ln(q/d). From ε = −ln(1 − q) on, d is not positive and δ(ε)
    is 0.
    """
    log_delta_target = math.log(delta)
    max_epsilon = -math.log1p(-rate)

    def exceeds_delta(epsilon: float) -> bool:
        if epsilon >= max_epsilon:
            return False
        d = -math.expm1(epsilon - max_epsilon)
        log_gaussian_delta = log_delta(shift, epsilon + math.log(rate / d))
        return math.log(d) + log_gaussian_delta > log_delta_target

    if not exceeds_delta(0.0):
        return 0.0
    _, sufficient = _find_crossing(exceeds_delta)
    return sufficient


# The curve of a Gaussian mechanism.


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Computes ε of a μ-GDP mechanism.

    Args:
        mu: Gaussian-DP parameter, not negative.
        delta: δ of the guarantee, in (0, 1).

    Returns:
        An upper bound on the smallest ε ≥ 0 for which it is (ε, δ)-DP.
    """
    # The curve grows with μ, so a larger one is on the safe side.
    mu_on_curve = max(mu, _MIN_MU)
    target = math.log(delta)
    if log_delta(mu_on_curve, 0.0) <= target - _SAFETY:
        return 0.0
    _, root = _find_crossing(lambda epsilon: log_delta(mu_on_curve, epsilon) > target)
    return root * (1 + _SAFETY)


def mu_for(epsilon: float, delta: float) -> float:
    """Computes the largest Gaussian-DP parameter μ for a guarantee.

    Args:
        epsilon: ε of the guarantee, positive.
        delta: δ of the guarantee, in (0, 1).

    Returns:
        A lower bound on the largest μ for which every μ-GDP mechanism is (ε, δ)-DP.

    Examples:
        >>> from noisegate.privacy.accounting import gaussian_epsilon, mu_for
        >>> mu = mu_for(1.0, 1e-5)
        >>> round(1 / mu, 2), round(gaussian_epsilon(mu, 1e-5), 6)
        (3.73, 1.0)
    """
    target = math.log(delta)
    root, _ = _find_crossing(lambda mu: log_delta(mu, epsilon) <= target)
    # More than the safety of `gaussian_epsilon`, so that an event that is calibrated
    # here is found to cost no more than was asked.
    return root * (1 - 4 * _SAFETY)


def log_delta(mu: float, epsilon: float) -> float:
    """Computes the logarithm of δ on the curve of a Gaussian mechanism.

    δ = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ): Balle and Wang (ICML 2018),
    https://arxiv.org/abs/1805.06530, Theorem 8.

    Args:
        mu: Gaussian-DP parameter.
        epsilon: ε of the guarantee.

    Returns:
        ln δ such that the μ-GDP mechanism is exactly (ε, δ)-DP; −∞ where δ is 0 in
        float64.
    """
    if mu <= 0:
        return -math.inf
    log_first = _log_normal_cdf(mu / 2 - epsilon / mu)
    log_second = epsilon + _log_normal_cdf(-mu / 2 - epsilon / mu)
    log_ratio = log_second - log_first
    if log_ratio < 0:
        return log_first + math.log(-math.expm1(log_ratio))
    return -math.inf


def _log_normal_cdf(x: float) -> float:
    """Computes ln Φ(x) for any finite x, without underflow."""
    if x > 0:
        return math.log1p(-0.5 * math.erfc(x / math.sqrt(2)))
    if x > -25:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2)))
    # Asymptotic expansion of the Mills ratio; below −25 the first dropped term is under
    # 1e-13.
    square = x * x
    term = 1.0
    total = 1.0
    for k in range(1, 9):
        term *= -(2 * k - 1) / square
        total += term
    return -0.5 * square - math.log(-x) - _LOG_ROOT_2PI + math.log(total)


def _find_crossing(is_below: Callable[[float], bool]) -> tuple[float, float]:
    """Finds where a monotone curve crosses a level, by bisection.

    Args:
        is_below: Whether a positive number lies before the crossing.

    Returns:
        Two neighbouring floats: the last one before the crossing, and the first one
        that is not.
    """
    low = 0.0
    high = 1.0
    while is_below(high):
        low = high
        high = 2 * high
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if is_below(middle):
            low = middle
        else:
            high = middle
    return low, high


# From zCDP to (ε, δ) (G-16).


def rho_of_gaussian(mu: float) -> float:
    """Returns the least ρ for which every μ-GDP mechanism is ρ-zCDP.

    Dong, Roth and Su (2019), https://arxiv.org/abs/1905.02383, Corollary B.6.

    Args:
        mu: Gaussian-DP parameter.
    """
    return mu * mu / 2


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Computes ε of a ρ-zCDP mechanism (G-16).

    Every order α gives a bound, so the search need not be exact: a golden-section
    search over ln(α − 1) finds one that is about the least.

    Args:
        rho: ρ of the mechanism.
        delta: δ of the guarantee, in (0, 1).

    Returns:
        An ε ≥ 0 for which it is (ε, δ)-DP.
    """
    low = _MIN_LOG_EXCESS
    high = _MAX_LOG_EXCESS
    left = high - _GOLDEN_SECTION * (high - low)
    right = low + _GOLDEN_SECTION * (high - low)
    epsilon_at_left = _epsilon_at_order(left, rho, delta)
    epsilon_at_right = _epsilon_at_order(right, rho, delta)
    for _ in range(100):
        if epsilon_at_left <= epsilon_at_right:
            high = right
            right = left
            epsilon_at_right = epsilon_at_left
            left = high - _GOLDEN_SECTION * (high - low)
            epsilon_at_left = _epsilon_at_order(left, rho, delta)
        else:
            low = left
            left = right
            epsilon_at_left = epsilon_at_right
            right = low + _GOLDEN_SECTION * (high - low)
            epsilon_at_right = _epsilon_at_order(right, rho, delta)
    return max(min(epsilon_at_left, epsilon_at_right) * (1 + _SAFETY), 0.0)


def rho_for(epsilon: float, delta: float) -> float:
    """Computes how large ρ may be for a guarantee (G-16).

    Args:
        epsilon: ε of the guarantee, positive.
        delta: δ of the guarantee, in (0, 1).

    Returns:
        A lower bound on the largest ρ for which `zcdp_epsilon(ρ, delta)` is at most
        `epsilon`.
    """
    root, _ = _find_crossing(lambda rho: zcdp_epsilon(rho, delta) <= epsilon)
    # More than the safety of `zcdp_epsilon`, so that an event that is calibrated here
    # is found to cost no more than was asked.
    return root * (1 - 4 * _SAFETY)


def _epsilon_at_order(log_excess: float, rho: float, delta: float) -> float:
    """Computes the bound of G-16 at the order α = 1 + exp(log_excess)."""
    excess = math.exp(log_excess)
    alpha = 1 + excess
    return (
        alpha * rho
        + math.log1p(-1 / alpha)
        - (math.log(delta) + math.log(alpha)) / excess
    )
