"""Networks with batch normalisation, which mixes the images of a batch: nothing private is trained with them.

A small one, and WRN-16-2 ([Zagoruyko and Komodakis, 2016](https://arxiv.org/abs/1605.07146)). They take (rows,
channels, height, width) of any size and give logits, (rows, classes).
"""

from __future__ import annotations

import torch
from torch import nn

from noisegate.networks.weights import check_sizes, seeded
from noisegate.schema.pixels import ImageShape

LEFT = 3
"""Rows and columns that the small network keeps in front of its linear layer."""

DEPTH, FACTOR = 16, 2


def build_small(shape: ImageShape, classes: int, *, seed: int) -> nn.Sequential:
    """Build a convolutional network: four convolutions, of which the first and the third halve the image.

    Each has batch normalisation and ReLU; then come the mean over a 3 x 3 grid and a linear layer. There is no dropout:
    its draws would depend on what else draws random numbers.
    """
    check_sizes("the CNN", classes=classes)
    with seeded(seed):
        return nn.Sequential(
            *_convolved(shape.channels, 32, kernel=5, stride=2),
            *_convolved(32, 32),
            *_convolved(32, 64, stride=2),
            *_convolved(64, 64),
            nn.AdaptiveAvgPool2d(LEFT),
            nn.Flatten(),
            nn.Linear(64 * LEFT * LEFT, classes),
        )


def _convolved(entering: int, channels: int, *, kernel: int = 3, stride: int = 1) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(entering, channels, kernel, stride=stride, padding=kernel // 2, bias=False)
    return convolution, nn.BatchNorm2d(channels), nn.ReLU()


class WideBlock(nn.Module):
    """Normalisation, ReLU and convolution, twice, around which the input is led past; the first has the stride."""

    def __init__(self, entering: int, channels: int, stride: int) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.BatchNorm2d(entering), nn.ReLU())
        self.body = nn.Sequential(
            *_convolved(entering, channels, stride=stride),
            nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False),
        )
        same = entering == channels and stride == 1
        self.past = None if same else nn.Conv2d(entering, channels, kernel_size=1, stride=stride, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Give activations, (rows, channels, height / stride, width / stride)."""
        active: torch.Tensor = self.before(images)
        around = images if self.past is None else self.past(active)
        return torch.add(self.body(active), around)


def build_wide(shape: ImageShape, classes: int, *, seed: int) -> nn.Sequential:
    """Build a WRN-16-2."""
    check_sizes("WRN-16-2", classes=classes)
    entering, blocks = 16, (DEPTH - 4) // 6
    with seeded(seed):
        layers: list[nn.Module] = [nn.Conv2d(shape.channels, entering, kernel_size=3, padding=1, bias=False)]
        for stage, channels in enumerate((16 * FACTOR, 32 * FACTOR, 64 * FACTOR)):
            for block in range(blocks):
                layers.append(WideBlock(entering, channels, 2 if stage and not block else 1))
                entering = channels
        layers += [nn.BatchNorm2d(entering), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        return nn.Sequential(*layers, nn.Linear(entering, classes))
