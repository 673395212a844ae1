"""Fits a mixture of product distributions to released contingency tables, and stops before it fits their noise.

Each class has components of its own, and the expected counts of its pairs are the second moment of its records; see
`noisegate.training.expected_counts`. It is fitted by gradient descent, on the CPU.

How long to fit is found by a trial on noisier tables, judged by tables with independent noise (`split`): the step at
which the trial came nearest to what it could not see is the number of steps of the fit itself.

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
from noisegate.models.mixture import Mixture, WithinCell
from noisegate.privacy.release import Release
from noisegate.schema import NumericColumn
from noisegate.training.array_adam import ArrayAdam, restore_arrays
from noisegate.training.checkpoint import FitState
from noisegate.training.expected_counts import Components, Distance, Expected
from noisegate.training.fit import MixtureSettings
from noisegate.training.pairwise import Design
from noisegate.training.released import Table
from noisegate.training.tables import ClassTables, class_tables, likely_shares, split

if TYPE_CHECKING:
    from jaxtyping import Float32

    Array = npt.NDArray[Any]

# The first steps bring the learning rate up.
_RISE = 10
# The trial ends when this many steps in a row have brought it no nearer.
_PATIENCE = 25


class _Descent:
    """A mixture on its way to tables: the logits of its weights and cells, moved by Adam."""

    def __init__(self, tables: ClassTables, settings: MixtureSettings, seed: int) -> None:
        self._tables, self._settings = tables, settings
        self.distance = Distance(tables)
        start = np.log(likely_shares(tables)).astype(np.float32)
        each = max(settings.components // len(start), 1)
        random = np.random.default_rng(np.random.SeedSequence([seed, 1]))
        spread = random.standard_normal((*start.shape, each), dtype=np.float32)
        self._logits = {
            "weights": np.zeros((len(start), each), dtype=np.float32),
            "cells": start[:, :, None] + np.float32(settings.init_std) * spread,
        }
        self._adam = ArrayAdam(self._logits, learning_rate=settings.learning_rate, beta2=0.99)
        self._settle()

    @property
    def steps(self) -> int:
        """Steps done."""
        return self._adam.steps

    def step(self) -> None:
        """Takes a step against the gradient of the distance in a cell."""
        progress = self.steps / self._settings.steps
        cosine = 0.5 * (1 + math.cos(math.pi * max(progress - 0.3, 0) / 0.7)) + 0.02
        at, distance = self.components, self.distance
        pulled = distance.gradient(self.expected, at)
        for each in (pulled.weights, pulled.cells):
            each /= np.float32(distance.cells)
        # Through the softmax: p_a (g_a − Σ_b p_b g_b), within each column.
        weights, cells = pulled.weights * at.weights, pulled.cells * at.cells
        weights -= at.weights * weights.sum(axis=1, keepdims=True)
        cells -= at.cells * self._column_sums(cells)
        self._adam.step({"weights": weights, "cells": cells}, scale=min((self.steps + 1) / _RISE, 1) * cosine)
        self._settle()

    def state_dict(self) -> dict[str, Array]:
        """Returns everything that `load_state_dict` needs to go on with the same bits."""
        logits = {f"logits/{name}": value.copy() for name, value in self._logits.items()}
        return {**logits, **self._adam.state_dict()}

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Takes up the descent where `state_dict` was called."""
        restore_arrays({f"logits/{name}": value for name, value in self._logits.items()}, arrays)
        self._adam.load_state_dict(arrays)
        self._settle()

    def _settle(self) -> None:
        """Computes probabilities and expected counts from the logits."""
        logits = self._logits["cells"]
        # Less the highest of each column, so that the exponential stays finite; the probabilities stay the same.
        for span in self._tables.spans:
            logits[:, span] -= logits[:, span].max(axis=1, keepdims=True)
        cells = np.exp(logits)
        cells /= self._column_sums(cells)
        weights = np.exp(self._logits["weights"] - self._logits["weights"].max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        self.components = Components(weights=weights, cells=cells)
        self.expected: Expected = self.distance.expected(self.components)

    def _column_sums(self, values: Float32[Array, "classes D K"]) -> Float32[Array, "classes D K"]:
        """Returns for each cell the sum over the cells of its column."""
        sizes = self._tables.sizes
        sums = np.empty((len(values), len(sizes), values.shape[2]), dtype=np.float32)
        for place, span in enumerate(self._tables.spans):
            np.add.reduce(values[:, span], axis=1, out=sums[:, place])
        return np.repeat(sums, sizes, axis=1)


class MixtureFit:
    """One fit; a `noisegate.training.checkpoint.Resumable`. For tables, sizes and label see `class_tables`.

    Attributes:
        tables: The released tables, which the fit itself is fitted to.
        trial_tables: The noisier ones of the trial.
        judge_tables: Those with independent noise, which the trial never sees.
        trial_components: The mixture of the trial where it came nearest to them.
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
        self.settings, self.step, self.discrepancy = settings, 0, math.inf
        trial, judge = split(tables, np.random.default_rng(seed))
        self.tables, self.trial_tables, self.judge_tables = (
            class_tables(one, sizes, label, prior) for one in (tables, trial, judge)
        )
        self._judge, self._seed = Distance(self.judge_tables), seed
        # Steps of the trial, the nearest that it came, and when; of the fit.
        self._tried, self._nearest, self._best, self._done = 0, math.inf, 0, 0
        self._begin(0)
        self.trial_components = self._descent.components

    @property
    def steps(self) -> int:
        """Most steps that there will be, as far as is known."""
        if not self._judge.cells:
            return 0
        return self._tried + self._best if self._phase else 2 * self.settings.steps

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """Estimated share of each class, (classes,)."""
        return np.asarray(self.tables.counts / self.tables.counts.sum())

    def run(self, report: Callable[[FitState], None] | None = None) -> None:
        """Runs the remaining steps of the trial, and then of the fit."""
        with one_thread():
            while self._more():
                self._descend()
                self.step += 1
                if report:
                    report(FitState(step=self.step, steps=self.steps, discrepancy=self.discrepancy))

    def components(self) -> tuple[npt.NDArray[np.float32], list[npt.NDArray[np.float32]]]:
        """Returns the components' shares of their class, (classes, K), and each column's cells, (classes, K, cells)."""
        reached = self._descent.components
        by_component = reached.cells.transpose(0, 2, 1)
        return reached.weights, [np.ascontiguousarray(by_component[:, :, span]) for span in self.tables.spans]

    def state_dict(self) -> dict[str, Array]:
        """Returns everything that `load_state_dict` needs to go on with the same bits, as named arrays."""
        progress = [self._phase, self._tried, self._nearest, self._best, self._done, self.discrepancy]
        trial = {"trial/weights": self.trial_components.weights, "trial/cells": self.trial_components.cells}
        return {"fit": np.array(progress), **trial, **self._descent.state_dict()}

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Takes up the fit where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of another fit.
        """
        if "fit" not in arrays:
            raise ValueError("it holds the fit of an earlier version")
        phase, tried, self._nearest, best, done, self.discrepancy = arrays["fit"].tolist()
        self._begin(int(phase))
        self._tried, self._best, self._done = int(tried), int(best), int(done)
        self.step = self._tried + self._done
        self._descent.load_state_dict(arrays)
        trial = {name: np.empty_like(value) for name, value in vars(self._descent.components).items()}
        restore_arrays({f"trial/{name}": value for name, value in trial.items()}, arrays)
        self.trial_components = Components(**trial)

    def _begin(self, phase: int) -> None:
        """Sets out anew: phase 0 is the trial, 1 the fit."""
        self._phase = phase
        with one_thread():
            self._descent = _Descent(self.tables if phase else self.trial_tables, self.settings, self._seed)

    def _more(self) -> bool:
        """Whether there is another step; goes over from the trial to the fit."""
        if not self._judge.cells:
            # Single columns are matched by the start, as well as they are known.
            return False
        if self._phase == 0 and self._tried < min(self.settings.steps, self._best + _PATIENCE):
            return True
        if self._phase == 0:
            self._begin(1)
        return self._done < self._best

    def _descend(self) -> None:
        descent = self._descent
        descent.step()
        if self._phase:
            self._done += 1
            self.discrepancy = descent.distance.of(descent.expected) / descent.distance.cells
            return
        self._tried += 1
        distance = self._judge.of(descent.expected)
        if distance < self._nearest:
            self._nearest, self._best, self.trial_components = distance, self._tried, descent.components


class PairwiseFit(MixtureFit):
    """The fit of a mixture to a release of a design: components of all classes side by side, values inside cells."""

    def __init__(self, design: Design, release: Release, settings: MixtureSettings, *, seed: int) -> None:
        self._design = design
        self._bins, tables = design.read(release)
        sizes = [*(bins.size for bins in self._bins), *(column.size for column in design.layout.coded)]
        self._histograms = design.read_histograms(release)
        prior = design.prior(self._histograms, self._bins)
        super().__init__(tables, sizes, design.label, settings, seed=seed, prior=prior)

    def mixture(self) -> Mixture:
        """Returns the model that the fit has reached."""
        design = self._design
        shares, parts = self.components()
        classes, each = shares.shape
        weights = (self.shares[:, None] * shares).ravel()
        probabilities = [part.reshape(classes * each, -1) for part in parts]
        if design.label is not None:
            probabilities.insert(design.label, np.repeat(np.eye(classes, dtype=np.float32), each, axis=0))
        return Mixture(
            layout=design.layout,
            within=within_cells(design, self._bins, self._histograms),
            weights=weights / weights.sum(),
            probabilities=tuple(probabilities),
        )


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
