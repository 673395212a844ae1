"""GANs whose discriminator learns from noisy gradients. What differs is in docs/differences.md.

DP-GAN: Xie et al. (2018), https://arxiv.org/abs/1802.06739. DP-CGAN: Torkzadehmahani, Kairouz and Paten (CVPR workshops
2019), https://arxiv.org/abs/2001.09700. Steps of both: Bie, Kamath and Zhang (TMLR 2023), arxiv.org/abs/2302.02936.
DP-GAN-MI, DP-GAN-FT: Wu, Guo and Chaudhuri (2023), https://arxiv.org/abs/2309.00008, section 4.1, algorithm 2.

DP-GAN, Xie et al. (2018), https://arxiv.org/abs/1802.06739, makes whole records, labels
first, from shares that are learned. DP-CGAN, Torkzadehmahani, Kairouz and Paten (CVPR
workshops 2019), https://arxiv.org/abs/2001.09700, is given the labels, whose shares are
public knowledge. Both take several steps of the discriminator to one of the generator:
Bie, Kamath and Zhang (TMLR 2023), https://arxiv.org/abs/2302.02936. DP-GAN-MI and
DP-GAN-FT are baselines of Wu, Guo and Chaudhuri (2023),
https://arxiv.org/abs/2309.00008, section 4.1, algorithm 2: perceptrons on an encoder's
features, which are decoded. What differs is in
[differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from noisegate.errors import SchemaError
from noisegate.gate.per_example.gradients import RowInputs
from noisegate.methods.registry import register
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.schema.pixels import read_shape
from noisegate.settings import (
    Count,
    Fraction,
    ImageSize,
    LabelShares,
    Positive,
    Widths,
    derived,
    settings,
)
from noisegate_images.methods.matched import EncodedImages
from noisegate_images.models.image_network import (
    ImageKind,
    ImageNetwork,
    check_image_schema,
)
from noisegate_papers.methods.generative import (
    AUDITED_GAN,
    AdversarialMethod,
    GenerativeMethod,
    public_shares,
)
from noisegate_papers.methods.public_reference import (
    PublicReference,
    features_of,
    once,
    read_reference,
    require_public,
)
from noisegate_papers.models.inputs import (
    Inputs,
    TableInput,
    encode_features,
    encode_images,
    feature_scale,
    inputs_of,
    scaled_inputs,
)

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from noisegate.gate.gate import Gate
    from noisegate.models.record_model import RecordModel
    from noisegate_images.models.generator import Generator
    from noisegate_images.queries.perceptual import Perceptual
    from noisegate_papers.models.decoded import FeatureGenerator
    from noisegate_papers.models.inputs import DiscriminatorInput
    from noisegate_papers.training.adversarial import Discriminator


def by_records(*, table: Any, images: Any) -> Any:
    """Returns a field whose default depends on whether records are rows or images."""
    return derived(lambda given: table if given["image"] is None else images)


@settings
class RecordGAN(AdversarialMethod):
    """What DP-GAN and DP-CGAN share.

    Defaults for tables were tried on the survey of `noisegate demo` at ε = 1, where learning rates of 1e-3 did worse;
    those for images on simulated digits, in one run of 800 steps (benchmarks/simulated_digits.py of commit 14f1ae5e).
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {
        **AUDITED_GAN,
        "discriminator_steps": 2,
    }

    network: ImageKind = "convolutional"
    """Of images: "convolutional" or "fully-connected"."""
    hidden: Widths = by_records(table=(128, 128), images=(200,))
    channels: Widths = (16, 8)
    """Of the convolutional generator, at a quarter and at half of the image's size."""
    discriminator_channels: Widths = (32, 64)
    """Of each convolution of the discriminator of images, which halves height and width."""
    steps: Count = by_records(table=600, images=2000)
    sampling_probability: Fraction = by_records(table=0.05, images=256 / 60_000)
    discriminator_learning_rate: Positive = by_records(table=3e-3, images=1e-3)
    generator_learning_rate: Positive = by_records(table=3e-3, images=2e-3)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image is not None:
            self._design()

    def inputs(self, schema: Schema) -> tuple[RowInputs, DiscriminatorInput]:
        """Returns the maps to the inputs of a classifier, over their scale."""
        fake = TableInput(schema.layout) if self.image is None else encode_images
        return scaled_inputs(self._inputs(schema), schema), fake

    def generator(self, schema: Schema) -> Generator:
        """Returns the generator at its start, on the CPU."""
        from noisegate_images.models.generator import build_table_generator
        from noisegate_images.models.image import build_image_generator

        if self.image is not None:
            return build_image_generator(
                self._design(), max(schema.layout.classes, 1), seed=self.seed
            )
        return build_table_generator(
            schema.layout, latent=self.latent, hidden=self.hidden, seed=self.seed
        )

    def discriminator(self, schema: Schema) -> Discriminator:
        """Returns the discriminator at its start, on the CPU; refuses a schema that does not fit."""
        from noisegate_papers.training.adversarial import (
            build_image_discriminator,
            build_table_discriminator,
        )

        inputs, classes, seed = (
            len(self._inputs(schema).names),
            schema.layout.classes,
            self.discriminator_seed,
        )
        self.label_weights(schema)
        if self.image is None:
            return build_table_discriminator(
                inputs, classes, hidden=self.discriminator_hidden, seed=seed
            )
        return build_image_discriminator(
            self.shape, classes, channels=self.discriminator_channels, seed=seed
        )

    def _design(self) -> ImageNetwork:
        return ImageNetwork(
            shape=self.shape,
            kind=self.network,
            latent=self.latent,
            hidden=self.hidden,
            channels=self.channels,
        )

    def _inputs(self, schema: Schema) -> Inputs:
        if self.image is not None:
            check_image_schema(schema, self.shape, labelled=False)
        return inputs_of(schema, centre=0.5, otherwise="there is nothing to make")


