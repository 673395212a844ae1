"""Which tables the pairwise method asks for, as far as public facts decide it.

Three rounds of queries, of which only the last is always there::

    first       histograms of numeric columns, from which cells are cut
    screening   all pairs of columns on a few cells each, from which some are chosen
    last        counts of classes, single columns, pairs and triples

What the answers of one round decide about the next is in `rounds`. Columns are numbered
as in `queries.contingency`: numeric ones of the layout first, then coded ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from noisegate.answers.domain import Floats
from noisegate.privacy.plan import Query
from noisegate.queries.binning import (
    CoarseHistogram,
    Histogram,
    NumericBins,
    denoise,
    fine_bins,
    holds_atom,
    max_merged_bins,
    relative_widths,
)
from noisegate.queries.contingency import Contingency, equally_weighted
from noisegate.schema import Layout, NumericColumn

HISTOGRAMS = "fine"
"""Name of the query for fine histograms."""
COARSE = "coarse"
"""Name of the query for coarse ones."""

# About how many cells a coarse histogram has. One with up to twice as many is not
# counted twice.
_N_COARSE_CELLS = 32

SCREEN = "screen"
"""Name of the query for a coarse screening at all pairs."""
COUNTS = "counts"
"""Name of the query for the counts of classes."""
SINGLES = "one-way"
"""Name of the query for single columns."""
PAIRS = "pairs"
"""Name of the query for pairs and triples."""

Columns = tuple[int, ...]
"""Some columns by their numbers."""

# A label with more classes is one more column: each class's share of the signal would
# drown.
MOST_CLASSES = 6
# The weight of an emphasised pair, beside 1 for others.
EMPHASIS = 2.0
# Cells of a numeric column when pairs are screened.
SCREENING_CELLS = 3

# A numeric column is cut into so many cells at least, however large the noise is; the
# second number is that of designs that keep noisy pairs.
_MIN_CELLS = 4
_MIN_CELLS_KEEPING = 3
# Pairs are not measured where the noise on half of a table is more than this part of
# the records: with a fixed number of cells, with as many as so few records leave, and
# that of designs that keep noisy pairs.
_MAX_NOISE = 0.65
_MAX_NOISE_FEW_CELLS = 0.3
_MAX_NOISE_KEEPING = 0.35


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


@dataclass(frozen=True, kw_only=True)
class Design:
    """The queries about one table.

    Attributes:
        layout: The columns of the table.
        cells: Number of cells to aim at in each numeric column.
        screens_pairs: Whether pairs are chosen by a coarse screening at all.
        max_pairs: How many are chosen at most.
        pairs: The pairs to measure, without the label; None while they are not chosen.
        triples: Tables of three columns to measure as well.
        uses_total: Whether histograms are read in the light of how many records there
            are. Those of releases of the first version are not, whose cells were cut
            otherwise.
        gives_up_pairs: Whether single columns are measured once more in place of pairs
            that would be below the noise.
        same_cells: Numeric columns that have the cells of another of the same kind:
            (column, the other).
        not_alone: Columns that are not measured alone.
        emphasised: Pairs that get `EMPHASIS` times the weight of others.
        clarity: How many standard deviations of its noise a cell of a pair shall hold
            on average; fewer cells than `cells` are cut for it. None to cut so many
            whatever the noise is.
        graded: Whether fine cells are finer near zero; see `fine_bins`.
        keeps_noisy_pairs: Whether pairs are measured in fewer cells and with more noise
            before they are given up, as version 5 did.
        decided: What an earlier release decided, as `Rounds.decisions` gives it; empty
            where this one decides.
        later_clarity: Of a stream, how many times as clear as its histogram a cell will
            be in the end.
    """

    layout: Layout
    cells: int
    screens_pairs: bool
    max_pairs: int
    pairs: tuple[Columns, ...] | None
    triples: tuple[Columns, ...] = ()
    uses_total: bool = True
    gives_up_pairs: bool = False
    same_cells: tuple[tuple[int, int], ...] = ()
    not_alone: frozenset[int] = frozenset()
    emphasised: frozenset[Columns] = frozenset()
    clarity: float | None = None
    graded: bool = False
    keeps_noisy_pairs: bool = False
    decided: Mapping[str, Any] = field(default_factory=dict)
    later_clarity: float = 1.0

    @cached_property
    def fine(self) -> tuple[NumericBins, ...]:
        """The fine cells of each numeric column."""
        return tuple(
            fine_bins(column, graded=self.graded) for column in self.layout.numeric
        )

    @cached_property
    def histogram_columns(self) -> Columns:
        """Numeric columns whose cells are cut from a histogram.

        The others have few values, or the cells of another column.
        """
        copies = {copy for copy, _ in self.same_cells}
        return tuple(
            column
            for column, bins in enumerate(self.fine)
            if len(bins.cuts) + 1 > self.cells and column not in copies
        )

    @cached_property
    def histogram_cells(self) -> HistogramCells:
        """The cells of these histograms."""
        return HistogramCells(
            columns=self.layout.numeric,
            fine=self.fine,
            measured=self.histogram_columns,
        )

    @cached_property
    def coded_sizes(self) -> tuple[int, ...]:
        """Number of codes of each coded column."""
        return tuple(column.size for column in self.layout.coded)

    @cached_property
    def label(self) -> int | None:
        """The column whose classes are distinguished in every table; None for none.

        A table of nothing but a label has a column like others.
        """
        coded_index = self.layout.label
        if coded_index is None or self.coded_sizes[coded_index] > MOST_CLASSES:
            return None
        n_columns = len(self.fine) + len(self.coded_sizes)
        if n_columns == 1:
            return None
        return len(self.fine) + coded_index

    @property
    def columns(self) -> Columns:
        """All columns but that label."""
        n_columns = len(self.fine) + len(self.coded_sizes)
        return tuple(column for column in range(n_columns) if column != self.label)

    @property
    def single_columns(self) -> Columns:
        """The columns that are measured alone."""
        return tuple(column for column in self.columns if column not in self.not_alone)

    @property
    def max_sizes(self) -> tuple[int, ...]:
        """Largest number of cells that each column may come to have."""
        max_cells = max_merged_bins(self.cells)
        sizes = []
        for column, bins in enumerate(self.fine):
            if column in self.histogram_columns:
                n_cells = min(max_cells, len(bins.cuts) + 1)
                sizes.append(n_cells + bins.nullable)
            else:
                sizes.append(bins.size)
        for copy, original in self.same_cells:
            sizes[copy] = sizes[original]
        return (*sizes, *self.coded_sizes)

    @property
    def about_sizes(self) -> tuple[int, ...]:
        """About how many cells each column will have."""
        return self._sizes_with(self.cells)

    def _sizes_with(self, n_cells: int) -> tuple[int, ...]:
        """Returns sizes with so many cells in each column with a histogram."""
        aimed = {
            column: n_cells + self.fine[column].nullable
            for column in self.histogram_columns
        }
        for copy, original in self.same_cells:
            if original in aimed:
                aimed[copy] = aimed[original]
        return tuple(
            aimed.get(column, size) for column, size in enumerate(self.max_sizes)
        )

    def queries(self, budget_fractions: Mapping[str, float]) -> tuple[Query, ...]:
        """Returns the queries of the plan.

        Args:
            budget_fractions: Fraction of the budget for each query, by its name.
        """
        queries = []

        def add(name: str, tables: int, dim: int, *, is_adaptive: bool) -> None:
            queries.append(
                Query(
                    name=name,
                    dim=dim,
                    columns=1,
                    norm=1.0,
                    share=budget_fractions[name],
                    nonnegative=True,
                    adaptive=is_adaptive,
                    tables=tables,
                )
            )

        for name, contingency in self.histogram_maps().items():
            n_tables = len(contingency.tables)
            add(name, n_tables, contingency.dim, is_adaptive=False)
        if self.screens_pairs:
            dim = table_dimension(self.all_pairs, self._screening_sizes)
            add(SCREEN, len(self.all_pairs), dim, is_adaptive=True)
        has_earlier_rounds = bool(self.histogram_columns) or self.screens_pairs
        for name, tables in self.last_tables(self._largest_pairs()).items():
            dim = table_dimension(tables, self.max_sizes)
            is_adaptive = has_earlier_rounds and name != COUNTS
            add(name, len(tables), dim, is_adaptive=is_adaptive)
        return tuple(queries)

    def histogram_maps(self) -> dict[str, Contingency]:
        """Returns the maps of the first round; none where no histogram is measured."""
        columns_by_query = self.histogram_cells.columns_by_query()
        return {
            name: self.contingency(
                bins, [(column,) for column in columns_by_query[name]]
            )
            for name, bins in self.histogram_cells.bins_by_query().items()
        }

    def last_tables(self, pairs: Sequence[Columns]) -> dict[str, tuple[Columns, ...]]:
        """Returns the tables of each query of the last round, with the label in each.

        Args:
            pairs: The pairs that are measured.
        """
        label = () if self.label is None else (self.label,)
        tables = {
            COUNTS: (label,),
            SINGLES: tuple(
                self.with_label((column,)) for column in self.single_columns
            ),
        }
        larger = dict.fromkeys(self.with_label(table) for table in pairs)
        larger |= dict.fromkeys(self.with_label(table) for table in self.triples)
        if larger:
            tables[PAIRS] = tuple(larger)
        return tables

    def with_label(self, columns: Columns) -> Columns:
        """Returns columns and the label, ascending; they alone where there is none."""
        if self.label is None:
            return columns
        return tuple(sorted((*columns, self.label)))

    def contingency(
        self, bins: tuple[NumericBins, ...], tables: Sequence[Columns]
    ) -> Contingency:
        """Returns the map to tables on some cells.

        Its norm is 1 whatever the number of tables, so that it is known before they
        are.
        """
        if not any(table in self.emphasised for table in tables):
            return equally_weighted(bins, self.coded_sizes, tables)
        emphasis = [EMPHASIS if table in self.emphasised else 1.0 for table in tables]
        norm = math.hypot(*emphasis)
        return Contingency(
            bins=bins,
            coded=self.coded_sizes,
            tables=tuple(tables),
            weights=tuple(weight / norm for weight in emphasis),
        )

    @cached_property
    def all_pairs(self) -> tuple[Columns, ...]:
        """All pairs of columns, without the label."""
        return tuple(combinations(self.columns, 2))

    @property
    def _screening_sizes(self) -> tuple[int, ...]:
        """Largest number of cells of each column when pairs are screened."""
        max_cells = max_merged_bins(SCREENING_CELLS)
        sizes = [
            max_cells + bins.nullable if column in self.histogram_columns else bins.size
            for column, bins in enumerate(self.fine)
        ]
        return (*sizes, *self.coded_sizes)

    def _largest_pairs(self) -> tuple[Columns, ...]:
        """Returns the pairs to measure; of those to be chosen the largest ones."""
        if self.pairs is not None:
            return self.pairs
        sizes = self.max_sizes
        # A pair that is a triple with the label is measured in any case.
        free_pairs = [pair for pair in self.all_pairs if pair not in self.triples]
        free_pairs.sort(key=lambda pair: -sizes[pair[0]] * sizes[pair[1]])
        return tuple(free_pairs[: self.max_pairs])

    def cells_for(self, records: float, n_pairs: int, noise_std: float) -> int:
        """Returns how many cells to aim at in a numeric column.

        Args:
            records: About how many records there are.
            n_pairs: How many pairs are measured.
            noise_std: The noise on a cell of all of them, as if they were one.
        """
        if self.clarity is None or n_pairs == 0:
            return self.cells
        n_classes = 1
        if self.label is not None:
            n_classes = self.coded_sizes[self.label - len(self.fine)]
        # Records that a cell of a pair needs on average.
        min_records = self.clarity * noise_std * math.sqrt(n_pairs) * n_classes
        min_cells = _MIN_CELLS_KEEPING if self.keeps_noisy_pairs else _MIN_CELLS
        return min(max(round(math.sqrt(records / min_records)), min_cells), self.cells)

    def affordable_pairs(
        self, records: float, pairs: tuple[Columns, ...], noise_std: float
    ) -> tuple[tuple[Columns, ...], float]:
        """Returns which of some pairs should be measured.

        Args:
            records: About how many records there are.
            pairs: The pairs.
            noise_std: The noise on a cell of all of them, as if they were one.

        Returns:
            All pairs, or those with a label of many classes, or none; and the part of
            their budget that single columns have instead.
        """
        may_give_up = self.gives_up_pairs and bool(pairs and self.histogram_columns)
        if not may_give_up or not self._has_room_for_singles:
            return pairs, 0.0
        n_cells = self.cells_for(records, len(pairs), noise_std)
        sizes = list(self.about_sizes)
        for column in self.histogram_columns:
            sizes[column] = min(sizes[column], n_cells + self.fine[column].nullable)
        if self.clarity is None:
            max_noise = _MAX_NOISE
        elif self.keeps_noisy_pairs:
            max_noise = _MAX_NOISE_KEEPING
        else:
            max_noise = _MAX_NOISE_FEW_CELLS
        # Pairs with such a label are worth more than others, which have to be twice as
        # clear, and than single columns.
        label_pairs = self._pairs_with_large_label
        max_noise_of_all = max_noise / 2 if label_pairs else max_noise
        noise = self._noise_on_half(pairs, sizes, noise_std)
        if noise < max_noise_of_all * records:
            if label_pairs:
                return pairs, 0.0
            exponent = 2 if self.keeps_noisy_pairs else 1
            return pairs, (noise / (max_noise_of_all * records)) ** exponent
        if label_pairs:
            noise = self._noise_on_half(label_pairs, sizes, noise_std)
            if noise < max_noise * records:
                return label_pairs, 0.0
        return (), 1.0

    def _noise_on_half(
        self, pairs: Sequence[Columns], sizes: Sequence[int], noise_std: float
    ) -> float:
        """Returns the noise on half of a pair's table, on average over pairs.

        It is what a question of yes or no about a pair is off by.
        """
        noise_on_halves = [
            math.sqrt(math.prod(sizes[column] for column in self.with_label(pair)) / 2)
            for pair in pairs
        ]
        return noise_std * sum(noise_on_halves) / math.sqrt(max(len(pairs), 1))

    @cached_property
    def _pairs_with_large_label(self) -> tuple[Columns, ...]:
        """The pairs with a label whose classes are not distinguished anyway."""
        coded_index = self.layout.label
        if coded_index is None or self.label is not None:
            return ()
        label = len(self.fine) + coded_index
        return tuple(pair for pair in self.all_pairs if label in pair)

    @cached_property
    def singles_again(self) -> Contingency:
        """The map that measures single columns once more, in place of pairs.

        Columns with histograms are on the coarse cells of these.
        """
        histograms = [(column,) for column in self.histogram_columns]
        others = [
            self.with_label((column,))
            for column in self.columns
            if column not in self.histogram_columns
        ]
        return self.contingency(self.histogram_cells.coarse, [*histograms, *others])

    @cached_property
    def _has_room_for_singles(self) -> bool:
        """Whether what is measured in place of pairs is no more than was planned."""
        label_tables = self.last_tables(self._pairs_with_large_label).get(PAIRS, ())
        label_dim = table_dimension(label_tables, self.max_sizes)
        return max(self.singles_again.dim, label_dim) <= self.max_pair_cells

    @cached_property
    def max_pair_cells(self) -> int:
        """How many cells are planned for pairs at most."""
        tables = self.last_tables(self._largest_pairs()).get(PAIRS, ())
        return table_dimension(tables, self.max_sizes)

    def is_histogram(self, columns: Columns) -> bool:
        """Tells whether a table is of one column with a histogram."""
        return len(columns) == 1 and columns[0] in self.histogram_columns

    def prior_shares(
        self, histograms: Mapping[int, Histogram], bins: Sequence[NumericBins]
    ) -> dict[int, Floats]:
        """Returns the shares of bins by the histograms, from which a fit starts.

        Args:
            histograms: Denoised histograms, by the number of the column.
            bins: The bins of each numeric column.

        Returns:
            For each column with a histogram, the shares of its bins, (bins,), the last
            one of missing values if it may have some.
        """
        # Histograms do not count missing values. Until a table does, they are taken to
        # fill one bin as large as the others.
        return self.histogram_cells.shares_of(
            histograms, bins, missing_share=1 / (self.cells + 1)
        )


def table_dimension(tables: Sequence[Columns], sizes: Sequence[int]) -> int:
    """Returns how many cells tables have together, given the sizes of all columns."""
    return sum(math.prod(sizes[column] for column in table) for table in tables)
