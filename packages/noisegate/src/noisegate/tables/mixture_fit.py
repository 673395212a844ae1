"""Fits a mixture of product distributions to released contingency tables, whose noise is taken off before.

Each class has components of its own, and the expected counts of its pairs are the second moment of its records; see
`noisegate.tables.tables.Distance`. It is fitted by gradient descent, on the CPU, to what `noisegate.tables.denoise`
makes of them, and to its end: what could be overfitted is gone.

Related: RAP (Aydore et al. 2021), RAP++ (Vietri et al. 2022) and GEM (Liu, Vietri and Wu 2021) fit relaxed tables and
generators to noisy queries by gradient descent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.devices import one_thread
from noisegate.features.binning import Histogram, NumericBins, single_cells
from noisegate.models.checkpoint import FitState, under
from noisegate.models.labelled import LabelledMixture
from noisegate.models.mixture import Mixture
from noisegate.models.within_cell import WithinCell, ends_of
from noisegate.privacy.release import Release
from noisegate.schema import Continuous, Layout, NumericColumn, Schema
from noisegate.schema.layout import numbers_at
from noisegate.tables.denoise import denoised_pairs
from noisegate.tables.descent import MixtureSettings, Search
from noisegate.tables.design import Design
from noisegate.tables.label_fit import MOST_LABELS, LabelFit
from noisegate.tables.released import Table
from noisegate.tables.tables import ClassTables, Components, class_tables, split

FAR = 2.0
"""A fit that ends at a larger distance from its release, in units of its noise, says so."""
# Nothing tells records apart where more than this part of a column lies in the same fine cell.
_BLIND = 0.5

if TYPE_CHECKING:
    Array = npt.NDArray[Any]


class MixtureFit:
    """One fit; a `noisegate.models.checkpoint.Resumable`. For tables, sizes and label see `class_tables`.

    `ordered` says how many cells of each column, the first ones, stand in an order.

    Attributes:
        tables: The released tables without what was taken for noise, which the fit is fitted to.
        trial_tables: With a label, noisier ones, which a trial is fitted to.
        judge_tables: With a label, those with independent noise, by which the trial is judged.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        sizes: Sequence[int],
        label: int | None,
        settings: MixtureSettings,
        *,
        seed: int,
        ordered: Sequence[int],
        prior: Mapping[int, npt.NDArray[np.float64]] | None = None,
    ) -> None:
        self.settings, self._seed = settings, seed
        others = [few for column, few in enumerate(ordered) if column != label]
        trial, judge = split(tables, np.random.default_rng(seed))
        released, tried, self.judge_tables = (class_tables(one, sizes, label, prior) for one in (tables, trial, judge))
        self._searches: dict[str, Search] = {}
        with one_thread():
            self.trial_tables, self.tables = (self._known(denoised_pairs(one, others)) for one in (tried, released))
            if label is not None:
                self._searches["trial"] = Search(self.trial_tables, tried, settings, seed=seed)
            self._searches["fit"] = Search(self.tables, released, settings, seed=seed)

    def _known(self, tables: ClassTables) -> ClassTables:
        """Returns tables that are fitted to with what is known of them beforehand, if anything is."""
        return tables

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
        """Mean squared distance to the released pairs and triples, in units of their noise; infinite before the end."""
        return self._searches["fit"].discrepancy

    @property
    def warning(self) -> str | None:
        """What is wrong with the fit once it has run, in words; None where nothing is."""
        if not FAR < self.discrepancy < math.inf:
            return None
        settings = f'{{"components": {2 * self.settings.components}, "steps": {3 * self.settings.steps}}}'
        return (
            f"the fit has ended far from its release: the distance is {self.discrepancy:.2g} times what the noise "
            f"explains, where 1 is as near as can be and above {FAR:g} tables of the synthetic records are off by more "
            "than their noise. The release is whole, and may be fitted again at no cost: "
            f"noisegate.Pairwise(seed=1, fit_options={settings}).fit_release(model.release); columns that nearly say "
            "the same are best asked for as one."
        )

    @property
    def reached(self) -> Components:
        """The mixture that the fit has reached."""
        return self._searches["fit"].components

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps of the trial, and then of the fit."""
        with one_thread():
            for search in self._searches.values():
                while search.advance():
                    if report:
                        report(FitState(step=self.step, steps=self.steps, discrepancy=self.discrepancy))

    def state_dict(self) -> dict[str, Array]:
        """Returns everything that `load_state_dict` needs to go on with the same bits, as named arrays."""
        return {
            f"{kind}/{name}": value for kind, one in self._searches.items() for name, value in one.state_dict().items()
        }

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Takes up the fit where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of another fit.
        """
        if "fit/search" not in arrays:
            raise ValueError("it holds the fit of an earlier version")
        with one_thread():
            for kind, search in self._searches.items():
                search.load_state_dict(under(arrays, f"{kind}/"))


