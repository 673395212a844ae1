"""From noisy counts along a column of numbers to its bounds: released values alone go in (G-08).

The first look counts powers of two on both sides of zero, or decades. A bin holds records if its count stands out of
the noise, alone or together with its neighbours. The second look counts even cells within the bins that do, and its
ends are cut off where that makes the bounds much narrower and moves few records. What is left is rounded outwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.gate.queries.exact_counts import FINE, BinEdges
from noisegate.schema.columns import MAX_STEPS, Continuous, Date, Integer
from noisegate.schema.numeric import outwards
from noisegate.schema.partial import MOMENT_IN_UTC

Counts: TypeAlias = npt.NDArray[np.float64]
"""Noisy counts in records, (bins,)."""

_EPOCH = datetime(1970, 1, 1)
# Chance that some empty bin, or some row of them, is taken for an occupied one.
_FALSE_BIN = 1e-3
# So many neighbouring bins are looked at together.
_TOGETHER = (1, 2, 4, 8)
# Standard deviations of noise: at the ends of neighbours that stand out together, and beside what stands out.
_HARDLY, _SOMETHING = 1.0, 2.0
# So many empty bins between two occupied ones are told to the reader.
_GAP = 10
# To halve the width is worth as large a part of the records; how sure it must be, in standard deviations.
_WORTH, _DOUBT = 0.02, 0.5
# A bound that lies this part of the other one away from zero or closer becomes zero.
_NEAR_ZERO = 0.25
_SMALLEST = 2.0**-100
_PARTS = 10
_YEARS = timedelta(days=730)


def threshold(std: float, bins: int) -> float:
    """Returns the noisy count that, of so many empty bins, one passes with probability below 1/1000."""
    return -NormalDist().inv_cdf(_FALSE_BIN / (bins * len(_TOGETHER))) * std


@dataclass(frozen=True, kw_only=True)
class Occupied:
    """The first and the last bin that are taken to hold records, and the widest empty gap between them, if it is wide.

    The gap is given by the bins at its ends.
    """

    first: int
    last: int
    gap: tuple[int, int] | None = None


def occupied(noisy: Counts, std: float, zero: int | None) -> Occupied | None:
    """Returns the bins of a first histogram that are taken to hold records, or None where nothing stands out.

    Bins beyond are taken in while they are above two standard deviations: a bin too many makes the second histogram
    coarser, a bin too few cuts off a tail. Bounds do not cross the bin of `zero` that way. The noise has the standard
    deviation `std`, in records.
    """
    rows = sorted(_standing_out(noisy, std))
    if not rows:
        return None
    (first, most), (least, last) = rows[0], rows[-1]
    while first < most and noisy[first] < _HARDLY * std:
        first += 1
    while last > least and noisy[last] < _HARDLY * std:
        last -= 1
    while first > 0 and first != zero and noisy[first - 1] > _SOMETHING * std:
        first -= 1
    while last < len(noisy) - 1 and last != zero and noisy[last + 1] > _SOMETHING * std:
        last += 1
    gaps = [(left[1], right[0]) for left, right in pairwise(rows) if zero not in (*left, *right)]
    widest = max(gaps, key=lambda gap: gap[1] - gap[0], default=(0, 0))
    return Occupied(first=first, last=last, gap=widest if widest[1] - widest[0] > _GAP else None)


def _standing_out(noisy: Counts, std: float) -> list[tuple[int, int]]:
    """Returns the first and last bins of the shortest rows of neighbours whose counts together stand out."""
    least, sums = threshold(1.0, len(noisy)), np.concatenate([[0.0], np.cumsum(noisy)])
    taken, found = np.zeros(len(noisy), dtype=np.bool_), []
    for length in (length for length in _TOGETHER if length <= len(noisy)):
        heights = (sums[length:] - sums[:-length]) / (std * math.sqrt(length))
        for place in sorted(np.flatnonzero(heights > least).tolist(), key=lambda place: -heights[place]):
            if not taken[place : place + length].any():
                taken[place : place + length] = True
                found.append((place, place + length - 1))
    return found


def second_look(coarse: BinEdges, found: Occupied, noisy: Counts, std: float) -> BinEdges:
    """Returns the cells of the second look, given the first one and its counts: the fewer, the more noise there is.

    Where the first look shows zeros alone, they are wide cells on both sides of zero.
    """
    if found.first == found.last == coarse.zero:
        return coarse.around_zero()
    height = _records(coarse, found, noisy) / std
    return coarse.within(found.first, found.last, FINE if height > 200 else FINE // 2 if height > 60 else FINE // 4)


def _records(coarse: BinEdges, found: Occupied, noisy: Counts) -> float:
    """Returns about how many records lie in the bins that were found, those of zero apart."""
    inside = noisy[found.first : found.last + 1].sum()
    zeros = 0.0 if coarse.zero is None or not found.first <= coarse.zero <= found.last else noisy[coarse.zero]
    return float(max(inside - zeros, 0.0))


def bounds(
    coarse: BinEdges, found: Occupied, noisy: Counts, fine: BinEdges, cells: Counts, std: float
) -> tuple[Any, Any] | None:
    """Returns the bounds that both looks show, or None where they show zeros alone."""
    if found.first == found.last == coarse.zero:
        beside = [fine.middle, *np.flatnonzero(cells > threshold(std, fine.size)).tolist()]
        low, high = span(fine, min(beside), max(beside))
        ends = (0 if min(beside) == fine.middle else low), (0 if max(beside) == fine.middle else high)
        return None if ends == (0, 0) else ends
    return span(fine, *kept(cells, std, max(_records(coarse, found, noisy), std)))


def kept(noisy: Counts, std: float, records: float) -> tuple[int, int]:
    """Returns the first and last cell of a second histogram, after ends that hold next to nothing were cut off.

    Of all ways to cut, it is the one with the least of log2(width) + (records cut off) / (2 % of all records), where
    records cut off are counted with half a standard deviation of their noise on top.
    """
    size, cut = len(noisy), np.arange(len(noisy) + 1)
    left, right = (np.maximum(np.append(0.0, np.cumsum(counts)), 0.0) for counts in (noisy, noisy[::-1]))
    doubt = _DOUBT * std * np.sqrt(cut)
    lost = (left + doubt)[:, None] + (right + doubt)[None, :]
    width = size - cut[:, None] - cut[None, :]
    loss = lost / (_WORTH * records) + np.log2(np.maximum(width, 1))
    first, last = np.unravel_index(np.argmin(np.where(width > 0, loss, math.inf)), loss.shape)
    return int(first), size - 1 - int(last)


def span(fine: BinEdges, first: int, last: int) -> tuple[Any, Any]:
    """Returns the bounds of the bins `first` to `last`: the last whole step where the column has steps."""
    low, high = fine.edges[first], fine.edges[last + 1]
    if fine.edges.dtype != np.int64:
        return float(low), float(high)
    # A schema wants two different bounds.
    return int(low), max(int(high) - 1, int(low) + 1)


def rounded(kind: str, low: Any, high: Any) -> tuple[Any, Any]:
    """Returns bounds of a column of this kind, as float64 or whole steps, at round numbers, days or years around them.

    Zero takes the place of a bound that is near to it.
    """
    if kind in (Continuous.kind, Integer.kind):
        return _numbers(low, high, whole=kind == Integer.kind)
    if kind == Date.kind:
        first, last = (date.fromordinal(_EPOCH.toordinal() + step) for step in (low, high))
        return (
            (first.replace(month=1, day=1), last.replace(month=12, day=31)) if last - first > _YEARS else (first, last)
        )
    start, end = (_EPOCH + timedelta(microseconds=step) for step in (low, high))
    if end - start > _YEARS:
        start, end = datetime(start.year, 1, 1), datetime(end.year, 12, 31, 23, 59, 59, 999_999)
    zone = UTC if kind == MOMENT_IN_UTC else None
    return start.replace(tzinfo=zone), end.replace(tzinfo=zone)


def _numbers(low: Any, high: Any, *, whole: bool) -> tuple[Any, Any]:
    if high > 0 and low >= -_SMALLEST and low <= _NEAR_ZERO * high:
        low = 0
    if low < 0 and high <= _SMALLEST and high >= _NEAR_ZERO * low:
        high = 0
    first, last = outwards(low, high, parts=_PARTS, smallest=1.0 if whole else 0.0)
    if not whole:
        return first, last
    return (int(first), int(last)) if last - first <= MAX_STEPS else (int(low), int(high))
