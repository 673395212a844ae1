"""From noisy counts along a ladder to bounds: which cells stand out of the noise. Uses released values alone (G-08)."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.gate.queries.ladders import Ladder

Counts: TypeAlias = npt.NDArray[np.float64]

_FALSE_CELL = 1e-3
"""Chance that some empty cell of a ladder is taken for an occupied one."""

_SOMETHING, _NOTHING = 2.0, 1.5
"""Standard deviations of noise: more than the first beside an occupied cell, less than the second at an end."""


def threshold(std: float, cells: int) -> float:
    """Returns the noisy count that, of so many empty cells, one passes with probability at most 1/1000."""
    return -NormalDist().inv_cdf(_FALSE_CELL / cells) * std


@dataclass(frozen=True, kw_only=True)
class Occupied:
    """Which cells of a first look are taken to hold records.

    Attributes:
        first: The first cell.
        last: The last cell.
        sure: The first and the last cell that are above the threshold.
    """

    first: int
    last: int
    sure: tuple[int, int]


def occupied(noisy: Counts, std: float, zero: int | None) -> Occupied | None:
    """Returns the cells that are taken to hold records, or None where nothing stands out.

    Sure are the cells above `threshold`, and all between them. The cell beyond is taken in too while it is above two
    standard deviations: a cell too many makes the second look coarser, a cell too few cuts off a tail. Bounds do not
    cross zero that way.

    Args:
        noisy: Noisy counts in records, (cells,).
        std: Standard deviation of their noise, in records.
        zero: Cell of zero, or None.
    """
    found = np.flatnonzero(noisy > threshold(std, len(noisy)))
    if not len(found):
        return None
    first, last = sure = int(found[0]), int(found[-1])
    while first > 0 and first != zero and noisy[first - 1] > _SOMETHING * std:
        first -= 1
    while last < len(noisy) - 1 and last != zero and noisy[last + 1] > _SOMETHING * std:
        last += 1
    return Occupied(first=first, last=last, sure=sure)


def trimmed(noisy: Counts, std: float, fine: Ladder, look: Ladder, found: Occupied) -> tuple[int, int]:
    """Returns the first and last cell of a second look, after the ends that look empty were taken off.

    An end looks empty when its cells together hold at most 3/2 standard deviations of their noise. One cell is left on
    as a margin, and nothing is taken off beyond the outermost sure cells of the first look: a long thin tail is hardly
    seen in fine cells.

    Args:
        noisy: Noisy counts of the second look, in records, (cells,).
        std: Standard deviation of their noise, in records.
        fine: The cells of the second look.
        look: The cells of the first look.
        found: What the first look found.
    """
    most = int(np.searchsorted(fine.edges, look.edges[found.sure[0] + 1], side="left")) - 1
    least = int(np.searchsorted(fine.edges, look.edges[found.sure[1]], side="right")) - 1
    first = min(_empty(noisy, std), most)
    last = max(len(noisy) - 1 - _empty(noisy[::-1], std), least)
    return (first, last) if first <= last else (0, len(noisy) - 1)


def _empty(noisy: Counts, std: float) -> int:
    limits = _NOTHING * std * np.sqrt(np.arange(1, len(noisy) + 1))
    empty = np.flatnonzero(np.cumsum(noisy) <= limits)
    return int(empty[-1]) if len(empty) else 0


def span(fine: Ladder, first: int, last: int) -> tuple[Any, Any]:
    """Returns the bounds of the cells `first` to `last`: the last whole step where the column has steps."""
    low, high = fine.edges[first], fine.edges[last + 1]
    if fine.edges.dtype != np.int64:
        return float(low), float(high)
    # A schema wants two different bounds.
    return int(low), max(int(high) - 1, int(low) + 1)
