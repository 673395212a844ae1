"""Cells of roughly equal mass from a denoised fine histogram. Shared by every method that discretises; costs nothing.

A fine cell that holds more than an equal share, a zero or a cap say, keeps a cell of its own. What is left after these
is cut into cells of equal mass, more of them than its mass alone would get (the square root of it): the rare values of
a heavy tail are what a model of the label needs. No cell is cut finer than a few standard deviations of the noise.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from noisegate.features.binning import NumericBins
from noisegate.fitting.histogram import Histogram

# A cell's mass is at least this many standard deviations of the noise of a fine cell.
_LEAST = 3.0
# A spike keeps its own cell when it holds this part of what the cells around it hold.
_SPIKE_PART = 0.7


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
