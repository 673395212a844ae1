"""Fine cells of a numeric column, from its schema alone: what the histograms that are bought first count."""

from __future__ import annotations

import math

from noisegate.features.binning import NumericBins
from noisegate.schema import Continuous, NumericColumn
from noisegate.schema.positions import positions_of

MOST_FINE_CELLS = 1024
# In a longer column, microseconds of a century say, the last two steps are too close for a cut between them.
_DISTINCT = 2**50


def fine_bins(column: NumericColumn, *, most: int = MOST_FINE_CELLS) -> NumericBins:
    """Returns one cell for each whole step of a column where there are at most `most`, else about `most` equal ones.

    Where a cell holds more than one value, the two bounds are cells of their own: a zero often stands for "none", and
    clamped values pile up at both. Values between are cut evenly.
    """
    if isinstance(column, Continuous):
        inner = [place / most for place in range(1, most)]
        return NumericBins((math.ulp(0.0), *inner, math.nextafter(1.0, 0.0)), column.missing)
    import numpy as np

    first, last = column.steps
    count = last - first + 1
    if count <= most:
        starts = np.arange(first + 1, last + 1, dtype=np.int64)
    elif count > _DISTINCT:
        starts = np.asarray([first + place * count // most for place in range(1, most)], dtype=np.int64)
    else:
        groups = min(most, count - 2)
        inner = [first + 1 + place * (count - 2) // groups for place in range(groups)]
        starts = np.asarray([*inner, last], dtype=np.int64)
    # A cut half a step below the first step of its cell: no rounding of an encoded step can carry it across.
    below, at = positions_of(column, starts - 1), positions_of(column, starts)
    return NumericBins(tuple(((below + at) / 2).tolist()), column.missing)
