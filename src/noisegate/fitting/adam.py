"""Adam (Kingma and Ba, ICLR 2015, algorithm 1) on named tensors, with a state that can be kept.

Written out, as importing torch's optimisers takes longer than many a training.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

_TINY = 1e-8


class Adam:
    """Moves parameters in place.

    Args:
        parameters: By name; changed by `step`.
        learning_rate: Size of a step.
        kept: How much of the mean gradient is kept at a step.
        kept_square: How much of the mean squared gradient is kept at a step.
    """

    def __init__(
        self, parameters: Mapping[str, Tensor], *, learning_rate: float, kept: float = 0.9, kept_square: float = 0.999
    ) -> None:
        self._parameters = {name: value.detach() for name, value in parameters.items()}
        self._means = {name: torch.zeros_like(value) for name, value in self._parameters.items()}
        self._squares = {name: torch.zeros_like(value) for name, value in self._parameters.items()}
        self._rate, self._kept, self._kept_square, self._steps = learning_rate, kept, kept_square, 0

    def step(self, gradients: Mapping[str, Tensor], *, scale: float = 1.0) -> None:
        """Takes a step against gradients, one for each parameter; `scale` is of the learning rate at this step."""
        self._steps += 1
        rate = self._rate * scale
        warm, warm_square = 1 - self._kept**self._steps, 1 - self._kept_square**self._steps
        with torch.no_grad():
            for name, value in self._parameters.items():
                mean, square, gradient = self._means[name], self._squares[name], gradients[name]
                mean.mul_(self._kept).add_(gradient, alpha=1 - self._kept)
                square.mul_(self._kept_square).add_(gradient.square(), alpha=1 - self._kept_square)
                value.sub_(rate * (mean / warm) / ((square / warm_square).sqrt() + _TINY))

    def state(self) -> dict[str, Tensor]:
        """Returns both moments of each parameter, and the number of steps."""
        means = {f"mean/{name}": value for name, value in self._means.items()}
        squares = {f"square/{name}": value for name, value in self._squares.items()}
        return {**means, **squares, "taken": torch.tensor(self._steps)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes up where `state` was called.

        Raises:
            KeyError, ValueError: if the state is that of other parameters.
        """
        for kind, moments in (("mean", self._means), ("square", self._squares)):
            for name, value in moments.items():
                found = tensors[f"{kind}/{name}"]
                if found.shape != value.shape:
                    raise ValueError(f"{name} of another shape")
                value.copy_(found)
        self._steps = int(tensors["taken"])
