"""Fits a mixture of product distributions to released contingency tables.

Each class of the label has components of its own, and the counts that they expect of
pairs of columns are the second moment of its records (`distance`). The mixture is
fitted by gradient descent, on the CPU, to pairs whose noise was reduced before
(`packed_tables`). So it is fitted to the end: what could be overfitted is gone.

`MixtureFit` is the fit to any tables, `PairwiseFit` that of the pairwise method. All of
it is post-processing, which costs no privacy.

Related: RAP (Aydore et al. 2021), RAP++ (Vietri et al. 2022) and GEM (Liu, Vietri and
Wu 2021) fit relaxed tables and generators to noisy queries by gradient descent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.answers.design import Design
from noisegate.answers.domain import Domain, ends_of
from noisegate.answers.noisy_table import NoisyTable
from noisegate.answers.rounds import Rounds
from noisegate.devices import one_thread
from noisegate.models.checkpoint import FitState, joined, under
from noisegate.models.labelled import LabelledMixture
from noisegate.models.mixture import Mixture
from noisegate.models.tables.descent import Search
from noisegate.models.tables.distance import Components
from noisegate.models.tables.label_fit import MAX_CLASSES, LabelFit
from noisegate.models.tables.mixture_settings import MixtureSettings
from noisegate.models.tables.packed_tables import (
    PackedTables,
    denoise_pairs,
    pack_tables,
    split,
)
from noisegate.models.within_cell import WithinCell
from noisegate.privacy.release import Release
from noisegate.queries.binning import (
    Histogram,
    NumericBins,
    is_single_value,
    with_exponential_tails,
)
from noisegate.schema import Layout, NumericColumn, Schema
from noisegate.schema.layout import numbers_at

if TYPE_CHECKING:
    from jaxtyping import Float64

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

FAR = 2.0
"""A fit warns if it ends at a larger discrepancy from its release than this."""
# Records are distinguished by a column unless more than this share of them lies in the
# same fine cell.
_MAX_SHARE_IN_CELL = 0.5
# Keeps a quotient finite.
_TINY = 1e-9


class MixtureFit:
    """The fit of a mixture to released tables; a `Resumable` (`models.checkpoint`).

    If there is a label, a trial comes before the fit: the mixture of noisier tables,
    which can be judged by other tables with independent noise.

    Args:
        tables: The released tables.
        domain: All columns.
        label: The column whose classes are fitted apart. None for no such column.
        settings: How the mixture is fitted.
        seed: Seed for non-private randomness.
        n_ordered: How many cells of each column, the first ones, have an order.
        prior: Shares of the cells of columns of which something is known, by column.
        prepare: Adds to denoised tables what else is known of them; None for nothing.

    Attributes:
        settings: How the mixture is fitted.
        tables: The denoised tables to which the mixture is fitted.
        trial_tables: The denoised tables to which the trial is fitted.
        judge_tables: Tables by which the trial may be judged.
    """

    def __init__(
        self,
        tables: Sequence[NoisyTable],
        domain: Domain,
        label: int | None,
        settings: MixtureSettings,
        *,
        seed: int,
        n_ordered: Sequence[int],
        prior: Mapping[int, npt.NDArray[np.float64]] | None = None,
        prepare: Callable[[PackedTables], PackedTables] | None = None,
    ) -> None:
        self.settings = settings
        self._seed = seed
        other_n_ordered = [
            count for column, count in enumerate(n_ordered) if column != label
        ]
        trial, judge = split(tables, np.random.default_rng(seed))
        released = pack_tables(tables, domain, label, prior)
        released_trial = pack_tables(trial, domain, label, prior)
        self.judge_tables = pack_tables(judge, domain, label, prior)
        self._searches: dict[str, Search] = {}
        with one_thread():
            self.trial_tables = denoise_pairs(released_trial, other_n_ordered)
            self.tables = denoise_pairs(released, other_n_ordered)
            if prepare is not None:
                self.trial_tables = prepare(self.trial_tables)
                self.tables = prepare(self.tables)
            if label is not None:
                self._searches["trial"] = Search(
                    self.trial_tables, released_trial, settings, seed=seed
                )
            self._searches["fit"] = Search(self.tables, released, settings, seed=seed)

    @property
    def step(self) -> int:
        """Steps done, of the trial and of the fit."""
        return sum(search.step for search in self._searches.values())

    @property
    def steps(self) -> int:
        """Steps that there will be, as far as is known."""
        return sum(search.steps for search in self._searches.values())

    @property
    def discrepancy(self) -> float:
        """Mean squared distance to the released pairs and triples.

        It is in units of their noise, and infinite before the end.
        """
        return self._searches["fit"].discrepancy

    @property
    def warning(self) -> str | None:
        """What is wrong with the fit once it has run, in words; None if nothing is."""
        if not FAR < self.discrepancy < math.inf:
            return None
        larger_settings = (
            f'{{"components": {2 * self.settings.components}, '
            f'"steps": {3 * self.settings.steps}}}'
        )
        return (
            "the fit has ended far from its release: the distance is "
            f"{self.discrepancy:.2g} times what the noise explains, where 1 is as "
            f"near as can be and above {FAR:g} tables of the synthetic records are "
            "off by more than their noise. The release is whole, and may be fitted "
            "again at no cost: noisegate.Pairwise(seed=1, "
            f"fit_options={larger_settings}).fit_release(model.release); of two "
            "nearly equal columns, replace one by a column of their difference."
        )

    @property
    def components(self) -> Components:
        """The components that the fit has reached."""
        return self._searches["fit"].components

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps of the trial, and then of the fit.

        Args:
            report: Is called with the state after each step.
        """
        with one_thread():
            for search in self._searches.values():
                while search.advance():
                    if report:
                        report(
                            FitState(
                                step=self.step,
                                steps=self.steps,
                                discrepancy=self.discrepancy,
                            )
                        )

    def state_dict(self) -> dict[str, Array]:
        """Returns all that `load_state_dict` needs to continue with the same bits."""
        states = {name: search.state_dict() for name, search in self._searches.items()}
        return joined(**states)

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Resumes where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of another fit.
        """
        if "fit/search" not in arrays:
            raise ValueError("it holds the fit of an earlier version")
        with one_thread():
            for name, search in self._searches.items():
                search.load_state_dict(under(arrays, f"{name}/"))


def mixture_of(
    components: Components,
    tables: PackedTables,
    layout: Layout,
    within: tuple[WithinCell, ...],
    label: int | None = None,
) -> Mixture:
    """Makes one mixture of the components of all classes.

    A component of class l with the weight w_k in its class has the weight n_l w_k / n,
    with n_l records in the class and n in all. Components follow class by class. The
    label is a column of its own in the result, in which each component has its class.

    Args:
        components: Fitted components, by class.
        tables: The tables that they were fitted to, which state how many records each
            class has.
        layout: The columns of the mixture.
        within: Where values lie in the cells of each numeric column.
        label: Index of the column whose cells are the classes. None for no label.
    """
    cells = components.cells.transpose(0, 2, 1)  # (classes, K, D)
    n_classes, n_class_components, _ = cells.shape
    n_components = n_classes * n_class_components
    weights = (tables.class_counts[:, None] * components.weights).ravel()
    probabilities = [
        np.ascontiguousarray(cells[:, :, column_slice]).reshape(n_components, -1)
        for column_slice in tables.column_slices
    ]
    if label is not None:
        # A component has records of its own class alone.
        is_class = np.eye(n_classes, dtype=np.float32)
        probabilities.insert(label, np.repeat(is_class, n_class_components, axis=0))
    return Mixture(
        layout=layout,
        within=within,
        weights=weights / weights.sum(),
        probabilities=tuple(probabilities),
        copula=True,
    )


def within_cells(
    design: Design, bins: Sequence[NumericBins], histograms: Mapping[int, Histogram]
) -> tuple[WithinCell, ...]:
    """Finds where values lie in the cells of each numeric column.

    Args:
        design: The queries, which state the fine cells of each column.
        bins: The cells of each column.
        histograms: Histograms over the fine cells, of the columns that have one.
    """
    columns = zip(design.layout.numeric, design.fine, bins, strict=True)
    return tuple(
        within_cell(column, fine, column_bins, histograms.get(index))
        for index, (column, fine, column_bins) in enumerate(columns)
    )


def within_cell(
    column: NumericColumn,
    fine: NumericBins,
    bins: NumericBins,
    histogram: Histogram | None,
) -> WithinCell:
    """Finds where values lie in the cells of one numeric column.

    Args:
        column: The column.
        fine: Its fine cells.
        bins: Its cells, which are joined fine ones.
        histogram: A histogram over the fine cells. None for equal masses.
    """
    edges = np.asarray([0.0, *fine.cuts, 1.0])
    if histogram is None:
        masses = np.ones(len(edges) - 1)
    else:
        masses = with_exponential_tails(histogram, edges)
    return WithinCell.from_edges(
        column, bins, edges=edges, masses=masses, spikes=is_single_value(column, fine)
    )


@dataclass(frozen=True, kw_only=True)
class UnresolvedCell:
    """A fine cell of several values that holds most records.

    Attributes:
        column: The numeric column.
        share: Share of the records in the cell.
        low: Its lowest value.
        high: Its highest value.
    """

    column: NumericColumn
    share: float
    low: float
    high: float


class PairwiseFit(MixtureFit):
    """The fit of a mixture to a release of the pairwise method.

    Columns are numbered with the numeric ones first.

    Args:
        design: The queries of the release.
        release: The release.
        settings: How the mixture is fitted.
        seed: Seed for non-private randomness.

    Attributes:
        design: The queries of the release.
        released: The released tables of its last round.
        n_ordered: How many cells of each column, the first ones, have an order: all of
            numeric columns but those of missing values.
    """

    def __init__(
        self, design: Design, release: Release, settings: MixtureSettings, *, seed: int
    ) -> None:
        self.design = design
        self._schema = release.schema
        rounds = Rounds(design, release)
        self.released = rounds.measurements()
        self._bins = rounds.bins
        self._histograms = rounds.histograms
        # The bin of missing values, the last one, has no place in the order; neither
        # have the levels of coded columns.
        self.n_ordered = [bins.size - bins.nullable for bins in self._bins]
        self.n_ordered += [0] * len(design.layout.coded)
        super().__init__(
            self.released.tables,
            self.released.domain,
            design.label,
            settings,
            seed=seed,
            n_ordered=self.n_ordered,
            prior=design.prior_shares(self._histograms, self._bins),
        )

    def model(self) -> Mixture | LabelledMixture:
        """Makes the model that the fit has reached.

        The label's model is fitted to tables by class. If the mixture was fitted by
        class, these are its own, and a trial chooses how much the log-odds of the
        mixture count. Otherwise tables are packed by class here, and they count
        nothing.

        Returns:
            The mixture. If there is a label with a few values, it has a model of its
            own on top.
        """
        mixture = self._mixture(self.components, self.tables)
        label = _label_index(self._schema)
        if label is None or len(mixture.sizes) == 1:
            return mixture
        if not 1 < mixture.sizes[label] <= MAX_CLASSES:
            return mixture
        has_class_tables = self.design.label is not None
        if has_class_tables:
            tables = self.tables
        else:
            tables = pack_tables(self.released.tables, self.released.domain, label)
        n_ordered = [
            count for column, count in enumerate(self.n_ordered) if column != label
        ]
        label_fit = LabelFit(label, tables, n_ordered, seed=self._seed)
        with one_thread():
            weight = 0.0
            if has_class_tables:
                trial_components = self._searches["trial"].components
                weight = label_fit.choose_mixture_weight(
                    self.trial_tables,
                    self.judge_tables,
                    self._mixture(trial_components, self.trial_tables),
                )
            label_model = label_fit.model(mixture, weight)
        return LabelledMixture(mixture=mixture, label=label_model)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        layout = self.design.layout
        return [column.name for column in (*layout.numeric, *layout.coded)]

    def marginal(self, columns: tuple[int, ...]) -> Floats:
        """Computes the distribution of one or two columns in the fitted mixture.

        Args:
            columns: One or two columns, ascending; each may be the label.

        The share of a cell is Σ_lk (n_l / n) w_lk p_lak, over the classes l of n_l
        records and their components k; of a pair of cells it has p_lak p_lbk. The label
        has its cells in the classes themselves, so that l is not summed over then.

        Returns:
            Shares of the cells of one column, or of the pairs of cells of two.
        """
        label = self.design.label
        class_counts = self.tables.class_counts
        weights = class_counts[:, None] * self.components.weights / class_counts.sum()
        other_columns = [index for index in range(len(self.names)) if index != label]
        # Shares by class and component, with an axis for each column but the label.
        shares = np.asarray(weights, dtype=np.float64)
        products = ("lk,lak->lka", "lka,lbk->lkab")
        columns_without_label = [column for column in columns if column != label]
        for product, column in zip(products, columns_without_label, strict=False):
            column_slice = self.tables.column_slices[other_columns.index(column)]
            cells = self.components.cells[:, column_slice]
            shares = np.einsum(product, shares, cells, optimize=True)
        class_shares: Floats = shares.sum(axis=1)
        if label not in columns:
            return np.asarray(class_shares.sum(axis=0))
        if columns[0] == label:
            return class_shares
        return class_shares.T

    def unresolved_cells(self) -> Iterator[UnresolvedCell]:
        """Yields the fine cells of several values that hold most records.

        In such a cell nothing says where the records lie. Cells of a single value are
        left out, and so are those that are graded, as they are fine already.
        """
        fine_widths = self.design.histogram_cells.widths
        for index, histogram in self._histograms.items():
            column = self.design.layout.numeric[index]
            fine = self.design.fine[index]
            low, high, size = ends_of(column, np.asarray([0.0, *fine.cuts, 1.0]))
            if not column.stepped:
                is_single = is_single_value(column, fine)
            else:
                is_single = size <= 1
            # Cells that are finer than usual, near zero, are resolved enough.
            is_resolved = is_single | (fine_widths[index] < 1)
            masses = np.where(is_resolved, 0.0, histogram.masses)
            largest = int(masses.argmax())
            share = float(masses.max() / max(histogram.masses.sum(), 1.0))
            if share > _MAX_SHARE_IN_CELL:
                positions = np.array([low[largest], high[largest]])
                low_value, high_value = numbers_at(column, positions).tolist()
                yield UnresolvedCell(
                    column=column, share=share, low=low_value, high=high_value
                )

    def variance_within_cells(self, column: int) -> float:
        """Computes the part of the variance of a number that lies within its cells.

        `value_scores` states the mean of each cell, for single values of variance 1. So
        the part is 1 less the variance of these means, over the cells that are ordered.

        Args:
            column: Number of a numeric column.

        Returns:
            The part, from 0 to 1.
        """
        shares = self.marginal((column,))[: self.n_ordered[column]]
        cell_scores = self.value_scores(column)[: len(shares), 0]
        return float(1 - shares @ cell_scores**2 / shares.sum())

    def value_scores(self, column: int) -> Float64[Floats, "cells 1"]:
        """Computes scores of the cells of a number by their mean values.

        Values are uniform within a fine cell from l to h: their mean is (l + h) / 2,
        and that of their squares (l² + l h + h²) / 3. Both are summed over the fine
        cells of a cell, then over cells by their shares in the model, which gives the
        mean and the variance of single values.

        Args:
            column: Number of a numeric column.

        Returns:
            Scores in which single values, not means of cells, have mean 0 and variance
            1 in the model; 0 for missing values.
        """
        bins = self._bins[column]
        within = within_cell(
            self.design.layout.numeric[column],
            self.design.fine[column],
            bins,
            self._histograms.get(column),
        )
        low = within.low
        high = within.high
        fine_means = (low + high) / 2
        fine_squares = (low**2 + low * high + high**2) / 3
        means = np.bincount(within.bin_of, within.shares * fine_means)
        squares = np.bincount(within.bin_of, within.shares * fine_squares)
        shares = self.marginal((column,))[: len(means)]
        shares /= shares.sum()
        variance = float(shares @ squares - (shares @ means) ** 2)
        scores = np.zeros((bins.size, 1))
        scores[: len(means), 0] = means - shares @ means
        return scores / math.sqrt(max(variance, _TINY))

    def _mixture(self, components: Components, tables: PackedTables) -> Mixture:
        """Makes the mixture of components that were fitted to tables."""
        design = self.design
        within = within_cells(design, self._bins, self._histograms)
        return mixture_of(components, tables, design.layout, within, design.label)


def _label_index(schema: Schema) -> int | None:
    """Returns the index of the label, with numeric columns first; None without one."""
    if schema.label is None:
        return None
    columns = (*schema.layout.numeric, *schema.layout.coded)
    return [column.name for column in columns].index(schema.label)
