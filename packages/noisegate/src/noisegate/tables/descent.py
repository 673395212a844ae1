"""A mixture of products on its way to released tables: the logits of its weights and cells, moved by Adam."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.tables.array_adam import ArrayAdam, restore_arrays
from noisegate.tables.expected_counts import Components, Distance, Expected
from noisegate.tables.tables import ClassTables, likely_shares

if TYPE_CHECKING:
    from jaxtyping import Float32

    Array = npt.NDArray[Any]

# The first steps bring the learning rate up.
_RISE = 10


class Descent:
    """One mixture and the tables that it comes nearer to; a `noisegate.models.checkpoint.Resumable`.

    Args:
        tables: The tables.
        components: Of all classes together; each class has one at least.
        init_std: Standard deviation of their first logits about what single columns say.
        seed: Of these.
    """

    def __init__(self, tables: ClassTables, *, components: int, init_std: float, seed: int) -> None:
        self._tables, self.distance = tables, Distance(tables)
        weights, cells = _start(tables, components)
        random = np.random.default_rng(np.random.SeedSequence([seed, 1]))
        spread = random.standard_normal(cells.shape, dtype=np.float32)
        self.logits = {"weights": weights, "cells": cells + np.float32(init_std) * spread}
        self.restart()
        self._settle()

    def restart(self) -> None:
        """Lets Adam begin anew from where the mixture is."""
        self._adam = ArrayAdam(self.logits, learning_rate=1.0, beta2=0.99)

    def go_back(self, logits: Mapping[str, Array]) -> None:
        """Returns to an earlier place, and lets Adam begin anew there."""
        restore_arrays(self.logits, logits)
        self.restart()
        self._settle()

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
        self._adam.step({"weights": weights, "cells": cells}, scale=rate * min((self._adam.steps + 1) / _RISE, 1))
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
        restore_arrays({f"logits/{name}": value for name, value in self.logits.items()}, arrays)
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
        weights = np.exp(self.logits["weights"] - self.logits["weights"].max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        self.components = Components(weights=weights, cells=cells)
        self._expected: Expected = self.distance.expected(self.components)

    def _column_sums(self, values: Float32[Array, "classes D K"]) -> Float32[Array, "classes D K"]:
        """Returns for each cell the sum over the cells of its column."""
        sizes = self._tables.sizes
        sums = np.empty((len(values), len(sizes), values.shape[2]), dtype=np.float32)
        for place, span in enumerate(self._tables.spans):
            np.add.reduce(values[:, span], axis=1, out=sums[:, place])
        return np.repeat(sums, sizes, axis=1)


def _start(tables: ClassTables, components: int) -> tuple[Float32[Array, "classes K"], Float32[Array, "classes D K"]]:
    """Returns the logits of the weights and of the cells that a mixture sets out from, before it is spread."""
    if tables.start is None:
        shares = np.log(likely_shares(tables)).astype(np.float32)
        each = max(components // len(shares), 1)
        return np.zeros((len(shares), each), dtype=np.float32), np.repeat(shares[:, :, None], each, axis=2)
    start = tables.start
    # A rare kind has some of the components too.
    each = np.maximum(np.rint(components * np.sqrt(start.weights) / np.sqrt(start.weights).sum()), 1).astype(int)
    kinds = np.repeat(np.arange(len(each)), each)
    weights, cells = np.log(start.weights / each)[kinds], np.log(start.cells)[kinds].T
    return weights[None].astype(np.float32), cells[None].astype(np.float32)
