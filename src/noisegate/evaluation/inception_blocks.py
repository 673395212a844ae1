"""Where the Inception-v3 of published Fréchet distances differs from torchvision's."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Resized(nn.Module):
    """A network behind a bilinear resampling to a square, of intensities in [-1, 1] and three channels.

    Args:
        inception: the network.
        side: of the square, in pixels.
    """

    def __init__(self, inception: nn.Module, side: int) -> None:
        super().__init__()
        self.inception, self.side = inception, side

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Give features, (rows, dim), of images with 1 or 3 channels and intensities in [0, 1]."""
        colour = images.expand(-1, 3, -1, -1)
        square = functional.interpolate(colour, (self.side, self.side), mode="bilinear", align_corners=False)
        features: torch.Tensor = self.inception(2 * square - 1)
        return features


def average_within(behind: nn.Module) -> None:
    """Let what stands behind a 3 x 3 average pooling see means over the pixels that are there, without the padding.

    Args:
        behind: the module that gets the pooled maps, which torchvision divides by 9 everywhere.
    """

    def corrected(_: nn.Module, given: Any) -> torch.Tensor:
        (pooled,) = given
        there = functional.avg_pool2d(torch.ones_like(pooled[:1, :1]), kernel_size=3, stride=1, padding=1)
        result: torch.Tensor = pooled / there
        return result

    behind.register_forward_pre_hook(corrected)


def with_maximum(block: nn.Module) -> nn.Module:
    """Give torchvision's last block with maximum instead of average pooling, its parts under the same names.

    Args:
        block: ``Mixed_7c`` of torchvision's network.
    """
    return _LastBlock(block)


class _LastBlock(nn.Module):
    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        for name, part in block.named_children():
            self.add_module(name, part)

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        parts = dict(self.named_children())
        middle = parts["branch3x3_1"](maps)
        double = parts["branch3x3dbl_2"](parts["branch3x3dbl_1"](maps))
        return torch.cat(
            [
                parts["branch1x1"](maps),
                parts["branch3x3_2a"](middle),
                parts["branch3x3_2b"](middle),
                parts["branch3x3dbl_3a"](double),
                parts["branch3x3dbl_3b"](double),
                parts["branch_pool"](functional.max_pool2d(maps, kernel_size=3, stride=1, padding=1)),
            ],
            dim=1,
        )
