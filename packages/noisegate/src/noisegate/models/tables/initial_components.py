"""The components from which the fit of a mixture starts.

Each component starts as a narrow kernel about a point. Columns have scores, and the
scores of the points have the correlations that the pairs of a release state, as in a
Gaussian copula (Sklar 1959; Li, Xiong and Jiang, EDBT 2014, draw tables from a copula
alone). Kernels weaken correlations, so those of the points are raised in a few rounds.

Components that started alike, as independent columns, kept .90 of the correlations and
half of a regression of a clear release within the same number of steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.models.tables.packed_tables import (
    InitialMixture,
    PackedTables,
    estimate_shares,
    orthonormal_scores,
)

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64

Float32s = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]

# Standard deviation of a kernel, in standard deviations of the scores.
_KERNEL_STD = 0.3
# This part of a component is spread over all cells, so that none is about impossible.
_BACKGROUND_SHARE = 0.02
# Rounds in which the correlations of the points are raised, each time by what the
# kernels lack of them.
_CORRELATION_ROUNDS = 4
# Smallest variance of points along an axis: a matrix of noisy correlations may have
# negative eigenvalues.
_MIN_VARIANCE = 1e-3


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
    some too.
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

    With fewer components than cells, which cannot be near all of them, every component
    has the shares of the class.

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

    Args:
        tables: Packed tables.
        class_index: The class.
        columns: The columns, with scores under their shares in the class.

    Returns:
        A symmetric matrix; 0 for pairs of columns that were not released.
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
    """Gives points a variance of exactly 1 and no correlations."""
    centred = points - points.mean(axis=1, keepdims=True)
    left, _, right = np.linalg.svd(centred, full_matrices=False)
    return np.asarray(left @ right * math.sqrt(points.shape[1]))


def _correlate(
    white_points: Float64[Floats, "scores K"],
    correlations: Float64[Floats, "scores scores"],
) -> Float64[Floats, "scores K"]:
    """Gives points of variance 1 without correlations other correlations.

    Args:
        white_points: The points.
        correlations: The correlations, which may be those of no points: the nearest
            possible ones are taken.
    """
    eigenvalues, axes = np.linalg.eigh(correlations)
    root = axes * np.sqrt(np.maximum(eigenvalues, _MIN_VARIANCE)) @ axes.T
    stds = np.sqrt(np.square(root).sum(axis=1))
    return np.asarray(root @ white_points / stds[:, None])
