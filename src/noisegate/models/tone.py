"""Tones: how strong and how soft an image is drawn, at random for each image.

Where noise covers what classes' means say of it, a fit makes all images of one class faint and all of another blurred,
and a classifier learns that and not the things: of 8,000 digits at ε = 0.2 a convolutional network learnt less than a
linear one. So contrast and sharpness vary within each class, as poses do (`noisegate.models.pose`), during the fit too.
Nothing here depends on records.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

NUMBERS = 2
"""Standard normal numbers that a tone takes."""

_CONTRAST, _SOFTNESS = 0.5, 0.7
"""Logarithm of the contrast either way, and part of the mean of each pixel and its neighbours, at most, for 1."""


def toned(
    images: Float[Tensor, "rows c h w"], noise: Float[Tensor, "rows 2"], farthest: float
) -> Float[Tensor, "rows c h w"]:
    """Returns each image softened, and with more or less contrast to its border, uniform up to `farthest` times that.

    Args:
        images: Intensities in [0, 1].
        noise: Standard normal, one row for each image.
        farthest: From 0, which leaves images as they are, to 1.

    Examples:
        >>> import torch
        >>> images = torch.rand(2, 1, 8, 8)
        >>> torch.allclose(toned(images, torch.randn(2, 2), 0.0), images)
        True
    """
    contrast, softness = (torch.erf(noise / math.sqrt(2)) * farthest)[:, :, None, None, None].unbind(1)
    # Products with matrices: pooling of padded pictures takes several times as long, forth and back.
    down, right = (_mean_of_three(images.new_ones(side)) for side in images.shape[2:])
    around = down @ images @ right
    images = torch.lerp(images, around, _SOFTNESS * softness.abs())
    sides = images[..., [0, -1], :].mean(dim=(2, 3)) + images[..., [0, -1]].mean(dim=(2, 3))
    ground = sides[..., None, None] / 2
    return (ground + (images - ground) * (_CONTRAST * contrast).exp()).clamp(0, 1)


def _mean_of_three(ones: Float[Tensor, " side"]) -> Float[Tensor, "side side"]:
    """Returns what takes each pixel along an axis to the mean of itself and its neighbours; at the border, itself."""
    near = torch.diag(ones[1:], 1) + torch.diag(ones[1:], -1)
    return (near + torch.diag(3 - near.sum(dim=0))) / 3
