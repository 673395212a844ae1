"""The ConvNet of dataset condensation, which PSG matches gradients on and is evaluated with.

Blocks of a 3 x 3 convolution, a normalisation of each channel of each image, ReLU and 2 x 2 average pooling, then one
linear layer (Chen, Kerkouche and Fritz, NeurIPS 2022, PSG; the sizes are those of Zhao, Mopuri and Bilen, ICLR 2021).
Every image is treated on its own: the normalisation has one group for each channel of an image and no running
statistics. So gradients are per example, and the module works under ``torch.func``.
"""

from __future__ import annotations

from torch import nn

from noisegate.networks.named import FrozenNetwork
from noisegate.networks.rows import RowsToImages
from noisegate.networks.weights import check_sizes, seeded
from noisegate.schema.pixels import ImageShape


def build_convnet(shape: ImageShape, classes: int, *, width: int = 128, depth: int = 3, seed: int) -> nn.Sequential:
    """Returns a ConvNet with fresh weights, in float32 on the CPU.

    It takes (rows, channels, height, width) and gives logits, (rows, classes). The first convolution pads the image
    with zeros to the next multiple of 2^depth, 28 to 32 pixels, so that no pooling drops a row or a column.

    Args:
        shape: Of the images; any.
        classes: Number of logits.
        width: Channels of each block.
        depth: Number of blocks.
        seed: Of the weights; public. The same seed gives the same weights, and the global random state is untouched.

    Raises:
        OptionError: if classes, width or depth is no positive whole number.
    """
    check_sizes("ConvNet", classes=classes, width=width, depth=depth)
    height, breadth = (_padding(side, depth) for side in (shape.height, shape.width))
    layers: list[nn.Module] = []
    with seeded(seed):
        for block in range(depth):
            entering, padding = (width, (1, 1)) if block else (shape.channels, (1 + height, 1 + breadth))
            layers += [nn.Conv2d(entering, width, kernel_size=3, padding=padding), nn.GroupNorm(width, width)]
            layers += [nn.ReLU(), nn.AvgPool2d(2)]
        left = ((shape.height + 2 * height) >> depth) * ((shape.width + 2 * breadth) >> depth)
        layers += [nn.Flatten(), nn.Linear(width * left, classes)]
    return nn.Sequential(*layers)


def build_row_convnet(shape: ImageShape, classes: int, *, width: int, depth: int, seed: int) -> nn.Sequential:
    """Returns `build_convnet` behind rows of pixels, (rows, pixels)."""
    return nn.Sequential(RowsToImages(shape), build_convnet(shape, classes, width=width, depth=depth, seed=seed))


def frozen_convnet(
    module: nn.Module, *, mean: tuple[float, float, float], std: tuple[float, float, float]
) -> FrozenNetwork:
    """Returns a trained ConvNet of colour images as a frozen network, whose layers are what comes after each ReLU."""
    names = tuple(name for name, part in module.named_modules() if isinstance(part, nn.ReLU))
    module = module.requires_grad_(False).eval()
    return FrozenNetwork(module=module, layers=names, nonnegative=frozenset(names), mean=mean, std=std, sha256="")


def _padding(side: int, depth: int) -> int:
    """Rows of zeros on either side that bring `side` to a multiple of 2^depth, or one above."""
    return (-side % (1 << depth) + 1) // 2
