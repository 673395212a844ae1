"""Adam on NumPy arrays, in place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.models.checkpoint import restore

Array = npt.NDArray[Any]

_EPS = 1e-8


class ArrayAdam:
    """Adam (Kingma and Ba, ICLR 2015, https://arxiv.org/abs/1412.6980, algorithm 1), in place; a `Resumable`."""

    def __init__(
        self,
        parameters: Mapping[str, Array],
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
    ) -> None:
        self._parameters, self._beta1, self._beta2 = dict(parameters), beta1, beta2
        self._mean = {name: np.zeros_like(value) for name, value in parameters.items()}
        self._square = {
            name: np.zeros_like(value) for name, value in parameters.items()
        }
        self._scratch = {
            name: np.empty_like(value) for name, value in parameters.items()
        }
        self.steps = 0

    def step(self, gradients: Mapping[str, Array], learning_rate: float) -> None:
        """Takes a step against gradients, one for each parameter."""
        self.steps += 1
        rate = learning_rate / (1 - self._beta1**self.steps)
        unbiased = math.sqrt(1 - self._beta2**self.steps)
        for name, value in self._parameters.items():
            gradient, mean, square = (
                gradients[name],
                self._mean[name],
                self._square[name],
            )
            part = self._scratch[name]
            mean *= self._beta1
            mean += np.multiply(gradient, 1 - self._beta1, out=part)
            square *= self._beta2
            np.multiply(gradient, gradient, out=part)
            part *= 1 - self._beta2
            square += part
            np.sqrt(square, out=part)
            part /= unbiased
            part += _EPS
            np.divide(mean, part, out=part)
            part *= rate
            value -= part

    def state_dict(self) -> dict[str, Array]:
        """Returns both moments of each parameter, and the number of steps."""
        moments = {f"mean/{name}": value.copy() for name, value in self._mean.items()}
        moments |= {
            f"square/{name}": value.copy() for name, value in self._square.items()
        }
        return {**moments, "taken": np.array(self.steps)}

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Resumes where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of other parameters.
        """
        for kind, moments in (("mean", self._mean), ("square", self._square)):
            restore(
                {f"{kind}/{name}": value for name, value in moments.items()}, arrays
            )
        self.steps = int(arrays["taken"])
