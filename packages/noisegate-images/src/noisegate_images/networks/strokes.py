"""A small encoder and a small decoder of drawings, learnt from signs that a script draws and nobody made.

The encoder is trained to distinguish random signs, of which it sees each moved, bent,
thickened and thinned, so it brings drawings together that differ in nothing else.
`benchmarks/images/train_strokes.py` trains networks like those in the package, up to
rounding.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from noisegate.errors import ModelError
from noisegate_images.networks.encoder import read_weights

if TYPE_CHECKING:
    from jaxtyping import Float

SHIPPED = "strokes.safetensors"
SHIPPED_SHA256 = "7e55adb9f07486935509251f0a4df3aaf1d29fb4523f60585a8212d4a559bc60"

SIDE = 28  # pixels that an image is brought to, bilinearly
LAYER = "embedding"  # the module whose outputs are the vector
NUMBERS = 64  # length of the vector

_CHANNELS = (1, 16, 32, 64)


class _OfGrey(nn.Conv2d):
    """A convolution of one channel, whose slope at images that a generator made takes a third of the time."""

    def forward(
        self, images: Float[Tensor, "rows 1 h w"]
    ) -> Float[Tensor, "rows c down right"]:
        if not images.requires_grad:
            return super().forward(images)
        assert self.bias is not None
        pieces = nn.functional.unfold(images, (5, 5), padding=2, stride=2)
        weight = self.weight.flatten(1).expand(len(images), -1, -1)
        values = torch.baddbmm(self.bias[:, None], weight, pieces)
        return values.reshape(*values.shape[:2], (images.shape[2] + 1) // 2, -1)


class StrokeEncoder(nn.Module):
    """The network, which was trained with batch normalisation after each convolution."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for place, (entering, channels) in enumerate(pairwise(_CHANNELS)):
            kernel = 3 if place else 5
            kind = nn.Conv2d if place else _OfGrey
            layers += [
                kind(entering, channels, kernel, stride=2, padding=kernel // 2),
                nn.ReLU(),
            ]
        self.convolutions = nn.Sequential(*layers)
        self.embedding = nn.Linear(_CHANNELS[-1] * 16, NUMBERS)

    def forward(self, images: Float[Tensor, "rows c h w"]) -> Float[Tensor, "rows 64"]:
        """Returns the vectors of images with intensities in [0, 1], of any size; channels are averaged."""
        grey = images.mean(dim=1, keepdim=True)
        if grey.shape[2:] != (SIDE, SIDE):
            grey = nn.functional.interpolate(
                grey, (SIDE, SIDE), mode="bilinear", antialias=True
            )
        vectors: Tensor = self.embedding(self.convolutions(grey).flatten(1))
        return vectors


def load_strokes(
    path: Path | None = None, *, sha256: str | None = None
) -> StrokeEncoder:
    """Returns a frozen encoder in evaluation mode, in float32 on the CPU; the one in the package by default."""
    content, _ = read_weights(
        path, SHIPPED, "encoder", SHIPPED_SHA256 if path is None else sha256
    )
    encoder = StrokeEncoder()
    try:
        encoder.load_state_dict(
            {
                name: v.to(torch.float32)
                for name, v in safetensors.torch.load(content).items()
            }
        )
    except (safetensors.SafetensorError, RuntimeError) as error:
        raise ModelError(
            f"encoder {path or SHIPPED}: no encoder of strokes ({str(error).splitlines()[0]})."
        ) from None
    return encoder.requires_grad_(False).eval()


DRAWING = "drawing.safetensors"
DRAWING_SHA256 = "3f4a1444c0d23bbe818d5de04433172c4016325359805729c9703578a6d5d5c3"

LATENT = 32  # length of the noise

_SMALLEST, _WIDTHS = 7, (32, 16)
_BACKGROUND = -2.0  # a drawing is mostly background


class DrawingDecoder(nn.Module):
    """The network, from noise to the logits of intensities."""

    def __init__(self) -> None:
        super().__init__()
        wide, narrow = _WIDTHS
        size = wide * _SMALLEST**2
        self.dense = nn.Sequential(
            nn.Linear(LATENT, 128), nn.ReLU(), nn.Linear(128, size), nn.ReLU()
        )
        self.first = nn.Conv2d(wide, 4 * narrow, 3, padding=1)
        self.last = nn.Conv2d(narrow, 4, 5, padding=2)
        assert self.last.bias is not None
        nn.init.constant_(self.last.bias, _BACKGROUND)

    def forward(
        self, code: Float[Tensor, "rows latent"]
    ) -> Float[Tensor, "rows 1 28 28"]:
        """Returns logits."""
        small = self.dense(code).unflatten(1, (_WIDTHS[0], _SMALLEST, _SMALLEST))
        small = small.contiguous(memory_format=torch.channels_last)
        middle = nn.functional.pixel_shuffle(self.first(small), 2).relu()
        return nn.functional.pixel_shuffle(self.last(middle), 2)


def load_drawing() -> dict[str, Tensor]:
    """Returns the weights in the package, in float32; a `ModelError` if they are others than this version's."""
    content, _ = read_weights(None, DRAWING, "decoder", DRAWING_SHA256)
    return {
        name: value.to(torch.float32)
        for name, value in safetensors.torch.load(content).items()
    }
