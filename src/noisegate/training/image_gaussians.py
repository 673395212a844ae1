"""Small images drawn from one Gaussian a class, by noisy moments: where a set of images may begin.

What was released is, for each class, the sum of (lead, x)(lead, x)ᵀ over its records, x a small image. Its first entry
says how many records it is of, its first row their mean. So nothing has to be known of how many there are in a class,
and records that were shortened count for as much less in all of it.

The noise of a sum is a symmetric matrix of independent numbers, off the diagonal with half the variance; no eigenvalue
of such a matrix is much larger than noise · √(2 · size) (Wigner's semicircle law). Directions of a covariance that vary
less than that are left out: with much noise the images are the means alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from noisegate.features.thumbnails import Thumbnails
from noisegate.features.transforms import matrices_of
from noisegate.training.diffusion import enlarged

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

Array = npt.NDArray[np.float64]


def image_gaussians(triangles: Array, *, lead: float, noise_std: float) -> tuple[Array, Array]:
    """Returns means, (classes, pixels), and roots of covariances, (classes, pixels, pixels), of small images.

    Args:
        triangles: Noisy sums of outer products, as `OuterProducts` packs them, (classes, entries).
        lead: The number before the pixels.
        noise_std: Of the noise of an entry on the diagonal.
    """
    matrices = matrices_of(triangles)
    counts = np.maximum(matrices[:, 0, 0] / lead**2, 1.0)[:, None]
    means = np.clip(matrices[:, 0, 1:] / (lead * counts), 0, 1)
    covariances = matrices[:, 1:, 1:] / counts[..., None] - means[:, :, None] * means[:, None, :]
    values, vectors = np.linalg.eigh(covariances)
    heard = values > noise_std / counts * math.sqrt(2 * means.shape[1])
    return means, vectors * np.sqrt(np.where(heard, np.maximum(values, 0), 0))[:, None, :]


def drawn_images(
    triangles: Array, thumbnails: Thumbnails, each: int, *, noise_std: float, seed: int
) -> Float[Tensor, "rows pixels"]:
    """Returns so many images of each class, of full size, drawn from its Gaussian: (classes · each, pixels)."""
    means, roots = image_gaussians(triangles, lead=thumbnails.lead, noise_std=noise_std)
    normal = np.random.default_rng(seed).standard_normal((len(means), each, means.shape[1]))
    small = np.clip(means[:, None] + normal @ roots.swapaxes(1, 2), 0, 1).reshape(-1, means.shape[1])
    return enlarged(torch.from_numpy(small.astype(np.float32)), thumbnails.small, thumbnails.side)
