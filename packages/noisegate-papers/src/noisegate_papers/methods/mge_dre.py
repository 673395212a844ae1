"""DP-MGE and DP-DRE: a Gaussian of encoder features, decoded, and public records, weighed to be like the private ones.

Wu, Guo and Chaudhuri (2023), https://arxiv.org/abs/2309.00008, sections 3.1 (docs/mge.md) and 3.2, of which
docs/public-data.md and docs/differences.md say more.

Both are of Wu, Guo and Chaudhuri (2023), https://arxiv.org/abs/2309.00008. For DP-MGE,
section 3.1, one plan releases class-wise sums of features z of length 1, by a frozen
public encoder, of z ⊙ z, and counts: the moments of a Gaussian, of which features are
drawn and decoded. What is proved of it, and what goes beyond the paper, is in
[mge](../../docs/mge.md).

For DP-DRE, section 3.2, a perceptron learns to tell features of private records from
those of public ones, from noisy gradients, and public records are drawn by weights D/(1
− D): see [public-data](../../docs/public-data.md), and
[differences](../../docs/differences.md).

dp-mge: sensitivities, and from noisy moments to a Gaussian:

The queries are those of the table in
[README.md](README.md#queries-and-their-sensitivity).

Proofs. ‖z ⊙ z‖² = Σ zⱼ⁴ ≤ (Σ zⱼ²)² = 1, since the square has only nonnegative cross
terms more; and squares are not negative, so two of them are at most √2 apart. Both are
reached. For the full matrix the inner product of two such vectors is ⟨x, y⟩², so the
norm is ‖x‖² ≤ ‖z‖² = 1. Under replace-one √2 would do there as well, but the gate
enforces norms and signs only, and these entries have both signs. The gate clips to
these norms in any case ([G-01](../../docs/guarantees.md#G-01),
[G-02](../../docs/guarantees.md#G-02)): an error here would cost accuracy, not privacy.

**Against the paper's Claim 1.** It splits ε and δ in halves for the two moments and
goes by way of Rényi divergences: σ = Δ (√(2 log(2/δ)) + √(2 log(2/δ) + ε))/ε for each
(worked out from its proof; the formula is lost in the copy at hand). Here both are one
Gaussian mechanism, composed exactly ([G-03](../../docs/guarantees.md#G-03)), and ε(δ)
is the analytic formula. At δ = 1e-5, for the same sensitivity and with the number of
images public, the noise on each moment is 0.44 of the claim's at ε = 0.1, 0.53 at ε = 1
and 0.66 at ε = 10. Under add/remove-one the number of images is private here, and noisy
counts take a small part of the budget.

**From noisy moments to a Gaussian.** The variance E z² − (E z)² of noisy moments can be
negative, which the paper does not discuss. Features have length 1, so it is public that
second moments are not negative and add up to 1 (a full matrix is positive semi-definite
with trace 1, or at most 1 along fewer axes than there are), and that the mean has
length at most 1. The released moments are moved to the nearest point of that set, which
is post-processing and never further from the truth; then variances, or eigenvalues, are
clipped to [`floor`, 1]. Drawn features are cut at 0 if the encoder gives no negative
entry, and scaled to length 1.

dp-dre: how it weighs public records:

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
  record (`norm`), through the gate (G-20); that of the second is public. Adam takes
  `steps` of them, and the mean of the last half of the weights is kept.

3. A public record gets the weight w = D/(1 − D) = p/q, at most `most_weight`
  (10,000). Records are drawn in proportion to w.

Private records are read once; their features, not the rows, stay in memory for the
steps. Each feature is a function of one record and gradients are clipped afterwards, so
the sensitivity is the clipping norm whatever the encoder does.
"""

from __future__ import annotations

from dataclasses import astuple, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np

