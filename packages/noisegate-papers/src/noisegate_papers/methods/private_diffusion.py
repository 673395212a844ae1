"""Base of DPDM and DP-FETA: a denoiser of images that is trained with noisy gradients and sampled from.

A moving average of the denoiser's weights is released. A deterministic sampler draws images from it
(`noisegate_papers.models.diffusion`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from noisegate.errors import OptionError
from noisegate.gate.per_example.gradients import RecordLoss, module_loss
from noisegate.methods.gradient import LearnsByGradients, TrainsModel
from noisegate.methods.method import AUDITED_STEPS
from noisegate.privacy.gradient_plan import GradientQuery
from noisegate.privacy.plan import Plan, Query
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape, read_shape
from noisegate.settings import (
    Count,
    Fraction,
    ImageSize,
    LabelShares,
    Number,
    Positive,
    TwoOrMore,
    Unit,
    Widths,
    by_preset,
    derived,
    settings,
)
from noisegate_images.models.image_network import check_image_schema
from noisegate_papers.methods.steps import (
    StepSettings,
    public_shares,
    released_arrays,
    weight_shapes,
)

if TYPE_CHECKING:
    from jaxtyping import Float, Int64
    from torch import Tensor

    from noisegate_papers.models.diffusion import Denoiser, DiffusionImages
    from noisegate_papers.training.denoising import DiffusionTraining, NoiseDraws

DENOISER = "denoiser"
"""The event of the steps, and the name of what is released."""

AUDITED_DIFFUSION: Mapping[str, Any] = MappingProxyType(
    {
        **AUDITED_STEPS,
        "steps": 8,
        "clip_norm": 0.01,
        "channels": (4,),
        "sampling_steps": 2,
    }
)
"""The part of `Method.audit_settings` that both have in common."""


def divides(shape: ImageShape, side: int) -> bool:
    """Returns whether both sides of images are multiples of a number of pixels."""
    return not (shape.height % side or shape.width % side)


def _default_patch(given: Mapping[str, Any]) -> int:
    """Returns the largest patch of a preset that divides the images."""
    if given["preset"] == "paper":
        return 1
    if given["image"] is None or divides(read_shape(given["image"]), 2):
        return 2
    return 1


def _default_channels(given: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the channels of a preset, of as many sizes as divide the images."""
    is_paper = given["preset"] == "paper"
    channels: tuple[int, ...] = (64, 128, 128) if is_paper else (32, 64)
    if given["image"] is None:
        return channels
    shape = read_shape(given["image"])
    patch = given["patch"] or _default_patch(given)
    while len(channels) > 1 and not divides(shape, patch << (len(channels) - 1)):
        channels = channels[:-1]
    return channels


