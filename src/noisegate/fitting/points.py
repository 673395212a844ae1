"""Features of points: what a generator's pixels map to, differentiably, in float32.

Where a table generator gives distributions, whose features are expectations (`fitting.expectation`), an image generator
gives one image for each noise vector; the average over noise vectors is then the expectation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from noisegate.features.fourier import TURN, RandomFourier
from noisegate.fitting.embedding import RowEmbedding


class PointFourier(RowEmbedding):
    """`RandomFourier` of points, up to its rounding of values and angles.

    Args:
        features: The frozen features; they look at numeric columns only (`kernel="numeric"`).
    """

    frequencies: Tensor

    def __init__(self, features: RandomFourier) -> None:
        super().__init__()
        self.scale = float(len(features.members) ** -0.5)
        radians = torch.from_numpy(features.frequencies.T * (2 * math.pi / TURN))
        self.register_buffer("frequencies", radians.to(torch.float32).contiguous())

    def forward(self, points: Tensor) -> Tensor:
        """Returns features, (2F, rows), in the order of `RandomFourier`.

        Args:
            points: (rows, numeric columns), in [0, 1].
        """
        phase = self.frequencies @ points.T
        features: Tensor = torch.stack([phase.cos(), phase.sin()], dim=1).flatten(0, 1) * self.scale
        return features
