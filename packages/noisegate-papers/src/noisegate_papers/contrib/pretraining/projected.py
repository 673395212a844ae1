"""The discriminator that a decoder is trained against: small heads on what frozen layers of an encoder see.

Projected GAN, Sauer et al. (NeurIPS 2021). One more head looks at the pixels themselves, so that noise which the
encoder does not see is seen. Each head scores every place of an image on its own, and by how well it goes with the
feature it is to show (a projection, Miyato and Koyama, ICLR 2018).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

from noisegate.devices import seeded
from noisegate_images.networks.encoder import LAYERS
from noisegate_images.networks.named import ChosenLayers

if TYPE_CHECKING:
    from jaxtyping import Float

SEEN = ("early", "late", "last")
"""Layers of the encoder that have a head; "middle" has the size of "late", and cost more than it brought."""

_CHANNELS = dict(zip(LAYERS, (64, 64, 144, 144), strict=True))
_WIDTH, _PIXELS = 48, 32
_SLOPE, _SMALLEST = 0.2, 4


class Head(nn.Module):
    """Scores of places: how real they look, and how much like a feature."""

    def __init__(self, channels: int, side: int, features: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(max(math.ceil(math.log2(side / _SMALLEST)), 0)):
            layers += [spectral_norm(nn.Conv2d(channels, _WIDTH, 4, stride=2, padding=1)), nn.LeakyReLU(_SLOPE)]
            channels = _WIDTH
        layers += [spectral_norm(nn.Conv2d(channels, _WIDTH, 3, padding=1)), nn.LeakyReLU(_SLOPE)]
        self.body = nn.Sequential(*layers)
        self.score = spectral_norm(nn.Conv2d(_WIDTH, 1, 1))
        self.likeness = nn.Linear(features, _WIDTH)
        nn.init.normal_(self.likeness.weight, std=features**-0.5)

    def forward(
        self, activations: Float[Tensor, "rows channels height width"], inputs: Float[Tensor, "rows features"]
    ) -> Float[Tensor, "rows places"]:
        """Returns scores of activations beside features."""
        seen = self.body(activations)
        likeness = (seen * self.likeness(inputs)[:, :, None, None]).sum(dim=1).flatten(1)
        score: Tensor = self.score(seen).flatten(1) + likeness * _WIDTH**-0.5
        return score


class ProjectedDiscriminator(nn.Module):
    """One head for each layer that is seen, and one for the pixels.

    Args:
        layers: The encoder with the layers `SEEN`, for the images' shape, a square.
        scales: What the activations of each layer are divided by.
        features: Length of a feature.
        seed: Of the weights; public.
    """

    def __init__(self, layers: ChosenLayers, scales: tuple[float, ...], features: int, *, seed: int) -> None:
        super().__init__()
        self._layers, self._scales = (layers,), scales  # in a tuple, or it would be a part of this module
        shape = layers.shape
        with seeded(seed):
            self.heads = nn.ModuleList(
                Head(_CHANNELS[name], side, features) for name, side in zip(SEEN, _sides(layers), strict=True)
            )
            self.stem = nn.Sequential(
                spectral_norm(nn.Conv2d(shape.channels, _PIXELS, 4, stride=2, padding=1)), nn.LeakyReLU(_SLOPE)
            )
            self.heads.append(Head(_PIXELS, shape.height // 2, features))
        self.to(memory_format=torch.channels_last)

    def seen(self, images: Float[Tensor, "rows channels side side"]) -> list[Tensor]:
        """Returns what the heads look at: activations of the layers, in `SEEN`'s order, and the images themselves."""
        parts = activations_of(self._layers[0], images)
        return [*(part / scale for part, scale in zip(parts, self._scales, strict=True)), 2 * images - 1]

    def forward(self, seen: list[Tensor], inputs: Float[Tensor, "rows features"]) -> list[Tensor]:
        """Returns the scores of each head, (rows, places), high for what looks real and like its feature.

        The inputs are centred features, entries of size 1 or so.
        """
        *activations, pixels = seen
        looked_at = [*activations, self.stem(pixels)]
        return [head(part, inputs) for head, part in zip(self.heads, looked_at, strict=True)]


def activations_of(layers: ChosenLayers, images: Float[Tensor, "rows channels side side"]) -> list[Tensor]:
    """Returns what layers give for square images in [0, 1], (rows, channels, height, width) each, in `SEEN`'s order."""
    found: dict[int, Tensor] = {}
    layers.each(images.permute(0, 2, 3, 1).flatten(1), lambda place, values: found.update({place: values}))
    return [
        found[place].reshape(-1, side, side, _CHANNELS[name]).permute(0, 3, 1, 2)
        for place, (name, side) in enumerate(zip(SEEN, _sides(layers), strict=True))
    ]


def _sides(layers: ChosenLayers) -> list[int]:
    return [math.isqrt(size // _CHANNELS[name]) for name, size in zip(SEEN, layers.sizes, strict=True)]
