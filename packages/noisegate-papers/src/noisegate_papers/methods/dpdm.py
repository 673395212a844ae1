"""Diffusion models of images whose denoiser learns from noisy gradients. What differs is in docs/differences.md.

DPDM: Dockhorn, Cao, Vahdat and Kreis (TMLR 2023), https://arxiv.org/abs/2210.09929. DP-FETA, which buys sums of small
images first: Li, Gong, Li, Zhao, Hou and Wang (IEEE S&P 2025), https://arxiv.org/abs/2504.01395.

DPDM and DP-FETA: diffusion models of images whose denoiser learns from noisy gradients.

DPDM, Dockhorn, Cao, Vahdat and Kreis (TMLR 2023), https://arxiv.org/abs/2210.09929:
what is released is a running mean of the weights, from which a deterministic sampler
draws (`noisegate_papers.models.diffusion`). DP-FETA, Li, Gong, Li, Zhao, Hou and Wang
(IEEE S&P 2025), https://arxiv.org/abs/2504.01395, buys the sum of small images over
each class first, in the same plan, and trains the denoiser on these means, a little
turned, sheared and moved, before its first private step. What differs is in
[differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from noisegate.errors import OptionError
from noisegate.gate.per_example.gradients import RecordLoss, module_loss
from noisegate.methods.method import AUDITED_STEPS
from noisegate.methods.registry import register
from noisegate.privacy.gradient_plan import GradientQuery
from noisegate.privacy.plan import Budget, Plan, Query
from noisegate.privacy.release import Release
from noisegate.schema import Schema
from noisegate.schema.pixels import ImageShape
from noisegate.settings import (
    Count,
    Fraction,
    ImageSize,
    LabelShares,
    Number,
    Positive,
    Share,
    TwoOrMore,
    Unit,
    Whole,
    Widths,
    by_preset,
    settings,
)
from noisegate_images.models.image_network import check_image_schema
from noisegate_papers.methods.generative import (
    GenerativeMethod,
    public_shares,
    released_arrays,
    weight_shapes,
)
from noisegate_papers.queries.thumbnails import Thumbnails

if TYPE_CHECKING:
    from jaxtyping import Float, Int64
    from torch import Tensor

    from noisegate.gate.gate import Gate
    from noisegate_papers.models.diffusion import Denoiser, DiffusionImages
    from noisegate_papers.training.denoising import DiffusionTraining, NoiseDraws

DENOISER = "denoiser"  # the event, and what is released


@register("dpdm")
@settings
class DPDM(GenerativeMethod):
    """DPDM: a diffusion model trained by DP-SGD (Dockhorn et al. 2023).

    Examples:
        >>> from noisegate import DPDM, Budget
        >>> from noisegate.schema import pixel_schema
        >>> method = DPDM.for_schema(pixel_schema(8, 8, labels=("cat", "dog")), {"steps": 10})
        >>> plan = method.plan(pixel_schema(8, 8, labels=("cat", "dog")), Budget(epsilon=1.0))
        >>> [(event.name, event.steps) for event in plan.events], plan.epsilon <= 1.0
        ([('denoiser', 10)], True)
    """

    audit_on: ClassVar[Literal["table", "images", "linked"]] = "images"
    audit_settings: ClassVar[Mapping[str, Any]] = {
        **AUDITED_STEPS,
        **{"steps": 8, "clip_norm": 0.01, "channels": (4,), "sampling_steps": 2},
    }

    preset: Literal["laptop", "paper"] = "laptop"
    """"laptop", or "paper": more channels at every pixel, 32 draws a record, 4395 steps on samples of 4096."""
    channels: Widths = by_preset((32, 64), paper=(64, 128, 128))
    """Of the denoiser at each size, every one half of that before."""
    patch: Count = by_preset(2, paper=1)
    """Pixels to a side of what the denoiser's first size sees as one."""
    noise_draws: Count = by_preset(2, paper=32)
    """Draws of noise for each record in a step (K, noise multiplicity)."""
    p_mean: Number = -1.2
    """Mean of the logarithm of σ in training, where images are in [−1, 1]."""
    p_std: Positive = 1.2
    """Its standard deviation."""
    learning_rate: Positive = by_preset(1e-3, paper=3e-4)
    """Of Adam."""
    ema_decay: Unit = by_preset(0.98, paper=0.999)
    """Of the running mean of the weights, which is what is released."""
    sampling_steps: TwoOrMore = by_preset(12, paper=50)
    """Levels of noise on the way to an image, of which the denoiser sees each but the last one twice."""
    image: ImageSize | None = None
    """Height, width and channels of the images."""
    steps: Count = by_preset(400, paper=4395)
    sampling_probability: Fraction = by_preset(512 / 60_000, paper=4096 / 60_000)
    label_shares: LabelShares | None = None
    """Share of each level of the label, as public knowledge; None for equal shares."""

    def __post_init__(self) -> None:
        scale = self.patch << (len(self.channels) - 1)
        if not self.channels or self.shape.height % scale or self.shape.width % scale:
            raise OptionError(
                f"image={self.shape}: with patch={self.patch} and channels={list(self.channels)} height and width must "
                f"be multiples of {max(scale, 1)}; give fewer channels or a smaller patch, or pad the images."
            )

    @classmethod
    def for_images(cls, shape: ImageShape, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the shape, and the largest patch and the most sizes that divide it."""
        paper = given.get("preset") == "paper"
        patch = given.get("patch") or next(
            p for p in ((1,) if paper else (2, 1)) if divides(shape, p)
        )
        channels = given.get("channels") or ((64, 128, 128) if paper else (32, 64))
        while len(channels) > 1 and not divides(shape, patch << (len(channels) - 1)):
            channels = channels[:-1]
        return {
            **super().for_images(shape, given),
            "patch": patch,
            "channels": channels,
        }

    def denoiser(self, schema: Schema) -> Denoiser:
        """Returns the denoiser at its start, on the CPU; refuses a schema that does not fit."""
        from noisegate_papers.models.diffusion import build_denoiser

        check_image_schema(schema, self.shape, labelled=False)
        public_shares(schema, self.label_shares)
        classes = schema.layout.classes
        return build_denoiser(
            self.shape,
            classes,
            channels=self.channels,
            patch=self.patch,
            seed=self.seed,
        )

    def draws(self) -> NoiseDraws:
        """Returns the public noise of the training."""
        from noisegate_papers.training.denoising import NoiseDraws

        levels = {"p_mean": self.p_mean, "p_std": self.p_std}
        return NoiseDraws.of(
            self.shape.size, multiplicity=self.noise_draws, **levels, seed=self.seed
        )

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientQuery:
        """Returns the steps; beside the weights, the number of the step is a parameter, of gradient zero."""
        from noisegate_papers.training.denoising import STEP

        shapes = weight_shapes(self.denoiser(schema))
        return self.steps_of(DENOISER, {**shapes, STEP: (1,)}, trained=shapes)

    def loss(self, schema: Schema) -> RecordLoss:
        """Returns the mean loss of one record over its draws of noise."""
        import torch

        from noisegate_papers.models.diffusion import coefficients
        from noisegate_papers.training.denoising import STEP, denoising_loss

        network, draws, label, classes = (
            self.denoiser(schema),
            self.draws(),
            schema.layout.label,
            schema.layout.classes,
        )

        def loss(
            parameters: Mapping[str, Tensor],
            numeric: Float[Tensor, " pixels"],
            codes: Int64[Tensor, " coded"],
            /,
        ) -> Float[Tensor, ""]:
            noise, sigma = draws(parameters[STEP], numeric)
            coded = (
                numeric[:0]
                if label is None
                else torch.arange(classes, device=codes.device) == codes[label]
            )
            given = coded[None].float(), noise, coefficients(sigma)
            criterion = module_loss(
                network,
                lambda run, image, _: denoising_loss(run, 2 * image[None] - 1, *given),
            )
            return criterion(
                {name: value for name, value in parameters.items() if name != STEP},
                numeric,
                codes,
            )

        return loss

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> DiffusionTraining:
        """Returns the denoiser at its start."""
        from noisegate_papers.training.denoising import DiffusionTraining

        options: dict[str, Any] = {
            "learning_rate": self.learning_rate,
            "ema_decay": self.ema_decay,
            "device": device,
        }
        return DiffusionTraining(self.denoiser(schema), batch=batch, **options)

    def model(self, release: Release, fitting: Any = None) -> DiffusionImages:
        """Returns the released denoiser, to be drawn from."""
        from noisegate_papers.models.diffusion import DiffusionImages

        network, shares = (
            self.denoiser(release.schema),
            public_shares(release.schema, self.label_shares),
        )
        network.load_state_dict(
            released_arrays(
                release, DENOISER, weight_shapes(network), what="denoiser of this size"
            )
        )
        sampled: dict[str, Any] = {
            "channels": self.channels,
            "sampling_steps": self.sampling_steps,
        }
        weights, network = (
            np.asarray(shares or (1.0,)),
            network.requires_grad_(False).eval(),
        )
        return DiffusionImages(denoiser=network, weights=weights, **sampled)


def divides(shape: ImageShape, scale: int) -> bool:
    """Returns whether both sides of images are multiples of `scale`."""
    return not (shape.height % scale or shape.width % scale)


MEANS = "means"  # the query for the sums of small images


@register("dp-feta")
@settings
class DPFETA(DPDM):
    """DP-FETA: DPDM that first learns noisy means of the images (Gong et al. 2025).

    Examples:
        >>> from noisegate import DPFETA, Budget
        >>> from noisegate.schema import pixel_schema
        >>> schema = pixel_schema(8, 8, labels=("cat", "dog"))
        >>> plan = DPFETA.for_schema(schema, {"steps": 10}).plan(schema, Budget(epsilon=1.0))
        >>> plan.release("means").event.coordinates
        32
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {
        **DPDM.audit_settings,
        "means_steps": 3,
    }

    means_share: Share = 0.05
    """Budget share of the mean images, where that of the steps is 1."""
    means_bound: Fraction = 0.5
    """What small images are clipped to, as a part of the length of a white one; public knowledge."""
    means_steps: Whole = by_preset(300, paper=2000)
    """Steps of Adam on the mean images."""
    means_batch: Count = 64
    """Images in such a step."""
    means_learning_rate: Positive = by_preset(2e-3, paper=3e-4)
    """Of Adam there."""
    means_jitter: Fraction = 0.1
    """Standard deviation of how far they are turned, sheared, stretched and moved, as a part of half a side."""

    def thumbnails(self) -> Thumbnails:
        """Returns the map to images of half the size, where sides are even."""
        return Thumbnails(image=self.shape, side=2 if divides(self.shape, 2) else 1)

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientQuery:
        """Returns the sums and the steps after them."""
        options: dict[str, Any] = {
            "columns": max(schema.layout.classes, 1),
            "bound": self.means_bound,
        }
        query = Query.of(MEANS, self.thumbnails(), share=self.means_share, **options)
        return replace(super().gradient_plan(schema, budget), queries=(query,))

    def before_steps(self, gate: Gate, session: Any, training: Any) -> None:
        """Asks for the sums, and trains the denoiser on the means that they tell of."""
        import torch

        from noisegate_papers.training.denoising import enlarged, jittered

        assert gate.records is not None
        schema, small = gate.schema, self.thumbnails()
        session.prepare_steps(training.parameters())
        sums = session.ask({MEANS: small})[MEANS].T
        # Divided by what the public expects: the number of records of a class is private.
        expected = gate.records * np.asarray(
            public_shares(schema, self.label_shares) or (1.0,)
        )
        means = torch.from_numpy(
            np.clip(sums / expected[:, None], 0, 1).astype(np.float32)
        )
        options: dict[str, Any] = {
            "steps": self.means_steps,
            "batch": self.means_batch,
            "seed": self.seed,
        }
        options |= {
            "learning_rate": self.means_learning_rate,
            "change": jittered(self.shape, self.means_jitter),
        }
        training.warm_up(
            enlarged(means, small.small, small.side),
            torch.arange(len(means)),
            self.draws(),
            **options,
        )
