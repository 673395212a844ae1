"""Choosing one cell for each of many rows, by inverting the cumulative distributions of many groups in one search.

With `stratified_uniforms` cells come in nearly their expected numbers instead of scattering about them. Rows whose
columns are each stratified anew are a Latin hypercube sample (McKay, Beckman and Conover, 1979).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.seeds import permutation, uniform

if TYPE_CHECKING:
    import torch

_GRAIN = 2.0**32
_BELOW_ONE = 1 - 2.0**-53  # the largest float64 below 1, which a sum may be rounded up to
MOST_GROUPS = 2**20  # a group's number plus a multiple of 2**-32 is exact in float64 up to here


class Choice:
    """Draws from groups of cells. A cell of mass zero is never drawn.

    The cumulative distribution of group g is laid into [g, g + 1), so that one sorted array serves all groups.

    Args:
        masses: Non-negative masses, (cells,), of any sum within a group; a group of mass zero must not be drawn from.
        groups: The group of each cell, (cells,), ascending, below `MOST_GROUPS`.
    """

    def __init__(self, masses: npt.NDArray[Any], groups: npt.NDArray[Any]) -> None:
        running = np.cumsum(masses, dtype=np.float64)
        first = np.searchsorted(groups, groups, side="left")
        last = np.searchsorted(groups, groups, side="right") - 1
        before = np.where(first > 0, running[first - 1], 0.0)
        total = running[last] - before
        within = np.divide(running - before, total, out=np.ones_like(running), where=total > 0)
        self._levels = groups + within

    def pick(self, groups: npt.NDArray[Any], uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
        """Returns the place of one cell among all cells for each row, (rows,), of its group by a number in [0, 1)."""
        # On a grid of 2**-32 the sum is exact: no number is rounded up into the next group.
        level = groups + np.floor(uniform * _GRAIN) / _GRAIN
        return np.searchsorted(self._levels, level, side="right")


def stratified_uniforms(
    groups: npt.NDArray[Any], random: torch.Generator, *, systematic: bool = False
) -> npt.NDArray[np.float64]:
    """Returns uniform numbers in [0, 1), evenly spread over the rows of each group in random order, (rows,).

    The n rows of a group get (rank + offset) / n, where the ranks are a random permutation of 0, ..., n - 1 and offsets
    are uniform. So each number alone is uniform, whatever the groups, and an interval of length p holds pn of the n
    numbers up to less than two. Numbers of the same group depend on each other; those of different calls do not.

    Where it is `systematic`, all rows of a group share one offset (Madow and Madow, 1944). Counts in intervals are then
    less than one from what is expected, but the numbers lie on a lattice: n of them spread over 2n equal cells in a row
    would hit only even ones, or only odd ones.
    """
    count = np.bincount(groups)
    order = permutation(random, len(groups))
    # Sorting 16-bit integers is a radix sort, several times as fast.
    shuffled = groups[order].astype(np.uint16 if len(count) <= 2**16 else np.int64)
    order = order[np.argsort(shuffled, kind="stable")]
    rank = np.arange(len(groups)) - np.repeat(np.cumsum(count) - count, count)
    offset = uniform(random, len(count) if systematic else len(groups))
    numbers = (rank + (np.repeat(offset, count) if systematic else offset)) / np.repeat(count, count)
    evenly = np.empty(len(groups))
    evenly[order] = np.minimum(numbers, _BELOW_ONE)
    return evenly
