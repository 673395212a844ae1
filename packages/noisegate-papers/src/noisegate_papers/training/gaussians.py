"""Gaussians by noisy moments: of unit vectors, DP-MGE, section 3.1 (docs/mge.md), and of small images.

Of small images x, what was released is, for each class, the sum of (lead, x)(lead, x)ᵀ over its records: its first
entry says how many records it is of, its first row their mean.

Moments of vectors of length 1 are moved to the nearest point of each convex set that
they are in, and variances, or the eigenvalues of a full covariance, are clipped to
[floor, 1] (docs/mge.md).

Of small images x, what was released is, for each class, the sum of (lead, x)(lead, x)ᵀ
over its records: its first entry says how many records it is of, its first row their
mean. No eigenvalue of the noise, a symmetric matrix with half the variance off the
diagonal, is much larger than noise · √(2 · size) (Wigner's semicircle law): directions
of a covariance that vary less than that are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate, pad

from noisegate_images.networks.classifiers import RowsToImages
from noisegate_papers.models.decoded import FeatureGaussians
from noisegate_papers.queries.thumbnails import Thumbnails
from noisegate_papers.queries.transforms import matrices_of

if TYPE_CHECKING:
    from jaxtyping import Float

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
    return np.asarray(cut / np.maximum(np.linalg.norm(cut, axis=1, keepdims=True), 1))


def moment_projection(matrices: Array, *, at_most: bool) -> Array:
    """Returns the nearest positive semi-definite matrices of trace 1, or `at_most` 1, in the Frobenius norm."""
    values, vectors = np.linalg.eigh(matrices)
    return _composed(simplex_projection(values, at_most=at_most), vectors)


def diagonal_gaussians(
    means: Array, seconds: Array, *, floor: float, nonnegative: bool
) -> tuple[Array, Array]:
    """Returns means and variances, both (rows, dim), by noisy E z and E z ⊙ z; see `feature_gaussians`."""
    centres = mean_projection(means, nonnegative=nonnegative)
    return centres, np.clip(simplex_projection(seconds) - centres**2, floor, 1)


def full_gaussians(
    means: Array, matrices: Array, *, floor: float, at_most: bool
) -> tuple[Array, Array]:
    """Returns means, (rows, dim), and covariances, (rows, dim, dim), by E x and E xxᵀ, x maybe shorter than 1."""
    centres = mean_projection(means, nonnegative=False)
    covariances = (
        moment_projection(matrices, at_most=at_most)
        - centres[:, :, None] * centres[:, None, :]
    )
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
    """Returns the Gaussians that noisy moments describe: diagonal ones, or full ones along orthonormal axes."""
    # First moments are (rows, dim), second ones (rows, dim), or with axes, (features, dim), (rows, dim (dim + 1) / 2).
    if axes is None:
        centres, variances = diagonal_gaussians(
            means, seconds, floor=floor, nonnegative=nonnegative
        )
        return FeatureGaussians(
            means=centres, roots=np.sqrt(variances), nonnegative=nonnegative
        )
    at_most = axes.shape[1] < axes.shape[0]
    centres, covariances = full_gaussians(
        means, matrices_of(seconds), floor=floor, at_most=at_most
    )
    return FeatureGaussians(
        means=centres,
        roots=symmetric_roots(covariances),
        axes=axes,
        nonnegative=nonnegative,
    )


def image_gaussians(
    triangles: Array, thumbnails: Thumbnails, *, noise_std: float
) -> ImageGaussians:
    """Returns the Gaussians of small images, by noisy sums as `OuterProducts` packs them, (classes, entries)."""
    matrices, lead = matrices_of(triangles), thumbnails.lead
    counts = np.maximum(matrices[:, 0, 0] / lead**2, 1.0)[:, None]
    means = np.clip(matrices[:, 0, 1:] / (lead * counts), 0, 1)
    covariances = (
        matrices[:, 1:, 1:] / counts[..., None] - means[:, :, None] * means[:, None, :]
    )
    values, vectors = np.linalg.eigh(covariances)
    heard = values > noise_std / counts * math.sqrt(2 * means.shape[1])
    roots = vectors * np.sqrt(np.where(heard, np.maximum(values, 0), 0))[:, None, :]
    return ImageGaussians(means=means, roots=roots, thumbnails=thumbnails)


@dataclass(frozen=True, kw_only=True)
class ImageGaussians:
    """One Gaussian of small images for each class, and what is drawn from it in full size."""

    means: Array  # (classes, pixels)
    roots: Array  # of the covariances, (classes, pixels, pixels)
    thumbnails: Thumbnails

    def draw(
        self, each: int, random: np.random.Generator
    ) -> Float[Tensor, "classes each pixels"]:
        """Returns so many images of each class, in [0, 1], (classes, each, pixels)."""
        normal = random.standard_normal((len(self.means), each, self.means.shape[1]))
        small = np.clip(self.means[:, None] + normal @ self.roots.swapaxes(1, 2), 0, 1)
        images = torch.from_numpy(small.astype(np.float32)).flatten(0, 1)
        if (side := self.thumbnails.side) > 1:
            # Unsharp masking: the edges that averaging over squares has blurred.
            large = interpolate(
                RowsToImages(self.thumbnails.small)(images),
                scale_factor=side,
                mode="bicubic",
            )
            blurred = avg_pool2d(
                pad(large, (1, 1, 1, 1), mode="replicate"), 3, stride=1
            )
            images = (2 * large - blurred).clamp(0, 1).permute(0, 2, 3, 1).flatten(1)
        return images.reshape(*small.shape[:2], -1)


Features: TypeAlias = Callable[[Tensor], Tensor]

DRAWS = 128  # images of each class in a step
_LEARNING_RATE, _MOMENTUM, _DECAY = 0.5, 0.5, 0.95


def matched_images(
    images: Float[Tensor, "classes each pixels"],
    draw: Callable[[int], Float[Tensor, "classes draws pixels"]],
    features_of: Callable[[int], Features],
    *,
    steps: int,
) -> Float[Tensor, "classes each pixels"]:
    """Returns the average over the steps of images in [0, 1] that start as `images`, by distribution matching.

    Zhao and Bilen (WACV 2023), https://arxiv.org/abs/2110.04181: each step takes a network with fresh weights, whose
    `features_of` rows of pixels it sees, and moves the images of a class against the squared distance of their mean
    features from those of its draws. No step returns the images.
    """
    moved, velocity, average = images.clone(), torch.zeros_like(images), images.clone()
    for step in range(steps):
        features = features_of(step)
        with torch.no_grad():
            wanted = _mean_features(features, draw(DRAWS))
        points = moved.detach().requires_grad_()
        distance = (_mean_features(features, points) - wanted).square().sum()
        velocity = _MOMENTUM * velocity + torch.autograd.grad(distance, points)[0]
        moved = (moved - _LEARNING_RATE * velocity).clamp(0, 1)
        average.lerp_(moved, 1 - min(_DECAY, (step + 1) / (step + 10)))
    return average


def _mean_features(
    features: Features, images: Float[Tensor, "classes rows pixels"]
) -> Float[Tensor, "classes _"]:
    """Returns the mean over the images of each class of all that a network gives, in one row a class."""
    seen = features(images.flatten(0, 1))
    return seen.flatten(1).reshape(*images.shape[:2], -1).mean(dim=1)
