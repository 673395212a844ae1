"""A generator that follows noisy gradients of an optimal transport loss at what it makes; it sees no record.

Entropic transport W between two sets of equal weights is Σ P·cost at the plan P of Sinkhorn's algorithm (Cuturi,
NeurIPS 2013, https://arxiv.org/abs/1306.0895), in logarithms. Its gradient takes P as it is (the envelope theorem).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from noisegate.models.discriminator_input import DiscriminatorInput
from noisegate.models.generator import Generator
from noisegate.training.adam import Adam
from noisegate.training.adversarial import stream
from noisegate.training.checkpoint import joined, under

Labelled = tuple[Tensor, Tensor]
"""Records, (records, inputs), and their labels, (records,) int64."""


class TransportTraining:
    """The generator on its way.

    Args:
        generator: At its start, on the device.
        shares: Of the labels, (labels,); one where there is no label.
        encode: From the generator to records as the loss takes them.
        records: Generated records in each step.
        learning_rate: Of Adam.
        seed: Of noise and labels; public.
        device: Where to compute.
    """

    def __init__(
        self,
        generator: Generator,
        shares: Tensor,
        *,
        encode: DiscriminatorInput,
        records: int,
        learning_rate: float,
        seed: int,
        device: str,
    ) -> None:
        self.steps, self._generator, self._shares = 0, generator.train(), shares
        self._encode, self._records, self._seed, self._device = encode, records, seed, device
        self._weights = dict(generator.named_parameters())
        self._adam = Adam(self._weights, learning_rate=learning_rate)
        self._made: Labelled | None = None

    def parameters(self) -> dict[str, Tensor]:
        """Returns the generated records of this step, and their labels."""
        if self._made is None:
            random = stream(self._seed, self.steps)
            labels = torch.multinomial(self._shares, self._records, replacement=True, generator=random)
            noise = self._generator.noise(self._records, random).to(self._device)
            self._made = self._encode(self._generator, noise, labels.to(self._device), random), labels
        return {"records": self._made[0].detach(), "labels": self._made[1]}

    def step(self, noisy: Mapping[str, Any]) -> None:
        """Moves the generator against a noisy gradient at its records."""
        self.parameters()
        assert self._made is not None
        at_records = torch.as_tensor(noisy["records"]).to(self._made[0])
        found = torch.autograd.grad(self._made[0], list(self._weights.values()), at_records)
        self._adam.step(dict(zip(self._weights, found, strict=True)))
        self.steps, self._made = self.steps + 1, None

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
        self.steps, self._made = int(tensors["steps"]), None


def transport_gradient(
    made: Labelled, real: Labelled, *, first: int, label_cost: float, regularisation: float, iterations: int
) -> Tensor:
    """Returns the gradient of the semi-debiased loss 2·W(X₁, Y) − W(X₁, X₂) at generated records, (records, inputs).

    Args:
        made: X₁ and X₂: the first records and the last ones, `first` of each.
        real: Y, of any number of records; none have no pull at all.
        first: Records in X₁.
        label_cost: Cost between records of different labels.
        regularisation: Of the transport.
        iterations: Of Sinkhorn's algorithm.
    """
    if not len(real[0]):
        return torch.zeros_like(made[0])
    records = made[0].detach().requires_grad_()
    of_first, of_second = (records[:first], made[1][:first]), (records[-first:], made[1][-first:])
    losses = []
    for other in (real, of_second):
        apart = of_first[0][:, None] - other[0]
        cost = (apart.square() + apart.abs()).mean(dim=2) + label_cost * (of_first[1][:, None] != other[1])
        losses.append((transport_plan(cost.detach(), regularisation, iterations) * cost).sum())
    (gradient,) = torch.autograd.grad(2 * losses[0] - losses[1], records)
    return gradient


def transport_plan(cost: Tensor, regularisation: float, iterations: int) -> Tensor:
    """Returns Sinkhorn's plan between two sets of equal weights, by their costs; both are (rows, columns)."""
    scores = -cost / regularisation
    of_rows, of_columns = cost.new_zeros(cost.shape[0], 1), cost.new_zeros(1, cost.shape[1])
    for _ in range(iterations):
        of_rows = -torch.logsumexp(scores + of_columns, dim=1, keepdim=True) - math.log(cost.shape[0])
        of_columns = -torch.logsumexp(scores + of_rows, dim=0, keepdim=True) - math.log(cost.shape[1])
    return (scores + of_rows + of_columns).exp()
