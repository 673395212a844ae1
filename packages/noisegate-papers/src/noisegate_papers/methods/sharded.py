"""Base of methods on disjoint shards: each has a teacher behind the gate, and a generator learns from noisy sums.

Teachers, each trained on its shard alone, answer about generated records, and the noisy sum of their bounded answers
leaves the gate (`Gate.shards`, G-26). ε is that of the worst case and follows from the plan: published programs state
one that depends on how far teachers agree, which is private (https://arxiv.org/abs/1802.08908).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from noisegate.privacy.gradient_plan import CalibratedGradientPlan
from noisegate.privacy.plan import Budget
from noisegate.privacy.shard_plan import ShardPlan
from noisegate.schema import Schema
from noisegate.settings import Count, Fraction, Positive, Widths, settings
from noisegate_papers.methods.gan import GuidedMethod, by_records
from noisegate_papers.methods.generative import GENERATOR, shapes_of
from noisegate_papers.models.inputs import inputs_of

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from noisegate.gate.gate import Gate
    from noisegate_papers.methods.generative import Shapes
    from noisegate_papers.training.teachers import ShardTeacher
    from noisegate_papers.training.transport import TransportTraining


AUDITED_TEACHERS: Mapping[str, Any] = MappingProxyType(
    {
        **{"steps": 10, "teachers": 6, "teacher_hidden": (8,), "teacher_records": 4},
        **{"hidden": (8,), "latent": 4, "batch": 8, "teacher_learning_rate": 1.0},
    }
)
"""Of `Method.audit_settings`."""


@settings
class ShardedMethod(GuidedMethod):
    """Settings of methods on disjoint shards; none of them depends on private data.

    Defaults for images were tried on simulated digits (benchmarks/simulated_digits.py), with 20 teachers that stood for
    1,000 and their noise in proportion; those for tables, without noise, on the survey of `noisegate demo`.
    """

    resumable, nonnegative = False, False

    teachers: Count = 1000
    """Disjoint shards, each with a perceptron. More are louder over the same noise, and know less each."""
    teacher_hidden: Widths = by_records(table=(32,), images=(16,))
    teacher_records: Count = 32
    teacher_learning_rate: Positive = 3e-3
    teacher_rounds: Count = 1
    """Records of its shard that a teacher sees in a step of the generator, and how many steps of Adam it takes."""
    steps: Count = 200
    sampling_probability: Fraction = 1.0
    """Of each teacher, by itself, to be asked in a step."""

    @abstractmethod
    def answers(self, schema: Schema) -> Shapes:
        """Returns the shape of each array of an answer."""

    @abstractmethod
    def teacher(self, schema: Schema) -> ShardTeacher:
        """Returns what a teacher learns and answers."""

    @staticmethod
    def inputs(schema: Schema) -> int:
        """Returns how many inputs a record has, the label left out."""
        return len(inputs_of(schema, centre=0.5).names)

    def beside(self, schema: Schema, step: int) -> Mapping[str, Tensor]:
        """Returns what teachers are told in a step beside the generated records; here, nothing."""
        return {}

    def pulled(self, schema: Schema, told: Mapping[str, Tensor]) -> Float[Tensor, "records inputs"]:
        """Returns the gradient at generated records, (records, inputs), by a noisy sum of answers and `beside`."""
        return told["records"]

    def gradient_plan(self, schema: Schema, budget: Budget) -> ShardPlan:
        """Returns the steps; refuses a schema that does not fit the settings."""
        gan, _ = self.checked(schema)
        return ShardPlan(
            name=GENERATOR,
            steps=self.steps,
            shards=self.teachers,
            sampling_probability=self.sampling_probability,
            clip_norm=self.clip_norm,
            nonnegative=self.nonnegative,
            parameters=self.answers(schema),
            trained=shapes_of(gan.generator(schema).state_dict()),
        )

    def session(self, gate: Gate, plan: CalibratedGradientPlan, *, journal: Path | None, **options: Any) -> Any:
        """Returns a session of sums over shards, without a journal."""
        facts, device = self.public_facts(gate.schema), options.get("device", "cpu")
        return gate.shards(plan, self.teacher(gate.schema), method=self.name, public=facts, device=device)

    def training(self, schema: Schema, plan: CalibratedGradientPlan, batch: float, device: str) -> TransportTraining:
        """Returns the generator at its start."""
        from noisegate_papers.training.transport import TransportTraining

        asked: dict[str, Any] = {"gradient": partial(self.pulled, schema), "beside": partial(self.beside, schema)}
        return TransportTraining(**self.generator_training(schema, self.batch, device), **asked)

    def teaching(self, schema: Schema) -> dict[str, Any]:
        """Returns what every teacher is given."""
        from noisegate_papers.networks.discriminator import build_table_discriminator

        gan, sizes = self.gan(schema), (self.inputs(schema), schema.layout.classes)
        return {
            "discriminator": build_table_discriminator(*sizes, hidden=self.teacher_hidden, seed=gan.discriminator_seed),
            "encode": gan.inputs(schema)[0],
            "label": schema.layout.label,
            "records": self.teacher_records,
            "learning_rate": self.teacher_learning_rate,
            "rounds": self.teacher_rounds,
        }
