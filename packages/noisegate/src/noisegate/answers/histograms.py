"""The histograms of numeric columns, fine and coarse, and what they say together.

The cells of a model are cut from a fine histogram. A sum of many fine cells has much
noise, so the same column is counted on a few coarse cells too, each of several fine
ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from noisegate.answers.domain import Floats
from noisegate.queries.binning import (
    CoarseHistogram,
    Histogram,
    NumericBins,
    denoise,
    holds_atom,
    relative_widths,
)
from noisegate.schema import NumericColumn

HISTOGRAMS = "fine"
"""Name of the query for fine histograms."""
COARSE = "coarse"
"""Name of the query for coarse ones."""

# About how many cells a coarse histogram has. One with up to twice as many is not
# counted twice.
_N_COARSE_CELLS = 32


class HistogramCounts(NamedTuple):
    """One histogram as it was released.

    Attributes:
        counts: Noisy counts, missing values last, (cells,).
        noise_std: Standard deviation of the noise on each.
    """

    counts: Floats
    noise_std: float


ReleasedHistograms = Mapping[str, Mapping[int, HistogramCounts]]
"""Histograms of each query, by the number of the column."""


@dataclass(frozen=True, kw_only=True)
class HistogramCells:
    """The cells of the histograms of a table.

    Attributes:
        columns: All numeric columns.
        fine: Their fine cells.
        measured: Numbers of the columns of which histograms are measured.
    """

    columns: Sequence[NumericColumn]
    fine: tuple[NumericBins, ...]
    measured: tuple[int, ...]

    @cached_property
    def widths(self) -> tuple[Floats, ...]:
        """Weight of each fine cell where nothing is known; see `relative_widths`."""
        return tuple(
            relative_widths(column, bins)
            for column, bins in zip(self.columns, self.fine, strict=True)
        )

    @cached_property
    def group_sizes(self) -> tuple[int, ...]:
        """How many fine cells a coarse one of each column has.

        They are powers of two; 1 where the fine cells are few.
        """
        return tuple(_group_size(len(bins.cuts) + 1) for bins in self.fine)

    @cached_property
    def coarse(self) -> tuple[NumericBins, ...]:
        """The coarse cells of each numeric column."""
        return tuple(
            NumericBins(bins.cuts[size - 1 :: size], bins.nullable)
            for bins, size in zip(self.fine, self.group_sizes, strict=True)
        )

    @cached_property
    def measured_twice(self) -> tuple[int, ...]:
        """Columns with a coarse histogram too."""
        return tuple(column for column in self.measured if self.group_sizes[column] > 1)

    def bins_by_query(self) -> dict[str, tuple[NumericBins, ...]]:
        """Returns the cells of each query; none where no histogram is measured."""
        if not self.measured:
            return {}
        bins = {HISTOGRAMS: self.fine}
        if self.measured_twice:
            bins[COARSE] = self.coarse
        return bins

    def columns_by_query(self) -> dict[str, tuple[int, ...]]:
        """Returns the columns of each query."""
        return {HISTOGRAMS: self.measured, COARSE: self.measured_twice}

    def denoise(
        self,
        released: ReleasedHistograms,
        *,
        uses_total: bool,
        measured_again: Mapping[int, HistogramCounts] | None = None,
    ) -> dict[int, Histogram]:
        """Denoises the histogram of each measured column, without missing values.

        Args:
            released: The histograms.
            uses_total: Whether they are read in the light of how many records there
                are.
            measured_again: Further counts on the coarse cells, by column.
        """
        records = None
        if uses_total and released:
            records = number_of_records(released)
        histograms = {}
        for column, fine_counts in released.get(HISTOGRAMS, {}).items():
            coarse_counts = released.get(COARSE, {}).get(column)
            again = (measured_again or {}).get(column)
            n_present = len(self.fine[column].cuts) + 1
            coarse = None
            if coarse_counts is None:
                fine_counts = _combine(fine_counts, again)
            else:
                coarse_counts = _combine(coarse_counts, again)
                n_coarse = len(self.coarse[column].cuts) + 1
                coarse = CoarseHistogram(
                    counts=coarse_counts.counts[:n_coarse],
                    group_size=self.group_sizes[column],
                    noise_std=coarse_counts.noise_std,
                )
            histograms[column] = denoise(
                fine_counts.counts[:n_present],
                fine_counts.noise_std,
                coarse,
                holds_atom(self.columns[column], self.fine[column]),
                record_count=records,
                widths=self.widths[column],
            )
        return histograms

    def shares_of(
        self,
        histograms: Mapping[int, Histogram],
        bins: Sequence[NumericBins],
        *,
        missing_share: float,
    ) -> dict[int, Floats]:
        """Returns the shares of cells as histograms say them.

        Args:
            histograms: Denoised, by column.
            bins: Cells of each numeric column, whose cuts are among the fine ones.
            missing_share: The share of missing values, of which no histogram tells.

        Returns:
            The shares of each column with a histogram, (cells,).
        """
        shares_of_columns = {}
        for column, histogram in histograms.items():
            fine_cuts = self.fine[column].cuts
            first_fine_cells = [0, *(np.searchsorted(fine_cuts, bins[column].cuts) + 1)]
            masses = histogram.masses
            if not masses.any():
                masses = np.diff((0.0, *fine_cuts, 1.0))
            shares = np.add.reduceat(masses, first_fine_cells) / masses.sum()
            if bins[column].nullable:
                shares = np.append(shares * (1 - missing_share), missing_share)
            shares_of_columns[column] = shares
        return shares_of_columns


def number_of_records(released: ReleasedHistograms) -> float:
    """Returns how many records histograms say there are.

    Returns:
        The estimate, at least one standard deviation of its noise.
    """
    # A sum over few cells has less noise.
    least_noisy = {**released.get(HISTOGRAMS, {}), **released.get(COARSE, {})}
    total = 0.0
    total_precision = 0.0
    for histogram in least_noisy.values():
        precision = 1 / (histogram.counts.size * histogram.noise_std**2)
        total += float(histogram.counts.sum()) * precision
        total_precision += precision
    return max(total / total_precision, 1 / math.sqrt(total_precision))


def _group_size(n_cells: int) -> int:
    """Returns how many fine cells a coarse one has."""
    if n_cells <= 2 * _N_COARSE_CELLS:
        return 1
    exponent = math.ceil(math.log2(n_cells / _N_COARSE_CELLS))
    return 1 << exponent


def _combine(first: HistogramCounts, second: HistogramCounts | None) -> HistogramCounts:
    """Returns two measurements of the same counts as one, by inverse variance."""
    if second is None:
        return first
    first_precision = first.noise_std**-2
    second_precision = second.noise_std**-2
    precision = first_precision + second_precision
    weight = first_precision / precision
    counts = weight * first.counts + (1 - weight) * second.counts
    return HistogramCounts(counts, precision**-0.5)
