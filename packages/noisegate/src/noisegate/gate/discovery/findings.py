"""What a discovery has found: from noisy counts to a schema file.

Everything here is computed from released values (G-08). For a numeric column, records
are counted twice, in bins of public edges::

    first look: noisy counts of bins between powers of two, or decades
        ──► `find_occupied_bins`  bins that exceed the noise, alone or in a row
        ──► `choose_cells`        bins of even width within these, the cells
    second look: noisy counts of the cells
        ──► `find_bounds`         cells at the ends that hold next to nothing are cut
        off ──► `round_bounds`        outwards, to round numbers, days or years ──►
        `column_from_bounds`  the column of the schema, with a note

For a column of text, `column_from_levels` builds a column with the levels (distinct
texts) whose noisy count is above a threshold. `schema_text` writes the file, with a
note on each column.
"""

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.gate.discovery.exact_counts import FINE, BinEdges
from noisegate.gate.discovery.partial import MOMENT_IN_UTC, Gap, PartialSchema
from noisegate.schema.bounds import rounded_bounds
from noisegate.schema.columns import Column, column_form
from noisegate.schema.files import write_toml
from noisegate.schema.kinds import Categorical, Continuous, Date, Datetime, Integer
from noisegate.schema.kinds.stepped import MAX_STEPS
from noisegate.schema.schema import DEFAULT_MISSING_VALUES

Counts: TypeAlias = npt.NDArray[np.float64]
"""Noisy numbers of records, (bins,)."""

