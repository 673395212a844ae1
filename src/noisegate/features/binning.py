"""Cells of a numeric column: intervals between public cuts, and one more for missing values.

`fine_bins` are those of the histograms that are bought first, from the schema alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.schema import Continuous, NumericColumn
from noisegate.schema.columns import positions_of

MOST_FINE_CELLS = 1024
# In a longer column, microseconds of a century say, the last two steps are too close for a cut between them.
_DISTINCT = 2**50


@dataclass(frozen=True)
class NumericBins:
    """Intervals of a numeric column, in encoded units: 0 is its lower bound, 1 its upper one.

    Every value falls into exactly one cell, whatever it is: the first and the last interval have no outer end, and a
    value on a cut belongs to the interval above it.

    Attributes:
        cuts: Interior cuts, strictly increasing, in (0, 1); m cuts make m + 1 intervals. Public.
        nullable: Whether there is one more, last, cell for missing values. Without it NaN is counted in the last
            interval.

    Raises:
        OptionError: if the cuts are not strictly increasing in (0, 1).
    """

    cuts: tuple[float, ...]
    nullable: bool = False

    def __post_init__(self) -> None:
        ends = (0.0, *self.cuts, 1.0)
        for place, (left, right) in enumerate(pairwise(ends)):
            if not (math.isfinite(right) and left < right):
                raise OptionError(
                    f"cuts: cut {min(place, len(self.cuts) - 1)} of {len(self.cuts)} is out of order; cuts must be "
                    "strictly increasing and lie between 0 and 1, in encoded units."
                )

    @property
    def size(self) -> int:
        """Number of cells, the one for missing values included."""
        return len(self.cuts) + 1 + self.nullable

    @cached_property
    def _cuts(self) -> npt.NDArray[np.float64]:
        return np.asarray(self.cuts, dtype=np.float64)

    def codes(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int32]:
        """Returns the cell of each value, (rows,); NaN goes to the last cell."""
        # NaN is sorted behind everything, hence into the last interval.
        codes: npt.NDArray[np.int32] = np.searchsorted(self._cuts, values, side="right").astype(np.int32)
        if self.nullable:
            codes[np.isnan(values)] = self.size - 1
        return codes


def fine_bins(column: NumericColumn, *, most: int = MOST_FINE_CELLS) -> NumericBins:
    """Returns one cell for each whole step of a column where there are at most `most`, else about `most` equal ones.

    Where a cell holds more than one value, the two bounds are cells of their own: a zero often stands for "none", and
    clamped values pile up at both. Values between are cut evenly.
    """
    if isinstance(column, Continuous):
        inner = [place / most for place in range(1, most)]
        return NumericBins((math.ulp(0.0), *inner, math.nextafter(1.0, 0.0)), column.missing)
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


def equal_bins(column: NumericColumn, most: int) -> NumericBins:
    """Returns cells from public knowledge alone: one for each step if that makes at most `most`, else equal widths."""
    width = most if isinstance(column, Continuous) else column.steps[1] - column.steps[0]
    cuts = (np.arange(width) + 0.5) / width if width < most else np.arange(1, most) / most
    return NumericBins(cuts=tuple(cuts.tolist()), nullable=column.missing)
