"""PATE-GAN: a student discriminator learns from noisy votes of teachers on generated records, a generator from it.

Jordon, Yoon and van der Schaar (ICLR 2019), https://openreview.net/forum?id=S1zk9iRqF7. Each teacher tells its shard
from generated records and votes on those of a step, real or not; the student takes the noisy majority for the truth,
and never sees a real record. What differs is in docs/differences.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.methods.registry import register
from noisegate.privacy.gradient_plan import CalibratedGradientPlan
from noisegate.schema import Schema
from noisegate.settings import Count, Positive, derived, settings
from noisegate_papers.methods.sharded import AUDITED_TEACHERS, ShardedMethod

if TYPE_CHECKING:
    from noisegate_papers.methods.generative import Shapes
    from noisegate_papers.training.teachers import ShardTeacher
    from noisegate_papers.training.transport import StudentTraining


@register("pate-gan")
@settings
class PATEGAN(ShardedMethod):
    """Settings of PATE-GAN; none of them depends on private data.

    Examples:
        >>> from noisegate import Budget, PATEGAN, Schema
        >>> from noisegate.schema import Integer
        >>> method = PATEGAN(steps=10, batch=64)
        >>> event = method.plan(Schema([Integer(name="age", lower=0, upper=99)]), Budget(epsilon=1.0)).events[0]
        >>> event.coordinates, method.clip_norm  # 64 votes of one half
        (64, 4.0)
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {**AUDITED_TEACHERS, "teacher_learning_rate": 5.0}

    batch: Count = 64
    student_learning_rate: Positive = 3e-3
    """Of the student, by Adam."""
    clip_norm: Positive = derived(lambda given: math.sqrt(given["batch"]) / 2)
    """L2 norm of all votes of a teacher in a step, one half for or against each record."""

    def answers(self, schema: Schema) -> Shapes:
        """Returns the shape of the votes."""
        return {"votes": (self.batch,)}

    def teacher(self, schema: Schema) -> ShardTeacher:
        """Returns a teacher that votes."""
        from noisegate_papers.training.teachers import ShardTeacher, votes

        return ShardTeacher(**self.teaching(schema), says=votes)

    def training(self, schema: Schema, plan: CalibratedGradientPlan, batch: float, device: str) -> StudentTraining:
        """Returns generator and student at their start."""
        from noisegate_papers.training.transport import StudentTraining

        student = self.teaching(schema)["discriminator"].to(device)
        given = self.generator_training(schema, self.batch, device)
        return StudentTraining(student, student_learning_rate=self.student_learning_rate, **given)
