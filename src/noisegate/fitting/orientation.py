"""Gradient orientations of generated images, differentiably, in float32; see `noisegate.features.orientation`."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from noisegate.features.orientation import INTENSITIES, OrientedFourier
from noisegate.fitting.embedding import RowEmbedding
from noisegate.fitting.points import PointFourier


class PointOriented(RowEmbedding):
    """`OrientedFourier` of points, up to its rounding.

    Args:
        features: The frozen features.
    """

    down: Tensor
    right: Tensor
    vectors: Tensor

    def __init__(self, features: OrientedFourier) -> None:
        super().__init__()
        orientations = features.orientations
        self.image, self.fourier = orientations.image, PointFourier(features.fourier)
        self.scale = orientations.unit * INTENSITIES
        for name, cells in zip(("down", "right"), orientations.grid, strict=True):
            self.register_buffer(name, torch.from_numpy(orientations.pooling(cells).astype(np.float32)))
        half = orientations.vectors[: orientations.directions // 2].astype(np.float32)
        self.register_buffer("vectors", torch.from_numpy(half)[:, :, None, None])

    def forward(self, points: Tensor) -> Tensor:
        """Returns features, (2F, rows), of images in the order of `pixel_schema`, (rows, pixels)."""
        features: Tensor = self.fourier(self.orientations(points))
        return features

    def orientations(self, points: Tensor) -> Tensor:
        """Returns the orientations of images, (rows, directions · cells)."""
        shape = self.image
        gray = points.reshape(-1, shape.height, shape.width, shape.channels).sum(dim=3)
        wide = torch.nn.functional.pad(gray[:, None], (1, 1, 1, 1), mode="replicate")[:, 0]
        down, right = wide[:, 2:, 1:-1] - wide[:, :-2, 1:-1], wide[:, 1:-1, 2:] - wide[:, 1:-1, :-2]
        down, right = down[:, None], right[:, None]
        along = down * self.vectors[:, 0] + right * self.vectors[:, 1]
        across = (down * self.vectors[:, 1] - right * self.vectors[:, 0]).abs()
        strength = torch.cat([along - across, -along - across], dim=1).relu()
        pooled = self.down @ strength @ self.right.T
        return pooled.flatten(1) * self.scale
