"""What an attacker's success says of ε: lower bounds that are wrong with at most a stated chance, and their report."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.privacy import accounting
from noisegate.privacy import events as kinds
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import Adjacency, Event
from noisegate.privacy.plan import Budget


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """What an audit found."""

    method: str
    kind: str
    claim: float
    delta: float
    adjacency: str
    lower_bound: float
    """The ε that the attack shows to be exceeded, but for a chance of 1 − `confidence`: the larger part."""
    from_noise: float = 0.0  # that which rests on how loud the noise was measured to be
    from_guesses: float  # that which rests on how often the two worlds were told apart
    noise: tuple[float, float] = (0.0, math.inf)
    """Limits of the measured noise over the stated one, in all directions; (0, inf) where it cannot be told."""
    along: tuple[float, float] = (0.0, math.inf)
    """The same along the difference of the worlds, the smallest and largest of all questions."""
    runs: int  # how many runs there were, over both worlds
    confidence: float
    guessed: tuple[float, float] | None = None
    """Where one column of a record is guessed, how often right: in runs with the record, and without."""

    @classmethod
    def of(cls, method: str, kind: str, claim: Budget | Certificate, runs: int, chance: float, **told: Any) -> Self:
        """Returns what was `told` of a claim, wrong with at most a `chance`."""
        stated: dict[str, Any] = {"claim": claim.epsilon, "delta": claim.delta, "adjacency": claim.adjacency.value}
        return cls(method=method, kind=kind, **stated, runs=runs, confidence=1 - chance, **told)

    @property
    def exceeded(self) -> bool:
        """Whether the lower bound is above the claim."""
        return self.lower_bound > self.claim

    @property
    def too_little_noise(self) -> bool:
        """Whether the noise is surely smaller than stated."""
        return min(self.noise[1], self.along[1]) < 1

    @property
    def too_much_noise(self) -> bool:
        """Whether the noise is surely larger than stated: no danger, but not what was paid for."""
        return max(self.noise[0], self.along[0]) > 1

    @property
    def holds(self) -> bool:
        """Whether nothing was found: the claim is not exceeded, and the noise is as stated."""
        return not (self.exceeded or self.too_little_noise or self.too_much_noise)

    @property
    def verdict(self) -> str:
        """What was found, in words."""
        if self.exceeded:
            return "the claim is exceeded"
        if self.too_little_noise:
            return "less noise than stated"
        return "more noise than stated" if self.too_much_noise else "nothing found against the claim"

    def to_json(self) -> dict[str, Any]:
        """Returns the report as a JSON object."""
        told = {name: value for name, value in asdict(self).items() if value is not None}
        return {**told, "holds": self.holds, "verdict": self.verdict}


_DELTAS = (1e-3, 0.01, 0.03, 0.1, 0.3)  # where the trade-off of an attacker's errors is compared with the events'
_NEAR = 1.02  # relative width at which searches end, on the side that makes the bound smaller
_LARGEST = 64.0
Flags: TypeAlias = npt.NDArray[np.bool_]


def spread_limits(values: npt.ArrayLike, chance: float, *, degrees: int | None = None) -> tuple[float, float]:
    """Returns limits of the standard deviation of normal numbers of mean zero: below and above with `chance`/2."""
    # With `degrees`, `values` is the root of the sum of squares of so many numbers.
    from scipy import stats

    numbers = np.asarray(values, dtype=np.float64)
    count, total = numbers.size if degrees is None else degrees, float(np.square(numbers).sum())
    if not count:
        return 0.0, math.inf
    low, high = stats.chi2.isf(chance / 2, count), stats.chi2.ppf(chance / 2, count)
    return math.sqrt(total / low), math.sqrt(total / high)


def rate_limits(found: int, trials: int, chance: float) -> tuple[float, float]:
    """Returns limits of a probability, below and above with `chance`/2 (Clopper, Pearson 1934)."""
    from scipy import stats

    low = float(stats.beta.ppf(chance / 2, found, trials - found + 1)) if found else 0.0
    high = float(stats.beta.isf(chance / 2, found + 1, trials - found)) if found < trials else 1.0
    return low, high


def sensitivity_factor(
    events: Sequence[Event], adjacency: Adjacency, hits: Flags, alarms: Flags, chance: float
) -> float:
    """Returns the least factor on the sensitivity of events that lets an attacker be right as often."""
    # It is too large by a chance of `chance` only. `hits` tells for each run with the record, `alarms` for each
    # without, whether it was taken for one with it. 0 if guessing would do; at most 64, for an attacker that never
    # errs.
    power, _ = rate_limits(int(hits.sum()), hits.size, chance)
    _, false = rate_limits(int(alarms.sum()), alarms.size, chance)
    if power <= false:
        return 0.0

    def possible(factor: float) -> bool:
        larger = [scaled(event, factor) for event in events]
        # Where an attacker's threshold lies between both worlds, most is said close to the difference of both rates.
        for delta in (*_DELTAS, 0.98 * (power - false)):
            odds = math.exp(min(accounting.epsilon(larger, delta, adjacency), 700.0))
            # An attacker is as good on the complements.
            if power > odds * false + delta or 1 - false > odds * (1 - power) + delta:
                return False
        return True

    low, high = 1e-3, _LARGEST
    if not possible(high):
        return high
    while high > low * _NEAR:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if possible(middle) else (middle, high)
    return low


def scaled(event: Event, factor: float) -> Event:
    """Returns an event whose question is `factor` times as sensitive, or whose noise is so much smaller."""
    if isinstance(event, kinds.ZeroConcentratedEvent):
        return replace(event, rho=event.rho * factor**2)
    if isinstance(event, kinds.ThresholdedGaussianEvent):
        # Without its threshold, whose part of δ is far below what an attacker's rates can show.
        kept = {name: getattr(event, name) for name in ("name", "sensitivity", "noise_std", "coordinates")}
        event = kinds.GaussianEvent(**kept, sampler=kinds.Sampler.DISCRETE_GAUSSIAN)
    return replace(event, sensitivity=event.sensitivity * factor)


def one_run_epsilon(right: int, guesses: int, canaries: int, *, delta: float, chance: float) -> float:
    """Returns the largest ε that `right` of some `guesses` in one run refute, but for `chance`.

    Canaries are put in by fair coins; those without a guess say nothing. It assumes nothing of the mechanism: Steinke,
    Nasr and Jagielski (NeurIPS 2023), https://arxiv.org/abs/2305.08846, Theorem 5.2.
    """
    from scipy import stats

    low, high = 0.0, 50.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        guessed = stats.binom(guesses, 1 / (1 + math.exp(-middle)))
        beyond = float(guessed.sf(right - 1))
        places = np.arange(1, right + 1)
        more = float(np.max((guessed.sf(right - 1 - places) - beyond) / places, initial=0.0))
        refuted = beyond + 2 * canaries * delta * more <= chance
        low, high = (middle, high) if refuted else (low, middle)
    return low


def right_guesses(coins: Flags, scores: npt.NDArray[np.float64], guesses: int) -> int:
    """Returns how many are right when the highest half of `guesses` scores is guessed in, and the lowest half out."""
    order = np.argsort(scores)
    return int((~coins[order[: guesses // 2]]).sum() + coins[order[-(guesses // 2) :]].sum())
