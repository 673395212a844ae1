"""What the discovery of a schema asks of private records, calibrated before the first of them is read.

A record touches at most one cell of each column, so that k columns have norm √k: *magnitudes* and then *cells* of the
numeric columns (G-13); and *levels* of the columns of text, of which those above a threshold leave (G-15).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from noisegate.errors import CalibrationError, OptionError
from noisegate.privacy import accounting
from noisegate.privacy.events import Event, GaussianEvent, Sampler, ThresholdedGaussianEvent
from noisegate.privacy.plan import Budget, PricedPlan
from noisegate.privacy.schema_certificate import RECORD, sensitivity_of

# Part of δ that the threshold may use; the noise needs little, and what the threshold uses of a ledger's δ is gone.
_THRESHOLD_PART = 0.1
# Where every record has a level of its own, as names, each is seen with this probability at most, whatever δ is.
_LARGEST_ODDS = 1e-9
# More levels than a column can have, one for each record. Certificates hold it, so it stays as it is.
_MOST_LEVELS = 2**41 - 1


@dataclass(frozen=True, kw_only=True, repr=False)
class DiscoveryPlan(PricedPlan):
    """Questions with noise that together cost at most `budget`. Made by `plan_discovery`."""

    magnitudes: GaussianEvent | None  # first look at the numeric columns, or None
    cells: GaussianEvent | None  # second look, inside the bounds that the first one found, or None
    levels: ThresholdedGaussianEvent | None  # counts of levels above a threshold, or None

    @property
    def events(self) -> tuple[Event, ...]:
        """What will be run, for the ledger and the certificate."""
        return tuple(event for event in (self.magnitudes, self.cells, self.levels) if event is not None)

    @property
    def noise_records(self) -> float:
        """Standard deviation of the noise on each count, in records; about the same for all questions."""
        return max(event.noise_std for event in (self.magnitudes, self.cells, self.levels) if event) / RECORD

    @property
    def threshold_records(self) -> float | None:
        """Noisy number of records that a level needs to be seen; None if no levels are asked for."""
        return None if self.levels is None else self.levels.threshold / RECORD


def plan_discovery(budget: Budget, *, magnitudes: Sequence[int], cells: int, texts: int) -> DiscoveryPlan:
    """Returns the plan with the least noise that keeps `budget`; every count gets about the same noise.

    Of each numeric column, `magnitudes` are the cells of the first look and `cells` those of the second; `texts`
    columns have levels to discover.
    """
    touched = 2 * len(magnitudes) + texts
    if not touched:
        raise OptionError("there is nothing to discover: bounds and levels of all columns are given.")
    odds = min(_THRESHOLD_PART * budget.delta, _LARGEST_ODDS) if texts else 0.0
    mu = accounting.mu_for(budget.epsilon + math.log1p(-odds), budget.delta - odds) * (1 - 1e-9)
    first = second = levels = None
    if magnitudes:
        sensitivity, std = _noise(budget, mu, columns=len(magnitudes), touched=touched)
        noise: dict[str, Any] = {"sensitivity": sensitivity, "noise_std": std, "sampler": Sampler.DISCRETE_GAUSSIAN}
        first = GaussianEvent(name="magnitudes", coordinates=sum(magnitudes), **noise)
        second = GaussianEvent(name="cells", coordinates=cells * len(magnitudes), **noise)
    if texts:
        sensitivity, std = _noise(budget, mu, columns=texts, touched=touched)
        levels = ThresholdedGaussianEvent(
            name="levels",
            sensitivity=sensitivity,
            noise_std=std,
            # Reached by a level of one record when its noise reaches threshold − RECORD; see accounting.threshold_odds.
            threshold=RECORD + 2 + math.ceil(-NormalDist().inv_cdf(odds / texts * (1 - 1e-6)) * std),
            weight=RECORD,
            keys=texts,
            coordinates=texts * _MOST_LEVELS,
            sampler=Sampler.DISCRETE_GAUSSIAN,
        )
    return DiscoveryPlan(budget=budget, magnitudes=first, cells=second, levels=levels)


def _noise(budget: Budget, mu: float, *, columns: int, touched: int) -> tuple[int, float]:
    """Returns sensitivity and noise, in grid units, of counts in which a record touches one cell of each column."""
    sensitivity = sensitivity_of(columns, budget.adjacency)
    ideal = sensitivity / (mu * math.sqrt(columns / touched))
    std = math.sqrt(ideal**2 + accounting.SMOOTHING_VARIANCE) * (1 + 1e-12)
    if not accounting.MINIMUM_STD <= std <= accounting.MAXIMUM_STD:
        raise CalibrationError(f"discovery would need noise of {std:g} grid units, outside [16, 2^50]; change epsilon.")
    return sensitivity, std
