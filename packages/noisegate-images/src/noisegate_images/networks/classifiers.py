"""Classifiers of images that PSG matches gradients on and is evaluated with: ConvNet, perceptron, LeNet, ….

Each takes images of any shape, (rows, channels, height, width), and gives logits, (rows, classes). Its fresh weights,
in float32 on the CPU, follow from a public seed. What is no positive whole number is refused with `OptionError`.

The sizes are those of the public code of PSG (Chen, Kerkouche and Fritz, NeurIPS 2022),
which is that of dataset condensation (Zhao, Mopuri and Bilen, ICLR 2021): no dropout,
and one normalisation group for each channel, without running statistics, so that
gradients are per example, under `torch.func`. The small network, WRN-16-2 and ResNet9
normalise by batches: nothing private is trained with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from noisegate.devices import seeded
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks.encoder import check_sizes
from noisegate_images.networks.named import FrozenNetwork

if TYPE_CHECKING:
    from jaxtyping import Float

_SIDE = 32  # pixels that the first convolution sees at least: smaller images are padded with zeros, 28 to 32
_RESNET9_SIDE = 12  # of which a quarter is left before the last convolution of 3 x 3, which has no padding
_RESNET_SIDE = 16  # one pixel of a channel alone would be normalised to zero
_POOL = 0
# Channels of each convolution, and where a pooling stands.
_VGG11 = (64, _POOL, 128, _POOL, 256, 256, _POOL, 512, 512, _POOL, 512, 512, _POOL)
_LEFT = 3  # rows and columns that the small network keeps in front of its linear layer
_STAGES = (
    (64, 1),
    (128, 2),
    (256, 2),
    (512, 2),
)  # channels and stride of each stage of ResNet18


class RowsToImages(nn.Module):
    """From rows in the order of `pixel_schema`, (rows, pixels), to (rows, channels, height, width)."""

    def __init__(self, shape: ImageShape) -> None:
        super().__init__()
        self.shape = shape

    def forward(
        self, rows: Float[Tensor, "rows pixels"]
    ) -> Float[Tensor, "rows c2 h2 w2"]:
        """Returns the images; channels of a pixel stand side by side in a row."""
        shape = self.shape
        return rows.reshape(-1, shape.height, shape.width, shape.channels).permute(
            0, 3, 1, 2
        )


def build_convnet(
    shape: ImageShape, classes: int, *, width: int = 128, depth: int = 3, seed: int
) -> nn.Sequential:
    """Returns the ConvNet of dataset condensation: `depth` blocks of `width` channels, then one linear layer."""
    # A block is a 3 x 3 convolution, a normalisation, ReLU and 2 x 2 average pooling. The first one pads the image with
    # zeros to the next multiple of 2^depth, 28 to 32 pixels, so that no pooling drops a row or a column.
    check_sizes("ConvNet", classes=classes, width=width, depth=depth)
    height, breadth = (
        (-side % (1 << depth) + 1) // 2 for side in (shape.height, shape.width)
    )
    layers: list[nn.Module] = []
    with seeded(seed):
        for block in range(depth):
            entering, padding = (
                (width, (1, 1))
                if block
                else (shape.channels, (1 + height, 1 + breadth))
            )
            layers += [
                nn.Conv2d(entering, width, kernel_size=3, padding=padding),
                nn.GroupNorm(width, width),
            ]
            layers += [nn.ReLU(), nn.AvgPool2d(2)]
        left = ((shape.height + 2 * height) >> depth) * (
            (shape.width + 2 * breadth) >> depth
        )
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width * left, classes))


def build_row_convnet(
    shape: ImageShape, classes: int, *, width: int, depth: int, seed: int
) -> nn.Sequential:
    """Returns `build_convnet` behind rows of pixels, (rows, pixels)."""
    return nn.Sequential(
        RowsToImages(shape),
        build_convnet(shape, classes, width=width, depth=depth, seed=seed),
    )


def frozen_convnet(
    module: nn.Module,
    *,
    mean: tuple[float, float, float],
    std: tuple[float, float, float],
) -> FrozenNetwork:
    """Returns a trained ConvNet of colour images as a frozen network, whose layers are what comes after each ReLU."""
    names = tuple(
        name for name, part in module.named_modules() if isinstance(part, nn.ReLU)
    )
    module = module.requires_grad_(False).eval()
    return FrozenNetwork(
        module=module,
        layers=names,
        nonnegative=frozenset(names),
        mean=mean,
        std=std,
        sha256="",
    )


def build_perceptron(
    shape: ImageShape, classes: int, *, hidden: tuple[int, ...] = (128, 128), seed: int
) -> nn.Sequential:
    """Returns a perceptron with ReLU between its layers; `hidden` are the widths of those in between, maybe none."""
    check_sizes(
        "a perceptron",
        classes=classes,
        **{f"hidden[{place}]": width for place, width in enumerate(hidden)},
    )
    with seeded(seed):
        return nn.Sequential(nn.Flatten(), *_dense((shape.size, *hidden, classes)))


def build_lenet(shape: ImageShape, classes: int, *, seed: int) -> nn.Sequential:
    """Returns a LeNet with ReLU and max pooling."""
    check_sizes("LeNet", classes=classes)
    # A convolution of 5 without padding loses 4 pixels, a pooling half of what is left: 32, 28, 14, 10, 5.
    height, width = (((side - 4) // 2 - 4) // 2 for side in _sides(shape))
    with seeded(seed):
        layers = [
            *_seen(shape.channels, 6, 5, _padding(shape), pool=True),
            *_seen(6, 16, 5, 0, pool=True),
        ]
        return nn.Sequential(
            *layers, nn.Flatten(), *_dense((16 * height * width, 120, 84, classes))
        )


def build_alexnet(shape: ImageShape, classes: int, *, seed: int) -> nn.Sequential:
    """Returns an AlexNet for small images."""
    check_sizes("AlexNet", classes=classes)
    height, width = (side // 8 for side in _sides(shape))
    with seeded(seed):
        layers = [
            *_seen(shape.channels, 128, 5, _padding(shape, 2), pool=True),
            *_seen(128, 192, 5, 2, pool=True),
        ]
        layers += [
            *_seen(192, 256, 3, 1),
            *_seen(256, 192, 3, 1),
            *_seen(192, 192, 3, 1, pool=True),
        ]
        return nn.Sequential(
            *layers, nn.Flatten(), nn.Linear(192 * height * width, classes)
        )


def _seen(
    entering: int,
    channels: int,
    kernel: int,
    padding: int | tuple[int, int],
    *,
    pool: bool = False,
) -> list[nn.Module]:
    convolution = nn.Conv2d(entering, channels, kernel_size=kernel, padding=padding)
    return (
        [convolution, nn.ReLU(), nn.MaxPool2d(2)] if pool else [convolution, nn.ReLU()]
    )


def build_vgg11(shape: ImageShape, classes: int, *, seed: int) -> nn.Sequential:
    """Returns a VGG11 with one linear layer, normalised per channel."""
    check_sizes("VGG11", classes=classes)
    height, width = (side >> _VGG11.count(_POOL) for side in _sides(shape))
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
        return nn.Sequential(
            *layers, nn.Flatten(), nn.Linear(entering * height * width, classes)
        )


class Block(nn.Module):
    """Two convolutions around which the input is led past; the first one and the way past have the `stride`."""

    def __init__(self, entering: int, channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(
                entering, channels, kernel_size=3, stride=stride, padding=1, bias=False
            ),
            nn.GroupNorm(channels, channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False),
            nn.GroupNorm(channels, channels),
        )
        self.past: nn.Module = nn.Identity()
        if entering != channels or stride != 1:
            narrow = nn.Conv2d(
                entering, channels, kernel_size=1, stride=stride, bias=False
            )
            self.past = nn.Sequential(narrow, nn.GroupNorm(channels, channels))

    def forward(
        self, images: Float[Tensor, "rows c h w"]
    ) -> Float[Tensor, "rows c2 h2 w2"]:
        """Returns activations, (rows, channels, height / stride, width / stride)."""
        return torch.relu(self.body(images) + self.past(images))


def build_resnet18(shape: ImageShape, classes: int, *, seed: int) -> nn.Sequential:
    """Returns a ResNet18 for small images, normalised per channel; those below 16 pixels are padded with zeros."""
    check_sizes("ResNet18", classes=classes)
    entering = _STAGES[0][0]
    with seeded(seed):
        first = nn.Conv2d(
            shape.channels,
            entering,
            kernel_size=3,
            padding=_padding(shape, 1, _RESNET_SIDE),
            bias=False,
        )
        layers: list[nn.Module] = [first, nn.GroupNorm(entering, entering), nn.ReLU()]
        for channels, stride in _STAGES:
            layers += [Block(entering, channels, stride), Block(channels, channels, 1)]
            entering = channels
        return nn.Sequential(
            *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(entering, classes)
        )


def _padding(shape: ImageShape, own: int = 0, least: int = _SIDE) -> tuple[int, int]:
    """Padding of a first convolution that has `own` anyway: zeros that bring a side to `least`, or one above."""
    height, width = (
        own + max(0, (least - side + 1) // 2) for side in (shape.height, shape.width)
    )
    return height, width


def _sides(shape: ImageShape) -> Iterable[int]:
    return (
        side + 2 * zeros
        for side, zeros in zip(
            (shape.height, shape.width), _padding(shape), strict=True
        )
    )


def _dense(widths: Sequence[int]) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for entering, leaving in pairwise(widths):
        layers += [nn.Linear(entering, leaving), nn.ReLU()]
    return layers[:-1]


def build_small(shape: ImageShape, classes: int, *, seed: int) -> nn.Sequential:
    """Returns a network of four convolutions, of which the first and the third halve the image."""
    # There is no dropout: its draws would depend on what else draws random numbers.
    check_sizes("the CNN", classes=classes)
    with seeded(seed):
        layers = [
            *_convolved(shape.channels, 32, kernel=5, stride=2),
            *_convolved(32, 32),
        ]
        layers += [
            *_convolved(32, 64, stride=2),
            *_convolved(64, 64),
            nn.AdaptiveAvgPool2d(_LEFT),
            nn.Flatten(),
        ]
        return nn.Sequential(*layers, nn.Linear(64 * _LEFT * _LEFT, classes))


def _convolved(
    entering: int,
    channels: int,
    *,
    kernel: int = 3,
    stride: int = 1,
    padding: tuple[int, int] | None = None,
) -> tuple[nn.Module, ...]:
    zeros = (kernel // 2, kernel // 2) if padding is None else padding
    convolution = nn.Conv2d(
        entering, channels, kernel, stride=stride, padding=zeros, bias=False
    )
    return convolution, nn.BatchNorm2d(channels), nn.ReLU()


class WideBlock(nn.Module):
    """Normalisation, ReLU and convolution, twice, around which the input is led past; the first has the stride."""

    def __init__(self, entering: int, channels: int, stride: int) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.BatchNorm2d(entering), nn.ReLU())
        first = _convolved(entering, channels, stride=stride)
        self.body = nn.Sequential(
            *first, nn.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False)
        )
        same = entering == channels and stride == 1
        self.past = (
            None
            if same
            else nn.Conv2d(entering, channels, kernel_size=1, stride=stride, bias=False)
        )

    def forward(
        self, images: Float[Tensor, "rows c h w"]
    ) -> Float[Tensor, "rows c2 h2 w2"]:
        """Returns activations, (rows, channels, height / stride, width / stride)."""
        active: Tensor = self.before(images)
        around = images if self.past is None else self.past(active)
        return torch.add(self.body(active), around)


def build_wide(shape: ImageShape, classes: int, *, seed: int) -> nn.Sequential:
    """Returns a WRN-16-2 (Zagoruyko and Komodakis, 2016, https://arxiv.org/abs/1605.07146)."""
    check_sizes("WRN-16-2", classes=classes)
    entering = 16
    with seeded(seed):
        layers: list[nn.Module] = [
            nn.Conv2d(shape.channels, entering, kernel_size=3, padding=1, bias=False)
        ]
        for channels, stride in ((32, 1), (64, 2), (128, 2)):
            layers += [
                WideBlock(entering, channels, stride),
                WideBlock(channels, channels, 1),
            ]
            entering = channels
        layers += [
            nn.BatchNorm2d(entering),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        ]
        return nn.Sequential(*layers, nn.Linear(entering, classes))


class Around(nn.Module):
    """Layers that keep the form of an image, with their input added to what they give."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*layers)

    def forward(
        self, images: Float[Tensor, "rows c h w"]
    ) -> Float[Tensor, "rows c h w"]:
        """Returns activations of the same shape."""
        return torch.add(images, self.body(images))


class ScaledLinear(nn.Linear):
    """A linear layer without bias whose output is multiplied by `factor`: smaller logits and steps at its start."""

    def __init__(self, entering: int, leaving: int, *, factor: float) -> None:
        super().__init__(entering, leaving, bias=False)
        self.factor = factor

    def forward(
        self, input: Float[Tensor, "rows entering"]
    ) -> Float[Tensor, "rows leaving"]:
        """Returns logits."""
        return super().forward(input) * self.factor


def build_resnet9(shape: ImageShape, classes: int, *, seed: int) -> nn.Sequential:
    """Returns the ResNet9 of FFCV's example of CIFAR-10 (Leclerc et al., 2022, https://ffcv.io)."""
    # DP-MEPF is evaluated with it. Images smaller than 12 pixels are padded with zeros.
    check_sizes("ResNet9", classes=classes)
    with seeded(seed):
        layers = [
            *_convolved(shape.channels, 64, padding=_padding(shape, 1, _RESNET9_SIDE))
        ]
        layers += [
            *_convolved(64, 128, kernel=5, stride=2),
            Around(*_convolved(128, 128), *_convolved(128, 128)),
        ]
        layers += [
            *_convolved(128, 256),
            nn.MaxPool2d(2),
            Around(*_convolved(256, 256), *_convolved(256, 256)),
        ]
        layers += [
            *_convolved(256, 128, padding=(0, 0)),
            nn.AdaptiveMaxPool2d(1),
            nn.Flatten(),
        ]
        return nn.Sequential(*layers, ScaledLinear(128, classes, factor=0.2))
