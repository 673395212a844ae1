"""A generator that follows noisy answers about the records that it makes: gradients at them, or votes by a student.

In each step it makes some records, which are public; what is released says where they should go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from noisegate_images.models.generator import Generator
from noisegate_images.training.adam import Adam, Checkpointed
from noisegate_papers.models.inputs import DiscriminatorInput
from noisegate_papers.training.adversarial import Discriminator, stream

if TYPE_CHECKING:
    from jaxtyping import Float, Int64, Shaped

Labelled = tuple[
    Tensor, Tensor
]  # records, (records, inputs), and their labels, (records,) int64


@dataclass(frozen=True, kw_only=True)
class GuidedStart:
    """A generator before its first step, and how it is trained."""

    generator: Generator
    label_shares: Float[Tensor, " labels"]
    """Share of each label; one 1 without any."""
    encode: DiscriminatorInput
    """From the generator to the inputs of what it makes, the label left out."""
    batch: int
    """Records that are generated in each step."""
    learning_rate: float
    """Of Adam."""
    seed: int
    """Seed of noise vectors and labels."""
    device: str
    beta1: float = 0.9
    """Of Adam."""
    ema_decay: float = 0.0
    """Of the average of the weights, which is released, and of which the first t steps keep (1 + t)/(10 + t) at most;
    0 releases the weights after the last step."""
    relabelled: int = 0
    """The last so many records of a step have the labels of the first ones."""


class GeneratorOnItsWay:
    """A generator between two steps: its records of the step, its optimiser and its average."""

    def __init__(self, start: GuidedStart) -> None:
        self.start = start
        self.generator = start.generator.train()
        self.adam = Adam(
            dict(self.generator.named_parameters()),
            learning_rate=start.learning_rate,
            beta1=start.beta1,
        )
        self.average: dict[str, Tensor] = {}
        if start.ema_decay:
            self.average = {
                name: value.clone()
                for name, value in self.generator.state_dict().items()
            }
        self._step: int | None = None
        self._records: Labelled | None = None

    def records(self, step: int) -> Labelled:
        """Returns the generated records of a step with their labels.

        They are made once in each step, from the weights that it starts with.

        Args:
            step: Number of the step, counted from 0.
        """
        if self._records is None or self._step != step:
            labels, random = self.labels(step)
            noise = self.generator.noise(self.start.batch, random)
            device = self.start.device
            inputs = self.start.encode(
                self.generator, noise.to(device), labels.to(device), random
            )
            self._step = step
            self._records = inputs, labels
        return self._records

    def labels(self, step: int) -> tuple[Int64[Tensor, " records"], torch.Generator]:
        """Returns the labels of a step, and the randomness that its noise follows on."""
        start = self.start
        random = stream(start.seed, step)
        labels = torch.multinomial(
            start.label_shares,
            start.batch - start.relabelled,
            replacement=True,
            generator=random,
        )
        return torch.cat([labels, labels[: start.relabelled]]), random

    def follow(self, step: int) -> None:
        """Takes the weights after a step into their average.

        Args:
            step: Number of the step, counted from 0.
        """
        if self.average:
            kept = min(self.start.ema_decay, (1 + step) / (10 + step))
            for name, value in self.generator.state_dict().items():
                average = torch.lerp(
                    self.average[name].float(), value.float(), 1 - kept
                )
                self.average[name].copy_(average)
        self._records = None

    def result(self) -> dict[str, Tensor]:
        """Returns the weights and running statistics, or their averages."""
        return dict(self.average or self.generator.state_dict())

    def parts(self) -> dict[str, Any]:
        """Returns the generator, its average and its optimiser."""
        return {
            "generator": self.generator,
            "average": self.average,
            "adam": self.adam,
        }


class TransportTraining(Checkpointed):
    """A generator that follows noisy gradients at the records that it makes.

    Args:
        start: The generator.
        gradient: From the release, and what a step asked with beside the
            records, to a gradient at them, (records, inputs); None for the array
            "records" of the former.
        beside: What a step asks with beside the records, by its number; None for
            nothing.
    """

    def __init__(
        self,
        start: GuidedStart,
        *,
        gradient: Callable[[Mapping[str, Tensor]], Tensor] | None = None,
        beside: Callable[[int], Mapping[str, Tensor]] | None = None,
    ) -> None:
        self.steps = 0
        self.on_its_way = GeneratorOnItsWay(start)
        self._gradient = gradient
        self._beside = beside

    def parameters(self) -> dict[str, Tensor]:
        """Returns the generated records of this step, their labels, and what it asks with beside them."""
        records, labels = self.on_its_way.records(self.steps)
        return {"records": records.detach(), "labels": labels, **self._asked_beside()}

    def step(self, noisy: Mapping[str, Any]) -> None:
        """Moves the generator against a noisy gradient at its records."""
        records, _ = self.on_its_way.records(self.steps)
        known = {
            name: torch.as_tensor(value).to(records)
            for name, value in {**self._asked_beside(), **noisy}.items()
        }
        gradient = known["records"] if self._gradient is None else self._gradient(known)
        self.on_its_way.adam.descend(records, gradient)
        self.on_its_way.follow(self.steps)
        self.steps += 1

    def result(self) -> dict[str, Tensor]:
        """Returns the generator's weights and running statistics, or their averages."""
        return self.on_its_way.result()

    def parts(self) -> dict[str, Any]:
        """Returns the generator, its average and its optimiser."""
        return self.on_its_way.parts()

    def _asked_beside(self) -> Mapping[str, Tensor]:
        return {} if self._beside is None else self._beside(self.steps)


