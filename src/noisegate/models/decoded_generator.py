"""The record model of GANs in feature space: features from a network, decoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from noisegate.models.decoded import Decoded
from noisegate.models.feature_network import FeatureGenerator, FeatureNetwork, build_feature_generator
from noisegate.models.record_model import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class GeneratedFeatures:
    """Features that a network makes.

    Attributes:
        generator: On the CPU, in evaluation mode.
    """

    generator: FeatureGenerator

    @property
    def features(self) -> int:
        """Length of a feature."""
        return self.generator.design.features

    @property
    def labels(self) -> int:
        """How many labels the network knows."""
        return self.generator.design.classes

    def draw(self, labels: Tensor, random: torch.Generator) -> Tensor:
        """Returns a feature of length 1 for each label, float32 (rows, features)."""
        with torch.no_grad():
            made: Tensor = self.generator(self.generator.noise(len(labels), random), labels)
        return made

    def tensors(self) -> dict[str, Array]:
        """Returns the weights."""
        return {name: value.numpy() for name, value in self.generator.state_dict().items()}

    def to_json(self) -> dict[str, Any]:
        """Returns the design."""
        return self.generator.design.to_json()

    @classmethod
    def from_saved(cls, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> Self:
        """Returns the source that `tensors` and `to_json` describe.

        Raises:
            KeyError, TypeError, ValueError, RuntimeError: if they describe none.
        """
        design = FeatureNetwork(**{**description, "hidden": tuple(description["hidden"])})
        generator = build_feature_generator(design, seed=0)
        generator.load_state_dict({name: torch.from_numpy(value) for name, value in tensors.items()})
        return cls(generator=generator.requires_grad_(False).eval())


@dataclass(frozen=True, kw_only=True, eq=False)
class DecodedGenerator(Decoded):
    """Features from a network and a decoder; see `Decoded`."""

    kind: ClassVar[str] = "decoded-generator"

    @classmethod
    def source_from(cls, tensors: Mapping[str, Array], description: Mapping[str, Any]) -> GeneratedFeatures:
        """Returns the features that `tensors` and `to_json` describe."""
        return GeneratedFeatures.from_saved(tensors, description)
