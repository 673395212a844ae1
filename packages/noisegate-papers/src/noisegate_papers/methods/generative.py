"""Methods whose noisy gradients train one thing with settings of its own, and of them those that train a model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.errors import ModelError, OptionError
from noisegate.methods.gradient import GradientMethod
from noisegate.models.checkpoint import FitState
from noisegate.privacy.gradient_plan import GradientPlan, unpacked
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.settings import Count, Fraction, Positive, Seed, settings

if TYPE_CHECKING:
    from torch import Tensor, nn

    from noisegate.gate.gate import Gate
    from noisegate.models.record_model import RecordModel
    from noisegate.models.synthesizer import Synthesizer
    from noisegate_papers.models.released_classifier import ReleasedClassifier

Shapes = Mapping[str, tuple[int, ...]]


@settings
class DescentMethod(GradientMethod):
    """Settings of the steps; none of them depends on private data."""

    renamed: ClassVar[Mapping[str, str]] = {"rate": "sampling_probability", "norm": "clip_norm"}

    steps: Count = 500
    """How many noisy gradients are taken, which is what costs privacy."""
    sampling_probability: Fraction = 0.05
    """Poisson sampling probability per step."""
    clip_norm: Positive = 1.0
    """L2 norm that the gradient of each record is clipped to."""
    seed: Seed = 0
    """Of the public randomness: initial weights, public draws. Never of the samples or the noise."""

    def steps_of(self, name: str, parameters: Shapes, **options: Any) -> GradientPlan:
        """Returns the plan of the steps, for `gradient_plan`: of an event, and of the shapes of what is trained."""
        return GradientPlan(
            name=name,
            steps=self.steps,
            sampling_probability=self.sampling_probability,
            clip_norm=self.clip_norm,
            parameters=parameters,
            **options,
        )


@settings
class GenerativeMethod(DescentMethod):
    """Base of methods whose training ends with a model of records: nothing is left to be fitted to the release."""

    @abstractmethod
    def model(self, release: Release, fitting: Any = None) -> RecordModel:
        """Returns the model in a release; a ModelError if that is of another method, schema or settings."""

    def notes(self, release: Release) -> dict[str, Any]:
        """Returns what a report says of the model, beside the steps."""
        return {}

    def synthesizer(self, release: Release, fitting: Any = None) -> Synthesizer:
        """Returns the synthesizer in a release; post-processing, which costs no privacy."""
        from noisegate.models.checkpoint import FitSummary
        from noisegate.models.synthesizer import Synthesizer

        model, notes = self.model(release), self.notes(release)
        summary = FitSummary(step=self.steps, steps=self.steps, discrepancy=float("inf"), notes=notes)
        return Synthesizer(release=release, model=model, summary=summary)

    def _fit_gate(self, gate: Gate, *, device: str, report: Any, convert: Any) -> Synthesizer:
        """Returns a synthesizer; `report` gets a discrepancy of NaN, as there is no distance to a release."""
        from noisegate.devices import choose_device

        def after_step(done: int) -> None:
            if report is not None:
                report(FitState(step=done, steps=self.steps, discrepancy=float("nan")))

        release = self.query(gate, report=after_step, device=str(choose_device(device)))
        return replace(self.synthesizer(release), convert=convert)


@settings
class ClassifierMethod(DescentMethod):
    """Base of methods whose training ends with a classifier: a release of theirs holds it, and no record is made."""

    makes = "classifier"

    @abstractmethod
    def classifier(self, release: Release) -> ReleasedClassifier:
        """Returns the classifier in a release; a ModelError if that is of another method, schema or settings."""

    def synthesizer(self, release: Release, fitting: Any = None) -> Any:
        """Returns the classifier, which is what a release of this method holds."""
        return self.classifier(release)

    def _fit_gate(self, gate: Gate, *, device: str, report: Any, convert: Any) -> Any:
        """Returns a classifier of the records behind `gate`; see `query`."""
        from noisegate.devices import choose_device

        return self.classifier(self.query(gate, report=report, device=str(choose_device(device))))


def public_shares(schema: Schema, shares: tuple[float, ...] | None) -> tuple[float, ...] | None:
    """Returns the share of each code of the label that was given, or equal ones; None where there is no label."""
    layout = schema.layout
    label = None if layout.label is None else layout.coded[layout.label]
    if shares is not None and (label is None or len(shares) != label.size):
        has = "the schema has no label" if label is None else f"the label {label.name!r} {label.size} codes"
        rest = "leave them out" if label is None else f"give one for each{', missing included' * label.missing}"
        raise OptionError(f"label_shares has {len(shares)} numbers, {has}; {rest}.")
    return None if label is None else shares or (1 / label.size,) * label.size


def shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each tensor."""
    return {name: tuple(value.shape) for name, value in tensors.items()}


def weight_shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each parameter of a module, which gradients are taken of."""
    return shapes_of(dict(module.named_parameters()))


def released_arrays(release: Release, name: str, shapes: Shapes, *, what: str) -> dict[str, Tensor]:
    """Returns the float32 arrays of an event of a release by their names, of these shapes in the order of the plan."""
    import torch

    values, size = release.values.get(name), sum(map(prod, shapes.values()))
    if values is None or values.size != size:
        raise ModelError(f"the release has no {what}: it was made by another method or settings.")
    return {name: torch.from_numpy(array.copy()) for name, array in unpacked(values, shapes).items()}
