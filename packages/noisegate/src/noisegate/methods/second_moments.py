"""Second moments of some columns, as `infer` answers regressions by.

A number is scaled so that its range becomes −1 to 1. The noise of a moment grows with
the range, so where a column has a histogram, the range is cut to where records are seen
in it.
"""

from __future__ import annotations

import numpy as np

from noisegate.answers.design import (
    COARSE,
    HISTOGRAMS,
    Columns,
    Design,
    HistogramCounts,
)
from noisegate.answers.domain import Floats
from noisegate.answers.rounds import Rounds
from noisegate.privacy.plan import Query
from noisegate.queries.binning import NumericBins
from noisegate.queries.moments import Moments, moments_of

MOMENTS = "moments"
"""Name of the query."""

# From either end a range begins at the first cell in which, or up to which, there are
# more records than so many standard deviations of the noise.
_MIN_SIGNAL = 3.0

Range = tuple[float, float, float]
"""Positions of both ends, and about how many records may lie beyond either."""


def moments_query(design: Design, columns: Columns, budget_fraction: float) -> Query:
    """Returns the query of a plan about the second moments of some columns."""
    # The length and the norm do not depend on the ranges.
    full_range_map = moments_of(design.layout, columns)
    is_adaptive = bool(design.histogram_columns)
    return Query(
        name=MOMENTS,
        dim=full_range_map.dim,
        columns=1,
        norm=full_range_map.norm,
        share=budget_fraction,
        adaptive=is_adaptive,
        feature_map=None if is_adaptive else full_range_map,
    )


def moments_map(rounds: Rounds, columns: Columns) -> Moments:
    """Returns the map of the query, once the histograms are answered."""
    return moments_of(
        rounds.design.layout, columns, dict(moment_ranges(rounds, columns))
    )


def moment_ranges(rounds: Rounds, columns: Columns) -> list[tuple[int, Range]]:
    """Returns the range of each column with a histogram, by its number.

    Those that an earlier release decided go before.
    """
    design = rounds.design
    if design.decided:
        return [
            (column, tuple(column_range))
            for column, column_range in design.decided["ranges"]
        ]
    bins_by_query = design.histogram_cells.bins_by_query()
    ranges = []
    for column in design.histogram_columns:
        if column not in columns:
            continue
        # The coarse histogram where there is one, as it has less noise.
        query = HISTOGRAMS
        if column in rounds.released_histograms.get(COARSE, {}):
            query = COARSE
        histogram = rounds.released_histograms[query][column]
        ranges.append((column, _find_range(bins_by_query[query][column], histogram)))
    return ranges


def _find_range(bins: NumericBins, histogram: HistogramCounts) -> Range:
    """Finds where the records of a histogram are.

    From either end, the range begins at the edge of the first cell in which, or up to
    which, there are more records than `_MIN_SIGNAL` standard deviations of the noise.
    Where that leaves nothing, or takes nothing off, it is the whole range, 0 to 1.

    Args:
        bins: Its cells.
        histogram: Its noisy counts; those of missing values are left out.

    Returns:
        Positions of both ends, and about how many records may lie beyond either.
    """
    counts = histogram.counts[: len(bins.cuts) + 1]
    min_count = _MIN_SIGNAL * histogram.noise_std
    first = _first_with_records(counts, min_count)
    last = _first_with_records(counts[::-1], min_count)
    ends = np.asarray([0.0, *bins.cuts, 1.0])
    low = float(ends[first])
    high = float(ends[len(counts) - last])
    if low >= high or (low, high) == (0.0, 1.0):
        return 0.0, 1.0, 0.0
    return low, high, min_count


def _first_with_records(counts: Floats, min_count: float) -> int:
    """Finds the first cell in which, or up to which, there is more than noise.

    Args:
        counts: Noisy counts, (cells,).
        min_count: What counts as more than noise in one cell; that of a sum of n cells
            is √n times as large.
    """
    n_cells = np.arange(1, len(counts) + 1)
    is_seen = counts > min_count
    is_seen_in_sum = np.cumsum(counts) > min_count * np.sqrt(n_cells)
    return int((is_seen | is_seen_in_sum).argmax())
