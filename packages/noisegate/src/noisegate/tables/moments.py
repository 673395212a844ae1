"""Which second moments a plan asks for, and within which ranges, by what the first round released."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from noisegate.features.binning import Histogram
from noisegate.features.moments import Moments, moments_of
from noisegate.privacy.plan import Query
from noisegate.tables.design import Columns, Design
from noisegate.tables.released import Values

MOMENTS = "moments"
# A range leaves out so many records on each side, in the noise of an entry, and is then wider by a part of itself: what
# is clipped is off by less than its excess over the range, the noise grows with the range.
_TAIL, _LEAST_TAIL, _MOST_TAIL, _WIDER = 0.7, 5e-4, 0.05, 0.05


def moments_query(design: Design, columns: Columns, share: float) -> tuple[Query, ...]:
    """Returns the query of a plan about the second moments of some columns, as a plan takes several."""
    whole = moments_of(design.layout, columns)
    later = bool(design.bought)
    fixed = {"columns": 1, "norm": whole.norm, "share": share, "adaptive": later}
    return (Query(name=MOMENTS, dim=whole.dim, feature_map=None if later else whole, **fixed),)  # type: ignore[arg-type]


def moments_map(design: Design, columns: Columns, values: Values, stds: Mapping[str, float]) -> Moments:
    """Returns the map: columns with a histogram within the range where it says that records are."""
    found = design.first_histograms(values, stds) if design.bought else {}
    whole = moments_of(design.layout, columns)
    tail = _TAIL * stds[MOMENTS] / whole.weight
    ranges = {place: _range(design, place, one, tail) for place, one in found.items() if place in columns}
    return moments_of(design.layout, columns, ranges)


def _range(design: Design, place: int, histogram: Histogram, tail: float) -> tuple[float, float]:
    edges = np.asarray([0.0, *design.fine[place].cuts, 1.0])
    running = np.cumsum(histogram.masses)
    tail = min(max(tail, _LEAST_TAIL * running[-1]), _MOST_TAIL * running[-1])
    first = int(np.searchsorted(running, tail, side="right"))
    last = int(np.searchsorted(running, running[-1] - tail, side="left"))
    low, high = float(edges[first]), float(edges[min(last, len(edges) - 2) + 1])
    more = _WIDER * (high - low)
    return max(low - more, 0.0), min(high + more, 1.0)
