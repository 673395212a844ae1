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
from itertools import accumulate, combinations, pairwise
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
    scores = [
        orthonormal_scores(shares[cells], n_ordered)
        for cells, n_ordered in zip(tables.column_slices, tables.n_ordered, strict=True)
    ]
    offsets = [
        0,
        *accumulate(column_scores.shape[1] for column_scores in scores),
    ]
    score_slices = [slice(start, stop) for start, stop in pairwise(offsets)]
    n_scores = offsets[-1]
    target_correlations = _released_correlations(
        tables, class_index, shares, scores, score_slices
    )
    white_points = _whiten(normals[:n_scores])

    correlations = target_correlations
    for _ in range(_CORRELATION_ROUNDS):
        points = _correlate(white_points, correlations)
        components = [
            _kernels(shares[cells], column_scores, points[score_slice])
            for cells, column_scores, score_slice in zip(
                tables.column_slices, scores, score_slices, strict=True
            )
        ]
        mean_scores = np.concatenate(
            [
                column_scores.T @ column_components
                for column_scores, column_components in zip(
                    scores, components, strict=True
                )
            ]
        )
        raised_correlations = correlations + target_correlations - np.cov(mean_scores)
        correlations = np.where(
            target_correlations == 0, 0.0, np.clip(raised_correlations, -1.0, 1.0)
        )
        np.fill_diagonal(correlations, 1.0)
    return np.concatenate(components)


def _released_correlations(
    tables: PackedTables,
    class_index: int,
    shares: Float64[Floats, " D"],
    scores: Sequence[Floats],
    score_slices: Sequence[slice],
) -> Float64[Floats, "scores scores"]:
    """Computes the correlations of all scores that the pairs of a class state.

    Args:
        tables: Packed tables.
        class_index: The class.
        shares: Shares of the cells in the class.
        scores: Scores of the cells of each column, (cells, scores of the column).
        score_slices: The scores of each column among all.

    Returns:
        A symmetric matrix; 0 for pairs of columns that were not released.
    """
    correlations = np.eye(score_slices[-1].stop)
    n_records = max(tables.class_counts[class_index], 1.0)
    for first, second in combinations(range(len(scores)), 2):
        first_cells = tables.column_slices[first]
        second_cells = tables.column_slices[second]
        if not tables.pair_inverse_std[first_cells, second_cells].any():
            continue
        counts = tables.pair_counts[class_index, first_cells, second_cells]
        independent_shares = np.outer(shares[first_cells], shares[second_cells])
        dependence = counts / n_records - independent_shares
        block = scores[first].T @ dependence @ scores[second]
        correlations[score_slices[first], score_slices[second]] = block
        correlations[score_slices[second], score_slices[first]] = block.T
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


def _kernels(
    shares: Float64[Floats, " cells"],
    scores: Float64[Floats, "cells scores"],
    points: Float64[Floats, "scores K"],
) -> Float64[Floats, "cells K"]:
    """Computes a kernel about each point, over the cells of one column.

    Args:
        shares: Shares of the cells.
        scores: Scores of the cells.
        points: The points in these scores.

    Returns:
        Probabilities, which sum to 1 over the cells. They are the shares, weighted with
        a Gaussian of the distance to the point, and some of the shares themselves.
    """
    # |score - point|² less |point|², which is the same for all cells.
    squared_distance = np.square(scores).sum(axis=1)[:, None] - 2 * scores @ points
    logits = np.log(shares)[:, None] - squared_distance / (2 * _KERNEL_STD**2)
    kernels = np.exp(logits - logits.max(axis=0))
    return np.asarray(
        (1 - _BACKGROUND_SHARE) * kernels / kernels.sum(axis=0)
        + _BACKGROUND_SHARE * shares[:, None]
    )