@register("dp-gan")
@settings
class DPGAN(RecordGAN):
    """DP-GAN: a GAN trained by DP-SGD; the label is drawn first (Xie et al. 2018).

    Examples:
        >>> from noisegate import DPGAN
        >>> DPGAN().steps, DPGAN(image=(28, 28, 1)).steps
        (600, 2000)
    """


@register("dp-cgan")
@settings
class DPCGAN(RecordGAN):
    """DP-CGAN: a conditional GAN trained by DP-SGD (Torkzadehmahani et al. 2019).

    Examples:
        >>> from noisegate import DPCGAN, Schema
        >>> from noisegate.schema import Boolean
        >>> DPCGAN(label_shares=(0.9, 0.1)).label_weights(Schema([Boolean(name="ill")], label="ill"))
        (0.9, 0.1)
    """

    label_shares: LabelShares | None = None
    """Share of each level of the label, missing last where it may be, as public knowledge; None for equal shares."""

    def label_weights(self, schema: Schema) -> tuple[float, ...]:
        """Returns the shares that were given, or equal ones; refuses a schema that they do not fit."""
        shares = public_shares(schema, self.label_shares)
        if shares is None:
            raise SchemaError(
                "dp-cgan is given labels: name a column with levels as the label of the schema, or use dp-gan."
            )
        return shares


