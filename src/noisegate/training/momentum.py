"""DP-SGD with momentum, and the average of where it was: the public half of a training on noisy gradients.

The steps are those of Abadi et al. (CCS 2016, https://arxiv.org/abs/1607.00133, algorithm 1) with heavy-ball momentum.
What is kept is the exponential moving average of the parameters (De et al., 2022, https://arxiv.org/abs/2204.13650,
section 3), which takes out noise at no cost in privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from noisegate.training.checkpoint import joined, restore, under

if TYPE_CHECKING:
    from torch import Tensor


class NoisyMomentum:
    """Parameters on their way, their velocity and their average; a `noisegate.training.checkpoint.Resumable`.

    Args:
        start: Parameters at the start, by name.
        learning_rate: Of the mean gradient.
        momentum: What is kept of the velocity in a step, from 0 to 1.
        ema_decay: What is kept of the average in a step; the first t steps keep (1 + t)/(10 + t) at most.
        batch: The expected number of records of a step, which noisy sums are divided by.
        device: Where torch computes.
    """

    def __init__(
        self,
        start: Mapping[str, Tensor],
        *,
        learning_rate: float,
        momentum: float,
        ema_decay: float,
        batch: float,
        device: str,
    ) -> None:
        self._parameters = {name: value.detach().clone().to(device) for name, value in start.items()}
        self._average = {name: value.clone() for name, value in self._parameters.items()}
        self._velocity = {name: torch.zeros_like(value) for name, value in self._parameters.items()}
        self._learning_rate, self._momentum, self._ema_decay, self._batch = learning_rate, momentum, ema_decay, batch
        self.steps = 0

    def parameters(self) -> dict[str, Tensor]:
        """Returns the parameters, where the next gradient is taken."""
        return self._parameters

    def result(self) -> dict[str, Tensor]:
        """Returns the average of the parameters, which is what was trained."""
        return self._average

    @torch.no_grad()
    def step(self, noisy: Mapping[str, Tensor]) -> None:
        """Takes a step against a noisy sum of gradients."""
        kept = min(self._ema_decay, (1 + self.steps) / (10 + self.steps))
        for name, value in self._parameters.items():
            velocity = self._velocity[name].mul_(self._momentum).add_(noisy[name], alpha=1 / self._batch)
            value.sub_(velocity, alpha=self._learning_rate)
            self._average[name].lerp_(value, 1 - kept)
        self.steps += 1

    def state_dict(self) -> dict[str, Tensor]:
        """Returns parameters, averages, velocities, and the number of steps."""
        parts = {"parameter": self._parameters, "average": self._average, "velocity": self._velocity}
        return {**joined(**parts), "taken": torch.tensor(self.steps)}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of other parameters.
        """
        restore(self._parameters, under(tensors, "parameter/"))
        restore(self._average, under(tensors, "average/"))
        restore(self._velocity, under(tensors, "velocity/"))
        self.steps = int(tensors["taken"])
