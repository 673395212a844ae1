"""GS-WGAN: a Wasserstein GAN with sanitized gradients of many critics (G-26).

Chen, Orekondy and Fritz (NeurIPS 2020), https://arxiv.org/abs/2006.08265. Critics of the Wasserstein distance are
trained without noise inside the gate. Only their gradients at generated records are released, each clipped, with noise.
Differences from the paper are in [differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.methods.gradient import AsksTeachers, GradientMethod, TrainsModel
from noisegate.methods.registry import register
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.privacy.shard_plan import ShardQuery
from noisegate.schema import Schema
from noisegate.settings import Count, Positive, settings
from noisegate_papers.methods.shards import AUDITED_TEACHERS, ShardSettings

if TYPE_CHECKING:
    from noisegate.models.record_model import RecordModel
    from noisegate_papers.training.guided import TransportTraining
    from noisegate_papers.training.shard_teacher import ShardTeacher


@register("gs-wgan")
@settings
class GSWGAN(ShardSettings, TrainsModel, AsksTeachers, GradientMethod):
    """GS-WGAN: a Wasserstein GAN with sanitized gradients of many critics (Chen et al. 2020).

    Chen, Orekondy and Fritz (NeurIPS 2020), https://arxiv.org/abs/2006.08265. Critics of the Wasserstein distance are
    trained without noise inside the gate. Only their gradients at generated records are released, each clipped, with
    noise.

    Examples:
        >>> from noisegate import Budget, GSWGAN, Schema
        >>> from noisegate.privacy.gradient_plan import steps_of
        >>> from noisegate.schema import Integer
        >>> paper = GSWGAN(steps=20_000, sampling_probability=1 / 1000, batch=32)
        >>> plan = paper.plan(Schema([Integer(name="age", lower=0, upper=99)]), Budget(epsilon=1.0))
        >>> multiplier = steps_of(plan).noise_multiplier  # of a step
        >>> round(multiplier, 2), round(multiplier * 32**0.5, 2)  # of a step, of each record
        (0.56, 3.15)
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {
        **AUDITED_TEACHERS,
        "sampling_probability": 0.5,
        "teacher_learning_rate": 0.1,
        "learning": 2,
        "warm_up": 1,
    }

    learning: Count | None = None
    """Number of critics trained in each step. The critics take turns. None trains all of them in every step."""
    warm_up: Count = 20
    """Number of trainings of every critic before the first step."""
    teacher_rounds: Count = 5
    teacher_learning_rate: Positive = 1e-3
    penalty: Positive = 10.0
    """Weight of the gradient penalty."""
    drift: Positive = 1e-3
    """Weight of the squared scores of real records."""
    clip_norm: Positive = 1.0
    """L2 norm of all gradients of a step together. Each gradient is clipped to this divided by √batch."""

    def __post_init__(self) -> None:
        self.check_generator()

    def gradient_plan(self, schema: Schema, budget: Budget) -> ShardQuery:
        """Returns the steps. In each, a critic computes the gradient at every generated record."""
        return self.shard_plan(
            schema, {"records": (self.batch, self.input_count(schema))}
        )

    def teacher(self, schema: Schema) -> ShardTeacher:
        """Returns a critic in its initial state."""
        from noisegate_papers.training.shard_teacher import clipped_answers

        answer = partial(clipped_answers, clip_norm=self.clip_norm)
        return replace(
            self.shard_teacher(schema, answer),
            learning=self.learning,
            warm_up=self.warm_up,
            penalty=self.penalty,
            drift=self.drift,
        )

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> TransportTraining:
        """Returns the training of the generator in its initial state; see `GradientMethod`."""
        from noisegate_papers.training.guided import TransportTraining

        return TransportTraining(self.taught_start(schema, device))

    def model(self, release: Release) -> RecordModel:
        """Returns the released generator, to sample from."""
        return self.released_generator(release)
