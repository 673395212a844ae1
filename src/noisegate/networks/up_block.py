"""The blocks of DP-MEPF's generator (Harder et al., TMLR 2023): each doubles an image, and is led past itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

if TYPE_CHECKING:
    from jaxtyping import Float


class UpBlock(nn.Module):
    """Doubles height and width, from `entering` to `channels` channels."""

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

    def forward(self, images: Float[Tensor, "rows c h w"]) -> Float[Tensor, "rows _ 2*h 2*w"]:
        """Returns (rows, channels, 2 height, 2 width)."""
        activations: Tensor = self.body(images) + self.past(images)
        return activations


class Doubled(nn.Module):
    """Twice its input: from the argument of a tanh to that of a sigmoid."""

    def forward(self, values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Returns twice `values`."""
        return 2 * values
