"""Methods whose noisy gradients train one thing, of them those that train a model, and of these private GANs.

Of a private GAN a discriminator takes noisy gradients at real records, and a generator
learns from it alone (`noisegate_papers.training.adversarial`). Gradients at generated
records are clipped too, record by record.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from noisegate.errors import ModelError, OptionError
from noisegate.gate.per_example.gradients import (
    RecordLoss,
    RowInputs,
    clipped_gradients,
    real_loss,
)
from noisegate.methods.gradient import GradientMethod
from noisegate.methods.method import AUDITED_STEPS
from noisegate.models.checkpoint import FitState, FitSummary
from noisegate.privacy.gradient_plan import GradientQuery, split_arrays, steps_of
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.seeds import MOST_SEED
from noisegate.settings import (
    Count,
    Fraction,
    ImageSize,
    Positive,
    Seed,
    Widths,
    settings,
)
from noisegate_papers.training.schedules import AdversarialConfig

if TYPE_CHECKING:
    from torch import Tensor, nn

    from noisegate.gate.gate import Gate
    from noisegate.models.record_model import RecordModel
    from noisegate.models.synthesizer import Synthesizer
    from noisegate_images.models.generator import Generator
    from noisegate_papers.models.inputs import DiscriminatorInput
    from noisegate_papers.models.released_classifier import ReleasedClassifier
    from noisegate_papers.training.adversarial import AdversarialTraining, Discriminator

Shapes = Mapping[str, tuple[int, ...]]


@settings
class DescentMethod(GradientMethod):
    """Settings of the steps; none of them depends on private data."""

    renamed: ClassVar[Mapping[str, str]] = {
        "rate": "sampling_probability",
        "norm": "clip_norm",
    }

    steps: Count = 500
    """How many noisy gradients are taken, which is what costs privacy."""
    sampling_probability: Fraction = 0.05
    """Poisson sampling probability per step."""
    clip_norm: Positive = 1.0
    """L2 norm that the gradient of each record is clipped to."""
    seed: Seed = 0
    """Seed for non-private randomness: initial weights, public draws. Never of the samples or the noise."""

    def steps_of(self, name: str, parameters: Shapes, **options: Any) -> GradientQuery:
        """Returns the plan of the steps, for `gradient_plan`: of an event, and of the shapes of what is trained."""
        return GradientQuery(
            name=name, parameters=parameters, **self.descent, **options
        )

    @property
    def descent(self) -> dict[str, Any]:
        """What every plan of steps is given."""
        return {
            name: getattr(self, name)
            for name in ("steps", "sampling_probability", "clip_norm")
        }


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
        from noisegate.models.synthesizer import Synthesizer

        model, notes = self.model(release), self.notes(release)
        summary = FitSummary(
            step=self.steps, steps=self.steps, discrepancy=float("inf"), notes=notes
        )
        made = Synthesizer(release=release, model=model, summary=summary)
        if release.schema.has_rules:
            return made.with_verdict_of_rules()
        return made

    def _fit_gate(
        self, gate: Gate, *, device: str, report: Any, convert: Any
    ) -> Synthesizer:
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
        from noisegate.devices import choose_device

        return self.classifier(
            self.query(gate, report=report, device=str(choose_device(device)))
        )


def public_shares(
    schema: Schema, shares: tuple[float, ...] | None
) -> tuple[float, ...] | None:
    """Returns the share of each code of the label that was given, or equal ones; None where there is no label."""
    layout = schema.layout
    label = None if layout.label is None else layout.coded[layout.label]
    if shares is not None and (label is None or len(shares) != label.size):
        has = (
            "the schema has no label"
            if label is None
            else f"the label {label.name!r} {label.size} codes"
        )
        rest = (
            "leave them out"
            if label is None
            else f"give one for each{', missing included' * label.missing}"
        )
        raise OptionError(f"label_shares has {len(shares)} numbers, {has}; {rest}.")
    return None if label is None else shares or (1 / label.size,) * label.size


def shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each tensor."""
    return {name: tuple(value.shape) for name, value in tensors.items()}


