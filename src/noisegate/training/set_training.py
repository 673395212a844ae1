"""The public half of PSG (Chen, Kerkouche and Fritz, NeurIPS 2022, https://arxiv.org/abs/2211.04446, algorithm 1).

A run begins with a network of fresh weights. Each step moves the synthetic set so that its gradient at the network
points where the noisy one does. After `batches` steps the network is trained on the set for a while; after `outer`
times that, the next run begins. Steps are what is paid for, so there are as many as planned, wherever a run is then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from noisegate.training.checkpoint import check_finite, under
from noisegate.training.synthetic_set import SyntheticSet, matching_gradient

SET = "set"
"""What the released set is called."""

INNER_BATCH = 256
"""Records of the synthetic set in one step of the training of a network."""

_NETWORK, _ORDER = 0, 1
# Set apart from the names that the network gives to its state.
_SET = "set/"


@dataclass(frozen=True)
class SetSchedule:
    """What happens between the steps; none of it uses private records."""

    batches: int
    """Steps between two trainings of the network (K)."""
    outer: int
    """How often that is done with one network (T)."""
    epochs: int
    """Passes over the set in one training of the network (J)."""
    learning_rate: float
    """Of these trainings, by plain gradient descent."""
    seed: int
    """Of networks and orders; public."""

    def stream(self, kind: int, number: int) -> int:
        """Returns the seed of the `number`-th network or order: another for each."""
        return int(np.random.SeedSequence([self.seed, kind, number]).generate_state(1, np.uint64)[0] >> np.uint64(1))


class SetTraining:
    """A synthetic set on its way, and the network at which its gradient is compared.

    Args:
        schedule: What happens between the steps.
        steps: How many there will be.
        synthetic: The set at its start.
        labels: Of the set, (records,) int64, on the device.
        build: Returns a network with weights from a seed, on the device.
    """

    def __init__(
        self,
        schedule: SetSchedule,
        steps: int,
        synthetic: SyntheticSet,
        labels: Tensor,
        build: Callable[[int], nn.Module],
    ) -> None:
        self.steps, self.distance = 0, float("nan")
        self._schedule, self._planned, self._set, self._labels, self._build = schedule, steps, synthetic, labels, build
        self._network = build(schedule.stream(_NETWORK, 0))

    def parameters(self) -> dict[str, Tensor]:
        """Returns the weights of the network, where the next gradient is to be taken."""
        return {name: value.detach() for name, value in self._network.named_parameters()}

    def result(self) -> dict[str, Tensor]:
        """Returns the set as a network sees it, (records, inputs)."""
        return {SET: self._set.inputs().detach()}

    def step(self, noisy: Mapping[str, Tensor]) -> None:
        """Moves the set after a noisy sum of gradients, and the network after the set.

        Raises:
            DivergedError: if the set is not finite any more.
        """
        inputs = self._set.inputs()
        self.distance, gradient = matching_gradient(self._network, inputs.detach(), self._labels, noisy)
        self._set.descend(inputs, gradient)
        self.steps += 1
        check_finite(self.result(), self.steps)
        if self.steps == self._planned or self.steps % self._schedule.batches:
            return
        run, place = divmod(self.steps, self._schedule.batches * self._schedule.outer)
        if place == 0:
            self._network = self._build(self._schedule.stream(_NETWORK, run))
        else:
            self._train_network()

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the set, the network and the number of steps."""
        synthetic = {f"{_SET}{name}": value for name, value in self._set.state_dict().items()}
        return {**synthetic, **self.parameters(), "steps": torch.tensor(self.steps)}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        self._set.load_state_dict(under(tensors, _SET))
        with torch.no_grad():
            for name, value in self._network.named_parameters():
                value.copy_(tensors[name])
        self.steps = int(tensors["steps"])

    def _train_network(self) -> None:
        # Follows from the step, so that a resumed run draws the same orders.
        random = torch.Generator().manual_seed(self._schedule.stream(_ORDER, self.steps))
        inputs, weights = self._set.inputs().detach(), list(self._network.parameters())
        for _ in range(self._schedule.epochs):
            order = torch.randperm(len(inputs), generator=random).to(inputs.device)
            for batch in torch.split(order, INNER_BATCH):
                loss = cross_entropy(self._network(inputs[batch]), self._labels[batch])
                with torch.no_grad():
                    for weight, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                        weight.sub_(gradient, alpha=self._schedule.learning_rate)
