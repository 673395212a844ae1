"""Image generators: noise and a label in, one image out, as pixel intensities in [0, 1].

The two networks of DP-MERF and DP-HP (Harder et al. 2021; Vinaroz et al. 2022), with their widths as settings.
Batch normalisation mixes the rows of a batch. That is harmless here, on the public side, but a network in training
mode gives other images than in evaluation mode, which is the one that is sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from noisegate.generators.generator import Generator
from noisegate.generators.image_network import SCALE, ImageNetwork

# Drawings are mostly background: a start at 0.12 saves the steps that darken a grey image. Others soon leave it.
_START = -2.0


class ImageGenerator(Generator):
    """What the image generators share: their noise, their label, their output.

    Args:
        network: Its design.
        classes: Number of labels.
        logits: From noise and one-hot label, (rows, latent + classes), to logits, (rows, channels, height, width).
    """

    def __init__(self, network: ImageNetwork, classes: int, logits: nn.Module) -> None:
        super().__init__()
        self.network, self.classes = network, classes
        self.logits = logits

    def noise(self, rows: int, random: torch.Generator) -> Tensor:
        """Returns standard normal noise from public randomness, (rows, latent), on the CPU."""
        return torch.randn(rows, self.network.latent, generator=random)

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        """Returns intensities, (rows, height · width · channels), in the order of `pixel_schema`.

        Args:
            noise: (rows, latent).
            labels: (rows,) int64.
        """
        one_hot = nn.functional.one_hot(labels, self.classes).to(noise.dtype)
        images: Tensor = self.logits(torch.cat([noise, one_hot], dim=1)).sigmoid()
        return images.permute(0, 2, 3, 1).flatten(1)


def build_image_generator(network: ImageNetwork, classes: int, *, seed: int) -> ImageGenerator:
    """Returns an untrained generator of images with `classes` labels; the same seed gives the same weights."""
    build = _convolutional if network.kind == "convolutional" else _fully_connected
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ImageGenerator(network, classes, build(network, [network.latent + classes, *network.hidden]))


def _convolutional(network: ImageNetwork, widths: Sequence[int]) -> nn.Sequential:
    """The papers' ConvCondGen: fully connected to a quarter of the size, then twice doubled and convolved."""
    deep, shallow = network.channels
    height, width = network.shape.height // SCALE, network.shape.width // SCALE
    last = nn.Conv2d(shallow, network.shape.channels, 5, padding=2)
    assert last.bias is not None
    nn.init.constant_(last.bias, _START)
    layers = [
        *_dense(widths),
        nn.Linear(widths[-1], deep * height * width),
        nn.BatchNorm1d(deep * height * width),
        nn.Unflatten(1, (deep, height, width)),
        nn.UpsamplingBilinear2d(scale_factor=2),
        nn.Conv2d(deep, shallow, 5, padding=2),
        nn.ReLU(),
        nn.UpsamplingBilinear2d(scale_factor=2),
        last,
    ]
    # The same numbers in another order in memory: about twice as fast on a CPU.
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


def _fully_connected(network: ImageNetwork, widths: Sequence[int]) -> nn.Sequential:
    shape = network.shape
    last = nn.Linear(widths[-1], shape.size)
    nn.init.constant_(last.bias, _START)
    return nn.Sequential(*_dense(widths), last, nn.Unflatten(1, (shape.channels, shape.height, shape.width)))


def _dense(widths: Sequence[int]) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for wide, narrow in pairwise(widths):
        layers += [nn.Linear(wide, narrow), nn.BatchNorm1d(narrow), nn.ReLU()]
    return layers
