"""Fits a mixture of product distributions to released contingency tables, and stops before it fits their noise.

Each class has components of its own, and the expected counts of its pairs are the second moment of its records; see
`noisegate.tables.tables.Distance`. It is fitted by gradient descent, on the CPU.

How long to fit is found by a trial on noisier tables, judged by tables with independent noise
(`noisegate.tables.descent.Trial`): where the trial came nearest to what it could not see, there the fit itself ends.

Related: RAP (Aydore et al. 2021), RAP++ (Vietri et al. 2022) and GEM (Liu, Vietri and Wu 2021) fit relaxed tables and
generators to noisy queries by gradient descent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.devices import one_thread
from noisegate.features.binning import Histogram, NumericBins, single_cells
from noisegate.models.checkpoint import FitState, under
from noisegate.models.labelled import LabelledMixture
from noisegate.models.mixture import Mixture
from noisegate.models.within_cell import WithinCell
from noisegate.privacy.release import Release
from noisegate.schema import Layout, NumericColumn, Schema
from noisegate.tables.descent import Descent, MixtureSettings, Trial
from noisegate.tables.design import Design
from noisegate.tables.label_fit import MOST_LABELS, LabelFit
from noisegate.tables.released import Table
from noisegate.tables.tables import ClassTables, Components, class_tables, split

FAR = 2.0
"""A fit that ends at a larger distance from its release, in units of its noise, says so."""

if TYPE_CHECKING:
    Array = npt.NDArray[Any]


class MixtureFit:
    """One fit; a `noisegate.models.checkpoint.Resumable`. For tables, sizes and label see `class_tables`.

    Attributes:
        tables: The released tables, which the fit itself is fitted to.
        trial_tables: The noisier ones of the trial.
        judge_tables: Those with independent noise, which the trial never sees.
        trial: Which says how long to fit, and keeps the mixture where it came nearest to the judge's tables.
        discrepancy: Mean squared distance to the released pairs and triples, in units of their noise.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        sizes: Sequence[int],
        label: int | None,
        settings: MixtureSettings,
        *,
        seed: int,
        prior: Mapping[int, npt.NDArray[np.float64]] | None = None,
    ) -> None:
        self.settings, self._seed, self.discrepancy = settings, seed, math.inf
        trial, judge = split(tables, np.random.default_rng(seed))
        self.tables, self.trial_tables, self.judge_tables = (
            class_tables(one, sizes, label, prior) for one in (tables, trial, judge)
        )
        self.tables, self.trial_tables = self._known(self.tables), self._known(self.trial_tables)
        with one_thread():
            self.trial = Trial(self.trial_tables, self.judge_tables, settings, seed=seed)
        # The fit itself and its steps, once the trial is over.
        self._descent: Descent | None = None
        self._done = 0

    def _known(self, tables: ClassTables) -> ClassTables:
        """Returns tables that are fitted to with what is known of them beforehand, if anything is."""
        return tables

    @property
    def step(self) -> int:
        """Steps done, of the trial and of the fit."""
        return self.trial.step + self._done

    @property
    def steps(self) -> int:
        """Most steps that there will be, as far as is known; 0 without pairs, as the start matches single columns."""
        if not self.tables.larger:
            return 0
        if self._descent is None:
            return max(2 * self.settings.steps, self.step + 1)
        return self.trial.step + max(self.trial.path.length, self._done)

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
    def trial_components(self) -> Components:
        """The mixture of the trial where it came nearest to the judge's tables."""
        return self.trial.components

    @property
    def reached(self) -> Components:
        """The mixture that the fit has reached."""
        return self._fit().components

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps of the trial, and then of the fit."""
        with one_thread():
            while self._step():
                if report:
                    report(FitState(step=self.step, steps=self.steps, discrepancy=self.discrepancy))

    def state_dict(self) -> dict[str, Array]:
        """Returns everything that `load_state_dict` needs to go on with the same bits, as named arrays."""
        state = {f"trial/{name}": value for name, value in self.trial.state_dict().items()}
        if self._descent is not None:
            state |= {f"fit/{name}": value for name, value in self._descent.state_dict().items()}
        return {**state, "done": np.array([self._done, self.discrepancy])}

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Takes up the fit where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of another fit.
        """
        if "trial/attempts" not in arrays:
            raise ValueError("it holds the fit of an earlier version")
        with one_thread():
            self.trial.load_state_dict(under(arrays, "trial/"))
            if fit := under(arrays, "fit/"):
                self._fit().load_state_dict(fit)
        done, self.discrepancy = arrays["done"].tolist()
        self._done = int(done)

    def _step(self) -> bool:
        """Takes a step of the trial, or once that is over of the fit; False where there is none left."""
        if self._descent is None and self.trial.more():
            self.trial.advance()
            return True
        fit, path = self._fit(), self.trial.path
        if not self._done and self.tables.larger:
            self.discrepancy = fit.mean_distance()
        rate = path.rate(self._done)
        if rate is None or path.over(self._done, self.discrepancy):
            return False
        if path.turns(self._done):
            fit.restart()
        fit.step(self.settings.learning_rate * rate)
        self._done += 1
        self.discrepancy = fit.mean_distance()
        return True

    def _fit(self) -> Descent:
        """Returns the fit itself, at its start at first."""
        if self._descent is None:
            self._descent = Descent(self.tables, self.settings, self.trial.path.init_std, self._seed)
        return self._descent


class PairwiseFit(MixtureFit):
    """The fit of a mixture to a release of a design: components of all classes side by side, values inside cells."""

    def __init__(self, design: Design, release: Release, settings: MixtureSettings, *, seed: int) -> None:
        self.design, self._label = design, label_column(release.schema)
        self._bins, self._released = design.read(release)
        sizes = [*(bins.size for bins in self._bins), *(column.size for column in design.layout.coded)]
        self._histograms = design.read_histograms(release)
        prior = design.prior(self._histograms, self._bins)
        super().__init__(self._released, sizes, design.label, settings, seed=seed, prior=prior)

    def model(self) -> Mixture | LabelledMixture:
        """Returns the model that the fit has reached, with a model of the label where there is one."""
        mixture = self._mixture(self.reached, self.tables)
        column = self._label
        if column is None or not 1 < mixture.sizes[column] <= MOST_LABELS or len(mixture.sizes) == 1:
            return mixture
        ordered = [bins.size - bins.nullable for bins in self._bins] + [0] * len(self.design.layout.coded)
        del ordered[column]
        told_apart = self.design.label is not None
        tables = self.tables if told_apart else class_tables(self._released, mixture.sizes, column)
        fit = LabelFit(column, tables, ordered, seed=self._seed)
        with one_thread():
            trial = self.trial_tables, self.judge_tables, self._mixture(self.trial.components, self.trial_tables)
            weight = fit.weight(*trial) if told_apart else 0.0
            return LabelledMixture(mixture=mixture, label=fit.model(mixture, weight))

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
    return Mixture(layout=layout, within=within, weights=weights / weights.sum(), probabilities=tuple(probabilities))


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
