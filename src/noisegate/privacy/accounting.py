"""Events to (ε, δ). The only file that turns what was run into a guarantee.

Guarantee G-03 (accounting). `epsilon(events, delta)` is an upper bound: the composition of `events` is (ε, δ)-DP.

* Gaussian events compose exactly, by `privacy.gaussian`; so do events on samples that hold every record (rate 1).
* Other Poisson-sampled events, together with any Gaussian ones, go through `privacy.composition`, whose numerical error
  is proved and charged. Nothing falls back to a looser accountant: what cannot be accounted is refused.
* ρ-zCDP events add up, Gaussian events being ρ-zCDP too, and go through `privacy.zero_concentrated`. Together with
  Poisson-sampled events they are refused.
* Each sampler's distance from the ideal Gaussian is charged, as proved in docs/guarantees.md:
  a *discrete* Gaussian of standard deviation s (grid units) is charged as a continuous one of √(s² − 4), and a factor
  e^κ on probabilities with κ = coordinates·ln((1+η)/(1−η)), η = 2·exp(−8π²)/(1−exp(−8π²)) (G-04);
  a *rounded* float64 Gaussian is charged a total-variation distance of 2⁻⁴² a coordinate, which adds
  (1 + e^ε)·coordinates·2⁻⁴² to δ (G-05);
  a *convolved* Gaussian is charged like a discrete one, with a larger κ and a distance of 2⁻²⁷⁷ a coordinate (G-18).
* A threshold on counts of unlisted keys composes like the Gaussian noise on them; the chance q that it lets through a
  key of one record alone adds q to δ and −ln(1 − q) to ε (G-15).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from noisegate.errors import CalibrationError
from noisegate.privacy import gaussian, zero_concentrated
from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.events import (
    Event,
    GaussianEvent,
    SampledGaussianEvent,
    Sampler,
    ThresholdedGaussianEvent,
    ZeroConcentratedEvent,
)

# Variance, in squared grid units, given up in the proof that the discrete Gaussian is post-processing of a continuous
# one.
SMOOTHING_VARIANCE = 4.0
_ETA = 2 * math.exp(-2 * math.pi**2 * SMOOTHING_VARIANCE) / (1 - math.exp(-2 * math.pi**2 * SMOOTHING_VARIANCE))
_KAPPA = 2 * _ETA / (1 - _ETA)  # at least ln((1+η)/(1−η))
# Total-variation distance of one rounded float64 draw from the ideal rounded Gaussian.
ROUNDED_DISTANCE = 2.0**-42
# A convolved draw: up to six table draws of 2⁻²⁸⁰ each, and two factors of (1 + η) for each, beside the smoothing's.
_CONVOLVED_DISTANCE, _CONVOLVED_KAPPAS = 2.0**-277, 8
# Grid units: below, the proofs of both samplers say nothing; above, 64-bit sums could overflow.
MINIMUM_STD, MAXIMUM_STD = 16.0, 2.0**50
_MOST_STEPS = 10**9


def effective_multiplier(event: GaussianEvent | SampledGaussianEvent | ThresholdedGaussianEvent) -> float:
    """Returns the noise multiplier of the ideal Gaussian that `event` is charged as.

    Raises:
        CalibrationError: if the noise is too small in grid units for the sampler's proof.
    """
    if not MINIMUM_STD <= event.noise_std <= MAXIMUM_STD:
        raise CalibrationError(
            f"event {event.name!r}: noise_std={event.noise_std:g} grid units is outside [{MINIMUM_STD:g}, "
            f"{MAXIMUM_STD:g}]; no guarantee is proved there."
        )
    if event.sampler in (Sampler.DISCRETE_GAUSSIAN, Sampler.CONVOLVED_GAUSSIAN):
        return math.sqrt(event.noise_std**2 - SMOOTHING_VARIANCE) / event.sensitivity
    return event.noise_multiplier


def sampler_slack(events: Sequence[Event], epsilon: float) -> tuple[float, float]:
    """Returns what samplers and thresholds cost beside the ideal noise: (added to ε, added to δ) at this ε."""
    kappa = distance = 0.0
    for event in events:
        if isinstance(event, ZeroConcentratedEvent):
            continue  # its ρ is of the noise as it was drawn
        draws = event.coordinates * (event.steps if isinstance(event, SampledGaussianEvent) else 1)
        if event.sampler is Sampler.DISCRETE_GAUSSIAN:
            kappa += draws * _KAPPA
        elif event.sampler is Sampler.CONVOLVED_GAUSSIAN:
            kappa += draws * _CONVOLVED_KAPPAS * _KAPPA
            distance += draws * _CONVOLVED_DISTANCE
        else:
            distance += draws * ROUNDED_DISTANCE
    odds = threshold_odds(events)
    let_through = -math.log1p(-odds) if odds < 1 else math.inf
    factor = 1 + math.exp(epsilon + let_through) if epsilon + let_through < 700 else math.inf
    return 2 * kappa + let_through, odds + (distance * factor if distance else 0.0)


def threshold_odds(events: Sequence[Event]) -> float:
    """Returns an upper bound on the probability that a key of one record alone passes any threshold in `events`.

    Its count is `weight`, so the noise must reach m = threshold − weight; a discrete Gaussian does so at most as often
    as a continuous one reaches m − 1, for m ≥ 1 (G-15).
    """
    odds = 0.0
    for event in events:
        if isinstance(event, ThresholdedGaussianEvent):
            above = event.threshold - event.weight - 1
            tail = 0.5 * math.erfc(above / event.noise_std / math.sqrt(2)) if above >= 0 else 1.0
            odds += event.keys * tail * (1 + 1e-9)
    return odds


def epsilon(events: Sequence[Event], delta: float, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> float:
    """Returns an upper bound on ε for which the composition of `events` is (ε, δ)-DP.

    Args:
        events: What was run, in any order; each already states its sensitivity under `adjacency`.
        delta: In (0, 1).
        adjacency: Needed for Poisson-sampled events, whose analysis depends on it.

    Returns:
        ε ≥ 0; infinity when the samplers alone cost more than `delta`.
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


