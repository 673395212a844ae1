"""The public half of DP-SGD (Abadi et al., CCS 2016, https://arxiv.org/abs/1607.00133), with Adam for its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from noisegate.training.adam import Adam


class NoisyDescent:
    """Adam on noisy sums of gradients over the expected size of a sample; what is trained are its parameters.

    Args:
        start: Parameters at the start; copied.
        learning_rate: Of Adam.
        batch: Expected number of records of a step.
        device: Where to compute.
        schedule: Factor of the learning rate at each step, counted from 0; None for 1.
    """

    def __init__(
        self,
        start: Mapping[str, Tensor],
        *,
        learning_rate: float,
        batch: float,
        device: str,
        schedule: Callable[[int], float] | None = None,
    ) -> None:
        self._parameters = {name: value.detach().clone().to(device) for name, value in start.items()}
        self._adam, self._batch, self._schedule = Adam(self._parameters, learning_rate=learning_rate), batch, schedule

    def parameters(self) -> dict[str, Tensor]:
        """Returns the parameters."""
        return self._parameters

    def result(self) -> dict[str, Tensor]:
        """Returns the parameters."""
        return self._parameters

    def step(self, noisy: Mapping[str, Tensor]) -> None:
        """Takes a step against a noisy sum of gradients."""
        scale = 1.0 if self._schedule is None else self._schedule(self._adam.steps)
        self._adam.step({name: value / self._batch for name, value in noisy.items()}, scale=scale)

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the parameters and the state of Adam."""
        return {**self._parameters, **self._adam.state_dict()}

    def load_state_dict(self, tensors: Mapping[str, Tensor]) -> None:
        """Resumes where `state_dict` was called."""
        self._adam.load_state_dict(tensors)
        with torch.no_grad():
            for name, value in self._parameters.items():
                value.copy_(tensors[name])
