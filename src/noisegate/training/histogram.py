"""Noisy histograms, read: what is signal at which scale, and which cells stand out as single values.

Post-processing of a release; costs no privacy. A noisy fine histogram is denoised on a tree of halves: each node's
division of its mass between its two halves is kept as far as it stands out of its own noise, and else follows the
widths (shrinkage of Haar coefficients; Donoho and Johnstone 1994). So empty tails stay empty, smooth stretches are
smoothed, and steep ones are kept. Spikes are set aside first: they would be smeared by the tree.

`merge` then cuts a column into cells of roughly equal mass. A fine cell that holds more than an equal share, a zero or
a cap say, keeps a cell of its own. What is left after these is cut into cells of equal mass, more of them than its mass
alone would get (the square root of it): the rare values of a heavy tail are what a model of the label needs. No cell is
cut finer than a few standard deviations of the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from noisegate.features.binning import NumericBins

Floats = npt.NDArray[np.float64]

# A cell is a spike when it stands above the median of its neighbours by this many noise standard deviations.
SPIKE = 5.0
_NEIGHBOURS = 4
# Divisions weaker than this many noise standard deviations are dropped, stronger ones shrunk.
_THRESHOLD = 1.5
# A cell's mass is at least this many standard deviations of the noise of a fine cell.
_LEAST = 3.0
# A spike keeps its own cell when it holds this part of what the cells around it hold.
_SPIKE_PART = 0.7


@dataclass(frozen=True, kw_only=True)
class Histogram:
    """A denoised histogram.

    Attributes:
        masses: Non-negative estimated counts, (cells,).
        spikes: Which cells hold a single value that stands out, (cells,).
        noise_std: Noise of each cell before.
    """

    masses: Floats
    spikes: npt.NDArray[np.bool_]
    noise_std: float


@dataclass(frozen=True, kw_only=True)
class Coarse:
    """The same histogram on few cells, with noise of its own.

    Attributes:
        noisy: Noisy counts, each of `group` neighbouring cells, the last of what is left.
        group: A power of two.
        noise_std: Standard deviation of the noise on each.
    """

    noisy: Floats
    group: int
    noise_std: float


def denoise(noisy: Floats, noise_std: float, coarse: Coarse | None = None) -> Histogram:
    """Returns what a noisy histogram says.

    Args:
        noisy: Noisy counts of ordered cells, (cells,).
        noise_std: Standard deviation of the noise on each, positive.
        coarse: The same on fewer cells: the noise of a sum of many fine cells is large, that of a coarse cell is not.
    """
    # Mirrored without the outermost cell itself: repeated, it would hide a spike at a bound, where most of them are.
    padded = np.pad(noisy, _NEIGHBOURS, mode="reflect")
    around = np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * _NEIGHBOURS + 1), axis=1)
    spikes = noisy - around > SPIKE * noise_std
    above = np.where(spikes, noisy - around, 0.0)
    if coarse is not None:
        starts = np.arange(0, len(noisy), coarse.group)
        coarse = replace(coarse, noisy=coarse.noisy - np.add.reduceat(above, starts))
    smooth = _shrunk(_tree(noisy - above, noise_std, coarse))
    return Histogram(masses=smooth[: len(noisy)] + above, spikes=spikes, noise_std=noise_std)


@dataclass(frozen=True, kw_only=True)
class _Level:
    """Nodes of one level of the tree: their sums, the variance of these, and how many cells they cover."""

    sums: Floats
    variances: Floats
    widths: Floats

    def halved(self) -> _Level:
        """Returns the level above."""
        return _Level(**{name: value.reshape(-1, 2).sum(axis=1) for name, value in vars(self).items()})


def _tree(noisy: Floats, noise_std: float, coarse: Coarse | None) -> list[_Level]:
    """Returns the levels from single cells to the root."""
    cells = len(noisy)
    size = 1 << (cells - 1).bit_length()
    real = np.pad(np.ones(cells), (0, size - cells))
    levels = [_Level(sums=np.pad(noisy, (0, size - cells)), variances=real * noise_std**2, widths=real)]
    while len(levels[-1].sums) > 1:
        levels.append(levels[-1].halved())
        if coarse is not None and size // len(levels[-1].sums) == coarse.group:
            levels[-1] = _combined(levels[-1], coarse)
    return levels


def _combined(level: _Level, coarse: Coarse) -> _Level:
    """Returns the level with both of its estimates, weighted by inverse variance."""
    held = len(coarse.noisy)
    sums, variances = level.sums.copy(), level.variances.copy()
    weight = variances[:held] / (variances[:held] + coarse.noise_std**2)
    sums[:held] += weight * (coarse.noisy - sums[:held])
    variances[:held] *= 1 - weight
    return _Level(sums=sums, variances=variances, widths=level.widths)


def _shrunk(levels: list[_Level]) -> Floats:
    """Returns masses of cells, every division of a node's mass shrunk towards the widths of its halves."""
    masses = np.maximum(levels[-1].sums, 0)
    for level in reversed(levels[:-1]):
        sums, variances, widths = (part.reshape(-1, 2) for part in (level.sums, level.variances, level.widths))
        wide = widths.sum(axis=1)
        share = np.divide(widths[:, 0], wide, out=np.zeros(len(wide)), where=wide > 0)
        excess = sums[:, 0] - share * sums.sum(axis=1)
        variance = variances[:, 0] * (1 - share) ** 2 + variances[:, 1] * share**2
        square = np.maximum(excess**2, variance)
        kept = np.maximum(
            1 - _THRESHOLD**2 * np.divide(variance, square, out=np.zeros_like(square), where=square > 0), 0
        )
        left = np.clip(share * masses + kept * excess, 0, masses)
        left = np.where(widths[:, 1] == 0, masses, np.where(widths[:, 0] == 0, 0, left))
        masses = np.stack([left, masses - left], axis=1).ravel()
    return np.asarray(masses)


def merge(fine: NumericBins, histogram: Histogram, *, cells: int) -> NumericBins:
    """Returns about `cells` cells, at most `most_cells(cells)`, whose cuts are among the fine ones.

    Args:
        fine: The fine cells.
        histogram: Their denoised masses, missing left out, (len(fine.cuts) + 1,).
        cells: How many to aim at, at least 1.
    """
    own, target = _own_cells(histogram, cells)
    masses, starts, gathered = histogram.masses, [0], 0.0
    left = float(masses[~own].sum())
    for place, (mass, alone) in enumerate(zip(masses.tolist(), own.tolist(), strict=True)):
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
    begins = _joined(begins, masses, least=_LEAST * histogram.noise_std, most=most_cells(cells))
    return NumericBins(tuple(fine.cuts[begin - 1] for begin in begins[1:]), fine.nullable)


def most_cells(cells: int) -> int:
    """Returns the largest number of cells that `merge` gives, missing left out."""
    return cells + cells // 2


def _joined(begins: list[int], masses: npt.NDArray[np.float64], *, least: float, most: int) -> list[int]:
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
