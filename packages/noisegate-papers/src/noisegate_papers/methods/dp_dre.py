"""DP-DRE: public records, weighed to be like the private ones by density ratios that noisy gradients estimate.

DP-DRE of "Large-Scale Public Data Improves Differentially Private Image Generation
Quality" (section 3.2):

1. Each record becomes a *feature* f. A row: its one-hot codes and its numbers scaled by
  their bounds, together of length at most 1. An image: one layer of a public encoder
  (`network`, `layer`), averaged over the picture, of length 1. Features are centred,
  rotated and scaled by the mean and covariance of the public features (`dimensions`,
  `whitening`, `length`).
2. A two-layer perceptron D learns to tell private features (density p) from public ones
  (q). It minimises (equation 2 of the paper)

        −E_p log D(f) − E_q log(1 − D(f)),   which is least at D = p/(p + q).

  The gradient of the first term is a noisy sum over a Poisson sample, clipped per
  record (`clip_norm`), through the gate (G-20); that of the second is public. Adam takes
  `steps` of them, and the mean of the last half of the weights is kept.

3. A public record gets the weight w = D/(1 − D) = p/q, at most `most_weight`
  (10,000). Records are drawn in proportion to w.

Private records are read once; their features, not the rows, stay in memory for the
steps. Each feature is a function of one record and gradients are clipped afterwards, so
the sensitivity is the clipping norm whatever the encoder does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np

from noisegate.errors import OptionError
from noisegate.gate.per_example.gradients import RecordLoss, real_loss
from noisegate.methods.abilities import UsesPublicRecords
from noisegate.methods.gradient import (
    GradientMethod,
    LearnsByGradients,
    SeesFeatures,
    trained_synthesizer,
)
from noisegate.methods.method import AUDITED_STEPS
from noisegate.methods.registry import register
from noisegate.models.checkpoint import FinishedFit, Fit
from noisegate.privacy.gradient_plan import GradientQuery, plan_steps, steps_of
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import FeatureMap
from noisegate.schema import Schema
from noisegate.settings import (
    Count,
    Fraction,
    Positive,
    Seed,
    Unit,
    Widths,
    Within,
    by_preset,
    derived,
    path_or_table,
    settings,
)
from noisegate_images.methods.public_network import EncodedImages
from noisegate_images.models.image_network import check_image_schema
from noisegate_papers.methods.public_reference import (
    PublicFeatures,
    Source,
    check_same,
    features_of,
    once,
    read_reference,
    require_public,
)
from noisegate_papers.methods.steps import (
    StepSettings,
    released_arrays,
    weight_shapes,
)
from noisegate_papers.models.inputs import InputFeatures, inputs_of
from noisegate_papers.models.record_sets import weight_notes
from noisegate_papers.queries.transforms import whitened

if TYPE_CHECKING:
    import numpy.typing as npt

    from noisegate.models.record_model import RecordModel
    from noisegate.models.synthesizer import Synthesizer
    from noisegate_papers.training.adversarial import (
        DensityRatioTraining,
        Discriminator,
    )

DISCRIMINATOR = "discriminator"
"""The event of the steps, and the name of what is released."""
PUBLIC = "public"
"""The decoder that gives for a feature the public record that it came from."""

Preset: TypeAlias = Literal["default", "paper"]
"""This library's settings, or table 4, the first row of CIFAR-10. Which clipping norm, learning rate and number of
private images go with it the text at hand does not say; 1, 1e-3 and 50,000 stand in."""

MAX_CLIP_NORM = 2.0
"""The largest clipping norm if `clip_norm` is None."""
MAX_NOISE_STD = 8.65
"""Largest standard deviation of the noise on each number of a sum of gradients, in the units of the gradients, if
`clip_norm` is None.

