"""Noisy mean and second moment of unit vectors, made those of a Gaussian by stated rules; DP-MGE, section 3.1.

Of vectors z of length 1 it is public that E z ⊙ z is in the simplex {s ≥ 0, Σ s = 1}, that E zzᵀ is positive
semi-definite with trace 1 (at most 1 after a projection), that E z has length at most 1, and no negative entry where
the encoder gives none. What was released is moved to the nearest point of each convex set: never further from the truth
than it was. A variance E z ⊙ z − (E z) ⊙ (E z) can still be negative, of which the paper says nothing; here it is
clipped to [floor, 1], and a full covariance has its eigenvalues clipped to the same.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisegate_papers.features.transforms import matrices_of
from noisegate_papers.models.decoded import FeatureGaussians

Array = npt.NDArray[np.float64]


def simplex_projection(rows: Array, *, at_most: bool = False) -> Array:
    """Returns the nearest points, (rows, dim), not negative, of sum 1 or `at_most` 1 (Held, Wolfe and Crowder 1974)."""
    ordered = -np.sort(-rows, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1) / np.arange(1, rows.shape[1] + 1)
    # The last place whose entry stays positive when all before it share what is too much.
    last = (ordered > excess).sum(axis=1) - 1
    projected: Array = np.maximum(rows - excess[np.arange(len(rows)), last][:, None], 0)
    if not at_most:
        return projected
    inside = np.maximum(rows, 0)
    return np.where(inside.sum(axis=1, keepdims=True) <= 1, inside, projected)


def mean_projection(rows: Array, *, nonnegative: bool) -> Array:
    """Returns the nearest points, (rows, dim), of length at most 1, without negative entries if so asked."""
    # Cutting entries off first gives the projection onto both sets: the second is a ball around the cone's tip.
    cut = np.maximum(rows, 0) if nonnegative else rows
    shortened: Array = cut / np.maximum(np.linalg.norm(cut, axis=1, keepdims=True), 1)
    return shortened


def moment_projection(matrices: Array, *, at_most: bool) -> Array:
    """Returns the nearest positive semi-definite matrices of trace 1, or `at_most` 1, in the Frobenius norm."""
    values, vectors = np.linalg.eigh(matrices)
    return _composed(simplex_projection(values, at_most=at_most), vectors)


def diagonal_gaussians(means: Array, seconds: Array, *, floor: float, nonnegative: bool) -> tuple[Array, Array]:
    """Returns means and variances, both (rows, dim), by noisy E z and E z ⊙ z; see `feature_gaussians`."""
    centres = mean_projection(means, nonnegative=nonnegative)
    return centres, np.clip(simplex_projection(seconds) - centres**2, floor, 1)


def full_gaussians(means: Array, matrices: Array, *, floor: float, at_most: bool) -> tuple[Array, Array]:
    """Returns means, (rows, dim), and covariances, (rows, dim, dim), by noisy E x and E xxᵀ.

    `floor` is the least eigenvalue; `at_most` says that x may be shorter than 1.
    """
    centres = mean_projection(means, nonnegative=False)
    covariances = moment_projection(matrices, at_most=at_most) - centres[:, :, None] * centres[:, None, :]
    values, vectors = np.linalg.eigh(covariances)
    return centres, _composed(np.clip(values, floor, 1), vectors)


def _composed(values: Array, vectors: Array) -> Array:
    return (vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1)


def symmetric_roots(matrices: Array) -> Array:
    """Returns the symmetric square roots of positive semi-definite matrices, (rows, dim, dim)."""
    values, vectors = np.linalg.eigh(matrices)
    return _composed(np.sqrt(np.maximum(values, 0)), vectors)


def feature_gaussians(
    means: Array, seconds: Array, *, axes: Array | None, floor: float, nonnegative: bool
) -> FeatureGaussians:
    """Returns the Gaussians that noisy moments describe: diagonal ones, or full ones along axes.

    Args:
        means: Noisy first moments, (rows, dim).
        seconds: Noisy second moments, (rows, dim), or with axes (rows, dim (dim + 1) / 2).
        axes: Orthonormal columns, (features, dim), or None.
        floor: Least variance; public.
        nonnegative: Whether features have no negative entry.
    """
    if axes is None:
        centres, variances = diagonal_gaussians(means, seconds, floor=floor, nonnegative=nonnegative)
        return FeatureGaussians(means=centres, roots=np.sqrt(variances), nonnegative=nonnegative)
    at_most = axes.shape[1] < axes.shape[0]
    centres, covariances = full_gaussians(means, matrices_of(seconds), floor=floor, at_most=at_most)
    return FeatureGaussians(means=centres, roots=symmetric_roots(covariances), axes=axes, nonnegative=nonnegative)
