"""Training that is nothing but descent: Adam on noisy sums of gradients, by the expected size of a sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class Descent:
    """A `Training` whose parameters are what is trained.

    Args:
        start: Parameters at the start; copied.
        learning_rate: Of Adam.
        batch: Expected number of records of a step.
        device: Where to compute.
    """

    def __init__(self, start: Mapping[str, Tensor], *, learning_rate: float, batch: float, device: str) -> None:
        from noisegate.fitting.adam import Adam

        self._parameters = {name: value.detach().clone().to(device) for name, value in start.items()}
        self._adam, self._batch = Adam(self._parameters, learning_rate=learning_rate), batch

    def parameters(self) -> dict[str, Tensor]:
        """Returns the parameters."""
        return self._parameters

    def result(self) -> dict[str, Tensor]:
        """Returns the parameters."""
        return self._parameters

    def step(self, noisy: Mapping[str, Tensor]) -> None:
        """Takes a step against a noisy sum of gradients."""
        self._adam.step({name: value / self._batch for name, value in noisy.items()})

    def state(self) -> dict[str, Tensor]:
        """Returns the parameters and Adam's moments."""
        return {**self._parameters, **self._adam.state()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up the training where `state` was called."""
        self._adam.restore(tensors)
        for name, value in self._parameters.items():
            value.copy_(tensors[name])
