"""DP-GAN-MI and DP-GAN-FT: GANs of public features, whose discriminator learns from noisy gradients.

Both are baselines of Wu, Guo and Chaudhuri (2023), https://arxiv.org/abs/2309.00008, section 4.1, algorithm 2:
perceptrons on an encoder's features, which are decoded. The networks of DP-GAN-FT are pretrained on public images, and
those of DP-GAN-MI start from random weights. What differs is in [differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from noisegate.methods.abilities import UsesPublicFiles, UsesPublicRecords
from noisegate.methods.gradient import GradientMethod, SeesFeatures
from noisegate.methods.registry import register
from noisegate.schema import Schema
from noisegate.schema.pixels import read_shape
from noisegate.settings import Count, Fraction, ImageSize, Positive, Widths, settings
from noisegate_images.methods.public_network import EncodedImages
from noisegate_images.models.image_network import check_image_schema
from noisegate_papers.methods.private_gan import GAN, BeforeSteps, PrivateGAN
from noisegate_papers.methods.public_reference import (
    PublicReference,
    features_of,
    once,
    read_reference,
    require_public,
)
from noisegate_papers.methods.steps import AUDITED_GAN
from noisegate_papers.models.inputs import encode_features, feature_scale

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from jaxtyping import Float
    from torch import Tensor

    from noisegate.models.record_model import RecordModel
    from noisegate_images.models.generator import Generator
    from noisegate_images.queries.perceptual import Perceptual
    from noisegate_papers.training.adversarial import Discriminator


def feature_gan(
    method: DPGANInversion | DPGANFineTuned,
    schema: Schema,
    pretrain: BeforeSteps | None = None,
) -> GAN:
    """Returns the networks of a GAN of features; refuses images of another shape.

    Args:
        method: Its settings.
        schema: Public schema of the images.
        pretrain: Function that changes both networks before the first private gradient.
    """
    from noisegate.devices import seeded
    from noisegate_papers.models.decoded import DecodedGenerator, FeatureGenerator
    from noisegate_papers.training.adversarial import build_table_discriminator

    check_image_schema(schema, read_shape(method.image), labelled=False)
    encoding = method.encoding()
    class_count = schema.layout.classes
    scale = feature_scale(encoding.dim)
    with seeded(method.seed):
        generator = FeatureGenerator(
            features=encoding.dim,
            classes=max(class_count, 1),
            latent=method.latent,
            hidden=method.hidden,
            nonnegative=encoding.nonnegative,
        )

    def to_model(
        trained: Generator, label_shares: npt.NDArray[np.float64]
    ) -> RecordModel:
        assert isinstance(trained, FeatureGenerator)
        return DecodedGenerator(
            source=trained,
            decoder=method.checked_decoder(),
            weights=label_shares,
            labelled=schema.layout.label is not None,
        )

    return GAN(
        generator=generator,
        discriminator=build_table_discriminator(
            encoding.dim,
            class_count,
            hidden=method.discriminator_hidden,
            seed=method.discriminator_seed,
        ),
        real_inputs=lambda numeric, codes: numeric * scale,
        generated_inputs=encode_features,
        label_shares=None,
        to_model=to_model,
        pretrain=pretrain,
    )


@register("dp-gan-mi")
@settings
class DPGANInversion(
    EncodedImages, PrivateGAN, GradientMethod, SeesFeatures, UsesPublicFiles
):
    """DP-GAN-MI: a GAN of public features, trained by DP-SGD and decoded.

    Examples:
        >>> from noisegate import Budget, DPGANInversion
        >>> from noisegate.schema import pixel_schema
        >>> schema = pixel_schema(8, 8, labels=range(2))
        >>> plan = DPGANInversion.for_schema(schema).plan(schema, Budget(epsilon=1.0))
        >>> [event.name for event in plan.events]
        ['generator']
    """

    audit_on = "images"
    audit_files: ClassVar[tuple[Literal["public", "decoder"], ...]] = ("decoder",)
    audit_settings: ClassVar[Mapping[str, Any]] = AUDITED_GAN

    image: ImageSize
    discriminator_hidden: Widths = (16,)
    discriminator_steps: Count = 1
    discriminator_learning_rate: Positive = 3e-4

    def __post_init__(self) -> None:
        self.check_turns()
        read_shape(self.image)

    def represent(self, schema: Schema) -> Perceptual:
        """Returns the encoder, whose features represent the records."""
        return self.encoding()

    def file_digests(self) -> dict[str, str]:
        """Returns the SHA-256 of encoder and decoder; refuses a decoder that does not fit."""
        return self.encoder_and_decoder_digests()

    def gan(self, schema: Schema) -> GAN:
        """Returns the networks, with random initial weights."""
        return feature_gan(self, schema)


@register("dp-gan-ft")
@settings
class DPGANFineTuned(
    EncodedImages,
    PrivateGAN,
    GradientMethod,
    SeesFeatures,
    UsesPublicFiles,
    UsesPublicRecords,
):
    """DP-GAN-FT: a GAN of public features, pretrained on public images, fine-tuned by DP-SGD.

    Examples:
        >>> from noisegate import Budget, DPGANFineTuned
        >>> from noisegate.schema import pixel_schema
        >>> schema = pixel_schema(8, 8, labels=range(2))
        >>> plan = DPGANFineTuned.for_schema(schema).plan(schema, Budget(epsilon=1.0))
        >>> [event.name for event in plan.events]
        ['generator']
    """

    audit_on = "images"
    audit_files: ClassVar = ("public", "decoder")
    audit_settings: ClassVar[Mapping[str, Any]] = {
        **AUDITED_GAN,
        "pretraining_steps": 2,
        "public_records": 40,
    }

    renamed: ClassVar[Mapping[str, str]] = {
        "pretraining_rate": "pretraining_learning_rate"
    }

    image: ImageSize
    discriminator_hidden: Widths = (16,)
    generator_learning_rate: Positive = 3e-4
    public: str | None = None
    """Path of public images. Both networks are first trained on their features."""
    public_labels: bool = False
    """Whether the public images have the label of the schema. If not, they get labels at random."""
    public_records: Count = 10_000
    """Largest number of public images that are encoded."""
    pretraining_steps: Count = 20_000
    """Number of steps of the discriminator on public features."""
    pretraining_learning_rate: Fraction = 1e-3
    """Learning rate of both networks on public features, for Adam."""

    def __post_init__(self) -> None:
        self.check_turns()
        read_shape(self.image)

    def represent(self, schema: Schema) -> Perceptual:
        """Returns the encoder, whose features represent the records."""
        return self.encoding()

    def check_public_records(self) -> None:
        """Checks that there are public images."""
        require_public(
            self.public,
            "dp-gan-ft starts from a GAN of public features",
            ", or take dp-gan-mi, which starts from random weights",
        )

    def file_digests(self) -> dict[str, str]:
        """Returns the SHA-256 of encoder and decoder; refuses a decoder that does not fit."""
        return self.encoder_and_decoder_digests()

    def facts_beside_settings(self, schema: Schema) -> dict[str, Any]:
        """Returns the facts about the public images, for the certificate."""
        return {"public": self.reference(schema).to_json()}

    def reference(self, schema: Schema) -> PublicReference:
        """Returns the public images, read once."""
        return once(
            self,
            schema,
            lambda: read_reference(
                self.public,
                schema,
                most=self.public_records,
                labelled=self.public_labels,
                seed=self.seed,
            ),
        )

    def gan(self, schema: Schema) -> GAN:
        """Returns the networks, which are trained on public features first."""
        from noisegate_papers.training.adversarial import pretrain

        config = replace(
            self,
            discriminator_learning_rate=self.pretraining_learning_rate,
            generator_learning_rate=self.pretraining_learning_rate,
        )

        def pretrain_networks(
            generator: Generator, discriminator: Discriminator, device: str
        ) -> None:
            pretrain(
                config,
                generator,
                discriminator,
                self.public_rows(schema).to(device),
                encode=encode_features,
                steps=self.pretraining_steps,
            )

        return feature_gan(self, schema, pretrain_networks)

    def public_rows(self, schema: Schema) -> Float[Tensor, "records _"]:
        """Returns the inputs of the discriminator for public features.

        Args:
            schema: Public schema of the images.

        Returns:
            Rows, (records, features + labels), with one-hot labels. The labels are random if the public images have
            none.
        """
        import torch
        from torch.nn.functional import one_hot

        reference = self.reference(schema)
        encoding = self.encoding()
        class_count = schema.layout.classes
        features = torch.from_numpy(features_of(reference.records, encoding))
        features = features * feature_scale(encoding.dim)
        if not class_count:
            return features
        if reference.labelled:
            codes = reference.records.codes[:, schema.layout.label]
            labels = torch.from_numpy(codes).long()
        else:
            random = torch.Generator().manual_seed(self.seed)
            labels = torch.randint(class_count, (len(features),), generator=random)
        one_hot_labels = one_hot(labels, class_count).to(features.dtype)
        return torch.cat([features, one_hot_labels], dim=1)
