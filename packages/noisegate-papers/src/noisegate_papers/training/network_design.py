"""What PrivBayes asks after the rounds of the pairwise method, and the network that follows from all answers.

Everything follows from public facts and from what was released.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from noisegate.errors import ModelError
from noisegate.features.binning import Histogram, NumericBins
from noisegate.features.contingency import Contingency, equally_weighted
from noisegate.privacy.plan import Query
from noisegate.privacy.release import Release
from noisegate.tables.design import Design
from noisegate.tables.mixture_fit import within_cells
from noisegate.tables.released import Answered, Values
from noisegate.tables.tables import ClassTables, class_tables, likely_shares
from noisegate_papers.models.bayesian_network import BayesianNetwork
from noisegate_papers.training.bayesian_network import Family, choose_families, conditional_tables, factors_of

FAMILIES = "families"
"""The query for the table of each column with its parents."""

_CELLS = 300_000


@dataclass(frozen=True)
class Answers:
    """What the queries of a session gave so far, and the noise on the answers of all of its plan."""

    values: Values
    noise_std: Mapping[str, float]


class Chosen(NamedTuple):
    """What follows from the answers before the last round, and the map that asks for the tables of families."""

    bins: tuple[NumericBins, ...]
    histograms: Mapping[int, Histogram]
    tables: ClassTables
    families: tuple[Family, ...]
    counted: Contingency


@dataclass(frozen=True, kw_only=True)
class NetworkDesign:
    """The last query about one table.

    Attributes:
        pairwise: The queries before it.
        degree: Most parents of a column beside the label.
        usefulness: How many times the noise the mean count in a table of two parents must be.
        largest: Most cells of such a table, or None for a number that all of them keep to 300,000.
    """

    pairwise: Design
    degree: int
    usefulness: float
    largest: int | None

    @property
    def most_cells(self) -> int:
        """Most cells of a table of two parents; 0 where there are none."""
        return (self.largest or _CELLS // len(self.pairwise.columns)) * (self.degree > 1)

    def query(self, share: float) -> Query:
        """Returns the query, as large as it may come to be whatever the parents are."""
        sizes, columns = self.pairwise.most_sizes, self.pairwise.columns
        classes = 1 if self.pairwise.label is None else sizes[self.pairwise.label]
        others = [max((sizes[other] for other in columns if other != column), default=1) for column in columns]
        cells = (classes * sizes[column] * other for column, other in zip(columns, others, strict=True))
        dim = sum(max(pair, self.most_cells) for pair in cells)
        return Query(
            name=FAMILIES,
            dim=dim,
            columns=1,
            norm=1.0,
            share=share,
            nonnegative=True,
            adaptive=True,
            tables=len(columns),
        )

    def chosen(self, answers: Answered) -> Chosen:
        """Returns what follows from the answers before the last round."""
        design = self.pairwise
        bins, released = design.read(answers)
        sizes = (*(one.size for one in bins), *(column.size for column in design.layout.coded))
        histograms = design.read_histograms(answers)
        tables = class_tables(released, sizes, design.label, design.prior(histograms, bins))
        noise = answers.noise_std[FAMILIES] * math.sqrt(len(design.columns))
        useful = min(self.most_cells, float(tables.counts.sum()) / (self.usefulness * noise))
        families = choose_families(tables, likely_shares(tables), degree=self.degree, most_cells=useful)
        above = () if design.label is None else (design.label,)
        asked = [(*above, *(design.columns[one] for one in (*family.parents, family.column))) for family in families]
        return Chosen(bins, histograms, tables, families, equally_weighted(bins, sizes[len(bins) :], asked))

    def network(self, release: Release) -> BayesianNetwork:
        """Returns the network that a release says; a ModelError if it is not one of this design."""
        design, (bins, histograms, tables, families, counted) = self.pairwise, self.chosen(release)
        noise = release.noise_std[FAMILIES] / counted.weights[0]
        if len(release.values[FAMILIES]) != counted.dim:
            raise ModelError("the release does not hold the tables of columns with the parents that follow from it.")
        counts = counted.counts(release.values[FAMILIES])
        if design.label is None:
            counts = [one[None] for one in counts]
        found = conditional_tables(tables, families, counts, noise)
        return BayesianNetwork(
            bins=bins,
            coded=counted.coded,
            factors=factors_of(tables, families, found, design.label),
            within=within_cells(design, bins, histograms),
        )
