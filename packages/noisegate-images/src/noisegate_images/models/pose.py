"""Poses and tones: what turns, slants, stretches and moves an image a little, and how strong and soft it is drawn.

A generator would have to learn poses from means that noise covers; so it is given them: what the network makes is
posed, during the fit too. A pose is an affine map of the plane about the middle of the image, bilinear between pixels,
and the border continues outside (Jaderberg et al., Spatial Transformer Networks, NeurIPS 2015, whose map is learnt).

Where noise covers what classes' means say of contrast and sharpness, a fit makes all images of one class faint and all
of another blurred, and a classifier learns that: so tones vary within each class too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Float

POSE_NUMBERS = 6
"""Standard normal numbers that a pose takes."""

_FARTHEST = (0.15, 0.15, 0.1, 0.1, 0.05, 0.05)
"""Turn in radians, slant, stretch across and down as a part, shift across and down in half sides, at most, for 1."""


def posed(
    images: Float[Tensor, "rows c h w"], noise: Float[Tensor, "rows 6"], farthest: float
) -> Float[Tensor, "rows c h w"]:
    """Returns each image in a pose, uniform up to `farthest` times 0.15 radians, a slant of 0.15 and so on.

    Args:
        images: Of any values.
        noise: Standard normal, one row for each image.
        farthest: 0 leaves images as they are.

    Examples:
        >>> import torch
        >>> images = torch.rand(2, 1, 8, 8)
        >>> torch.allclose(posed(images, torch.randn(2, 6), 0.0), images, atol=1e-5)
        True
    """
    uniform = torch.erf(noise / math.sqrt(2)) * noise.new_tensor(_FARTHEST) * farthest
    turn, slant, across, down, right, low = uniform.unbind(1)
    first = torch.stack([(1 + across) * turn.cos(), slant - turn.sin(), right], dim=1)
    second = torch.stack([turn.sin(), (1 + down) * turn.cos(), low], dim=1)
    places = nn.functional.affine_grid(torch.stack([first, second], dim=1), list(images.shape), align_corners=False)
    return nn.functional.grid_sample(images, places, padding_mode="border", align_corners=False)


TONE_NUMBERS = 2
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
