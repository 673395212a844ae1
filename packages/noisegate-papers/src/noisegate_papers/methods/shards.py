"""Base of methods on disjoint shards (G-26): teachers behind the gate, and a generator that learns from them.

Each shard has a teacher behind the gate, which is trained on that shard only, and computes a bounded vector for
generated records. The noisy sum of these vectors is released (`Gate.shards`, G-26), and a generator learns from it. ε
is that of the worst case, and is computed from the plan. The published programs state an ε that depends on how far
teachers agree, which is private (https://arxiv.org/abs/1802.08908). For other deviations see
[differences](../../docs/differences.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.privacy.shard_plan import ShardQuery
from noisegate.schema import Schema
from noisegate.seeds import MOST_SEED
from noisegate.settings import Count, Fraction, Positive, Seed, Unit, Widths, settings
from noisegate_papers.methods.guided import GuidedGenerator
from noisegate_papers.methods.record_generator import by_records
from noisegate_papers.methods.steps import GENERATOR, Shapes, StepSettings

if TYPE_CHECKING:
    from noisegate_papers.training.adversarial import Discriminator
    from noisegate_papers.training.guided import GuidedStart
    from noisegate_papers.training.shard_teacher import ShardTeacher, Weights

AUDITED_TEACHERS: Mapping[str, Any] = MappingProxyType(
    {
        "steps": 10,
        "teachers": 6,
        "teacher_hidden": (8,),
        "teacher_records": 4,
        "hidden": (8,),
        "latent": 4,
        "batch": 8,
        "teacher_learning_rate": 1.0,
    }
)
"""The part of `Method.audit_settings` that methods on shards have in common."""

_GAN_BETA1 = 0.5
"""Of Adam, as GANs have it: at 0.9 they circle."""


@settings
class ShardSettings(GuidedGenerator):
    """Settings of methods on disjoint shards; none of them depends on private data.

    Defaults for images were tried on simulated digits (benchmarks/simulated_digits.py of commit 14f1ae5e), with 20
    teachers that represented 1,000 and their noise in proportion. Defaults for tables were tried without noise on the
    survey of `noisegate demo`.
    """

    renamed: ClassVar[Mapping[str, str]] = StepSettings.renamed

    teachers: Count = 1000
    """Number of disjoint shards, each with a perceptron. With more teachers, the signal is larger relative to the
    noise, but each teacher is trained on fewer records."""
    teacher_hidden: Widths = by_records(table=(32,), images=(16,))
    """Widths of a teacher's hidden layers."""
    teacher_records: Count = 32
    """Number of records of its shard that a teacher uses in a step of Adam."""
    teacher_learning_rate: Positive = 3e-3
    """Learning rate of a teacher, for Adam."""
    teacher_rounds: Count = 1
    """Number of steps of Adam that a teacher takes in each step."""
    steps: Count = 200
    """Number of noisy sums of the teachers. Each adds to the cost."""
    sampling_probability: Fraction = 1.0
    """Probability that a teacher takes part in a step, for each teacher independently."""
    clip_norm: Positive = 1.0
    """L2 norm that the vector of a teacher in a step is clipped to."""
    seed: Seed = 0
    """Seed for non-private randomness: initial weights, noise vectors. The samples and the noise that protects the
    records cannot be seeded."""
    ema_decay: Unit = 0.99
    """Decay of the moving average of the generator over the steps, which is released; 0 releases the generator of the
    last step."""

    def shard_plan(
        self, schema: Schema, answers: Shapes, *, nonnegative: bool = False
    ) -> ShardQuery:
        """Returns the steps; refuses a schema that does not fit the settings.

        Args:
            schema: Public schema of the records.
            answers: Shape of each array that a teacher answers with.
            nonnegative: Whether no number of an answer is negative.
        """
        self.input_count(schema)
        return ShardQuery(
            name=GENERATOR,
            parameters=answers,
            trained=self.trained_shapes(schema),
            steps=self.steps,
            sampling_probability=self.sampling_probability,
            clip_norm=self.clip_norm,
            shards=self.teachers,
            nonnegative=nonnegative,
        )

    def shard_teacher(
        self,
        schema: Schema,
        answer: Callable[[ShardTeacher, Weights, Weights], Weights],
    ) -> ShardTeacher:
        """Returns a teacher in its initial state.

        Args:
            schema: Public schema of the records.
            answer: Function that computes its vector, from `noisegate_papers.training.shard_teacher`.
        """
        from noisegate_papers.training.shard_teacher import ShardTeacher

        return ShardTeacher(
            answer_fn=answer,
            discriminator=self.discriminator(schema),
            encode=self.real_inputs(schema),
            label=schema.layout.label,
            records=self.teacher_records,
            learning_rate=self.teacher_learning_rate,
            rounds=self.teacher_rounds,
        )

    def discriminator(self, schema: Schema) -> Discriminator:
        """Returns the perceptron of a teacher or a student in its initial state."""
        from noisegate_papers.training.adversarial import build_table_discriminator

        return build_table_discriminator(
            self.input_count(schema),
            schema.layout.classes,
            hidden=self.teacher_hidden,
            seed=(self.seed + 1) % (MOST_SEED + 1),
        )

    def taught_start(self, schema: Schema, device: str) -> GuidedStart:
        """Returns the generator in its initial state, with the arguments of its training."""
        start = self.guided_start(
            schema, batch=self.batch, seed=self.seed, device=device
        )
        return replace(start, beta1=_GAN_BETA1, ema_decay=self.ema_decay)
