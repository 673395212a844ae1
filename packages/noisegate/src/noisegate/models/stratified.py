"""Draws that are spread out evenly, as in a stratified survey, instead of independent.

Of n independent records about np lie in a part of probability p, give or take √(np).
Synthetic records need not vary so much: each one alone must have the distribution of
the model, but together they may hold every part in nearly its expected number. Then
counts over a sample are closer to the model that it is drawn from.

Two ways are used here:

- Cells by uniform numbers: `stratified_uniforms` spreads numbers evenly over [0, 1),
  and a `CellSampler` turns each one into a cell by the cumulative distribution.
- Classes by systematic sampling: `systematic_codes`, where every row has probabilities
  of its own.

Public randomness that is `independent` (see `noisegate.seeds.public_random`) turns the
spreading off: then all draws are independent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.seeds import permutation, uniform

if TYPE_CHECKING:
    import torch

MAX_GROUPS = 2**20
"""The most groups of a `CellSampler`: a group's number plus a multiple of 2**-32 is
exact in float64 up to here."""

_UNIFORM_STEPS = 2.0**32  # uniform numbers are rounded down to multiples of 2**-32
# The largest float64 below 1, since (rank + offset) / n may be rounded up to 1.
_BELOW_ONE = 1 - 2.0**-53


def draws_independently(random: torch.Generator) -> bool:
    """Returns whether rows shall be independent instead of spread out."""
    return getattr(random, "independent", False)


class CellSampler:
    """Draws cells from several discrete distributions, one for each group of cells.

    The cumulative distribution of group g is laid into [g, g + 1), so that one sorted
    array, and one binary search, serve all groups. A cell of mass zero is never drawn.

    With uniform numbers from `stratified_uniforms` cells come in nearly their expected
    numbers. Rows whose columns are each stratified again are a Latin hypercube sample
    (McKay, Beckman and Conover, 1979).

    Args:
        masses: Mass of each cell, not negative, (cells,). They may have any sum within
            a group; a group of mass zero must not be drawn from.
        groups: Group of each cell, ascending, below `MAX_GROUPS`, (cells,).

    Examples:
        >>> import numpy as np
        >>> from noisegate.models.stratified import CellSampler
        >>> masses = np.array([1.0, 3.0, 2.0, 2.0])
        >>> sampler = CellSampler(masses, groups=np.array([0, 0, 1, 1]))
        >>> sampler.pick(np.array([0, 0, 1]), np.array([0.2, 0.3, 0.9])).tolist()
        [0, 1, 3]
    """

    def __init__(self, masses: npt.NDArray[Any], groups: npt.NDArray[Any]) -> None:
        cumulative = np.cumsum(masses, dtype=np.float64)
        first_cell = np.searchsorted(groups, groups, side="left")
        last_cell = np.searchsorted(groups, groups, side="right") - 1
        mass_before = np.where(first_cell > 0, cumulative[first_cell - 1], 0.0)
        group_mass = cumulative[last_cell] - mass_before
        cumulative_in_group = np.divide(
            cumulative - mass_before,
            group_mass,
            out=np.ones_like(cumulative),
            where=group_mass > 0,
        )
        self._upper_levels = groups + cumulative_in_group

    def pick(
        self, groups: npt.NDArray[Any], uniforms: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.intp]:
        """Picks one cell of a group for each row.

        Args:
            groups: Group of each row, (rows,).
            uniforms: A number in [0, 1) for each row, (rows,): the part of the group's
                mass that lies below the cell, or in it.

        Returns:
            Index of the cell among those of all groups, (rows,).
        """
        # On a grid of 2**-32 the sum is exact, so that no number is rounded up into the
        # next group.
        levels = groups + np.floor(uniforms * _UNIFORM_STEPS) / _UNIFORM_STEPS
        return np.searchsorted(self._upper_levels, levels, side="right")


def stratified_uniforms(
    groups: npt.NDArray[Any],
    random: torch.Generator,
    *,
    systematic: bool = False,
    along: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.float64]:
    """Draws uniform numbers that are evenly spread over the rows of each group.

    The n rows of a group get (rank + offset) / n, where the ranks are a random
    permutation of 0, ..., n - 1 and the offsets are uniform. So each number alone is
    uniform, and an interval of length p holds pn of the n numbers, up to less than two.

    Args:
        groups: Group of each row, integers from 0 on, (rows,).
        random: Public randomness. If it is `independent`, so are the numbers.
        systematic: Whether all rows of a group share one offset (Madow and Madow,
            1944). Then an interval holds pn numbers up to less than one, but the
            numbers lie on a lattice.
        along: Uniform numbers, (rows,), whose order the numbers of each group take in
            place of a random one. With independent randomness they are returned as
            they are.

    Returns:
        Numbers in [0, 1), (rows,).
    """
    row_count = len(groups)
    if draws_independently(random):
        return uniform(random, row_count) if along is None else along

    if along is None:
        order = permutation(random, row_count)
    else:
        order = np.argsort(along, kind="stable")

    group_sizes = np.bincount(groups)
    # Sorting 16-bit integers is a radix sort, several times as fast.
    sorting_dtype = np.uint16 if len(group_sizes) <= 2**16 else np.int64
    shuffled_groups = groups[order].astype(sorting_dtype)
    rows_by_group = order[np.argsort(shuffled_groups, kind="stable")]

    # From here on rows stand by group, and in a group in the order above.
    group_starts = np.cumsum(group_sizes) - group_sizes
    ranks = np.arange(row_count) - np.repeat(group_starts, group_sizes)
    if systematic:
        offsets = np.repeat(uniform(random, len(group_sizes)), group_sizes)
    else:
        offsets = uniform(random, row_count)
    numbers = (ranks + offsets) / np.repeat(group_sizes, group_sizes)

    uniforms = np.empty(row_count)
    uniforms[rows_by_group] = np.minimum(numbers, _BELOW_ONE)
    return uniforms


def systematic_codes(
    probabilities: npt.NDArray[np.float64],
    order: npt.NDArray[np.intp],
    random: torch.Generator,
) -> npt.NDArray[np.int32]:
    """Draws a class for each row, classes in nearly their expected numbers.

    In any stretch of `order` the first class comes as often as expected, up to one; of
    the rows that it leaves, the second one, and so on. Each row alone has exactly its
    probabilities.

    Args:
        probabilities: Probability of each class in each row, (rows, classes).
        order: All rows in an order in which neighbours are alike, (rows,).
        random: Public randomness. If it is `independent`, so are the rows.

    Returns:
        The class of each row, from 0 on, (rows,).
    """
    class_count = probabilities.shape[1]
    codes = np.full(len(order), class_count - 1, dtype=np.int32)
    undecided_rows = order
    for code, offset in enumerate(uniform(random, class_count)[:-1]):
        # The probability of this class, given that no earlier one took the row.
        remaining = probabilities[undecided_rows, code:].sum(axis=1)
        conditional = np.divide(
            probabilities[undecided_rows, code],
            remaining,
            out=np.zeros(len(undecided_rows)),
            where=remaining > 0,
        )
        if draws_independently(random):
            is_taken = uniform(random, len(undecided_rows)) < conditional
        else:
            # A running sum with a uniform offset steps over an integer with exactly
            # the probability that is added there (Madow and Madow, 1944).
            running_sum = np.concatenate([[0.0], np.cumsum(conditional)])
            is_taken = np.diff(np.floor(running_sum + offset)) > 0
        codes[undecided_rows[is_taken]] = code
        undecided_rows = undecided_rows[~is_taken]
    return codes
