"""Cells of a numeric column: intervals between public cuts, and one more for missing values.

`fine_bins` are those of the histograms that are measured first, from the schema alone.
Such a noisy histogram is denoised on a tree of halves: each node's division of its mass
between its two halves is kept as far as it stands out of its own noise, and else
follows the widths (shrinkage of Haar coefficients; Donoho and Johnstone 1994). Spikes
are set aside first: they would be smeared by the tree.

`merged_bins` then cuts a column into cells of roughly equal mass. A fine cell that
holds more than an equal share keeps a cell of its own. The rest is cut into more cells
than its mass alone would get (by the square root of it), as the rare values of a heavy
tail are what a model of the label needs; none finer than a few standard deviations of
the noise.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.schema import Continuous, Integer, NumericColumn
from noisegate.schema.layout import (
    OUTER_ATOM_SPACING,
    atoms_of,
    bound_positions,
    positions_of,
    positions_of_ranks,
    ranks_at,
)

MOST_FINE_CELLS = 1024
# A value is looked up by the part of [0, 1] it lies in; a power of two, so that the product with it rounds nothing.
_PARTS = 2048
_WITHIN = 6  # with more cuts than this inside one part, a binary search is faster
# In a longer column, microseconds of a century say, the last two steps are too close for a cut between them.
_DISTINCT = 2**50
# A cell is a spike when it stands above the median of its neighbours by this many noise standard deviations.
SPIKE = 5.0
_STATED = 2.0  # an atom that the schema states needs less to be believed
_NEIGHBOURS = 4
# Where graded cells are cut, in parts of a cell that is not: half an octave each, 22 octaves.
_GRADES = tuple(2 ** (-step / 2) for step in range(1, 45))
_THRESHOLD = 1.5  # divisions weaker than this many noise standard deviations are dropped, stronger ones shrunk
_LEAST = 3.0  # a cell's mass is at least this many standard deviations of the noise of a fine cell
_SPIKE_PART = 0.7  # a spike keeps its own cell when it holds this part of what the cells around it hold

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class NumericBins:
    """Intervals of a numeric column, in encoded units: 0 is its lower bound, 1 its upper one.

    Every value falls into exactly one cell, whatever it is: the first and the last interval have no outer end, and a
    value on a cut belongs to the interval above it. An OptionError if cuts are not strictly increasing in (0, 1).
    """

    cuts: tuple[
        float, ...
    ]  # interior and public, strictly increasing, in (0, 1); m cuts make m + 1 intervals
    nullable: bool = False
    """Whether there is one more, last, cell for missing values. Without it NaN is counted in the last interval."""

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

    def codes(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int32]:
        """Returns the cell of each value, (rows,); NaN goes to the last cell."""
        cuts, first, within = self._parts
        # All cuts lie in (0, 1), so this moves no value to another cell; NaN goes behind everything.
        inside = np.fmax(np.fmin(values, 1.0), 0.0)
        if within > _WITHIN:
            codes = cuts.searchsorted(inside, side="right").astype(np.int32)
        else:  # no more than so many cuts lie between the beginning of its part and a value: each is one step
            codes = first.take((inside * _PARTS).astype(np.intp))
            for _ in range(within):
                codes += inside >= cuts.take(codes)
        if self.nullable:
            codes[np.isnan(values)] = self.size - 1
        return codes

    @cached_property
    def _parts(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32], int]:
        """Cuts with an infinite one behind, in which interval each part of [0, 1] begins, most cuts inside a part."""
        cuts, edges = np.append(self.cuts, np.inf), np.arange(_PARTS + 1) / _PARTS
        first = cuts.searchsorted(edges, side="right").astype(np.int32)
        return cuts, first, int((cuts.searchsorted(edges[1:]) - first[:-1]).max())


def fine_bins(
    column: NumericColumn, *, most: int = MOST_FINE_CELLS, graded: bool = False
) -> NumericBins:
    """Returns one cell for each whole step of a column where there are at most `most`, else about `most` equal ones."""
    # Where a cell holds more than one value, the two bounds and the atoms of the schema are cells of their own.
    # `graded` cells are cut finer and finer near zero, or near the bound next to it, since bounds may be generous: half
    # of the amounts up to 1,000,000 may be below 20.
    start, stop = bound_positions(column)
    alone = sorted({start, stop, *positions_of(column, atoms_of(column)).tolist()})
    if isinstance(column, Continuous):
        inner = [start + (stop - start) * place / most for place in range(1, most)]
        # An atom outside the bounds needs no cut behind it: there is nothing up to the next.
        ends = [math.nextafter(at, 2.0) for at in alone if start <= at < stop]
        cuts = {*inner, *alone, *ends, math.nextafter(1.0, 0.0)} - {0.0, 1.0}
        if graded:
            near = float(positions_of(column, [_next_to_zero(column)])[0])
            around = {
                near + side * (stop - start) / most * part
                for part in _GRADES
                for side in (-1, 1)
            }
            cuts |= {cut for cut in around if start < cut < stop}
        return NumericBins(tuple(sorted(cuts)), column.missing)
    count = column.last_rank + 1
    if count <= most:
        starts = np.arange(1, count, dtype=np.int64)
    elif count > _DISTINCT:
        starts = np.asarray(
            [place * count // most for place in range(1, most)], dtype=np.int64
        )
    else:
        groups = min(most, count - 2)
        inner = [1 + place * (count - 2) // groups for place in range(groups)]
        single = ranks_at(column, np.asarray(alone))
        starts = np.unique([*inner, *single, *(single + 1)])
        if graded and isinstance(column, Integer):
            rank = ranks_at(column, positions_of(column, [_next_to_zero(column)]))
            wide = np.unique((count // most * np.asarray(_GRADES)).astype(np.int64))
            starts = np.unique([*starts, *(rank + wide), *(rank + 1 - wide)])
        starts = starts[(starts > 0) & (starts < count)]
    # A cut half a step below the first step of its cell: no rounding of an encoded step can carry it across.
    below, at = (
        positions_of_ranks(column, starts - 1),
        positions_of_ranks(column, starts),
    )
    return NumericBins(tuple(((below + at) / 2).tolist()), column.missing)


def _next_to_zero(column: Continuous | Integer) -> float:
    return min(max(0.0, column.lower), column.upper)


def fine_widths(column: NumericColumn, bins: NumericBins) -> Floats:
    """Returns which part each cell is of the one that it would be in if cells were not graded, (fine,)."""
    cells, plain = (
        np.asarray([0.0, *one.cuts, 1.0]) for one in (bins, fine_bins(column))
    )
    held = plain.searchsorted(cells[:-1], side="right") - 1
    whole = np.isin(cells[1:], plain) & np.isin(cells[:-1], plain)
    return np.where(whole, 1.0, np.diff(cells) / np.diff(plain)[held])


def single_cells(column: NumericColumn, bins: NumericBins) -> npt.NDArray[np.bool_]:
    """Returns which fine cells of a continuous column are a single value: its bounds and its atoms; (fine,)."""
    edges = np.asarray([0.0, *bins.cuts])
    if not isinstance(column, Continuous):
        return np.zeros(len(edges), dtype=np.bool_)
    single = np.isin(
        edges, [*bound_positions(column), *positions_of(column, atoms_of(column))]
    )
    single[-1] = True
    return np.asarray(single)


def atom_cells(column: NumericColumn, bins: NumericBins) -> npt.NDArray[np.bool_]:
    """Returns which fine cells hold the atoms that the schema states, (fine,)."""
    held = np.zeros(len(bins.cuts) + 1, dtype=np.bool_)
    held[bins.codes(positions_of(column, atoms_of(column)))] = True
    return held


def equal_bins(column: NumericColumn, most: int) -> NumericBins:
    """Returns cells from public knowledge alone: one for each step if that makes at most `most`, else equal widths."""
    width = most if isinstance(column, Continuous) else column.last_rank
    if width < most:
        cuts = (np.arange(width) + 0.5) / width
    else:
        cuts = np.union1d(np.arange(1, most) / most, _around_atoms(column))
    return NumericBins(cuts=tuple(cuts.tolist()), nullable=column.missing)


def _around_atoms(column: NumericColumn) -> Floats:
    """Returns cuts on both sides of each atom: half a step away, or the next float64 for real numbers."""
    at, (start, stop) = positions_of(column, atoms_of(column)), bound_positions(column)
    outer = (at < start) | (at > stop)
    if isinstance(column, Continuous):
        # Of what lies between two atoms outside the bounds, each half is read as the nearer one.
        sides = np.concatenate(
            [
                at[~outer],
                np.nextafter(at[~outer], 2.0),
                at[outer] - OUTER_ATOM_SPACING / 2,
                at[outer] + OUTER_ATOM_SPACING / 2,
            ]
        )
    else:
        sides = np.concatenate(
            [at - 0.5 / column.last_rank, at + 0.5 / column.last_rank]
        )
    return np.asarray(sides[(sides > 0) & (sides < 1)])


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """A denoised histogram."""

    masses: Floats  # non-negative estimated counts, (cells,)
    spikes: npt.NDArray[
        np.bool_
    ]  # which cells hold a single value that stands out, (cells,)
    noise_std: float  # noise of each cell before
    atoms: npt.NDArray[np.bool_] | None = (
        None  # which cells hold an atom of the schema, (cells,); None for none
    )


@dataclass(frozen=True, kw_only=True)
class Coarse:
    """The same histogram on few cells, with noise of its own."""

    noisy: Floats  # noisy counts, each of `group` neighbouring cells, the last of what is left
    group: int  # a power of two
    noise_std: float  # standard deviation of the noise on each


def denoise(
    noisy: Floats,
    noise_std: float,
    coarse: Coarse | None = None,
    atoms: npt.NDArray[np.bool_] | None = None,
    *,
    records: float | None = None,
    widths: Floats | None = None,
) -> Histogram:
    """Returns what noisy counts of ordered cells say, (cells,), with noise of a positive standard deviation on each."""
    # The noise of a sum of many fine cells is large; that of a `coarse` one is not. `atoms` are cells that may be
    # expected to stand out. The excess of a half is shrunk by the most that it can vary among at most so many
    # `records`. Where nothing is known, records are spread by the `widths` of cells, (cells,); None for equal ones.
    # Mirrored without the outermost cell itself: repeated, it would hide a spike at a bound, where most of them are.
    padded = np.pad(noisy, _NEIGHBOURS, mode="reflect")
    around = np.median(
        np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEIGHBOURS + 1), axis=1
    )
    spikes = (
        noisy - around
        > (SPIKE if atoms is None else np.where(atoms, _STATED, SPIKE)) * noise_std
    )
    above = np.where(spikes, noisy - around, 0.0)
    if coarse is not None:
        starts = np.arange(0, len(noisy), coarse.group)
        coarse = replace(coarse, noisy=coarse.noisy - np.add.reduceat(above, starts))
    smooth = _shrunk(_tree(noisy - above, noise_std, coarse, widths), records)
    return Histogram(
        masses=smooth[: len(noisy)] + above,
        spikes=spikes,
        noise_std=noise_std,
        atoms=atoms,
    )


def _tree(
    noisy: Floats, noise_std: float, coarse: Coarse | None, widths: Floats | None
) -> list[Floats]:
    """Returns the levels from single cells to the root, each (3, nodes): sums, their variances, their widths."""
    cells = len(noisy)
    size = 1 << (cells - 1).bit_length()
    level = np.zeros((3, size))
    level[0, :cells], level[1, :cells] = noisy, noise_std**2
    level[2, :cells] = 1 if widths is None else widths
    levels = [level]
    while levels[-1].shape[1] > 1:
        level = levels[-1].reshape(3, -1, 2).sum(axis=2)
        if coarse is not None and size // level.shape[1] == coarse.group:
            # Both estimates of the same sums, weighted by inverse variance.
            sums, variances = level[:2, : len(coarse.noisy)]
            weight = variances / (variances + coarse.noise_std**2)
            sums += weight * (coarse.noisy - sums)
            variances *= 1 - weight
        levels.append(level)
    return levels


def _shrunk(levels: list[Floats], records: float | None) -> Floats:
    """Returns masses of cells, every division of a node's mass shrunk towards the widths of its halves."""
    masses = np.clip(levels[-1][0], 0, records)
    for level in reversed(levels[:-1]):
        sums, variances, widths = level.reshape(3, -1, 2)
        wide = widths.sum(axis=1)
        share = np.divide(widths[:, 0], wide, out=np.zeros(len(wide)), where=wide > 0)
        excess = sums[:, 0] - share * sums.sum(axis=1)
        variance = variances[:, 0] * (1 - share) ** 2 + variances[:, 1] * share**2
        square = np.maximum(excess**2, variance)
        noise = np.divide(variance, square, out=np.zeros_like(square), where=square > 0)
        kept = np.maximum(1 - _THRESHOLD**2 * noise, 0)
        if records is not None:
            most = masses**2 * share * (1 - share)
            kept *= np.divide(
                most, most + variance, out=np.zeros_like(most), where=most > 0
            )
        left = np.clip(share * masses + kept * excess, 0, masses)
        left = np.where(widths[:, 1] == 0, masses, np.where(widths[:, 0] == 0, 0, left))
        masses = np.stack([left, masses - left], axis=1).ravel()
    return np.asarray(masses)


