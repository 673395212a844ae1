"""Small images drawn from one Gaussian a class, by noisy moments: where a set of images may begin.

What was released is, for each class, the sum of (lead, x)(lead, x)ᵀ over its records, x a small image: its first entry
says how many records it is of, its first row their mean. The noise is a symmetric matrix of independent numbers, off
the diagonal with half the variance; no eigenvalue of such a matrix is much larger than noise · √(2 · size) (Wigner's
semicircle law). Directions of a covariance that vary less than that are left out.
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
from noisegate_papers.features.thumbnails import Thumbnails
from noisegate_papers.features.transforms import matrices_of

if TYPE_CHECKING:
    from jaxtyping import Float

Array = npt.NDArray[np.float64]


def image_gaussians(triangles: Array, thumbnails: Thumbnails, *, noise_std: float) -> ImageGaussians:
    """Returns the Gaussians of small images.

    Args:
        triangles: Noisy sums of outer products, as `OuterProducts` packs them, (classes, entries).
        thumbnails: What made the images small, with the number that it put before them.
        noise_std: Of the noise of an entry on the diagonal.
    """
    matrices, lead = matrices_of(triangles), thumbnails.lead
    counts = np.maximum(matrices[:, 0, 0] / lead**2, 1.0)[:, None]
    means = np.clip(matrices[:, 0, 1:] / (lead * counts), 0, 1)
    covariances = matrices[:, 1:, 1:] / counts[..., None] - means[:, :, None] * means[:, None, :]
    values, vectors = np.linalg.eigh(covariances)
    heard = values > noise_std / counts * math.sqrt(2 * means.shape[1])
    roots = vectors * np.sqrt(np.where(heard, np.maximum(values, 0), 0))[:, None, :]
    return ImageGaussians(means=means, roots=roots, thumbnails=thumbnails)


@dataclass(frozen=True, kw_only=True)
class ImageGaussians:
    """One Gaussian of small images for each class, and what is drawn from it in full size.

    Attributes:
        means: (classes, pixels).
        roots: Of the covariances, (classes, pixels, pixels).
        thumbnails: What made the images small.
    """

    means: Array
    roots: Array
    thumbnails: Thumbnails

    def draw(self, each: int, random: np.random.Generator) -> Float[Tensor, "classes each pixels"]:
        """Returns so many images of each class, in [0, 1], (classes, each, pixels)."""
        normal = random.standard_normal((len(self.means), each, self.means.shape[1]))
        small = np.clip(self.means[:, None] + normal @ self.roots.swapaxes(1, 2), 0, 1)
        rows = torch.from_numpy(small.astype(np.float32)).flatten(0, 1)
        images = sharpened(rows, self.thumbnails) if self.thumbnails.side > 1 else rows
        return images.reshape(*small.shape[:2], -1)


def sharpened(small: Float[Tensor, "rows small"], thumbnails: Thumbnails) -> Float[Tensor, "rows pixels"]:
    """Returns small images in full size, with the edges that averaging over squares has blurred (unsharp masking)."""
    large = interpolate(RowsToImages(thumbnails.small)(small), scale_factor=thumbnails.side, mode="bicubic")
    blurred = avg_pool2d(pad(large, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    return (2 * large - blurred).clamp(0, 1).permute(0, 2, 3, 1).flatten(1)


Features: TypeAlias = Callable[[Tensor], Tensor]

DRAWS = 128
"""Images of each class in a step."""
_LEARNING_RATE, _MOMENTUM, _DECAY = 0.5, 0.5, 0.95


def matched_images(
    images: Float[Tensor, "classes each pixels"],
    draw: Callable[[int], Float[Tensor, "classes draws pixels"]],
    features_of: Callable[[int], Features],
    *,
    steps: int,
) -> Float[Tensor, "classes each pixels"]:
    """Returns the average over the steps of images in [0, 1] that start as `images`, by distribution matching.

    Zhao and Bilen (WACV 2023), https://arxiv.org/abs/2110.04181: each step takes a network with fresh weights, and
    moves the images of a class against the squared distance of their mean features from those of its draws.

    Args:
        images: Where they start, (classes, each, pixels).
        draw: Returns so many images of each class to compare with, (classes, draws, pixels).
        features_of: Returns what the network of a step sees in rows of pixels.
        steps: How many; 0 returns the images.
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


def _mean_features(features: Features, images: Float[Tensor, "classes rows pixels"]) -> Float[Tensor, "classes _"]:
    """Returns the mean over the images of each class of all that a network gives, in one row a class."""
    seen = features(images.flatten(0, 1))
    return seen.flatten(1).reshape(*images.shape[:2], -1).mean(dim=1)
