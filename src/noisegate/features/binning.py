"""Cells of a numeric column: intervals between public cuts, and one more for missing values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError


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
