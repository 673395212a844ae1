"""PATE-GAN: a GAN whose student learns from noisy votes of teachers (G-26).

Jordon, Yoon and van der Schaar (ICLR 2019), https://openreview.net/forum?id=S1zk9iRqF7. Teachers vote on records, real
or not; a student learns from the noisy votes, and the generator from it. Here records that are voted on are mixed with
uniform noise, and a vote is for those above the mean of their label: soon none would be taken for real. What differs is
in [differences](../../docs/differences.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.methods.gradient import AsksTeachers, GradientMethod, TrainsModel
from noisegate.methods.registry import register
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.privacy.shard_plan import ShardQuery
from noisegate.schema import Schema
from noisegate.settings import Count, Positive, derived, settings
from noisegate_papers.methods.shards import AUDITED_TEACHERS, ShardSettings

if TYPE_CHECKING:
    from noisegate.models.record_model import RecordModel
    from noisegate_papers.training.guided import StudentTraining
    from noisegate_papers.training.shard_teacher import ShardTeacher


@register("pate-gan")
@settings
class PATEGAN(ShardSettings, TrainsModel, AsksTeachers, GradientMethod):
    """PATE-GAN: a GAN whose student learns from noisy votes of teachers (Jordon et al. 2019).

    Jordon, Yoon and van der Schaar (ICLR 2019), https://openreview.net/forum?id=S1zk9iRqF7. Teachers vote whether a
    record is real. A student is trained on the noisy votes, and the generator is trained with the student.

    Two things differ from the paper, because otherwise the teachers would soon vote that no record is real: the records
    for the votes are mixed with uniform noise, and a teacher votes for the records that it scores above the average of
    their label.

    Examples:
        >>> from noisegate import Budget, PATEGAN, Schema
        >>> from noisegate.schema import Integer
        >>> method = PATEGAN(steps=10, batch=64)
        >>> event = method.plan(Schema([Integer(name="age", lower=0, upper=99)]), Budget(epsilon=1.0)).events[0]
        >>> event.event.coordinates, method.clip_norm  # 64 votes of one half
        (64, 4.0)
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {
        **AUDITED_TEACHERS,
        "teacher_learning_rate": 5.0,
    }

    batch: Count = 64
    student_learning_rate: Positive = 3e-3
    """Learning rate of the student, for Adam."""
    student_rounds: Count = 3
    """Number of steps of the student for each step of the generator."""
    clip_norm: Positive = derived(lambda given: math.sqrt(given["batch"]) / 2)
    """L2 norm of all votes of a teacher in a step. A vote for or against a record is one half."""

    def __post_init__(self) -> None:
        self.check_generator()

    def gradient_plan(self, schema: Schema, budget: Budget) -> ShardQuery:
        """Returns the steps. In each, a teacher votes on every record of the step."""
        return self.shard_plan(schema, {"votes": (self.batch,)})

    def teacher(self, schema: Schema) -> ShardTeacher:
        """Returns a teacher in its initial state."""
        from noisegate_papers.training.shard_teacher import votes

        return self.shard_teacher(schema, votes)

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> StudentTraining:
        """Returns the training of generator and student in its initial state; see `GradientMethod`."""
        from noisegate_papers.training.guided import StudentTraining

        return StudentTraining(
            self.discriminator(schema).to(device),
            self.taught_start(schema, device),
            learning_rate=self.student_learning_rate,
            rounds=self.student_rounds,
            teachers=self.teachers * self.sampling_probability,
        )

    def model(self, release: Release) -> RecordModel:
        """Returns the released generator, to sample from."""
        return self.released_generator(release)
