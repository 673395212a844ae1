"""How many records lie below each cut of a number, from all counts of it: fine cells, coarse ones and those of tables.

A sum of many fine cells has much noise. So each is counted from the nearest cut at which a coarser count is known, from
below or from above, whichever has the least noise in all. Intervals of quantiles are Woodruff's (JASA 1952): those of
the share below, turned around; the ends of the cells in which they lie are taken, since nothing is known within.

And regressions whose mean is no linear function: by records of the model, weighted to have the released moments.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from noisegate.answers.cells import ends_of
from noisegate.answers.evidence import Evidence, Sums
from noisegate.answers.released import Floats
from noisegate.queries.binning import NumericBins
from noisegate.schema import EncodedTable
from noisegate.schema.layout import numbers_at


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

    def quantile(
        self, probability: float, times: float, *, finite: bool
    ) -> tuple[float, float, float]:
        """Returns a quantile and the ends of its interval, `times` standard errors of the share below it wide."""
        at = self._cell(probability)
        error = math.hypot(
            float(self.noise[at]), 0.0 if finite else self.sampling(probability)
        )
        below, above = (
            self._cell(probability + side * times * error) for side in (-1, 1)
        )
        before = float(self.shares[at - 1]) if at else 0.0
        part = min(
            max(
                (probability - before) / max(float(self.shares[at]) - before, 1e-12),
                0.0,
            ),
            1.0,
        )
        value = float(self.low[at] + part * (self.high[at] - self.low[at]))
        return (
            value,
            min(value, float(self.low[below])),
            max(value, float(self.high[above])),
        )

    def _cell(self, share: float) -> int:
        return min(int(np.searchsorted(self.shares, share)), len(self.shares) - 1)


def cumulative(evidence: Evidence, place: int) -> Cumulative:
    """Returns how many records lie below the cuts of a numeric column."""
    column = evidence.layout.numeric[place]
    bins, counted = evidence.bins[place], evidence.table((place,))
    if counted is None:
        counts, variance = np.zeros(bins.size), math.inf
    else:
        counts, variance = counted.counts, float(counted.variance.max())
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
    ends, running = (
        np.arange(1, len(fine) + 1),
        np.concatenate([[0.0], np.cumsum(fine)]),
    )
    found, best = np.zeros(len(fine)), np.full(len(fine), np.inf)
    for at, value, known in anchors:
        off = known + np.abs(ends - at) * fine_variance
        better = off < best
        found[better] = (value + running[1:] - running[at])[better]
        best[better] = off[better]
    total = max(total, math.sqrt(total_variance), 1.0)
    shares = np.clip(found / total, 0, 1)
    # Ascending: between the least curve above and the largest below.
    shares = (
        np.maximum.accumulate(shares) + np.minimum.accumulate(shares[::-1])[::-1]
    ) / 2
    noise = np.sqrt(best + shares**2 * total_variance) / total
    low, high, _ = ends_of(column, np.asarray([0.0, *cuts, 1.0]))
    ends_low, ends_high = (
        numbers_at(column, at).astype(np.float64) for at in (low, high)
    )
    return Cumulative(
        shares=shares, noise=noise, records=total, low=ends_low, high=ends_high
    )


def _anchors(
    cuts: tuple[float, ...], bins: NumericBins, counts: Floats, variance: float
) -> list[tuple[int, float, float]]:
    """Returns (fine cells below, records below, variance) at the cuts of coarser cells."""
    at = np.searchsorted(cuts, bins.cuts) + 1
    below = np.cumsum(counts)[:-1]
    return [
        (int(a), float(value), (k + 1) * variance)
        for k, (a, value) in enumerate(zip(at, below, strict=True))
    ]


Link = tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]
"""The mean of an outcome by its score, and by that mean how it grows with the score."""

_NEWTON, _MOST = 30, 50.0


def calibrated(
    sums: Sums, sample: EncodedTable, terms: Sequence[int], link: Link
) -> tuple[Callable[[Floats, Floats], Floats], Callable[[Floats], Floats]]:
    """Returns what solves X'y/n = Σ w x μ(x'β) for β, given sums and X'y/n; NaN where there is no solution.

    And the covariance of a solution by the sampling of the model's records: of what xμ has beside its regression on the
    products, since their sums are those released.

    Weights are linear, 1 + (products − mean) λ, with the λ that gives the released products of the regressors (Deville
    and Särndal, JASA 1992, https://doi.org/10.2307/2290268). What the model gets wrong counts only as far as μ is no
    quadratic function.
    """
    design = sums.terms.terms_of(sample)[:, terms].astype(np.float64)
    inside = np.flatnonzero(np.isin(sums.terms.entries, terms).all(axis=0))
    products = sums.terms.products(sample)[:, inside].astype(np.float64)
    mean, (means_of, slope_of) = products.mean(axis=0), link
    # Products that others imply have no direction of their own.
    turn = np.linalg.pinv(
        np.cov(products, rowvar=False).reshape(len(inside), -1),
        rcond=1e-6,
        hermitian=True,
    )
    calibrate = (products - mean) @ turn
    undefined, start = np.full(len(terms), np.nan), np.zeros(len(terms))

    def solved(values: Floats, wanted: Floats) -> Floats:
        nonlocal start
        if values[0] <= 0:
            return undefined
        weights = 1 + calibrate @ (values[inside] / values[0] - mean)
        found = start
        with np.errstate(all="ignore"):
            for _ in range(_NEWTON):
                means = means_of(design @ found)
                hessian = (
                    (design * (weights * slope_of(means))[:, None]).T
                    @ design
                    / len(design)
                )
                try:
                    step = np.linalg.solve(
                        hessian, wanted - design.T @ (weights * means) / len(design)
                    )
                except np.linalg.LinAlgError:
                    return undefined
                found = found + step / max(1.0, float(np.abs(step).max()))
                if not np.isfinite(found).all() or np.abs(found).max() > _MOST:
                    return undefined
                if np.abs(step).max() < 1e-9:
                    if (
                        not start.any()
                    ):  # the first is asked at what was released: others are near it
                        start = found
                    return found
        return undefined

    def sampled(found: Floats) -> Floats:
        if not np.isfinite(found).all():
            return np.zeros((len(terms), len(terms)))
        means = means_of(design @ found)
        hessian = (design * slope_of(means)[:, None]).T @ design / len(design)
        left = design * means[:, None]
        left = left - left.mean(axis=0)
        left -= calibrate @ ((products - mean).T @ left) / len(design)
        bread = np.linalg.pinv(hessian)
        return np.asarray(bread @ (left.T @ left) @ bread / len(design) ** 2)

    return solved, sampled
