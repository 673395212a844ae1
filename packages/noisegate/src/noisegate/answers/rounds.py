"""What the answers to a design's queries decide, and the tables that they are.

::

    answers of the first round ──► histograms ──► cells ─────────┐
    answers of the screening ────► pairs that stand out ─────────┼─► maps of the last
    both ────────────────────────► pairs that are worth it ──────┘   round, its tables

Everything here follows from what was released. `Rounds` is of the answers so far: of a
session that continues, or of a release.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from noisegate.answers.design import (
    PAIRS,
    SCREEN,
    SCREENING_CELLS,
    SINGLES,
    Columns,
    Design,
    HistogramCounts,
    number_of_records,
)
from noisegate.answers.domain import Floats, domain_of
from noisegate.answers.measurements import Measurements
from noisegate.answers.noisy_table import NoisyTable
from noisegate.answers.pair_choice import choose_pairs
from noisegate.errors import ModelError
from noisegate.queries.binning import (
    Histogram,
    NumericBins,
    merged_bins,
    subdivided_bins,
)
from noisegate.queries.contingency import Contingency
from noisegate.schema import Layout

Values = Mapping[str, Floats]
"""Noisy sums, by the name of their query."""

# A smaller part of the budget of pairs is not worth a table of single columns.
_MIN_PART_FOR_SINGLES = 0.02


class Answered(Protocol):
    """What some queries gave: a release, or the answers of a session so far."""

    @property
    def values(self) -> Values:
        """The noisy sum of each query."""
        ...

    @property
    def noise_std(self) -> Mapping[str, float]:
        """Standard deviation of the noise on each number of it."""
        ...


@dataclass(frozen=True)
class AnswersSoFar:
    """The answers of a session that continues.

    Attributes:
        values: The noisy sum of each query that was asked.
        noise_std: Standard deviation of the noise on each number, of all queries.
    """

    values: Values
    noise_std: Mapping[str, float]


def read_tables(
    layout: Layout, contingency: Contingency, values: Floats, noise_std: float
) -> list[NoisyTable]:
    """Reads the tables of one query.

    Args:
        layout: The columns.
        contingency: The map of the query.
        values: Its answer.
        noise_std: Standard deviation of the noise on each number of it.

    Raises:
        ValueError: if the answer has another length.
    """
    _check_length(contingency, values)
    domain = domain_of(layout, contingency.bins)
    return [
        NoisyTable.of(
            domain.project([domain.names[column] for column in columns]),
            counts,
            noise_std=noise_std / weight,
        )
        for columns, counts, weight in zip(
            contingency.tables,
            contingency.counts(values),
            contingency.weights,
            strict=True,
        )
    ]


def read_histograms(
    contingency: Contingency, values: Floats, noise_std: float
) -> dict[int, HistogramCounts]:
    """Reads the tables of one query that are of a single column.

    Returns:
        The counts by the number of the column.

    Raises:
        ValueError: if the answer has another length.
    """
    _check_length(contingency, values)
    return {
        columns[0]: HistogramCounts(counts, noise_std / weight)
        for columns, counts, weight in zip(
            contingency.tables,
            contingency.counts(values),
            contingency.weights,
            strict=True,
        )
        if len(columns) == 1
    }


def _check_length(contingency: Contingency, values: Floats) -> None:
    """Requires as many numbers as the tables have cells."""
    if len(values) != contingency.dim:
        raise ValueError(f"{len(values)} numbers for tables of {contingency.dim} cells")


@dataclass(frozen=True, eq=False)
class Rounds:
    """What the answers so far decide.

    Attributes:
        design: The queries.
        answered: Their answers so far.
    """

    design: Design
    answered: Answered

    @cached_property
    def released_histograms(self) -> dict[str, dict[int, HistogramCounts]]:
        """The histograms as they were released, by query and number of the column."""
        return {
            name: read_histograms(contingency, *self._answer(name))
            for name, contingency in self.design.histogram_maps().items()
        }

    def _answer(self, name: str) -> tuple[Floats, float]:
        """Returns the answer of a query, and the noise on each number of it."""
        return self.answered.values[name], self.answered.noise_std[name]

    @cached_property
    def first_histograms(self) -> dict[int, Histogram]:
        """The denoised histogram of each column by the first round."""
        return self.design.histogram_cells.denoise(
            self.released_histograms, uses_total=self.design.uses_total
        )

    @cached_property
    def histograms(self) -> dict[int, Histogram]:
        """The denoised histogram of each column by all that was released of it."""
        singles_again = self.design.singles_again
        if self.last_maps().get(PAIRS) is not singles_again:
            return self.first_histograms
        return self.design.histogram_cells.denoise(
            self.released_histograms,
            uses_total=self.design.uses_total,
            measured_again=read_histograms(singles_again, *self._answer(PAIRS)),
        )

    def histogram_tables(self) -> list[NoisyTable]:
        """Returns the histograms as they were released, as tables."""
        return [
            table
            for name, contingency in self.design.histogram_maps().items()
            for table in read_tables(
                self.design.layout, contingency, *self._answer(name)
            )
        ]

    @cached_property
    def bins(self) -> tuple[NumericBins, ...]:
        """The cells of each numeric column."""
        if self.design.decided:
            return self._decided_bins("cuts")
        return self._cut_bins(self._aimed_cells)

    @cached_property
    def screening_bins(self) -> tuple[NumericBins, ...]:
        """The cells of each numeric column when pairs are screened."""
        if self.design.decided:
            return self._decided_bins("coarse")
        return self._cut_bins(SCREENING_CELLS)

    def _decided_bins(self, key: str) -> tuple[NumericBins, ...]:
        """Returns the cells that an earlier release decided."""
        return tuple(
            NumericBins(tuple(cuts), fine_bins.nullable)
            for cuts, fine_bins in zip(
                self.design.decided[key], self.design.fine, strict=True
            )
        )

    def _cut_bins(self, n_cells: int) -> tuple[NumericBins, ...]:
        """Cuts about so many cells in each column with a histogram."""
        fine = self.design.fine
        bins = list(fine)
        for column, histogram in self.first_histograms.items():
            later = replace(
                histogram,
                noise_std=histogram.noise_std / self.design.later_clarity,
            )
            bins[column] = merged_bins(fine[column], later, target_count=n_cells)
            if self.design.later_clarity > 1:
                # What is to come may lie where the first records did not.
                bins[column] = subdivided_bins(fine[column], bins[column], n_cells)
        for copy, original in self.design.same_cells:
            bins[copy] = bins[original]
        return tuple(bins)

    @property
    def _aimed_cells(self) -> int:
        """How many cells to aim at in a numeric column, by records and noise."""
        design = self.design
        pairs = design.pairs
        if pairs is None and SCREEN in self.answered.values:
            pairs = self.chosen_pairs
        if design.clarity is None or not (pairs and design.histogram_columns):
            return design.cells
        noise_std = self.answered.noise_std[PAIRS]
        return design.cells_for(self._records, len(pairs), noise_std)

    @property
    def _records(self) -> float:
        """How many records the histograms say there are."""
        return number_of_records(self.released_histograms)

    @cached_property
    def screening_map(self) -> Contingency:
        """The map of the screening: all pairs, on a few cells each."""
        return self.design.contingency(self.screening_bins, self.design.all_pairs)

    @cached_property
    def chosen_pairs(self) -> tuple[Columns, ...]:
        """The pairs that the screening chooses."""
        tables = read_tables(
            self.design.layout, self.screening_map, *self._answer(SCREEN)
        )
        by_pair = dict(zip(self.screening_map.tables, tables, strict=True))
        return choose_pairs(by_pair, max_pairs=self.design.max_pairs)

    @cached_property
    def measured_pairs(self) -> tuple[tuple[Columns, ...], float]:
        """Which pairs are measured, and which part of their budget singles have."""
        design = self.design
        if design.decided:
            pairs = tuple(tuple(pair) for pair in design.decided["pairs"])
            return pairs, design.decided["yielded"]
        pairs = self.chosen_pairs if design.pairs is None else design.pairs
        if not (design.gives_up_pairs and pairs and design.histogram_columns):
            return pairs, 0.0
        noise_std = self.answered.noise_std[PAIRS]
        return design.affordable_pairs(self._records, pairs, noise_std)

    def last_maps(self) -> dict[str, Contingency]:
        """Returns the maps of the last round, by the names of their queries."""
        pairs, part_for_singles = self.measured_pairs
        maps = {
            name: self.design.contingency(self.bins, tables)
            for name, tables in self.design.last_tables(pairs).items()
        }
        if part_for_singles == 1:
            return {**maps, PAIRS: self.design.singles_again}
        if part_for_singles >= _MIN_PART_FOR_SINGLES:
            return self._with_singles_beside_pairs(maps, part_for_singles)
        return maps

    def _with_singles_beside_pairs(
        self, maps: dict[str, Contingency], part_for_singles: float
    ) -> dict[str, Contingency]:
        """Returns maps with single columns in the query of pairs, if it has room.

        Args:
            maps: The maps of the last round.
            part_for_singles: Their part of the budget of that query.
        """
        pairs = maps[PAIRS]
        singles = maps[SINGLES]
        if pairs.dim + singles.dim > self.design.max_pair_cells:
            return maps
        pair_weight = math.sqrt((1 - part_for_singles) / len(pairs.tables))
        single_weight = math.sqrt(part_for_singles / len(singles.tables))
        pair_weights = [pair_weight] * len(pairs.tables)
        single_weights = [single_weight] * len(singles.tables)
        both = replace(
            pairs,
            tables=pairs.tables + singles.tables,
            weights=(*pair_weights, *single_weights),
        )
        return {**maps, PAIRS: both}

    def decisions(self) -> dict[str, Any]:
        """Returns what follows from the rounds before the last, as JSON.

        So other records can be asked the same: `Design.decided`.
        """
        pairs, part_for_singles = self.measured_pairs
        decisions: dict[str, Any] = {"cuts": [bins.cuts for bins in self.bins]}
        if self.design.screens_pairs:
            decisions["coarse"] = [bins.cuts for bins in self.screening_bins]
        return {**decisions, "pairs": pairs, "yielded": part_for_singles}

    def measurements(self) -> Measurements:
        """Returns every table of the last round, on `bins`.

        Histograms that were measured again are left out, as these are on other cells.

        Raises:
            ModelError: if the release is not one of this design.
        """
        try:
            tables = [
                table
                for name, contingency in self.last_maps().items()
                for table in self._last_tables(name, contingency)
            ]
        except (KeyError, ValueError) as error:
            raise ModelError(
                f"the release does not hold the tables of its settings: {error}"
            ) from None
        return Measurements(domain_of(self.design.layout, self.bins), tuple(tables))

    def _last_tables(self, name: str, contingency: Contingency) -> list[NoisyTable]:
        """Returns the tables of one query of the last round that are on `bins`."""
        tables = read_tables(self.design.layout, contingency, *self._answer(name))
        if contingency is not self.design.singles_again:
            return tables
        return [
            table
            for columns, table in zip(contingency.tables, tables, strict=True)
            if not self.design.is_histogram(columns)
        ]
