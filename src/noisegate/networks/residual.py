"""ResNet18 in the form for small images that PSG is evaluated with.

A first convolution of 3 x 3 without pooling, four stages of two residual blocks, and the mean over what is left of the
image (Chen, Kerkouche and Fritz, NeurIPS 2022, public code). Normalised with one group for each channel of an image,
without running statistics.
"""

from __future__ import annotations

import torch
from torch import nn

from noisegate.networks.weights import check_sizes, seeded
from noisegate.schema.pixels import ImageShape

SIDE = 16
"""Pixels that the first convolution sees at least: one pixel of a channel alone would be normalised to zero."""

_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))


class Block(nn.Module):
    """Two convolutions around which the input is led past.

    Args:
        entering: Channels of the input.
        channels: Channels of the output.
        stride: Of the first convolution and of the way past.
    """

    def __init__(self, entering: int, channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(entering, channels, kernel_size=3, stride=stride, padding=1, bias=False),
            nn.GroupNorm(channels, channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False),
            nn.GroupNorm(channels, channels),
        )
        same = entering == channels and stride == 1
        self.past: nn.Module = (
            nn.Identity()
            if same
            else nn.Sequential(
                nn.Conv2d(entering, channels, kernel_size=1, stride=stride, bias=False),
                nn.GroupNorm(channels, channels),
            )
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Returns activations, (rows, channels, height / stride, width / stride)."""
        return torch.relu(self.body(images) + self.past(images))


def build_resnet18(shape: ImageShape, classes: int, *, seed: int) -> nn.Sequential:
    """Returns a ResNet18 for small images with fresh weights, in float32 on the CPU.

    It takes (rows, channels, height, width) and gives logits, (rows, classes).

    Args:
        shape: Of the images; any. Smaller ones than 16 pixels are padded with zeros.
        classes: Number of logits.
        seed: Of the weights; public.

    Raises:
        OptionError: if classes is no positive whole number.
    """
    check_sizes("ResNet18", classes=classes)
    padding = tuple(1 + max(0, (SIDE - side + 1) // 2) for side in (shape.height, shape.width))
    entering = _STAGES[0][0]
    with seeded(seed):
        layers: list[nn.Module] = [
            nn.Conv2d(shape.channels, entering, kernel_size=3, padding=(padding[0], padding[1]), bias=False),
            nn.GroupNorm(entering, entering),
            nn.ReLU(),
        ]
        for channels, stride in _STAGES:
            layers += [Block(entering, channels, stride), Block(channels, channels, 1)]
            entering = channels
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(entering, classes))
