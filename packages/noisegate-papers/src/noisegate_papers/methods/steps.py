"""Settings of methods that train step by step, and the result of their releases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from noisegate.errors import ModelError, OptionError
from noisegate.methods.method import AUDITED_STEPS
from noisegate.models.checkpoint import FinishedFit, Fit
from noisegate.privacy.gradient_plan import GradientQuery, split_arrays
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.settings import Count, Fraction, Positive, Seed, settings

if TYPE_CHECKING:
    from torch import Tensor, nn

    from noisegate_papers.models.released_classifier import ReleasedClassifier

Shapes = Mapping[str, tuple[int, ...]]
"""Shapes of arrays, by name."""

GENERATOR = "generator"
"""The event of a method whose steps train a generator, and the name of its release."""

AUDITED_GAN: Mapping[str, Any] = MappingProxyType(
    {
        **AUDITED_STEPS,
        "hidden": (8,),
        "discriminator_hidden": (8,),
        "latent": 4,
        "batch": 16,
    }
)
"""The part of `Method.audit_settings` that private GANs have in common."""


@settings
class StepSettings:
    """Settings of the steps; none of them depends on private data."""

    renamed: ClassVar[Mapping[str, str]] = {
        "rate": "sampling_probability",
        "norm": "clip_norm",
    }

    steps: Count = 500
    """Number of noisy gradients. Each adds to the cost."""
    sampling_probability: Fraction = 0.05
    """Probability that a record is in the Poisson sample of a step."""
    clip_norm: Positive = 1.0
    """L2 norm that the gradient of each record is clipped to."""
    seed: Seed = 0
    """Seed for non-private randomness: initial weights, public draws. The samples and the noise that protects the
    records cannot be seeded."""

    def steps_of(self, event: str, parameters: Shapes, **options: Any) -> GradientQuery:
        """Returns the steps of a plan.

        Args:
            event: Name of their event.
            parameters: Shape of each array that gradients are taken of.
            options: Further fields of `GradientQuery`.
        """
        return GradientQuery(
            name=event,
            parameters=parameters,
            steps=self.steps,
            sampling_probability=self.sampling_probability,
            clip_norm=self.clip_norm,
            **options,
        )


class TrainsClassifier(ABC):
    """Ability to train a classifier at the gate; such a method makes no records."""

    makes: ClassVar[Literal["records", "classifier"]] = "classifier"

    @abstractmethod
    def classifier(self, release: Release) -> ReleasedClassifier:
        """Returns the classifier in a release.

        Raises:
            ModelError: if it is of another method, schema or settings.
        """

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> Fit:
        """Returns a finished fit, because the training was part of the query."""
        return FinishedFit()

    def synthesizer(self, release: Release, fitting: Any = None) -> ReleasedClassifier:
        """Returns the classifier, which is the result of a release of this method."""
        return self.classifier(release)


def public_shares(
    schema: Schema, shares: tuple[float, ...] | None
) -> tuple[float, ...] | None:
    """Returns the share of each code of the label, as public knowledge.

    Args:
        schema: Public schema of the records.
        shares: The shares that were given, missing last where it may be; None for equal
            ones.

    Returns:
        The shares; None where there is no label.

    Raises:
        OptionError: if there is another number of them than of codes.
    """
    layout = schema.layout
    label = None if layout.label is None else layout.coded[layout.label]
    if shares is not None and (label is None or len(shares) != label.size):
        if label is None:
            problem = "the schema has no label; leave them out"
        else:
            missing = ", missing included" if label.missing else ""
            problem = (
                f"the label {label.name!r} {label.size} codes; give one for "
                f"each{missing}"
            )
        raise OptionError(f"label_shares has {len(shares)} numbers, {problem}.")
    if label is None:
        return None
    return shares or (1 / label.size,) * label.size


def shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each tensor."""
    return {name: tuple(value.shape) for name, value in tensors.items()}


def weight_shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each parameter of a module, which gradients are taken of."""
    return shapes_of(dict(module.named_parameters()))


def released_arrays(
    release: Release, event: str, shapes: Shapes, *, what: str
) -> dict[str, Tensor]:
    """Returns the trained arrays in a release, in float32.

    Args:
        release: The release.
        event: Name of the event that trained them.
        shapes: Their shapes, in the order of the plan.
        what: What they are, for the message.

    Raises:
        ModelError: if the release has no such arrays.
    """
    import torch

    values = release.values.get(event)
    size = sum(prod(shape) for shape in shapes.values())
    if values is None or values.size != size:
        raise ModelError(
            f"the release has no {what}: it was made by another method or settings."
        )
    return {
        name: torch.from_numpy(array.copy())
        for name, array in split_arrays(values, shapes).items()
    }
