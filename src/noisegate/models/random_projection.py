"""A random projection for each map: fewer numbers to train, so less noise in each step.

The m-th map of every class sees R_m x with R_m fixed, public and Gaussian, entries of variance one over the dimensions,
and a constant beside it ("Interpretable and Differentially Private Predictions", section 3.1). What was trained on
R_m x is a linear map of x all the same, and that is what is kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

Array = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class Projection:
    """Maps the inputs of a record to what the maps are trained on.

    Attributes:
        matrices: R, (maps, dimensions, inputs); None where every map sees the inputs as they are.
        maps: How many maps a class has.
        size: Number of inputs.
        constant: What stands beside the inputs, so that its weight is the bias.
    """

    matrices: Array | None
    maps: int
    size: int
    constant: float

    def shape(self, classes: int) -> tuple[int, int, int]:
        """Returns the shape of what is trained: groups that see the same, maps and classes of a group, dimensions."""
        if self.matrices is None:
            return 1, self.maps * classes, self.size + 1
        return self.maps, classes, self.matrices.shape[1] + 1

    def __call__(self, inputs: Tensor) -> Tensor:
        """Returns what the maps are trained on, (groups, dimensions), for the inputs of one record, (inputs,)."""
        import torch

        if self.matrices is None:
            seen = inputs[None]
        else:
            flat = torch.from_numpy(self.matrices.reshape(-1, self.size)).to(inputs.device)
            seen = (flat @ inputs).reshape(self.maps, -1)
        return torch.cat([seen, torch.full_like(seen[:, :1], self.constant)], dim=1)

    def unfold(self, trained: Array) -> tuple[Array, Array]:
        """Returns the maps on the inputs, (maps, classes, inputs), and their biases, (maps, classes).

        Args:
            trained: What multiplies the projected inputs, in the `shape` that it was trained in.
        """
        parts = trained.reshape(self.maps, -1, trained.shape[-1])
        weights, bias = parts[:, :, :-1], parts[:, :, -1] * np.float32(self.constant)
        if self.matrices is not None:
            weights = weights @ self.matrices
        return np.ascontiguousarray(weights), bias


def draw_projection(*, inputs: int, maps: int, dimensions: int | None, constant: float, seed: int) -> Projection:
    """Returns a projection drawn from public randomness.

    Args:
        inputs: Number of inputs.
        maps: How many maps a class has; each has a matrix of its own, which all classes share.
        dimensions: Rows of each matrix; None, or as many as there are inputs or more, for no projection.
        constant: What stands beside the inputs.
        seed: Of the public randomness.
    """
    matrices = None
    if dimensions is not None and dimensions < inputs:
        random = np.random.Generator(np.random.Philox(seed))
        matrices = random.standard_normal((maps, dimensions, inputs), dtype=np.float32)
        matrices /= np.float32(math.sqrt(dimensions))
    return Projection(matrices=matrices, maps=maps, size=inputs, constant=constant)
