"""DPDM: a diffusion model of images, whose denoiser learns from noisy gradients.

Dockhorn, Cao, Vahdat and Kreis (TMLR 2023), https://arxiv.org/abs/2210.09929. What differs is in
[differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from noisegate.methods.gradient import GradientMethod
from noisegate.methods.registry import register
from noisegate.privacy.gradient_plan import GradientQuery
from noisegate.privacy.plan import Budget
from noisegate.schema import Schema
from noisegate.settings import settings
from noisegate_papers.methods.private_diffusion import (
    AUDITED_DIFFUSION,
    PrivateDiffusion,
)


@register("dpdm")
@settings
class DPDM(PrivateDiffusion, GradientMethod):
    """DPDM: a diffusion model trained by DP-SGD (Dockhorn et al. 2023).

    Examples:
        >>> from noisegate import DPDM, Budget
        >>> from noisegate.schema import pixel_schema
        >>> method = DPDM.for_schema(pixel_schema(8, 8, labels=("cat", "dog")), {"steps": 10})
        >>> plan = method.plan(pixel_schema(8, 8, labels=("cat", "dog")), Budget(epsilon=1.0))
        >>> [(event.name, event.steps) for event in plan.events], plan.epsilon <= 1.0
        ([('denoiser', 10)], True)
    """

    audit_on = "images"
    audit_settings: ClassVar[Mapping[str, Any]] = AUDITED_DIFFUSION

    def gradient_plan(self, schema: Schema, budget: Budget) -> GradientQuery:
        """Returns the steps of the denoiser."""
        return self.denoiser_steps(schema)
