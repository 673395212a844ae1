"""What discovery found, from noisy counts to a schema file with a note on each column: released values alone (G-08).

The first look counts powers of two on both sides of zero, or decades; a bin holds
records if its count stands out of the noise, alone or with its neighbours. The second
counts even cells within these, and cuts its ends off where that makes bounds much
narrower and moves few records. What is left is rounded outwards.
"""

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.gate.discovery.exact_counts import FINE, BinEdges
from noisegate.gate.discovery.partial import MOMENT_IN_UTC, Gap, PartialSchema
from noisegate.schema.columns import Column, column_form
from noisegate.schema.files import write_toml
from noisegate.schema.numeric import (
    MAX_STEPS,
    Continuous,
    Date,
    Datetime,
    Integer,
    rounded_bounds,
)
from noisegate.schema.schema import DEFAULT_MISSING_VALUES
from noisegate.schema.values import Categorical

Counts: TypeAlias = npt.NDArray[np.float64]
"""Noisy counts in records, (bins,)."""

_EPOCH = datetime(1970, 1, 1)
_FALSE_BIN = 1e-3  # chance that some empty bin, or some row of them, is taken for an occupied one
_TOGETHER = (1, 2, 4, 8)  # so many neighbouring bins are looked at together
# Standard deviations of noise: at the ends of neighbours that stand out together, and beside what stands out.
_HARDLY, _SOMETHING = 1.0, 2.0
_GAP = 10  # so many empty bins between two occupied ones are told to the reader
# To halve the width is worth as large a part of the records; how sure it must be, in standard deviations.
_WORTH, _DOUBT = 0.02, 0.5
_NEAR_ZERO = 0.25  # a bound that lies this part of the other one away from zero or closer becomes zero
_SMALLEST = 2.0**-100
_PARTS = 10
_YEARS = timedelta(days=730)


def threshold(std: float, bins: int) -> float:
    """Returns the noisy count that, of so many empty bins, one passes with probability below 1/1000."""
    return -NormalDist().inv_cdf(_FALSE_BIN / (bins * len(_TOGETHER))) * std


@dataclass(frozen=True, kw_only=True)
class Occupied:
    """The first and the last bin that are taken to hold records, and the ends of a wide empty gap, if any."""

    first: int
    last: int
    gap: tuple[int, int] | None = None


def occupied(noisy: Counts, std: float, zero: int | None) -> Occupied | None:
    """Returns the bins of a first histogram that are taken to hold records, or None where nothing stands out."""
    # Bins beyond, but not across that of `zero`, are taken in while above two standard deviations: one too many makes
    # the second histogram coarser, one too few cuts off a tail. The noise has the standard deviation `std`, in records.
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
    gaps = [
        (left[1], right[0])
        for left, right in pairwise(rows)
        if zero not in (*left, *right)
    ]
    widest = max(gaps, key=lambda gap: gap[1] - gap[0], default=(0, 0))
    return Occupied(
        first=first, last=last, gap=widest if widest[1] - widest[0] > _GAP else None
    )


def _standing_out(noisy: Counts, std: float) -> list[tuple[int, int]]:
    """Returns the first and last bins of the shortest rows of neighbours whose counts together stand out."""
    least, sums = threshold(1.0, len(noisy)), np.concatenate([[0.0], np.cumsum(noisy)])
    taken, found = np.zeros(len(noisy), dtype=np.bool_), []
    for length in (length for length in _TOGETHER if length <= len(noisy)):
        heights = (sums[length:] - sums[:-length]) / (std * math.sqrt(length))
        for place in sorted(
            np.flatnonzero(heights > least).tolist(), key=lambda place: -heights[place]
        ):
            if not taken[place : place + length].any():
                taken[place : place + length] = True
                found.append((place, place + length - 1))
    return found


def second_look(
    coarse: BinEdges, found: Occupied, noisy: Counts, std: float
) -> BinEdges:
    """Returns the cells of the second look: the fewer, the more noise there is; wide ones where all seem zeros."""
    if found.first == found.last == coarse.zero:
        return coarse.around_zero()
    height = _records(coarse, found, noisy) / std
    return coarse.within(
        found.first,
        found.last,
        FINE if height > 200 else FINE // 2 if height > 60 else FINE // 4,
    )


def _records(coarse: BinEdges, found: Occupied, noisy: Counts) -> float:
    """Returns about how many records lie in the bins that were found, those of zero apart."""
    inside = noisy[found.first : found.last + 1].sum()
    zeros = (
        0.0
        if coarse.zero is None or not found.first <= coarse.zero <= found.last
        else noisy[coarse.zero]
    )
    return float(max(inside - zeros, 0.0))


