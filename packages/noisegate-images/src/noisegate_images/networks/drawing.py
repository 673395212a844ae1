"""A small decoder of drawings: noise in, one light stroke drawing on dark out, 28 x 28 pixels.

Two linear layers to 7 x 7 pixels, then two convolutions to four times the channels, which become 2 x 2 pixels (Shi et
al., CVPR 2016). No layer mixes the rows of a batch. The weights in the package were learnt from signs that a script
draws (`noisegate_papers.contrib.pretraining.strokes`), and from no picture that anybody made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import safetensors.torch
import torch
from torch import Tensor, nn

from noisegate_images.networks.weights import read_weights

if TYPE_CHECKING:
    from jaxtyping import Float

SHIPPED = "drawing.safetensors"
SHIPPED_SHA256 = "3f4a1444c0d23bbe818d5de04433172c4016325359805729c9703578a6d5d5c3"

LATENT = 32
"""Length of the noise."""

_SMALLEST, _WIDTHS = 7, (32, 16)
_START = -2.0  # a drawing is mostly background


class DrawingDecoder(nn.Module):
    """The network, from noise to the logits of intensities."""

    def __init__(self) -> None:
        super().__init__()
        wide, narrow = _WIDTHS
        size = wide * _SMALLEST**2
        self.dense = nn.Sequential(nn.Linear(LATENT, 128), nn.ReLU(), nn.Linear(128, size), nn.ReLU())
        self.first = nn.Conv2d(wide, 4 * narrow, 3, padding=1)
        self.last = nn.Conv2d(narrow, 4, 5, padding=2)
        assert self.last.bias is not None
        nn.init.constant_(self.last.bias, _START)

    def forward(self, code: Float[Tensor, "rows latent"]) -> Float[Tensor, "rows 1 28 28"]:
        """Returns logits."""
        small = self.dense(code).unflatten(1, (_WIDTHS[0], _SMALLEST, _SMALLEST))
        small = small.contiguous(memory_format=torch.channels_last)
        middle = nn.functional.pixel_shuffle(self.first(small), 2).relu()
        return nn.functional.pixel_shuffle(self.last(middle), 2)


def drawing_bytes(decoder: DrawingDecoder) -> bytes:
    """Returns the file of a decoder, in float16."""
    halves = {name: value.detach().to(torch.float16).contiguous() for name, value in decoder.state_dict().items()}
    return safetensors.torch.save(halves)


def load_drawing() -> dict[str, Tensor]:
    """Returns the weights in the package, in float32; a `ModelError` if they are others than this version's."""
    content, _ = read_weights(None, SHIPPED, "decoder", SHIPPED_SHA256)
    return {name: value.to(torch.float32) for name, value in safetensors.torch.load(content).items()}
