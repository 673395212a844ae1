"""Random shifts, sizes and angles of training images: each image gets one of the three.

As in the public code of PSG for MNIST and FashionMNIST (Chen, Kerkouche and Fritz, NeurIPS 2022): a shift by at most an
eighth of the side (4 pixels of 28 or 32), height and width each times 0.8 to 1.2, or a turn by at most 45 degrees. Here
all three are one bilinear resampling, and what comes in from outside is 0, the mean of standardised images.
"""

from __future__ import annotations

import math

import torch

SHIFT = 1 / 8
SCALE = 0.2
DEGREES = 45.0


def altered(images: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Give a changed copy of images.

    Args:
        images: standardised, (rows, channels, height, width).
        random: public randomness, on the CPU.

    Returns:
        The same shape, on the same device.
    """
    rows, _, height, width = images.shape
    kind = torch.randint(3, (rows,), generator=random)
    drawn = torch.rand((rows, 2), generator=random)
    ways = torch.stack([_shifts(drawn, height, width), _scales(drawn), _turns(drawn, height / width)])
    chosen = ways[kind, torch.arange(rows)].to(images.device)
    grid = torch.nn.functional.affine_grid(chosen, list(images.shape), align_corners=False)
    return torch.nn.functional.grid_sample(images, grid, align_corners=False)


def _shifts(drawn: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Maps from the new image's square [-1, 1]² to the old one's, (rows, 2, 3): by whole pixels."""
    pixels = torch.tensor([width, height], dtype=torch.float32)
    most = (pixels * SHIFT).round()
    moved = ((2 * most + 1) * drawn).floor().clamp(max=2 * most) - most
    return torch.cat([torch.eye(2).expand(len(drawn), 2, 2), (2 * moved / pixels)[:, :, None]], dim=2)


def _scales(drawn: torch.Tensor) -> torch.Tensor:
    factors = 1 + SCALE * (2 * drawn - 1)
    return torch.nn.functional.pad(torch.diag_embed(1 / factors), (0, 1))


def _turns(drawn: torch.Tensor, aspect: float) -> torch.Tensor:
    angle = (2 * drawn[:, 0] - 1) * math.radians(DEGREES)
    # The square [-1, 1]² stands for an image that is wider or higher: a turn must not shear it.
    first = torch.stack([angle.cos(), -angle.sin() * aspect], dim=1)
    second = torch.stack([angle.sin() / aspect, angle.cos()], dim=1)
    return torch.nn.functional.pad(torch.stack([first, second], dim=1), (0, 1))
