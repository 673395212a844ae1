"""DP-GAN and DP-CGAN: a generator trained against a discriminator that learns from noisy gradients.

DP-GAN (Xie et al. 2018) makes whole records: where they have a label, it is drawn first, from shares that are learned,
and the rest is made for it. DP-CGAN (Torkzadehmahani et al., CVPR workshop 2019) is given the labels, whose shares are
public knowledge. Only gradients of the discriminator at real records are asked for; the generator never sees a record.
Both take several steps of the discriminator to one of the generator, without which noise decides the game (Bie, Kamath
and Zhang, TMLR 2023).

What differs from the published programs: each step draws a true Poisson sample and is accounted as one, and noise is
added to the gradients at real records alone. Those at generated records are clipped too, record by record: on simulated
digits they grew to a hundred times the norm of the real ones, which are clipped anyway. These are baselines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from noisegate.classifiers.inputs import Inputs, inputs_of
from noisegate.errors import OptionError, SchemaError
from noisegate.generators.image_network import ImageKind, ImageNetwork
from noisegate.methods.finished import Finished, TrainedSynthesizer
from noisegate.methods.gan.release import GENERATOR, take_generator
from noisegate.methods.gan.settings import OF_RECORDS, SEEDS, complete_settings
from noisegate.methods.gan.training import LABELS, AdversarialTraining, Rules
from noisegate.methods.generator_choice import check_image_schema, read_shape
from noisegate.privacy.gradient_plan import CalibratedGradientPlan, GradientPlan
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor

    from noisegate.gate.losses import RecordLoss
    from noisegate.generators.image import ImageGenerator
    from noisegate.generators.table import TableGenerator
    from noisegate.networks.discriminator import Discriminator
    from noisegate.synthesizer import Synthesizer


@dataclass(frozen=True, kw_only=True)
class PrivateGAN(TrainedSynthesizer, ABC):
    """What DP-GAN and DP-CGAN share; no setting depends on private data.

    Where a default is not given, it is another for images than for tables.

    Attributes:
        image: Height, width and channels of the images; None for a table.
        network: Of images: "convolutional" or "fully-connected".
        latent: Length of the noise vector.
        hidden: Widths of the generator's hidden layers.
        channels: Of the convolutional generator, at a quarter and at half of the image's size.
        discriminator_hidden: Widths of the discriminator of tables.
        discriminator_channels: Of each convolution of the discriminator of images, which halves height and width.
        steps: How many noisy gradients the discriminator takes, which is what costs privacy.
        discriminator_steps: Steps of the discriminator to one of the generator (n_D).
        rate: Chance of each record to be in the sample of a step.
        batch: Generated records in a step.
        norm: L2 norm that the discriminator's gradient at each record is clipped to.
        discriminator_rate: Learning rate of the discriminator, by Adam.
        generator_rate: Learning rate of the generator, by Adam.
        seed: Of the public randomness: initial weights, noise, labels. Never of the samples or the noise of the gate.
    """

    image: tuple[int, int, int] | None = None
    network: ImageKind = "convolutional"
    latent: int = OF_RECORDS
    hidden: tuple[int, ...] = OF_RECORDS
    channels: tuple[int, ...] = (16, 8)
    discriminator_hidden: tuple[int, ...] = (128, 128)
    discriminator_channels: tuple[int, ...] = (32, 64)
    steps: int = OF_RECORDS
    discriminator_steps: int = 5
    rate: float = OF_RECORDS
    batch: int = 128
    norm: float = 1.0
    discriminator_rate: float = OF_RECORDS
    generator_rate: float = OF_RECORDS
    seed: int = 0

    name: str = field(default="", init=False)

    def __post_init__(self) -> None:
        complete_settings(self)
        self._design()

    @abstractmethod
    def shares(self, schema: Schema) -> tuple[float, ...] | None:
        """Returns the share of each code of the label as public knowledge; None where it is learned."""

    def plan(self, schema: Schema, budget: Budget) -> CalibratedGradientPlan:
        """Returns the calibrated plan: how many gradients will be asked for, and with what noise. Reads no data.

        Raises:
            SchemaError: if the schema has no column besides the label, or no label where one is needed.
            OptionError: if records are no images of the shape that was given, or a setting does not fit them.
            CalibrationError: if no noise can give the guarantee.
        """
        discriminator = self.discriminator(schema)
        plan = GradientPlan(
            name=GENERATOR,
            steps=self.steps,
            rate=self.rate,
            norm=self.norm,
            parameters={name: tuple(value.shape) for name, value in discriminator.named_parameters()},
            trained=self._released(schema),
        )
        return plan.calibrate(budget)

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the loss of one real record, which the discriminator should take for real."""
        from noisegate.gate.losses import module_loss

        inputs, label = self._inputs(schema), schema.layout.label
        classes = _classes(schema)
        others = [j for j in range(len(schema.layout.coded)) if j != label]

        def criterion(run: Callable[[Tensor], Tensor], numeric: Tensor, codes: Tensor) -> Tensor:
            import torch
            from torch.nn.functional import softplus

            shown = [inputs(numeric, codes[..., others]) / inputs.scale]
            if label is not None:
                shown.append((torch.arange(classes, device=codes.device) == codes[label]).to(numeric.dtype))
            return softplus(-run(torch.cat(shown)[None]))[0]

        return module_loss(self.discriminator(schema), criterion)

    def training(self, schema: Schema, plan: CalibratedGradientPlan, batch: float, device: str) -> AdversarialTraining:
        """Returns generator and discriminator at their start."""
        import torch

        from noisegate.generators.shown import ShowTables, show_images

        given = self.shares(schema)
        rules = Rules(
            discriminator_steps=self.discriminator_steps,
            batch=self.batch,
            norm=self.norm,
            discriminator_rate=self.discriminator_rate,
            generator_rate=self.generator_rate,
            seed=self.seed,
        )
        shares = torch.tensor(given).log() if given else torch.zeros(max(_classes(schema), 1))
        return AdversarialTraining(
            rules,
            self.generator(schema).to(device),
            shares.to(device),
            learned=self._learns(schema),
            shown=ShowTables(schema.layout) if self.image is None else show_images,
            discriminator=self.discriminator(schema).to(device),
            records=batch,
        )

    def generator(self, schema: Schema) -> ImageGenerator | TableGenerator:
        """Returns the generator at its start, on the CPU."""
        from noisegate.generators.image import build_image_generator
        from noisegate.generators.table import build_table_generator

        design = self._design()
        if design is not None:
            return build_image_generator(design, max(_classes(schema), 1), seed=self.seed)
        return build_table_generator(schema.layout, latent=self.latent, hidden=self.hidden, seed=self.seed)

    def discriminator(self, schema: Schema) -> Discriminator:
        """Returns the discriminator at its start, on the CPU.

        Raises:
            SchemaError, OptionError: see `plan`.
        """
        from noisegate.networks.discriminator import build_image_discriminator, build_table_discriminator

        inputs, seed = self._inputs(schema), (self.seed + 1) % SEEDS
        self.shares(schema)
        if self.image is None:
            hidden = self.discriminator_hidden
            return build_table_discriminator(len(inputs.names), _classes(schema), hidden=hidden, seed=seed)
        channels = self.discriminator_channels
        return build_image_discriminator(read_shape(self.image), _classes(schema), channels=channels, seed=seed)

    def synthesizer(self, release: Release, fitting: Finished) -> Synthesizer:
        """Returns the released generator, to be drawn from; post-processing, which costs no privacy.

        Raises:
            ModelError: if the release is of another method, or its generator does not fit its schema and settings.
        """
        import numpy as np

        from noisegate.generators.image import ImageGenerator
        from noisegate.generators.neural import NeuralTable
        from noisegate.generators.neural_image import NeuralImage
        from noisegate.synthesizer import FitSummary, Synthesizer

        schema, generator = release.schema, self.generator(release.schema)
        learned = take_generator(release, self._released(schema), generator)
        weights = np.asarray(self.shares(schema) or (1.0,)) if learned is None else learned
        model: NeuralImage | NeuralTable
        if isinstance(generator, ImageGenerator):
            model = NeuralImage(generator=generator, weights=weights, labelled=schema.layout.label is not None)
        else:
            model = NeuralTable(generator=generator, weights=weights, layout=schema.layout)
        summary = FitSummary(step=self.steps, steps=self.steps, discrepancy=float("inf"))
        return Synthesizer(release=release, model=model, summary=summary)

    def _learns(self, schema: Schema) -> bool:
        return schema.layout.label is not None and self.shares(schema) is None

    def _released(self, schema: Schema) -> dict[str, tuple[int, ...]]:
        """Returns the shape of each array that is released."""
        shapes = {name: tuple(value.shape) for name, value in self.generator(schema).state_dict().items()}
        return {**shapes, **({LABELS: (_classes(schema),)} if self._learns(schema) else {})}

    def _design(self) -> ImageNetwork | None:
        """Returns the design of the image generator; None for a table."""
        if self.image is None:
            return None
        return ImageNetwork(
            shape=read_shape(self.image),
            kind=self.network,
            latent=self.latent,
            hidden=self.hidden,
            channels=self.channels,
        )

    def _inputs(self, schema: Schema) -> Inputs:
        if self.image is not None:
            check_image_schema(schema, read_shape(self.image), labelled=False)
        inputs = inputs_of(schema, centre=0.5)
        if not inputs.names:
            raise SchemaError("the schema has no column besides the label; there is nothing to make.")
        return inputs


