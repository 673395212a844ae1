"""A generator that follows noisy gradients of an optimal transport loss at what it makes; it sees no record.

Entropic transport W between two sets of equal weights is Σ P·cost at the plan P of Sinkhorn's algorithm (Cuturi,
NeurIPS 2013, https://arxiv.org/abs/1306.0895), in logarithms. Its gradient takes P as it is (the envelope theorem).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, one_hot, softplus

from noisegate.models.checkpoint import joined, under
from noisegate_images.models.generator import Generator
from noisegate_images.training.adam import Adam
from noisegate_papers.models.inputs import DiscriminatorInput
from noisegate_papers.training.adversarial import Discriminator, stream

if TYPE_CHECKING:
    from jaxtyping import Float, Shaped

Labelled = tuple[Tensor, Tensor]
"""Records, (records, inputs), and their labels, (records,) int64."""


class TransportTraining:
    """The generator on its way; `records` are generated in each step.

    `shares` are those of the labels, (labels,), one where there is no label; `encode` makes of what the generator gives
    records as the loss takes them; `beside` gives what a step asks with beside these, by its number; and `gradient`
    makes of what left the gate, and of that, a gradient at these records.
    """

    def __init__(
        self,
        generator: Generator,
        shares: Float[Tensor, " classes"],
        *,
        encode: DiscriminatorInput,
        records: int,
        learning_rate: float,
        seed: int,
        device: str,
        gradient: Callable[[Mapping[str, Tensor]], Tensor] = lambda told: told["records"],
        beside: Callable[[int], Mapping[str, Tensor]] = lambda step: {},
    ) -> None:
        self._gradient, self._beside = gradient, beside
        self.steps, self._generator, self._shares = 0, generator.train(), shares
        self._encode, self._records, self._seed, self._device = encode, records, seed, device
        self._adam = Adam(dict(generator.named_parameters()), learning_rate=learning_rate)
        self._generated: Labelled | None = None

    def parameters(self) -> dict[str, Tensor]:
        """Returns the generated records of this step, their labels, and what it asks with beside them."""
        records, labels = self._latest()
        return {"records": records.detach(), "labels": labels, **self._beside(self.steps)}

    def step(self, noisy: Mapping[str, Any]) -> None:
        """Moves the generator against a noisy gradient at its records."""
        records, _ = self._latest()
        told = {**self._beside(self.steps), **noisy}
        tensors = {name: torch.as_tensor(value).to(records) for name, value in told.items()}
        self._adam.descend(records, self._gradient(tensors))
        self.steps, self._generated = self.steps + 1, None

    def result(self) -> dict[str, Tensor]:
        """Returns the generator's weights and running statistics."""
        return dict(self._generator.state_dict())

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the generator, its optimiser and the number of steps."""
        return {**joined(generator=self.result(), adam=self._adam.state_dict()), "steps": torch.tensor(self.steps)}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        self._generator.load_state_dict(under(tensors, "generator/"))
        self._adam.load_state_dict(under(tensors, "adam/"))
        self.steps, self._generated = int(tensors["steps"]), None

    def _latest(self) -> Labelled:
        """Returns the generated records of this step, made once."""
        if self._generated is None:
            random = stream(self._seed, self.steps)
            labels = torch.multinomial(self._shares, self._records, replacement=True, generator=random)
            noise = self._generator.noise(self._records, random).to(self._device)
            self._generated = self._encode(self._generator, noise, labels.to(self._device), random), labels
        return self._generated


def transport_gradient(
    generated: Labelled, real: Labelled, *, first: int, label_cost: float, regularisation: float, iterations: int
) -> Float[Tensor, "records inputs"]:
    """Returns the gradient of the semi-debiased loss 2·W(X₁, Y) − W(X₁, X₂) at generated records, (records, inputs).

    X₁ and X₂ are the `first` records generated and as many of the last, Y any number of real ones: none have no pull at
    all. Records of different labels cost `label_cost` more. The plan is made with costs as means over inputs, for one
    regularisation to suit records of any width.
    """
    if not len(real[0]):
        return torch.zeros_like(generated[0])
    records, labels = generated[0].detach().requires_grad_(), generated[1]
    losses = []
    for other in (real, (records[-first:], labels[-first:])):
        apart = records[:first, None] - other[0]
        cost = (apart.square() + apart.abs()).mean(dim=2) + label_cost * (labels[:first, None] != other[1])
        losses.append((transport_plan(cost.detach(), regularisation, iterations) * cost).sum())
    (gradient,) = torch.autograd.grad(2 * losses[0] - losses[1], records)
    return gradient * records.shape[1]


def transport_plan(
    cost: Float[Tensor, "rows columns"], regularisation: float, iterations: int
) -> Float[Tensor, "rows columns"]:
    """Returns Sinkhorn's plan between two sets of equal weights, by their costs; both are (rows, columns)."""
    scores = -cost / regularisation
    of_rows, of_columns = cost.new_zeros(cost.shape[0], 1), cost.new_zeros(1, cost.shape[1])
    for _ in range(iterations):
        of_rows = -torch.logsumexp(scores + of_columns, dim=1, keepdim=True) - math.log(cost.shape[0])
        of_columns = -torch.logsumexp(scores + of_rows, dim=0, keepdim=True) - math.log(cost.shape[1])
    return (scores + of_rows + of_columns).exp()


class StudentTraining(TransportTraining):
    """Generator and student on their way; `given` is what the training of a generator is given."""

    def __init__(self, student: Discriminator, *, student_learning_rate: float, **given: Any) -> None:
        super().__init__(**given)
        self._student = student
        self._student_adam = Adam(dict(student.named_parameters()), learning_rate=student_learning_rate)

    def step(self, noisy: Mapping[str, Any]) -> None:
        """Moves the student by noisy votes on this step's records, and then the generator by the student."""
        records, labels = self._latest()
        # Votes are a half for or against: of the sum, the sign is what the majority says.
        truth = (torch.as_tensor(noisy["votes"]).to(records) > 0).to(records.dtype)
        self._student_adam.descend(
            binary_cross_entropy_with_logits(self._student(self._rows(records.detach(), labels)), truth)
        )
        self._adam.descend(softplus(-self._student(self._rows(records, labels))).mean())
        self.steps, self._generated = self.steps + 1, None

    def state_dict(self) -> dict[str, Tensor]:
        """Returns both networks, both optimisers and the number of steps."""
        student = joined(student=dict(self._student.state_dict()), student_adam=self._student_adam.state_dict())
        return {**super().state_dict(), **student}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        super().load_state_dict(tensors)
        self._student.load_state_dict(under(tensors, "student/"))
        self._student_adam.load_state_dict(under(tensors, "student_adam/"))

    def _rows(self, records: Float[Tensor, "rows inputs"], labels: Shaped[Tensor, " rows"]) -> Float[Tensor, "rows _"]:
        classes = self._student.classes
        if not classes:
            return records
        return torch.cat([records, one_hot(labels.to(records.device), classes).to(records.dtype)], dim=1)