from noisegate.errors import OptionError
from noisegate.gate.per_example.gradients import RecordLoss, real_loss
from noisegate.methods.abilities import ClosedForm
from noisegate.methods.embedding import COUNTS, Embedding, MeanEmbeddingMethod
from noisegate.methods.method import AUDITED_STEPS
from noisegate.methods.registry import register
from noisegate.privacy.gradient_plan import GradientQuery, steps_of
from noisegate.privacy.plan import Budget, Plan, Query
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import FeatureMap
from noisegate.schema import Schema
from noisegate.settings import (
    Count,
    Fraction,
    Positive,
    Seed,
    Share,
    Unit,
    Widths,
    Within,
    by_preset,
    derived,
    settings,
)
from noisegate_images.methods.matched import EncodedImages
from noisegate_images.models.image_network import check_image_schema
from noisegate_papers.methods.generative import (
    GenerativeMethod,
    released_arrays,
    weight_shapes,
)
from noisegate_papers.methods.public_reference import (
    PublicFeatures,
    Source,
    check_same,
    features_of,
    once,
    public_axes,
    read_reference,
    require_public,
)
from noisegate_papers.models.inputs import InputFeatures, inputs_of
from noisegate_papers.models.record_sets import weight_notes
from noisegate_papers.queries.transforms import (
    Compression,
    OuterProducts,
    Squares,
    whitened,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from noisegate.gate.gate import Gate
    from noisegate.models.record_model import RecordModel
    from noisegate_images.queries.perceptual import Perceptual
    from noisegate_papers.methods.public_reference import Axes
    from noisegate_papers.models.decoded import DecodedGaussian, FeatureGaussians
    from noisegate_papers.training.adversarial import (
        DensityRatioTraining,
        Discriminator,
    )

MEAN, SECOND = "mean", "second-moment"  # the queries, beside the counts


@register("dp-mge")
@settings
class DPMGE(ClosedForm, EncodedImages, MeanEmbeddingMethod):
    """DP-MGE: Gaussians of public features, decoded to images.

    Examples:
        >>> from noisegate import DPMGE
        >>> DPMGE(image=(8, 8, 1), layer="middle").encoding().dim
        64
    """

    audit_on: ClassVar[Literal["table", "images", "linked"]] = "images"
    audit_files: ClassVar = ("decoder",)

    covariance: Literal["diagonal", "full"] = derived(
        lambda given: "diagonal" if given["public"] is None else "full"
    )
    """"diagonal", as in the paper, or "full" along `axes`; by default full with public images, which say where the axes
    are, and diagonal without."""
    axes: Count = 16
    """Of a full covariance. On public photographs (docs/mge.md) 16 did best from ε = 0.1 to 1, 32 at ε = 10."""
    public: str | None = None
    """Public images whose principal axes these are; None for random directions, of which many are needed."""
    public_records: Count = 10_000
    """How many public images are encoded at most."""
    per_class: bool = True
    """A Gaussian for each label; if not, labels are drawn without looking at the image."""
    floor: Annotated[float, Within(gt=0, le=1), "a positive number, at most 1"] = 1e-6
    """Least variance. A feature of d numbers has 1/d of its squared length in each on average: this is next to none."""
    mean_share: Share = 1.0
    """Budget share of the mean."""
    second_share: Share = 1.0
    """Budget share of the second moment."""
    counts_share: Share = 0.05
    """Budget share of the counts."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "image", astuple(self.shape))
        if self.public is not None and self.covariance == "diagonal":
            cure = "leave them out, or covariance='diagonal'."
            raise OptionError(
                f"public={self.public!r}: public images are for the axes of a full covariance; {cure}"
            )

    def encoding(self) -> Perceptual:
        """Returns the map from an image to its feature; see `EncodedImages`."""
        encoding = super().encoding()
        if self.covariance == "full" and self.axes > encoding.dim:
            raise OptionError(
                f"axes={self.axes}: a feature has {encoding.dim} numbers only; ask for as many at most."
            )
        return encoding

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns the sums of features and of their second moments. Reads the public images, if any."""
        check_image_schema(schema, self.shape, labelled=False)
        first: Perceptual | Compression = self.encoding()
        second: FeatureMap = Squares(of=first)
        if self.covariance == "full":
            first = Compression(of=first, axes=self._axes(schema).values)
            second = OuterProducts(of=first)
        shares = {MEAN: (first, self.mean_share), SECOND: (second, self.second_share)}
        return {
            name: Embedding(*one, per_class=self.per_class)
            for name, one in shares.items()
        }

    def _axes(self, schema: Schema) -> Axes:
        asked: dict[str, Any] = {"most": self.public_records, "seed": self.seed}
        return once(
            self,
            schema,
            lambda: public_axes(
                self.public, schema, self.encoding(), self.axes, **asked
            ),
        )

    def sum_queries(self, schema: Schema, budget: Budget) -> tuple[Query, ...]:
        """Returns what will be asked, of axes that are like those of the public images, which are not read here."""
        queries = super(
            DPMGE, replace(self, public=None, covariance=self.covariance)
        ).sum_queries(schema, budget)
        return (
            queries
            if self.public is None
            else tuple(replace(query, feature_map=None) for query in queries)
        )

    def check_gate(self, gate: Gate) -> None:
        """See `Method`; a DataError if the public images are private ones too."""
        super().check_gate(gate)
        if self.public is not None:
            gate.check_apart(self.public)

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns the settings with the digests of encoder and decoder, and what the axes are."""
        axes = {"axes": self._axes(schema).facts} if self.covariance == "full" else {}
        return {"settings": self.stored_with_digests(), **axes}

    def check_fit(self, device: str) -> None:
        """See `Method`; an error if there is no decoder that fits."""
        super().check_fit(device)
        self.checked_decoder()

    def gaussians(self, release: Release) -> FeatureGaussians:
        """Returns the distributions of features in a release; refuses other public images than its own."""
        from noisegate_images.training.moment_matching import read_target
        from noisegate_papers.training.gaussians import feature_gaussians

        target, axes = read_target(release, counts=COUNTS), None
        means, seconds = (
            target.means[name]
            if self.per_class
            else release.values[name].T / target.records
            for name in (MEAN, SECOND)
        )
        if self.covariance == "full":
            axes = self._axes(release.schema).checked(
                release.certificate.public, self.public
            )
        return feature_gaussians(
            means,
            seconds,
            axes=axes,
            floor=self.floor,
            nonnegative=self.encoding().nonnegative,
        )

    def model(self, release: Release) -> DecodedGaussian:
        """Returns the Gaussians and the decoder of what is drawn from them."""
        from noisegate_images.training.moment_matching import read_target
        from noisegate_papers.models.decoded import DecodedGaussian

        source, decoder, labelled = (
            self.gaussians(release),
            self.checked_decoder(),
            bool(release.schema.layout.classes),
        )
        weights = read_target(release, counts=COUNTS).weights
        return DecodedGaussian(
            source=source, decoder=decoder, weights=weights, labelled=labelled
        )


PUBLIC = (
    "public"  # the decoder that gives for a feature the public record that it came from
)


Preset: TypeAlias = Literal["default", "paper"]
"""This library's settings, or table 4, the first row of CIFAR-10. Which clipping norm, learning rate and number of
private images go with it the text at hand does not say; 1, 1e-3 and 50,000 stand in."""

MAX_CLIP_NORM = 2.0  # the largest clipping norm that is chosen where none was asked for

MAX_NOISE_STD = 8.65
"""Where none was asked for: the most noise on each number of a sum of gradients, in the units of the gradients.

It is what 500 steps at ε = 1 have with the largest norm. With more noise in a step, Adam follows nothing else: at
ε = 0.1 a smaller norm, which changes the gradients but lets them be heard, is worth more (docs/public-data.md).
"""


def clip_norm_for(noise_multiplier: float) -> float:
    """Returns the clipping norm for a noise multiplier, both public: the largest, or less where the noise is loud."""
    return (
        MAX_CLIP_NORM
        if noise_multiplier * MAX_CLIP_NORM <= MAX_NOISE_STD
        else MAX_NOISE_STD / noise_multiplier
    )


DISCRIMINATOR = "discriminator"  # the event, and what is released


@register("dp-dre")
@settings
class DPDRE(EncodedImages, GenerativeMethod):
    """DP-DRE: public records, weighted by estimated density ratios.

    Examples:
        >>> from noisegate import Budget, DPDRE
        >>> from noisegate.schema import pixel_schema
        >>> plan = DPDRE(steps=100, sampling_probability=0.125).plan(pixel_schema(8, 8), Budget(epsilon=1.0))
        >>> [(event.name, event.steps, event.rate) for event in plan.events]
        [('discriminator', 100, 0.125)]
    """

    audit_files: ClassVar = ("public",)
    audit_settings: ClassVar = {
        **AUDITED_STEPS,
        "hidden": (4,),
        "references": 200,
        "dimensions": 8,
        "batch": 32,
    }

    public: Source = field(default=None, compare=False)
    """Path of the public records, of the same schema and in any form that private ones may have, or a table in memory.
    They are handed out as they are, so they must hold no private record."""
    references: Annotated[int, Within(ge=2), "a whole number, 2 or more"] = 10_000
    """How many of them are used at most, drawn at random; they travel with the model."""
    public_labels: bool = derived(lambda given: given["image"] is None)
    """Whether they have the label of the schema. By default true for tables and false for images."""
    decoder: str = PUBLIC
    """What images are handed out: "public", those that the features came from, or what a decoder makes of the features:
    its name or file, see `noisegate_images.networks.decoder.load_decoder`."""
    dimensions: Count = 64
    """Directions of the features that are kept, those first in which public ones vary most."""
    whitening: Unit = by_preset(0.5, paper=0.0)
    """How far directions are brought to the same spread, from 0 to 1."""
    length: Positive = 2.0
    """Of the features, on average over the public ones."""
    seed: Seed = 0
    """Seed for non-private randomness: which references are drawn, and more."""
    preset: Preset = "default"
    """"paper": the settings below are as in the paper's table 4."""
    hidden: Widths = (16,)
    """Widths of the discriminator's hidden layers."""
    steps: Count = by_preset(500, paper=3000)
    """How many noisy gradients are taken, which is what costs privacy."""
    sampling_probability: Fraction = by_preset(0.05, paper=64 / 50_000)
    """Poisson sampling probability per step."""
    batch: Count = 1024
    """References in a step."""
    clip_norm: Positive | None = by_preset(None, paper=1.0)  # type: ignore[assignment]
    """L2 norm that the gradient at each private record is clipped to; None for `clip_norm_for` the noise."""
    learning_rate: Positive = by_preset(0.02, paper=1e-3)
    """Of Adam."""
    averaged: Fraction = by_preset(0.5, paper=1e-9)
    """Part of the steps, the last ones, whose weights are averaged."""
    most_weight: Positive = 1e4
    """Weights D/(1 − D) are at most this, so that they are finite whatever the discriminator says."""

    def __post_init__(self) -> None:
        if self.image is not None:
            _ = self.shape
        elif self.decoder != PUBLIC:
            raise OptionError(
                f"decoder={self.decoder!r} makes images; of a table, public rows are handed out."
            )

    def plain_features(self, schema: Schema) -> FeatureMap:
        """Returns the features of records before they are centred and stretched."""
        if self.image is None:
            inputs = inputs_of(
                schema, centre=0.5, otherwise="there is nothing to weigh records by"
            )
            return InputFeatures(inputs=inputs, coded=schema.layout.others)
        check_image_schema(schema, self.shape, labelled=False)
        return self.encoding()

    def public_features(self, schema: Schema) -> PublicFeatures:
        """Returns public records and their features; reads the former once.

        Raises:
            UserError: if the public records are not there, do not fit the schema, or are all alike; or the encoder or
                decoder is not there or does not fit.
        """
        return once(self, schema, lambda: self._read_public(schema))

    def _read_public(self, schema: Schema) -> PublicFeatures:
        label, encode = schema.layout.label, self.plain_features(schema)
        decoder = None if self.decoder == PUBLIC else self.checked_decoder()
        most, labelled = self.references, self.public_labels
        reference = read_reference(
            self.public, schema, most=most, labelled=labelled, seed=self.seed
        )
        plain, dim = (
            features_of(reference.records, encode),
            min(self.dimensions, encode.dim),
        )
        labels = (
            reference.records.codes[:, label].astype(np.int64)
            if reference.labelled
            else None
        )
        return PublicFeatures(
            reference=reference,
            features=whitened(
                encode, plain, dim=dim, exponent=self.whitening, length=self.length
            ),
            plain=plain,
            labels=labels,
            encoder=None if self.image is None else self.encoder().sha256,
            decoder=decoder,
        )

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientQuery:
        """Returns the steps of the discriminator."""
        norm = self.clip_norm or MAX_CLIP_NORM
        return replace(self, clip_norm=norm).steps_of(
            DISCRIMINATOR, weight_shapes(self.discriminator(schema))
        )

    def plan(self, schema: Schema, budget: Budget) -> Plan:
        """Returns the calibrated plan; a clipping norm that was not given follows from it."""
        plan = super().plan(schema, budget)
        if self.clip_norm is not None:
            return plan
        # The noise multiplier does not depend on the norm: whatever it is, it is that many grid units.
        steps = steps_of(plan)
        clip_norm = clip_norm_for(steps.noise_multiplier)
        query = replace(steps.query, clip_norm=clip_norm)
        return replace(plan, mechanisms=(*plan.releases, replace(steps, query=query)))

    def check_gate(self, gate: Gate) -> None:
        """See `GradientMethod`; a DataError if the public records are private ones too, by what their files hold."""
        super().check_gate(gate)
        gate.check_apart(self.public)
        self.public_features(gate.schema)

    def check_fit(self, device: str) -> None:
        """See `Method`; an OptionError if there are no public records."""
        super().check_fit(device)
        require_public(
            self.public, "dp-dre weighs public records to look like the private ones"
        )

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the loss of one private record, −log D, which the discriminator should take for private."""
        return real_loss(
            self.discriminator(schema), lambda numeric, codes: numeric, schema
        )

    def represent(self, schema: Schema) -> FeatureMap:
        """Returns the features of records; reads the public ones, which say how they are centred and stretched."""
        return self.public_features(schema).features

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns settings and digests of what was taken as public, for the certificate."""
        return {
            **super().public_facts(schema),
            **self.public_features(schema).to_json(),
        }

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> DensityRatioTraining:
        """Returns the discriminator at its start."""
        from noisegate_papers.training.adversarial import DensityRatioTraining

        public = self.public_features(schema)
        return DensityRatioTraining(
            self.discriminator(schema).to(device),
            public.vectors,
            public.labels,
            records=batch,
            batch=self.batch,
            learning_rate=self.learning_rate,
            burn_in=self.steps - max(round(self.averaged * self.steps), 1),
            seed=self.seed,
        )

    def discriminator(self, schema: Schema) -> Discriminator:
        """Returns the discriminator at its start, on the CPU."""
        from noisegate_papers.training.adversarial import build_table_discriminator

        dim = min(self.dimensions, self.plain_features(schema).dim)
        return build_table_discriminator(
            dim, schema.layout.classes, hidden=self.hidden, seed=self.seed
        )

    def model(self, release: Release, fitting: Any = None) -> RecordModel:
        """Returns the references with their weights; a ModelError if the public records are others than then."""
        return self.public_features(release.schema).model(
            self.reference_weights(release), release.schema
        )

    def notes(self, release: Release) -> dict[str, Any]:
        """Returns on how many references the weights rest."""
        labels = self.public_features(release.schema).labels
        return weight_notes(self.reference_weights(release), release.schema, labels)

    def reference_weights(self, release: Release) -> npt.NDArray[np.float64]:
        """Returns the weights of the references, (labels or 1, references), by the released discriminator."""
        from noisegate_papers.training.adversarial import density_ratios

        public, discriminator = (
            self.public_features(release.schema),
            self.discriminator(release.schema),
        )
        shapes = weight_shapes(discriminator)
        discriminator.load_state_dict(
            released_arrays(release, DISCRIMINATOR, shapes, what="such discriminator")
        )
        check_same(public.to_json(), release.certificate.public)
        return density_ratios(
            discriminator, public.vectors, public.labels, most=self.most_weight
        )
