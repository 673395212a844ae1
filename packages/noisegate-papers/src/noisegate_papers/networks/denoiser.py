"""A denoiser of small images for diffusion models: a short U-Net that is told how much noise there is, and the label.

As in EDM, Karras, Aittala, Aila and Laine (NeurIPS 2022), https://arxiv.org/abs/2206.00364, but small: one block at
each size on either side, halves meet by addition, no attention, and the first size may be that of patches of pixels.
With images x in [−1, 1], noise n and its standard deviation σ, the network F sees c_in·(x + σn) and is to say
(x − c_skip·(x + σn))/c_out, so that every level asks for something of size 1: `coefficients`. Every row is treated on
its own and nothing is drawn, so gradients are per example.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pixel_shuffle, pixel_unshuffle, silu

from noisegate.devices import seeded
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks.classifiers import RowsToImages

if TYPE_CHECKING:
    from jaxtyping import Float

_DATA_STD = 0.5  # σ_data: of images in [−1, 1], for which the coefficients are made

_GROUPS = 8
_FREQUENCIES = 16


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions behind a normalisation each, the second one shifted and scaled by an embedding."""

    def __init__(self, channels: int, embedding: int) -> None:
        super().__init__()
        groups = math.gcd(channels, _GROUPS)
        self.first_norm, self.second_norm = (nn.GroupNorm(groups, channels) for _ in range(2))
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.modulation = nn.Linear(embedding, 2 * channels)

    def forward(
        self, images: Float[Tensor, "rows channels h w"], embedding: Float[Tensor, "rows embedding"]
    ) -> Float[Tensor, "rows channels h w"]:
        """Returns activations of the shape of `images`."""
        scale, shift = self.modulation(embedding)[:, :, None, None].chunk(2, dim=1)
        found = self.first(silu(self.first_norm(images)))
        found = self.second(silu(self.second_norm(found) * (1 + scale) + shift))
        added: Tensor = images + found
        return added


class Denoiser(nn.Module):
    """The network F of EDM; see `build_denoiser`.

    A row is an image, its noise level (log σ over 4), and its label, of `classes` or none, as a one-hot code.
    """

    def __init__(self, shape: ImageShape, classes: int, *, channels: Sequence[int], patch: int) -> None:
        super().__init__()
        width, pixels = 2 * channels[0], shape.channels * patch**2
        self.shape, self.classes, self.patch = shape, classes, patch
        self.images = RowsToImages(shape)
        self.level, self.label = nn.Linear(2 * _FREQUENCIES, width), nn.Linear(max(classes, 1), width, bias=False)
        self.entry = nn.Conv2d(pixels, channels[0], 3, padding=1)
        self.down = nn.ModuleList(nn.Conv2d(4 * wide, narrow, 1) for wide, narrow in pairwise(channels))
        self.up = nn.ModuleList(nn.Conv2d(narrow, 4 * wide, 1) for wide, narrow in pairwise(channels))
        self.before = nn.ModuleList(ResidualBlock(size, width) for size in channels)
        self.after = nn.ModuleList(ResidualBlock(size, width) for size in channels[:-1])
        self.norm = nn.GroupNorm(math.gcd(channels[0], _GROUPS), channels[0])
        self.exit = nn.Conv2d(channels[0], pixels, 3, padding=1)
        nn.init.zeros_(self.exit.weight)

    def forward(self, rows: Float[Tensor, "rows inputs"]) -> Float[Tensor, "rows pixels"]:
        """Returns images in the order of `pixel_schema`, (rows, pixels), of rows (rows, pixels + 1 + classes)."""
        size = self.shape.size
        embedding = self._embedding(rows[:, size : size + 1], rows[:, size + 1 :])
        found, passed = self.entry(pixel_unshuffle(self.images(rows[:, :size]), self.patch)), list[Tensor]()
        for place, block in enumerate(self.before):
            if place:
                passed.append(found)
                found = self.down[place - 1](pixel_unshuffle(found, 2))
            found = block(found, embedding)
        for place in reversed(range(len(self.after))):
            found = self.after[place](passed[place] + pixel_shuffle(self.up[place](found), 2), embedding)
        made: Tensor = pixel_shuffle(self.exit(silu(self.norm(found))), self.patch)
        return made.permute(0, 2, 3, 1).flatten(1)

    def _embedding(
        self, level: Float[Tensor, "rows 1"], labels: Float[Tensor, "rows classes"]
    ) -> Float[Tensor, "rows embedding"]:
        frequencies = 2.0 ** torch.arange(_FREQUENCIES, device=level.device, dtype=level.dtype).div(2).sub(2)
        angles = level * frequencies
        found = self.level(torch.cat([angles.cos(), angles.sin()], dim=1))
        return silu(found + self.label(labels) if self.classes else found)


def build_denoiser(shape: ImageShape, classes: int, *, channels: Sequence[int], patch: int, seed: int) -> Denoiser:
    """Returns a denoiser with fresh weights, in float32 on the CPU.

    Args:
        shape: Of the images, whose sides are multiples of patch · 2^(sizes − 1).
        classes: Number of labels; 0 for images without.
        channels: Of the activations at each size, each half of the one before.
        patch: Pixels to a side of what the first size sees as one.
        seed: Of the weights, which is public.
    """
    with seeded(seed):
        denoiser = Denoiser(shape, classes, channels=channels, patch=patch)
    if not classes:
        del denoiser.label
    return denoiser


class Coefficients(NamedTuple):
    """Of one noise level or of many, of one shape."""

    sigma: Tensor
    skip: Tensor
    out: Tensor
    into: Tensor
    level: Tensor
    """What the network is told: log σ over 4."""


def coefficients(sigma: Float[Tensor, "*shape"]) -> Coefficients:
    """Returns the preconditioning of EDM, table 1, at noise of standard deviation `sigma`."""
    square = sigma.square() + _DATA_STD**2
    return Coefficients(
        sigma, _DATA_STD**2 / square, sigma * _DATA_STD / square.sqrt(), square.rsqrt(), sigma.log() / 4
    )