_EPOCH = datetime(1970, 1, 1)
# Probability that any empty bin, or row of empty bins, is taken for an occupied one.
# `test_empty_cells_are_hardly_ever_taken_for_occupied` counts how often.
_FALSE_ALARM_PROBABILITY = 1e-3
# A row is some neighbouring bins whose counts are added up; these are the lengths of
# rows. If records are spread evenly over n bins, the sum of the row is √n times as many
# standard deviations of its noise as the count of one bin.
_ROW_LENGTHS = (1, 2, 4, 8)
# Bins at the ends of an occupied row are cut off if their count is below this, in
# standard deviations of the noise. An empty bin is below it five times out of six.
_MIN_END_HEIGHT = 1.0
# Bins beside occupied ones are taken for occupied if their count is above this, in
# standard deviations of the noise. An empty bin is above it once in 44 times, and makes
# the second look coarser by a bin.
_MIN_NEIGHBOUR_HEIGHT = 2.0
# A gap of more bins than this between occupied rows is reported: its ends are a
# thousand times apart, where bins are powers of two, or a century, where bins are
# decades.
_WIDE_GAP = 10
# Number of cells of the second look, if there are more records than so many standard
# deviations of the noise: 32 cells above 200, 16 above 60, else 8. So a cell has at
# least about 4 standard deviations of the noise on average, but for the fewest cells.
_CELLS_BY_RECORDS = ((200, FINE), (60, FINE // 2))
_MIN_CELLS = FINE // 4
# This part of the records may be cut off if that halves the width of the bounds. Their
# values are moved to the nearer bound, so it is small.
_CUT_FRACTION = 0.02
# Cells are taken to hold so many standard deviations of the noise more than they seem
# to, so that they are not cut off only because their noise is negative.
_CUT_DOUBT = 0.5
# A bound becomes zero if its distance from zero is at most this part of the other
# bound. Many quantities begin at zero, and bounds are widened by a third at most, 1/(1
# - 0.25) - 1.
_MAX_SNAPPED_FRACTION = 0.25
# A bound that is on the other side of zero by at most this becomes zero: it is the edge
# of the bin of zero, at ±2⁻¹²⁸, or of a cell beside it, and no value.
_MAX_BEYOND_ZERO = 2.0**-100
# Bounds are rounded outwards to a power of ten that fits so often between them. So
# rounding adds at most a tenth of the width at either end.
_ROUNDING_PARTS = 10
# A difference of so many standard deviations may be noise: noise alone reaches it, in
# one direction, with probability 2.3 %.
_NOISE_MARGIN_STDS = 2
# A column is doubtful if the second look counts less than this part of the records that
# the first look counted: then most of them lie beyond the bounds.
_MIN_COVERED_FRACTION = 0.5
# Bounds of days and times further apart are rounded to years. Both ends together get
# less than two years more by that, so less than they are apart.
_LONG = timedelta(days=730)


def noise_threshold(std: float, bin_count: int) -> float:
    """Returns the noisy count above which a bin is taken to hold records.

    Bins are tested one by one, and in rows of 2, 4 and 8 neighbours. If all bins are
    empty, noise alone makes any of these tests succeed with probability below 1/1000:
    by the union bound, each test may with 1/1000 divided by their number.

    Args:
        std: Standard deviation of the noise.
        bin_count: Number of bins.

    Returns:
        The count, in the unit of `std`.
    """
    test_count = bin_count * len(_ROW_LENGTHS)
    return -NormalDist().inv_cdf(_FALSE_ALARM_PROBABILITY / test_count) * std


@dataclass(frozen=True, kw_only=True)
class OccupiedBins:
    """The range of bins of a first look that is taken to hold the records."""

    first: int
    """Index of the first bin."""
    last: int
    """Index of the last bin, included."""
    gap: tuple[int, int] | None = None
    """If there is a wide gap of empty bins in the range, the indices of the occupied
    bins on both sides of it."""


def find_occupied_bins(
    bin_counts: Counts, std: float, zero_bin: int | None
) -> OccupiedBins | None:
    """Finds the range of bins of a first look that holds the records.

    The range has all bins that exceed the noise, alone or in rows. It is extended
    by neighbours with more than two standard deviations of the noise, but not across
    the bin of zero. One bin too many makes the second look coarser; one too few cuts
    off a tail.

    Args:
        bin_counts: Noisy counts, (bins,).
        std: Standard deviation of their noise, in records.
        zero_bin: Index of the bin of zero; None for times.

    Returns:
        The range; None if no bin stands out.

    Examples:
        >>> import numpy as np
        >>> from noisegate.gate.discovery.findings import find_occupied_bins
        >>> noisy = np.array([0.3, -1.2, 2.5, 90.0, 80.0, 1.9, 0.4, -0.6])
        >>> bins = find_occupied_bins(noisy, 1.0, None)
        >>> bins.first, bins.last  # 2.5 is taken in as a tail, 1.9 is not
        (2, 4)
    """
    rows = sorted(_rows_standing_out(bin_counts, std))
    if not rows:
        return None
    first, last = _adjusted_ends(rows, bin_counts, std, zero_bin)
    return OccupiedBins(first=first, last=last, gap=_wide_gap(rows, zero_bin))


def _adjusted_ends(
    rows: list[tuple[int, int]], bin_counts: Counts, std: float, zero_bin: int | None
) -> tuple[int, int]:
    """Finds the ends of the range of bins that holds records.

    The range begins as all from the first to the last row of bins that stands out. Its
    ends are moved inwards over bins of such a row that seem empty, as only the row as a
    whole stands out; and then outwards over neighbours that seem to hold a tail.

    Args:
        rows: First and last bin of each row that exceed the noise, ascending.
        bin_counts: Noisy counts, (bins,).
        std: Standard deviation of their noise.
        zero_bin: Index of the bin of zero; None for times.

    Returns:
        Indices of the first and the last bin.
    """
    first, end_of_first_row = rows[0]
    start_of_last_row, last = rows[-1]
    # Inwards, but at least one bin of the row is left.
    min_end = _MIN_END_HEIGHT * std
    while first < end_of_first_row and bin_counts[first] < min_end:
        first += 1
    while last > start_of_last_row and bin_counts[last] < min_end:
        last -= 1
    # Outwards, but not across the bin of zero: beyond it, numbers have the other sign.
    min_neighbour = _MIN_NEIGHBOUR_HEIGHT * std
    while first > 0 and first != zero_bin and bin_counts[first - 1] > min_neighbour:
        first -= 1
    last_bin = len(bin_counts) - 1
    while last < last_bin and last != zero_bin and bin_counts[last + 1] > min_neighbour:
        last += 1
    return first, last


def _wide_gap(
    rows: list[tuple[int, int]], zero_bin: int | None
) -> tuple[int, int] | None:
    """Finds the widest gap between rows of occupied bins, if it is wide.

    A gap hints at a code for a missing value, such as 9999. A gap beside zero does not:
    many columns have zeros and large numbers.

    Args:
        rows: First and last bin of each row that exceed the noise, ascending.
        zero_bin: Index of the bin of zero; None for times.

    Returns:
        The occupied bins on both sides of the gap; None if no gap is wider than
        `_WIDE_GAP` bins.
    """
    gaps = [
        (left[1], right[0])
        for left, right in pairwise(rows)
        if zero_bin not in (*left, *right)
    ]
    widest = max(gaps, key=lambda gap: gap[1] - gap[0], default=(0, 0))
    is_wide = widest[1] - widest[0] > _WIDE_GAP
    return widest if is_wide else None


def _rows_standing_out(bin_counts: Counts, std: float) -> list[tuple[int, int]]:
    """Finds rows of neighbouring bins whose counts together exceed the noise.

    Rows of 1, 2, 4 and 8 bins are tried, the shortest first, and of one length the
    highest first. A row that has a bin in common with one found before is passed over.

    Example, with noise of standard deviation 1 and a threshold of 4.5: bins of 3, 3, 3
    and 3 records stand out together, since their sum is 12 and the standard deviation
    of its noise is √4 = 2. None of them does alone, nor do two, by 6 / √2 = 4.2.

    Args:
        bin_counts: Noisy counts, (bins,).
        std: Standard deviation of their noise.

    Returns:
        First and last bin of each row, shortest rows first. No two have a bin in
        common.
    """
    min_height = noise_threshold(1.0, len(bin_counts))
    # cumulative[j] - cumulative[i] is the sum of the bins from i to j - 1.
    cumulative = np.concatenate([[0.0], np.cumsum(bin_counts)])
    is_taken = np.zeros(len(bin_counts), dtype=np.bool_)
    rows: list[tuple[int, int]] = []
    for length in _ROW_LENGTHS:
        if length > len(bin_counts):
            continue
        # Sum of each row, in standard deviations of its noise.
        row_sums = cumulative[length:] - cumulative[:-length]
        heights = row_sums / (std * math.sqrt(length))
        starts = np.flatnonzero(heights > min_height).tolist()
        for start in sorted(starts, key=lambda start: -heights[start]):
            end = start + length
            if not is_taken[start:end].any():
                is_taken[start:end] = True
                rows.append((start, end - 1))
    return rows


def choose_cells(
    bins: BinEdges, occupied_bins: OccupiedBins, bin_counts: Counts, std: float
) -> BinEdges:
    """Chooses the cells of the second look at a column.

    Args:
        bins: Bins of the first look.
        occupied_bins: The range of these bins that holds records.
        bin_counts: Noisy counts of all bins of the first look, (bins,).
        std: Standard deviation of the noise on each count, in records.

    Returns:
        Cells of even width within the range, fewer if there is more noise. If only the
        bin of zero is occupied, wide cells on both sides of zero.
    """
    if occupied_bins.first == occupied_bins.last == bins.zero_bin:
        return bins.around_zero()
    record_height = _record_count(bins, occupied_bins, bin_counts) / std
    cell_count = next(
        (
            cell_count
            for min_height, cell_count in _CELLS_BY_RECORDS
            if record_height > min_height
        ),
        _MIN_CELLS,
    )
    return bins.divide_evenly(occupied_bins.first, occupied_bins.last, cell_count)


def _record_count(
    bins: BinEdges, occupied_bins: OccupiedBins, bin_counts: Counts
) -> float:
    """Estimates the number of records in the occupied bins, without the bin of zero.

    Args:
        bins: Bins of the first look.
        occupied_bins: The range of these bins that holds records.
        bin_counts: Noisy counts of all bins of the first look, (bins,).

    Returns:
        The number of records, at least 0.
    """
    inside = bin_counts[occupied_bins.first : occupied_bins.last + 1].sum()
    has_zero = (
        bins.zero_bin is not None
        and occupied_bins.first <= bins.zero_bin <= occupied_bins.last
    )
    zeros = bin_counts[bins.zero_bin] if has_zero else 0.0
    return float(max(inside - zeros, 0.0))


def find_bounds(
    bins: BinEdges,
    occupied_bins: OccupiedBins,
    bin_counts: Counts,
    cells: BinEdges,
    cell_counts: Counts,
    std: float,
) -> tuple[Any, Any] | None:
    """Finds the bounds of a numeric column from the counts of both looks.

    Usually the bounds are those of the cells, without cells at both ends that hold next
    to nothing. If the first look saw only zeros, the cells lie around zero, and the
    bounds are those of the cells that exceed the noise.

    Args:
        bins: Bins of the first look.
        occupied_bins: The range of these bins that holds records.
        bin_counts: Noisy counts of all bins of the first look, (bins,).
        cells: Cells of the second look.
        cell_counts: Noisy counts of the cells, (cells,).
        std: Standard deviation of the noise on each count, in records.

    Returns:
        Lower and upper bound, in the unit of the edges; None if no value but zero
        stands out.
    """
    if occupied_bins.first == occupied_bins.last == bins.zero_bin:
        # The cell of zero is the middle one.
        middle = cells.size // 2
        is_high = cell_counts > noise_threshold(std, cells.size)
        occupied_cells = [middle, *np.flatnonzero(is_high).tolist()]
        first = min(occupied_cells)
        last = max(occupied_cells)
        low, high = bin_bounds(cells, first, last)
        lower = 0 if first == middle else low
        upper = 0 if last == middle else high
        return None if (lower, upper) == (0, 0) else (lower, upper)
    # At least the noise: with hardly any records no cell would be cut off, and with
    # none `cut_sparse_ends` would divide by zero.
    records = max(_record_count(bins, occupied_bins, bin_counts), std)
    first, last = cut_sparse_ends(cell_counts, std, records)
    return bin_bounds(cells, first, last)


def cut_sparse_ends(cell_counts: Counts, std: float, records: float) -> tuple[int, int]:
    """Cuts off cells at both ends of a second look that hold next to nothing.

    A cut is a number of cells at one end. Of all pairs of cuts, that with the smallest
    loss is chosen, and of equal ones the first. The loss weighs the width that is left
    against the records that are lost,

        log₂(cells left) + (records cut off + doubt) / (2 % of all records),

    so that halving the width is worth 2 % of the records. The doubt is half a standard
    deviation of the noise on the records cut off at each end.
    `test_bounds_cover_nearly_all_values_and_are_not_far_off` notices if the two
    constants change too much.

    Args:
        cell_counts: Noisy counts of the cells, (cells,).
        std: Standard deviation of their noise, in records.
        records: About how many records there are.

    Returns:
        Indices of the first and the last cell that are left; at least one is.

    Examples:
        >>> import numpy as np
        >>> from noisegate.gate.discovery.findings import cut_sparse_ends
        >>> cells = np.array([0.0, 3.0, 500.0, 500.0, 9.0, 0.0, 0.0, 0.0])
        >>> cut_sparse_ends(cells, 5.0, 1000.0)
        (2, 3)
    """
    size = len(cell_counts)
    cuts = np.arange(size + 1)  # numbers of cells cut off at one end
    # Noise may make a sum negative. It counts as zero, so that no cut gains by noise.
    left_records = np.maximum(np.append(0.0, np.cumsum(cell_counts)), 0.0)
    right_records = np.maximum(np.append(0.0, np.cumsum(cell_counts[::-1])), 0.0)
    # The noise of n cells together is √n times that of one.
    doubt = _CUT_DOUBT * std * np.sqrt(cuts)
    # For each pair of cuts, (left, right):
    records_cut = (left_records + doubt)[:, None] + (right_records + doubt)[None, :]
    width = size - cuts[:, None] - cuts[None, :]
    loss = records_cut / (_CUT_FRACTION * records) + np.log2(np.maximum(width, 1))
    best_pair = np.argmin(np.where(width > 0, loss, math.inf))
    left_cut, right_cut = np.unravel_index(best_pair, loss.shape)
    return int(left_cut), size - 1 - int(right_cut)


def bin_bounds(bins: BinEdges, first: int, last: int) -> tuple[Any, Any]:
    """Returns the bounds of a range of bins, both included, as a schema has them.

    Bins do not include their upper edge, but a schema includes its upper bound. So for
    integers, days and microseconds the upper bound is the last one in the last bin.

    Args:
        bins: All bins.
        first: Index of the first bin of the range.
        last: Index of the last bin of the range.

    Returns:
        Lower and upper bound, which differ.
    """
    low = bins.edges[first]
    high = bins.edges[last + 1]
    if bins.edges.dtype != np.int64:
        return float(low), float(high)
    # The bounds of a schema must differ, also where the range has a single integer.
    return int(low), max(int(high) - 1, int(low) + 1)


def round_bounds(kind: str, low: Any, high: Any) -> tuple[Any, Any]:
    """Rounds bounds outwards to round numbers, days or years.

    Args:
        kind: Kind of the column, see `partial.KINDS`.
        low: Lower bound: a number, or for days and times an integer number of days or
            microseconds since 1970.
        high: Upper bound, likewise.

    Returns:
        Bounds as a schema has them: numbers, dates or times. Numbers near zero become
        zero.

    Examples:
        >>> from noisegate.gate.discovery.findings import round_bounds
        >>> round_bounds("date", 100, 1000)  # 900 days are rounded to years
        (datetime.date(1970, 1, 1), datetime.date(1972, 12, 31))
        >>> round_bounds("continuous", 2.5e-5, 4.23e-4)
        (0.0, 0.00043)
    """
    if kind in (Continuous.kind, Integer.kind):
        return _rounded_numbers(low, high, integers=kind == Integer.kind)
    if kind == Date.kind:
        first = date.fromordinal(_EPOCH.toordinal() + low)
        last = date.fromordinal(_EPOCH.toordinal() + high)
        if last - first > _LONG:
            return first.replace(month=1, day=1), last.replace(month=12, day=31)
        return first, last
    start = _EPOCH + timedelta(microseconds=low)
    end = _EPOCH + timedelta(microseconds=high)
    zone = UTC if kind == MOMENT_IN_UTC else None
    if end - start > _LONG:
        return (
            datetime(start.year, 1, 1, tzinfo=zone),
            datetime(end.year, 12, 31, 23, 59, 59, 999_999, tzinfo=zone),
        )
    return start.replace(tzinfo=zone), end.replace(tzinfo=zone)


def _rounded_numbers(low: Any, high: Any, *, integers: bool) -> tuple[Any, Any]:
    """Moves a bound near zero to zero, and rounds both bounds outwards.

    What a change must keep: the returned bounds differ, and enclose `low` and `high` up
    to `_MAX_BEYOND_ZERO`. `test_bounds_are_rounded_outwards_and_to_zero` and
    `test_bins_next_to_zero_that_noise_alone_found_have_bounds` notice if they do not.

    Args:
        low: Lower bound, below `high`: a Python integer for a column of integers, else
            a float.
        high: Upper bound, of the same type.
        integers: Whether it is a column of integers.

    Returns:
        Lower and upper bound, two integers or two floats. Integers that would be too
        far apart for a schema after rounding are not rounded.

    Examples:
        >>> from noisegate.gate.discovery.findings import _rounded_numbers
        >>> _rounded_numbers(17, 2047, integers=True)  # 17 ≤ 2047 / 4
        (0, 2100)
        >>> _rounded_numbers(61.3, 92.7, integers=False)
        (61.0, 93.0)
        >>> _rounded_numbers(-31.0, -0.5, integers=False)
        (-31.0, 0.0)
    """
    low_is_near_zero = -_MAX_BEYOND_ZERO <= low <= _MAX_SNAPPED_FRACTION * high
    # Only below a positive upper bound: two tiny negative bounds would change places.
    lower = 0 if high > 0 and low_is_near_zero else low
    high_is_near_zero = _MAX_SNAPPED_FRACTION * lower <= high <= _MAX_BEYOND_ZERO
    # The mirror image: only above a negative lower bound. So never both bounds become
    # zero.
    upper = 0 if lower < 0 and high_is_near_zero else high
    first, last = rounded_bounds(
        lower, upper, parts=_ROUNDING_PARTS, smallest=1.0 if integers else 0.0
    )
    if not integers:
        return first, last
    # A schema allows at most so many steps between its bounds. Without rounding there
    # are no more, as no integers beyond ±2⁵² are counted.
    if last - first > MAX_STEPS:
        return lower, upper
    # Multiples of 1 or more, so they are whole already; only their type changes.
    return int(first), int(last)


OTHER = "other"
"""The level into which all levels below the threshold are merged."""
# If more than this part of the records have merged levels, the column is doubtful: of
# all of them, only that one level is learnt.
_MUCH_MERGED = 0.1


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a discovery has found of one column, from noisy counts alone."""

    column: Column | None
    """The column for the schema; None if nothing exceed the noise."""
    note: str
    """A comment for readers of the schema file. It begins with the doubt, if any."""
    doubt: str = ""
    """What should be checked before the column is used; empty for nothing."""


def column_from_bounds(
    gap: Gap,
    bounds: tuple[Any, Any] | None,
    missing: float,
    std: float,
    *,
    doubt: str = "",
) -> Finding:
    """Builds a numeric column of the schema from estimated bounds.

    Args:
        gap: The column whose bounds were estimated.
        bounds: Lower and upper bound, as `find_bounds` returns them; None if nothing
            but zero exceed the noise.
        missing: Noisy number of records without a value.
        std: Standard deviation of the noise on that number, in records.
        doubt: What should be checked before the column is used; empty for nothing.

    Returns:
        The column with rounded bounds, a note and the doubt.
    """
    if bounds is None:
        lower: Any = 0
        upper: Any = 1
        final_doubt = (
            "only zero could be distinguished from the noise, and 0 to 1 is a "
            "guess: state bounds, if you know them"
        )
    else:
        lower, upper = round_bounds(gap.kind, *bounds)
        final_doubt = doubt
    note = "values outside are moved to the nearer bound"
    if gap.missing:
        # Two standard deviations: a 95 % interval.
        lack = "have a limit or lack a value" if gap.limits else "lack a value"
        note += f"; {max(missing, 0):.0f} ± {2 * std:.0f} records {lack}"
    if final_doubt:
        note = f"{final_doubt}; {note}"
    column_class: Any = {
        Continuous.kind: Continuous,
        Integer.kind: Integer,
        Date.kind: Date,
        MOMENT_IN_UTC: Datetime,
        Datetime.kind: Datetime,
    }[gap.kind]
    column = column_class(name=gap.name, lower=lower, upper=upper, missing=gap.missing)
    if gap.limits:
        column = replace(column, limits=gap.limits)
    return Finding(column=column, note=note, doubt=final_doubt)


def describe_wide_gap(kind: str, bins: BinEdges, occupied_bins: OccupiedBins) -> str:
    """Describes a wide gap in the values of a column, if there is one.

    Args:
        kind: Kind of the column.
        bins: Bins of the first look.
        occupied_bins: The range of these bins that holds records, with its gap.

    Returns:
        A sentence; empty if there is no wide gap.
    """
    if occupied_bins.gap is None:
        return ""
    bin_below, bin_above = occupied_bins.gap
    low, _ = round_bounds(kind, *bin_bounds(bins, bin_below, bin_below))
    _, high = round_bounds(kind, *bin_bounds(bins, bin_above, bin_above))
    return (
        f"hardly any value lies between those of about {low} and of about {high}: "
        "maybe a code (atoms), or noise"
    )


def describe_records_beyond(
    bins: BinEdges,
    occupied_bins: OccupiedBins,
    bin_counts: Counts,
    cell_counts: Counts,
    std: float,
) -> str:
    """Describes a column most of whose values lie beyond the numbers that are counted.

    The first look counts values beyond its outermost edges in its outermost bins, the
    second look does not count them. An example are identifiers of sixteen digits, which
    are beyond 2⁵².
    `test_values_beyond_all_that_is_counted_and_levels_that_became_other_are_told`
    has them.

    Args:
        bins: Bins of the first look.
        occupied_bins: The range of these bins that holds records.
        bin_counts: Noisy counts of all bins of the first look, (bins,).
        cell_counts: Noisy counts of the cells of the second look, (cells,).
        std: Standard deviation of the noise on each count, in records.

    Returns:
        A sentence; empty unless the second look has less than half of the records of
        the first one, by more than noise explains.

    Examples:
        >>> import numpy as np
        >>> from noisegate.gate.discovery.exact_counts import BinEdges
        >>> from noisegate.gate.discovery.findings import (
        ...     OccupiedBins, describe_records_beyond)
        >>> coarse = BinEdges(edges=np.array([0, 1, 2, 4]), is_clamped=True)
        >>> occupied_bins = OccupiedBins(first=1, last=2)
        >>> noisy = np.array([0.0, 40.0, 960.0])  # 1000 records in the occupied bins
        >>> describe_records_beyond(
        ...     coarse, occupied_bins, noisy, np.array([30.0, 50.0]), 1.0
        ... ).split(" lie")[0]
        'about 80 of about 1000 records'
        >>> describe_records_beyond(  # 497 + 2 · 1 · √4 is above the half, 500
        ...     coarse, occupied_bins, noisy, np.array([200.0, 297.0]), 1.0)
        ''
    """
    # After a first look that saw only zeros, the outermost cells also count what is
    # beyond them. So the second look misses nothing.
    has_only_zeros = occupied_bins.first == occupied_bins.last == bins.zero_bin
    if has_only_zeros:
        return ""
    first_look_counts = bin_counts[occupied_bins.first : occupied_bins.last + 1]
    first_look_records = float(first_look_counts.sum())
    second_look_records = float(cell_counts.sum())
    # The noise on a sum of n counts is √n times that on one. All counts of both looks
    # are taken, which is more than enough, as only half of the first look is compared.
    summand_count = len(cell_counts) + len(first_look_counts)
    noise_margin = _NOISE_MARGIN_STDS * std * math.sqrt(summand_count)
    min_covered = first_look_records * _MIN_COVERED_FRACTION
    if second_look_records + noise_margin > min_covered:
        return ""
    return (
        f"about {max(second_look_records, 0):.0f} of about "
        f"{first_look_records:.0f} records lie within these bounds, and the others "
        "beyond all numbers that are counted: state bounds, if you know them, or "
        "ignore the column"
    )


def column_from_levels(
    gap: Gap,
    levels: Mapping[str, float],
    missing: float | None,
    min_records: float,
    missing_values: Collection[str],
    records: int | None = None,
) -> Finding:
    """Builds a categorical column of the schema from estimated levels.

    A level is a distinct text. All levels below the threshold are merged into one more
    level, "other".

    Args:
        gap: The column whose levels were estimated.
        levels: Noisy number of records with each level that reached the threshold.
        missing: Noisy number of records without a value; None if it is below the
            threshold.
        min_records: The threshold, in records.
        missing_values: Texts that stand for a missing value.
        records: The number of records, if it is public.

    Returns:
        The column, a note and a doubt; no column if no level reached the threshold.
    """
    if not levels:
        return Finding(
            column=None,
            note=(
                f"ignored: no level had about {min_records:.0f} records or more; free "
                "text or identifiers, or too few records"
            ),
        )
    # More brackets are added until no level and no missing value has this name.
    other = OTHER
    while other in levels or other in missing_values:
        other = f"({other})"
    fewer = f"fewer than about {min_records:.0f}"
    merged = f"levels of {fewer} records became {json.dumps(other)}"

    doubt = ""
    # How many records have merged levels is known only if their number is public.
    if records is not None:
        merged_records = records - sum(levels.values()) - (missing or 0.0)
        merged_fraction = merged_records / records
        if merged_fraction > _MUCH_MERGED:
            doubt = (
                f"{merged}, which some {merged_fraction:.0%} of the records have: "
                "state all levels, if they are publicly known"
            )
    note = doubt or merged
    if gap.missing:
        missing_count = fewer if missing is None else f"about {missing:.0f}"
        note += f"; {missing_count} records lack a value"
    column = Categorical(
        name=gap.name, levels=(*sorted(levels), other), other=other, missing=gap.missing
    )
    return Finding(column=column, note=note, doubt=doubt)


def schema_text(
    partial_schema: PartialSchema, findings: Mapping[str, Finding], headline: str
) -> str:
    """Writes the schema file of a discovery.

    Args:
        partial_schema: The public facts about all columns, stated before.
        findings: What was found of the columns that were discovered, by name.
        headline: Lines for the top of the file.

    Returns:
        The file, TOML, with a comment above each column that was discovered.
    """
    all_columns = {
        name: findings[name].column if name in findings else column
        for name, column in partial_schema.columns.items()
    }
    columns = {
        name: column
        for name, column in all_columns.items()
        if column is not None and not isinstance(column, Gap)
    }
    ignored = [name for name in all_columns if name not in columns]

    top: dict[str, Any] = {}
    if partial_schema.label in columns:
        top["label"] = partial_schema.label
    if partial_schema.missing_values != DEFAULT_MISSING_VALUES:
        top["missing_values"] = list(partial_schema.missing_values)
    if ignored:
        top["ignore"] = ignored
    file_form = partial_schema.file
    if file_form.header is False and ignored:
        # Without the ignored columns, nothing would say where the others stand.
        file_form = replace(file_form, header=tuple(all_columns))
    if file_form.form():
        top["file"] = file_form.form()

    notes_on_ignored = [
        f"{json.dumps(name)}: {findings[name].note}"
        for name in ignored
        if name in findings
    ]
    head_lines = [*headline.splitlines(), *notes_on_ignored]
    head = "".join(f"# {line}\n" for line in head_lines)
    forms = {name: column_form(column) for name, column in columns.items()}
    comments = {name: (findings[name].note,) for name in columns if name in findings}
    text = write_toml({**top, "columns": forms}, column_comments=comments)
    return f"{head}\n{text}"
