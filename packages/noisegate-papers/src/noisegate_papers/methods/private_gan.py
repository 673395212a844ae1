"""Private GANs: a discriminator is trained with noisy gradients at real records, and a generator by it only.

The discriminator gets noisy gradients at real records, and gradients at generated ones, which cost no privacy
(`noisegate_papers.training.adversarial`). Gradients at generated records are clipped too, record by record. Methods
differ in their networks and in the way they treat the labels: each states a `GAN`, from which plan, loss, training and
model are derived.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.gate.per_example.gradients import (
    RecordLoss,
    RowInputs,
    clipped_gradients,
    real_loss,
)
from noisegate.methods.gradient import LearnsByGradients, TrainsModel
from noisegate.privacy.gradient_plan import GradientQuery, steps_of
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.seeds import MOST_SEED
from noisegate.settings import Count, ImageSize, Widths, settings
from noisegate_papers.methods.steps import (
    GENERATOR,
    StepSettings,
    released_arrays,
    shapes_of,
    weight_shapes,
)
from noisegate_papers.training.schedules import AdversarialConfig

if TYPE_CHECKING:
    from noisegate.models.record_model import RecordModel
    from noisegate_images.models.generator import Generator
    from noisegate_papers.models.inputs import DiscriminatorInput
    from noisegate_papers.training.adversarial import AdversarialTraining, Discriminator

LABELS = "labels"
"""What the learned logits of the labels are called in a release."""

ToModel: TypeAlias = Callable[["Generator", npt.NDArray[np.float64]], "RecordModel"]
"""From a trained generator and the share of each label, (labels,), to the model of records."""
BeforeSteps: TypeAlias = Callable[["Generator", "Discriminator", str], None]
"""Changes both networks in place on a device, before the first private gradient."""


@dataclass(frozen=True, kw_only=True)
class GAN:
    """The networks of a private GAN, and how records reach them."""

    generator: Generator
    """The generator in its initial state, on the CPU."""
    discriminator: Discriminator
    """The discriminator in its initial state, on the CPU."""
    real_inputs: RowInputs
    """Map from a real record to the inputs of the discriminator, without the label."""
    generated_inputs: DiscriminatorInput
    """Map from the output of the generator to the inputs of the discriminator."""
    label_shares: tuple[float, ...] | None
    """Share of each code of the label, as public knowledge; None if they are learned, or there is no label."""
    to_model: ToModel
    pretrain: BeforeSteps | None = None

    def learns_labels(self, schema: Schema) -> bool:
        """Returns whether the shares of the labels are learned beside the generator."""
        return schema.layout.label is not None and self.label_shares is None

    def released_shapes(self, schema: Schema) -> dict[str, tuple[int, ...]]:
        """Returns the shape of each array that is released."""
        shapes = shapes_of(self.generator.state_dict())
        if self.learns_labels(schema):
            shapes[LABELS] = (schema.layout.classes,)
        return shapes


@settings
class PrivateGAN(AdversarialConfig, StepSettings, TrainsModel, LearnsByGradients):
    """Settings of private GANs; none of them depends on private data. A method implements `gan`."""

    image: ImageSize | None = None
    """Height, width and channels of the images; None for a table."""
    latent: Count = 32
    """Length of the generator's noise vector."""
    hidden: Widths = (128, 128)
    """Widths of the generator's hidden layers."""
    discriminator_hidden: Widths = (128, 128)
    """Widths of the hidden layers of a discriminator that is a perceptron. Every weight gets noise."""

    @abstractmethod
    def gan(self, schema: Schema) -> GAN:
        """Returns the networks in their initial state, and how records reach them.

        Raises:
            UserError: if a schema does not fit the settings.
        """

    def check_turns(self) -> None:
        """Refuses settings by which the generator would never take a step."""
        if self.discriminator_steps > self.steps:
            raise OptionError(
                f"discriminator_steps={self.discriminator_steps} is more than "
                f"steps={self.steps}: the generator would never move. Lower it, or take "
                "more steps."
            )

    @property
    def discriminator_seed(self) -> int:
        """The seed of the discriminator's weights: another than the generator's."""
        return (self.seed + 1) % (MOST_SEED + 1)

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientQuery:
        """Returns the steps of the discriminator; refuses a schema that does not fit the settings."""
        gan = self.gan(schema)
        return self.steps_of(
            GENERATOR,
            weight_shapes(gan.discriminator),
            trained=gan.released_shapes(schema),
        )

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the loss of one real record, which the discriminator should take for real."""
        gan = self.gan(schema)
        return real_loss(gan.discriminator, gan.real_inputs, schema)

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> AdversarialTraining:
        """Returns generator and discriminator at their start; see `GradientMethod`."""
        import torch

        from noisegate_papers.training.adversarial import AdversarialTraining

        gan = self.gan(schema)
        generator = gan.generator.to(device)
        discriminator = gan.discriminator.to(device)
        if gan.pretrain is not None:
            gan.pretrain(generator, discriminator, device)
        if gan.label_shares is None:
            logits = torch.zeros(max(schema.layout.classes, 1))
        else:
            logits = torch.tensor(gan.label_shares).log()
        return AdversarialTraining(
            self,
            generator,
            logits.to(device),
            learned=LABELS in steps_of(plan).query.released,
            encode=gan.generated_inputs,
            discriminator=discriminator,
            gradients=partial(clipped_gradients, clip_norm=self.clip_norm),
            records=batch,
        )

    def model(self, release: Release) -> RecordModel:
        """Returns the released generator, to sample from."""
        gan = self.gan(release.schema)
        shapes = gan.released_shapes(release.schema)
        number_count = sum(prod(shape) for shape in shapes.values())
        arrays = released_arrays(
            release, GENERATOR, shapes, what=f"generator of {number_count} numbers"
        )
        logits = arrays.pop(LABELS, None)
        if logits is None:
            label_shares = np.asarray(gan.label_shares or (1.0,))
        else:
            label_shares = logits.double().softmax(dim=0).numpy()
        gan.generator.load_state_dict(arrays)
        return gan.to_model(gan.generator.requires_grad_(False).eval(), label_shares)