def falling_ends(histogram: Histogram, edges: Floats) -> Floats:
    """Returns masses whose ends fall off exponentially where noise hides how they do, (cells,); edges are (cells + 1,).

    What lies beyond the last `SPIKE` noise standard deviations of mass would else be spread up to the bound. It falls
    by half over the length in which the mass beyond came down to this from twice as much. Single values stay.
    """
    single = np.where(histogram.spikes, histogram.masses, 0.0)
    masses, least = histogram.masses - single, SPIKE * histogram.noise_std
    for _ in range(2):
        beyond = masses[::-1].cumsum()[::-1]
        before, start = np.searchsorted(-beyond, [-2 * least, -least], side="right")
        if 0 < before < start < len(masses):
            left = 0.5 ** (
                (edges[start:] - edges[start]) / (edges[start] - edges[before])
            )
            if left[-1] < 1:  # what lies beyond has a length, in float64 too
                masses = np.append(
                    masses[:start], beyond[start] * -np.diff(left) / (1 - left[-1])
                )
        masses, edges = masses[::-1], 1 - edges[::-1]
    return masses + single


def merged_bins(fine: NumericBins, histogram: Histogram, *, cells: int) -> NumericBins:
    """Returns about `cells` cells, at most `most_cells(cells)`, with cuts among the fine ones; missing is left out."""
    own, target = _own_cells(histogram, cells)
    masses, starts, gathered = histogram.masses, [0], 0.0
    left = float(masses[~own].sum())
    for place, (mass, alone) in enumerate(
        zip(masses.tolist(), own.tolist(), strict=True)
    ):
        if alone:
            starts += [place, place + 1]
            gathered = 0.0
            continue
        gathered += mass
        left -= mass
        if gathered >= target and left >= target / 2:
            starts.append(place + 1)
            gathered = 0.0
    begins = sorted({start for start in starts if start < len(masses)})
    begins = _joined(
        begins, masses, least=_LEAST * histogram.noise_std, most=most_cells(cells)
    )
    return NumericBins(
        tuple(fine.cuts[begin - 1] for begin in begins[1:]), fine.nullable
    )


