"""The fit of a model of linked tables to a release: what is asked, and link by link a mixture and then a chain.

What pairs say beyond the numbers of children is shrunk: James and Stein (1961); Gavish and Donoho (2017).

Asked are pairs of the parent's columns, of each of them and of the number of children
with what a child says, of the columns of a child, and of each of these with itself in
the child before, which counts more.

How often children are first, next or none follows from their numbers, so a mixture sets
out from that, with columns independent in each. Where there are few children, what
pairs say beyond it is kept as far as it stands out of its noise (James and Stein, 1961;
Gavish and Donoho, 2017). Along many children, what that takes away adds up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.answers import design as rounds
from noisegate.answers.design import Design
from noisegate.answers.released import COARSE, HISTOGRAMS, Answered
from noisegate.answers.tables import ClassTables, Start, likely_shares
from noisegate.devices import one_thread
from noisegate.models.checkpoint import FitState, under
from noisegate.models.linked.chain import Chain, fit_chain
from noisegate.models.linked.model import LinkModel
from noisegate.models.mixture import Mixture
from noisegate.models.tables.descent import MixtureSettings
from noisegate.models.tables.mixture_fit import MixtureFit, mixture_of, within_cells
from noisegate.privacy.plan import Query
from noisegate.privacy.release import Release
from noisegate.queries.binning import Histogram, NumericBins, denoise
from noisegate.queries.contingency import Contingency, equally_weighted
from noisegate.schema.linked.links import STEPS, Link, LinkColumns, Step
from noisegate.seeds import public_random

_FEW = 0.1  # of fewer children of a parent in the mean it is asked whether their keys were found
_PARENTS = 20_000  # parents that are drawn for the fit of a chain


class LinkFit(MixtureFit):
    """The fit of a mixture to the transitions of one link."""

    def __init__(
        self,
        design: LinkDesign,
        release: Release,
        settings: MixtureSettings,
        *,
        seed: int,
    ) -> None:
        self.design, found = design, design.answers(release)
        self._bins, tables = design.tables.read(found)
        self._histograms = design.tables.read_histograms(found)
        self._numbers = design.numbers(found)
        sizes = [*(bins.size for bins in self._bins), *design.tables.coded]
        prior = design.prior(self._histograms, self._bins)
        ordered = [bins.size - bins.nullable for bins in self._bins] + [0] * len(
            design.tables.coded
        )
        super().__init__(
            tables, sizes, None, settings, seed=seed, ordered=ordered, prior=prior
        )

    def _known(self, tables: ClassTables) -> ClassTables:
        return with_start(
            tables, self.design.columns, self._numbers.masses, self._begins
        )

    @property
    def _begins(self) -> npt.NDArray[np.intp]:
        place = self.design.columns.number
        cuts = np.searchsorted(
            self.design.tables.fine[place].cuts, self._bins[place].cuts
        )
        return np.asarray([0, *(cuts + 1)])

    @property
    def warning(self) -> str | None:
        """What is wrong with the fit once it has run, or with what was released, in words; None where nothing is."""
        masses, child = self._numbers.masses, self.design.link.child
        children, parents = float(np.arange(len(masses)) @ masses), float(masses.sum())
        if child.orphans == "drop" and children < _FEW * parents:
            return (
                f"about {children:,.0f} records belong to about {parents:,.0f} of {child.parent}, by the release; "
                'are keys written alike in both tables? 000001 is another one than 1, and orphans = "drop" drops it.'
            )
        return super().warning

    def mixture(self) -> Mixture:
        """Returns the mixture that the fit has reached; of the number of children it says what was released of it."""
        design, place = self.design, self.design.columns.number
        histograms: Mapping[int, Histogram] = {**self._histograms, place: self._numbers}
        within = within_cells(design.tables, self._bins, histograms)
        mixture = mixture_of(
            self.reached, self.tables, design.link.schema.layout, within
        )
        masses = np.add.reduceat(self._numbers.masses, self._begins)
        return (
            _raked(mixture, place, masses / masses.sum())
            if masses.sum() > 0
            else mixture
        )


def _raked(mixture: Mixture, column: int, shares: npt.NDArray[np.float64]) -> Mixture:
    """Returns the mixture with other shares of the cells of one column, and all else as it was given this."""
    weights, table = (
        mixture.weights.astype(np.float64),
        mixture.probabilities[column].astype(np.float64),
    )
    joint = weights[:, None] * table * (shares / np.maximum(weights @ table, 1e-12))
    weights = joint.sum(axis=1)
    tables = list(mixture.probabilities)
    tables[column] = joint / np.maximum(weights[:, None], 1e-300)
    live = weights > 0
    return replace(
        mixture,
        weights=weights[live] / weights.sum(),
        probabilities=tuple(np.asarray(one)[live] for one in tables),
    )


class LinkedFit:
    """The fits of all `links`, parents first, one after the other; a `noisegate.models.checkpoint.Resumable`."""

    def __init__(
        self,
        designs: Sequence[LinkDesign],
        release: Release,
        settings: MixtureSettings,
        *,
        seed: int,
    ) -> None:
        self.links = tuple(
            LinkFit(design, release, settings, seed=seed) for design in designs
        )
        self._seed = seed

    @property
    def step(self) -> int:
        """Steps done."""
        return sum(link.step for link in self.links)

    @property
    def steps(self) -> int:
        """Most steps that there will be, as far as is known."""
        return sum(link.steps for link in self.links)

    @property
    def discrepancy(self) -> float:
        """The largest mean squared distance of a link to its tables, in units of their noise."""
        found = [
            link.discrepancy for link in self.links if math.isfinite(link.discrepancy)
        ]
        return max(found, default=math.inf)

    @property
    def warning(self) -> str | None:
        """What is wrong with the fit once it has run, in words; None where nothing is."""
        told = ((link.design.link.name, link.warning) for link in self.links)
        again = "noisegate.Pairwise", "noisegate.methods.linked.Linked"
        return next(
            (f"{name}: {warning.replace(*again)}" for name, warning in told if warning),
            None,
        )

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps."""

        def told(_: FitState) -> None:
            if report:
                report(
                    FitState(
                        step=self.step, steps=self.steps, discrepancy=self.discrepancy
                    )
                )

        for link in self.links:
            link.run(told)

    def state_dict(self) -> dict[str, npt.NDArray[Any]]:
        """Returns everything that `load_state_dict` needs to go on with the same bits, as named arrays."""
        return {
            f"{link.design.link.name}.{name}": value
            for link in self.links
            for name, value in link.state_dict().items()
        }

    def load_state_dict(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Takes up the fit where `state_dict` was called; KeyError or ValueError if the state is that of another."""
        for link in self.links:
            link.load_state_dict(under(arrays, f"{link.design.link.name}."))

    def model(self) -> tuple[LinkModel, ...]:
        """Returns the model of each link that the fit has reached, parents first."""
        made: dict[str, LinkModel] = {}
        with one_thread():
            for fit in self.links:
                link, mixture = fit.design.link, fit.mixture()
                above = made.get(link.parent.name)
                random = public_random(self._seed)
                parents = None if above is None else above.one_each(_PARENTS, random)
                if parents is None or not len(
                    parents
                ):  # the first link, or one below a link without children
                    cells = mixture.cells(mixture.draw(_PARENTS, random))
                else:
                    cells = LinkModel.parent_cells(link, mixture, parents)
                chain: Chain = fit_chain(fit.design.columns, mixture, cells, self._seed)
                made[link.name] = LinkModel(link=link, chain=chain, above=above)
        return tuple(made.values())


Floats = npt.NDArray[np.float64]

# Of a cell that cannot be, and of one that a nullable column's noise has emptied.
_NEVER, _RARE = 1e-9, 1e-3
_LONG = 4.0  # with more children in the mean families are long: between simulated clinics of 1.2 and of 11


def with_start(
    tables: ClassTables,
    columns: LinkColumns,
    numbers: Floats,
    begins: npt.NDArray[np.intp],
) -> ClassTables:
    """Returns the tables, of one class, with where their fit sets out; of short families pairs are drawn to it."""
    # `numbers` says how many parents have 0, 1, ... children, (most + 1,); `begins` where its column's cells begin in
    # it.
    if not numbers.sum() > 0:
        return tables
    start = _start(likely_shares(tables)[0], tables.spans, columns, numbers, begins)
    mean = float(np.arange(len(numbers)) @ numbers / numbers.sum())
    pairs = (
        tables.pairs
        if mean > _LONG
        else _shrunk(tables, start, kept=tables.spans[columns.number])
    )
    return replace(tables, start=start, pairs=pairs)


def _start(
    shares: Floats,
    spans: tuple[slice, ...],
    columns: LinkColumns,
    numbers: Floats,
    begins: npt.NDArray[np.intp],
) -> Start:
    count = np.maximum(np.arange(len(numbers)), 1)
    by_step = {
        "first": numbers / count,
        "next": numbers * (count - 1) / count,
        "none": numbers * 0,
    }
    by_step["first"][0], by_step["none"][0] = 0.0, numbers[0]
    parts = np.stack([by_step[step] for step in STEPS])
    weights = np.maximum(parts.sum(axis=1) / numbers.sum(), _RARE)
    weights /= weights.sum()
    cells = np.tile(shares, (len(STEPS), 1))
    cells[:, spans[columns.number]] = _positive(np.add.reduceat(parts, begins, axis=1))
    cells[:, spans[columns.step]] = _positive(np.eye(len(STEPS)))
    steps: dict[int, tuple[Step, ...]] = dict.fromkeys(
        columns.children, ("first", "next")
    )
    steps |= dict.fromkeys(
        (column for column in (*columns.previous, columns.gap) if column is not None),
        ("next",),
    )
    steps |= {} if columns.first is None else {columns.first: ("first",)}
    nullable = {
        *columns.nullable,
        *(columns.before[column] for column in columns.nullable),
    }
    for column, found in steps.items():
        there = shares[spans[column]].copy()
        away = 1 - sum(weights[STEPS.index(step)] for step in found)
        there[-1] = max(there[-1] - away, _RARE) if column in nullable else 0.0
        absent = np.append(np.zeros(len(there) - 1), 1.0)
        for place, step in enumerate(STEPS):
            cells[place, spans[column]] = _positive(there if step in found else absent)
    return Start(weights=weights, cells=cells)


def _positive(shares: Floats) -> Floats:
    shares = np.maximum(
        shares, _NEVER * np.maximum(shares.sum(axis=-1, keepdims=True), 1e-300)
    )
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


def _shrunk(
    tables: ClassTables, start: Start, *, kept: slice
) -> npt.NDArray[np.float32]:
    """Returns the counts of pairs, all but those of the number drawn to what the start expects where it is noise."""
    expected = tables.counts[0] * (start.cells.T * start.weights) @ start.cells
    found = tables.pairs.copy()
    for one, other in combinations(tables.spans, 2):
        if kept not in (one, other) and tables.precision[one, other].any():
            noise_std = 1 / float(tables.precision[one, other].max())
            apart = (tables.pairs[0, one, other] - expected[one, other]) / noise_std
            found[0, one, other] = expected[one, other] + noise_std * denoised(apart)
    return found


def denoised(apart: Floats) -> Floats:
    """Returns what stands out of a table with noise of 1 in each cell, (rows, columns)."""
    # The mean of two estimates: all cells alike, kept by how much larger they are together than noise is, and the few
    # patterns of rows and columns that noise does not make, each by its own size.
    rows, columns = sorted(apart.shape)
    energy = max(float(np.square(apart).sum()), _NEVER)
    left, sizes, right = np.linalg.svd(apart, full_matrices=False)
    ratio, scaled = rows / columns, np.maximum(sizes, _NEVER) / math.sqrt(columns)
    kept = np.sqrt(np.maximum((scaled**2 - ratio - 1) ** 2 - 4 * ratio, 0)) / scaled**2
    patterns = (left * np.where(scaled > 1 + math.sqrt(ratio), kept, 0) * sizes) @ right
    return np.asarray((max(1 - apart.size / energy, 0.0) * apart + patterns) / 2)


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
    graded: bool  # whether fine cells are finer near zero

    @cached_property
    def columns(self) -> LinkColumns:
        """What the columns are."""
        return LinkColumns.of(self.link)

    @cached_property
    def tables(self) -> Design:
        """The design of the transitions as a table."""
        columns, layout = self.columns, self.link.schema.layout
        numeric = len(layout.numeric)
        alike = tuple(
            (before, now) for now, before in columns.before.items() if now < numeric
        )
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
            graded=self.graded,
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
        return equally_weighted(
            self.tables.fine, self.tables.coded, [(self.columns.number,)]
        )

    def named(self, query: str) -> str:
        """Returns what the plan calls a query of this link."""
        return f"{self.link.name}.{query}"

    def queries(self, share: float) -> tuple[Query, ...]:
        """Returns the plan's queries, which take `share` of the budget together."""
        asked = self.tables.queries(
            {name: part * share for name, part in SHARES.items()}
        )
        number = Query.of(NUMBER, self._number, columns=1, share=SHARES[NUMBER] * share)
        return tuple(
            replace(one, name=self.named(one.name))
            for one in (replace(number, tables=1), *asked)
        )

    def first(self) -> dict[str, Contingency]:
        """Returns the maps of the first round: how many children there are, and histograms."""
        return self._names({NUMBER: self._number, **self.tables.histograms()})

    def final(self, answers: LinkAnswers) -> dict[str, Contingency]:
        """Returns the maps of the last round."""
        return self._names(self.tables.final(answers.values, answers.noise_std))

    def answers(self, found: Answered) -> LinkAnswers:
        """Returns what a release, or a session so far, says about this link."""
        own = self.named("")
        values = {
            name.removeprefix(own): each
            for name, each in found.values.items()
            if name.startswith(own)
        }
        stds = {
            name.removeprefix(own): each
            for name, each in found.noise_std.items()
            if name.startswith(own)
        }
        return LinkAnswers(values=values, noise_std=stds)

    def numbers(self, answers: LinkAnswers) -> Histogram:
        """Returns how many parents have each number of children."""
        values, std = answers.values[NUMBER].ravel(), answers.noise_std[NUMBER]
        return denoise(values, std, records=max(float(values.sum()), std))

    def prior(
        self, histograms: Mapping[int, Histogram], bins: tuple[NumericBins, ...]
    ) -> dict[int, Floats]:
        """Returns the shares of the cells of each column that has a histogram, or is like one that has."""
        shares = self.tables.prior(histograms, bins)
        return shares | {
            copy: shares[other] for copy, other in self.tables.alike if other in shares
        }

    def _names(self, maps: Mapping[str, Contingency]) -> dict[str, Contingency]:
        return {self.named(name): one for name, one in maps.items()}
