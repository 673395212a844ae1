"""Networks that were trained on pictures of one size, given pictures of any: the square in the middle, resized."""

from __future__ import annotations

from torch import Tensor, nn


class Resized(nn.Module):
    """Brings images to a size, runs a network, and gives what it gives through a module of its own.

    Args:
        network: From (rows, 3, side, side) to vectors, (rows, any).
        side: Height and width that it takes.
        mode: "bilinear" or "bicubic".

    Attributes:
        feature: Passes the vectors on, so that they are the output of a module and can be chosen as a layer.
    """

    def __init__(self, network: nn.Module, side: int, *, mode: str) -> None:
        super().__init__()
        self.network, self.side, self.mode = network, side, mode
        self.feature = nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        """Returns vectors, (rows, any), of images (rows, 3, height, width)."""
        height, width = images.shape[2:]
        least = min(height, width)
        top, left = (height - least) // 2, (width - least) // 2
        square = images[:, :, top : top + least, left : left + least]
        if least != self.side:
            size = (self.side, self.side)
            square = nn.functional.interpolate(square, size, mode=self.mode, align_corners=False, antialias=True)
        vectors: Tensor = self.feature(self.network(square).flatten(1))
        return vectors
