"""GANs in the space of an encoder's features, whose features are decoded: DP-GAN-MI, and what DP-GAN-FT shares with it.

Both are baselines of "Large-Scale Public Data Improves Differentially Private Image Generation Quality" (section 4.1,
algorithm 2). Generator and discriminator are perceptrons between noise and features, and the discriminator takes noisy
gradients at private features. DP-GAN-MI starts from random weights, DP-GAN-FT from a GAN trained on public features.
A record is encoded once, on reading; only gradients of the discriminator at its feature are asked for.

What differs from the paper: it trains DP-GAN-FT's networks together with the decoder and the decoder's discriminator,
millions of weights more that take their part of the noise; here the decoder stays as it is. And it picks the best of
several trainings and of their steps by looking at the result, which would have to be paid for; here one is run to its
end.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from noisegate.errors import OptionError
from noisegate.generators.decoder import PACKAGED
from noisegate.methods.decoding import matching_decoder
from noisegate.methods.encoding import encoding_digest, image_encoding
from noisegate.methods.finished import Finished, TrainedSynthesizer
from noisegate.methods.gan.pretraining import show_features, shown_scale
from noisegate.methods.gan.release import GENERATOR, take_generator
from noisegate.methods.gan.settings import SEEDS, check_numbers
from noisegate.methods.gan.training import LABELS, AdversarialTraining, Rules
from noisegate.methods.generator_choice import check_image_schema, read_shape
from noisegate.methods.numbers import put_widths
from noisegate.privacy.gradient_plan import CalibratedGradientPlan, GradientPlan
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import Schema

if TYPE_CHECKING:
    from torch import Tensor

    from noisegate.features.perceptual import Perceptual
    from noisegate.gate.losses import RecordLoss
    from noisegate.generators.decoder import LoadedDecoder
    from noisegate.generators.feature_network import FeatureGenerator
    from noisegate.networks.discriminator import Discriminator
    from noisegate.synthesizer import Synthesizer

_TEXTS = ("network", "weights", "sha256", "layer", "decoder", "decoder_sha256")


@dataclass(frozen=True, kw_only=True)
class FeatureGAN(TrainedSynthesizer, ABC):
    """What DP-GAN-FT and DP-GAN-MI share; no setting depends on private data.

    Attributes:
        image: Height, width and channels of the images.
        decoder: A decoder, by its name or its file (`noisegate pretrain decoder`), trained with the same encoder; by
            default the one in the package, of 32 x 32 pixels in colour.
        decoder_sha256: What that file hashes to.
        network: Of the encoder: "encoder", the one of the package, "torchvision:NAME" or "timm:NAME".
        weights: File of the encoder's weights; never downloaded.
        sha256: What that file hashes to.
        layer: Module of the encoder whose channels are averaged over the picture; None for the last.
        latent: Length of the generator's noise vector.
        hidden: Widths of the generator's hidden layers.
        discriminator_hidden: Widths of the discriminator's; each weight takes its part of the noise.
        steps: How many noisy gradients the discriminator takes, which is what costs privacy.
        discriminator_steps: Steps of the discriminator to one of the generator.
        rate: Chance of each record to be in the sample of a step.
        batch: Generated features in a step.
        norm: L2 norm that the discriminator's gradient at each record is clipped to.
        discriminator_rate: Learning rate of the discriminator, by Adam.
        generator_rate: Learning rate of the generator, by Adam.
        seed: Of the public randomness. Never of the samples or the noise of the gate.
    """

    image: tuple[int, int, int] | None = None
    decoder: str = PACKAGED
    decoder_sha256: str | None = None
    network: str = "encoder"
    weights: str | None = None
    sha256: str | None = None
    layer: str | None = None
    latent: int = 32
    hidden: tuple[int, ...] = (128, 128)
    discriminator_hidden: tuple[int, ...] = (16,)
    steps: int = 500
    discriminator_steps: int = 5
    rate: float = 0.05
    batch: int = 128
    norm: float = 1.0
    discriminator_rate: float = 1e-3
    generator_rate: float = 1e-3
    seed: int = 0

    name: str = field(default="", init=False)

    def __post_init__(self) -> None:
        check_numbers(self)
        put_widths(self, ("hidden", "discriminator_hidden"))
        object.__setattr__(self, "image", astuple(read_shape(self.image)))
        for option in _TEXTS:
            value = getattr(self, option)
            if not isinstance(value, str) and (value is not None or option in ("network", "decoder")):
                raise OptionError(f"{option}={value!r} must be text.")

    def plan(self, schema: Schema, budget: Budget) -> CalibratedGradientPlan:
        """Returns the calibrated plan: how many gradients will be asked for, and with what noise. Reads no data.

        Raises:
            OptionError: if records are no images of the shape that was given, or the encoder is unusable.
            CalibrationError: if no noise can give the guarantee.
        """
        check_image_schema(schema, read_shape(self.image), labelled=False)
        plan = GradientPlan(
            name=GENERATOR,
            steps=self.steps,
            rate=self.rate,
            norm=self.norm,
            parameters={name: tuple(value.shape) for name, value in self.discriminator(schema).named_parameters()},
            trained=self._released(schema),
        )
        return plan.calibrate(budget)

    def represent(self, schema: Schema) -> Perceptual:
        """Returns the encoder, whose features stand for records."""
        return image_encoding(self.network, self.weights, self.sha256, self.layer, read_shape(self.image))

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the loss of one real feature, which the discriminator should take for real."""
        from noisegate.gate.losses import module_loss

        label, classes, scale = schema.layout.label, classes_of(schema), shown_scale(self.represent(schema).dim)

        def criterion(run: Callable[[Tensor], Tensor], numeric: Tensor, codes: Tensor) -> Tensor:
            import torch
            from torch.nn.functional import softplus

            shown = [numeric * scale]
            if label is not None:
                shown.append((torch.arange(classes, device=codes.device) == codes[label]).to(numeric.dtype))
            return softplus(-run(torch.cat(shown)[None]))[0]

        return module_loss(self.discriminator(schema), criterion)

    def training(self, schema: Schema, plan: CalibratedGradientPlan, batch: float, device: str) -> AdversarialTraining:
        """Returns generator and discriminator at their start."""
        import torch

        generator, discriminator = self.generator(schema).to(device), self.discriminator(schema).to(device)
        self.start(schema, generator, discriminator, device)
        return AdversarialTraining(
            self.rules(self.norm),
            generator,
            torch.zeros(max(classes_of(schema), 1), device=device),
            learned=classes_of(schema) > 0,
            shown=show_features,
            discriminator=discriminator,
            records=batch,
        )

    def start(self, schema: Schema, generator: FeatureGenerator, discriminator: Discriminator, device: str) -> None:
        """Does with both networks, in place, what comes before the first private gradient: nothing."""

    def rules(self, norm: float | None) -> Rules:
        """Returns how the two networks play, with gradients at generated features clipped to a norm."""
        return Rules(
            discriminator_steps=self.discriminator_steps,
            batch=self.batch,
            norm=norm,
            discriminator_rate=self.discriminator_rate,
            generator_rate=self.generator_rate,
            seed=self.seed,
        )

    def generator(self, schema: Schema) -> FeatureGenerator:
        """Returns the generator at its start, on the CPU."""
        from noisegate.generators.feature_network import FeatureNetwork, build_feature_generator

        encoding = self.represent(schema)
        design = FeatureNetwork(
            features=encoding.dim,
            classes=max(classes_of(schema), 1),
            latent=self.latent,
            hidden=self.hidden,
            nonnegative=encoding.nonnegative,
        )
        return build_feature_generator(design, seed=self.seed)

    def discriminator(self, schema: Schema) -> Discriminator:
        """Returns the discriminator at its start, on the CPU."""
        from noisegate.networks.discriminator import build_table_discriminator

        hidden, seed = self.discriminator_hidden, (self.seed + 1) % SEEDS
        return build_table_discriminator(self.represent(schema).dim, classes_of(schema), hidden=hidden, seed=seed)

    def public_facts(self, schema: Schema) -> dict[str, Any]:
        """Returns settings with the digests of encoder and decoder, for the certificate.

        Raises:
            UserError: if the decoder is not here or does not fit; nothing is spent.
        """
        digests = {"sha256": self._digest(), "decoder_sha256": self.checked_decoder(schema).digest}
        return {"settings": self.to_json() | digests}

    def checked_decoder(self, schema: Schema) -> LoadedDecoder:
        """Returns the decoder.

        Raises:
            OptionError: if there is none, or it is one of other images or another encoder.
            ModelError: if it cannot be read.
        """
        shape, encoding = read_shape(self.image), self.represent(schema)
        return matching_decoder(self.decoder, self.decoder_sha256, shape, encoding, self._digest())

    def synthesizer(self, release: Release, fitting: Finished) -> Synthesizer:
        """Returns the released generator with the decoder; post-processing, which costs no privacy.

        Raises:
            ModelError: if the release is of another method, or its generator does not fit its schema and settings.
        """
        import numpy as np

        from noisegate.generators.decoded_generator import DecodedGenerator, GeneratedFeatures
        from noisegate.synthesizer import FitSummary, Synthesizer

        schema, generator = release.schema, self.generator(release.schema)
        learned = take_generator(release, self._released(schema), generator)
        model = DecodedGenerator(
            source=GeneratedFeatures(generator=generator),
            decoder=self.checked_decoder(schema),
            weights=np.ones(1) if learned is None else learned,
            labelled=schema.layout.label is not None,
        )
        summary = FitSummary(step=self.steps, steps=self.steps, discrepancy=float("inf"))
        return Synthesizer(release=release, model=model, summary=summary)

    def _digest(self) -> str:
        return encoding_digest(self.network, self.weights, self.sha256)

    def _released(self, schema: Schema) -> dict[str, tuple[int, ...]]:
        """Returns the shape of each array that is released."""
        shapes = {name: tuple(value.shape) for name, value in self.generator(schema).state_dict().items()}
        return {**shapes, **({LABELS: (classes_of(schema),)} if classes_of(schema) else {})}


@dataclass(frozen=True, kw_only=True)
class DPGANInversion(FeatureGAN):
    """Settings of DP-GAN-MI: see `FeatureGAN`. Both networks start from random weights."""

    discriminator_steps: int = 1
    discriminator_rate: float = 3e-4

    name: Literal["dp-gan-mi"] = field(default="dp-gan-mi", init=False)


def classes_of(schema: Schema) -> int:
    """Returns how many codes the label has; 0 without one."""
    layout = schema.layout
    return 0 if layout.label is None else layout.coded[layout.label].size
