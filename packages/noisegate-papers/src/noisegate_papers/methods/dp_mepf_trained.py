"""DP-MEPF without public images: its features are of a classifier that is trained by DP-SGD first.

Harder, Jalali Asadabadi, Sutherland and Park (TMLR 2023), https://openreview.net/forum?id=R6W7zkMz0P, appendix F, and
the dissertation's. The plan has noisy gradients of a ConvNet classifier first, then the queries of
`noisegate_papers.methods.perceptual`, whose maps, activations after each ReLU, hold what was trained; it is released
with the embedding. What differs is in [differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.errors import OptionError, SchemaError
from noisegate.gate.per_example.gradients import RecordLoss, label_loss
from noisegate.methods.abilities import ChangesFitDefaults
from noisegate.methods.embedding import Embedding, sum_queries, with_counts
from noisegate.methods.gradient import (
    AsksAfterSteps,
    GradientMethod,
    LearnsByGradients,
    Trainer,
)
from noisegate.methods.registry import register
from noisegate.models.checkpoint import Fit
from noisegate.privacy.gradient_plan import GradientQuery
from noisegate.privacy.plan import Budget, Plan, Query
from noisegate.privacy.release import Release
from noisegate.queries.feature_map import FeatureMap
from noisegate.schema import Schema
from noisegate.settings import Count, Fraction, ImageSize, Names, Seed, Share, settings
from noisegate_images.models.image_network import check_image_schema
from noisegate_images.queries.perceptual import chosen_activations
from noisegate_papers.methods.perceptual import PerceptualEmbedding
from noisegate_papers.methods.steps import (
    StepSettings,
    released_arrays,
    weight_shapes,
)
from noisegate_papers.training.schedules import PerceptualFitSettings

if TYPE_CHECKING:
    from jaxtyping import Float, Int64
    from torch import Tensor, nn


ENCODER = "encoder"
"""The event of the steps, and the name of what they release."""

_OWN_NETWORK = "trained"
_MEAN = (0.5, 0.5, 0.5)
_STD = (0.25, 0.25, 0.25)
"""Intensities less this mean, over this deviation, are what the encoder sees in each channel."""


@register("dp-mepf-trained")
@settings
class DPMEPFTrained(
    PerceptualEmbedding,
    GradientMethod,
    LearnsByGradients,
    AsksAfterSteps,
    ChangesFitDefaults,
):
    """DP-MEPF with an encoder of its own, trained by DP-SGD.

    Examples:
        >>> from noisegate import Budget, DPMEPFTrained
        >>> from noisegate.schema import pixel_schema
        >>> schema = pixel_schema(8, 8, labels=range(2))
        >>> plan = DPMEPFTrained.for_schema(schema).plan(schema, Budget(epsilon=1.0))
        >>> [event.name for event in plan.events]
        ['first-moments', 'counts', 'encoder']
    """

    audit_on = "images"
    audit_settings: ClassVar[Mapping[str, Any]] = MappingProxyType(
        {
            "latent": 4,
            "hidden": (8,),
            "channels": (4, 2),
            "encoder_width": 4,
            "encoder_depth": 2,
            "encoder_steps": 20,
            "encoder_sampling_probability": 0.2,
        }
    )
    fit_class = PerceptualFitSettings

    renamed: ClassVar[Mapping[str, str]] = {
        f"encoder_{old}": f"encoder_{name}"
        for old, name in StepSettings.renamed.items()
    }

    network: str = _OWN_NETWORK
    """The encoder."""
    weights: str | None = None
    """Not used: the encoder is not read from a file."""
    sha256: str | None = None
    """Not used: the encoder is not read from a file."""
    layers: Names = ()
    """Modules of the encoder; empty for all of its ReLUs."""
    image: ImageSize | None = None
    """Height, width and channels of the images."""
    seed: Seed = 0
    """Seed for non-private randomness: initial weights, fit. The samples and the noise that protects the records cannot
    be seeded."""
    encoder_width: Count = 32
    """Channels of each block of the encoder."""
    encoder_depth: Count = 3
    """Number of blocks of the encoder."""
    encoder_steps: Count = 300
    """Number of noisy gradients in the training of the encoder."""
    encoder_sampling_probability: Fraction = 0.02
    """Probability that a record is in the Poisson sample of a step."""
    encoder_clip_norm: Share = 1.0
    """L2 norm that the gradient of each record is clipped to."""
    encoder_learning_rate: Share = 2e-3
    """Learning rate of the encoder, for Adam."""
    encoder_share: Share = 1.0
    """Share of the budget for the training, relative to the shares of the queries."""

    def __post_init__(self) -> None:
        self.fill_in_channels(self.shape)
        if self.network != _OWN_NETWORK or self.weights or self.sha256:
            raise OptionError(
                f"{self.name} trains its network itself; leave out network and its file."
            )

    # The steps of the encoder, and the queries after them.

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientQuery:
        """Returns the steps of the encoder and the queries after them; refuses images without a label."""
        encoder = self.fresh_encoder(schema)
        # Their maps are known once the encoder is trained.
        queries = tuple(
            replace(query, feature_map=None)
            for query in self._queries(encoder, schema, budget)
        )
        return GradientQuery(
            name=ENCODER,
            steps=self.encoder_steps,
            sampling_probability=self.encoder_sampling_probability,
            clip_norm=self.encoder_clip_norm,
            parameters=weight_shapes(encoder),
            queries=queries,
            share=self.encoder_share,
        )

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the loss of one image: the cross-entropy of its label."""
        shape = self.shape

        def as_seen(
            numeric: Float[Tensor, " pixels"], codes: Int64[Tensor, " coded"]
        ) -> Float[Tensor, "channels height width"]:
            rows = numeric.reshape(shape.height, shape.width, shape.channels)
            channels_first = rows.permute(2, 0, 1)
            return (channels_first.expand(3, -1, -1) - _MEAN[0]) / _STD[0]

        return label_loss(self.fresh_encoder(schema), as_seen, schema)

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> Trainer:
        """Returns the training of the encoder by Adam; see `GradientMethod`."""
        from noisegate_images.training.adam import NoisyDescent

        start = dict(self.fresh_encoder(schema).named_parameters())
        return NoisyDescent(
            start, learning_rate=self.encoder_learning_rate, batch=batch, device=device
        )

    def queries(
        self, schema: Schema, budget: Budget, trained: Mapping[str, Tensor]
    ) -> Mapping[str, FeatureMap]:
        """Returns the maps of the trained encoder; see `AsksAfterSteps`."""
        encoder = self.fresh_encoder(schema)
        weights = {name: value.cpu() for name, value in trained.items()}
        encoder.load_state_dict(weights)
        return {
            query.name: query.feature_map
            for query in self._queries(encoder, schema, budget)
        }

    def _queries(
        self, encoder: nn.Module, schema: Schema, budget: Budget
    ) -> tuple[Query, ...]:
        """Returns the queries by an encoder, with their maps."""
        embeddings = self.embeddings_by(encoder, schema)
        with_their_counts = with_counts(embeddings, self.counts_share)
        return sum_queries(with_their_counts, schema, budget)

    def embeddings_by(self, encoder: nn.Module, schema: Schema) -> dict[str, Embedding]:
        """Returns the sums of each moment for an encoder; see `PerceptualEmbedding`.

        Args:
            encoder: The encoder, trained or not.
            schema: Public schema of the images.
        """
        from noisegate_images.networks.classifiers import frozen_convnet

        check_image_schema(schema, self.shape, labelled=False)
        network = frozen_convnet(encoder, mean=_MEAN, std=_STD)
        activations = chosen_activations(network, self.layers, self.shape, pool=False)
        compared = None
        if self.stopping == "private":
            compared = chosen_activations(network, self.layers, self.shape, pool=True)
        return self.perceptual_embeddings(activations, compared)

    def fresh_encoder(self, schema: Schema) -> nn.Module:
        """Returns the encoder with its initial weights.

        Raises:
            SchemaError: if there is no label with two levels.
        """
        from noisegate_images.networks.classifiers import build_convnet

        if schema.layout.label is None:
            raise SchemaError(
                f"{self.name} trains its encoder to distinguish labels; name a "
                "label, or take dp-mepf."
            )
        return build_convnet(
            replace(self.shape, channels=3),
            schema.layout.classes,
            width=self.encoder_width,
            depth=self.encoder_depth,
            seed=self.seed,
        )

    # The fit of the generator.

    @property
    def fit_defaults(self) -> Mapping[str, Any]:
        """Changes to the defaults of the fit."""
        return self.perceptual_fit_defaults

    def fitting(
        self, release: Release, *, device: str = "auto", plan: Any = None
    ) -> Fit:
        """Returns the fit of a release, with the encoder in the release, ready to run."""
        schema = release.schema
        encoder = self.fresh_encoder(schema)
        shapes = weight_shapes(encoder)
        encoder.load_state_dict(
            released_arrays(release, ENCODER, shapes, what="encoder of this size")
        )
        embeddings = with_counts(self.embeddings_by(encoder, schema), self.counts_share)
        maps = {name: embedding.feature_map for name, embedding in embeddings.items()}
        return self.fit_to_moments(release, maps, self, seed=self.seed, device=device)
