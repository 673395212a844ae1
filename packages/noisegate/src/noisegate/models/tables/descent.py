"""Gradient descent of a mixture of products to packed tables.

The weights of components and the probabilities of cells are softmaxes of logits, which
Adam moves against the gradient of the squared distance (`distance`). `Descent` is one
mixture on its way, `Search` the schedule of its steps.

Half of each component starts as a narrow kernel about a point, and half as independent
columns. Columns have scores, and the scores of the points have the correlations that
the pairs of a release state, as in a Gaussian copula (Sklar 1959; Li, Xiong and Jiang,
EDBT 2014, draw tables from a copula alone). Kernels weaken correlations, so those of
the points are raised in a few rounds. Components that started alike, as independent
columns, kept .90 of the correlations and half of a regression of a clear release within
the same number of steps. Components of kernels alone are nearly single records: what so
few records have of three and more columns by chance stays, as a fit to pairs does not
see it. With them triples were 1 to 13 % farther off, pairs and regressions as far
(`benchmarks/scoreboard`).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.models.checkpoint import restore
from noisegate.models.tables.distance import Components, Distance
from noisegate.models.tables.mixture_settings import MixtureSettings
from noisegate.models.tables.packed_tables import (
    InitialMixture,
    PackedTables,
    estimate_shares,
    orthonormal_scores,
)

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64

Array = npt.NDArray[Any]
Float32s = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]

# Keeps steps of Adam finite where gradients are zero: the value of the paper.
_EPSILON = 1e-8
# Standard deviation of a kernel, in standard deviations of the scores.
_KERNEL_STD = 0.3
# This part of a component has the shares of all records. Tried were .02, .15, .3, .5
# and .7, each on the same releases of six sets.
_BACKGROUND_SHARE = 0.5
# Rounds in which the correlations of the points are raised, each time by what the
# kernels lack of them.
_CORRELATION_ROUNDS = 4
# Smallest variance of points along an axis: a matrix of noisy correlations may have
# negative eigenvalues.
_MIN_VARIANCE = 1e-3
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


class ArrayAdam:
    """Adam (Kingma and Ba, ICLR 2015, https://arxiv.org/abs/1412.6980, algorithm 1).

    A `noisegate.models.checkpoint.Resumable`.

    Args:
        parameters: Arrays by name, which steps change in place.
        beta1: Decay of the mean of gradients, from one step to the next.
        beta2: Decay of the mean of squared gradients.

    Attributes:
        steps: Number of steps taken.
    """

    def __init__(
        self,
        parameters: Mapping[str, Array],
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
    ) -> None:
        self._parameters = dict(parameters)
        self._beta1 = beta1
        self._beta2 = beta2
        self._means = {name: np.zeros_like(value) for name, value in parameters.items()}
        self._mean_squares = {
            name: np.zeros_like(value) for name, value in parameters.items()
        }
        # Steps allocate no memory: what they compute is written here.
        self._buffers = {
            name: np.empty_like(value) for name, value in parameters.items()
        }
        self.steps = 0

    def step(self, gradients: Mapping[str, Array], learning_rate: float) -> None:
        """Takes a step of descent.

        With g the gradient, t the number of steps and the means m and s, all element by
        element, algorithm 1 of the paper is ::

            m = β1 m + (1 - β1) g
            s = β2 s + (1 - β2) g²
            parameter -= rate (m / (1 - β1ᵗ)) / (√(s / (1 - β2ᵗ)) + 1e-8)

        Args:
            gradients: Gradient of each parameter, by name; left as they are.
            learning_rate: Length of the step, about.
        """
        self.steps += 1
        # Both means start at zero: these factors correct their bias.
        unbiased_rate = learning_rate / (1 - self._beta1**self.steps)
        root_correction = math.sqrt(1 - self._beta2**self.steps)
        for name, parameter in self._parameters.items():
            gradient = gradients[name]
            buffer = self._buffers[name]

            mean = self._means[name]
            mean *= self._beta1
            mean += np.multiply(gradient, 1 - self._beta1, out=buffer)

            mean_square = self._mean_squares[name]
            mean_square *= self._beta2
            np.multiply(gradient, gradient, out=buffer)
            buffer *= 1 - self._beta2
            mean_square += buffer

            np.sqrt(mean_square, out=buffer)
            buffer /= root_correction
            buffer += _EPSILON
            np.divide(mean, buffer, out=buffer)
            buffer *= unbiased_rate
            parameter -= buffer

    def state_dict(self) -> dict[str, Array]:
        """Returns both means of each parameter and the number of steps, as arrays."""
        state = {f"mean/{name}": value.copy() for name, value in self._means.items()}
        for name, value in self._mean_squares.items():
            state[f"square/{name}"] = value.copy()
        state["taken"] = np.array(self.steps)
        return state

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Resumes where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of other parameters.
        """
        restore({f"mean/{name}": value for name, value in self._means.items()}, arrays)
        restore(
            {f"square/{name}": value for name, value in self._mean_squares.items()},
            arrays,
        )
        self.steps = int(arrays["taken"])


@dataclass(frozen=True, kw_only=True)
class InitialLogits:
    """The logits of the components from which a fit starts.

    Attributes:
        weights: Logits of their weights, (classes, K).
        cells: Logits of the cells of all columns, (classes, D, K).
    """

    weights: Float32[Float32s, "classes K"]
    cells: Float32[Float32s, "classes D K"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _ScoredColumn:
    """A column of one class, with scores of its cells.

    Attributes:
        cells: Its cells among the D.
        shares: Shares of the cells in the class, (cells,).
        scores: Scores with mean 0, variance 1 and no correlations under the shares,
            (cells, scores).
        score_slice: Its scores among those of all columns.
    """

    cells: slice
    shares: Float64[Floats, " cells"]
    scores: Float64[Floats, "cells scores"]
    score_slice: slice

    def kernels(
        self, points: Float64[Floats, "scores K"]
    ) -> Float64[Floats, "cells K"]:
        """Computes a kernel about each point.

        Args:
            points: The points in the scores of the column.

        Returns:
            Probabilities, which sum to 1 over the cells. They are the shares, weighted
            with a Gaussian of the distance to the point, and some of the shares
            themselves.
        """
        # |score - point|² less |point|², which is the same for all cells.
        squared_lengths = np.square(self.scores).sum(axis=1)[:, None]
        squared_distances = squared_lengths - 2 * self.scores @ points
        logits = np.log(self.shares)[:, None] - squared_distances / (2 * _KERNEL_STD**2)
        kernels = np.exp(logits - logits.max(axis=0))
        return np.asarray(
            (1 - _BACKGROUND_SHARE) * kernels / kernels.sum(axis=0)
            + _BACKGROUND_SHARE * self.shares[:, None]
        )


def initial_logits(tables: PackedTables, n_components: int, seed: int) -> InitialLogits:
    """Computes the logits from which a mixture starts.

    In each class, components have equal weights and are spread as the pairs of the
    class are correlated (`_copula_components`). Points are drawn once and shared by
    all classes.

    Args:
        tables: The tables that it is fitted to. If they have a start, components are
            copies of those of the start.
        n_components: Number of components of all classes together, about.
        seed: Seed for the points of the components.
    """
    if tables.start is not None:
        return _copies_of_components(tables.start, n_components)
    shares = estimate_shares(tables)
    n_classes, n_cells = shares.shape
    n_class_components = max(n_components // n_classes, 1)
    # `Descent` draws from stream 1 of the same seed.
    random = np.random.default_rng(np.random.SeedSequence([seed, 2]))
    normals = random.standard_normal((n_cells, n_class_components))
    cells = np.stack(
        [
            _copula_components(tables, class_index, class_shares, normals)
            for class_index, class_shares in enumerate(shares)
        ]
    )
    return InitialLogits(
        weights=np.zeros((n_classes, n_class_components), dtype=np.float32),
        cells=np.log(cells).astype(np.float32),
    )


def _copies_of_components(start: InitialMixture, n_components: int) -> InitialLogits:
    """Copies each component of a start, which share its weight.

    The numbers of copies are as the roots of the weights, so that rare components have
    some too. Each component has one copy at least, so that their sum may differ from
    what was asked for.

    Args:
        start: The mixture to start from, of one class.
        n_components: Number of copies of all components together, about.
    """
    roots = np.sqrt(start.weights)
    n_copies = np.maximum(np.rint(n_components * roots / roots.sum()), 1).astype(int)
    component_index = np.repeat(np.arange(len(n_copies)), n_copies)
    weights = np.log(start.weights / n_copies)[component_index]
    cells = np.log(start.cells)[component_index].T
    return InitialLogits(
        weights=weights[None].astype(np.float32), cells=cells[None].astype(np.float32)
    )


def _copula_components(
    tables: PackedTables,
    class_index: int,
    shares: Float64[Floats, " D"],
    normals: Float64[Floats, "D K"],
) -> Float64[Floats, "D K"]:
    """Computes components that are spread as the pairs of one class are correlated.

    Each component is half a kernel about a point, whose coordinates are the scores of
    all columns, which have variance 1 in the class. The points have the correlations R,
    to begin with those of the release, C. A kernel spreads a component over several
    cells, so that the mean scores of the components have smaller covariances, S, on the
    same scale. R is raised by what they lack, to R + C - S, but never where C is 0.
    That is done in `_CORRELATION_ROUNDS` rounds, which need not converge: it is a
    start, from which `Descent` continues. R may come to have negative eigenvalues,
    which `_correlate` raises.

    With fewer components than cells, which cannot be near all of them, every component
    has the shares of the class. Otherwise they are more than the scores, of which each
    column has fewer than cells, so that points without correlations exist.

    Args:
        tables: Packed tables.
        class_index: The class.
        shares: Shares of the cells in the class.
        normals: Independent standard normal numbers, as many as points may need.

    Returns:
        Probabilities of the cells of all columns in each component.
    """
    n_components = normals.shape[1]
    if n_components < len(shares):
        return np.repeat(shares[:, None], n_components, axis=1)
    columns = _score_columns(tables, shares)
    n_scores = columns[-1].score_slice.stop
    target_correlations = _released_correlations(tables, class_index, columns)
    white_points = _whiten(normals[:n_scores])
    correlations = target_correlations
    for _ in range(_CORRELATION_ROUNDS):
        points = _correlate(white_points, correlations)
        components = [column.kernels(points[column.score_slice]) for column in columns]
        mean_scores = np.concatenate(
            [
                column.scores.T @ probabilities
                for column, probabilities in zip(columns, components, strict=True)
            ]
        )
        raised_correlations = correlations + target_correlations - np.cov(mean_scores)
        correlations = np.where(
            target_correlations == 0, 0.0, np.clip(raised_correlations, -1.0, 1.0)
        )
        np.fill_diagonal(correlations, 1.0)
    return np.concatenate(components)


def _score_columns(
    tables: PackedTables, shares: Float64[Floats, " D"]
) -> list[_ScoredColumn]:
    """Computes orthonormal scores of the cells of each column.

    Args:
        tables: Packed tables.
        shares: Shares of all cells in a class.
    """
    columns = []
    offset = 0
    for cells, n_ordered in zip(tables.column_slices, tables.n_ordered, strict=True):
        scores = orthonormal_scores(shares[cells], n_ordered)
        n_scores = scores.shape[1]
        columns.append(
            _ScoredColumn(
                cells=cells,
                shares=shares[cells],
                scores=scores,
                score_slice=slice(offset, offset + n_scores),
            )
        )
        offset += n_scores
    return columns


def _released_correlations(
    tables: PackedTables, class_index: int, columns: Sequence[_ScoredColumn]
) -> Float64[Floats, "scores scores"]:
    """Computes the correlations of all scores that the pairs of a class state.

    With scores X and Y of two columns, which have mean 0 and variance 1, their shares x
    and y, and the table T of the class with n records, it is Xᵀ (T / n - x yᵀ) Y. The
    term x yᵀ adds nothing but rounding, as scores have mean 0 under their shares.

    Args:
        tables: Packed tables.
        class_index: The class.
        columns: The columns, with scores under their shares in the class.

    Returns:
        A symmetric matrix of entries from -1 to 1; 1 on the diagonal, 0 elsewhere for
        two scores of one column, and for pairs of columns that were not released. Noise
        may have given it negative eigenvalues.
    """
    correlations = np.eye(columns[-1].score_slice.stop)
    n_records = max(tables.class_counts[class_index], 1.0)
    for first, second in combinations(columns, 2):
        if not tables.pair_inverse_std[first.cells, second.cells].any():
            continue
        counts = tables.pair_counts[class_index, first.cells, second.cells]
        independent_shares = np.outer(first.shares, second.shares)
        dependence = counts / n_records - independent_shares
        block = first.scores.T @ dependence @ second.scores
        correlations[first.score_slice, second.score_slice] = block
        correlations[second.score_slice, first.score_slice] = block.T
    return np.clip(correlations, -1.0, 1.0)


def _whiten(points: Float64[Floats, "scores K"]) -> Float64[Floats, "scores K"]:
    """Gives points mean 0, a variance of exactly 1 and no correlations.

    Of all such points those nearest to the given ones are taken: with the singular
    value decomposition U diag(s) Vᵀ of the centred points, they are √K U Vᵀ.

    Args:
        points: One point in each column.
    """
    centred = points - points.mean(axis=1, keepdims=True)
    left, _, right = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(left @ right * math.sqrt(points.shape[1]))


def _correlate(
    white_points: Float64[Floats, "scores K"],
    correlations: Float64[Floats, "scores scores"],
) -> Float64[Floats, "scores K"]:
    """Gives points of variance 1 without correlations the given correlations.

    With C the correlations, points are multiplied by the symmetric root of C and scaled
    to variance 1.

    Args:
        white_points: The points, one in each column.
        correlations: C. Noise may have given it negative eigenvalues, which no points
            have: these are raised to `_MIN_VARIANCE`.
    """
    eigenvalues, axes = np.linalg.eigh(correlations)
    root = axes * np.sqrt(np.maximum(eigenvalues, _MIN_VARIANCE)) @ axes.T
    stds = np.sqrt(np.square(root).sum(axis=1))
    return np.asarray(root @ white_points / stds[:, None])


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
        """Takes a step against the gradient of the squared distance.

        The gradient is divided by the number of cells of pairs and triples, in place,
        and goes through the softmaxes to the logits, which Adam moves. Components and
        what they expect are computed again.

        Args:
            learning_rate: The rate; the first steps of an optimiser take less of it.
        """
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
        """Computes the mean squared distance of a cell of pairs and triples.

        Args:
            distance: The distance to tables with the columns, numbers of records and
                released pairs of those that the descent goes to.

        Returns:
            It in units of the noise: 1 if only noise is left.
        """
        return distance.squared_distance(self._expected) / distance.n_cells

    def state_dict(self) -> dict[str, Array]:
        """Returns all that `load_state_dict` needs to continue with the same bits."""
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

        Through a softmax p, a gradient g becomes p_a (g_a - Σ_b p_b g_b). The sum is
        over all components of a class for weights, and over the cells of a column in
        each component for cells.

        Args:
            weight_gradient: Gradient at the weights.
            cell_gradient: Gradient at the probabilities of cells.

        Returns:
            The gradients by the names of the logits.
        """
        weights = self.components.weights
        weight_logits = weight_gradient * weights
        weight_logits -= weights * weight_logits.sum(axis=1, keepdims=True)
        cells = self.components.cells
        cell_logits = cell_gradient * cells
        cell_logits -= cells * self._column_sums(cell_logits)
        return {"weights": weight_logits, "cells": cell_logits}

    def _update_components(self) -> None:
        """Computes the components and expected counts from the logits.

        Weights are the softmax of their logits over the components of a class, and
        probabilities that over the cells of a column. Cell logits are lowered in place,
        which changes no softmax. It must follow every change of the logits.
        """
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
        """Takes a step, and begins another round before it where one is needed.

        A round has three legs, each with a smaller learning rate and a new optimiser.
        At its end the mixture is compared with the best so far.

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
        """Returns all that `load_state_dict` needs to continue with the same bits."""
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
        """Takes the mixture at the end of a round, if it is the best so far.

        Within a round, and without pairs, it does nothing. The judge is the distance to
        the tables as they were released, not to the denoised ones that steps go to.
        """
        has_ended = self._step_in_round == self._steps_per_round
        if not has_ended or not self._released_distance.n_cells:
            return
        discrepancy = self._descent.mean_squared_distance(self._released_distance)
        if discrepancy < self.discrepancy:
            self.components = self._descent.components
            self.discrepancy = discrepancy