@settings
class PrivateDiffusion(StepSettings, TrainsModel, LearnsByGradients):
    """Settings of diffusion models of images; none of them depends on private data."""

    preset: Literal["laptop", "paper"] = "laptop"
    """"laptop"; or "paper": more channels at full resolution, 32 draws of noise for each record, 4395 steps on samples
    of 4096."""
    channels: Widths = derived(_default_channels)
    """Channels of the denoiser at each resolution. Each resolution has half the side of the previous one."""
    patch: Count = derived(_default_patch)
    """Side, in pixels, of the squares that are one input of the denoiser at its first resolution."""
    noise_draws: Count = by_preset(2, paper=32)
    """Number of draws of noise for each record in a step (K, noise multiplicity)."""
    p_mean: Number = -1.2
    """Mean of the logarithm of σ in training, with images in [−1, 1]."""
    p_std: Positive = 1.2
    """Standard deviation of the logarithm of σ in training."""
    learning_rate: Positive = by_preset(1e-3, paper=3e-4)
    """Learning rate of Adam."""
    ema_decay: Unit = by_preset(0.98, paper=0.999)
    """Decay of the moving average of the weights, which is released."""
    sampling_steps: TwoOrMore = by_preset(12, paper=50)
    """Number of noise levels in sampling. The denoiser is evaluated twice at each level except the last."""
    image: ImageSize | None = None
    """Height, width and channels of the images."""
    steps: Count = by_preset(400, paper=4395)
    sampling_probability: Fraction = by_preset(512 / 60_000, paper=4096 / 60_000)
    label_shares: LabelShares | None = None
    """Share of each level of the label, as public knowledge; None for equal shares."""

    def __post_init__(self) -> None:
        shape = read_shape(self.image)
        smallest_side = self.patch << (len(self.channels) - 1)
        if not self.channels or not divides(shape, smallest_side):
            raise OptionError(
                f"image={shape}: with patch={self.patch} and "
                f"channels={list(self.channels)} height and width must be multiples of "
                f"{max(smallest_side, 1)}; give fewer channels or a smaller patch, or "
                "pad the images."
            )

    def denoiser(self, schema: Schema) -> Denoiser:
        """Returns the denoiser in its initial state, on the CPU; refuses a schema that does not fit."""
        from noisegate_papers.models.diffusion import build_denoiser

        shape = read_shape(self.image)
        check_image_schema(schema, shape, labelled=False)
        public_shares(schema, self.label_shares)
        return build_denoiser(
            shape,
            schema.layout.classes,
            channels=self.channels,
            patch=self.patch,
            seed=self.seed,
        )

    def draws(self) -> NoiseDraws:
        """Returns the public noise of the training."""
        from noisegate_papers.training.denoising import NoiseDraws

        return NoiseDraws.of(
            read_shape(self.image).size,
            multiplicity=self.noise_draws,
            p_mean=self.p_mean,
            p_std=self.p_std,
            seed=self.seed,
        )

    def denoiser_steps(
        self, schema: Schema, queries: tuple[Query, ...] = ()
    ) -> GradientQuery:
        """Returns the steps of the denoiser.

        The number of the step is an additional parameter, whose gradient is zero.

        Args:
            schema: Public schema of the images.
            queries: Further queries of the plan.
        """
        from noisegate_papers.training.denoising import STEP

        shapes = weight_shapes(self.denoiser(schema))
        return self.steps_of(
            DENOISER, {**shapes, STEP: (1,)}, trained=shapes, queries=queries
        )

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the mean loss of one record over its draws of noise."""
        import torch

        from noisegate_papers.models.diffusion import coefficients
        from noisegate_papers.training.denoising import STEP, denoising_loss

        denoiser = self.denoiser(schema)
        draws = self.draws()
        label = schema.layout.label
        class_count = schema.layout.classes

        def loss(
            parameters: Mapping[str, Tensor],
            numeric: Float[Tensor, " pixels"],
            codes: Int64[Tensor, " coded"],
            /,
        ) -> Float[Tensor, ""]:
            noise, sigma = draws(parameters[STEP], numeric)
            if label is None:
                one_hot_label = numeric[:0]
            else:
                classes = torch.arange(class_count, device=codes.device)
                one_hot_label = classes == codes[label]
            conditions = (one_hot_label[None].float(), noise, coefficients(sigma))
            criterion = module_loss(
                denoiser,
                lambda run, image, _: denoising_loss(
                    run, 2 * image[None] - 1, *conditions
                ),
            )
            weights = {
                name: value for name, value in parameters.items() if name != STEP
            }
            return criterion(weights, numeric, codes)

        return loss

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> DiffusionTraining:
        """Returns the training of the denoiser in its initial state; see `GradientMethod`."""
        from noisegate_papers.training.denoising import DiffusionTraining

        return DiffusionTraining(
            self.denoiser(schema),
            batch=batch,
            learning_rate=self.learning_rate,
            ema_decay=self.ema_decay,
            device=device,
        )

    def model(self, release: Release) -> DiffusionImages:
        """Returns the released denoiser, to sample from."""
        from noisegate_papers.models.diffusion import DiffusionImages

        denoiser = self.denoiser(release.schema)
        shapes = weight_shapes(denoiser)
        denoiser.load_state_dict(
            released_arrays(release, DENOISER, shapes, what="denoiser of this size")
        )
        label_shares = public_shares(release.schema, self.label_shares) or (1.0,)
        return DiffusionImages(
            denoiser=denoiser.requires_grad_(False).eval(),
            weights=np.asarray(label_shares),
            channels=self.channels,
            sampling_steps=self.sampling_steps,
        )
