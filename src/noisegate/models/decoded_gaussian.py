"""The record model of DP-MGE: features from a Gaussian, decoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from noisegate.models.decoded import Decoded
from noisegate.models.feature_gaussians import FeatureGaussians
from noisegate.models.record_model import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class DecodedGaussian(Decoded):
    """Gaussian features and a decoder; see `Decoded`."""

    kind: ClassVar[str] = "decoded-gaussian"

    @classmethod
    def source_from(cls, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> FeatureGaussians:
        """Returns the Gaussians that `tensors` and `to_json` describe."""
        return FeatureGaussians.from_saved(tensors, description)