It is that of 500 steps at ε = 1 with the largest norm. With more noise in a step, Adam follows the noise only. At ε =
0.1 a smaller norm gives better results, although it changes the gradients (docs/public-data.md)."""


def clip_norm_for(noise_multiplier: float) -> float:
    """Returns the clipping norm for a noise multiplier, both public.

    It is `MAX_CLIP_NORM`, or less if the noise would exceed `MAX_NOISE_STD`.
    """
    is_loud = noise_multiplier * MAX_CLIP_NORM > MAX_NOISE_STD
    return MAX_NOISE_STD / noise_multiplier if is_loud else MAX_CLIP_NORM


@register("dp-dre")
@settings
class DPDRE(
    EncodedImages,
    StepSettings,
    LearnsByGradients,
    SeesFeatures,
    GradientMethod,
    UsesPublicRecords,
):
    """DP-DRE: public records, weighted by estimated density ratios.

    Examples:
        >>> from noisegate import Budget, DPDRE
        >>> from noisegate.schema import pixel_schema
        >>> plan = DPDRE(steps=100, sampling_probability=0.125).plan(pixel_schema(8, 8), Budget(epsilon=1.0))
        >>> [(event.name, event.steps, event.rate) for event in plan.events]
        [('discriminator', 100, 0.125)]
    """

    audit_files: ClassVar = ("public",)
    audit_settings: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {
            **AUDITED_STEPS,
            "hidden": (4,),
            "references": 200,
            "dimensions": 8,
            "batch": 32,
        }
    )

    public: Source = path_or_table()
    """Path of the public records, with the same schema and in any form that private records may have; or a table in
    memory. They are released as they are, so they must not contain a private record."""
    references: Annotated[int, Within(ge=2), "a whole number, 2 or more"] = 10_000
    """Largest number of public records that are used, drawn at random. They are part of the model."""
    public_labels: bool = derived(lambda given: given["image"] is None)
    """Whether the public records have the label of the schema. By default true for tables and false for images."""
    decoder: str = PUBLIC
    """"public" releases the public images themselves. Otherwise the name or file of a decoder, which computes the
    released images from the features: see `noisegate_images.networks.decoder.load_decoder`."""
    dimensions: Count = 64
    """Number of directions of the features that are used: those in which public features vary most."""
    whitening: Unit = by_preset(0.5, paper=0.0)
    """How far the directions are scaled to the same variance, from 0 (not at all) to 1 (completely)."""
    length: Positive = 2.0
    """Average length of the scaled public features."""
    seed: Seed = 0
    """Seed for non-private randomness, such as the draw of the references."""
    preset: Preset = "default"
    """"paper": the settings below are those of the paper's table 4."""
    hidden: Widths = (16,)
    """Widths of the discriminator's hidden layers."""
    steps: Count = by_preset(500, paper=3000)
    """Number of noisy gradients. Each adds to the cost."""
    sampling_probability: Fraction = by_preset(0.05, paper=64 / 50_000)
    """Probability that a record is in the Poisson sample of a step."""
    batch: Count = 1024
    """Number of references in a step."""
    clip_norm: Positive | None = by_preset(None, paper=1.0)  # type: ignore[assignment]
    """L2 norm that the gradient at each private record is clipped to; None for the value of `clip_norm_for` at the
    noise of the plan."""
    learning_rate: Positive = by_preset(0.02, paper=1e-3)
    """Learning rate of Adam."""
    averaged: Fraction = by_preset(0.5, paper=1e-9)
    """Share of the steps, the last ones, whose weights are averaged."""
    most_weight: Positive = 1e4
    """Largest weight D/(1 − D), so that weights are finite for every output of the discriminator."""

    def __post_init__(self) -> None:
        if self.image is not None:
            _ = self.shape  # refuses what is no size of images
        elif self.decoder != PUBLIC:
            raise OptionError(
                f"decoder={self.decoder!r} makes images; of a table, public rows "
                "are released."
            )

    # The public records.

    def check_public_records(self) -> None:
        """Checks that there are public records."""
        require_public(
            self.public, "dp-dre weighs public records to look like the private ones"
        )

    def public_features(self, schema: Schema) -> PublicFeatures:
        """Returns the public records and their features; reads the public records once.

        Raises:
            UserError: if the public records do not exist, do not fit the schema, or are all equal; or the encoder or
                decoder does not exist or does not fit.
        """
        return once(self, schema, lambda: self._read_public(schema))

    def _read_public(self, schema: Schema) -> PublicFeatures:
        encode = self.plain_features(schema)
        decoder = None if self.decoder == PUBLIC else self.checked_decoder()
        reference = read_reference(
            self.public,
            schema,
            most=self.references,
            labelled=self.public_labels,
            seed=self.seed,
        )
        plain = features_of(reference.records, encode)
        labels = None
        if reference.labelled:
            codes = reference.records.codes[:, schema.layout.label]
            labels = codes.astype(np.int64)
        return PublicFeatures(
            reference=reference,
            features=whitened(
                encode,
                plain,
                dim=min(self.dimensions, encode.dim),
                exponent=self.whitening,
                length=self.length,
            ),
            plain=plain,
            labels=labels,
            encoder=None if self.image is None else self.encoder().sha256,
            decoder=decoder,
        )

    def plain_features(self, schema: Schema) -> FeatureMap:
        """Returns the features of records before centring and scaling."""
        if self.image is None:
            inputs = inputs_of(
                schema, centre=0.5, otherwise="there is nothing to weigh records by"
            )
            return InputFeatures(inputs=inputs, coded=schema.layout.others)
        check_image_schema(schema, self.shape, labelled=False)
        return self.encoding()

    def facts_beside_settings(self, schema: Schema) -> dict[str, Any]:
        """Returns the digests of the public files, for the certificate."""
        return self.public_features(schema).to_json()

    # The steps.

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientQuery:
        """Returns the steps of the discriminator. Their noise multiplier does not depend on the clipping norm."""
        query = replace(self, clip_norm=MAX_CLIP_NORM)._steps(schema)
        if self.clip_norm is not None:
            return self._steps(schema)
        noise_multiplier = steps_of(plan_steps(budget, query)).noise_multiplier
        return replace(query, clip_norm=clip_norm_for(noise_multiplier))

    def _steps(self, schema: Schema) -> GradientQuery:
        return self.steps_of(DISCRIMINATOR, weight_shapes(self.discriminator(schema)))

    def represent(self, schema: Schema) -> FeatureMap:
        """Returns the features of records; reads the public records, which determine centring and scaling."""
        return self.public_features(schema).features

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the loss of one private record: −log D, with the predicted probability D that it is private."""
        return real_loss(
            self.discriminator(schema), lambda numeric, codes: numeric, schema
        )

    def discriminator(self, schema: Schema) -> Discriminator:
        """Returns the discriminator in its initial state, on the CPU."""
        from noisegate_papers.training.adversarial import build_table_discriminator

        dim = min(self.dimensions, self.plain_features(schema).dim)
        return build_table_discriminator(
            dim, schema.layout.classes, hidden=self.hidden, seed=self.seed
        )

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> DensityRatioTraining:
        """Returns the training of the discriminator in its initial state; see `GradientMethod`."""
        from noisegate_papers.training.adversarial import DensityRatioTraining

        public = self.public_features(schema)
        averaged_steps = max(round(self.averaged * self.steps), 1)
        return DensityRatioTraining(
            self.discriminator(schema).to(device),
            public.vectors,
            public.labels,
            records=batch,
            batch=self.batch,
            learning_rate=self.learning_rate,
            burn_in=self.steps - averaged_steps,
            seed=self.seed,
        )

    # What a release ends with.

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> Fit:
        """Returns a finished fit, because the training was part of the query."""
        return FinishedFit()

    def synthesizer(self, release: Release, fitting: Any = None) -> Synthesizer:
        """Returns the synthesizer of a release, with a note on the effective number of references."""
        weights = self.reference_weights(release)
        labels = self.public_features(release.schema).labels
        notes = weight_notes(weights, release.schema, labels)
        return trained_synthesizer(release, self.model(release), notes)

    def model(self, release: Release) -> RecordModel:
        """Returns the references with their weights.

        Raises:
            ModelError: if the public records are not those of the release.
        """
        public = self.public_features(release.schema)
        return public.model(self.reference_weights(release), release.schema)

    def reference_weights(self, release: Release) -> npt.NDArray[np.float64]:
        """Returns the weights of the references from the released discriminator, (labels or 1, references)."""
        from noisegate_papers.training.adversarial import density_ratios

        public = self.public_features(release.schema)
        discriminator = self.discriminator(release.schema)
        shapes = weight_shapes(discriminator)
        discriminator.load_state_dict(
            released_arrays(release, DISCRIMINATOR, shapes, what="such discriminator")
        )
        check_same(public.to_json(), release.certificate.public)
        return density_ratios(
            discriminator, public.vectors, public.labels, most=self.most_weight
        )
