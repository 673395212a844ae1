"""DP-FETA: a diffusion model that first learns the mean images of the classes, and then from noisy gradients.

Li, Gong, Li, Zhao, Hou and Wang (IEEE S&P 2025), https://arxiv.org/abs/2504.01395. One plan has both: the sum of small
images over each class, for a small part of the budget, and the steps of `dpdm` for the rest. The denoiser is trained on
the mean images, a little turned, sheared and moved, before its first private step. What differs is in
docs/differences.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from noisegate.methods.registry import register
from noisegate.privacy.gradient_plan import GradientPlan
from noisegate.privacy.plan import Budget, Query
from noisegate.schema import Schema
from noisegate.settings import Count, Fraction, Positive, Share, Whole, by_preset, settings
from noisegate_papers.features.thumbnails import Thumbnails
from noisegate_papers.methods.dpdm import DPDM, divides
from noisegate_papers.methods.generative import public_shares

if TYPE_CHECKING:
    from noisegate.gate.gate import Gate

MEANS = "means"
"""The query for the sums of small images."""


@register("dp-feta")
@settings
class DPFETA(DPDM):
    """Settings of DP-FETA: those of `DPDM`, and of what comes before its steps.

    Examples:
        >>> from noisegate import DPFETA, Budget
        >>> from noisegate.schema import pixel_schema
        >>> schema = pixel_schema(8, 8, labels=("cat", "dog"))
        >>> plan = DPFETA.for_schema(schema, {"steps": 10}).plan(schema, Budget(epsilon=1.0))
        >>> {event.name: event.coordinates for event in plan.events}["means"]
        32
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {**DPDM.audit_settings, "means_steps": 3}

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

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientPlan:
        """Returns the sums and the steps after them."""
        options: dict[str, Any] = {"columns": max(schema.layout.classes, 1), "bound": self.means_bound}
        query = Query.of(MEANS, self.thumbnails(), share=self.means_share, **options)
        return replace(super().gradient_plan(schema, budget), queries=(query,))

    def before_steps(self, gate: Gate, session: Any, training: Any) -> None:
        """Asks for the sums, and trains the denoiser on the means that they tell of."""
        import torch

        from noisegate_papers.training.diffusion import enlarged, jittered

        assert gate.records is not None
        schema, small = gate.schema, self.thumbnails()
        session.prepare(training.parameters())
        sums = session.ask({MEANS: small})[MEANS].T
        # Divided by what the public expects: the number of records of a class is private.
        expected = gate.records * np.asarray(public_shares(schema, self.label_shares) or (1.0,))
        means = torch.from_numpy(np.clip(sums / expected[:, None], 0, 1).astype(np.float32))
        options: dict[str, Any] = {"steps": self.means_steps, "batch": self.means_batch, "seed": self.seed}
        training.warm_up(
            enlarged(means, small.small, small.side),
            torch.arange(len(means)),
            self.draws(),
            learning_rate=self.means_learning_rate,
            change=jittered(self.shape, self.means_jitter),
            **options,
        )
