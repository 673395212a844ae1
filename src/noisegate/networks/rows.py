"""Rows of numbers as images, for networks that stand behind a table of pixels."""

from __future__ import annotations

from torch import Tensor, nn

from noisegate.schema.pixels import ImageShape


class RowsToImages(nn.Module):
    """From rows in the order of `pixel_schema`, (rows, pixels), to (rows, channels, height, width).

    Args:
        shape: Of the images.
    """

    def __init__(self, shape: ImageShape) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, rows: Tensor) -> Tensor:
        """Returns the images; channels of a pixel stand side by side in a row."""
        shape = self.shape
        return rows.reshape(-1, shape.height, shape.width, shape.channels).permute(0, 3, 1, 2)
