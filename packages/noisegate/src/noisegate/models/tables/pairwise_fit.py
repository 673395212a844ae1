"""The fit of a mixture to a release of the pairwise method."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.answers.cells import ends_of
from noisegate.answers.design import Design
from noisegate.answers.rounds import Rounds
from noisegate.devices import one_thread
from noisegate.models.labelled import LabelledMixture
from noisegate.models.mixture import Mixture
from noisegate.models.tables.descent import MixtureSettings
from noisegate.models.tables.distance import Components
from noisegate.models.tables.label_fit import MAX_CLASSES, LabelFit
from noisegate.models.tables.mixture_fit import MixtureFit
from noisegate.models.tables.packed_tables import PackedTables, pack_tables
from noisegate.models.tables.record_mixture import (
    mixture_of,
    within_cell,
    within_cells,
)
from noisegate.privacy.release import Release
from noisegate.queries.binning import is_single_value
from noisegate.schema import Continuous, NumericColumn, Schema
from noisegate.schema.layout import numbers_at

if TYPE_CHECKING:
    from jaxtyping import Float64

Floats = npt.NDArray[np.float64]

# Records are told apart by a column unless more than this share of them lies in the
# same fine cell.
_MAX_SHARE_IN_CELL = 0.5
# Keeps a quotient finite.
_TINY = 1e-9


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
            columns: One or two columns, ascending.

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
        """Yields the fine cells of several values that hold most records."""
        fine_widths = self.design.histogram_cells.widths
        for index, histogram in self._histograms.items():
            column = self.design.layout.numeric[index]
            fine = self.design.fine[index]
            low, high, size = ends_of(column, np.asarray([0.0, *fine.cuts, 1.0]))
            if isinstance(column, Continuous):
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
        """Returns the part of the variance of a number that lies within its cells."""
        shares = self.marginal((column,))[: self.n_ordered[column]]
        cell_scores = self.value_scores(column)[: len(shares), 0]
        return float(1 - shares @ cell_scores**2 / shares.sum())

    def value_scores(self, column: int) -> Float64[Floats, "cells 1"]:
        """Computes scores of the cells of a number by their mean values.

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
        # Of the uniform distribution from low to high.
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
