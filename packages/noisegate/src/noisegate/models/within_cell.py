"""Where in its cells the values of a numeric column lie: intervals of equally likely values, and single ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from noisegate.features.binning import NumericBins
from noisegate.schema import Continuous, NumericColumn
from noisegate.schema.layout import (
    Span,
    numbers_at,
    positions_of,
    positions_of_ranks,
    ranks_at,
    ranks_within,
)
from noisegate.seeds import permutation, uniform

if TYPE_CHECKING:
    import torch


_GRAIN = 2.0**32
_BELOW_ONE = (
    1 - 2.0**-53
)  # the largest float64 below 1, which a sum may be rounded up to
MOST_GROUPS = (
    2**20
)  # a group's number plus a multiple of 2**-32 is exact in float64 up to here


class Choice:
    """Draws from groups of cells. A cell of mass zero is never drawn.

    The cumulative distribution of group g is laid into [g, g + 1), so that one sorted array serves all groups. With
    `stratified_uniforms` cells come in nearly their expected numbers; rows whose columns are each stratified anew are a
    Latin hypercube sample (McKay, Beckman and Conover, 1979).

    Masses are not negative, (cells,), and of any sum within a group; a group of mass zero must not be drawn from. The
    ``groups`` are those of the cells, (cells,), ascending, below `MOST_GROUPS`.
    """

    def __init__(self, masses: npt.NDArray[Any], groups: npt.NDArray[Any]) -> None:
        running = np.cumsum(masses, dtype=np.float64)
        first = np.searchsorted(groups, groups, side="left")
        last = np.searchsorted(groups, groups, side="right") - 1
        before = np.where(first > 0, running[first - 1], 0.0)
        total = running[last] - before
        within = np.divide(
            running - before, total, out=np.ones_like(running), where=total > 0
        )
        self._levels = groups + within

    def pick(
        self, groups: npt.NDArray[Any], uniform: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.intp]:
        """Returns the place of one cell among all cells for each row, (rows,), of its group by a number in [0, 1)."""
        # On a grid of 2**-32 the sum is exact: no number is rounded up into the next group.
        level = groups + np.floor(uniform * _GRAIN) / _GRAIN
        return np.searchsorted(self._levels, level, side="right")


def stratified_uniforms(
    groups: npt.NDArray[Any],
    random: torch.Generator,
    *,
    systematic: bool = False,
    along: npt.NDArray[np.float64] | None = None,
) -> npt.NDArray[np.float64]:
    """Returns uniform numbers in [0, 1), evenly spread over the rows of each group in random order, (rows,).

    The n rows of a group get (rank + offset) / n, where the ranks are a random permutation of 0, ..., n - 1 and offsets
    are uniform. So each number alone is uniform, and an interval of length p holds pn of the n numbers up to less than
    two; where it is `systematic`, all rows of a group share one offset (Madow and Madow, 1944), up to less than one,
    but on a lattice. With randomness that is `independent` numbers are independent. Where uniform numbers `along` are
    given, (rows,), those of a group take their order, and with independent randomness are these.
    """
    if getattr(random, "independent", False):
        return uniform(random, len(groups)) if along is None else along
    count = np.bincount(groups)
    order = (
        permutation(random, len(groups))
        if along is None
        else np.argsort(along, kind="stable")
    )
    # Sorting 16-bit integers is a radix sort, several times as fast.
    shuffled = groups[order].astype(np.uint16 if len(count) <= 2**16 else np.int64)
    order = order[np.argsort(shuffled, kind="stable")]
    rank = np.arange(len(groups)) - np.repeat(np.cumsum(count) - count, count)
    offset = uniform(random, len(count) if systematic else len(groups))
    numbers = (rank + (np.repeat(offset, count) if systematic else offset)) / np.repeat(
        count, count
    )
    evenly = np.empty(len(groups))
    evenly[order] = np.minimum(numbers, _BELOW_ONE)
    return evenly


Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class WithinCell:
    """Fine cells of one numeric column, in ascending order."""

    column: NumericColumn  # says the bounds and whether values are whole steps
    bins: NumericBins  # the cells that a model knows
    low: Floats  # lower ends in encoded units, (fine,). In a column of steps, both ends are steps
    high: Floats  # upper ends, (fine,); a fine cell with equal ends is a single value
    shares: Floats  # of the bin that a fine cell lies in, (fine,); 1 in all over each bin that holds any

    @classmethod
    def from_edges(
        cls,
        column: NumericColumn,
        bins: NumericBins,
        *,
        edges: Floats,
        masses: Floats,
        spikes: npt.NDArray[np.bool_] | None = None,
    ) -> Self:
        """Returns the fine cells that a histogram says. A bin in which all masses are zero is filled evenly.

        The ``edges`` are ends of the fine cells from 0 to 1, (fine + 1,), ascending, and every cut of the bins is one
        of them; as in `NumericBins`, a value on an edge belongs to the cell above it. ``masses`` are not negative,
        (fine,), for instance noisy counts after clipping. Of the fine cells ``spikes``, (fine,), are single values, the
        value at the lower edge, in the last cell the upper bound; cells that hold one step need no flag.
        """
        spikes = np.zeros(len(masses), dtype=np.bool_) if spikes is None else spikes
        if (
            not (len(edges) == len(masses) + 1 == len(spikes) + 1)
            or not np.isin(bins.cuts, edges).all()
        ):
            raise ValueError(
                f"column {column.name!r}: edges, masses, spikes and cuts do not fit together"
            )
        if edges[0] != 0 or edges[-1] != 1 or not (np.diff(edges) > 0).all():
            raise ValueError(
                f"column {column.name!r}: fine edges must ascend from 0 to 1"
            )
        if not (np.isfinite(masses).all() and (masses >= 0).all()):
            raise ValueError(
                f"column {column.name!r}: masses must be finite and not negative"
            )
        low, high, size = ends_of(column, edges)
        at = np.where(np.arange(len(masses)) < len(masses) - 1, low, 1.0)
        low, high = np.where(spikes, at, low), np.where(spikes, at, high)
        held = size > 0
        low, high, masses = low[held], high[held], masses[held]
        size = np.where(spikes, 0.0, size)[held]
        bin_of = bins.codes(low)
        intervals = len(bins.cuts) + 1
        if len(np.unique(bin_of)) < intervals:
            raise ValueError(
                f"column {column.name!r}: a bin holds no value that the column can have"
            )
        for fallback in (size, np.ones(len(masses))):
            empty = np.bincount(bin_of, masses, intervals)[bin_of] == 0
            masses = np.where(empty, fallback, masses)
        return cls(
            column=column,
            bins=bins,
            low=low,
            high=high,
            shares=masses / np.bincount(bin_of, masses, intervals)[bin_of],
        )

    @cached_property
    def bin_of(self) -> npt.NDArray[np.int32]:
        """The bin of each fine cell, (fine,)."""
        return self.bins.codes(self.low)

    def draw(
        self,
        cells: npt.NDArray[np.integer],
        random: torch.Generator,
        along: Floats | None = None,
    ) -> Floats:
        """Returns a value in each of `cells`, in encoded units, (rows,); NaN for the cell of missing values."""
        # Each value alone has the distribution of its cell; those of one cell are spread out, see `Mixture.draw`, and
        # in the order of the numbers `along`, (rows,), where these are given.
        values = np.full(len(cells), np.nan)
        present = np.flatnonzero(cells <= len(self.bins.cuts))
        held = cells[present]
        order = None if along is None else along[present]
        chosen = self._choice.pick(held, stratified_uniforms(held, random, along=order))
        low, high = self.low[chosen], self.high[chosen]
        apart = getattr(
            random, "independent", False
        )  # where in a fine cell is another draw then
        uniform = stratified_uniforms(chosen, random, along=None if apart else order)
        if isinstance(self.column, Continuous):
            values[present] = low + uniform * (high - low)
        else:
            start, stop = ranks_at(self.column, low), ranks_at(self.column, high)
            ranks = start + np.minimum(
                uniform * (stop - start + 1), stop - start
            ).astype(np.int64)
            values[present] = positions_of_ranks(self.column, ranks)
        return values

    def restricted(self, span: Span) -> tuple[Self, Floats]:
        """Returns what lies in a closed interval of numbers, and the share of each cell that this is, (bins.size,)."""
        column = self.column
        if isinstance(column, Continuous):
            start, stop = positions_of(column, np.asarray(span))
            low, high = np.maximum(self.low, start), np.minimum(self.high, stop)
            width = self.high - self.low
            part = np.divide(
                np.maximum(high - low, 0),
                width,
                out=np.zeros_like(width),
                where=width > 0,
            )
            numbers = numbers_at(column, self.low)
            single = (width == 0) & (numbers >= span[0]) & (numbers <= span[1])
            low, high, part = (
                np.where(single, self.low, low),
                np.where(single, self.high, high),
                part + single,
            )
        else:
            first, last = ranks_at(column, self.low), ranks_at(column, self.high)
            lowest, highest = ranks_within(column, span)
            start, stop = np.maximum(first, lowest), np.minimum(last, highest)
            part = np.maximum(stop - start + 1, 0) / (last - first + 1)
            low, high = (
                positions_of_ranks(column, start),
                positions_of_ranks(column, stop),
            )
        held = self.shares * part > 0
        bin_of, shares = self.bin_of[held], (self.shares * part)[held]
        kept = np.bincount(bin_of, shares, self.bins.size)
        return replace(
            self, low=low[held], high=high[held], shares=shares / kept[bin_of]
        ), np.minimum(kept, 1.0)

    @cached_property
    def _choice(self) -> Choice:
        return Choice(self.shares, self.bin_of)


def ends_of(column: NumericColumn, edges: Floats) -> tuple[Floats, Floats, Floats]:
    """Returns lowest and highest position in each cell between edges, and its width, or how many steps it holds."""
    if isinstance(column, Continuous):
        return edges[:-1], edges[1:], np.diff(edges)
    # The first step at or above each edge, by the comparison that puts encoded steps into bins.
    start: npt.NDArray[np.int64] = np.maximum(ranks_at(column, edges[:-1]) - 2, 0)
    for _ in range(4):
        start += positions_of_ranks(column, start) < edges[:-1]
    stop = np.append(start[1:], column.last + 1) - 1
    return (
        positions_of_ranks(column, start),
        positions_of_ranks(column, stop),
        (stop - start + 1).astype(np.float64),
    )
