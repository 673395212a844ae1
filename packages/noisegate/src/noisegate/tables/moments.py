"""Which second moments a plan asks for, and within which ranges, by what the first round released."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from noisegate.features.binning import NumericBins
from noisegate.features.moments import Moments, moments_of
from noisegate.privacy.plan import Query
from noisegate.tables.design import Columns, Design
from noisegate.tables.released import Table, Values

MOMENTS = "moments"
# From either end a range begins at the first coarse cell in which, or up to which, there are more records than so many
# standard deviations of the noise: the noise of a moment grows with the range.
_SEEN = 3.0


def moments_query(design: Design, columns: Columns, share: float) -> tuple[Query, ...]:
    """Returns the query of a plan about the second moments of some columns, as a plan takes several."""
    whole = moments_of(design.layout, columns)
    later = bool(design.bought)
    fixed = {"columns": 1, "norm": whole.norm, "share": share, "adaptive": later}
    return (Query(name=MOMENTS, dim=whole.dim, feature_map=None if later else whole, **fixed),)  # type: ignore[arg-type]


def moments_map(design: Design, columns: Columns, values: Values, stds: Mapping[str, float]) -> Moments:
    """Returns the map: columns with a histogram within the range where it says that records are."""
    return moments_of(design.layout, columns, dict(moments_ranges(design, columns, values, stds)))


def moments_ranges(
    design: Design, columns: Columns, values: Values, stds: Mapping[str, float]
) -> list[tuple[int, tuple[float, float, float]]]:
    """Returns these ranges, by column."""
    if design.fixed:
        return [(place, tuple(ends)) for place, ends in design.fixed["ranges"]]
    found = design.released_histograms(values, stds) if design.bought else {}
    return [(place, _range(*cells[-1])) for place, cells in found.items() if place in columns]


def _range(bins: NumericBins, table: Table) -> tuple[float, float, float]:
    """Returns the ends of a range, and about how many records may lie beyond either."""
    counts, least = table.counts[: len(bins.cuts) + 1], _SEEN * table.noise_std
    ends, far = np.asarray([0.0, *bins.cuts, 1.0]), np.sqrt(np.arange(1, len(counts) + 1))
    first, last = (int(((each > least) | (np.cumsum(each) > least * far)).argmax()) for each in (counts, counts[::-1]))
    low, high = float(ends[first]), float(ends[len(counts) - last])
    return (low, high, least if (low, high) != (0.0, 1.0) else 0.0) if low < high else (0.0, 1.0, 0.0)
