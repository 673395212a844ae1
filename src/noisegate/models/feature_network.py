"""A generator of features: noise and a label in, a vector of length 1 out, as an encoder gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from noisegate.models.feature_gaussians import unit_rows
from noisegate.models.generator import Generator
from noisegate.networks.weights import check_sizes, seeded


@dataclass(frozen=True, kw_only=True)
class FeatureNetwork:
    """The design of a generator of features.

    Attributes:
        features: Length of a feature.
        classes: Number of labels; 1 without a label.
        latent: Length of the noise vector.
        hidden: Widths of the hidden layers.
        nonnegative: Whether features have no negative entry.

    Raises:
        OptionError: if a number is not positive.
    """

    features: int
    classes: int
    latent: int
    hidden: tuple[int, ...]
    nonnegative: bool

    def __post_init__(self) -> None:
        widths = {f"hidden[{place}]": width for place, width in enumerate(self.hidden)}
        sizes = {"features": self.features, "classes": self.classes, "latent": self.latent}
        check_sizes("a generator of features", **sizes, **widths)

    def to_json(self) -> dict[str, Any]:
        """Returns the design as a JSON object."""
        return asdict(self) | {"hidden": list(self.hidden)}


class FeatureGenerator(Generator):
    """A perceptron from noise and a one-hot label to a vector of length 1.

    It normalises nothing over a batch, so that what it makes in training is what is drawn from it later.

    Args:
        design: Its sizes.
    """

    def __init__(self, design: FeatureNetwork) -> None:
        super().__init__()
        self.design = design
        widths: Sequence[int] = (design.latent + design.classes, *design.hidden)
        layers: list[nn.Module] = []
        for wide, narrow in pairwise(widths):
            layers += [nn.Linear(wide, narrow), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], design.features))

    def noise(self, rows: int, random: torch.Generator) -> Tensor:
        """Returns standard normal noise from public randomness, (rows, latent), on the CPU."""
        return torch.randn(rows, self.design.latent, generator=random)

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:
        """Returns features of length 1, (rows, features).

        Args:
            noise: (rows, latent).
            labels: (rows,) int64.
        """
        one_hot = nn.functional.one_hot(labels, self.design.classes).to(noise.dtype)
        made: Tensor = self.layers(torch.cat([noise, one_hot], dim=1))
        # Smooth, so that no entry stays 0 for ever.
        return unit_rows(nn.functional.softplus(made) if self.design.nonnegative else made)


def build_feature_generator(design: FeatureNetwork, *, seed: int) -> FeatureGenerator:
    """Returns an untrained generator, on the CPU; the same seed gives the same weights."""
    with seeded(seed):
        return FeatureGenerator(design)
