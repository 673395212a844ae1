"""GS-WGAN: a generator that follows the clipped gradients of critics of disjoint shards.

Chen, Orekondy and Fritz (NeurIPS 2020), https://arxiv.org/abs/2006.08265. Critics of the Wasserstein distance are
trained without noise behind the gate; what leaves is the gradient at a step's generated records, each clipped, with
noise. What differs is in docs/differences.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.methods.registry import register
from noisegate.schema import Schema
from noisegate.settings import Count, Positive, settings
from noisegate_papers.methods.sharded import AUDITED_TEACHERS, ShardedMethod

if TYPE_CHECKING:
    from noisegate_papers.methods.generative import Shapes
    from noisegate_papers.training.teachers import Critic


@register("gs-wgan")
@settings
class GSWGAN(ShardedMethod):
    """Settings of GS-WGAN; none of them depends on private data.

    Examples:
        >>> from noisegate import Budget, GSWGAN, Schema
        >>> from noisegate.schema import Integer
        >>> paper = GSWGAN(steps=20_000, sampling_probability=1 / 1000, batch=32)
        >>> plan = paper.plan(Schema([Integer(name="age", lower=0, upper=99)]), Budget(epsilon=1.0))
        >>> round(plan.noise_multiplier, 2), round(plan.noise_multiplier * 32**0.5, 2)  # of a step, of each record
        (0.56, 3.15)
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {
        **AUDITED_TEACHERS,
        **{"sampling_probability": 0.5, "teacher_learning_rate": 0.1, "learning": 2, "warm_up": 1},
    }

    learning: Count | None = None
    """Critics that learn in a step, in turn; None for all."""
    warm_up: Count = 20
    """How often every critic learns before the first step."""
    teacher_rounds: Count = 5
    teacher_learning_rate: Positive = 1e-3
    penalty: Positive = 10.0
    """Weight of the gradient penalty."""
    drift: Positive = 1e-3
    """Weight of the squared scores of real records."""
    clip_norm: Positive = 1.0
    """L2 norm of all gradients of a step together; each is clipped to this over √batch."""

    def answers(self, schema: Schema) -> Shapes:
        """Returns the shape of the gradients."""
        return {"records": (self.batch, self.inputs(schema))}

    def teacher(self, schema: Schema) -> Critic:
        """Returns a critic."""
        from noisegate_papers.training.teachers import Critic, clipped_answers

        given = self.teaching(schema) | {"learning": self.learning, "warm_up": self.warm_up}
        says = clipped_answers(self.clip_norm / math.sqrt(self.batch))
        return Critic(**given, penalty=self.penalty, drift=self.drift, says=says)
