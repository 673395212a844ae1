"""The public half of PSG (Chen, Kerkouche, Fritz, NeurIPS 2022, Algorithm 1): it sees noisy gradients, and no record.

A run begins with a network of fresh weights. Each step moves the synthetic set so that its gradient at the network
points where the noisy one does. After `batches` steps the network is trained on the set for a while; after `outer`
times that, the next run begins. Steps are what is paid for, so there are as many as planned, wherever a run is then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisegate.methods.kept_training import check_finite

if TYPE_CHECKING:
    from torch import Tensor, nn

    from noisegate.fitting.synthetic_set import SyntheticSet

SET = "set"
"""The event, and the released set."""

INNER_BATCH = 256
"""Records of the synthetic set in one step of the training of a network."""

_NETWORK, _ORDER = 0, 1
# Set apart from the names that the set itself gives to its state.
_SET = "set/"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """What happens between the steps; none of it uses private records.

    Attributes:
        batches: Steps between two trainings of the network (K).
        outer: How often that is done with one network (T).
        epochs: Passes over the set in one training of the network (J).
        learning_rate: Of these trainings, by plain gradient descent.
        seed: Of networks and orders; public.
    """

    batches: int
    outer: int
    epochs: int
    learning_rate: float
    seed: int

    def drawn(self, kind: int, number: int) -> int:
        """Returns the seed of the `number`-th network or order: another for each."""
        return int(np.random.SeedSequence([self.seed, kind, number]).generate_state(1, np.uint64)[0] >> np.uint64(1))


class SetTraining:
    """A synthetic set on its way, and the network that its gradient is compared at.

    Args:
        schedule: What happens between the steps.
        steps: How many there will be.
        made: The synthetic set at its start.
        labels: Of the set, (records,) int64, on the device.
        build: Returns a network with weights from a seed, on the device.
    """

    def __init__(
        self,
        schedule: Schedule,
        steps: int,
        made: SyntheticSet,
        labels: Tensor,
        build: Callable[[int], nn.Module],
    ) -> None:
        self.steps = 0
        self.distance = float("nan")
        self._schedule, self._planned, self._made, self._labels, self._build = schedule, steps, made, labels, build
        self._network = build(schedule.drawn(_NETWORK, 0))

    def parameters(self) -> dict[str, Tensor]:
        """Returns the weights of the network, where the next gradient is to be taken."""
        return {name: value.detach() for name, value in self._network.named_parameters()}

    def result(self) -> dict[str, Tensor]:
        """Returns the set as a network sees it, (records, inputs)."""
        return {SET: self._made.shown().detach()}

    def step(self, noisy: Mapping[str, Tensor]) -> None:
        """Moves the set after a noisy sum of gradients, and the network after the set.

        Raises:
            DivergedError: if the set is not finite any more.
        """
        from noisegate.fitting.gradient_matching import matching_slopes

        shown = self._made.shown()
        self.distance, slopes = matching_slopes(self._network, shown.detach(), self._labels, noisy)
        self._made.descend(shown, slopes)
        self.steps += 1
        check_finite(self.result(), self.steps)
        if self.steps == self._planned or self.steps % self._schedule.batches:
            return
        run, place = divmod(self.steps, self._schedule.batches * self._schedule.outer)
        if place == 0:
            self._network = self._build(self._schedule.drawn(_NETWORK, run))
        else:
            self._train_network()

    def state(self) -> dict[str, Tensor]:
        """Returns the set, the network and the number of steps."""
        import torch

        kept = {f"{_SET}{name}": value for name, value in self._made.state().items()}
        return {**kept, **self.parameters(), "steps": torch.tensor(self.steps)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up the training where `state` was called."""
        import torch

        self._made.restore({name[len(_SET) :]: value for name, value in tensors.items() if name.startswith(_SET)})
        with torch.no_grad():
            for name, value in self._network.named_parameters():
                value.copy_(tensors[name])
        self.steps = int(tensors["steps"])

    def _train_network(self) -> None:
        import torch
        from torch.nn.functional import cross_entropy

        # Follows from the step, so that a run that is taken up again draws the same orders.
        random = torch.Generator().manual_seed(self._schedule.drawn(_ORDER, self.steps))
        shown, weights = self._made.shown().detach(), list(self._network.parameters())
        for _ in range(self._schedule.epochs):
            order = torch.randperm(len(shown), generator=random).to(shown.device)
            for batch in torch.split(order, INNER_BATCH):
                loss = cross_entropy(self._network(shown[batch]), self._labels[batch])
                with torch.no_grad():
                    for weight, slope in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                        weight.sub_(slope, alpha=self._schedule.learning_rate)
