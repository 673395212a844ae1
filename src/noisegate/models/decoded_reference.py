"""The record model of DP-DRE with a decoder: the features of public images, drawn by weight and decoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from noisegate.models.decoded import Decoded
from noisegate.models.record_model import Array
from noisegate.models.weights import systematic_sample, weight_summary


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedFeatures:
    """Features of public images, with weights for each label.

    Attributes:
        vectors: Of length 1, float32 (references, features).
        weights: Nonnegative, (labels, references); one row where there are no labels. A row may be zero: its label has
            no share either.
    """

    vectors: npt.NDArray[np.float32]
    weights: npt.NDArray[np.float64]

    @property
    def features(self) -> int:
        """Length of a feature."""
        return int(self.vectors.shape[1])

    @property
    def labels(self) -> int:
        """How many rows of weights there are."""
        return len(self.weights)

    @property
    def shares(self) -> npt.NDArray[np.float64]:
        """Share of each label, by its weights, (labels,)."""
        shares: npt.NDArray[np.float64] = self.weights.sum(axis=1) / self.weights.sum()
        return shares

    def draw(self, labels: Tensor, random: torch.Generator) -> Tensor:
        """Returns a feature for each label, drawn by its weights, float32 (rows, features)."""
        asked = labels.numpy()
        places = np.zeros(len(asked), dtype=np.intp)
        for label in np.unique(asked):
            rows = np.flatnonzero(asked == label)
            places[rows] = systematic_sample(self.weights[label], len(rows), random)
        return torch.from_numpy(self.vectors[places])

    def tensors(self) -> dict[str, Array]:
        """Returns features and weights."""
        return {"vectors": self.vectors, "weights": self.weights}

    def to_json(self) -> dict[str, Any]:
        """Returns the number of references, and what they weigh."""
        return {"records": len(self.vectors), **weight_summary(self.weights)}

    @classmethod
    def from_saved(cls, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> Self:
        """Returns the features that `tensors` and `to_json` describe.

        Raises:
            KeyError, TypeError, ValueError: if they describe none.
        """
        vectors, weights = tensors["vectors"], tensors["weights"].astype(np.float64)
        if vectors.ndim != 2 or weights.ndim != 2 or {weights.shape[1], description["records"]} != {len(vectors)}:
            raise ValueError(f"features of shape {vectors.shape} with weights of shape {weights.shape}")
        if not np.isfinite(vectors).all() or not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError("features and weights must be finite numbers, and no weight below 0")
        if not weights.sum() > 0:
            raise ValueError("one weight must be above 0")
        return cls(vectors=vectors.astype(np.float32), weights=weights)


@dataclass(frozen=True, kw_only=True, eq=False)
class DecodedReference(Decoded):
    """Weighted features of public images and a decoder; see `Decoded`."""

    kind: ClassVar[str] = "decoded-reference"

    @classmethod
    def source_from(cls, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> WeightedFeatures:
        """Returns the features that `tensors` and `to_json` describe."""
        return WeightedFeatures.from_saved(tensors, description)
