"""Where in its cells the values of a numeric column lie.

A model of records knows of a number only its cell: one of a few intervals between
public cuts (`NumericBins`). To draw a value, each cell is divided into *fine cells*
with known shares, mostly those of a released histogram. A fine cell is either an
interval of equally likely values or a single value, such as a zero that many records
have.

In a column of steps (integers, decimals, dates) the values are the steps, so that what
is drawn decodes to exactly the step that was meant.

All positions are in encoded units: 0 is the lower bound of the column, 1 its upper one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from noisegate.answers.domain import ends_of
from noisegate.models.stratified import (
    CellSampler,
    draws_independently,
    stratified_uniforms,
)
from noisegate.queries.binning import NumericBins
from noisegate.schema import NumericColumn
from noisegate.schema.kinds.bounded import RealColumn
from noisegate.schema.kinds.stepped import SteppedColumn
from noisegate.schema.layout import (
    Span,
    numbers_at,
    positions_of,
    positions_of_ranks,
    ranks_at,
    ranks_within,
)

if TYPE_CHECKING:
    import torch

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class WithinCell:
    """The fine cells of one numeric column, in ascending order.

    A value lies in one of the column's *cells*: an interval of `bins`, or the last cell
    for missing values, which has no fine cells.
    """

    column: NumericColumn  # has the bounds, and the steps if there are any
    bins: NumericBins  # the cells that a model knows
    # Lowest position of each fine cell, (fine,). In a column of steps it is a step.
    low: Floats
    # Highest position, (fine,), a step likewise. A fine cell with equal ends is a
    # single value.
    high: Floats
    # Share of each fine cell in its bin, (fine,): over a bin they sum to 1.
    shares: Floats

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
        """Makes fine cells of a histogram.

        A bin in which all masses are zero is filled evenly.

        Args:
            column: The column.
            bins: The cells that a model knows.
            edges: Ends of the fine cells, ascending from 0 to 1, (fine + 1,). Every cut
                of the bins is one of them. Cells are right-open, as in `NumericBins`: a
                value on an edge belongs to the cell above it.
            masses: Mass of each fine cell, not negative, (fine,), for instance noisy
                counts after clipping.
            spikes: Which fine cells are single values, (fine,): the value at the lower
                edge, in the last cell the upper bound. Cells that hold one step are
                single values without it. None for no others.

        Raises:
            ValueError: if these do not fit together, or a bin holds no value that the
                column can have.
        """
        if spikes is None:
            is_spike = np.zeros(len(masses), dtype=np.bool_)
        else:
            is_spike = spikes
        _check_histogram(column, bins, edges=edges, masses=masses, is_spike=is_spike)

        lowest, highest, size = ends_of(column, edges)
        is_last = np.arange(len(masses)) == len(masses) - 1
        spike_position = np.where(is_last, 1.0, lowest)
        has_values = size > 0  # between two edges there may be no step
        low = np.where(is_spike, spike_position, lowest)[has_values]
        high = np.where(is_spike, spike_position, highest)[has_values]
        width = np.where(is_spike, 0.0, size)[has_values]

        bin_of = bins.codes(low)
        interval_count = len(bins.cuts) + 1
        if len(np.unique(bin_of)) < interval_count:
            raise ValueError(
                f"column {column.name!r}: a bin holds no value that the column can have"
            )
        filled_masses = _fill_empty_bins(masses[has_values], width, bin_of)
        bin_masses = np.bincount(bin_of, filled_masses, interval_count)
        return cls(
            column=column,
            bins=bins,
            low=low,
            high=high,
            shares=filled_masses / bin_masses[bin_of],
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
        """Draws a value in the cell of each record.

        Each value alone has the distribution of its cell. Those of one cell are spread
        out over it, unless `random` is independent (`stratified_uniforms`).

        Args:
            cells: The cell of each record, (rows,).
            random: Public randomness.
            along: Uniform numbers, (rows,), whose order the values of each cell take;
                None for a random order.

        Returns:
            Positions in encoded units, (rows,); NaN for a missing value.
        """
        values = np.full(len(cells), np.nan)
        present_rows = np.flatnonzero(cells <= len(self.bins.cuts))
        present_cells = cells[present_rows]
        cell_order = None if along is None else along[present_rows]
        fine_cells = self._sampler.pick(
            present_cells, stratified_uniforms(present_cells, random, along=cell_order)
        )

        if draws_independently(random):
            # `along` itself chose the fine cells, so that the position in one needs
            # uniform numbers of its own.
            fine_order = None
        else:
            fine_order = cell_order
        uniforms = stratified_uniforms(fine_cells, random, along=fine_order)
        low = self.low[fine_cells]
        high = self.high[fine_cells]
        if not self.column.stepped:
            values[present_rows] = low + uniforms * (high - low)
        else:
            first_rank = ranks_at(self.column, low)
            last_rank = ranks_at(self.column, high)
            steps_above = np.minimum(
                uniforms * (last_rank - first_rank + 1), last_rank - first_rank
            ).astype(np.int64)
            values[present_rows] = positions_of_ranks(
                self.column, first_rank + steps_above
            )
        return values

    def restricted(self, span: Span) -> tuple[Self, Floats]:
        """Restricts the column to an interval.

        Args:
            span: Lowest and highest number of a closed interval.

        Returns:
            The fine cells that are left, and the share of each cell that lies in the
            interval, (bins.size,), from 0 to 1.
        """
        if not self.column.stepped:
            low, high, part = self._clip_intervals(self.column, span)
        else:
            low, high, part = self._clip_steps(self.column, span)
        remaining_shares = self.shares * part
        is_left = remaining_shares > 0
        shares = remaining_shares[is_left]
        bin_of = self.bin_of[is_left]
        bin_shares = np.bincount(bin_of, shares, self.bins.size)
        fine_cells = replace(
            self,
            low=low[is_left],
            high=high[is_left],
            shares=shares / bin_shares[bin_of],
        )
        # The shares of a bin may sum to a little more than 1 by rounding.
        return fine_cells, np.minimum(bin_shares, 1.0)

    def _clip_intervals(
        self, column: RealColumn, span: Span
    ) -> tuple[Floats, Floats, Floats]:
        """Clips the fine cells of real numbers to an interval.

        Returns:
            Ends of the clipped fine cells, (fine,) each, and the part of each that is
            left, (fine,). Where no part is left the ends mean nothing.
        """
        start, stop = positions_of(column, np.asarray(span))
        width = self.high - self.low
        clipped_low = np.maximum(self.low, start)
        clipped_high = np.minimum(self.high, stop)
        part_of_interval = np.divide(
            np.maximum(clipped_high - clipped_low, 0),
            width,
            out=np.zeros_like(width),
            where=width > 0,
        )
        # A single value is inside by the number that it decodes to, since the position
        # of the interval's end may be rounded to the other side of it.
        numbers = numbers_at(column, self.low)
        is_value_inside = (width == 0) & (numbers >= span[0]) & (numbers <= span[1])
        low = np.where(is_value_inside, self.low, clipped_low)
        high = np.where(is_value_inside, self.high, clipped_high)
        return low, high, part_of_interval + is_value_inside

    def _clip_steps(
        self, column: SteppedColumn, span: Span
    ) -> tuple[Floats, Floats, Floats]:
        """Clips the fine cells of steps to an interval.

        Returns:
            Ends and parts, (fine,) each, as `_clip_intervals` returns them.
        """
        first_rank = ranks_at(column, self.low)
        last_rank = ranks_at(column, self.high)
        min_rank, max_rank = ranks_within(column, span)
        start = np.maximum(first_rank, min_rank)
        stop = np.minimum(last_rank, max_rank)
        part = np.maximum(stop - start + 1, 0) / (last_rank - first_rank + 1)
        low = positions_of_ranks(column, start)
        high = positions_of_ranks(column, stop)
        return low, high, part

    @cached_property
    def _sampler(self) -> CellSampler:
        """Draws the fine cells of each bin by their shares."""
        return CellSampler(self.shares, self.bin_of)


def _check_histogram(
    column: NumericColumn,
    bins: NumericBins,
    *,
    edges: Floats,
    masses: Floats,
    is_spike: npt.NDArray[np.bool_],
) -> None:
    """Checks that a histogram can be made into fine cells.

    Raises:
        ValueError: if its parts do not fit together.
    """
    has_equal_lengths = len(edges) == len(masses) + 1 == len(is_spike) + 1
    if not has_equal_lengths or not np.isin(bins.cuts, edges).all():
        raise ValueError(
            f"column {column.name!r}: edges, masses, spikes and cuts do not fit "
            "together"
        )
    if edges[0] != 0 or edges[-1] != 1 or not (np.diff(edges) > 0).all():
        raise ValueError(f"column {column.name!r}: fine edges must ascend from 0 to 1")
    if not (np.isfinite(masses).all() and (masses >= 0).all()):
        raise ValueError(
            f"column {column.name!r}: masses must be finite and not negative"
        )


def _fill_empty_bins(
    masses: Floats, width: Floats, bin_of: npt.NDArray[np.int32]
) -> Floats:
    """Fills each bin without mass: by widths, or equally if it has single values alone.

    Args:
        masses: Mass of each fine cell, (fine,).
        width: Width of each fine cell, or its number of steps; 0 for a single value,
            (fine,).
        bin_of: Bin of each fine cell, (fine,).

    Returns:
        The masses, which have a positive sum in each bin, (fine,).
    """
    filled = masses
    for fallback in (width, np.ones(len(masses))):
        is_in_empty_bin = np.bincount(bin_of, filled)[bin_of] == 0
        filled = np.where(is_in_empty_bin, fallback, filled)
    return filled
