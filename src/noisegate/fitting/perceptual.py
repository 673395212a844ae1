"""Perceptual features of points: what a generator's pixels map to through the frozen network, differentiably."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from noisegate.features.layers import ChosenLayers
from noisegate.features.perceptual import Moment, Perceptual
from noisegate.fitting.embedding import RowEmbedding

_TINY = 1e-20


class LatestActivations(nn.Module):
    """The activations of the points that were last given, so that embeddings that share a network run it once.

    Args:
        layers: The network and its layers; not changed. The parameters are shared.
    """

    def __init__(self, layers: ChosenLayers) -> None:
        super().__init__()
        self.layers = layers.copied()
        self._latest = threading.local()  # halves of a batch come from two threads at once

    def forward(self, points: Tensor) -> Tensor:
        """Returns activations, (rows, dim), of intensities (rows, pixels)."""
        latest, slope = self._latest, points.requires_grad and torch.is_grad_enabled()
        known = getattr(latest, "points", None)
        if known is None or known() is not points or latest.values.requires_grad != slope:
            latest.points, latest.values = weakref.ref(points), self.layers(points)
        values: Tensor = latest.values
        return values


class PointPerceptual(RowEmbedding):
    """`Perceptual` of points, up to rounding.

    Args:
        activations: What the network gives; the same object for all embeddings that share it.
        moment: 1 for the activations, 2 for their squares.
    """

    def __init__(self, activations: LatestActivations, moment: Moment) -> None:
        super().__init__()
        self.activations, self.moment = activations, moment

    def forward(self, points: Tensor) -> Tensor:
        """Returns features, (dim, rows), of intensities (rows, pixels) in [0, 1]."""
        return self._rows(points).T

    def means(self, made: Tensor | Sequence[Tensor], sets: int) -> Tensor:
        """Returns mean features, (dim, sets); see `Embedding`."""
        assert isinstance(made, Tensor)
        features = self._rows(made)
        return features.reshape(sets, -1, features.shape[1]).mean(dim=1).T

    def _rows(self, points: Tensor) -> Tensor:
        values: Tensor = self.activations(points)
        # By the largest first, as squares of squares leave float32 soon.
        values = values / values.detach().abs().amax(dim=1, keepdim=True).clamp_min(_TINY)
        if self.moment == 2:
            values = values.square()
        unit: Tensor = values / values.norm(dim=1, keepdim=True).clamp_min(_TINY)
        return unit


def point_perceptual(features: Perceptual, known: dict[int, LatestActivations]) -> PointPerceptual:
    """Returns the embedding of points of a map.

    Args:
        features: The map.
        known: The networks of other maps by the identity of theirs; added to.
    """
    shared = known.setdefault(id(features.activations), LatestActivations(features.activations.layers))
    return PointPerceptual(shared, features.moment)