@dataclass(frozen=True, kw_only=True)
class DPGAN(PrivateGAN):
    """Settings of DP-GAN: see `PrivateGAN`. A label, if there is one, is drawn first, from shares that are learned."""

    name: Literal["dp-gan"] = field(default="dp-gan", init=False)

    def shares(self, schema: Schema) -> tuple[float, ...] | None:
        """Returns None: the shares of the labels are learned."""
        return None


@dataclass(frozen=True, kw_only=True)
class DPCGAN(PrivateGAN):
    """Settings of DP-CGAN, beside those of `PrivateGAN`.

    Attributes:
        label_shares: Share of each level of the label, missing last where it may be, as public knowledge; None for
            equal shares.
    """

    label_shares: tuple[float, ...] | None = None

    name: Literal["dp-cgan"] = field(default="dp-cgan", init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.label_shares is None:
            return
        unusable = OptionError(
            f"label_shares={self.label_shares!r} must be numbers above 0 whose sum is 1, one for each level."
        )
        try:
            shares = tuple(float(share) for share in self.label_shares)
        except (TypeError, ValueError):
            raise unusable from None
        if not all(0 < share <= 1 for share in shares) or abs(sum(shares) - 1) > 1e-6:
            raise unusable
        object.__setattr__(self, "label_shares", shares)

    def shares(self, schema: Schema) -> tuple[float, ...]:
        """Returns the shares that were given, or equal ones.

        Raises:
            SchemaError: if there is no label with levels.
            OptionError: if there are more or fewer shares than levels.
        """
        layout = schema.layout
        if layout.label is None:
            raise SchemaError(
                "dp-cgan is given labels: name a column with levels as the label of the schema, or use dp-gan."
            )
        label = layout.coded[layout.label]
        if self.label_shares is not None and len(self.label_shares) != label.size:
            raise OptionError(
                f"label_shares has {len(self.label_shares)} numbers, the label {label.name!r} {label.size} codes"
                f"{', missing included' * label.missing}; give one for each."
            )
        return self.label_shares or (1 / label.size,) * label.size


def _classes(schema: Schema) -> int:
    layout = schema.layout
    return 0 if layout.label is None else layout.coded[layout.label].size
