"""GANs in the space of an encoder's features, which are decoded: DP-GAN-MI and DP-GAN-FT.

Both are baselines of Wu, Guo and Chaudhuri (2023), https://arxiv.org/abs/2309.00008, section 4.1, algorithm 2.
Generator and discriminator are perceptrons between noise and features, and the discriminator takes noisy gradients at
private features. DP-GAN-MI starts from random weights, DP-GAN-FT from a GAN trained on public features. A record is
encoded once, on reading.

What differs from the paper: it trains DP-GAN-FT's networks together with the decoder and the decoder's discriminator,
millions of weights more that take their part of the noise; here the decoder stays as it is. And it picks the best of
several trainings and of their steps by looking at the result, which would have to be paid for; here one is run to its
end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.gate.per_example.losses import RowInputs
from noisegate.methods.adversarial import AdversarialMethod
from noisegate.methods.encoders import EncodedImages
from noisegate.methods.registry import register
from noisegate.models.image_network import check_image_schema
from noisegate.schema import Schema
from noisegate.schema.pixels import read_shape
from noisegate.settings import Count, ImageSize, Positive, Widths, settings

if TYPE_CHECKING:
    from noisegate.features.perceptual import Perceptual
    from noisegate.models.decoded import FeatureGenerator
    from noisegate.models.generator import Generator
    from noisegate.models.inputs import DiscriminatorInput
    from noisegate.models.record_model import RecordModel
    from noisegate.networks.discriminator import Discriminator


@settings
class FeatureGAN(EncodedImages, AdversarialMethod):
    """What DP-GAN-FT and DP-GAN-MI share."""

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
        from noisegate.models.inputs import encode_features, feature_scale

        scale = feature_scale(self.encoding().dim)
        return lambda numeric, codes: numeric * scale, encode_features

    def generator(self, schema: Schema) -> FeatureGenerator:
        """Returns the generator at its start, on the CPU."""
        from noisegate.devices import seeded
        from noisegate.models.decoded import FeatureGenerator

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
        from noisegate.networks.discriminator import build_table_discriminator

        check_image_schema(schema, self.shape, labelled=False)
        hidden, seed = self.discriminator_hidden, self.discriminator_seed
        return build_table_discriminator(self.encoding().dim, schema.layout.classes, hidden=hidden, seed=seed)

    def model_of(self, generator: Generator, weights: npt.NDArray[np.float64], schema: Schema) -> RecordModel:
        """Returns the generator with the decoder."""
        from noisegate.models.decoded import DecodedGenerator, FeatureGenerator

        assert isinstance(generator, FeatureGenerator)
        decoder, labelled = self.checked_decoder(), schema.layout.label is not None
        return DecodedGenerator(source=generator, decoder=decoder, weights=weights, labelled=labelled)

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns settings with the digests of encoder and decoder; refuses a decoder that does not fit."""
        return {"settings": self.stored_with_digests()}


@register("dp-gan-mi")
@settings
class DPGANInversion(FeatureGAN):
    """Settings of DP-GAN-MI: see `FeatureGAN`. Both networks start from random weights."""

    discriminator_steps: Count = 1
    discriminator_learning_rate: Positive = 3e-4
