"""The generator that GS-WGAN and PSG call DCGAN: one dense layer, three transposed convolutions.

Radford, Metz and Chintala (ICLR 2016), https://arxiv.org/abs/1511.06434, in the sizes of PSG's equation 8: of 28 pixels
the pictures are 4, 7, 11 and 28 wide, with 256, 128 and 64 channels. Between them stand ReLU and pixel normalisation
(Karras et al., ICLR 2018, section 4.2), which treats every image alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from noisegate.devices import seeded
from noisegate.errors import OptionError
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks.encoder import check_sizes

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

_CHANNELS = (256, 128, 64)
_LEAST = 22
_TINY = 1e-8


class PixelNorm(nn.Module):
    """Divides the channels of each pixel by their root mean square."""

    def forward(self, images: Float[Tensor, "rows channels h w"]) -> Float[Tensor, "rows channels h w"]:
        """Returns activations of the same shape, of mean square one at each pixel."""
        return images * torch.rsqrt(images.square().mean(dim=1, keepdim=True) + _TINY)


class Cropped(nn.Module):
    """Leaves out the last row and the last column."""

    def forward(self, images: Float[Tensor, "rows channels h w"]) -> Float[Tensor, "rows channels h2 w2"]:
        """Returns activations, (rows, channels, height − 1, width − 1)."""
        return images[:, :, :-1, :-1]


def build_dcgan(shape: ImageShape, inputs: int, *, seed: int) -> nn.Sequential:
    """Returns a fresh network from (rows, inputs) to (rows, channels, height, width), without an end of its own.

    Examples:
        >>> import torch
        >>> from noisegate_papers.networks.dcgan import build_dcgan
        >>> from noisegate.schema.pixels import ImageShape
        >>> build_dcgan(ImageShape(height=28, width=28), 20, seed=0)(torch.zeros(2, 20)).shape
        torch.Size([2, 1, 28, 28])
    """
    check_sizes("a DCGAN", inputs=inputs)
    if shape.height % 2 or shape.width % 2 or min(shape.height, shape.width) < _LEAST:
        raise OptionError(f"image={shape}: a DCGAN makes images whose sides are even and {_LEAST} pixels or more.")
    # Backwards: the last layer makes 2a + 6 of a, the one before adds 4, the first adds 4 and loses one.
    height, width = ((side - 6) // 2 - 7 for side in (shape.height, shape.width))
    first, second, third = _CHANNELS
    with seeded(seed):
        return nn.Sequential(
            nn.Linear(inputs, first * height * width),
            nn.Unflatten(1, (first, height, width)),
            nn.ReLU(),
            PixelNorm(),
            nn.ConvTranspose2d(first, second, kernel_size=5),
            Cropped(),
            nn.ReLU(),
            PixelNorm(),
            nn.ConvTranspose2d(second, third, kernel_size=5),
            nn.ReLU(),
            PixelNorm(),
            nn.ConvTranspose2d(third, shape.channels, kernel_size=8, stride=2),
        )
