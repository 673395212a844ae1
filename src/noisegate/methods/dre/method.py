"""DP-DRE: public records, weighed to look like the private ones.

"Large-Scale Public Data Improves Differentially Private Image Generation Quality", section 3.2. A two-layer perceptron
learns to tell features of private records from those of public ones, from noisy gradients (Algorithm 1 of the paper:
DP-SGD with Adam; equation 2 is in `training`). Where it gives D, a public reference gets the weight w = D/(1 − D),
the density of private features over that of public ones, and records are drawn from the references in proportion to w.
Where no public record is like the private ones, no weight helps.

Records with a label: the discriminator is shown the label beside the features, as a choice among its scores, so that w
is the ratio of joint densities of feature and label. Public records with labels are weighed with the label that they
have. Those without are weighed once with every label, against labels that are drawn uniformly: w(label, reference) then
holds the shares of the labels too, and nothing else need be asked for them.

What differs from the paper: each step draws a true Poisson sample and is accounted as one; features are centred and
stretched by what public ones are like, which costs nothing and lets few noisy steps do; and what is kept is the mean of
the weights over the last steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from noisegate.errors import ModelError, OptionError, SchemaError
from noisegate.methods.dre.settings import LONGEST, OF_RECORDS, complete_settings, norm_under
from noisegate.methods.finished import Finished, TrainedSynthesizer
from noisegate.methods.generator_choice import check_image_schema, read_shape
from noisegate.privacy.gradient_plan import CalibratedGradientPlan, GradientPlan, unpacked
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor

    from noisegate.features.feature_map import FeatureMap
    from noisegate.gate.gate import Gate
    from noisegate.gate.losses import RecordLoss
    from noisegate.methods.dre.design import Design
    from noisegate.methods.dre.training import DensityRatioTraining
    from noisegate.networks.discriminator import Discriminator
    from noisegate.synthesizer import Synthesizer

DISCRIMINATOR = "discriminator"
"""The event, and what is released."""


@dataclass(frozen=True, kw_only=True)
class DPDRE(TrainedSynthesizer):
    """Settings of DP-DRE; none of them depends on private data.

    Attributes:
        public: Path of the public records, of the same schema and in any form that private ones may have, or a table
            in memory. They are handed out as they are, so they must hold no private record.
        references: How many of them are used at most, drawn at random; they travel with the model.
        public_labels: Whether they have the label of the schema. By default True for tables and False for images.
        image: Height, width and channels of the images; None for a table.
        network: Encoder of images: "encoder", the one of the package, "torchvision:NAME" or "timm:NAME".
        weights: File of the encoder's weights; see `noisegate.networks.named.load_network`.
        sha256: What that file hashes to.
        layer: Module of the encoder; None for its last one.
        decoder: What images are handed out: "public", those that the features came from, or what a decoder makes of the
            features: its name or file, see `noisegate.generators.decoder.load_decoder`.
        decoder_sha256: What that file hashes to.
        dimensions: Directions of the features that are kept, those first in which public ones vary most.
        whitening: How far directions are brought to the same spread, from 0 to 1.
        length: Of the features, on average over the public ones.
        hidden: Widths of the discriminator's hidden layers.
        steps: How many noisy gradients are taken, which is what costs privacy.
        rate: Chance of each record to be in the sample of a step.
        batch: References in a step.
        norm: L2 norm that the gradient at each private record is clipped to; None for `norm_under` the noise: 2 at
            ε = 1, less where a step has more noise than there.
        learning_rate: Of Adam.
        averaged: Part of the steps, the last ones, whose weights are averaged.
        most_weight: Weights D/(1 − D) are at most this, so that they are finite whatever the discriminator says.
        seed: Of the public randomness: which references, initial weights. Never of the samples or the noise.
    """

    public: Any = field(default=None, compare=False)
    references: int = 10_000
    public_labels: bool = OF_RECORDS
    image: tuple[int, int, int] | None = None
    network: str = "encoder"
    weights: str | None = None
    sha256: str | None = None
    layer: str | None = None
    decoder: str = "public"
    decoder_sha256: str | None = None
    dimensions: int = 64
    whitening: float = 0.5
    length: float = 2.0
    hidden: tuple[int, ...] = (16,)
    steps: int = 500
    rate: float = 0.05
    batch: int = 1024
    norm: float | None = None
    learning_rate: float = 0.02
    averaged: float = 0.5
    most_weight: float = 1e4
    seed: int = 0

    name: Literal["dp-dre"] = field(default="dp-dre", init=False)

    def __post_init__(self) -> None:
        complete_settings(self)

    def plan(self, schema: Schema, budget: Budget) -> CalibratedGradientPlan:
        """Returns the calibrated plan: how many gradients will be asked for, and with what noise. Reads no data.

        Raises:
            SchemaError: if the schema has no column besides the label.
            OptionError: if records are no images of the shape that was given, or a setting does not fit them.
            CalibrationError: if no noise can give the guarantee.
        """
        wanted = GradientPlan(
            name=DISCRIMINATOR,
            steps=self.steps,
            rate=self.rate,
            norm=LONGEST if self.norm is None else self.norm,
            parameters=self._shapes(schema),
        )
        plan = wanted.calibrate(budget)
        if self.norm is not None:
            return plan
        # The noise multiplier does not depend on the norm: whatever it is, it is that many grid units.
        return replace(plan, plan=replace(wanted, norm=norm_under(plan.noise_multiplier)))

    def check_gate(self, gate: Gate) -> None:
        """Finds what would stop the training at a gate, before anything is spent.

        Raises:
            DataError: if the public records are private ones too, by what their files hold.
        """
        super().check_gate(gate)
        gate.check_apart(self.public)
        self.design(gate.schema)

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the loss of one private record, −log D, which the discriminator should take for private."""
        from noisegate.gate.losses import module_loss

        label, classes = schema.layout.label, _classes(schema)

        def criterion(run: Callable[[Tensor], Tensor], numeric: Tensor, codes: Tensor) -> Tensor:
            import torch
            from torch.nn.functional import softplus

            shown = [numeric]
            if label is not None:
                shown.append((torch.arange(classes, device=codes.device) == codes[label]).to(numeric.dtype))
            return softplus(-run(torch.cat(shown)[None]))[0]

        return module_loss(self.discriminator(schema), criterion)

    def represent(self, schema: Schema) -> FeatureMap:
        """Returns the features of records; reads the public ones, which say how they are centred and stretched."""
        return self.design(schema).features

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns settings and digests of what was taken as public, for the certificate."""
        return {**super().public_facts(schema), **self.design(schema).to_json()}

    def training(self, schema: Schema, plan: CalibratedGradientPlan, batch: float, device: str) -> DensityRatioTraining:
        """Returns the discriminator at its start."""
        import torch

        from noisegate.methods.dre.training import DensityRatioTraining, Rules

        design = self.design(schema)
        labels = design.labels
        rules = Rules(
            steps=self.steps,
            batch=self.batch,
            learning_rate=self.learning_rate,
            averaged=self.averaged,
            seed=self.seed,
        )
        return DensityRatioTraining(
            rules,
            self.discriminator(schema).to(device),
            torch.from_numpy(design.vectors).to(device),
            None if labels is None else torch.from_numpy(labels).to(device),
            records=batch,
        )

    def discriminator(self, schema: Schema) -> Discriminator:
        """Returns the discriminator at its start, on the CPU."""
        from noisegate.networks.discriminator import build_table_discriminator

        dim = min(self.dimensions, self._plain(schema).dim)
        return build_table_discriminator(dim, _classes(schema), hidden=self.hidden, seed=self.seed)

    def synthesizer(self, release: Release, fitting: Finished) -> Synthesizer:
        """Returns the references with their weights, to be drawn from; post-processing, which costs no privacy.

        Raises:
            ModelError: if the release is of another method or settings, or the public records are others than then.
            UserError: if they cannot be read.
        """
        from noisegate.methods.dre.model import model_of
        from noisegate.methods.dre.weights import notes_of, weights_of
        from noisegate.synthesizer import FitSummary, Synthesizer

        schema, values = release.schema, release.values.get(DISCRIMINATOR)
        if values is None or values.shape != (sum(map(_size, self._shapes(schema).values())), 1):
            raise ModelError("the release has no such discriminator: it was made by another method or settings.")
        design = self.design(schema)
        design.check(release.certificate.public)
        discriminator = self.discriminator(schema)
        discriminator.load_state_dict(_tensors(unpacked(values, self._shapes(schema))))
        weights = weights_of(discriminator, design, most=self.most_weight)
        summary = FitSummary(
            step=self.steps, steps=self.steps, discrepancy=float("inf"), notes=notes_of(weights, schema, design)
        )
        return Synthesizer(release=release, model=model_of(design, weights, schema), summary=summary)

    def check_fit(self, device: str) -> None:
        """Finds what would stop the training, before any budget is spent.

        Raises:
            OptionError: if the device is not here, or there are no public records.
        """
        super().check_fit(device)
        if self.public is None:
            raise OptionError(
                "public=None: dp-dre weighs public records to look like the private ones. Give some of the same "
                "schema: public=PATH (--public FILE_OR_FOLDER)."
            )

    def design(self, schema: Schema) -> Design:
        """Returns public records and features of records; reads the former once.

        Raises:
            UserError: if the public records are not there or do not fit, or the encoder is not there.
        """
        from noisegate.methods.dre.design import Design

        kept: dict[str, Design] = self._designs
        if schema.digest() not in kept:
            kept[schema.digest()] = Design.of(self, schema, self._plain(schema))
        return kept[schema.digest()]

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as a JSON object; a public table in memory is not in it."""
        settings = {option.name: getattr(self, option.name) for option in fields(self) if option.init}
        settings["public"] = self.public if isinstance(self.public, str) else None
        return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}

    @cached_property
    def _designs(self) -> dict[str, Design]:
        return {}

    def _plain(self, schema: Schema) -> FeatureMap:
        """Returns the features before they are centred and stretched."""
        if self.image is not None:
            from noisegate.methods.encoding import image_encoding

            shape = read_shape(self.image)
            check_image_schema(schema, shape, labelled=False)
            return image_encoding(self.network, self.weights, self.sha256, self.layer, shape)
        from noisegate.classifiers.inputs import inputs_of
        from noisegate.methods.dre.features import TableFeatures

        layout = schema.layout
        inputs = inputs_of(schema, centre=0.5)
        if not inputs.names:
            raise SchemaError("the schema has no column besides the label; there is nothing to weigh records by.")
        return TableFeatures(inputs=inputs, coded=tuple(j for j in range(len(layout.coded)) if j != layout.label))

    def _shapes(self, schema: Schema) -> dict[str, tuple[int, ...]]:
        return {name: tuple(value.shape) for name, value in self.discriminator(schema).named_parameters()}


def _classes(schema: Schema) -> int:
    layout = schema.layout
    return 0 if layout.label is None else layout.coded[layout.label].size


def _size(shape: tuple[int, ...]) -> int:
    from math import prod

    return prod(shape)


def _tensors(arrays: dict[str, Any]) -> dict[str, Tensor]:
    import torch

    return {name: torch.from_numpy(value) for name, value in arrays.items()}
