"""Methods on disjoint shards, each with a teacher behind the gate (G-26): PATE-GAN, GS-WGAN, DataLens and G-PATE.

Each shard has a teacher behind the gate, trained on it alone, which answers about
generated records; the noisy sum of bounded answers leaves the gate (`Gate.shards`,
G-26), and a generator learns from it. ε is that of the worst case and follows from the
plan: published programs state one that depends on how far teachers agree, which is
private (https://arxiv.org/abs/1802.08908). What differs is in
[differences](../../docs/differences.md).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.errors import OptionError
from noisegate.methods.registry import register
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.shard_plan import ShardQuery
from noisegate.schema import Schema
from noisegate.settings import (
    Count,
    Fraction,
    Positive,
    TwoOrMore,
    Unit,
    Widths,
    derived,
    settings,
)
from noisegate_papers.methods.gan import GuidedMethod, by_records
from noisegate_papers.methods.generative import GENERATOR, Shapes, shapes_of
from noisegate_papers.models.inputs import inputs_of

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from noisegate.gate.gate import Gate
    from noisegate_papers.training.teachers import (
        ShardTeacher,
        StudentTraining,
        TransportTraining,
    )

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

    Defaults for images were tried on simulated digits (benchmarks/simulated_digits.py of commit 14f1ae5e),
    with 20 teachers that stood for 1,000 and their noise in proportion; those for tables, without noise, on the survey
    of `noisegate demo`.
    """

    resumable, nonnegative = False, False
    says: ClassVar[tuple[str, ...]]
    taught: ClassVar[tuple[str, ...]] = ()
    """What a teacher says, of `training.teachers`, with what settings, and those that it is given beside all others."""

    teachers: Count = 1000
    """Disjoint shards, each with a perceptron. More are louder over the same noise, and know less each."""
    teacher_hidden: Widths = by_records(table=(32,), images=(16,))
    teacher_records: Count = 32
    teacher_learning_rate: Positive = 3e-3
    teacher_rounds: Count = 1
    """Records of its shard that a teacher sees in a step of Adam, and how many of these it takes in a step."""
    steps: Count = 200
    sampling_probability: Fraction = 1.0
    """Of each teacher, by itself, to be asked in a step."""
    ema_decay: Unit = 0.99
    """Of the average of the generator over the steps, which is what is released; 0 releases that of the last step."""

    @abstractmethod
    def answers(self, schema: Schema) -> Shapes:
        """Returns the shape of each array of an answer."""

    def teacher(self, schema: Schema) -> ShardTeacher:
        """Returns what a teacher learns and answers."""
        from noisegate_papers.training import teachers

        name, given = self.says[0], {name: getattr(self, name) for name in self.taught}
        says = partial(
            getattr(teachers, name),
            **{name: getattr(self, name) for name in self.says[1:]},
        )
        return teachers.ShardTeacher(**self.teaching(schema), **given, says=says)

    @staticmethod
    def inputs(schema: Schema) -> int:
        """Returns how many inputs a record has, the label left out."""
        return len(inputs_of(schema, centre=0.5).names)

    def beside(self, schema: Schema, step: int) -> Mapping[str, Tensor]:
        """Returns what teachers are told in a step beside the generated records; here, nothing."""
        return {}

    def pulled(
        self, schema: Schema, told: Mapping[str, Tensor]
    ) -> Float[Tensor, "records inputs"]:
        """Returns the gradient at generated records, (records, inputs), by a noisy sum of answers and `beside`."""
        return told["records"]

    def gradient_plan(self, schema: Schema, budget: Budget) -> ShardQuery:
        """Returns the steps; refuses a schema that does not fit the settings."""
        gan, _ = self.checked(schema)
        asked: dict[str, Any] = {
            **self.descent,
            "shards": self.teachers,
            "nonnegative": self.nonnegative,
        }
        trained = shapes_of(gan.generator(schema).state_dict())
        return ShardQuery(
            name=GENERATOR, parameters=self.answers(schema), trained=trained, **asked
        )

    def session(
        self,
        gate: Gate,
        plan: Plan,
        *,
        journal: Path | None,
        **options: Any,
    ) -> Any:
        """Returns a session of sums over shards, without a journal."""
        facts, device = self.public_facts(gate.schema), options.get("device", "cpu")
        return gate.shards(
            plan,
            self.teacher(gate.schema),
            method=self.name,
            public=facts,
            device=device,
        )

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> TransportTraining:
        """Returns the generator at its start."""
        from noisegate_papers.training.teachers import TransportTraining

        return TransportTraining(**self.guided(schema, device))

    def guided(self, schema: Schema, device: str) -> dict[str, Any]:
        """Returns what the training of the generator is given; β₁ of Adam is that of GANs, as at 0.9 they circle."""
        asked = {
            "gradient": partial(self.pulled, schema),
            "beside": partial(self.beside, schema),
            "beta1": 0.5,
        }
        return {
            **self.generator_training(schema, self.batch, device),
            **asked,
            "ema_decay": self.ema_decay,
        }

    def teaching(self, schema: Schema) -> dict[str, Any]:
        """Returns what every teacher is given."""
        from noisegate_papers.training.adversarial import build_table_discriminator

        gan, sizes = self.gan(schema), (self.inputs(schema), schema.layout.classes)
        return {
            "discriminator": build_table_discriminator(
                *sizes, hidden=self.teacher_hidden, seed=gan.discriminator_seed
            ),
            "encode": gan.inputs(schema)[0],
            "label": schema.layout.label,
            **{
                name: getattr(self, f"teacher_{name}")
                for name in ("records", "learning_rate", "rounds")
            },
        }