def bounds(
    coarse: BinEdges,
    found: Occupied,
    noisy: Counts,
    fine: BinEdges,
    cells: Counts,
    std: float,
) -> tuple[Any, Any] | None:
    """Returns the bounds that both looks show, or None where they show zeros alone."""
    if found.first == found.last == coarse.zero:
        middle = fine.size // 2  # the bin of zero: as many lie on either side
        beside = [middle, *np.flatnonzero(cells > threshold(std, fine.size)).tolist()]
        low, high = span(fine, min(beside), max(beside))
        ends = (
            (0 if min(beside) == middle else low),
            (0 if max(beside) == middle else high),
        )
        return None if ends == (0, 0) else ends
    return span(fine, *kept(cells, std, max(_records(coarse, found, noisy), std)))


def kept(noisy: Counts, std: float, records: float) -> tuple[int, int]:
    """Returns the first and last cell of a second histogram, after ends that hold next to nothing were cut off."""
    # The cut has the least of log2(width) + (records cut off, and half a standard deviation) / (2 % of all records).
    size, cut = len(noisy), np.arange(len(noisy) + 1)
    left, right = (
        np.maximum(np.append(0.0, np.cumsum(counts)), 0.0)
        for counts in (noisy, noisy[::-1])
    )
    doubt = _DOUBT * std * np.sqrt(cut)
    lost = (left + doubt)[:, None] + (right + doubt)[None, :]
    width = size - cut[:, None] - cut[None, :]
    loss = lost / (_WORTH * records) + np.log2(np.maximum(width, 1))
    first, last = np.unravel_index(
        np.argmin(np.where(width > 0, loss, math.inf)), loss.shape
    )
    return int(first), size - 1 - int(last)


def span(fine: BinEdges, first: int, last: int) -> tuple[Any, Any]:
    """Returns the bounds of the bins `first` to `last`: the last whole step where the column has steps."""
    low, high = fine.edges[first], fine.edges[last + 1]
    if fine.edges.dtype != np.int64:
        return float(low), float(high)
    # A schema wants two different bounds.
    return int(low), max(int(high) - 1, int(low) + 1)


def rounded(kind: str, low: Any, high: Any) -> tuple[Any, Any]:
    """Returns bounds, as float64 or whole steps, at round numbers, days or years around them; at zero if near."""
    if kind in (Continuous.kind, Integer.kind):
        return _numbers(low, high, whole=kind == Integer.kind)
    if kind == Date.kind:
        first, last = (
            date.fromordinal(_EPOCH.toordinal() + step) for step in (low, high)
        )
        return (
            (first.replace(month=1, day=1), last.replace(month=12, day=31))
            if last - first > _YEARS
            else (first, last)
        )
    start, end = (_EPOCH + timedelta(microseconds=step) for step in (low, high))
    if end - start > _YEARS:
        start, end = (
            datetime(start.year, 1, 1),
            datetime(end.year, 12, 31, 23, 59, 59, 999_999),
        )
    zone = UTC if kind == MOMENT_IN_UTC else None
    return start.replace(tzinfo=zone), end.replace(tzinfo=zone)


def _numbers(low: Any, high: Any, *, whole: bool) -> tuple[Any, Any]:
    if high > 0 and low >= -_SMALLEST and low <= _NEAR_ZERO * high:
        low = 0
    if low < 0 and high <= _SMALLEST and high >= _NEAR_ZERO * low:
        high = 0
    first, last = rounded_bounds(
        low, high, parts=_PARTS, smallest=1.0 if whole else 0.0
    )
    if not whole:
        return first, last
    return (
        (int(first), int(last)) if last - first <= MAX_STEPS else (int(low), int(high))
    )


