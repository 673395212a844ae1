"""Ladders of cells along a numeric column: the questions of discovery. A value falls in one cell, or in none."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.schema.columns import Continuous, Date, Integer

FINE = 32
"""Cells of the second look."""

# Whole numbers beyond ±2⁵² are counted with those just inside: bounds of a schema are at most 2⁵³ apart.
_INTEGER_BITS = 52
# Decimal numbers below 2⁻¹²⁸ count as zero, beyond 2¹²⁸ with those just inside: the magnitudes that float32 can hold.
_SMALLEST, _LARGEST = -128, 128
_MICROSECONDS = 86_400_000_000
# Moments in a schema are at most 285 years apart.
_MOMENTS = (1850, 2130)
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, kw_only=True, eq=False)
class Ladder:
    """Cells [edges[i], edges[i + 1]) in ascending order.

    Attributes:
        edges: float64 or int64 (cells + 1,), strictly increasing, in the units of the column: numbers, days or
            microseconds since 1970.
        clamped: whether values beyond both ends count in the outermost cells; else they count nowhere.
        zero: the cell of zero, which no search for bounds crosses without evidence; None for times.
    """

    edges: npt.NDArray[Any]
    clamped: bool
    zero: int | None = None

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.edges) - 1

    def counts(self, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Returns how many of `values`, none of them NaN, fall in each cell, int64 (cells,)."""
        cells = np.searchsorted(self.edges, values, side="right") - 1
        inside = (cells >= 0) & (cells < self.size)
        cells = np.clip(cells, 0, self.size - 1) if self.clamped else cells[inside]
        return np.bincount(cells, minlength=self.size).astype(np.int64)

    def within(self, first: int, last: int) -> Ladder:
        """Returns at most `FINE` even cells from the cell `first` to the cell `last`, both included."""
        low, high = self.edges[first], self.edges[last + 1]
        if self.edges.dtype == np.int64:
            width = int(high) - int(low)
            edges = np.array(sorted({int(low) + width * i // FINE for i in range(FINE + 1)}), dtype=np.int64)
        else:
            edges = np.linspace(low, high, FINE + 1)
        return Ladder(edges=edges, clamped=False)


@cache
def ladder(kind: str) -> Ladder:
    """Returns the first look at a numeric column of this kind: powers of two on both sides of zero, or decades."""
    if kind == Continuous.kind:
        powers = np.exp2(np.arange(_SMALLEST, _LARGEST + 1))
        return Ladder(edges=np.concatenate([-powers[::-1], powers]), clamped=True, zero=len(powers) - 1)
    if kind == Integer.kind:
        powers = 2 ** np.arange(_INTEGER_BITS + 1, dtype=np.int64)
        return Ladder(edges=np.concatenate([1 - powers[::-1], powers]), clamped=True, zero=_INTEGER_BITS)
    if kind == Date.kind:
        years = [1, *range(10, 10_000, 10)]
        days = [date(year, 1, 1).toordinal() - _EPOCH for year in years] + [date.max.toordinal() + 1 - _EPOCH]
        return Ladder(edges=np.array(days, dtype=np.int64), clamped=True)
    first, last = _MOMENTS
    days = [date(year, 1, 1).toordinal() - _EPOCH for year in range(first, last + 1, 10)]
    return Ladder(edges=np.array(days, dtype=np.int64) * _MICROSECONDS, clamped=True)
