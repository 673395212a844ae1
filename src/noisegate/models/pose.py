"""Poses: what turns, slants, stretches and moves an image a little, drawn at random for each image.

No hand slants a sign twice alike, and a thing seldom lies in the middle. A generator would have to learn this from
means that noise covers; so it is given it: what the network makes is posed, during the fit too, where the generator's
means are compared with those of records in poses of their own. Nothing here depends on records.

A pose is an affine map of the plane about the middle of the image, bilinear between pixels, and the border continues
outside (Jaderberg et al., Spatial Transformer Networks, NeurIPS 2015, whose map is learnt).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Float

NUMBERS = 6
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