OTHER = "other"
_MUCH = 0.1  # part of the records whose level was merged into another that is told as a doubt


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A column after discovery, None when nothing stood out of the noise; and a note for who reads the schema file."""

    column: Column | None
    note: str
    doubt: str = ""
    """What is to be looked at before the column is used."""


def from_bounds(
    gap: Gap,
    ends: tuple[Any, Any] | None,
    missing: float,
    std: float,
    *,
    doubt: str = "",
) -> Finding:
    """Returns the finding on a numeric column of which values stood out of the noise."""
    # Its `ends`, as float64 or whole steps, are None if zeros alone did; `missing` has noise of `std`, in records.
    lack = (
        f"; {max(missing, 0):.0f} ± {2 * std:.0f} records lack a value"
        if gap.missing
        else ""
    )
    note = f"values outside are moved to the nearer bound{lack}"
    if ends is None:
        doubt = "nothing but zero stood out of the noise, and 0 to 1 is a guess: write bounds, if you know them"
    lower, upper = (0, 1) if ends is None else rounded(gap.kind, *ends)
    kind: type[Column] = {
        Continuous.kind: Continuous,
        Integer.kind: Integer,
        Date.kind: Date,
    }.get(gap.kind, Datetime)
    described: Any = {
        "name": gap.name,
        "lower": lower,
        "upper": upper,
        "missing": gap.missing,
    }
    return Finding(
        column=kind(**described),
        note=f"{doubt}; {note}" if doubt else note,
        doubt=doubt,
    )


def between(kind: str, coarse: BinEdges, found: Occupied) -> str:
    """Returns in words where hardly a value lies: what is beyond may be a code such as 999999, or noise."""
    if found.gap is None:
        return ""
    low, _ = rounded(kind, *span(coarse, found.gap[0], found.gap[0]))
    _, high = rounded(kind, *span(coarse, found.gap[1], found.gap[1]))
    return f"hardly a value lies between those of about {low} and of about {high}: maybe a code (atoms), or noise"


def beyond(
    coarse: BinEdges, found: Occupied, noisy: Counts, cells: Counts, std: float
) -> str:
    """Returns in words that hardly a record lies in the second look's `cells`, beside `noisy` counts of the first."""
    first = float(noisy[found.first : found.last + 1].sum())
    inside, doubt = (
        float(cells.sum()),
        2 * std * math.sqrt(len(cells) + found.last - found.first + 1),
    )
    if found.first == found.last == coarse.zero or inside + doubt > first / 2:
        return ""
    return (
        f"about {max(inside, 0):.0f} of about {first:.0f} records lie within these bounds, and the others beyond all "
        "numbers that are counted: write bounds, if you know them, or ignore the column"
    )


def from_levels(
    gap: Gap,
    levels: Mapping[str, float],
    missing: float | None,
    least: float,
    missing_values: Collection[str],
    records: int | None = None,
) -> Finding:
    """Returns the finding on a column of text, of which about so many `records` there are, where that is public."""
    # `levels` and `missing` are noisy numbers of records, with each level and without a value, that reached the
    # threshold of `least` records.
    if not levels:
        note = f"ignored: no level had about {least:.0f} records or more; free text or identifiers, or too few records"
        return Finding(column=None, note=note)
    other = OTHER
    while other in levels or other in missing_values:
        other = f"({other})"
    few = f"fewer than about {least:.0f}"
    lack = (
        f"; {few if missing is None else f'about {missing:.0f}'} records lack a value"
        if gap.missing
        else ""
    )
    doubt, merged = "", f"levels of {few} records became {json.dumps(other)}"
    rest = (
        0.0
        if records is None
        else (records - sum(levels.values()) - (missing or 0.0)) / records
    )
    if rest > _MUCH:
        doubt = f"{merged}, which some {rest:.0%} of the records have: state all levels, if they are publicly known"
    column = Categorical(
        name=gap.name, levels=(*sorted(levels), other), other=other, missing=gap.missing
    )
    return Finding(column=column, note=f"{doubt or merged}{lack}", doubt=doubt)


def schema_text(
    partial: PartialSchema, findings: Mapping[str, Finding], headline: str
) -> str:
    """Returns a schema file, TOML: the lines of `headline`, and a comment above each column that was discovered."""
    known = {
        name: findings[name].column if name in findings else column
        for name, column in partial.columns.items()
    }
    columns = {
        name: column
        for name, column in known.items()
        if column is not None and not isinstance(column, Gap)
    }
    ignored = [name for name in known if name not in columns]
    top: dict[str, Any] = {"label": partial.label} if partial.label in columns else {}
    if partial.missing_values != DEFAULT_MISSING_VALUES:
        top["missing_values"] = list(partial.missing_values)
    if ignored:
        top["ignore"] = ignored
    notes = [
        f"{json.dumps(name)}: {findings[name].note}"
        for name in ignored
        if name in findings
    ]
    head = "".join(f"# {line}\n" for line in [*headline.splitlines(), *notes])
    told = {name: (findings[name].note,) for name in columns if name in findings}
    text = write_toml(
        {
            **top,
            "columns": {name: column_form(column) for name, column in columns.items()},
        },
        column_comments=told,
    )
    return f"{head}\n{text}"