def weight_shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each parameter of a module, which gradients are taken of."""
    return shapes_of(dict(module.named_parameters()))


def released_arrays(
    release: Release, name: str, shapes: Shapes, *, what: str
) -> dict[str, Tensor]:
    """Returns the float32 arrays of an event of a release by their names, of these shapes in the order of the plan."""
    import torch

    values, size = release.values.get(name), sum(map(prod, shapes.values()))
    if values is None or values.size != size:
        raise ModelError(
            f"the release has no {what}: it was made by another method or settings."
        )
    return {
        name: torch.from_numpy(array.copy())
        for name, array in split_arrays(values, shapes).items()
    }


GENERATOR, LABELS = "generator", "labels"
"""The event and the release; and what the learned logits of the labels are called in it."""


AUDITED_GAN: Mapping[str, Any] = MappingProxyType(
    {
        **AUDITED_STEPS,
        "hidden": (8,),
        "discriminator_hidden": (8,),
        "latent": 4,
        "batch": 16,
    }
)
"""Of `Method.audit_settings`."""


@settings
class AdversarialMethod(AdversarialConfig, GenerativeMethod):
    """Settings of private GANs; none of them depends on private data."""

    renamed: ClassVar[Mapping[str, str]] = {
        f"{network}_rate": f"{network}_learning_rate"
        for network in ("discriminator", "generator")
    }

    image: ImageSize | None = None
    """Height, width and channels of the images; None for a table."""
    latent: Count = 32
    """Length of the generator's noise vector."""
    hidden: Widths = (128, 128)
    """Widths of the generator's hidden layers."""
    discriminator_hidden: Widths = (128, 128)
    """Widths of a discriminator that is a perceptron; each weight takes its part of the noise."""

    def __post_init__(self) -> None:
        if self.discriminator_steps > self.steps:
            why = "the generator would never move. Lower it, or take more steps."
            raise OptionError(
                f"discriminator_steps={self.discriminator_steps} is more than steps={self.steps}: {why}"
            )

    @abstractmethod
    def generator(self, schema: Schema) -> Generator:
        """Returns the generator at its start, on the CPU."""

    @abstractmethod
    def discriminator(self, schema: Schema) -> Discriminator:
        """Returns the discriminator at its start, on the CPU; refuses a schema that does not fit."""

    @abstractmethod
    def inputs(self, schema: Schema) -> tuple[RowInputs, DiscriminatorInput]:
        """Returns the maps from a real record and from the generator to discriminator inputs, labels left out."""

    def model_of(
        self, generator: Generator, weights: npt.NDArray[np.float64], schema: Schema
    ) -> RecordModel:
        """Returns the model that a trained generator is, with the share of each label."""
        return generator.record_model(weights, schema.layout)

    def label_weights(self, schema: Schema) -> tuple[float, ...] | None:
        """Returns the share of each code of the label as public knowledge; None where it is learned."""
        return None

    def start(
        self,
        schema: Schema,
        generator: Generator,
        discriminator: Discriminator,
        device: str,
    ) -> None:
        """Does with both networks, in place, what comes before the first private gradient: nothing."""

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientQuery:
        """Returns the steps of the discriminator; refuses a schema that does not fit the settings."""
        return self.steps_of(
            GENERATOR,
            weight_shapes(self.discriminator(schema)),
            trained=self._released(schema),
        )

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the loss of one real record, which the discriminator should take for real."""
        return real_loss(self.discriminator(schema), self.inputs(schema)[0], schema)

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> AdversarialTraining:
        """Returns generator and discriminator at their start."""
        import torch

        from noisegate_papers.training.adversarial import AdversarialTraining

        generator, discriminator = (
            self.generator(schema).to(device),
            self.discriminator(schema).to(device),
        )
        self.start(schema, generator, discriminator, device)
        weights = self.label_weights(schema)
        logits = (
            torch.tensor(weights).log()
            if weights
            else torch.zeros(max(schema.layout.classes, 1))
        )
        return AdversarialTraining(
            self,
            generator,
            logits.to(device),
            learned=LABELS in steps_of(plan).query.released,
            encode=self.inputs(schema)[1],
            discriminator=discriminator,
            gradients=partial(clipped_gradients, clip_norm=self.clip_norm),
            records=batch,
        )

    def model(self, release: Release, fitting: Any = None) -> RecordModel:
        """Returns the released generator, to be drawn from."""
        schema, shapes, generator = (
            release.schema,
            self._released(release.schema),
            self.generator(release.schema),
        )
        what = f"generator of {sum(map(prod, shapes.values()))} numbers"
        arrays = released_arrays(release, GENERATOR, shapes, what=what)
        logits = arrays.pop(LABELS, None)
        generator.load_state_dict(arrays)
        shares = np.asarray(self.label_weights(schema) or (1.0,))
        weights = shares if logits is None else logits.double().softmax(dim=0).numpy()
        return self.model_of(generator.requires_grad_(False).eval(), weights, schema)

    @property
    def discriminator_seed(self) -> int:
        """The seed of the discriminator's weights: another than the generator's."""
        return (self.seed + 1) % (MOST_SEED + 1)

    def _released(self, schema: Schema) -> dict[str, tuple[int, ...]]:
        learned = schema.layout.label is not None and self.label_weights(schema) is None
        return shapes_of(self.generator(schema).state_dict()) | (
            {LABELS: (schema.layout.classes,)} if learned else {}
        )