class StudentTraining(Checkpointed):
    """Generator and student on their way: votes teach the student, and the student the generator.

    Votes are asked for on records that are mixed with uniform noise, each in a share of its own: on the generator's own
    a student learns nothing of any other, and the generator ends in a few records of which all votes are alike.

    Args:
        student: The student at its start.
        start: The generator.
        learning_rate: Of the student, by Adam.
        rounds: Steps of the student to one of the generator.
        teachers: Number of teachers that are asked in a step, expected.
    """

    def __init__(
        self,
        student: Discriminator,
        start: GuidedStart,
        *,
        learning_rate: float,
        rounds: int,
        teachers: float,
    ) -> None:
        self.steps = 0
        self.on_its_way = GeneratorOnItsWay(start)
        self.student = student
        self._rounds = rounds
        self._teachers = teachers
        self._student_adam = Adam(
            dict(student.named_parameters()), learning_rate=learning_rate
        )
        self._asked_step: int | None = None
        self._asked = torch.zeros(0)

    def parameters(self) -> dict[str, Tensor]:
        """Returns the generated records of this step, their labels, and the mixed ones that are asked about."""
        records, labels = self.on_its_way.records(self.steps)
        asked = self._asked_records()
        return {"records": records.detach(), "labels": labels, "asked": asked}

    def step(self, noisy: Mapping[str, Any]) -> None:
        """Moves the student by the share of votes for each asked record, and then the generator by the student."""
        records, labels = self.on_its_way.records(self.steps)
        asked = self._asked_records()
        votes = torch.as_tensor(noisy["votes"]).to(records)
        vote_shares = (votes / self._teachers + 0.5).clamp(0, 1)
        asked_rows = self.student.rows(asked, labels)
        for _ in range(self._rounds):
            scores = self.student(asked_rows)
            self._student_adam.descend(
                binary_cross_entropy_with_logits(scores, vote_shares)
            )
        generated_scores = self.student(self.student.rows(records, labels))
        self.on_its_way.adam.descend(softplus(-generated_scores).mean())
        self.on_its_way.follow(self.steps)
        self.steps += 1

    def result(self) -> dict[str, Tensor]:
        """Returns the generator's weights and running statistics, or their averages."""
        return self.on_its_way.result()

    def parts(self) -> dict[str, Any]:
        """Returns both networks and both optimisers."""
        return {
            **self.on_its_way.parts(),
            "student": self.student,
            "student_adam": self._student_adam,
        }

    def _asked_records(self) -> Float[Tensor, "records inputs"]:
        """Returns the mixed records of this step.

        They are made once, after the step's own records: running statistics of the
        generator follow all that it makes, in this order.
        """
        if self._asked_step != self.steps:
            start = self.on_its_way.start
            labels, _ = self.on_its_way.labels(self.steps)
            random = stream(start.seed, self.steps, 1)
            noise = self.on_its_way.generator.noise(start.batch, random)
            with torch.no_grad():
                self._asked = start.encode(
                    partial(self._mixed, random),  # type: ignore[arg-type]
                    noise.to(start.device),
                    labels.to(start.device),
                    random,
                )
            self._asked_step = self.steps
        return self._asked

    def _mixed(
        self,
        random: torch.Generator,
        noise: Float[Tensor, "records latent"],
        labels: Shaped[Tensor, " records"],
    ) -> Any:
        """Returns generated records, each mixed with uniform noise in a share of its own."""
        generated = self.on_its_way.generator(noise, labels)
        noise_shares = torch.rand(self.on_its_way.start.batch, generator=random)
        noise_shares = noise_shares.to(self.on_its_way.start.device)
        if isinstance(generated, list):  # of a table: the chance of each cell
            return [
                column + noise_shares * (1 / len(column) - column)
                for column in generated
            ]
        uniform = torch.rand(generated.shape, generator=random).to(generated)
        return generated + noise_shares[:, None] * (uniform - generated)
