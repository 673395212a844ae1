"""Lower bounds on ε and on noise, that hold but for a stated chance, from answers that were seen and guesses."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.privacy import accounting
from noisegate.privacy import events as kinds
from noisegate.privacy.events import Adjacency, Event

# Where the trade-off of an attacker's errors is compared with the events'.
_DELTAS = (1e-3, 0.01, 0.03, 0.1, 0.3)
# Relative width at which searches end, on the side that makes the bound smaller.
_NEAR = 1.02
_LARGEST = 64.0
Flags: TypeAlias = npt.NDArray[np.bool_]


def spread_limits(
    values: npt.ArrayLike, chance: float, *, degrees: int | None = None
) -> tuple[float, float]:
    """Returns limits of the standard deviation of normal numbers of mean zero: below and above with `chance`/2."""
    # With `degrees`, `values` is the root of the sum of squares of so many numbers.
    from scipy import stats

    numbers = np.asarray(values, dtype=np.float64)
    count = numbers.size if degrees is None else degrees
    total = float(np.square(numbers).sum())
    if not count:
        return 0.0, math.inf
    low = stats.chi2.isf(chance / 2, count)
    high = stats.chi2.ppf(chance / 2, count)
    return math.sqrt(total / low), math.sqrt(total / high)


def rate_limits(found: int, trials: int, chance: float) -> tuple[float, float]:
    """Returns limits of a probability, below and above with `chance`/2 (Clopper, Pearson 1934)."""
    from scipy import stats

    interval = stats.binomtest(found, trials).proportion_ci(1 - chance, method="exact")
    return float(interval.low), float(interval.high)


def sensitivity_factor(
    events: Sequence[Event],
    adjacency: Adjacency,
    hits: Flags,
    alarms: Flags,
    chance: float,
) -> float:
    """Returns the least factor on the sensitivity of events that lets an attacker be right as often.

    Args:
        events: What the certificate states of a run.
        adjacency: Which records neighbours differ in.
        hits: Of each run with the record, whether it was taken for one with it.
        alarms: The same of each run without the record.
        chance: The chance that the factor is too large.

    Returns:
        The factor: 0 if guessing would do; at most 64, for an attacker that never errs.
    """
    power, _ = rate_limits(int(hits.sum()), hits.size, chance)
    _, false_rate = rate_limits(int(alarms.sum()), alarms.size, chance)
    if power <= false_rate:
        return 0.0
    # Where an attacker's threshold lies between both worlds, most is said close to the difference of both rates.
    deltas = (*_DELTAS, 0.98 * (power - false_rate))

    def is_possible(factor: float) -> bool:
        larger = [more_sensitive(event, factor) for event in events]
        for delta in deltas:
            odds = math.exp(min(accounting.epsilon(larger, delta, adjacency), 700.0))
            # An attacker is as good on the complements.
            if (
                power > odds * false_rate + delta
                or 1 - false_rate > odds * (1 - power) + delta
            ):
                return False
        return True

    low = 1e-3
    high = _LARGEST
    if not is_possible(high):
        return high
    while high > low * _NEAR:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if is_possible(middle) else (middle, high)
    return low


def more_sensitive(event: Event, factor: float) -> Event:
    """Returns an event whose question is `factor` times as sensitive, or whose noise is so much smaller."""
    if isinstance(event, kinds.ZeroConcentrated):
        return replace(event, rho=event.rho * factor**2)
    if isinstance(event, kinds.Thresholded):
        # Without its threshold, whose part of δ is far below what an attacker's rates can show.
        event = event.event
    sensitivity = kinds.gaussian_of(event).sensitivity * factor
    return kinds.replace_gaussian(event, sensitivity=sensitivity)


def one_run_epsilon(
    right: int, guesses: int, canaries: int, *, delta: float, chance: float
) -> float:
    """Returns the largest ε that `right` of some `guesses` in one run refute, but for `chance`.

    Canaries are put in by fair coins; those without a guess say nothing. It assumes nothing of the mechanism: Steinke,
    Nasr and Jagielski (NeurIPS 2023), https://arxiv.org/abs/2305.08846, Theorem 5.2.
    """
    from scipy import stats

    low = 0.0
    high = 50.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        guessed = stats.binom(guesses, 1 / (1 + math.exp(-middle)))
        beyond = float(guessed.sf(right - 1))
        places = np.arange(1, right + 1)
        more = float(
            np.max((guessed.sf(right - 1 - places) - beyond) / places, initial=0.0)
        )
        refuted = beyond + 2 * canaries * delta * more <= chance
        low, high = (middle, high) if refuted else (low, middle)
    return low


def count_right_guesses(
    coins: Flags, scores: npt.NDArray[np.float64], guesses: int
) -> int:
    """Returns how many are right when the highest half of `guesses` scores is guessed in, and the lowest half out."""
    order = np.argsort(scores)
    half = guesses // 2
    return int((~coins[order[:half]]).sum() + coins[order[-half:]].sum())


def beyond_best_threshold(
    scores: npt.NDArray[np.float64], worlds: npt.NDArray[np.int_], is_learnt: Flags
) -> Flags:
    """Returns which runs lie where world 1 is, on one side of the threshold that parts those learnt from best."""
    learnt_scores = scores[is_learnt]
    is_one = worlds[is_learnt] == 1
    order = np.argsort(learnt_scores)
    ones = np.cumsum(is_one[order]) / max(is_one.sum(), 1)
    zeros = np.cumsum(~is_one[order]) / max((~is_one).sum(), 1)
    gaps = zeros - ones
    best = int(np.argmax(np.abs(gaps)))
    threshold = learnt_scores[order][best : best + 2].mean()
    is_above: Flags = scores > threshold
    return is_above if gaps[best] > 0 else ~is_above
