"""A mixture of products on its way to tables: its logits, moved by Adam, and the search from one start or two."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.models.checkpoint import restore
from noisegate.models.tables.adam import ArrayAdam
from noisegate.models.tables.distance import Components, Distance, Expected
from noisegate.models.tables.initial_components import initial_logits
from noisegate.models.tables.packed_tables import (
    PackedTables,
)
from noisegate.settings import LearningRate, Settings, Steps, Whole, settings

if TYPE_CHECKING:
    from jaxtyping import Float32


Array = npt.NDArray[Any]

# The first steps bring the learning rate up.
_RISE = 10
# Parts of the learning rate, and where among the steps the second and the third begin.
_RATES, _LEGS = (1.0, 1 / 3, 1 / 9), (0.6, 0.8)
# Above this squared distance to what was released, in units of its noise, the descent goes on for as many steps again,
# so many times at most.
_POOR, _AGAIN = 1.5, 1


class Descent:
    """One mixture and the tables that it comes nearer to; a `noisegate.models.checkpoint.Resumable`.

    `init_std` is of the first logits about what single columns say, and `seed` draws them.
    """

    def __init__(
        self,
        tables: PackedTables,
        settings: MixtureSettings,
        init_std: float,
        seed: int,
    ) -> None:
        self._tables, self.distance = tables, Distance(tables)
        weights, cells = initial_logits(tables, settings.components, seed)
        random = np.random.default_rng(np.random.SeedSequence([seed, 1]))
        spread = random.standard_normal(cells.shape, dtype=np.float32)
        self.logits = {
            "weights": weights,
            "cells": cells + np.float32(init_std) * spread,
        }
        self.restart()
        self._settle()

    def restart(self) -> None:
        """Lets Adam begin anew from where the mixture is."""
        self._adam = ArrayAdam(self.logits, beta2=0.99)

    def step(self, rate: float) -> None:
        """Takes a step against the gradient of the distance in a cell, at a learning rate."""
        at, distance = self.components, self.distance
        pulled = distance.gradient(self._expected, at)
        for each in (pulled.weights, pulled.cells):
            each /= np.float32(distance.cells)
        # Through the softmax: p_a (g_a − Σ_b p_b g_b), within each column.
        weights, cells = pulled.weights * at.weights, pulled.cells * at.cells
        weights -= at.weights * weights.sum(axis=1, keepdims=True)
        cells -= at.cells * self._column_sums(cells)
        self._adam.step(
            {"weights": weights, "cells": cells},
            rate * min((self._adam.steps + 1) / _RISE, 1),
        )
        self._settle()

    def mean_distance(self, judge: Distance | None = None) -> float:
        """Returns the mean squared distance in a cell, in units of its noise, to the tables or to a judge's."""
        judge = judge or self.distance
        return judge.of(self._expected) / judge.cells

    def state_dict(self) -> dict[str, Array]:
        """Returns everything that `load_state_dict` needs to go on with the same bits."""
        logits = {f"logits/{name}": value.copy() for name, value in self.logits.items()}
        return {**logits, **self._adam.state_dict()}

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Takes up the descent where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of another descent.
        """
        restore(
            {f"logits/{name}": value for name, value in self.logits.items()}, arrays
        )
        self._adam.load_state_dict(arrays)
        self._settle()

    def _settle(self) -> None:
        """Computes probabilities and expected counts from the logits."""
        logits = self.logits["cells"]
        # Less the highest of each column, so that the exponential stays finite; the probabilities stay the same.
        for span in self._tables.spans:
            logits[:, span] -= logits[:, span].max(axis=1, keepdims=True)
        cells = np.exp(logits)
        cells /= self._column_sums(cells)
        weights = np.exp(
            self.logits["weights"] - self.logits["weights"].max(axis=1, keepdims=True)
        )
        weights /= weights.sum(axis=1, keepdims=True)
        self.components = Components(weights=weights, cells=cells)
        self._expected: Expected = self.distance.expected(self.components)

    def _column_sums(
        self, values: Float32[Array, "classes D K"]
    ) -> Float32[Array, "classes D K"]:
        """Returns for each cell the sum over the cells of its column."""
        sizes = self._tables.sizes
        sums = np.empty((len(values), len(sizes), values.shape[2]), dtype=np.float32)
        for place, span in enumerate(self._tables.spans):
            np.add.reduce(values[:, span], axis=1, out=sums[:, place])
        return np.repeat(sums, sizes, axis=1)


@settings
class MixtureSettings(Settings):
    """How a mixture of products is fitted; see `noisegate.models.tables.mixture_fit`."""

    renamed = {"spread": "init_std"}  # noqa: RUF012

    components: Steps = 600
    "Of all classes together."
    steps: Whole = 250
    "Optimiser steps; where these end far from the tables, there are as many again."
    learning_rate: LearningRate = 0.3
    "Of Adam, at first; a third and a ninth of it follow."
    init_std: LearningRate = 0.3
    "Standard deviation of the components' first logits about the one-way estimate."


class Search:
    """Descends to tables, and where it ends far from what was released goes on for as many steps again.

    The nearest of the ends is kept. A `Resumable`.

    Args:
        tables: What is descended to.
        released: The same with all of their noise: how far the end is from these is what counts.
        settings: Of the fit.
        seed: Of the starts.

    Attributes:
        components: The start, and from the first end on the nearest end.
        discrepancy: Its mean squared distance to what was released, in units of the noise; infinite before.
    """

    def __init__(
        self,
        tables: PackedTables,
        released: PackedTables,
        settings: MixtureSettings,
        *,
        seed: int,
    ) -> None:
        self._released, self._settings = Distance(released), settings
        self.discrepancy, self._number, self._taken = math.inf, 0, 0
        self._descent = Descent(tables, settings, settings.init_std, seed)
        self.components = self._descent.components
        self._keep_the_end()

    @property
    def step(self) -> int:
        """Steps done."""
        return self._number * self._most + self._taken

    @property
    def steps(self) -> int:
        """Steps that there will be, as far as is known; 0 without pairs, as the start matches single columns."""
        return self._most * (self._number + 1 + self._again)

    def advance(self) -> bool:
        """Takes a step; False where there is none left."""
        if self._again:
            self._number, self._taken = self._number + 1, 0
            self._descent.restart()
        if self._taken == self._most:
            return False
        ends = [round(part * self._most) for part in _LEGS]
        if self._taken in ends:
            self._descent.restart()
        self._descent.step(
            self._settings.learning_rate * _RATES[bisect_right(ends, self._taken)]
        )
        self._taken += 1
        self._keep_the_end()
        return True

    def state_dict(self) -> dict[str, Array]:
        """Returns everything that `load_state_dict` needs to go on with the same bits."""
        nearest = {
            f"nearest/{name}": value for name, value in vars(self.components).items()
        }
        return {
            "search": np.array([self._number, self._taken, self.discrepancy]),
            **nearest,
            **self._descent.state_dict(),
        }

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Takes up the search where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of another search.
        """
        number, taken, self.discrepancy = arrays["search"].tolist()
        self._number, self._taken = int(number), int(taken)
        self._descent.load_state_dict(arrays)
        nearest = {
            name: np.empty_like(value)
            for name, value in vars(self._descent.components).items()
        }
        restore({f"nearest/{name}": value for name, value in nearest.items()}, arrays)
        self.components = Components(**nearest)

    @property
    def _most(self) -> int:
        """Steps to an end."""
        return self._settings.steps if self._released.cells else 0

    @property
    def _again(self) -> bool:
        """Whether there is more to come nearer to."""
        return (
            self._number < _AGAIN
            and 0 < self._most == self._taken
            and self.discrepancy > _POOR
        )

    def _keep_the_end(self) -> None:
        """Keeps where a descent has ended, if it is the nearest."""
        if self._taken == self._most and self._released.cells:
            found = self._descent.mean_distance(self._released)
            if found < self.discrepancy:
                self.components, self.discrepancy = self._descent.components, found
