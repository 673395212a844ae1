"""The fit of a mixture to a release of the pairwise method."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from noisegate.answers.cells import ends_of
from noisegate.answers.design import Design
from noisegate.devices import one_thread
from noisegate.models.labelled import LabelledMixture
from noisegate.models.mixture import Mixture
from noisegate.models.tables.descent import MixtureSettings
from noisegate.models.tables.distance import Components
from noisegate.models.tables.label_fit import MOST_LABELS, LabelFit
from noisegate.models.tables.mixture_fit import MixtureFit
from noisegate.models.tables.packed_tables import Floats, PackedTables, pack_tables
from noisegate.models.tables.record_mixture import _within, mixture_of, within_cells
from noisegate.privacy.release import Release
from noisegate.queries.binning import NumericBins, single_cells
from noisegate.schema import Continuous, NumericColumn, Schema
from noisegate.schema.layout import numbers_at

# Nothing tells records apart where more than this part of a column lies in the same fine cell.
_BLIND = 0.5
_TINY = 1e-9


class PairwiseFit(MixtureFit):
    """The fit of a mixture to a release of a design: components of all classes side by side, values inside cells."""

    def __init__(
        self, design: Design, release: Release, settings: MixtureSettings, *, seed: int
    ) -> None:
        self.design, self._label = design, label_column(release.schema)
        self._bins, self.released = design.read(release)
        sizes = [
            *(bins.size for bins in self._bins),
            *(column.size for column in design.layout.coded),
        ]
        self._histograms = design.read_histograms(release)
        prior = design.prior(self._histograms, self._bins)
        self.ordered = [bins.size - bins.nullable for bins in self._bins] + [0] * len(
            design.layout.coded
        )
        super().__init__(
            self.released,
            sizes,
            design.label,
            settings,
            seed=seed,
            ordered=self.ordered,
            prior=prior,
        )

    def model(self) -> Mixture | LabelledMixture:
        """Returns the model that the fit has reached, with a model of the label where there is one."""
        mixture = self._mixture(self.reached, self.tables)
        column = self._label
        if (
            column is None
            or not 1 < mixture.sizes[column] <= MOST_LABELS
            or len(mixture.sizes) == 1
        ):
            return mixture
        ordered = [few for place, few in enumerate(self.ordered) if place != column]
        told_apart = self.design.label is not None
        tables = (
            self.tables
            if told_apart
            else pack_tables(self.released, mixture.sizes, column)
        )
        fit = LabelFit(column, tables, ordered, seed=self._seed)
        with one_thread():
            weight = 0.0
            if told_apart:
                tried = self._mixture(
                    self._searches["trial"].components, self.trial_tables
                )
                weight = fit.weight(self.trial_tables, self.judge_tables, tried)
            return LabelledMixture(mixture=mixture, label=fit.model(mixture, weight))

    @property
    def names(self) -> list[str]:
        """Names of the columns, by their numbers."""
        return [
            column.name
            for column in (*self.design.layout.numeric, *self.design.layout.coded)
        ]

    def expected(self, columns: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Returns the shares of the cells of one column, or of the pairs of cells of two, in what was fitted."""
        at, label, tables = self.reached, self.design.label, self.tables
        weights = tables.counts[:, None] * at.weights / tables.counts.sum()
        others = [column for column in range(len(self.names)) if column != label]
        spans = [
            tables.spans[others.index(column)] for column in columns if column != label
        ]
        found = np.asarray(
            weights, dtype=np.float64
        )  # (classes, K), and the cells of each column behind
        for axes, span in zip(("lk,lak->lka", "lka,lbk->lkab"), spans, strict=False):
            found = np.einsum(axes, found, at.cells[:, span], optimize=True)
        shares: npt.NDArray[np.float64] = found.sum(axis=1)
        if label not in columns:
            return np.asarray(shares.sum(axis=0))
        return shares if columns[0] == label else shares.T

    def blind(self) -> Iterator[tuple[NumericColumn, float, float, float]]:
        """Yields numeric columns of which a fine cell of several values holds most records: its share and its ends."""
        widths = self.design.fine_widths
        for place, histogram in self._histograms.items():
            column, fine = self.design.layout.numeric[place], self.design.fine[place]
            low, high, single = _cells(column, fine)
            masses = np.where(single | (widths[place] < 1), 0.0, histogram.masses)
            most, share = (
                int(masses.argmax()),
                float(masses.max() / max(histogram.masses.sum(), 1.0)),
            )
            if share > _BLIND:
                yield (
                    column,
                    share,
                    *numbers_at(column, np.array([low[most], high[most]])).tolist(),
                )

    def inside(self, column: int) -> float:
        """Returns the part of the variance of a number's values that lies inside its cells."""
        shares = self.expected((column,))[: self.ordered[column]]
        return float(
            1 - shares @ self.values(column)[: len(shares), 0] ** 2 / shares.sum()
        )

    def values(self, column: int) -> Floats:
        """Returns scores of a number's cells by their mean values, (cells, 1); values have variance 1 in the model."""
        parts = (
            self.design.layout.numeric[column],
            self.design.fine[column],
            self._bins[column],
        )
        fine = _within(*parts, self._histograms.get(column))
        low, high = fine.low, fine.high
        mean, square = (
            np.bincount(fine.bin_of, fine.shares * each)
            for each in ((low + high) / 2, (low**2 + low * high + high**2) / 3)
        )
        shares = self.expected((column,))[: len(mean)]
        shares /= shares.sum()
        found = np.zeros((parts[2].size, 1))
        found[: len(mean), 0] = mean - shares @ mean
        return found / math.sqrt(
            max(float(shares @ square - (shares @ mean) ** 2), _TINY)
        )

    def _mixture(self, components: Components, tables: PackedTables) -> Mixture:
        within = within_cells(self.design, self._bins, self._histograms)
        return mixture_of(
            components, tables, self.design.layout, within, self.design.label
        )


def label_column(schema: Schema) -> int | None:
    """Returns the number of the label's column, numeric ones first; None without a label."""
    names = [column.name for column in (*schema.layout.numeric, *schema.layout.coded)]
    return None if schema.label is None else names.index(schema.label)


def _cells(
    column: NumericColumn, bins: NumericBins
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Returns lowest and highest position of each cell, and which are a single value."""
    low, high, size = ends_of(column, np.asarray([0.0, *bins.cuts, 1.0]))
    return (
        low,
        high,
        single_cells(column, bins) if isinstance(column, Continuous) else size <= 1,
    )
