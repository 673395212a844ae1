"""How many records lie below each cut of a number, from all counts of it: fine cells, coarse ones and those of tables.

A sum of many fine cells has much noise. So each is counted from the nearest cut at which a coarser count is known, from
below or from above, whichever has the least noise in all. Intervals of quantiles are Woodruff's (JASA 1952): those of
the share below, turned around; the ends of the cells in which they lie are taken, since nothing is known within.
"""

import math
from dataclasses import dataclass

import numpy as np

from noisegate.features.binning import NumericBins
from noisegate.inference.evidence import Evidence
from noisegate.models.within_cell import ends_of
from noisegate.schema.layout import numbers_at
from noisegate.tables.released import Floats


@dataclass(frozen=True, kw_only=True)
class Cumulative:
    """Shares of the records with a number that lie in or below each of its cells, (cells,)."""

    shares: Floats  # the estimates, ascending
    noise: Floats  # their standard errors by the noise
    records: float  # how many records have a number
    low: Floats  # the least number of each cell
    high: Floats  # the largest one

    def sampling(self, share: float) -> float:
        """Returns the standard error of a share as records are sampled."""
        return math.sqrt(share * (1 - share) / self.records)

    def quantile(self, probability: float, times: float, *, finite: bool) -> tuple[float, float, float]:
        """Returns a quantile and the ends of its interval, `times` standard errors of the share below it wide."""
        at = self._cell(probability)
        error = math.hypot(float(self.noise[at]), 0.0 if finite else self.sampling(probability))
        below, above = (self._cell(probability + side * times * error) for side in (-1, 1))
        before = float(self.shares[at - 1]) if at else 0.0
        part = min(max((probability - before) / max(float(self.shares[at]) - before, 1e-12), 0.0), 1.0)
        value = float(self.low[at] + part * (self.high[at] - self.low[at]))
        return value, min(value, float(self.low[below])), max(value, float(self.high[above]))

    def _cell(self, share: float) -> int:
        return min(int(np.searchsorted(self.shares, share)), len(self.shares) - 1)


def cumulative(evidence: Evidence, place: int) -> Cumulative:
    """Returns how many records lie below the cuts of a numeric column."""
    column = evidence.layout.numeric[place]
    bins, counted = evidence.bins[place], evidence.table((place,))
    if counted is None:
        counts, variance = np.zeros(bins.size), math.inf
    else:
        counts, variance = counted.counts, counted.variance
    cuts, fine, fine_variance = evidence.fine_counts(place)
    anchors = [(0, 0.0, 0.0)]
    total, total_variance = evidence.records
    present = len(bins.cuts) + 1
    if bins.nullable:
        total, total_variance = total - float(counts[-1]), total_variance + variance
    anchors += _anchors(cuts, bins, counts[:present], variance)
    for coarse, few, few_variance in evidence.coarse_counts(place):
        anchors += _anchors(cuts, coarse, few, few_variance)
    anchors.append((len(fine), total, total_variance))
    ends, running = np.arange(1, len(fine) + 1), np.concatenate([[0.0], np.cumsum(fine)])
    found, best = np.zeros(len(fine)), np.full(len(fine), np.inf)
    for at, value, known in anchors:
        off = known + np.abs(ends - at) * fine_variance
        better = off < best
        found[better] = (value + running[1:] - running[at])[better]
        best[better] = off[better]
    total = max(total, math.sqrt(total_variance), 1.0)
    shares = np.clip(found / total, 0, 1)
    # Ascending: between the least curve above and the largest below.
    shares = (np.maximum.accumulate(shares) + np.minimum.accumulate(shares[::-1])[::-1]) / 2
    noise = np.sqrt(best + shares**2 * total_variance) / total
    low, high, _ = ends_of(column, np.asarray([0.0, *cuts, 1.0]))
    ends_low, ends_high = (numbers_at(column, at).astype(np.float64) for at in (low, high))
    return Cumulative(shares=shares, noise=noise, records=total, low=ends_low, high=ends_high)


def _anchors(
    cuts: tuple[float, ...], bins: NumericBins, counts: Floats, variance: float
) -> list[tuple[int, float, float]]:
    """Returns (fine cells below, records below, variance) at the cuts of coarser cells."""
    at = np.searchsorted(cuts, bins.cuts) + 1
    below = np.cumsum(counts)[:-1]
    return [(int(a), float(value), (k + 1) * variance) for k, (a, value) in enumerate(zip(at, below, strict=True))]