def filled_bins(fine: NumericBins, few: NumericBins, cells: int) -> NumericBins:
    """Returns cells that are cut in two, where they hold most fine ones, until there are so many or no more to cut."""
    begins = [
        0,
        *(np.searchsorted(fine.cuts, few.cuts) + 1).tolist(),
        len(fine.cuts) + 1,
    ]
    while (
        len(begins) <= cells
        and max(wide := [end - start for start, end in pairwise(begins)]) > 1
    ):
        place = wide.index(max(wide))
        begins.insert(place + 1, (begins[place] + begins[place + 1]) // 2)
    return NumericBins(
        tuple(fine.cuts[begin - 1] for begin in begins[1:-1]), fine.nullable
    )


def most_cells(cells: int) -> int:
    """Returns the largest number of cells that `merged_bins` gives, missing left out."""
    return cells + cells // 2


def _joined(begins: list[int], masses: Floats, *, least: float, most: int) -> list[int]:
    """Returns where cells begin after weak ones, and the weakest ones of too many, have joined a neighbour."""
    held = np.add.reduceat(masses, begins).tolist()
    while len(begins) > 1 and (min(held) < least or len(begins) > most):
        weak = held.index(min(held))
        lower = weak > 0 and (weak == len(held) - 1 or held[weak - 1] <= held[weak + 1])
        gone = weak if lower else weak + 1
        held[gone - 1] += held.pop(gone)
        del begins[gone]
    return begins


def _own_cells(histogram: Histogram, cells: int) -> tuple[npt.NDArray[np.bool_], float]:
    """Returns which fine cells stand alone, and the mass that the others are gathered to."""
    masses = histogram.masses
    total = max(float(masses.sum()), 1.0)
    least = _LEAST * histogram.noise_std
    own = masses > max(total / cells, least)
    if histogram.atoms is not None:
        own |= histogram.atoms & histogram.spikes & (masses > least)
    for _ in range(4):
        rest = float(masses[~own].sum())
        parts = max(round(cells * math.sqrt(rest / total)), 1)
        target = max(rest / parts, least)
        more = own | (histogram.spikes & (masses > max(_SPIKE_PART * target, least)))
        # Each cell of its own may also split what was around it, so there are at most a quarter of `cells`.
        if (more == own).all() or more.sum() > max(cells // 4, 1):
            break
        own = more
    return own, target