@register("pate-gan")
@settings
class PATEGAN(ShardedMethod):
    """PATE-GAN: a GAN whose student learns from noisy votes of teachers (Jordon et al. 2019).

    Jordon, Yoon and van der Schaar (ICLR 2019), https://openreview.net/forum?id=S1zk9iRqF7. Teachers vote on records,
    real or not; a student learns from the noisy votes, and the generator from it. Here records that are voted on are
    mixed with uniform noise, and a vote is for those above the mean of their label: soon none would be taken for real.

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
    says = ("votes",)

    batch: Count = 64
    student_learning_rate: Positive = 3e-3
    student_rounds: Count = 3
    """Of the student, by Adam, and how many steps it takes for one of the generator."""
    clip_norm: Positive = derived(lambda given: math.sqrt(given["batch"]) / 2)
    """L2 norm of all votes of a teacher in a step, one half for or against each record."""

    def answers(self, schema: Schema) -> Shapes:
        """Returns the shape of the votes."""
        return {"votes": (self.batch,)}

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> StudentTraining:
        """Returns generator and student at their start."""
        from noisegate_papers.training.teachers import StudentTraining

        student, asked = (
            self.teaching(schema)["discriminator"].to(device),
            self.teachers * self.sampling_probability,
        )
        given = {
            **self.guided(schema, device),
            "rounds": self.student_rounds,
            "teachers": asked,
        }
        return StudentTraining(
            student, student_learning_rate=self.student_learning_rate, **given
        )


@register("gs-wgan")
@settings
class GSWGAN(ShardedMethod):
    """GS-WGAN: a Wasserstein GAN with sanitized gradients of many critics (Chen et al. 2020).

    Chen, Orekondy and Fritz (NeurIPS 2020), https://arxiv.org/abs/2006.08265. Critics of the Wasserstein distance are
    trained without noise behind the gate; what leaves is the gradient at generated records, each clipped, with noise.

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
        **{
            "sampling_probability": 0.5,
            "teacher_learning_rate": 0.1,
            "learning": 2,
            "warm_up": 1,
        },
    }
    says, taught = (
        ("clipped_answers", "clip_norm"),
        ("learning", "warm_up", "penalty", "drift"),
    )

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


def _largest(given: Mapping[str, Any]) -> Any:
    return given["largest"] or (4 if given["image"] is None else 200)


