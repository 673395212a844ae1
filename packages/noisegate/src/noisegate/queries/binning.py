"""Bins of a numeric column: intervals between public cuts, and one for missing values.

There are two kinds, and a way from one to the other:

- `fine_bins` follow from the schema alone. Histograms on them are measured first.
- `merged_bins` are unions of fine bins, of roughly equal mass by such a histogram. The
  tables of a method are measured on them.

A noisy histogram is denoised between the two (`denoise`): on a binary tree of sums,
each node divides its mass between its halves as the noisy counts say, so far as the
division stands out of its noise, and otherwise in proportion to the widths of the
halves. That is a shrinkage of Haar wavelet coefficients (Donoho and Johnstone 1994).
Spikes are held out first, as the tree would smear them.

Merging gives a fine bin that holds more than an equal share of the records a bin of
its own. The others get more bins than their mass alone would, by its square root, as a
model of the label needs the rare values of a heavy tail. No bin holds less than a few
standard deviations of the noise.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.schema import NumericColumn
from noisegate.schema.kinds.bounded import RealColumn
from noisegate.schema.kinds.stepped import SteppedColumn
from noisegate.schema.layout import (
    OUTER_ATOM_SPACING,
    atoms_of,
    bound_positions,
    bounds_of,
    positions_of,
    positions_of_ranks,
    ranks_at,
)

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MAX_FINE_BINS = 1024
"""Most fine bins of a column, beside those of its bounds and of its atoms."""

# A value is looked up by the segment of [0, 1] that it lies in. A power of two, so that
# multiplying by it rounds nothing.
_SEGMENT_COUNT = 2048
# With more cuts than this inside one segment, a binary search is faster.
_MAX_CUTS_IN_SEGMENT = 6

# In a column of more steps (microseconds of a century), float64 has no number between
# the last two, so that no cut fits between them.
_MAX_SEPARABLE_STEPS = 2**50
# Distances from zero of the cuts of graded bins, in widths of a bin that is not graded:
# half an octave each, 22 octaves.
_GRADES = tuple(2 ** (-step / 2) for step in range(1, 45))

# A bin is a spike where it stands above the median of its neighbours by so many
# standard deviations of the noise; less suffices for an atom that the schema states.
_SPIKE_THRESHOLD = 5.0
_ATOM_THRESHOLD = 2.0
# How many neighbours are examined on each side.
_NEIGHBOUR_COUNT = 4
# Divisions of a node's mass that stand out of their noise by fewer standard deviations
# are dropped, and stronger ones are shrunk.
_DIVISION_THRESHOLD = 1.5
# A tail is replaced where it holds so many standard deviations of the noise.
_TAIL_THRESHOLD = 5.0
# A merged bin holds at least so many standard deviations of the noise of a fine bin.
_MIN_MASS = 3.0
# A spike has a merged bin of its own where it holds this part of what others hold.
_MIN_SPIKE_FRACTION = 0.7
# Spikes are chosen again so often at most, as each choice changes what the other bins
# hold.
_MAX_OWN_BIN_ROUNDS = 4


class _Lookup(NamedTuple):
    """A table that finds the interval of a value.

    Attributes:
        cuts: The cuts, followed by infinity, float64, (intervals,).
        first_intervals: The interval in which each segment of [0, 1] begins, and that
            of 1 itself; int32, (_SEGMENT_COUNT + 1,).
        max_cuts: Most cuts inside one segment.
    """

    cuts: Floats
    first_intervals: npt.NDArray[np.int32]
    max_cuts: int


@dataclass(frozen=True)
class NumericBins:
    """Bins of a numeric column, in positions: 0 is its lower bound, 1 its upper one.

    Every value falls into exactly one bin, whatever it is. Intervals are left-closed,
    ``[left, right)``, and the outermost ones are unbounded.

    Attributes:
        cuts: Interior cuts, strictly increasing, in (0, 1). They are public. m cuts
            make m + 1 intervals.
        nullable: Whether there is one more bin, the last, for missing values. Without
            it, NaN is counted in the last interval.

    Raises:
        OptionError: if cuts do not strictly increase in (0, 1).

    Examples:
        >>> import numpy as np
        >>> from noisegate.queries.binning import NumericBins
        >>> bins = NumericBins(cuts=(0.25, 0.5), nullable=True)
        >>> bins.codes(np.array([-9.0, 0.25, 0.7, 9.0, np.nan])).tolist(), bins.size
        ([0, 1, 2, 2, 3], 4)
    """

    cuts: tuple[float, ...]
    nullable: bool = False

    def __post_init__(self) -> None:
        """Checks the order of the cuts."""
        edges = (0.0, *self.cuts, 1.0)
        for index, (left, right) in enumerate(pairwise(edges)):
            if not (math.isfinite(right) and left < right):
                raise OptionError(
                    f"cuts: cut {min(index, len(self.cuts) - 1)} of {len(self.cuts)} "
                    "is out of order; cuts must be strictly increasing and lie "
                    "between 0 and 1, in encoded units."
                )

    @property
    def size(self) -> int:
        """Number of bins, the one for missing values included."""
        return len(self.cuts) + 1 + self.nullable

    def codes(self, values: Floats) -> npt.NDArray[np.int32]:
        """Finds the bin of each value.

        The bin of a value x is the number of cuts that are at most x: bins are closed
        on the left. Values below 0 are in the first interval, those above 1 in the last
        one. NaN has the last bin, which is that of missing values if there is one.

        Where cuts are dense, they are searched by bisection. Otherwise the interval in
        which the value's segment of [0, 1] begins is looked up, and each of the few
        cuts that may follow in the segment moves the value one bin up if it is at most
        x. A change must keep that both ways give the same bins, and that the bin of a
        value follows from that value alone, whatever the other values are: the
        sensitivity of counts rests on it.

        Args:
            values: Positions, (rows,), NaN where missing.

        Returns:
            Indices of bins, int32, (rows,).
        """
        cuts, first_intervals, max_cuts = self._lookup
        # All cuts lie in (0, 1), so that clipping moves no value to another bin. NaN
        # becomes 1, in the last interval.
        clipped = np.fmax(np.fmin(values, 1.0), 0.0)
        if max_cuts > _MAX_CUTS_IN_SEGMENT:
            codes = cuts.searchsorted(clipped, side="right").astype(np.int32)
        else:
            codes = first_intervals.take((clipped * _SEGMENT_COUNT).astype(np.intp))
            # After `max_cuts` comparisons no further cut of the segment can be left.
            for _ in range(max_cuts):
                codes += clipped >= cuts.take(codes)
        if self.nullable:
            codes[np.isnan(values)] = self.size - 1
        return codes

    @cached_property
    def _lookup(self) -> _Lookup:
        """The table by which `codes` finds intervals."""
        cuts = np.append(self.cuts, np.inf)
        segment_edges = np.arange(_SEGMENT_COUNT + 1) / _SEGMENT_COUNT
        first_intervals = np.asarray(
            cuts.searchsorted(segment_edges, side="right"), dtype=np.int32
        )
        cuts_below_end = cuts.searchsorted(segment_edges[1:])
        max_cuts = int((cuts_below_end - first_intervals[:-1]).max())
        return _Lookup(cuts, first_intervals, max_cuts)


def fine_bins(
    column: NumericColumn, *, max_bins: int = MAX_FINE_BINS, graded: bool = False
) -> NumericBins:
    """Cuts a column into fine bins, by the schema alone.

    A column of at most `max_bins` steps has a bin for each. Others have about
    `max_bins` bins of equal width, and each bound and each atom of the schema has a bin
    of its own.

    Args:
        column: The column.
        max_bins: Most bins, those of bounds and atoms not counted.
        graded: Whether bins get finer and finer towards zero, or towards the bound next
            to it, where they hold several values. Bounds may be generous: half of the
            amounts up to 1,000,000 may be below 20. Only real numbers and integers can
            be graded.
    """
    if not column.stepped:
        cuts = _cuts_of_reals(column, max_bins, graded=graded)
    else:
        first_ranks = _first_ranks(column, max_bins, graded=graded)
        # A cut stands half a step below the first step of its bin, so that no rounding
        # of a position can carry the step across it.
        below = positions_of_ranks(column, first_ranks - 1)
        first = positions_of_ranks(column, first_ranks)
        cuts = ((below + first) / 2).tolist()
    return NumericBins(tuple(cuts), column.missing)


def _cuts_of_reals(column: RealColumn, max_bins: int, *, graded: bool) -> list[float]:
    """Returns the cuts of fine bins of real numbers, in order; see `fine_bins`."""
    lower, upper = bound_positions(column)
    width = upper - lower
    equal_cuts = [lower + width * index / max_bins for index in range(1, max_bins)]
    single_values = _bounds_and_atoms(column)
    # A bin of a single value ends at the next float64. An atom outside the bounds needs
    # no cut behind it, as there is nothing up to the next.
    ends = [
        math.nextafter(value, 2.0) for value in single_values if lower <= value < upper
    ]
    last_cut = math.nextafter(1.0, 0.0)
    cuts = {*equal_cuts, *single_values, *ends, last_cut} - {0.0, 1.0}
    if graded and column.grades_towards_zero:
        closest = _number_closest_to_zero(column)
        zero_position = float(positions_of(column, [closest])[0])
        graded_cuts = {
            zero_position + side * width / max_bins * grade
            for grade in _GRADES
            for side in (-1, 1)
        }
        cuts |= {cut for cut in graded_cuts if lower < cut < upper}
    return sorted(cuts)


def _first_ranks(
    column: SteppedColumn, max_bins: int, *, graded: bool
) -> npt.NDArray[np.int64]:
    """Returns the first step of each fine bin but the lowest; see `fine_bins`.

    Returns:
        Ranks, of which 0 is the lowest step, strictly increasing, (bins − 1,).
    """
    step_count = column.last_rank + 1
    if step_count <= max_bins:
        return np.arange(1, step_count, dtype=np.int64)
    if step_count > _MAX_SEPARABLE_STEPS:
        equal_parts = [index * step_count // max_bins for index in range(1, max_bins)]
        return np.asarray(equal_parts, dtype=np.int64)

    # The lowest and the highest step are bins of their own.
    inner_count = step_count - 2
    group_count = min(max_bins, inner_count)
    inner = [1 + index * inner_count // group_count for index in range(group_count)]
    single_values = ranks_at(column, np.asarray(_bounds_and_atoms(column)))
    first_ranks = np.unique([*inner, *single_values, *(single_values + 1)])
    if graded and column.grades_towards_zero:
        closest = _number_closest_to_zero(column)
        zero_rank = ranks_at(column, positions_of(column, [closest]))
        distances = step_count // max_bins * np.asarray(_GRADES)
        distinct_distances = np.unique(distances.astype(np.int64))
        # Bins mirror each other on the two sides of the step of zero.
        above_zero = zero_rank + distinct_distances
        below_zero = zero_rank + 1 - distinct_distances
        graded_ranks = [*above_zero, *below_zero]
        first_ranks = np.unique([*first_ranks, *graded_ranks])
    return first_ranks[(first_ranks > 0) & (first_ranks < step_count)]


def _bounds_and_atoms(column: NumericColumn) -> list[float]:
    """Returns the positions of the bounds and of the atoms of a column, in order."""
    atoms = positions_of(column, atoms_of(column)).tolist()
    return sorted({*bound_positions(column), *atoms})


def _number_closest_to_zero(column: NumericColumn) -> float:
    """Returns zero where the bounds hold it, and otherwise the bound next to it."""
    lower, upper = bounds_of(column)
    return min(max(0.0, lower), upper)


def relative_widths(column: NumericColumn, bins: NumericBins) -> Floats:
    """Computes the widths of graded bins, each relative to the bin that it is part of.

    Args:
        column: The column.
        bins: Its fine bins, graded or not.

    Returns:
        The width of each bin over that of the bin which would hold it if bins were not
        graded, in (0, 1], (intervals,).
    """
    edges = np.asarray([0.0, *bins.cuts, 1.0])
    equal_edges = np.asarray([0.0, *fine_bins(column).cuts, 1.0])
    containing = equal_edges.searchsorted(edges[:-1], side="right") - 1
    is_undivided = np.isin(edges[1:], equal_edges) & np.isin(edges[:-1], equal_edges)
    ratios = np.diff(edges) / np.diff(equal_edges)[containing]
    return np.where(is_undivided, 1.0, ratios)


def is_single_value(column: NumericColumn, bins: NumericBins) -> Mask:
    """Finds the fine bins of real numbers that hold one value: a bound or an atom.

    Returns:
        A mask, (intervals,); of a column with steps all False.
    """
    if column.stepped:
        return np.zeros(len(bins.cuts) + 1, dtype=np.bool_)
    left_edges = np.asarray([0.0, *bins.cuts])
    single_values = [
        *bound_positions(column),
        *positions_of(column, atoms_of(column)),
    ]
    is_single = np.isin(left_edges, single_values)
    # The last cut is the float64 below 1.
    is_single[-1] = True
    return np.asarray(is_single)


def holds_atom(column: NumericColumn, bins: NumericBins) -> Mask:
    """Finds the bins that hold an atom of the schema.

    Returns:
        A mask, (intervals,).
    """
    mask = np.zeros(len(bins.cuts) + 1, dtype=np.bool_)
    mask[bins.codes(positions_of(column, atoms_of(column)))] = True
    return mask


def equal_bins(column: NumericColumn, max_bins: int) -> NumericBins:
    """Cuts a column into bins of equal width, by the schema alone.

    A column of at most `max_bins` steps has a bin for each. Others have `max_bins` bins
    and, beside them, a bin for each atom of the schema.
    """
    if column.stepped and column.last_rank < max_bins:
        step_count = column.last_rank
        cuts = (np.arange(step_count) + 0.5) / step_count
    else:
        cuts = np.union1d(np.arange(1, max_bins) / max_bins, _cuts_around_atoms(column))
    return NumericBins(cuts=tuple(cuts.tolist()), nullable=column.missing)


def _cuts_around_atoms(column: NumericColumn) -> Floats:
    """Returns the cuts on both sides of each atom.

    A cut is half a step away from its atom, and of real numbers at the atom and at the
    next float64.
    """
    atoms = positions_of(column, atoms_of(column))
    if not column.stepped:
        lower, upper = bound_positions(column)
        is_outside = (atoms < lower) | (atoms > upper)
        inner_atoms = atoms[~is_outside]
        outer_atoms = atoms[is_outside]
        # Values between two atoms outside the bounds are read as the nearer one.
        cuts = np.concatenate(
            [
                inner_atoms,
                np.nextafter(inner_atoms, 2.0),
                outer_atoms - OUTER_ATOM_SPACING / 2,
                outer_atoms + OUTER_ATOM_SPACING / 2,
            ]
        )
    else:
        half_step = 0.5 / column.last_rank
        cuts = np.concatenate([atoms - half_step, atoms + half_step])
    return np.asarray(cuts[(cuts > 0) & (cuts < 1)])


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """A denoised histogram on fine bins, missing values left out.

    Attributes:
        masses: Estimated counts of records, at least zero, (intervals,).
        is_spike: Which bins stand out of their neighbours, (intervals,).
        noise_std: Standard deviation of the noise on each count, before denoising.
        is_atom: Which bins hold an atom of the schema, (intervals,); None for none.
    """

    masses: Floats
    is_spike: Mask
    noise_std: float
    is_atom: Mask | None = None


@dataclass(frozen=True, kw_only=True)
class CoarseHistogram:
    """Noisy counts of the same records on wider bins, with noise of their own.

    Attributes:
        counts: Noisy counts, each of `group_size` neighbouring fine bins, the last one
            of those that are left.
        group_size: Fine bins in a wide one, a power of two.
        noise_std: Standard deviation of the noise on each count.
    """

    counts: Floats
    group_size: int
    noise_std: float


def denoise(
    noisy_counts: Floats,
    noise_std: float,
    coarse: CoarseHistogram | None = None,
    is_atom: Mask | None = None,
    *,
    record_count: float | None = None,
    widths: Floats | None = None,
) -> Histogram:
    """Estimates the counts of ordered bins from noisy ones.

    Args:
        noisy_counts: Noisy counts, (intervals,).
        noise_std: Standard deviation of the noise on each, positive.
        coarse: The same histogram on wider bins. The noise on a sum of many fine counts
            is large, and that on a count of a wide bin is not.
        is_atom: Bins that may be expected to stand out, (intervals,).
        record_count: Most records that there may be. Divisions of their mass are shrunk
            by how much they could vary among so many.
        widths: Widths of the bins, (intervals,), by which records are spread where
            nothing is known; None for equal ones.

    Returns:
        The denoised histogram.
    """
    is_spike, spike_masses = _find_spikes(noisy_counts, noise_std, is_atom)
    if coarse is not None:
        first_bins = np.arange(0, len(noisy_counts), coarse.group_size)
        coarse_spike_masses = np.add.reduceat(spike_masses, first_bins)
        coarse = replace(coarse, counts=coarse.counts - coarse_spike_masses)
    levels = _sum_pairwise(noisy_counts - spike_masses, noise_std, coarse, widths)
    smooth_masses = _shrink_divisions(levels, record_count)
    return Histogram(
        masses=smooth_masses[: len(noisy_counts)] + spike_masses,
        is_spike=is_spike,
        noise_std=noise_std,
        is_atom=is_atom,
    )


def _find_spikes(
    noisy_counts: Floats, noise_std: float, is_atom: Mask | None
) -> tuple[Mask, Floats]:
    """Finds bins that stand out of the median of their neighbours.

    Returns:
        Which bins are spikes, and by how much each spike exceeds the median (zero
        elsewhere), both (intervals,).
    """
    # Mirrored without the outermost bin itself: repeated, it would hide a spike at a
    # bound, where most of them are.
    padded = np.pad(noisy_counts, _NEIGHBOUR_COUNT, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEIGHBOUR_COUNT + 1)
    excess = noisy_counts - np.median(windows, axis=1)
    threshold: float | Floats = _SPIKE_THRESHOLD
    if is_atom is not None:
        threshold = np.where(is_atom, _ATOM_THRESHOLD, _SPIKE_THRESHOLD)
    is_spike = excess > threshold * noise_std
    return is_spike, np.where(is_spike, excess, 0.0)


class _Level(NamedTuple):
    """The nodes of one level of the binary tree of sums, each array (nodes,).

    Attributes:
        sums: Estimated counts of the records below each node.
        variances: Variances of the noise on the sums.
        widths: Widths of the bins below each node, together.
    """

    sums: Floats
    variances: Floats
    widths: Floats


def _sum_pairwise(
    noisy_counts: Floats,
    noise_std: float,
    coarse: CoarseHistogram | None,
    widths: Floats | None,
) -> list[_Level]:
    """Sums noisy counts on a binary tree.

    Returns:
        The levels, from single bins, padded by bins without width to a power of two, to
        the root.
    """
    bin_count = len(noisy_counts)
    leaf_count = 1 << (bin_count - 1).bit_length()
    padding = (0, leaf_count - bin_count)
    level = _Level(
        sums=np.pad(noisy_counts, padding),
        variances=np.pad(np.full(bin_count, noise_std**2), padding),
        widths=np.pad(np.ones(bin_count) if widths is None else widths, padding),
    )
    levels = [level]
    while len(level.sums) > 1:
        level = _Level(*(array.reshape(-1, 2).sum(axis=1) for array in level))
        if coarse is not None and leaf_count // len(level.sums) == coarse.group_size:
            level = _combine(level, coarse)
        levels.append(level)
    return levels


def _combine(level: _Level, coarse: CoarseHistogram) -> _Level:
    """Combines two estimates of the same sums, weighted by their inverse variances."""
    sums = level.sums.copy()
    variances = level.variances.copy()
    known = slice(len(coarse.counts))
    weight = variances[known] / (variances[known] + coarse.noise_std**2)
    sums[known] += weight * (coarse.counts - sums[known])
    variances[known] *= 1 - weight
    return _Level(sums, variances, level.widths)


def _shrink_divisions(levels: list[_Level], record_count: float | None) -> Floats:
    """Divides the mass of the root down to single bins, each division shrunk.

    Args:
        levels: Levels of the tree, from single bins to the root.
        record_count: Most records that there may be, or None.

    Returns:
        The masses of bins, at least zero, (leaves,).
    """
    masses = np.clip(levels[-1].sums, 0, record_count)
    for level in reversed(levels[:-1]):
        masses = _divide_masses(masses, level, shrinks_by_mass=record_count is not None)
    return np.asarray(masses)


def _divide_masses(masses: Floats, level: _Level, *, shrinks_by_mass: bool) -> Floats:
    """Divides the masses of nodes between their halves.

    A node of mass m has halves of noisy sums a and b, with variances A and B. Without
    any evidence the left half has the share q of the mass, its part of the width. What
    it has above that is seen as x = a - q (a + b), with noise of variance
    v = (1 - q)² A + q² B. The left half becomes q m + f x, between 0 and m, with ::

        f = max(1 - t² v / max(x², v), 0)       t = _DIVISION_THRESHOLD

    so that x is dropped where it is below t standard deviations of its noise. With
    `shrinks_by_mass`, f is also multiplied by p / (p + v), where p = m² q (1 - q) is
    how much the division can vary.

    Args:
        masses: Masses of the nodes, (nodes,).
        level: The level below them, of their halves.
        shrinks_by_mass: Whether a division is shrunk by how much it can vary among the
            records of its node, too.

    Returns:
        The masses of the halves, (2 · nodes,).
    """
    sums = level.sums.reshape(-1, 2)
    variances = level.variances.reshape(-1, 2)
    widths = level.widths.reshape(-1, 2)

    width = widths.sum(axis=1)
    left_share = _divide_or_zero(widths[:, 0], width)
    excess = sums[:, 0] - left_share * sums.sum(axis=1)
    variance = variances[:, 0] * (1 - left_share) ** 2 + variances[:, 1] * left_share**2
    noise_fraction = _divide_or_zero(variance, np.maximum(excess**2, variance))
    shrinkage = np.maximum(1 - _DIVISION_THRESHOLD**2 * noise_fraction, 0)
    if shrinks_by_mass:
        prior_variance = masses**2 * left_share * (1 - left_share)
        shrinkage *= _divide_or_zero(prior_variance, prior_variance + variance)
    left_masses = np.clip(left_share * masses + shrinkage * excess, 0, masses)

    # What has no width, as the bins of the padding, holds nothing.
    left_masses = np.where(widths[:, 0] == 0, 0, left_masses)
    left_masses = np.where(widths[:, 1] == 0, masses, left_masses)
    return np.stack([left_masses, masses - left_masses], axis=1).ravel()


def _divide_or_zero(numerators: Floats, denominators: Floats) -> Floats:
    """Divides arrays element by element, with zero where a denominator is not positive.

    The numerator is at most its denominator, and so zero there as well.
    """
    is_positive = denominators > 0
    zeros = np.zeros_like(denominators)
    return np.divide(numerators, denominators, out=zeros, where=is_positive)


def with_exponential_tails(histogram: Histogram, edges: Floats) -> Floats:
    """Replaces thin tails, whose shape is too noisy, by exponential ones.

    A tail holds `_TAIL_THRESHOLD` standard deviations of the noise. Denoising spreads
    it as far as the bound. Its density now halves over the length in which the mass
    beyond came down to that of the tail from twice as much. Spikes stay.

    Args:
        histogram: The denoised histogram.
        edges: Edges of its bins, in positions, from 0 to 1, (intervals + 1,).

    Returns:
        Masses with the same sum, (intervals,).
    """
    spike_masses = np.where(histogram.is_spike, histogram.masses, 0.0)
    masses = histogram.masses - spike_masses
    tail_mass = _TAIL_THRESHOLD * histogram.noise_std
    masses = _with_exponential_upper_tail(masses, edges, tail_mass)
    mirrored_masses = _with_exponential_upper_tail(
        masses[::-1], 1 - edges[::-1], tail_mass
    )
    return mirrored_masses[::-1] + spike_masses


def _with_exponential_upper_tail(
    masses: Floats, edges: Floats, tail_mass: float
) -> Floats:
    """Replaces the upper tail by an exponential one of the same mass.

    Args:
        masses: Masses of bins, (intervals,).
        edges: Edges of the bins, increasing, (intervals + 1,).
        tail_mass: The tail is the last bins that hold less than this together.

    Returns:
        The masses, unchanged where no bin is left below twice the tail, (intervals,).
    """
    # The mass of each bin and of all above it, (intervals,).
    mass_beyond = masses[::-1].cumsum()[::-1]
    half_life_start, tail_start = np.searchsorted(
        -mass_beyond, [-2 * tail_mass, -tail_mass], side="right"
    )
    if not 0 < half_life_start < tail_start < len(masses):
        return masses
    half_life = edges[tail_start] - edges[half_life_start]
    # The fraction of the tail that lies beyond each of its edges, before the bound cuts
    # it off.
    survival = 0.5 ** ((edges[tail_start:] - edges[tail_start]) / half_life)
    # False where rounding in float64 leaves the tail no length (NaN, too).
    has_length = survival[-1] < 1
    if not has_length:
        return masses
    tail = mass_beyond[tail_start] * -np.diff(survival) / (1 - survival[-1])
    return np.append(masses[:tail_start], tail)


def merged_bins(
    fine: NumericBins, histogram: Histogram, *, target_count: int
) -> NumericBins:
    """Merges fine bins into about so many of roughly equal mass.

    Args:
        fine: The fine bins.
        histogram: The denoised histogram on them.
        target_count: Number of intervals to aim at.

    Returns:
        At most ``max_merged_bins(target_count)`` intervals, with cuts of `fine`.
    """
    has_own_bin, target_mass = _choose_own_bins(histogram, target_count)
    first_bins = _gather(histogram.masses, has_own_bin, target_mass)
    first_bins = _absorb_weak_bins(
        first_bins,
        histogram.masses,
        min_mass=_MIN_MASS * histogram.noise_std,
        max_bins=max_merged_bins(target_count),
    )
    return _union_of_bins(fine, first_bins)


def max_merged_bins(target_count: int) -> int:
    """Returns the most intervals that `merged_bins` gives for a target."""
    return target_count + target_count // 2


def _union_of_bins(fine: NumericBins, first_bins: list[int]) -> NumericBins:
    """Returns unions of neighbouring fine bins.

    Args:
        fine: The fine bins.
        first_bins: Index of the first fine bin of each union, from 0, increasing.
    """
    cuts = tuple(fine.cuts[first_bin - 1] for first_bin in first_bins[1:])
    return NumericBins(cuts, fine.nullable)


def _choose_own_bins(histogram: Histogram, target_count: int) -> tuple[Mask, float]:
    """Chooses the fine bins that are merged with no other.

    With M the mass of all bins, T the number of merged bins to aim at and m the least
    mass that exceed the noise (`_MIN_MASS`), these are

    - bins of more than M / T and m,
    - atoms that are spikes and have more than m,
    - spikes that hold nearly as much as a merged bin does.

    The last depend on what merged bins hold. With R the mass that has no bin of its
    own, these are to be T √(R / M) bins, more than the T R / M of an equal share, so
    that a heavy tail gets some. Each is to hold R over that number, m at least, and a
    spike qualifies with `_MIN_SPIKE_FRACTION` of it. As every choice lowers R, it is
    repeated until nothing changes, up to `_MAX_OWN_BIN_ROUNDS` times. A round that
    would leave more than a quarter of T with bins of their own is not taken, as each
    of them may also split the bins around it in two.

    Args:
        histogram: The denoised histogram, with masses in records.
        target_count: Number T of merged bins to aim at.

    Returns:
        The chosen bins, a mask, (intervals,); and the mass that merged ones aim at, in
        records.
    """
    masses = histogram.masses
    total = max(float(masses.sum()), 1.0)
    min_mass = _MIN_MASS * histogram.noise_std
    has_own_bin = masses > max(total / target_count, min_mass)
    if histogram.is_atom is not None:
        is_clear_atom = histogram.is_atom & histogram.is_spike & (masses > min_mass)
        has_own_bin |= is_clear_atom
    max_own_bins = max(target_count // 4, 1)
    for _ in range(_MAX_OWN_BIN_ROUNDS):
        rest = float(masses[~has_own_bin].sum())
        rest_bins = max(round(target_count * math.sqrt(rest / total)), 1)
        target_mass = max(rest / rest_bins, min_mass)
        min_spike_mass = max(_MIN_SPIKE_FRACTION * target_mass, min_mass)
        is_large_spike = histogram.is_spike & (masses > min_spike_mass)
        extended = has_own_bin | is_large_spike
        if (extended == has_own_bin).all() or extended.sum() > max_own_bins:
            break
        has_own_bin = extended
    return has_own_bin, target_mass


def _gather(masses: Floats, has_own_bin: Mask, target_mass: float) -> list[int]:
    """Gathers neighbouring fine bins, from the lowest on, until they have the mass.

    Args:
        masses: Masses of the fine bins, (intervals,).
        has_own_bin: Which of them stay as they are, (intervals,).
        target_mass: The mass to gather. A last half of it joins what is below.

    Returns:
        Index of the first fine bin of each merged one, from 0, strictly increasing.
    """
    first_bins = {0}
    gathered = 0.0
    remaining = float(masses[~has_own_bin].sum())
    bins = zip(masses.tolist(), has_own_bin.tolist(), strict=True)
    for index, (mass, stands_alone) in enumerate(bins):
        if stands_alone:
            first_bins |= {index, index + 1}
            gathered = 0.0
            continue
        gathered += mass
        remaining -= mass
        if gathered >= target_mass and remaining >= target_mass / 2:
            first_bins.add(index + 1)
            gathered = 0.0
    # Behind the last bin none begins.
    return sorted(first_bins - {len(masses)})


def _absorb_weak_bins(
    first_bins: list[int], masses: Floats, *, min_mass: float, max_bins: int
) -> list[int]:
    """Joins the lightest merged bin with its lighter neighbour, again and again.

    It ends when no merged bin has less than `min_mass`, and there are at most
    `max_bins`; one merged bin stays in any case.

    Args:
        first_bins: Index of the first fine bin of each merged one, increasing.
        masses: Masses of the fine bins, (intervals,).
        min_mass: Least mass of a merged bin.
        max_bins: Most merged bins.

    Returns:
        Index of the first fine bin of each merged one that is left.
    """
    first_bins = list(first_bins)
    merged_masses = np.add.reduceat(masses, first_bins).tolist()
    while len(first_bins) > 1 and (
        min(merged_masses) < min_mass or len(first_bins) > max_bins
    ):
        lightest = merged_masses.index(min(merged_masses))
        if lightest == 0:
            joins_lower = False
        elif lightest == len(merged_masses) - 1:
            joins_lower = True
        else:
            joins_lower = merged_masses[lightest - 1] <= merged_masses[lightest + 1]
        # The upper one of the two goes.
        upper = lightest if joins_lower else lightest + 1
        merged_masses[upper - 1] += merged_masses.pop(upper)
        del first_bins[upper]
    return first_bins


def subdivided_bins(
    fine: NumericBins, bins: NumericBins, min_count: int
) -> NumericBins:
    """Cuts merged bins in two until there are enough.

    The bin of most fine bins is cut next, in the middle of them.

    Args:
        fine: The fine bins.
        bins: Merged ones, whose cuts are cuts of `fine`.
        min_count: Number of intervals to reach.

    Returns:
        At least `min_count` intervals, or all fine bins where these are fewer.
    """
    # First fine bins of the intervals, and the end of the last one.
    bounds = [
        0,
        *(np.searchsorted(fine.cuts, bins.cuts) + 1).tolist(),
        len(fine.cuts) + 1,
    ]
    while len(bounds) <= min_count:
        fine_counts = [end - start for start, end in pairwise(bounds)]
        if max(fine_counts) == 1:
            break
        widest = fine_counts.index(max(fine_counts))
        bounds.insert(widest + 1, (bounds[widest] + bounds[widest + 1]) // 2)
    return _union_of_bins(fine, bounds[:-1])
