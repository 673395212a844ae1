"""What is asked about a link of two tables: the tables of its transitions that say how children follow each other.

Asked are pairs of the parent's columns, of each of them and of the number of children with what a child says, of the
columns of a child, and of each of these with itself in the child before, which counts more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from noisegate.features.binning import Histogram, NumericBins, denoise
from noisegate.features.contingency import Contingency, equally_weighted
from noisegate.linked.links import Link, LinkColumns
from noisegate.privacy.plan import Query
from noisegate.tables import design as rounds
from noisegate.tables.design import Design
from noisegate.tables.released import COARSE, HISTOGRAMS, Answered

NUMBER = "number"
SHARES = {
    NUMBER: 0.14,
    HISTOGRAMS: 0.03,
    COARSE: 0.17,
    rounds.COUNTS: 0.01,
    rounds.SINGLES: 0.15,
    rounds.PAIRS: 0.50,
}
"""Parts of a link's budget."""
_CLEAR = 6.0

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LinkAnswers:
    """What was answered about one link, by the names of its own queries."""

    values: Mapping[str, Floats]
    noise_std: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class LinkDesign:
    """The queries about one link."""

    link: Link  # two tables
    founding: bool  # whether the pairs of the parent's columns are asked here: in the first link of the first table
    cells: int  # cells to aim at in each numeric column

    @cached_property
    def columns(self) -> LinkColumns:
        """What the columns are."""
        return LinkColumns.of(self.link)

    @cached_property
    def tables(self) -> Design:
        """The design of the transitions as a table."""
        columns, layout = self.columns, self.link.schema.layout
        numeric = len(layout.numeric)
        alike = tuple((before, now) for now, before in columns.before.items() if now < numeric)
        own = frozenset((before, now) for now, before in columns.before.items())
        return Design(
            layout=layout,
            cells=self.cells,
            screened=False,
            most_pairs=1,
            pairs=tuple(dict.fromkeys(self._pairs())),
            alike=alike,
            # How often each step is taken follows from the numbers of children.
            unasked=frozenset((columns.step,)),
            stressed=own,
            clear=_CLEAR,
        )

    def _pairs(self) -> list[tuple[int, int]]:
        columns = self.columns
        pairs = list(combinations(columns.parents, 2)) if self.founding else []
        pairs += product(columns.parents, (columns.number, *columns.made))
        pairs += product((columns.number,), columns.made)
        pairs += product(columns.times, columns.children)
        pairs += combinations(columns.children, 2)
        pairs += ((before, now) for now, before in columns.before.items())
        # A child's missing value is told from a child that is not there.
        pairs += ((columns.step, now) for now in columns.nullable)
        return [(min(pair), max(pair)) for pair in pairs]

    @property
    def _number(self) -> Contingency:
        return equally_weighted(self.tables.fine, self.tables.coded, [(self.columns.number,)])

    def named(self, query: str) -> str:
        """Returns what the plan calls a query of this link."""
        return f"{self.link.name}.{query}"

    def queries(self, share: float) -> tuple[Query, ...]:
        """Returns the plan's queries, which take `share` of the budget together."""
        asked = self.tables.queries({name: part * share for name, part in SHARES.items()})
        number = Query.of(NUMBER, self._number, columns=1, share=SHARES[NUMBER] * share)
        return tuple(replace(one, name=self.named(one.name)) for one in (replace(number, tables=1), *asked))

    def first(self) -> dict[str, Contingency]:
        """Returns the maps of the first round: how many children there are, and histograms."""
        return self._names({NUMBER: self._number, **self.tables.histograms()})

    def final(self, answers: LinkAnswers) -> dict[str, Contingency]:
        """Returns the maps of the last round."""
        return self._names(self.tables.final(answers.values, answers.noise_std))

    def answers(self, found: Answered) -> LinkAnswers:
        """Returns what a release, or a session so far, says about this link."""
        own = self.named("")
        values = {name.removeprefix(own): each for name, each in found.values.items() if name.startswith(own)}
        stds = {name.removeprefix(own): each for name, each in found.noise_std.items() if name.startswith(own)}
        return LinkAnswers(values=values, noise_std=stds)

    def numbers(self, answers: LinkAnswers) -> Histogram:
        """Returns how many parents have each number of children."""
        values, std = answers.values[NUMBER].ravel(), answers.noise_std[NUMBER]
        return denoise(values, std, records=max(float(values.sum()), std))

    def prior(self, histograms: Mapping[int, Histogram], bins: tuple[NumericBins, ...]) -> dict[int, Floats]:
        """Returns the shares of the cells of each column that has a histogram, or is like one that has."""
        shares = self.tables.prior(histograms, bins)
        return shares | {copy: shares[other] for copy, other in self.tables.alike if other in shares}

    def _names(self, maps: Mapping[str, Contingency]) -> dict[str, Contingency]:
        return {self.named(name): one for name, one in maps.items()}