def _ideal_epsilon(events: Sequence[Event], delta: float, adjacency: Adjacency) -> float:
    sampled = [event for event in events if isinstance(event, SampledGaussianEvent) and event.rate < 1]
    whole = [event for event in events if isinstance(event, SampledGaussianEvent) and event.rate == 1]
    concentrated = [event for event in events if isinstance(event, ZeroConcentratedEvent)]
    if concentrated and (sampled or whole):
        raise CalibrationError(
            f"event {concentrated[0].name!r} is stated in zCDP and {(sampled or whole)[0].name!r} is of Poisson "
            "samples: no bound is proved for them together. Choose other methods for this data set."
        )
    gaussians = [event for event in events if isinstance(event, GaussianEvent | ThresholdedGaussianEvent)]
    mu = _mu([*_sensitivities(gaussians), *_norms(whole, adjacency)])
    if sampled:
        return _sampled_epsilon(mu, tuple(sampled), delta, adjacency)
    if not concentrated:
        return gaussian.epsilon_of(mu, delta)
    rho = math.fsum(event.rho for event in concentrated) + zero_concentrated.rho_of_gaussian(mu)
    return zero_concentrated.epsilon_of(rho * (1 + 1e-14), delta)


def total_mu(events: Sequence[GaussianEvent | ThresholdedGaussianEvent]) -> float:
    """Returns the Gaussian-DP parameter of the composition of Gaussian events, √(Σ (Δᵢ/σᵢ)²)."""
    return _mu(_sensitivities(events))


def _mu(squares: Sequence[float]) -> float:
    return math.sqrt(math.fsum(squares)) * (1 + 1e-14)


def _sensitivities(events: Sequence[GaussianEvent | ThresholdedGaussianEvent]) -> list[float]:
    """Returns μ² of each Gaussian event."""
    return [effective_multiplier(event) ** -2 for event in events]


def _norms(events: Sequence[SampledGaussianEvent], adjacency: Adjacency) -> list[float]:
    """Returns μ² of each event whose samples hold every record: a replaced record moves a sum by twice its norm."""
    moved = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return [event.steps * (moved / effective_multiplier(event)) ** 2 for event in events]


@lru_cache(maxsize=4)
def _sampled_epsilon(mu: float, events: tuple[SampledGaussianEvent, ...], delta: float, adjacency: Adjacency) -> float:
    """Returns ε of samples and a Gaussian mechanism; takes up to a second, and NumPy, which other events do without."""
    from noisegate.privacy import composition
    from noisegate.privacy.step_losses import Pair, Steps

    if delta < composition.LEAST_DELTA:
        raise CalibrationError(
            f"delta={delta:g} is below {composition.LEAST_DELTA:g}, the least for which steps on Poisson samples are "
            "accounted; raise delta."
        )
    if sum(event.steps for event in events) > _MOST_STEPS:
        raise CalibrationError(f"event {events[0].name!r}: above {_MOST_STEPS:g} steps no bound is computed.")
    steps = [
        Steps(rate=event.rate, shift=(1 + 1e-14) / effective_multiplier(event), count=event.steps) for event in events
    ]
    if mu > 0:
        steps.append(Steps(rate=1.0, shift=mu, count=1))
    # What a record may do to a sample: be in it or not, in one of the neighbours; or be another one in the other.
    present, absent, replaced = (Pair(upper=u, lower=v) for u, v in ((True, False), (False, True), (True, True)))
    pairs = (replaced,) if adjacency is Adjacency.REPLACE_ONE else (present, absent)
    return composition.epsilon_of(steps, pairs, delta)
