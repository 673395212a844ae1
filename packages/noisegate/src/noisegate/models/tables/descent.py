"""A mixture of products on its way to tables: its logits, moved by Adam, and the search from one start or two.

Components begin as narrow kernels about points whose scores have the correlations that
pairs say (a Gaussian copula: Sklar 1959; Li, Xiong and Jiang, EDBT 2014, draw tables
from one alone). Kernels weaken correlations, so those of the points are raised for a
few rounds. Components that began alike, about independent columns, kept .90 of
correlations and half of a regression of a clear release within the same steps.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.models.checkpoint import restore
from noisegate.models.tables.distance import Components, Distance, Expected
from noisegate.models.tables.packed_tables import (
    Floats,
    PackedTables,
    likely_shares,
    scores_of,
)
from noisegate.settings import LearningRate, Settings, Steps, Whole, settings

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64


Array = npt.NDArray[Any]

# How wide the kernels are that components begin as, in standard deviations of the scores, and the part that is left to
# all cells; rounds that bring their correlations near, and the least variance of their points along any axis.
_KERNEL, _SHARED, _ROUNDS, _LEAST = 0.3, 0.02, 4, 1e-3
# The first steps bring the learning rate up.
_RISE = 10
_EPS = 1e-8  # of Adam
# Parts of the learning rate, and where among the steps the second and the third begin.
_RATES, _LEGS = (1.0, 1 / 3, 1 / 9), (0.6, 0.8)
# Above this squared distance to what was released, in units of its noise, the descent goes on for as many steps again,
# so many times at most.
_POOR, _AGAIN = 1.5, 1


class ArrayAdam:
    """Adam (Kingma and Ba, ICLR 2015, https://arxiv.org/abs/1412.6980, algorithm 1), in place; a `Resumable`."""

    def __init__(
        self,
        parameters: Mapping[str, Array],
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
    ) -> None:
        self._parameters, self._beta1, self._beta2 = dict(parameters), beta1, beta2
        self._mean = {name: np.zeros_like(value) for name, value in parameters.items()}
        self._square = {
            name: np.zeros_like(value) for name, value in parameters.items()
        }
        self._scratch = {
            name: np.empty_like(value) for name, value in parameters.items()
        }
        self.steps = 0

    def step(self, gradients: Mapping[str, Array], learning_rate: float) -> None:
        """Takes a step against gradients, one for each parameter."""
        self.steps += 1
        rate = learning_rate / (1 - self._beta1**self.steps)
        unbiased = math.sqrt(1 - self._beta2**self.steps)
        for name, value in self._parameters.items():
            gradient, mean, square = (
                gradients[name],
                self._mean[name],
                self._square[name],
            )
            part = self._scratch[name]
            mean *= self._beta1
            mean += np.multiply(gradient, 1 - self._beta1, out=part)
            square *= self._beta2
            np.multiply(gradient, gradient, out=part)
            part *= 1 - self._beta2
            square += part
            np.sqrt(square, out=part)
            part /= unbiased
            part += _EPS
            np.divide(mean, part, out=part)
            part *= rate
            value -= part

    def state_dict(self) -> dict[str, Array]:
        """Returns both moments of each parameter, and the number of steps."""
        moments = {f"mean/{name}": value.copy() for name, value in self._mean.items()}
        moments |= {
            f"square/{name}": value.copy() for name, value in self._square.items()
        }
        return {**moments, "taken": np.array(self.steps)}

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Resumes where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of other parameters.
        """
        for kind, moments in (("mean", self._mean), ("square", self._square)):
            restore(
                {f"{kind}/{name}": value for name, value in moments.items()}, arrays
            )
        self.steps = int(arrays["taken"])


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
        weights, cells = _start(tables, settings.components, seed)
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


def _start(
    tables: PackedTables, components: int, seed: int
) -> tuple[Float32[Array, "classes K"], Float32[Array, "classes D K"]]:
    """Returns the logits of the weights and of the cells that a mixture sets out from, before it is spread."""
    if tables.start is None:
        shares = likely_shares(tables)
        each = max(components // len(shares), 1)
        random = np.random.default_rng(np.random.SeedSequence([seed, 2]))
        drawn = random.standard_normal((tables.singles.shape[1], each))
        cells = np.stack(
            [_latent_cells(tables, row, own, drawn) for row, own in enumerate(shares)]
        )
        return np.zeros((len(shares), each), dtype=np.float32), np.log(cells).astype(
            np.float32
        )
    start = tables.start
    # A rare kind has some of the components too.
    each = np.maximum(
        np.rint(components * np.sqrt(start.weights) / np.sqrt(start.weights).sum()), 1
    ).astype(int)
    kinds = np.repeat(np.arange(len(each)), each)
    weights, cells = np.log(start.weights / each)[kinds], np.log(start.cells)[kinds].T
    return weights[None].astype(np.float32), cells[None].astype(np.float32)


def _latent_cells(
    tables: PackedTables, row: int, shares: Floats, drawn: Floats
) -> Float64[Array, "D K"]:
    """Returns cells of components that are spread as the pairs of one class say, like points of a Gaussian copula.

    Each column has scores, of mean 0 and variance 1 under its `shares`, (D,): normal ones of cells in an order, and
    one for each other cell. Points are given the correlations of all scores; a component is a narrow kernel about one.
    What kernels take off the correlations is made up for in a few rounds. With fewer components than cells, too
    few to be near all of them, each is as the shares say.
    """
    if drawn.shape[1] < len(shares):
        return np.repeat(shares[:, None], drawn.shape[1], axis=1)
    scores = [
        scores_of(shares[span], few)
        for span, few in zip(tables.spans, tables.ordered, strict=True)
    ]
    ends = np.cumsum([0, *(each.shape[1] for each in scores)])
    places = [slice(start, end) for start, end in pairwise(ends)]
    wanted = np.eye(ends[-1])
    for one, other in combinations(range(len(scores)), 2):
        cells = np.s_[tables.spans[one], tables.spans[other]]
        if tables.precision[cells].any():
            apart = tables.pairs[row][cells] / max(tables.counts[row], 1.0) - np.outer(
                shares[cells[0]], shares[cells[1]]
            )
            wanted[places[one], places[other]] = scores[one].T @ apart @ scores[other]
            wanted[places[other], places[one]] = wanted[places[one], places[other]].T
    wanted = np.clip(wanted, -1.0, 1.0)
    given, points = wanted, drawn[: ends[-1]]
    # Points of a variance of exactly 1 and no correlations of their own.
    left, _, right = np.linalg.svd(
        points - points.mean(axis=1, keepdims=True), full_matrices=False
    )
    points = left @ right * math.sqrt(points.shape[1])
    for _ in range(_ROUNDS):
        sizes, axes = np.linalg.eigh(given)
        root = axes * np.sqrt(np.maximum(sizes, _LEAST)) @ axes.T
        at = root @ points / np.sqrt(np.square(root).sum(axis=1))[:, None]
        parts = zip(tables.spans, scores, places, strict=True)
        found = [_kernels(shares[span], each, at[own]) for span, each, own in parts]
        means = np.concatenate(
            [each.T @ own for each, own in zip(scores, found, strict=True)]
        )
        given = np.where(
            wanted == 0, 0.0, np.clip(given + wanted - np.cov(means), -1.0, 1.0)
        )
        np.fill_diagonal(given, 1.0)
    return np.concatenate(found)


def _kernels(shares: Floats, scores: Floats, points: Floats) -> Floats:
    """Returns a column's cells in each component, (cells, K): kernels of its scores, and some of its shares."""
    apart = np.square(scores).sum(axis=1)[:, None] - 2 * scores @ points
    logits = np.log(shares)[:, None] - apart / (2 * _KERNEL**2)
    cells = np.exp(logits - logits.max(axis=0))
    return np.asarray(
        (1 - _SHARED) * cells / cells.sum(axis=0) + _SHARED * shares[:, None]
    )


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
