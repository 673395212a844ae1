"""DP-FETA: a diffusion model that first learns noisy mean images, and then from noisy gradients.

Li, Gong, Li, Zhao, Hou and Wang (IEEE S&P 2025), https://arxiv.org/abs/2504.01395. The sum of small images over each
class is queried first, in the same plan as the steps of DPDM, and the denoiser is trained on these means, a little
turned, sheared and moved, before its first private step. What differs is in [differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from noisegate.methods.gradient import AsksBeforeSteps, GradientMethod
from noisegate.methods.registry import register
from noisegate.privacy.gradient_plan import GradientQuery
from noisegate.privacy.plan import Budget, Query
from noisegate.schema import Schema
from noisegate.settings import (
    Count,
    Fraction,
    Positive,
    Share,
    Whole,
    by_preset,
    settings,
)
from noisegate_papers.methods.private_diffusion import (
    AUDITED_DIFFUSION,
    PrivateDiffusion,
    divides,
)
from noisegate_papers.methods.steps import public_shares
from noisegate_papers.queries.thumbnails import Thumbnails

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate
    from noisegate.gate.session import Session

MEANS = "means"
"""The query of the sums of small images."""


@register("dp-feta")
@settings
class DPFETA(PrivateDiffusion, GradientMethod, AsksBeforeSteps):
    """DP-FETA: DPDM that is first trained on noisy averages of the images (Gong et al. 2025).

    Examples:
        >>> from noisegate import DPFETA, Budget
        >>> from noisegate.schema import pixel_schema
        >>> schema = pixel_schema(8, 8, labels=("cat", "dog"))
        >>> plan = DPFETA.for_schema(schema, {"steps": 10}).plan(schema, Budget(epsilon=1.0))
        >>> plan.release("means").event.coordinates
        32
    """

    audit_on = "images"
    audit_settings: ClassVar[Mapping[str, Any]] = {
        **AUDITED_DIFFUSION,
        "means_steps": 3,
    }

    means_share: Share = 0.05
    """Share of the budget for the average images. The steps have a share of 1."""
    means_bound: Fraction = 0.5
    """Norm that small images are clipped to, relative to that of a white image; public knowledge."""
    means_steps: Whole = by_preset(300, paper=2000)
    """Number of steps of Adam on the average images."""
    means_batch: Count = 64
    """Number of images in a step on the average images."""
    means_learning_rate: Positive = by_preset(2e-3, paper=3e-4)
    """Learning rate of Adam on the average images."""
    means_jitter: Fraction = 0.1
    """Standard deviation of the random rotations, shears, stretches and shifts of the average images, relative to half
    a side."""

    def thumbnails(self) -> Thumbnails:
        """Returns the map to images of half the size, for even sides."""
        side = 2 if divides(self.shape, 2) else 1
        return Thumbnails(image=self.shape, side=side)

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientQuery:
        """Returns the sums of small images, and the steps after them."""
        means_query = Query.of(
            MEANS,
            self.thumbnails(),
            share=self.means_share,
            columns=max(schema.layout.classes, 1),
            bound=self.means_bound,
        )
        return self.denoiser_steps(schema, queries=(means_query,))

    def before_steps(self, gate: Gate, session: Session, training: Any) -> None:
        """Releases the sums, and trains the denoiser on the average images."""
        import torch

        from noisegate_papers.training.denoising import enlarged, jittered

        assert gate.records is not None
        small_images = self.thumbnails()
        session.prepare_steps(training.parameters())
        sums = session.ask({MEANS: small_images})[MEANS].T
        # Divided by what the public expects: the number of records of a class is
        # private.
        label_shares = public_shares(gate.schema, self.label_shares) or (1.0,)
        expected_counts = gate.records * np.asarray(label_shares)
        mean_images = np.clip(sums / expected_counts[:, None], 0, 1)
        means = torch.from_numpy(mean_images.astype(np.float32))
        training.warm_up(
            enlarged(means, small_images.small, small_images.side),
            torch.arange(len(means)),
            self.draws(),
            steps=self.means_steps,
            batch=self.means_batch,
            seed=self.seed,
            learning_rate=self.means_learning_rate,
            change=jittered(self.shape, self.means_jitter),
        )