@settings
class GuidedMethod(GenerativeMethod):
    """Base of methods whose generator, one of `RecordGAN`'s, follows noisy gradients at what it makes."""

    image: ImageSize | None = None
    network: ImageKind = "convolutional"
    latent: Count = 32
    hidden: Widths = by_records(table=(128, 128), images=(200,))
    channels: Widths = (16, 8)
    """The generator: see `RecordGAN`; no image for a table."""
    batch: Count = 16
    learning_rate: Positive = 2e-3
    """Generated records of a step, and the generator's rate, by Adam."""
    label_shares: LabelShares | None = None
    """Share of each level of the label, as public knowledge; None for equal shares."""

    def __post_init__(self) -> None:
        self.gan()

    for_images = RecordGAN.for_images

    def gan(self, schema: Schema | None = None) -> RecordGAN:
        """Returns the GAN whose generator and inputs these are; its discriminator is not used."""
        given = {
            name: getattr(self, name)
            for name in ("image", "network", "latent", "hidden", "channels", "seed")
        }
        plain = schema is not None and schema.layout.label is None
        return (
            DPGAN(**given) if plain else DPCGAN(**given, label_shares=self.label_shares)
        )

    def checked(self, schema: Schema) -> tuple[RecordGAN, int]:
        """Returns that GAN and how many inputs a record has, the label left out; refuses a schema that does not fit."""
        gan = self.gan(schema)
        gan.inputs(schema), gan.label_weights(schema)
        return gan, len(inputs_of(schema, centre=0.5).names)

    def generator_training(
        self, schema: Schema, records: int, device: str
    ) -> dict[str, Any]:
        """Returns what every training of a generator is given, of so many records in a step."""
        import torch

        gan = self.gan(schema)
        given = {
            "records": records,
            "learning_rate": self.learning_rate,
            "seed": self.seed,
            "device": device,
        }
        shares, encode = (
            torch.tensor(gan.label_weights(schema) or (1.0,)),
            gan.inputs(schema)[1],
        )
        return {
            "generator": gan.generator(schema).to(device),
            "shares": shares,
            "encode": encode,
            **given,
        }

    def model(self, release: Release, fitting: Any = None) -> RecordModel:
        """Returns the released generator, to be drawn from."""
        return self.gan(release.schema).model(release)


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
        from noisegate_papers.training.adversarial import build_table_discriminator

        check_image_schema(schema, self.shape, labelled=False)
        hidden, seed = self.discriminator_hidden, self.discriminator_seed
        return build_table_discriminator(
            self.encoding().dim, schema.layout.classes, hidden=hidden, seed=seed
        )

    def model_of(
        self, generator: Generator, weights: npt.NDArray[np.float64], schema: Schema
    ) -> RecordModel:
        """Returns the generator with the decoder."""
        from noisegate_papers.models.decoded import DecodedGenerator, FeatureGenerator

        assert isinstance(generator, FeatureGenerator)
        decoder, labelled = self.checked_decoder(), schema.layout.label is not None
        return DecodedGenerator(
            source=generator, decoder=decoder, weights=weights, labelled=labelled
        )

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns settings with the digests of encoder and decoder; refuses a decoder that does not fit."""
        return {"settings": self.stored_with_digests()}


@register("dp-gan-mi")
@settings
class DPGANInversion(FeatureGAN):
    """DP-GAN-MI: a GAN of public features, trained by DP-SGD and decoded.

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
    """DP-GAN-FT: a GAN of public features, pretrained on public images, fine-tuned by DP-SGD.

    Examples:
        >>> from noisegate import Budget, DPGANFineTuned
        >>> from noisegate.schema import pixel_schema
        >>> schema = pixel_schema(8, 8, labels=range(2))
        >>> plan = DPGANFineTuned.for_schema(schema).plan(schema, Budget(epsilon=1.0))
        >>> [event.name for event in plan.events]
        ['generator']
    """

    audit_files: ClassVar = ("public", "decoder")
    audit_settings: ClassVar[Mapping[str, Any]] = {
        **AUDITED_GAN,
        "pretraining_steps": 2,
        "public_records": 40,
    }

    renamed: ClassVar[Mapping[str, str]] = {
        "pretraining_rate": "pretraining_learning_rate"
    }

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

    def _check_public(self) -> None:
        otherwise = ", or take dp-gan-mi, which starts from random weights"
        require_public(
            self.public, "dp-gan-ft starts from a GAN of public features", otherwise
        )

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns settings and digests of what was taken as public, for the certificate."""
        return {
            **super().public_facts(schema),
            "public": self.reference(schema).to_json(),
        }

    def reference(self, schema: Schema) -> PublicReference:
        """Returns the public images, read once."""
        asked: dict[str, Any] = {
            "most": self.public_records,
            "labelled": self.public_labels,
            "seed": self.seed,
        }
        return once(self, schema, lambda: read_reference(self.public, schema, **asked))

    def start(
        self,
        schema: Schema,
        generator: Generator,
        discriminator: Discriminator,
        device: str,
    ) -> None:
        """Trains both networks on public features, in place."""
        from noisegate_papers.training.adversarial import pretrain

        rate, rows = self.pretraining_learning_rate, self.public_rows(schema).to(device)
        config = replace(
            self, discriminator_learning_rate=rate, generator_learning_rate=rate
        )
        encode, steps = self.inputs(schema)[1], self.pretraining_steps
        pretrain(config, generator, discriminator, rows, encode=encode, steps=steps)

    def public_rows(self, schema: Schema) -> Float[Tensor, "records _"]:
        """Returns discriminator inputs of public features, (records, features + labels); labels may be random."""
        import torch
        from torch.nn.functional import one_hot

        reference, encoding, classes = (
            self.reference(schema),
            self.encoding(),
            schema.layout.classes,
        )
        features = torch.from_numpy(
            features_of(reference.records, encoding)
        ) * feature_scale(encoding.dim)
        if not classes:
            return features
        if reference.labelled:
            labels = torch.from_numpy(
                reference.records.codes[:, schema.layout.label]
            ).long()
        else:
            labels = torch.randint(
                classes,
                (len(features),),
                generator=torch.Generator().manual_seed(self.seed),
            )
        return torch.cat([features, one_hot(labels, classes).to(features.dtype)], dim=1)
