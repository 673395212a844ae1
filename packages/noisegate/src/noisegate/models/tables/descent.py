"""Gradient descent of a mixture of products to packed tables.

The weights of components and the probabilities of cells are softmaxes of logits, which
Adam moves against the gradient of the squared distance (`distance`). `Descent` is one
mixture on its way, `Search` the schedule of its steps.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.models.checkpoint import restore
from noisegate.models.tables.array_adam import ArrayAdam
from noisegate.models.tables.distance import Components, Distance
from noisegate.models.tables.initial_components import initial_logits
from noisegate.models.tables.packed_tables import PackedTables
from noisegate.settings import LearningRate, Settings, Steps, Whole, settings

if TYPE_CHECKING:
    from jaxtyping import Float32

Array = npt.NDArray[Any]

# The learning rate is raised over so many first steps, in which the means of Adam rest
# on few gradients.
_WARMUP_STEPS = 10
# Decay of Adam's mean of squared gradients.
_BETA2 = 0.99
# The learning rate falls in three legs. The second and the third begin at these parts
# of the steps.
_LEG_STARTS = (0.6, 0.8)
_LEG_FACTORS = (1.0, 1 / 3, 1 / 9)
# Above this discrepancy from the release, where 1 is what noise explains, a search adds
# rounds, of as many steps again.
_MAX_DISCREPANCY = 1.5
_MAX_ADDED_ROUNDS = 1


@settings
class MixtureSettings(Settings):
    """How a mixture is fitted; see `noisegate.models.tables.mixture_fit`."""

    renamed = {"spread": "init_std"}  # noqa: RUF012

    components: Steps = 600
    "Of all classes together."
    steps: Whole = 250
    "Optimiser steps; where these end far from the tables, there are as many again."
    learning_rate: LearningRate = 0.3
    "Of Adam, at first; a third and a ninth of it follow."
    init_std: LearningRate = 0.3
    "Standard deviation of the components' first logits about the one-way estimate."


class Descent:
    """A mixture and its steps towards tables; a `Resumable` (`models.checkpoint`).

    Args:
        tables: The tables.
        settings: Of these, how many components there are, and how far the first logits
            are spread about the start.
        seed: Seed for the first logits.

    Attributes:
        components: The mixture as it is.
    """

    def __init__(
        self, tables: PackedTables, settings: MixtureSettings, *, seed: int
    ) -> None:
        self._column_sizes = tables.sizes
        self._column_slices = tables.column_slices
        self._distance = Distance(tables)
        start = initial_logits(tables, settings.components, seed)
        # `initial_logits` draws from stream 2 of the same seed.
        random = np.random.default_rng(np.random.SeedSequence([seed, 1]))
        noise = random.standard_normal(start.cells.shape, dtype=np.float32)
        self._logits = {
            "weights": start.weights,
            "cells": start.cells + np.float32(settings.init_std) * noise,
        }
        self.restart_optimizer()
        self._update_components()

    def restart_optimizer(self) -> None:
        """Lets Adam forget earlier gradients; the mixture stays where it is."""
        self._adam = ArrayAdam(self._logits, beta2=_BETA2)

    def step(self, learning_rate: float) -> None:
        """Takes a step against the gradient of the squared distance of a cell."""
        gradient = self._distance.gradient(self._expected, self.components)
        n_cells = np.float32(self._distance.n_cells)
        weight_gradient = gradient.weights
        weight_gradient /= n_cells
        cell_gradient = gradient.cells
        cell_gradient /= n_cells
        warmup_factor = min((self._adam.steps + 1) / _WARMUP_STEPS, 1)
        self._adam.step(
            self._logit_gradients(weight_gradient, cell_gradient),
            learning_rate * warmup_factor,
        )
        self._update_components()

    def mean_squared_distance(self, distance: Distance) -> float:
        """Returns the mean squared distance of a cell of pairs and triples.

        Args:
            distance: The distance to tables with the columns, numbers of records and
                released pairs of those that the descent goes to.

        Returns:
            It in units of the noise: 1 if only noise is left.
        """
        return distance.squared_distance(self._expected) / distance.n_cells

    def state_dict(self) -> dict[str, Array]:
        """Returns all that `load_state_dict` needs to go on with the same bits."""
        logits = {
            f"logits/{name}": value.copy() for name, value in self._logits.items()
        }
        return {**logits, **self._adam.state_dict()}

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Resumes where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of another descent.
        """
        restore(
            {f"logits/{name}": value for name, value in self._logits.items()}, arrays
        )
        self._adam.load_state_dict(arrays)
        self._update_components()

    def _logit_gradients(
        self,
        weight_gradient: Float32[Array, "classes K"],
        cell_gradient: Float32[Array, "classes D K"],
    ) -> dict[str, Array]:
        """Computes gradients at the logits from those at the components.

        Through a softmax p, a gradient g becomes p_a (g_a - Σ_b p_b g_b).
        """
        weights = self.components.weights
        weight_logits = weight_gradient * weights
        weight_logits -= weights * weight_logits.sum(axis=1, keepdims=True)
        cells = self.components.cells
        cell_logits = cell_gradient * cells
        cell_logits -= cells * self._column_sums(cell_logits)
        return {"weights": weight_logits, "cells": cell_logits}

    def _update_components(self) -> None:
        """Computes the components and expected counts from the logits."""
        weight_logits = self._logits["weights"]
        cell_logits = self._logits["cells"]
        # Less the highest one, logits have the same softmax and finite exponentials.
        for column_slice in self._column_slices:
            column_logits = cell_logits[:, column_slice]
            column_logits -= column_logits.max(axis=1, keepdims=True)
        cells = np.exp(cell_logits)
        cells /= self._column_sums(cells)
        weights = np.exp(weight_logits - weight_logits.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        self.components = Components(weights=weights, cells=cells)
        self._expected = self._distance.expected(self.components)

    def _column_sums(
        self, values: Float32[Array, "classes D K"]
    ) -> Float32[Array, "classes D K"]:
        """Returns for each cell the sum over the cells of its column."""
        n_classes, _, n_components = values.shape
        shape = (n_classes, len(self._column_sizes), n_components)
        sums = np.empty(shape, dtype=np.float32)
        for column, column_slice in enumerate(self._column_slices):
            np.add.reduce(values[:, column_slice], axis=1, out=sums[:, column])
        return np.repeat(sums, self._column_sizes, axis=1)


class Search:
    """The steps of a descent to tables, and the best mixture that it has ended at.

    A round of steps ends with a small learning rate. If the best end of a round is far
    from the release, another round follows. A `Resumable` (`models.checkpoint`).

    Args:
        tables: Tables to which the descent goes.
        released: The same tables with all of their noise, by which ends are judged.
        settings: How a mixture is fitted.
        seed: Seed for the first logits.

    Attributes:
        components: The best mixture at the end of a round; the start before.
        discrepancy: Its mean squared distance to what was released, in units of the
            noise; infinite before.
    """

    def __init__(
        self,
        tables: PackedTables,
        released: PackedTables,
        settings: MixtureSettings,
        *,
        seed: int,
    ) -> None:
        self._released_distance = Distance(released)
        self._settings = settings
        self._descent = Descent(tables, settings, seed=seed)
        # Rounds that have ended and been followed by another one.
        self._n_finished_rounds = 0
        self._step_in_round = 0
        self.components = self._descent.components
        self.discrepancy = math.inf
        self._update_best()

    @property
    def step(self) -> int:
        """Number of steps taken."""
        return self._n_finished_rounds * self._steps_per_round + self._step_in_round

    @property
    def steps(self) -> int:
        """Number of steps that there will be, as far as is known."""
        n_rounds = self._n_finished_rounds + 1
        if self._needs_another_round:
            n_rounds += 1
        return self._steps_per_round * n_rounds

    def advance(self) -> bool:
        """Takes a step.

        Returns:
            Whether there was a step to take.
        """
        if self._needs_another_round:
            self._n_finished_rounds += 1
            self._step_in_round = 0
            self._descent.restart_optimizer()
        if self._step_in_round == self._steps_per_round:
            return False
        leg_starts = [round(part * self._steps_per_round) for part in _LEG_STARTS]
        if self._step_in_round in leg_starts:
            self._descent.restart_optimizer()
        leg = bisect_right(leg_starts, self._step_in_round)
        self._descent.step(self._settings.learning_rate * _LEG_FACTORS[leg])
        self._step_in_round += 1
        self._update_best()
        return True

    def state_dict(self) -> dict[str, Array]:
        """Returns all that `load_state_dict` needs to go on with the same bits."""
        progress = [self._n_finished_rounds, self._step_in_round, self.discrepancy]
        return {
            "search": np.array(progress),
            "nearest/weights": self.components.weights,
            "nearest/cells": self.components.cells,
            **self._descent.state_dict(),
        }

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Resumes where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of another search.
        """
        n_finished_rounds, step_in_round, discrepancy = arrays["search"].tolist()
        self._n_finished_rounds = int(n_finished_rounds)
        self._step_in_round = int(step_in_round)
        self.discrepancy = discrepancy
        self._descent.load_state_dict(arrays)
        weights = np.empty_like(self._descent.components.weights)
        cells = np.empty_like(self._descent.components.cells)
        restore({"nearest/weights": weights, "nearest/cells": cells}, arrays)
        self.components = Components(weights=weights, cells=cells)

    @property
    def _steps_per_round(self) -> int:
        """Steps of a round; 0 without pairs, since the start matches single columns."""
        return self._settings.steps if self._released_distance.n_cells else 0

    @property
    def _needs_another_round(self) -> bool:
        """Whether the last allowed round has not begun and this one has ended far."""
        has_ended = 0 < self._steps_per_round == self._step_in_round
        may_follow = self._n_finished_rounds < _MAX_ADDED_ROUNDS
        return may_follow and has_ended and self.discrepancy > _MAX_DISCREPANCY

    def _update_best(self) -> None:
        """Takes the mixture at the end of a round, if it is the best so far."""
        has_ended = self._step_in_round == self._steps_per_round
        if not has_ended or not self._released_distance.n_cells:
            return
        discrepancy = self._descent.mean_squared_distance(self._released_distance)
        if discrepancy < self.discrepancy:
            self.components = self._descent.components
            self.discrepancy = discrepancy
