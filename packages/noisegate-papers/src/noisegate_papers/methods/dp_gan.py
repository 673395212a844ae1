"""DP-GAN and DP-CGAN: GANs of whole records, whose discriminator learns from noisy gradients.

DP-GAN, Xie et al. (2018), https://arxiv.org/abs/1802.06739, makes whole records, labels first, from shares that are
learned. DP-CGAN, Torkzadehmahani, Kairouz and Paten (CVPR workshops 2019), https://arxiv.org/abs/2001.09700, is given
the labels, whose shares are public knowledge. Both take several steps of the discriminator to one of the generator:
Bie, Kamath and Zhang (TMLR 2023), https://arxiv.org/abs/2302.02936. What differs is in
[differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.errors import SchemaError
from noisegate.methods.gradient import GradientMethod
from noisegate.methods.registry import register
from noisegate.schema import Schema
from noisegate.schema.pixels import read_shape
from noisegate.settings import (
    Count,
    Fraction,
    LabelShares,
    Positive,
    Widths,
    settings,
)
from noisegate_papers.methods.private_gan import GAN, PrivateGAN
from noisegate_papers.methods.record_generator import (
    RecordGenerator,
    by_records,
    record_model,
)
from noisegate_papers.methods.steps import AUDITED_GAN, public_shares

if TYPE_CHECKING:
    from noisegate_papers.training.adversarial import Discriminator


@settings
class RecordGAN(RecordGenerator):
    """Settings of DP-GAN and DP-CGAN.

    Defaults for tables were tried on the survey of `noisegate demo` at ε = 1, where learning rates of 1e-3 gave worse
    results. Defaults for images were tried on simulated digits, in one run of 800 steps (benchmarks/simulated_digits.py
    of commit 14f1ae5e).
    """

    discriminator_channels: Widths = (32, 64)
    """Channels of the convolutions of the discriminator of images. Each convolution halves height and width."""
    steps: Count = by_records(table=600, images=2000)
    """Number of noisy gradients. Each adds to the cost."""
    sampling_probability: Fraction = by_records(table=0.05, images=256 / 60_000)
    """Probability that a record is in the Poisson sample of a step."""
    discriminator_learning_rate: Positive = by_records(table=3e-3, images=1e-3)
    """Learning rate of the discriminator, for Adam."""
    generator_learning_rate: Positive = by_records(table=3e-3, images=2e-3)
    """Learning rate of the generator, for Adam."""

    def image_discriminator(self, schema: Schema, *, seed: int) -> Discriminator:
        """Returns the discriminator of images in its initial state, on the CPU."""
        from noisegate_papers.training.adversarial import build_image_discriminator

        return build_image_discriminator(
            read_shape(self.image),
            schema.layout.classes,
            channels=self.discriminator_channels,
            seed=seed,
        )

    def table_discriminator(
        self, schema: Schema, *, hidden: Widths, seed: int
    ) -> Discriminator:
        """Returns the discriminator of rows in its initial state, on the CPU."""
        from noisegate_papers.training.adversarial import build_table_discriminator

        input_count = len(self.record_inputs(schema).names)
        return build_table_discriminator(
            input_count, schema.layout.classes, hidden=hidden, seed=seed
        )


AUDITED_RECORD_GAN: Mapping[str, Any] = {**AUDITED_GAN, "discriminator_steps": 2}


def record_gan(
    method: DPGAN | DPCGAN, schema: Schema, label_shares: tuple[float, ...] | None
) -> GAN:
    """Returns the networks of a GAN of whole records.

    Args:
        method: Its settings.
        schema: Public schema of the records.
        label_shares: Share of each code of the label, as public knowledge; None where
            they are learned, or there is no label.

    Raises:
        UserError: if the schema does not fit the settings.
    """
    real_inputs = method.real_inputs(schema)
    seed = method.discriminator_seed
    if method.image is None:
        discriminator = method.table_discriminator(
            schema, hidden=method.discriminator_hidden, seed=seed
        )
    else:
        discriminator = method.image_discriminator(schema, seed=seed)
    return GAN(
        generator=method.initial_generator(schema, seed=method.seed),
        discriminator=discriminator,
        real_inputs=real_inputs,
        generated_inputs=method.generated_inputs(schema),
        label_shares=label_shares,
        to_model=partial(record_model, schema),
    )


@register("dp-gan")
@settings
class DPGAN(RecordGAN, PrivateGAN, GradientMethod):
    """DP-GAN: a GAN trained by DP-SGD; the label is drawn first (Xie et al. 2018).

    Examples:
        >>> from noisegate import DPGAN
        >>> DPGAN().steps, DPGAN(image=(28, 28, 1)).steps
        (600, 2000)
    """

    audit_settings: ClassVar[Mapping[str, Any]] = AUDITED_RECORD_GAN

    def __post_init__(self) -> None:
        self.check_turns()
        self.check_generator()

    def gan(self, schema: Schema) -> GAN:
        """Returns the networks in their initial state. The shares of the labels are learned."""
        return record_gan(self, schema, label_shares=None)


@register("dp-cgan")
@settings
class DPCGAN(RecordGAN, PrivateGAN, GradientMethod):
    """DP-CGAN: a conditional GAN trained by DP-SGD (Torkzadehmahani et al. 2019).

    Examples:
        >>> from noisegate import DPCGAN, Schema
        >>> from noisegate.schema import Boolean
        >>> schema = Schema([Boolean(name="ill"), Boolean(name="old")], label="ill")
        >>> DPCGAN(label_shares=(0.9, 0.1)).gan(schema).label_shares
        (0.9, 0.1)
    """

    audit_settings: ClassVar[Mapping[str, Any]] = AUDITED_RECORD_GAN

    label_shares: LabelShares | None = None
    """Share of each level of the label as public knowledge, the missing level last if it is allowed; None for equal
    shares."""

    def __post_init__(self) -> None:
        self.check_turns()
        self.check_generator()

    def gan(self, schema: Schema) -> GAN:
        """Returns the networks in their initial state; refuses a schema without a label."""
        label_shares = public_shares(schema, self.label_shares)
        if label_shares is None:
            raise SchemaError(
                "dp-cgan is given labels: name a column with levels as the label of the "
                "schema, or use dp-gan."
            )
        return record_gan(self, schema, label_shares)
