"""The tables that the pairwise method asks for, in which order, and what cells are in them.

Everything follows from public facts and from what was released. Columns are numbered as in `queries.contingency`:
numeric ones of the layout first, then coded ones.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, combinations
from typing import Any

from noisegate.answers.released import (
    COARSE,
    HISTOGRAMS,
    Answered,
    Floats,
    Histograms,
    Table,
    Values,
    choose_pairs,
    read_tables,
    records_of,
)
from noisegate.errors import ModelError
from noisegate.privacy.plan import Query
from noisegate.queries.binning import (
    Histogram,
    NumericBins,
    fine_bins,
    max_merged_bins,
    merged_bins,
    subdivided_bins,
)
from noisegate.queries.contingency import Contingency, equally_weighted
from noisegate.schema import Layout

SCREEN = "screen"
COUNTS, SINGLES, PAIRS = "counts", "one-way", "pairs"

Columns = tuple[int, ...]

# A label with more values than this is one more column: each class's share of the signal would drown.
MOST_CLASSES = 6
# A numeric column is cut into so many cells at least, however large the noise is; and of patient designs.
_FEWEST, _FEWEST_PATIENT = 4, 3
# The weight of a stressed pair.
STRESS = 2.0
# Cells of a numeric column when pairs are screened.
_COARSE = 3
# Pairs are not measured where the noise on half of a table is more than this part of the records.
_DROWNED = 0.65
# The same of as many cells as there are to be for so few records; and of patient designs.
_DROWNED_AIMED, _DROWNED_PATIENT = 0.3, 0.35
# A smaller part of the budget is not worth a table.
_LEAST_YIELDED = 0.02


@dataclass(frozen=True, kw_only=True)
class Design:
    """The queries about one table.

    Attributes:
        layout: The table's columns.
        cells: Cells to aim at in each numeric column.
        screened: Whether pairs are chosen from a coarse look.
        most_pairs: How many are chosen at most.
        pairs: The pairs to measure, without the label; None while they are not chosen yet.
        triples: Tables of three columns to measure as well.
        scaled: Whether histograms are read in the light of how many records there are; those of releases of earlier
            versions are not, whose cells were cut otherwise.
        yielding: Whether single columns are measured once more in place of pairs that the noise would drown.
        alike: Numeric columns that have the cells of another, of the same kind: (column, the other).
        unasked: Columns that are not measured alone.
        stressed: Pairs that get `STRESS` times the weight of others.
        clear: How many standard deviations of its noise a cell of a pair holds in the mean, where fewer cells than
            `cells` are cut for it; None to cut so many whatever the noise is.
        graded: Whether fine cells are finer near zero; see `fine_bins`.
        patient: Whether pairs are measured in fewer cells, more noise, before they are given up: version 5.
        fixed: What an earlier release decided, as `decisions` gives it; empty where this one decides.
        foreseen: Of a stream, how many times as clear as its histogram a cell will be in the end.
    """

    layout: Layout
    cells: int
    screened: bool
    most_pairs: int
    pairs: tuple[Columns, ...] | None
    triples: tuple[Columns, ...] = ()
    scaled: bool = True
    yielding: bool = False
    alike: tuple[tuple[int, int], ...] = ()
    unasked: frozenset[int] = frozenset()
    stressed: frozenset[Columns] = frozenset()
    clear: float | None = None
    graded: bool = False
    patient: bool = False
    fixed: Mapping[str, Any] = field(default_factory=dict)
    foreseen: float = 1.0
    _denoised: tuple[Any, dict[int, Histogram]] = field(
        default=(None, {}), init=False, compare=False, repr=False
    )
    _picked: tuple[Any, tuple[Columns, ...]] = field(
        default=(None, ()), init=False, compare=False, repr=False
    )

    @cached_property
    def fine(self) -> tuple[NumericBins, ...]:
        """The fine cells of each numeric column."""
        return tuple(
            fine_bins(column, graded=self.graded) for column in self.layout.numeric
        )

    @cached_property
    def bought(self) -> tuple[int, ...]:
        """Numeric columns whose cells are cut from a bought histogram; the others have few values."""
        copies = dict(self.alike)
        return tuple(
            place
            for place, bins in enumerate(self.fine)
            if len(bins.cuts) + 1 > self.cells and place not in copies
        )

    @property
    def label(self) -> int | None:
        """The column whose classes are told apart in every table, or None. A label alone is a column like another."""
        place = self.layout.label
        if place is None or self.layout.coded[place].size > MOST_CLASSES:
            return None
        return (
            len(self.fine) + place
            if len(self.fine) + len(self.layout.coded) > 1
            else None
        )

    @property
    def columns(self) -> Columns:
        """All columns but that label."""
        return tuple(
            column
            for column in range(len(self.fine) + len(self.coded))
            if column != self.label
        )

    @property
    def alone(self) -> Columns:
        """The columns that are measured alone."""
        return tuple(column for column in self.columns if column not in self.unasked)

    @property
    def most_sizes(self) -> tuple[int, ...]:
        """Most cells that each column may come to have."""
        most = max_merged_bins(self.cells)
        numeric = [
            min(most, len(bins.cuts) + 1) + bins.nullable
            if place in self.bought
            else bins.size
            for place, bins in enumerate(self.fine)
        ]
        for copy, other in self.alike:
            numeric[copy] = numeric[other]
        return (*numeric, *self.coded)

    @property
    def about_sizes(self) -> tuple[int, ...]:
        """About how many cells each column will have."""
        bought = {
            place: self.cells + self.fine[place].nullable for place in self.bought
        }
        bought |= {copy: bought[other] for copy, other in self.alike if other in bought}
        return tuple(
            bought.get(column, size) for column, size in enumerate(self.most_sizes)
        )

    def queries(self, shares: Mapping[str, float]) -> tuple[Query, ...]:
        """Returns the plan's queries; `shares` names a share for each."""
        asked = [
            (name, one.tables, one.dim, False)
            for name, one in self.histograms().items()
        ]
        if self.screened:
            asked.append(
                (
                    SCREEN,
                    self.screened_pairs,
                    _dimension(self.screened_pairs, self._coarse_sizes),
                    True,
                )
            )
        later = bool(self.bought or self.screened)
        for name, tables in self._tables(self._pairs_at_most()).items():
            asked.append(
                (
                    name,
                    tables,
                    _dimension(tables, self.most_sizes),
                    later and name != COUNTS,
                )
            )
        fixed: dict[str, Any] = {"columns": 1, "norm": 1.0, "nonnegative": True}
        return tuple(
            Query(
                name=name,
                dim=dim,
                share=shares[name],
                adaptive=adaptive,
                tables=len(tables),
                **fixed,
            )
            for name, tables, dim, adaptive in asked
        )

    @property
    def fine_widths(self) -> tuple[Floats, ...]:
        """Which part each fine cell is of one that is not graded."""
        return self._histograms.widths

    @cached_property
    def _histograms(self) -> Histograms:
        return Histograms(
            columns=self.layout.numeric, fine=self.fine, bought=self.bought
        )

    def histograms(self) -> dict[str, Contingency]:
        """Returns the maps of the first round: histograms of the bought columns, and the same on fewer cells."""
        columns = {HISTOGRAMS: self.bought, COARSE: self._histograms.long}
        asked = self._histograms.asked()
        return {
            name: self._map(bins, [(place,) for place in columns[name]])
            for name, bins in asked.items()
        }

    def screen(self, values: Values, stds: Mapping[str, float]) -> Contingency:
        """Returns the map of the second round: all pairs, on a few cells each."""
        return self._map(self.bins(values, stds, cells=_COARSE), self.screened_pairs)

    def final(
        self, values: Values, stds: Mapping[str, float]
    ) -> dict[str, Contingency]:
        """Returns the maps of the last round."""
        bins = self.bins(values, stds)
        pairs, yielded = self._measured(values, stds)
        tables = self._tables(pairs)
        maps = {name: self._map(bins, asked) for name, asked in tables.items()}
        if yielded < 1:
            return maps if yielded < _LEAST_YIELDED else self._shared(maps, yielded)
        return maps | {PAIRS: self._again}

    def _measured(
        self, values: Values, stds: Mapping[str, float]
    ) -> tuple[tuple[Columns, ...], float]:
        """Returns which pairs are measured, and the part of their budget that single columns have instead."""
        if self.fixed:
            return tuple(map(tuple, self.fixed["pairs"])), self.fixed["yielded"]
        pairs = self.pairs if self.pairs is not None else self._chosen(values, stds)
        if not (self.yielding and pairs and self.bought):
            return pairs, 0.0
        return self.measured_for(
            records_of(self._first_round(values, stds)), pairs, stds[PAIRS]
        )

    def decisions(self, values: Values, stds: Mapping[str, float]) -> dict[str, Any]:
        """Returns what follows from the rounds before the last, as JSON, so that other records are asked the same."""
        pairs, yielded = self._measured(values, stds)
        cells = {"cuts": None} | ({"coarse": _COARSE} if self.screened else {})
        cuts = {
            name: [one.cuts for one in self.bins(values, stds, cells=few)]
            for name, few in cells.items()
        }
        return {**cuts, "pairs": pairs, "yielded": yielded}

    def bins(
        self, values: Values, stds: Mapping[str, float], *, cells: int | None = None
    ) -> tuple[NumericBins, ...]:
        """Returns the cells of each numeric column, cut from what the first round released."""
        if self.fixed:
            cuts = zip(
                self.fixed["coarse" if cells else "cuts"], self.fine, strict=True
            )
            return tuple(NumericBins(tuple(some), bins.nullable) for some, bins in cuts)
        first, cut = self.first_histograms(values, stds), list(self.fine)
        for place, one in first.items():
            aimed, clear = (
                cells or self._aimed(values, stds),
                replace(one, noise_std=one.noise_std / self.foreseen),
            )
            cut[place] = merged_bins(self.fine[place], clear, target_count=aimed)
            if (
                self.foreseen > 1
            ):  # what is to come may lie where the first records did not
                cut[place] = subdivided_bins(self.fine[place], cut[place], aimed)
        for copy, other in self.alike:
            cut[copy] = cut[other]
        return tuple(cut)

    def _aimed(self, values: Values, stds: Mapping[str, float]) -> int:
        pairs = (
            self._chosen(values, stds)
            if self.pairs is None and SCREEN in values
            else self.pairs
        )
        if self.clear is None or not pairs:
            return self.cells
        return self._cells_for(
            records_of(self._first_round(values, stds)), len(pairs), stds[PAIRS]
        )

    def _cells_for(self, records: float, pairs: int, noise_std: float) -> int:
        """Returns how many cells to aim at in a numeric column, by about how many records there are."""
        if self.clear is None or not pairs:
            return self.cells
        classes = 1 if self.label is None else self.coded[self.label - len(self.fine)]
        noise = self.clear * noise_std * math.sqrt(pairs) * classes
        fewest = _FEWEST_PATIENT if self.patient else _FEWEST
        return min(max(round(math.sqrt(records / noise)), fewest), self.cells)

    def first_histograms(
        self, values: Values, stds: Mapping[str, float]
    ) -> dict[int, Histogram]:
        """Returns the denoised histogram of each bought column by the first round; of one release computed once."""
        released, (last, found) = values.get(HISTOGRAMS), self._denoised
        if released is None or last is not released:
            tables = self._first_round(values, stds)
            found = self._histograms.denoised(tables, scaled=self.scaled)
            object.__setattr__(self, "_denoised", (released, found))
        return found

    def released_histograms(
        self, values: Values, stds: Mapping[str, float]
    ) -> dict[int, list[tuple[NumericBins, Table]]]:
        """Returns the histograms of each bought column as they were released, the fine one first."""
        cells, tables = self._histograms.asked(), self._first_round(values, stds)
        return {
            place: [
                (cells[name][place], tables[name][place])
                for name in cells
                if place in tables[name]
            ]
            for place in self.bought
        }

    def read_histograms(self, release: Answered) -> dict[int, Histogram]:
        """Returns the denoised histogram of each bought column, missing left out, by all that was released of it."""
        values, stds = release.values, release.noise_std
        if self.final(values, stds).get(PAIRS) is not self._again:
            return self.first_histograms(values, stds)
        tables, read = (
            self._first_round(values, stds),
            read_tables(self._again, values[PAIRS], stds[PAIRS]),
        )
        again = {table.columns[0]: table for table in read if self._is_histogram(table)}
        return self._histograms.denoised(tables, scaled=self.scaled, again=again)

    def prior(
        self, found: Mapping[int, Histogram], bins: Sequence[NumericBins]
    ) -> dict[int, Floats]:
        """Returns the shares of the cells of each bought column as its histogram says them."""
        # Missing values are thought to fill one of the cells that are aimed at.
        return self._histograms.shares(found, bins, missing=1 / (self.cells + 1))

    def read(self, release: Answered) -> tuple[tuple[NumericBins, ...], list[Table]]:
        """Returns the cells of each numeric column, and every table of the last round.

        Raises:
            ModelError: if the release is not one of this design.
        """
        try:
            maps = self.final(release.values, release.noise_std)
            read = [
                read_tables(one, release.values[name], release.noise_std[name])
                for name, one in maps.items()
            ]
            if maps.get(PAIRS) is self._again:
                read[-1] = [
                    table for table in read[-1] if not self._is_histogram(table)
                ]
        except (KeyError, ValueError) as error:
            raise ModelError(
                f"the release does not hold the tables of its settings: {error}"
            ) from None
        return self.bins(release.values, release.noise_std), list(
            chain.from_iterable(read)
        )

    def _first_round(
        self, values: Values, stds: Mapping[str, float]
    ) -> dict[str, dict[int, Table]]:
        return {
            name: {
                table.columns[0]: table
                for table in read_tables(one, values[name], stds[name])
            }
            for name, one in self.histograms().items()
        }

    def measured_for(
        self, records: float, pairs: tuple[Columns, ...], noise_std: float
    ) -> tuple[tuple[Columns, ...], float]:
        """Returns which of some pairs are measured, and the part of their budget that single columns have instead."""
        if not (self.yielding and pairs and self.bought and self._room):
            return pairs, 0.0
        aimed = self._cells_for(records, len(pairs), noise_std)
        few = {place: aimed + self.fine[place].nullable for place in self.bought}
        sizes = [
            min(size, few.get(column, size))
            for column, size in enumerate(self.about_sizes)
        ]
        label = self._with_a_large_label
        aiming = _DROWNED_PATIENT if self.patient else _DROWNED_AIMED
        drowned = _DROWNED if self.clear is None else aiming
        # Pairs with such a label are worth more than others, which have to be twice as clear, and than single columns.
        for some, most in (
            (pairs, drowned / 2 if label else drowned),
            (label, drowned),
        ):
            halves = [
                math.sqrt(
                    math.prod(sizes[column] for column in self._with_label(pair)) / 2
                )
                for pair in some
            ]
            # What a question of yes or no about a pair is off by, in the mean.
            noise = noise_std * sum(halves) / math.sqrt(max(len(some), 1))
            if some and noise < most * records:
                return some, 0.0 if label else (noise / (most * records)) ** (
                    2 if self.patient else 1
                )
        return (), 1.0

    def _shared(
        self, maps: dict[str, Contingency], yielded: float
    ) -> dict[str, Contingency]:
        """Returns the maps with single columns beside pairs in one query, if it has room for them."""
        pairs, singles = maps[PAIRS], maps[SINGLES]
        if pairs.dim + singles.dim > self._planned:
            return maps
        parts = ((pairs, 1 - yielded), (singles, yielded))
        weights = [
            math.sqrt(part / len(one.tables)) for one, part in parts for _ in one.tables
        ]
        return maps | {
            PAIRS: replace(
                pairs, tables=pairs.tables + singles.tables, weights=tuple(weights)
            )
        }

    @cached_property
    def _with_a_large_label(self) -> tuple[Columns, ...]:
        """The pairs with a label whose classes are not told apart anyway."""
        label = (
            None
            if self.layout.label is None or self.label is not None
            else len(self.fine) + self.layout.label
        )
        return tuple(pair for pair in self.screened_pairs if label in pair)

    @cached_property
    def _again(self) -> Contingency:
        """The map that measures single columns once more, those with histograms on their coarse cells."""
        others = [
            self._with_label((column,))
            for column in self.columns
            if column not in self.bought
        ]
        return self._map(
            self._histograms.coarse, [*((place,) for place in self.bought), *others]
        )

    @cached_property
    def _room(self) -> bool:
        """Whether what is measured in place of pairs is no more than was planned for these."""
        tables = self._tables(self._with_a_large_label).get(PAIRS, ())
        return (
            max(self._again.dim, _dimension(tables, self.most_sizes)) <= self._planned
        )

    @cached_property
    def _planned(self) -> int:
        """How many cells are planned for pairs at most."""
        return _dimension(
            self._tables(self._pairs_at_most()).get(PAIRS, ()), self.most_sizes
        )

    def _is_histogram(self, table: Table) -> bool:
        return table.columns[0] in self.bought and len(table.columns) == 1

    @property
    def coded(self) -> tuple[int, ...]:
        """Number of codes of each coded column."""
        return tuple(column.size for column in self.layout.coded)

    @property
    def _coarse_sizes(self) -> tuple[int, ...]:
        most = max_merged_bins(_COARSE)
        numeric = [
            most + bins.nullable if place in self.bought else bins.size
            for place, bins in enumerate(self.fine)
        ]
        return (*numeric, *self.coded)

    @cached_property
    def screened_pairs(self) -> tuple[Columns, ...]:
        """All pairs of columns, without the label: those that a coarse look chooses from."""
        return tuple(combinations(self.columns, 2))

    def _chosen(self, values: Values, stds: Mapping[str, float]) -> tuple[Columns, ...]:
        released, (last, chosen) = values[SCREEN], self._picked
        if last is not released:
            chosen = choose_pairs(
                read_tables(self.screen(values, stds), released, stds[SCREEN]),
                most=self.most_pairs,
            )
            object.__setattr__(self, "_picked", (released, chosen))
        return chosen

    def _pairs_at_most(self) -> tuple[Columns, ...]:
        """Returns the pairs to be measured, or while these are not known, as many of the largest as there may be."""
        if self.pairs is not None:
            return self.pairs
        sizes = self.most_sizes
        # A pair that `triples` names too, with the label as its third, is measured in any case.
        free = (pair for pair in self.screened_pairs if pair not in self.triples)
        return tuple(
            sorted(free, key=lambda pair: -sizes[pair[0]] * sizes[pair[1]])[
                : self.most_pairs
            ]
        )

    def _tables(self, pairs: Sequence[Columns]) -> dict[str, tuple[Columns, ...]]:
        """Returns the tables of each question of the last round, with the label in each."""
        label = () if self.label is None else (self.label,)
        asked = {
            COUNTS: (label,),
            SINGLES: tuple(self._with_label((column,)) for column in self.alone),
        }
        larger = tuple(
            dict.fromkeys(self._with_label(table) for table in (*pairs, *self.triples))
        )
        return asked | ({PAIRS: larger} if larger else {})

    def _with_label(self, table: Columns) -> Columns:
        return table if self.label is None else tuple(sorted((*table, self.label)))

    def _map(
        self, bins: tuple[NumericBins, ...], tables: Sequence[Columns]
    ) -> Contingency:
        # Weights of norm 1 in all, so that the norm is known before the number of tables is.
        stress = [STRESS if table in self.stressed else 1.0 for table in tables]
        if not any(table in self.stressed for table in tables):
            return equally_weighted(bins, self.coded, tables)
        weights = tuple(one / math.hypot(*stress) for one in stress)
        return Contingency(
            bins=bins, coded=self.coded, tables=tuple(tables), weights=weights
        )


def _dimension(tables: Sequence[Columns], sizes: Sequence[int]) -> int:
    return sum(math.prod(sizes[column] for column in table) for table in tables)