@register("datalens")
@settings
class DataLens(ShardedMethod):
    """DataLens: a generator taught by compressed, voted gradients of many teachers (Wang et al. 2021).

    Wang, Wu, Long, Rimanic, Zhang and Li (CCS 2021), https://arxiv.org/abs/2103.11109. Each teacher's gradient at a
    generated record is compressed to the signs of its k largest entries, of which the noisy sum is followed.

    Examples:
        >>> from noisegate import Budget, DataLens, Schema
        >>> from noisegate.schema import Integer
        >>> schema = Schema([Integer(name=name, lower=0, upper=99) for name in ("age", "dose")])
        >>> method = DataLens(steps=10, batch=8, largest=2)
        >>> event = method.plan(schema, Budget(epsilon=1.0)).events[0]
        >>> sensitivity = event.event.sensitivity / 2**22  # the norm of all signs of a step is √(k·batch)
        >>> event.shards, sensitivity, method.clip_norm
        (1000, 2.0, 4.0)
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {**AUDITED_TEACHERS, "largest": 2}
    says = ("largest_signs", "largest", "bound")

    largest: Count = derived(_largest)
    """k: how many entries of a gradient count."""
    bound: Positive = 1e-5
    """Entries of a gradient below this are rounded to a sign at random, in proportion."""
    threshold: Unit = 0.0
    """β: the part of the teachers that must agree, over those that do not, for an entry to count; the paper takes 0.2
    to 0.9. At 0 the noisy sum is followed as it is."""
    clip_norm: Positive = derived(
        lambda given: math.sqrt(_largest(given) * given["batch"])
    )
    """L2 norm of all signs of a teacher in a step."""

    def answers(self, schema: Schema) -> Shapes:
        """Returns the shape of the signs; an OptionError if a record has fewer inputs than signs that count."""
        inputs = self.inputs(schema)
        if self.largest > inputs:
            raise OptionError(
                f"largest={self.largest} is more than the {inputs} inputs that a record has; lower it."
            )
        return {"records": (self.batch, inputs)}

    def pulled(
        self, schema: Schema, told: Mapping[str, Tensor]
    ) -> Float[Tensor, "records inputs"]:
        """Returns the mean sign of each entry, or with a threshold the sign of each that is beyond it."""
        mean = told["records"] / (self.teachers * self.sampling_probability)
        return mean.sign() * (mean.abs() >= self.threshold) if self.threshold else mean


def _coordinates(given: Mapping[str, Any]) -> Any:
    return given["coordinates"] or (10 if given["image"] is None else 100)


@register("g-pate")
@settings
class GPATE(ShardedMethod):
    """G-PATE: a generator taught by voted gradients of many teachers (Long et al. 2021).

    Long, Wang, Yang, Kailkhura, Zhang, Gunter and Li (NeurIPS 2021), https://arxiv.org/abs/1906.09338. Each teacher's
    gradient at a generated record is projected at random to a few coordinates, in each of which it votes for a bin; the
    one with the most noisy votes stands for the gradient.

    Examples:
        >>> from noisegate import Budget, GPATE, Schema
        >>> from noisegate.schema import Integer
        >>> method = GPATE(steps=10, batch=8, coordinates=2, bins=5)
        >>> event = method.plan(Schema([Integer(name="age", lower=0, upper=99)]), Budget(epsilon=1.0)).events[0]
        >>> event, clip_norm = event.event, method.clip_norm
        >>> event.coordinates, clip_norm, round(event.sensitivity / 2**22, 3)  # other bins: √2 times the norm
        (80, 4.0, 1.414)
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {
        **AUDITED_TEACHERS,
        "coordinates": 2,
        "bins": 4,
    }
    says, nonnegative = ("histogram_votes", "bound", "bins"), True

    coordinates: Count = derived(_coordinates)
    """Coordinates of the random projection; the paper has 10, of which thousands of steps are needed for images."""
    bins: TwoOrMore = 4
    bound: Positive = 1e-2
    """Projected gradients are clipped to ± this; the paper has 10 bins and 1e-4."""
    clip_norm: Positive = derived(
        lambda given: math.sqrt(given["batch"] * _coordinates(given))
    )
    """L2 norm of all votes of a teacher in a step."""

    def answers(self, schema: Schema) -> Shapes:
        """Returns the shape of the histograms."""
        return {"votes": (self.batch, self.coordinates, self.bins)}

    def beside(self, schema: Schema, step: int) -> Mapping[str, Tensor]:
        """Returns projections, (records, inputs, coordinates), of independent entries of variance 1/coordinates.

        Each step and each record has its own: what one leaves out, others have, and their mean is near the gradient.
        """
        import torch

        from noisegate_papers.training.adversarial import stream

        # The generator's noise of the step has the stream of two numbers.
        drawn = torch.randn(
            self.batch,
            self.inputs(schema),
            self.coordinates,
            generator=stream(self.seed, step, 1),
        )
        return {"projection": drawn / math.sqrt(self.coordinates)}

    def pulled(
        self, schema: Schema, told: Mapping[str, Tensor]
    ) -> Float[Tensor, "records inputs"]:
        """Returns the middle of the bins with the most votes, back at the inputs."""
        votes = told["votes"]
        middles = (2 * votes.argmax(dim=2) + 1) / self.bins - 1
        return (
            self.bound
            * (told["projection"] @ middles.to(votes.dtype)[:, :, None])[:, :, 0]
        )
