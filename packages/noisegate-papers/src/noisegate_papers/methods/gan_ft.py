"""GANs in the space of an encoder's features, which are decoded: DP-GAN-MI and DP-GAN-FT.

Both are baselines of Wu, Guo and Chaudhuri (2023), https://arxiv.org/abs/2309.00008, section 4.1, algorithm 2.
Generator and discriminator are perceptrons, and the discriminator takes noisy gradients at private features, encoded
once. DP-GAN-MI starts from random weights, DP-GAN-FT from a GAN of public features. What differs is in
docs/differences.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError, said
from noisegate.gate.per_example.gradients import RowInputs
from noisegate.methods.registry import register
from noisegate.schema import Schema
from noisegate.schema.pixels import read_shape
from noisegate.settings import Count, Fraction, ImageSize, Positive, Widths, settings
from noisegate_images.methods.matched import EncodedImages
from noisegate_images.models.image_network import check_image_schema
from noisegate_papers.methods.generative import AUDITED_GAN, AdversarialMethod
from noisegate_papers.methods.public_reference import features_of, read_reference
from noisegate_papers.models.public_features import PublicReference

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from noisegate.gate.gate import Gate
    from noisegate.models.record_model import RecordModel
    from noisegate_images.features.perceptual import Perceptual
    from noisegate_images.models.generator import Generator
    from noisegate_papers.models.decoded import FeatureGenerator
    from noisegate_papers.models.inputs import DiscriminatorInput
    from noisegate_papers.networks.discriminator import Discriminator


@settings
class FeatureGAN(EncodedImages, AdversarialMethod):
    """What DP-GAN-FT and DP-GAN-MI share."""

    audit_on: ClassVar = "images"
    audit_files: ClassVar[tuple[Literal["public", "decoder"], ...]] = ("decoder",)
    audit_settings: ClassVar[Mapping[str, Any]] = AUDITED_GAN

    image: ImageSize
    discriminator_hidden: Widths = (16,)

    def __post_init__(self) -> None:
        super().__post_init__()
        read_shape(self.image)

    def represent(self, schema: Schema) -> Perceptual:
        """Returns the encoder, whose features stand for records."""
        return self.encoding()

    def inputs(self, schema: Schema) -> tuple[RowInputs, DiscriminatorInput]:
        """Returns the maps from a feature and from the generator to entries of size 1."""
        from noisegate_papers.models.inputs import encode_features, feature_scale

        scale = feature_scale(self.encoding().dim)
        return lambda numeric, codes: numeric * scale, encode_features

    def generator(self, schema: Schema) -> FeatureGenerator:
        """Returns the generator at its start, on the CPU."""
        from noisegate.devices import seeded
        from noisegate_papers.models.decoded import FeatureGenerator

        encoding = self.encoding()
        with seeded(self.seed):
            return FeatureGenerator(
                features=encoding.dim,
                classes=max(schema.layout.classes, 1),
                latent=self.latent,
                hidden=self.hidden,
                nonnegative=encoding.nonnegative,
            )

    def discriminator(self, schema: Schema) -> Discriminator:
        """Returns the discriminator at its start, on the CPU; refuses images of another shape."""
        from noisegate_papers.networks.discriminator import build_table_discriminator

        check_image_schema(schema, self.shape, labelled=False)
        hidden, seed = self.discriminator_hidden, self.discriminator_seed
        return build_table_discriminator(self.encoding().dim, schema.layout.classes, hidden=hidden, seed=seed)

    def model_of(self, generator: Generator, weights: npt.NDArray[np.float64], schema: Schema) -> RecordModel:
        """Returns the generator with the decoder."""
        from noisegate_papers.models.decoded import DecodedGenerator, FeatureGenerator

        assert isinstance(generator, FeatureGenerator)
        decoder, labelled = self.checked_decoder(), schema.layout.label is not None
        return DecodedGenerator(source=generator, decoder=decoder, weights=weights, labelled=labelled)

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns settings with the digests of encoder and decoder; refuses a decoder that does not fit."""
        return {"settings": self.stored_with_digests()}


