"""The residual generator of DP-MEPF's public code (Harder et al., TMLR 2023): blocks that double the image.

A transposed convolution of the noise to the smallest picture, then blocks of batch normalisation, ReLU, nearest-
neighbour doubling and two 3 x 3 convolutions, led past by a 1 x 1 convolution that is doubled, and a last 3 x 3
convolution. Its output there is (tanh x + 1)/2, which is the sigmoid of 2x.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from noisegate.generators.image_network import ImageNetwork


class UpBlock(nn.Module):
    """Doubles height and width.

    Args:
        entering: Channels of the input.
        channels: Channels of the output.
    """

    def __init__(self, entering: int, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(entering),
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(entering, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )
        # The convolution first: a quarter of the work, and the same numbers.
        self.past = nn.Sequential(nn.Conv2d(entering, channels, 1), nn.Upsample(scale_factor=2))

    def forward(self, images: Tensor) -> Tensor:
        """Returns (rows, channels, 2 height, 2 width)."""
        activations: Tensor = self.body(images) + self.past(images)
        return activations


class Doubled(nn.Module):
    """Twice its input: from the argument of a tanh to that of a sigmoid."""

    def forward(self, values: Tensor) -> Tensor:
        """Returns twice `values`."""
        return 2 * values


def residual_layers(network: ImageNetwork, entering: int) -> list[nn.Module]:
    """Returns the layers from a vector, (rows, entering), to logits, (rows, channels, height, width).

    Args:
        network: The design; its channels are those of the smallest picture and after each doubling.
        entering: Length of the vector.
    """
    shape, widths = network.shape, network.channels
    side = (shape.height // network.scale, shape.width // network.scale)
    layers: list[nn.Module] = [nn.Unflatten(1, (entering, 1, 1)), nn.ConvTranspose2d(entering, widths[0], side)]
    layers += [UpBlock(wide, narrow) for wide, narrow in pairwise(widths)]
    layers += [nn.BatchNorm2d(widths[-1]), nn.ReLU(), nn.Conv2d(widths[-1], shape.channels, 3, padding=1), Doubled()]
    for layer in nn.ModuleList(layers).modules():
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.xavier_uniform_(layer.weight)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
    return [layer.to(memory_format=torch.channels_last) for layer in layers]