class PairwiseFit(MixtureFit):
    """The fit of a mixture to a release of a design: components of all classes side by side, values inside cells."""

    def __init__(self, design: Design, release: Release, settings: MixtureSettings, *, seed: int) -> None:
        self.design, self._label = design, label_column(release.schema)
        self._bins, self.released = design.read(release)
        sizes = [*(bins.size for bins in self._bins), *(column.size for column in design.layout.coded)]
        self._histograms = design.read_histograms(release)
        prior = design.prior(self._histograms, self._bins)
        self.ordered = [bins.size - bins.nullable for bins in self._bins] + [0] * len(design.layout.coded)
        super().__init__(self.released, sizes, design.label, settings, seed=seed, ordered=self.ordered, prior=prior)

    def model(self) -> Mixture | LabelledMixture:
        """Returns the model that the fit has reached, with a model of the label where there is one."""
        mixture = self._mixture(self.reached, self.tables)
        column = self._label
        if column is None or not 1 < mixture.sizes[column] <= MOST_LABELS or len(mixture.sizes) == 1:
            return mixture
        ordered = [few for place, few in enumerate(self.ordered) if place != column]
        told_apart = self.design.label is not None
        tables = self.tables if told_apart else class_tables(self.released, mixture.sizes, column)
        fit = LabelFit(column, tables, ordered, seed=self._seed)
        with one_thread():
            weight = 0.0
            if told_apart:
                tried = self._mixture(self._searches["trial"].components, self.trial_tables)
                weight = fit.weight(self.trial_tables, self.judge_tables, tried)
            return LabelledMixture(mixture=mixture, label=fit.model(mixture, weight))

    @property
    def names(self) -> list[str]:
        """Names of the columns, by their numbers."""
        return [column.name for column in (*self.design.layout.numeric, *self.design.layout.coded)]

    def expected(self, columns: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Returns the shares of the cells of one column, or of the pairs of cells of two, in what was fitted."""
        at, label, tables = self.reached, self.design.label, self.tables
        weights = tables.counts[:, None] * at.weights / tables.counts.sum()
        others = [column for column in range(len(self.names)) if column != label]
        spans = [tables.spans[others.index(column)] for column in columns if column != label]
        found = np.asarray(weights, dtype=np.float64)  # (classes, K), and the cells of each column behind
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
            low, high, size = ends_of(column, np.asarray([0.0, *fine.cuts, 1.0]))
            single = single_cells(column, fine) if isinstance(column, Continuous) else size <= 1
            masses = np.where(single | (widths[place] < 1), 0.0, histogram.masses)
            most, share = int(masses.argmax()), float(masses.max() / max(histogram.masses.sum(), 1.0))
            if share > _BLIND:
                yield column, share, *numbers_at(column, np.array([low[most], high[most]])).tolist()

    def _mixture(self, components: Components, tables: ClassTables) -> Mixture:
        within = within_cells(self.design, self._bins, self._histograms)
        return mixture_of(components, tables, self.design.layout, within, self.design.label)


def mixture_of(
    components: Components,
    tables: ClassTables,
    layout: Layout,
    within: tuple[WithinCell, ...],
    label: int | None = None,
) -> Mixture:
    """Returns the mixture of all classes of a label, which come as often as their tables say."""
    cells = components.cells.transpose(0, 2, 1)
    classes, each, _ = cells.shape
    weights = (tables.counts[:, None] * components.weights).ravel()
    probabilities = [np.ascontiguousarray(cells[:, :, span]).reshape(classes * each, -1) for span in tables.spans]
    if label is not None:
        probabilities.insert(label, np.repeat(np.eye(classes, dtype=np.float32), each, axis=0))
    return Mixture(
        layout=layout,
        within=within,
        weights=weights / weights.sum(),
        probabilities=tuple(probabilities),
        copula=True,
    )


def label_column(schema: Schema) -> int | None:
    """Returns the number of the label's column, numeric ones first; None without a label."""
    names = [column.name for column in (*schema.layout.numeric, *schema.layout.coded)]
    return None if schema.label is None else names.index(schema.label)


def _within(column: NumericColumn, fine: NumericBins, bins: NumericBins, histogram: Histogram | None) -> WithinCell:
    edges = np.asarray([0.0, *fine.cuts, 1.0])
    masses = np.ones(len(edges) - 1) if histogram is None else histogram.masses
    return WithinCell.from_edges(column, bins, edges=edges, masses=masses, spikes=single_cells(column, fine))


def within_cells(
    design: Design, bins: Sequence[NumericBins], histograms: Mapping[int, Histogram]
) -> tuple[WithinCell, ...]:
    """Returns where in its cells each numeric column lies, by the histograms of those that have one."""
    columns = enumerate(zip(design.layout.numeric, design.fine, bins, strict=True))
    return tuple(_within(*parts, histograms.get(place)) for place, parts in columns)