@register("dp-gan-mi")
@settings
class DPGANInversion(FeatureGAN):
    """Settings of DP-GAN-MI: see `FeatureGAN`. Both networks start from random weights.

    Examples:
        >>> from noisegate import Budget, DPGANInversion
        >>> from noisegate.schema import pixel_schema
        >>> schema = pixel_schema(8, 8, labels=range(2))
        >>> plan = DPGANInversion.for_schema(schema).plan(schema, Budget(epsilon=1.0))
        >>> [event.name for event in plan.events]
        ['generator']
    """

    discriminator_steps: Count = 1
    discriminator_learning_rate: Positive = 3e-4


@register("dp-gan-ft")
@settings
class DPGANFineTuned(FeatureGAN):
    """Settings of DP-GAN-FT: see `FeatureGAN`.

    Examples:
        >>> from noisegate import Budget, DPGANFineTuned
        >>> from noisegate.schema import pixel_schema
        >>> schema = pixel_schema(8, 8, labels=range(2))
        >>> plan = DPGANFineTuned.for_schema(schema).plan(schema, Budget(epsilon=1.0))
        >>> [event.name for event in plan.events]
        ['generator']
    """

    audit_files: ClassVar = ("public", "decoder")
    audit_settings: ClassVar[Mapping[str, Any]] = {**AUDITED_GAN, "pretraining_steps": 2, "public_records": 40}

    renamed: ClassVar[Mapping[str, str]] = {"pretraining_rate": "pretraining_learning_rate"}

    generator_learning_rate: Positive = 3e-4
    public: str | None = None
    """Public images, whose features both networks are trained on first."""
    public_labels: bool = False
    """Whether they have the label of the schema; if not, they are given labels at random."""
    public_records: Count = 10_000
    """How many are encoded at most."""
    pretraining_steps: Count = 20_000
    """Steps of the discriminator on public features."""
    pretraining_learning_rate: Fraction = 1e-3
    """Of both networks there, by Adam."""

    def check_gate(self, gate: Gate) -> None:
        """See `Method`; a DataError if the public images are private ones too, by what their files hold."""
        super().check_gate(gate)
        self._check_public()
        gate.check_apart(self.public)

    def check_fit(self, device: str) -> None:
        """See `Method`; an OptionError if there are no public images."""
        super().check_fit(device)
        self._check_public()

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns settings and digests of what was taken as public, for the certificate."""
        return {**super().public_facts(schema), "public": self._reference(schema).to_json()}

    def start(self, schema: Schema, generator: Generator, discriminator: Discriminator, device: str) -> None:
        """Trains both networks on public features, in place."""
        from noisegate_papers.training.adversarial import pretrain

        rate, rows = self.pretraining_learning_rate, self.public_rows(schema).to(device)
        config = replace(self, discriminator_learning_rate=rate, generator_learning_rate=rate)
        encode, steps = self.inputs(schema)[1], self.pretraining_steps
        pretrain(config, generator, discriminator, rows, encode=encode, steps=steps)

    def public_rows(self, schema: Schema) -> Float[Tensor, "records _"]:
        """Returns discriminator inputs of public features, (records, features + labels); labels may be random."""
        import torch
        from torch.nn.functional import one_hot

        from noisegate_papers.models.inputs import feature_scale

        reference, encoding, classes = self._reference(schema), self.encoding(), schema.layout.classes
        features = torch.from_numpy(features_of(reference.records, encoding)) * feature_scale(encoding.dim)
        if not classes:
            return features
        if reference.labelled:
            labels = torch.from_numpy(reference.records.codes[:, schema.layout.label]).long()
        else:
            labels = torch.randint(classes, (len(features),), generator=torch.Generator().manual_seed(self.seed))
        return torch.cat([features, one_hot(labels, classes).to(features.dtype)], dim=1)

    def _check_public(self) -> None:
        if self.public is None:
            raise OptionError(
                "public=None: dp-gan-ft starts from a GAN of public features. Give public images of the same schema: "
                f"{said('public', 'PATH')}, or take dp-gan-mi, which starts from random weights."
            )

    def _reference(self, schema: Schema) -> PublicReference:
        return _read(self.public, schema, self.public_records, self.public_labels, self.seed)


@lru_cache(maxsize=1)
def _read(public: Any, schema: Schema, most: int, labelled: bool, seed: int) -> PublicReference:
    return read_reference(public, schema, most=most, labelled=labelled, seed=seed)
