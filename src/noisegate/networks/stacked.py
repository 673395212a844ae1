"""LeNet, AlexNet and VGG11 in the small forms that PSG is evaluated with: stacks of convolutions and poolings.

The sizes are those of the public code of PSG (Chen, Kerkouche and Fritz, NeurIPS 2022), which is that of dataset
condensation (Zhao, Mopuri and Bilen, ICLR 2021): no dropout, and in VGG11 one normalisation group for each channel of
an image. All expect 32 pixels: the first convolution pads smaller images with zeros to that, 28 to 32, as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from noisegate.networks.weights import check_sizes, seeded
from noisegate.schema.pixels import ImageShape

SIDE = 32
"""Pixels that the first convolution sees at least."""

_POOL = 0
# Channels of each convolution, and where a pooling stands.
_VGG11 = (64, _POOL, 128, _POOL, 256, 256, _POOL, 512, 512, _POOL, 512, 512, _POOL)
_POOLINGS = 5


def build_lenet(shape: ImageShape, classes: int, *, seed: int) -> nn.Sequential:
    """Returns a LeNet with ReLU and max pooling and fresh weights, in float32 on the CPU.

    It takes (rows, channels, height, width) and gives logits, (rows, classes).

    Args:
        shape: Of the images; any.
        classes: Number of logits.
        seed: Of the weights; public.

    Raises:
        OptionError: if classes is no positive whole number.
    """
    check_sizes("LeNet", classes=classes)
    # A convolution of 5 without padding loses 4 pixels, a pooling half of what is left: 32, 28, 14, 10, 5.
    left = [((side - 4) // 2 - 4) // 2 for side in _sides(shape)]
    with seeded(seed):
        return nn.Sequential(
            nn.Conv2d(shape.channels, 6, kernel_size=5, padding=_padding(shape)),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, kernel_size=5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            *_dense((16 * left[0] * left[1], 120, 84, classes)),
        )


def build_alexnet(shape: ImageShape, classes: int, *, seed: int) -> nn.Sequential:
    """Returns an AlexNet for small images with fresh weights, in float32 on the CPU.

    It takes (rows, channels, height, width) and gives logits, (rows, classes).

    Args:
        shape: Of the images; any.
        classes: Number of logits.
        seed: Of the weights; public.

    Raises:
        OptionError: if classes is no positive whole number.
    """
    check_sizes("AlexNet", classes=classes)
    height, width = (side // 8 for side in _sides(shape))
    with seeded(seed):
        return nn.Sequential(
            nn.Conv2d(shape.channels, 128, kernel_size=5, padding=_padding(shape, 2)),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(128, 192, kernel_size=5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(192, 256, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(256, 192, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv2d(192, 192, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(192 * height * width, classes),
        )


def build_vgg11(shape: ImageShape, classes: int, *, seed: int) -> nn.Sequential:
    """Returns a VGG11 with one linear layer, normalised per channel, with fresh weights, in float32 on the CPU.

    It takes (rows, channels, height, width) and gives logits, (rows, classes).

    Args:
        shape: Of the images; any.
        classes: Number of logits.
        seed: Of the weights; public.

    Raises:
        OptionError: if classes is no positive whole number.
    """
    check_sizes("VGG11", classes=classes)
    height, width = (side // 2**_POOLINGS for side in _sides(shape))
    layers: list[nn.Module] = []
    entering = shape.channels
    with seeded(seed):
        for channels in _VGG11:
            if channels == _POOL:
                layers.append(nn.MaxPool2d(2))
                continue
            padding = (1, 1) if layers else _padding(shape, 1)
            layers.append(nn.Conv2d(entering, channels, kernel_size=3, padding=padding))
            layers += [nn.GroupNorm(channels, channels), nn.ReLU()]
            entering = channels
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(entering * height * width, classes))


def _missing(side: int) -> int:
    """Rows of zeros on either side that bring `side` to 32, or one above."""
    return max(0, (SIDE - side + 1) // 2)


def _sides(shape: ImageShape) -> tuple[int, int]:
    """Height and width with the zeros."""
    return shape.height + 2 * _missing(shape.height), shape.width + 2 * _missing(shape.width)


def _padding(shape: ImageShape, own: int = 0) -> tuple[int, int]:
    """Padding of the first convolution, which has `own` anyway."""
    return _missing(shape.height) + own, _missing(shape.width) + own


def _dense(widths: Sequence[int]) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for entering, leaving in pairwise(widths):
        layers += [nn.Linear(entering, leaving), nn.ReLU()]
    return layers[:-1]
