"""Rows of intensities as batches of images for a network: standardised, on a device, and maybe moved a little."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from noisegate.evaluation.training import LabelledRows
from noisegate.schema.pixels import ImageShape

if TYPE_CHECKING:
    import torch

SEEN_AT_ONCE = 1000


class Images:
    """Rows of intensities, given out in batches on a device: standardised as the images trained on are.

    Args:
        rows: float32 in [0, 1] or uint8 up to 255, row by row from the top left, channels of a pixel side by side.
        shape: of the images.
        device: where the batches go. The rows stay where they are: a GPU need not hold them all.
        standard: places of the rows whose mean and deviation of each channel standardise.
    """

    def __init__(self, rows: LabelledRows, shape: ImageShape, device: torch.device, *, standard: np.ndarray) -> None:
        self.rows, self.shape, self.device = rows, shape, device
        flat = rows.features.reshape(len(rows.features), -1, shape.channels)
        total = np.zeros((2, shape.channels))
        for part in np.array_split(standard, -(-len(standard) // SEEN_AT_ONCE)):
            values = flat[part].astype(np.float64) / self._full(rows)
            total += values.sum(axis=(0, 1)), np.square(values).sum(axis=(0, 1))
        mean, square = total / (len(standard) * flat.shape[1])
        spread = np.sqrt(np.maximum(square - mean**2, 0))
        self.mean, self.spread = mean, np.where(spread > 0, spread, 1.0)

    def like(self, rows: LabelledRows) -> Images:
        """Give other rows, standardised with the same figures."""
        other = copy.copy(self)
        other.rows = rows
        return other

    def __len__(self) -> int:
        """Number of images."""
        return len(self.rows.labels)

    def batch(self, places: np.ndarray) -> torch.Tensor:
        """Give images as float32, (rows, channels, height, width)."""
        import torch

        shape = self.shape
        rows = torch.from_numpy(self.rows.features[places]).to(self.device).float() / self._full(self.rows)
        mean, spread = (
            torch.tensor(figure, dtype=torch.float32, device=self.device) for figure in (self.mean, self.spread)
        )
        images = (rows.reshape(-1, shape.height, shape.width, shape.channels) - mean) / spread
        return images.permute(0, 3, 1, 2)

    def labels(self, places: np.ndarray) -> torch.Tensor:
        """Give class codes."""
        import torch

        return torch.from_numpy(self.rows.labels[places].astype(np.int64)).to(self.device)

    @staticmethod
    def _full(rows: LabelledRows) -> float:
        return 255.0 if rows.features.dtype == np.uint8 else 1.0


def moved(images: torch.Tensor, most: int, random: np.random.Generator) -> torch.Tensor:
    """Move each image by whole pixels; what comes in from outside is the image's edge.

    Args:
        images: (rows, channels, height, width).
        most: pixels along each side; 0 to leave the images as they are.
        random: public randomness.
    """
    import torch

    if not most:
        return images
    rows, _, height, width = images.shape
    padded = torch.nn.functional.pad(images, (most,) * 4, mode="replicate")
    down, right = (torch.from_numpy(random.integers(0, 2 * most + 1, rows)).to(images.device) for _ in range(2))
    each = torch.arange(rows, device=images.device)[:, None, None]
    rows_of = down[:, None] + torch.arange(height, device=images.device)
    columns_of = right[:, None] + torch.arange(width, device=images.device)
    return padded.permute(0, 2, 3, 1)[each, rows_of[:, :, None], columns_of[:, None, :]].permute(0, 3, 1, 2)
