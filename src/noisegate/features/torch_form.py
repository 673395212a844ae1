"""The torch form of a feature map: the mean features of what a generator gives, differentiably, in float32.

No map needs torch until one of these is made: a map holds NumPy arrays and makes the form from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Made: TypeAlias = "Tensor | Sequence[Tensor]"
"""What a generator gave: points, (rows, columns), or cell probabilities of each column, (cells, rows)."""

Constants: TypeAlias = Mapping[str, Any]
"""Tensors, modules or other forms by name, on the form's device."""


_NONE: Mapping[str, Any] = MappingProxyType({})


class TorchForm:
    """Mean features, as a function of constants and of what a generator gave.

    Args:
        means_fn: From the constants, what the generator gave, and a number of sets, to mean features, (dim, sets).
        constants: Arrays, taken in float32 if they are of floats; tensors; or anything else that has `to`.
    """

    def __init__(self, means_fn: Callable[[Constants, Made, int], Tensor], constants: Mapping[str, Any]) -> None:
        self._means_fn = means_fn
        self.constants = {name: _tensor(value) for name, value in constants.items()}

    def means(self, made: Made, sets: int) -> Tensor:
        """Returns mean features, (dim, sets), in the order of the feature map.

        Args:
            made: What the generator gave.
            sets: The rows stand in this many sets of equal size, one after the other; each has a mean of its own.
        """
        return self._means_fn(self.constants, made, sets)

    def to(self, device: torch.device) -> Self:
        """Moves the constants, and returns the form itself."""
        self.constants = {name: value.to(device) for name, value in self.constants.items()}
        return self


class RowForm(TorchForm):
    """The features of every row, and their means.

    Args:
        rows_fn: From the constants and what the generator gave to features, (dim, rows).
        constants: See `TorchForm`.
    """

    def __init__(self, rows_fn: Callable[[Constants, Made], Tensor], constants: Mapping[str, Any] = _NONE) -> None:
        super().__init__(self._mean_rows, constants)
        self._rows_fn = rows_fn

    def __call__(self, made: Made) -> Tensor:
        """Returns features, (dim, rows)."""
        return self._rows_fn(self.constants, made)

    def _mean_rows(self, constants: Constants, made: Made, sets: int) -> Tensor:
        features = self._rows_fn(constants, made)
        return features.reshape(len(features), sets, -1).mean(dim=2)


def _tensor(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    import torch

    copied = np.ascontiguousarray(value, dtype=np.float32 if value.dtype.kind == "f" else None)
    return torch.from_numpy(copied.copy() if not copied.flags.writeable else copied)
