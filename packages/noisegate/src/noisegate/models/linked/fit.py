"""Fits a model of linked tables to a release, link by link.

A link is a table of transitions: a row for each child after the one before, and one row
for a parent without children. For each link::

    LinkDesign          LinkFit               fit_chain             LinkModel
    ──────────► release ───────► Mixture of ──────────► Chain of ─────────►
      queries                    transitions            children

- `LinkDesign` states the queries: pairs of the parent's columns; of each of them, and
  of the number of children, with each column of a child; of the columns of a child; and
  of each of these with itself in the child before, which gets more of the budget.
- `LinkFit` fits a mixture to the answers. How often children are first, next or none
  follows from their numbers. So the fit starts from three kinds of rows, in each of
  which the columns are independent (`with_start`).
- What pairs say beyond this start is shrunk where there are few children of a parent:
  it is kept as far as it stands out of its noise (James and Stein, 1961; Gavish and
  Donoho, 2017). Along many children, what shrinking takes away would add up.
- `LinkedFit` runs the fits of all links, parents first.
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
from noisegate.answers.design import COARSE, HISTOGRAMS, Design
from noisegate.answers.rounds import Answered, Rounds
from noisegate.devices import one_thread
from noisegate.models.checkpoint import FitState, under
from noisegate.models.linked.chain import Cells, fit_chain
from noisegate.models.linked.link_model import LinkModel, parent_cells
from noisegate.models.mixture import Mixture
from noisegate.models.tables.mixture_fit import MixtureFit, mixture_of, within_cells
from noisegate.models.tables.mixture_settings import MixtureSettings
from noisegate.models.tables.packed_tables import (
    InitialMixture,
    PackedTables,
    estimate_shares,
)
from noisegate.privacy.plan import Query
from noisegate.privacy.release import Release
from noisegate.queries.binning import Histogram, NumericBins, denoise
from noisegate.queries.contingency import Contingency, equally_weighted
from noisegate.schema.linked.links import STEPS, Link, LinkColumns, Step
from noisegate.seeds import public_random

Floats = npt.NDArray[np.float64]

# With fewer children of a parent on average, keys that do not match are suspected.
_MIN_MEAN_CHILDREN = 0.1

# Parents that are drawn for the fit of a chain.
_CHAIN_PARENTS = 20_000

# Share of a cell that cannot be.
_IMPOSSIBLE_SHARE = 1e-9
# Share of a kind of rows, or of a missing value, that noise has emptied.
_RARE_SHARE = 1e-3
# Keeps divisors from zero.
_TINY = 1e-9

# With more children on average, families are long. Set between simulated clinics of
# 1.2 and of 11 visits a person.
_LONG_FAMILY_CHILDREN = 4.0

NUMBER = "number"
"""Name of the query for the number of children."""

_BUDGET_FRACTIONS = {
    NUMBER: 0.14,
    HISTOGRAMS: 0.03,
    COARSE: 0.17,
    rounds.COUNTS: 0.01,
    rounds.SINGLES: 0.15,
    rounds.PAIRS: 0.50,
}
"""How the budget of a link is divided among its queries."""

# Standard deviations of its noise that a cell of a pair shall hold on average.
_CELL_CLARITY = 6.0


@dataclass(frozen=True, kw_only=True)
class LinkAnswers:
    """Answers about one link, by the names of its own queries (see `Design`)."""

    values: Mapping[str, Floats]  # the noisy sums
    noise_std: Mapping[str, float]  # the noise on each number of them


@dataclass(frozen=True, kw_only=True)
class LinkDesign:
    """The queries about one link.

    Attributes:
        link: The two tables.
        measures_parent_pairs: Whether the pairs of the parent's columns are measured
            here. They are in the first link of the first table alone.
        cells: Number of cells to aim at in each numeric column.
        graded: Whether fine cells are finer near zero.
    """

    link: Link
    measures_parent_pairs: bool
    cells: int
    graded: bool

    @cached_property
    def columns(self) -> LinkColumns:
        """What the columns of the link are."""
        return LinkColumns.of(self.link)

    @cached_property
    def tables(self) -> Design:
        """The design for the transitions as one table."""
        layout = self.link.schema.layout
        numeric_count = len(layout.numeric)
        pairs_over_time = [
            (before, child) for child, before in self.columns.before.items()
        ]
        numeric_copies = tuple(
            (before, child)
            for before, child in pairs_over_time
            if child < numeric_count
        )
        return Design(
            layout=layout,
            cells=self.cells,
            screens_pairs=False,
            max_pairs=1,
            pairs=tuple(dict.fromkeys(self._pairs())),
            same_cells=numeric_copies,
            # How often each step is taken follows from the numbers of children.
            not_alone=frozenset((self.columns.step,)),
            emphasised=frozenset(pairs_over_time),
            clarity=_CELL_CLARITY,
            graded=self.graded,
        )

    def _pairs(self) -> list[tuple[int, int]]:
        """Returns the pairs of columns to measure, each in ascending order.

        A pair may be listed twice.
        """
        columns = self.columns
        pairs: list[tuple[int, int]] = []
        if self.measures_parent_pairs:
            pairs += combinations(columns.parents, 2)
        pairs += product(columns.parents, (columns.number, *columns.made))
        pairs += product((columns.number,), columns.made)
        pairs += product(columns.times, columns.children)
        pairs += combinations(columns.children, 2)
        pairs += ((before, child) for child, before in columns.before.items())
        # They separate a child's missing value from a missing child.
        pairs += ((columns.step, child) for child in columns.nullable)
        return [(min(pair), max(pair)) for pair in pairs]

    @property
    def _number_map(self) -> Contingency:
        """The map that counts parents by their number of children."""
        return equally_weighted(
            self.tables.fine, self.tables.coded_sizes, [(self.columns.number,)]
        )

    def query_name(self, name: str) -> str:
        """Returns what the plan calls a query of this link: ``visits.pairs``.

        Args:
            name: Name of the query among those of the link; may be empty.
        """
        return f"{self.link.name}.{name}"

    def queries(self, budget_fraction: float) -> tuple[Query, ...]:
        """Returns the queries of the plan about this link.

        Args:
            budget_fraction: Fraction of the budget that they take together.
        """
        shares = {
            name: fraction * budget_fraction
            for name, fraction in _BUDGET_FRACTIONS.items()
        }
        number_query = Query.of(
            NUMBER, self._number_map, columns=1, share=shares[NUMBER]
        )
        queries = (replace(number_query, tables=1), *self.tables.queries(shares))
        return tuple(
            replace(query, name=self.query_name(query.name)) for query in queries
        )

    def first_round(self) -> dict[str, Contingency]:
        """Returns the maps of the first round by their names in the plan.

        They are the number of children, and the histograms of numeric columns.
        """
        return self._with_query_names(
            {NUMBER: self._number_map, **self.tables.histogram_maps()}
        )

    def final_round(self, answers: LinkAnswers) -> dict[str, Contingency]:
        """Returns the maps of the last round by their names in the plan.

        Args:
            answers: Answers of the first round, by which cells are cut.
        """
        return self._with_query_names(Rounds(self.tables, answers).last_maps())

    def answers(self, answered: Answered) -> LinkAnswers:
        """Returns the answers about this link.

        Args:
            answered: A release, or the answers so far of a session, of all links.
        """
        prefix = self.query_name("")
        return LinkAnswers(
            values=under(answered.values, prefix),
            noise_std=under(answered.noise_std, prefix),
        )

    def child_counts(self, answers: LinkAnswers) -> Histogram:
        """Returns how many parents have each number of children, denoised."""
        noisy_counts = answers.values[NUMBER].ravel()
        noise_std = answers.noise_std[NUMBER]
        parent_count = max(float(noisy_counts.sum()), noise_std)
        return denoise(noisy_counts, noise_std, record_count=parent_count)

    def prior(
        self, histograms: Mapping[int, Histogram], bins: tuple[NumericBins, ...]
    ) -> dict[int, Floats]:
        """Returns the shares of the cells of columns by their histograms.

        Args:
            histograms: Denoised histograms by column.
            bins: Cells of each numeric column.

        Returns:
            Shares by column, (cells,). The column of the child before has those of the
            child, where that has a histogram.
        """
        shares = dict(self.tables.prior_shares(histograms, bins))
        copied_shares = {
            copy: shares[original]
            for copy, original in self.tables.same_cells
            if original in shares
        }
        return shares | copied_shares

    def _with_query_names(
        self, maps: Mapping[str, Contingency]
    ) -> dict[str, Contingency]:
        return {
            self.query_name(name): contingency for name, contingency in maps.items()
        }


class LinkFit:
    """The fit of a mixture to the transitions of one link.

    Args:
        design: The queries about the link.
        release: A release of a plan with these queries.
        settings: How the mixture is fitted.
        seed: Seed for non-private randomness.

    Attributes:
        design: The queries about the link.
        fit: The fit of the mixture.
    """

    def __init__(
        self,
        design: LinkDesign,
        release: Release,
        settings: MixtureSettings,
        *,
        seed: int,
    ) -> None:
        self.design = design
        answers = design.answers(release)
        rounds = Rounds(design.tables, answers)
        released = rounds.measurements()
        self._bins = rounds.bins
        self._histograms = rounds.histograms
        self._child_counts = design.child_counts(answers)
        # The missing cell of a numeric column has no place in its order, and levels
        # have no order.
        n_ordered = [bins.size - bins.nullable for bins in self._bins]
        n_ordered += [0] * len(design.tables.coded_sizes)
        self.fit = MixtureFit(
            released.tables,
            released.domain,
            None,
            settings,
            seed=seed,
            n_ordered=n_ordered,
            prior=design.prior(self._histograms, self._bins),
            prepare=self._with_start,
        )

    def _with_start(self, tables: PackedTables) -> PackedTables:
        """Adds the start of the fit, which the numbers of children imply."""
        return with_start(
            tables, self.design.columns, self._child_counts.masses, self._first_numbers
        )

    @property
    def _first_numbers(self) -> npt.NDArray[np.intp]:
        """The smallest number of children in each cell of that column, (cells,)."""
        column = self.design.columns.number
        fine_cuts = self.design.tables.fine[column].cuts
        cut_indices = np.searchsorted(fine_cuts, self._bins[column].cuts)
        return np.asarray([0, *(cut_indices + 1)])

    @property
    def step_shares(self) -> dict[Step, float]:
        """The shares of first and of next children in all rows, by the release.

        A parent's rows have the weight 1 together; both are 0 if there are no parents.
        """
        masses = self._child_counts.masses
        parent_count = max(float(masses.sum()), _TINY)
        shares = _step_masses(masses).sum(axis=1) / parent_count
        return dict(zip(STEPS, map(float, shares), strict=True))

    @property
    def warning(self) -> str | None:
        """A problem with the fit once it has run, in words; None where there is none.

        Hardly any child with a parent means that keys do not match.
        """
        child = self.design.link.child
        masses = self._child_counts.masses
        child_count = float(np.arange(len(masses)) @ masses)
        parent_count = float(masses.sum())
        has_few_children = child_count < _MIN_MEAN_CHILDREN * parent_count
        if child.orphans == "drop" and has_few_children:
            return (
                f"about {child_count:,.0f} records belong to about "
                f"{parent_count:,.0f} of {child.parent}, by the release; are keys "
                "written alike in both tables? 000001 is another one than 1, and "
                'orphans = "drop" drops it.'
            )
        return self.fit.warning

    def mixture(self) -> Mixture:
        """Returns the mixture that the fit has reached.

        The number of children has exactly the shares that were released of it, if there
        are any parents.
        """
        column = self.design.columns.number
        histograms = {**self._histograms, column: self._child_counts}
        within = within_cells(self.design.tables, self._bins, histograms)
        mixture = mixture_of(
            self.fit.components, self.fit.tables, self.design.link.schema.layout, within
        )
        masses = np.add.reduceat(self._child_counts.masses, self._first_numbers)
        if not masses.sum() > 0:
            return mixture
        return _rake(mixture, column, masses / masses.sum())


def _rake(mixture: Mixture, column: int, shares: Floats) -> Mixture:
    """Gives one column other shares; the others keep their distribution given it.

    Args:
        mixture: A mixture.
        column: The column.
        shares: Probability of each of its cells, (cells,).

    Returns:
        The mixture, without components that have become impossible.
    """
    weights = mixture.weights.astype(np.float64)
    table = mixture.probabilities[column].astype(np.float64)
    factors = shares / np.maximum(weights @ table, 1e-12)
    joint = weights[:, None] * table * factors
    raked_weights = joint.sum(axis=1)
    tables = list(mixture.probabilities)
    tables[column] = joint / np.maximum(raked_weights[:, None], 1e-300)
    is_possible = raked_weights > 0
    return replace(
        mixture,
        weights=raked_weights[is_possible] / raked_weights.sum(),
        probabilities=tuple(np.asarray(table)[is_possible] for table in tables),
    )


class LinkedFit:
    """The fits of all links one after the other, parents first.

    It is a `noisegate.models.checkpoint.Fit`.

    Args:
        designs: The queries about each link, parents first.
        release: A release of a plan with these queries.
        settings: How each mixture is fitted.
        seed: Seed for non-private randomness.

    Attributes:
        links: The fit of each link, parents first.
    """

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
        return sum(link.fit.step for link in self.links)

    @property
    def steps(self) -> int:
        """The most steps that there will be, as far as is known."""
        return sum(link.fit.steps for link in self.links)

    @property
    def discrepancy(self) -> float:
        """The largest mean squared distance of a link to its tables, in their noise.

        It is infinite before any link is measured.
        """
        discrepancies = [link.fit.discrepancy for link in self.links]
        return max(filter(math.isfinite, discrepancies), default=math.inf)

    @property
    def warning(self) -> str | None:
        """A problem with the first link that has one, in words; None if none has."""
        for link in self.links:
            warning = link.warning
            if warning:
                # The cure of a mixture's fit names its method.
                own_cure = warning.replace(
                    "noisegate.Pairwise", "noisegate.methods.linked.Linked"
                )
                return f"{link.design.link.name}: {own_cure}"
        return None

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps.

        Args:
            report: Is called with the state of all links together now and then.
        """

        def report_all(_: FitState) -> None:
            if report:
                state = FitState(
                    step=self.step, steps=self.steps, discrepancy=self.discrepancy
                )
                report(state)

        for link in self.links:
            link.fit.run(report_all)

    def state_dict(self) -> dict[str, npt.NDArray[Any]]:
        """Returns named arrays, from which `load_state_dict` resumes the same bits."""
        return {
            f"{link.design.link.name}.{name}": value
            for link in self.links
            for name, value in link.fit.state_dict().items()
        }

    def load_state_dict(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Resumes where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of another fit.
        """
        for link in self.links:
            link.fit.load_state_dict(under(arrays, f"{link.design.link.name}."))

    def model(self) -> tuple[LinkModel, ...]:
        """Returns the model of each link that the fit has reached, parents first."""
        models: dict[str, LinkModel] = {}
        with one_thread():
            for link_fit in self.links:
                link = link_fit.design.link
                mixture = link_fit.mixture()
                parent_model = models.get(link.parent.name)
                chain = fit_chain(
                    link_fit.design.columns,
                    mixture,
                    self._chain_parents(mixture, parent_model),
                    self._seed,
                )
                models[link.name] = LinkModel(
                    link=link, chain=chain, parent_model=parent_model
                )
        return tuple(models.values())

    def _chain_parents(self, mixture: Mixture, parent_model: LinkModel | None) -> Cells:
        """Draws parents for the fit of a chain, (about 20,000, columns of the link).

        Args:
            mixture: Mixture of the link's transitions.
            parent_model: The model that draws the parents; None for the first link.
        """
        random = public_random(self._seed)
        if parent_model is not None:
            parents = parent_model.sample_one_child_each(_CHAIN_PARENTS, random)
            if len(parents):
                return parent_cells(mixture, parents)
            # The parents are children of a link in which no record has any.
        return mixture.cells(mixture.draw(_CHAIN_PARENTS, random))


def with_start(
    tables: PackedTables,
    columns: LinkColumns,
    child_counts: Floats,
    first_numbers: npt.NDArray[np.intp],
) -> PackedTables:
    """Adds where the fit to the tables of a link starts, which the child counts imply.

    If families are short, pairs are shrunk towards what the start expects.

    Args:
        tables: Tables of the transitions, of one class.
        columns: What the columns of the link are.
        child_counts: How many parents have 0, 1, ... children, (max + 1,).
        first_numbers: The smallest number of children in each cell of that column,
            (cells,).

    Returns:
        The tables with their start; as they are if there are no parents.
    """
    parent_count = child_counts.sum()
    if not parent_count > 0:
        return tables
    shares = estimate_shares(tables)[0]
    start = _start(shares, tables.column_slices, columns, child_counts, first_numbers)
    mean_children = float(np.arange(len(child_counts)) @ child_counts / parent_count)
    if mean_children > _LONG_FAMILY_CHILDREN:
        return replace(tables, start=start)
    number_span = tables.column_slices[columns.number]
    pairs = _shrink_pairs(tables, start, exempt=number_span)
    return replace(tables, start=start, pair_counts=pairs)


def _start(
    shares: Floats,
    spans: tuple[slice, ...],
    columns: LinkColumns,
    child_counts: Floats,
    first_numbers: npt.NDArray[np.intp],
) -> InitialMixture:
    """Returns three kinds of rows, one for each step, with independent columns in each.

    Args:
        shares: Shares of the cells of all columns over all rows, (D,).
        spans: Where the cells of each column stand among the D.
        columns: What the columns of the link are.
        child_counts: How many parents have each number of children, (max + 1,).
        first_numbers: The smallest number of children in each cell, (cells,).
    """
    step_masses = _step_masses(child_counts)
    weights = np.maximum(step_masses.sum(axis=1) / child_counts.sum(), _RARE_SHARE)
    weights /= weights.sum()
    cells = np.tile(shares, (len(STEPS), 1))
    cells[:, spans[columns.number]] = _positive_shares(
        np.add.reduceat(step_masses, first_numbers, axis=1)
    )
    cells[:, spans[columns.step]] = _positive_shares(np.eye(len(STEPS)))

    nullable_before = [columns.before[column] for column in columns.nullable]
    may_be_missing = {*columns.nullable, *nullable_before}
    for column, present_steps in _steps_of_columns(columns).items():
        shares_if_present = shares[spans[column]].copy()
        if column in may_be_missing:
            # The share of missing cells in all rows, less that of rows without a child.
            absent_share = 1 - sum(weights[STEPS.index(step)] for step in present_steps)
            missing_share = shares_if_present[-1] - absent_share
            shares_if_present[-1] = max(missing_share, _RARE_SHARE)
        else:
            shares_if_present[-1] = 0.0
        shares_if_absent = np.append(np.zeros(len(shares_if_present) - 1), 1.0)
        for index, step in enumerate(STEPS):
            is_present = step in present_steps
            cells[index, spans[column]] = _positive_shares(
                shares_if_present if is_present else shares_if_absent
            )
    return InitialMixture(weights=weights, cells=cells)


def _step_masses(child_counts: Floats) -> Floats:
    """Returns how many parents are at each step, by their number of children.

    A parent with K > 0 children has weight 1 / K in each of its K rows, one of which is
    a first child.

    Args:
        child_counts: How many parents have each number of children, (max + 1,).

    Returns:
        Masses in the order of `STEPS`, (steps, max + 1).
    """
    row_counts = np.maximum(np.arange(len(child_counts)), 1)
    masses: dict[Step, Floats] = {
        "first": child_counts / row_counts,
        "next": child_counts * (row_counts - 1) / row_counts,
        "none": child_counts * 0,
    }
    masses["first"][0] = 0.0
    masses["none"][0] = child_counts[0]
    return np.stack([masses[step] for step in STEPS])


def _steps_of_columns(columns: LinkColumns) -> dict[int, tuple[Step, ...]]:
    """Returns the steps at which each column has a value, but for missing values.

    The columns of parent, number and step always have one, and are left out.
    """
    steps: dict[int, tuple[Step, ...]] = {}
    for column in columns.children:
        steps[column] = ("first", "next")
    for column in columns.previous:
        steps[column] = ("next",)
    if columns.gap is not None:
        steps[columns.gap] = ("next",)
    if columns.first is not None:
        steps[columns.first] = ("first",)
    return steps


def _positive_shares(shares: Floats) -> Floats:
    """Returns shares along the last axis with sum 1, none of them zero."""
    totals = np.maximum(shares.sum(axis=-1, keepdims=True), 1e-300)
    positive = np.maximum(shares, _IMPOSSIBLE_SHARE * totals)
    return np.asarray(positive / positive.sum(axis=-1, keepdims=True))


def _shrink_pairs(
    tables: PackedTables, start: InitialMixture, *, exempt: slice
) -> npt.NDArray[np.float32]:
    """Shrinks counts of pairs towards what a start expects, by how noisy they are.

    Args:
        tables: Tables of one class.
        start: Where their fit starts.
        exempt: Cells of a column whose pairs stay as they are.

    Returns:
        Counts of pairs, (1, D, D).
    """
    expected = tables.class_counts[0] * (start.cells.T * start.weights) @ start.cells
    pairs = tables.pair_counts.copy()
    for rows, columns in combinations(tables.column_slices, 2):
        was_measured = tables.pair_inverse_std[rows, columns].any()
        if exempt in (rows, columns) or not was_measured:
            continue
        noise_std = 1 / float(tables.pair_inverse_std[rows, columns].max())
        expected_pairs = expected[rows, columns]
        residuals = (tables.pair_counts[0, rows, columns] - expected_pairs) / noise_std
        pairs[0, rows, columns] = expected_pairs + noise_std * _shrink(residuals)
    return pairs


def _shrink(residuals: Floats) -> Floats:
    """Estimates the means of a table with independent noise of standard deviation 1.

    It is the mean of two estimates. One shrinks all cells alike, by how much larger
    they are together than noise is (James and Stein, 1961). The other keeps the few
    patterns of rows and columns that noise does not make: singular values are shrunk,
    each by its own size, as is optimal for squared error (Gavish and Donoho, 2017)::

        η(y) = √((y² − β − 1)² − 4β) / y   if y > 1 + √β, else 0

    for y in units of √columns, with β = rows / columns ≤ 1.

    Args:
        residuals: Distances from what is expected, (rows, columns).

    Returns:
        The estimate, (rows, columns).
    """
    fewer, more = sorted(residuals.shape)
    energy = max(float(np.square(residuals).sum()), _TINY)
    kept_fraction = max(1 - residuals.size / energy, 0.0)

    left, singular_values, right = np.linalg.svd(residuals, full_matrices=False)
    ratio = fewer / more
    scaled = np.maximum(singular_values, _TINY) / math.sqrt(more)
    radicand = (scaled**2 - ratio - 1) ** 2 - 4 * ratio
    kept_fractions = np.sqrt(np.maximum(radicand, 0)) / scaled**2
    is_above_noise = scaled > 1 + math.sqrt(ratio)
    patterns = (
        left * np.where(is_above_noise, kept_fractions, 0) * singular_values
    ) @ right
    return np.asarray((kept_fraction * residuals + patterns) / 2)
