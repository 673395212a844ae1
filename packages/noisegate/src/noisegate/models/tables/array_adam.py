"""Adam, a method of gradient descent, on NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.models.checkpoint import restore

Array = npt.NDArray[Any]

# Keeps steps finite where gradients are zero: the value of the paper.
_EPSILON = 1e-8


class ArrayAdam:
    """Adam (Kingma and Ba, ICLR 2015, https://arxiv.org/abs/1412.6980, algorithm 1).

    A `noisegate.models.checkpoint.Resumable`.

    Args:
        parameters: Arrays by name, which steps change in place.
        beta1: Decay of the mean of gradients, from one step to the next.
        beta2: Decay of the mean of squared gradients.

    Attributes:
        steps: Number of steps taken.
    """

    def __init__(
        self,
        parameters: Mapping[str, Array],
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
    ) -> None:
        self._parameters = dict(parameters)
        self._beta1 = beta1
        self._beta2 = beta2
        self._means = {name: np.zeros_like(value) for name, value in parameters.items()}
        self._mean_squares = {
            name: np.zeros_like(value) for name, value in parameters.items()
        }
        # Steps allocate no memory: what they compute is written here.
        self._buffers = {
            name: np.empty_like(value) for name, value in parameters.items()
        }
        self.steps = 0

    def step(self, gradients: Mapping[str, Array], learning_rate: float) -> None:
        """Takes a step of descent.

        Args:
            gradients: Gradient of each parameter, by name.
            learning_rate: Length of the step, about.
        """
        self.steps += 1
        # Both means start at zero: these factors correct their bias.
        unbiased_rate = learning_rate / (1 - self._beta1**self.steps)
        root_correction = math.sqrt(1 - self._beta2**self.steps)
        for name, parameter in self._parameters.items():
            gradient = gradients[name]
            buffer = self._buffers[name]

            mean = self._means[name]
            mean *= self._beta1
            mean += np.multiply(gradient, 1 - self._beta1, out=buffer)

            mean_square = self._mean_squares[name]
            mean_square *= self._beta2
            np.multiply(gradient, gradient, out=buffer)
            buffer *= 1 - self._beta2
            mean_square += buffer

            np.sqrt(mean_square, out=buffer)
            buffer /= root_correction
            buffer += _EPSILON
            np.divide(mean, buffer, out=buffer)
            buffer *= unbiased_rate
            parameter -= buffer

    def state_dict(self) -> dict[str, Array]:
        """Returns both means of each parameter and the number of steps, as arrays."""
        state = {f"mean/{name}": value.copy() for name, value in self._means.items()}
        for name, value in self._mean_squares.items():
            state[f"square/{name}"] = value.copy()
        state["taken"] = np.array(self.steps)
        return state

    def load_state_dict(self, arrays: Mapping[str, Array]) -> None:
        """Resumes where `state_dict` was called.

        Raises:
            KeyError, ValueError: if the state is that of other parameters.
        """
        restore({f"mean/{name}": value for name, value in self._means.items()}, arrays)
        restore(
            {f"square/{name}": value for name, value in self._mean_squares.items()},
            arrays,
        )
        self.steps = int(arrays["taken"])
