"""A mixture of products on its way to released tables: its logits, moved by Adam, and a trial of how long to fit.

The trial is on noisier tables and judged by tables with independent noise. It goes on as long as its judge sees it come
nearer, returns to where it was nearest, and goes on from there in smaller steps. What it is for is its path: the number
of steps at each rate. It looks further while it is far from the tables, as a step that leads away is then no sign of
fitted noise; and where it ends far from them, a second one sets out from a wider spread start, as components that begin
alike may stay alike. The nearer of the two is kept.

The judge's noise is √5 times that of the release (`noisegate.tables.tables.split`), so a mixture whose own squared
error in a cell is e times the variance of the release's noise is at a mean squared distance of 1 + e/5 from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from noisegate.settings import LearningRate, Settings, Steps, Whole, settings
from noisegate.tables.tables import ClassTables, Components, Distance, Expected, likely_shares

if TYPE_CHECKING:
    from jaxtyping import Float32


Array = npt.NDArray[Any]

# The first steps bring the learning rate up.
_RISE = 10
_EPS = 1e-8  # of Adam
# Parts of the learning rate, one after the other.
_RATES = (1.0, 1 / 3, 1 / 9)
# A rate is given up after so many steps that brought the trial no nearer; and while it is far from the tables.
_PATIENCE, _FAR_PATIENCE = 25, 100
# Squared errors, in units of the release's noise: above the first there is a second trial; above the other it is far.
_POOR, _FAR = 0.5, 1.0
# Behind its path a fit may take so many smaller steps at each rate, until it is nearly as near as the trial was.
_SETTLING, _CLOSE = 60, 1.05
# Columns are taken as independent, as a trial sets out, unless the judge sees it come nearer by this much, in squared
# distance over all cells and in units of its noise. Where they are independent, a path of length s seems to gain
# 2sz − s², z standard normal, so at most z²: over the few directions that a path can turn to, rarely more than this.
_CLEAR = 10.0
# How much wider the second one's start is spread, and how much longer a trial may be while it is far.
_WIDER, _LONGER = 3.0, 3


class ArrayAdam:
    """Adam (Kingma and Ba, ICLR 2015, https://arxiv.org/abs/1412.6980, algorithm 1), in place; a `Resumable`."""

    def __init__(self, parameters: Mapping[str, Array], *, beta1: float = 0.9, beta2: float = 0.999) -> None:
        self._parameters, self._beta1, self._beta2 = dict(parameters), beta1, beta2
        self._mean = {name: np.zeros_like(value) for name, value in parameters.items()}
        self._square = {name: np.zeros_like(value) for name, value in parameters.items()}
        self._scratch = {name: np.empty_like(value) for name, value in parameters.items()}
        self.steps = 0

    def step(self, gradients: Mapping[str, Array], learning_rate: float) -> None:
        """Takes a step against gradients, one for each parameter."""
        self.steps += 1
        rate = learning_rate / (1 - self._beta1**self.steps)
        unbiased = math.sqrt(1 - self._beta2**self.steps)
        for name, value in self._parameters.items():
            gradient, mean, square = gradients[name], self._mean[name], self._square[name]
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
        moments |= {f"square/{name}": value.copy() for name, value in self._square.items()}
        return {**moments, "taken": np.array(self.steps)}

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Resumes where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of other parameters.
        """
        for kind, moments in (("mean", self._mean), ("square", self._square)):
            restore_arrays({f"{kind}/{name}": value for name, value in moments.items()}, arrays)
        self.steps = int(arrays["taken"])


def restore_arrays(values: Mapping[str, Array], stored: Mapping[str, Array]) -> None:
    """Copies stored arrays into those of the same names.

    Raises:
        KeyError, ValueError: if one is missing or of another shape.
    """
    for name, value in values.items():
        if stored[name].shape != value.shape:
            raise ValueError(f"{name} of another shape")
        value[...] = stored[name]


class Descent:
    """One mixture and the tables that it comes nearer to; a `noisegate.models.checkpoint.Resumable`.

    `init_std` is of the first logits about what single columns say, and `seed` draws them.
    """

    def __init__(self, tables: ClassTables, settings: MixtureSettings, init_std: float, seed: int) -> None:
        self._tables, self.distance = tables, Distance(tables)
        weights, cells = _start(tables, settings.components)
        random = np.random.default_rng(np.random.SeedSequence([seed, 1]))
        spread = random.standard_normal(cells.shape, dtype=np.float32)
        self.logits = {"weights": weights, "cells": cells + np.float32(init_std) * spread}
        self.restart()
        self._settle()

    def restart(self) -> None:
        """Lets Adam begin anew from where the mixture is."""
        self._adam = ArrayAdam(self.logits, beta2=0.99)

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
        self._adam.step({"weights": weights, "cells": cells}, rate * min((self._adam.steps + 1) / _RISE, 1))
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


@settings
class MixtureSettings(Settings):
    """How a mixture of products is fitted; see `noisegate.tables.mixture_fit`."""

    renamed = {"spread": "init_std"}  # noqa: RUF012

    components: Steps = 600
    "Of all classes together."
    steps: Whole = 1000
    "Most optimiser steps from one start; while that is far from the tables, three times as many."
    learning_rate: LearningRate = 0.3
    "Of Adam, at first; a third and a ninth of it follow."
    init_std: LearningRate = 0.3
    "Standard deviation of the components' first logits about the one-way estimate."


@dataclass(frozen=True, kw_only=True)
class Path:
    """How a mixture gets to its tables.

    Attributes:
        init_std: How its start is spread.
        steps: How many steps it takes at each rate.
        distance: How near it then is to the tables that it is fitted to.
    """

    init_std: float
    steps: tuple[int, ...]
    distance: float

    @property
    def length(self) -> int:
        """All these steps."""
        return sum(self.steps)

    def rate(self, step: int) -> float | None:
        """Returns the part of the learning rate at a step, counted from 0.

        Behind the last step there are some smaller ones, and None behind these, for a mixture that is not as near to
        its own tables: at a large rate it swings about them, and the trial's nearest step need not be its own.
        """
        legs = [*zip(_RATES, self.steps, strict=False), *((rate, _SETTLING) for rate in _RATES[1:])]
        ends = accumulate(count for _, count in legs)
        return next((rate for (rate, _), end in zip(legs, ends, strict=True) if step < end), None)

    def turns(self, step: int) -> bool:
        """Returns whether another rate begins with a step, so that Adam does too."""
        return step > 0 and (step in tuple(accumulate((*self.steps, _SETTLING))))

    def over(self, step: int, distance: float) -> bool:
        """Returns whether a mixture at a distance from its tables is there after so many steps."""
        # Where the trial took no step, there is none.
        near = not self.length or distance <= _CLOSE * self.distance or self.rate(step) is None
        return step >= self.length and near


@dataclass(kw_only=True)
class _Attempt:
    """The way from one start so far.

    Attributes:
        init_std: How the start is spread.
        taken: Steps in all, those too that were gone back on.
        steps: At each rate that was given up, until the trial was nearest.
        now: At the present rate.
        nearest: Of these, until it was nearest.
        error: The least so far.
        distance: From its own tables, there.
    """

    init_std: float
    taken: int = 0
    steps: tuple[int, ...] = ()
    now: int = 0
    nearest: int = 0
    error: float = math.inf
    distance: float = math.inf

    @property
    def path(self) -> Path:
        """The way to where the trial was nearest."""
        steps = (*self.steps, self.nearest)[: len(_RATES)]
        return Path(init_std=self.init_std, steps=steps, distance=self.distance)

    def numbers(self) -> list[float]:
        """Returns the attempt as a row of numbers."""
        steps = (*self.steps, *[-1] * len(_RATES))[: len(_RATES)]
        return [self.init_std, self.taken, self.now, self.nearest, self.error, self.distance, *steps]

    @classmethod
    def of_numbers(cls, row: Sequence[float]) -> Self:
        """Returns the attempt of such a row."""
        init_std, taken, now, nearest, error, distance, *steps = row
        given_up = tuple(int(count) for count in steps if count >= 0)
        counts = {"taken": int(taken), "now": int(now), "nearest": int(nearest)}
        return cls(init_std=init_std, error=error, distance=distance, steps=given_up, **counts)


class Trial:
    """A trial from one start, and where it ends far from the tables, from a second.

    Attributes:
        components: The mixture where it came nearest to the judge's tables.
    """

    def __init__(self, tables: ClassTables, judge: ClassTables, settings: MixtureSettings, *, seed: int) -> None:
        self._tables, self._judge, self._settings, self._seed = tables, Distance(judge), settings, seed
        self._attempts = [_Attempt(init_std=settings.init_std)]
        self._set_out()
        self.components = self._descent.components

    @property
    def step(self) -> int:
        """Steps done."""
        return sum(attempt.taken for attempt in self._attempts)

    @property
    def error(self) -> float:
        """Estimated squared error in a cell of the nearest mixture, in units of the variance of the release's noise."""
        return self._best.error

    @property
    def path(self) -> Path:
        """The way to the nearest mixture."""
        return self._best.path

    def more(self) -> bool:
        """Whether there is another step; sets out anew where the first start has led nowhere."""
        now = self._attempts[-1]
        most = self._settings.steps * (_LONGER if _FAR < now.error < math.inf else 1)
        if self._judge.cells and len(now.steps) < len(_RATES) and now.taken < most:
            return True
        if len(self._attempts) > 1 or not self._judge.cells or now.error <= _POOR:
            return False
        self._attempts.append(_Attempt(init_std=_WIDER * now.init_std))
        self._set_out()
        return True

    def advance(self) -> None:
        """Takes a step."""
        now, descent = self._attempts[-1], self._descent
        descent.step(self._settings.learning_rate * _RATES[len(now.steps)])
        now.taken, now.now = now.taken + 1, now.now + 1
        error = self._error(descent)
        if error < now.error:
            if error < self.error:
                self.components = descent.components
            now.error, now.nearest, now.distance = error, now.now, descent.mean_distance()
            self._kept = {name: value.copy() for name, value in descent.logits.items()}
        elif now.now - now.nearest >= (_FAR_PATIENCE if now.error > _FAR else _PATIENCE):
            now.steps, now.now, now.nearest = (*now.steps, now.nearest), 0, 0
            descent.go_back(self._kept)

    def state_dict(self) -> dict[str, Array]:
        """Returns everything that `load_state_dict` needs to go on with the same bits."""
        state = {"attempts": np.array([attempt.numbers() for attempt in self._attempts])}
        state |= {f"nearest/{name}": value for name, value in vars(self.components).items()}
        state |= {f"kept/{name}": value.copy() for name, value in self._kept.items()}
        return {**state, **self._descent.state_dict()}

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Takes up the trial where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of another trial.
        """
        self._attempts = [_Attempt.of_numbers(row) for row in arrays["attempts"].tolist()]
        self._set_out()
        self._descent.load_state_dict(arrays)
        restore_arrays({f"kept/{name}": value for name, value in self._kept.items()}, arrays)
        nearest = {name: np.empty_like(value) for name, value in vars(self._descent.components).items()}
        restore_arrays({f"nearest/{name}": value for name, value in nearest.items()}, arrays)
        self.components = Components(**nearest)

    @property
    def _best(self) -> _Attempt:
        return min(self._attempts, key=lambda attempt: attempt.error)

    def _set_out(self) -> None:
        self._descent = Descent(self._tables, self._settings, self._attempts[-1].init_std, self._seed)
        self._kept = {name: value.copy() for name, value in self._descent.logits.items()}
        now, descent = self._attempts[-1], self._descent
        if self._judge.cells and not now.taken:
            # No step is better than one whose gain may be chance.
            now.error = self._error(descent) - 5 * _CLEAR / self._judge.cells
            now.distance = descent.mean_distance()

    def _error(self, descent: Descent) -> float:
        return 5 * (descent.mean_distance(self._judge) - 1)
