"""Neural tangent features: the gradient of a random network in its weights, at a record, scaled to norm 1.

DP-NTK, Yang, Adamczewski, Sutherland and Park (TMLR 2024), https://arxiv.org/abs/2303.01687, section 4. The network has
one hidden layer of k ReLU units and one output, f(x) = Σ_j a_j·relu(w_j·x̃) with x̃ = (x, 1); its signs a_j are all 1
here, which changes no inner product. Neither gradients nor inputs (intensities, one-hot codes) are negative, so under
replace-one the sum moves by √2 (G-01), where the paper takes 2, and the published programs take 1.

A record's vector is a function of that record alone, bit for bit, and the sum is one matrix product of whole numbers
(G-27): inputs are rounded to 1/65536, weights to 1/4096, outputs of units cut to whole numbers whose squares add up to
at most 2⁵². Hence ‖v‖ ≤ 1 + 2⁻²², and the grid leaves 2⁻¹⁰ of its ball free, so that `Grid.quantise` clips none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.feature_map import Constants, ExactSum, Made, TorchForm, Vectors
from noisegate.privacy.grid import UNITS, Grid
from noisegate.schema import EncodedTable

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float32, Float64
    from torch import Tensor

VALUE_STEPS, WEIGHT_STEPS = 65_536, 4_096
_LARGEST_WEIGHT = 8 * WEIGHT_STEPS
_EXACT = 2.0**52
# Of the grid's ball, what rounding to float32, twice, may add to a norm of 1.
_MOST_SQUARED = int((UNITS * (1 - 2.0**-11)) ** 2)
# Records whose hidden layer is computed at once.
_ROWS = 256

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class NeuralTangent:
    """The normalised gradient of a random network at the numeric columns of a record, such as pixels.

    The coordinates are those of the first unit's weights, its bias last, then of the next unit's, and of all outputs.

    Attributes:
        weights: Of the hidden layer, whole numbers of 1/4096, (inputs + 1, width); the last row is the bias. Public.

    Raises:
        OptionError: if sums of weights times inputs would leave float64's whole numbers.

    Examples:
        >>> import numpy as np
        >>> from noisegate_papers.features.tangent import draw_network
        >>> from noisegate.records import Rows
        >>> tangent = draw_network(inputs=3, width=5, seed=0)
        >>> vectors = tangent(Rows(np.array([[0.0, 0.5, 1.0]]), np.zeros((1, 0), dtype=np.int32)))
        >>> vectors.shape, round(float(np.linalg.norm(vectors)), 6), tangent.nonnegative
        ((1, 25), 1.0, True)
    """

    weights: npt.NDArray[np.int64]
    norm: ClassVar[float] = 1.0
    nonnegative: ClassVar[bool] = True

    def __post_init__(self) -> None:
        largest = float(np.abs(self.weights).sum(axis=0).max()) * VALUE_STEPS
        # Squared norms of inputs are sums of whole numbers too.
        if max(largest, len(self.weights) * float(VALUE_STEPS) ** 2) >= _EXACT:
            raise OptionError(f"{len(self.weights) - 1:,} inputs are too many for exact sums of their weights.")

    @property
    def inputs(self) -> int:
        """Inputs of the network, the constant one included."""
        return len(self.weights)

    @property
    def width(self) -> int:
        """Hidden units."""
        return int(self.weights.shape[1])

    @property
    def dim(self) -> int:
        """Number of weights."""
        return self.width * (self.inputs + 1)

    @cached_property
    def _shift(self) -> float:
        """Whole numbers of 2⁻²⁸ that outputs are cut to multiples of, so that their squares add up exactly."""
        largest = np.maximum(self.weights, 0).sum(axis=0).astype(np.float64) * VALUE_STEPS
        shift = 1.0
        while float(np.square(largest / shift).sum()) > _EXACT:
            shift *= 2
        return shift

    @cached_property
    def _weights(self) -> npt.NDArray[np.float64]:
        return self.weights.astype(np.float64)

    def parts(
        self, values: Float64[Array, "rows columns"]
    ) -> tuple[Bool[Array, "rows width"], Float32[Array, "rows inputs"], Float32[Array, "rows width"]]:
        """Returns which units are active, the inputs, and the outputs of the units, both divided by the norm."""
        inputs = np.ones((len(values), self.inputs))
        np.rint(np.nan_to_num(values).clip(0, 1) * VALUE_STEPS, out=inputs[:, :-1])
        inputs[:, -1] = VALUE_STEPS
        hidden = inputs @ self._weights
        active = hidden > 0
        outputs = np.floor(np.maximum(hidden, 0) / self._shift)
        unit = self._shift / WEIGHT_STEPS  # of an output, in units of an input
        squares = np.einsum("ij,ij->i", inputs, inputs) * active.sum(axis=1)
        norm = np.sqrt(squares + np.einsum("ij,ij->i", outputs, outputs) * unit**2)
        inverse = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)[:, None]
        return active, (inputs * inverse).astype(np.float32), (outputs * (unit * inverse)).astype(np.float32)

    def __call__(self, records: EncodedTable) -> Vectors:
        """Returns the vectors, (rows, dim); zero where no unit is active."""
        active, inputs, outputs = self.parts(records.numeric)
        vectors = np.empty((len(inputs), self.dim), dtype=np.float32)
        of_weights = vectors[:, : -self.width].reshape(len(inputs), self.width, self.inputs)
        np.multiply(active[:, :, None], inputs[:, None, :], out=of_weights)
        vectors[:, -self.width :] = outputs
        return vectors

    def exact_sum(self, grid: Grid) -> ExactSum | None:
        """Returns the sum as one product of whole numbers (G-27); None where vectors would be clipped."""
        if grid.centre is not None or grid.norm < self.norm:
            return None

        def add(sums: npt.NDArray[np.int64], records: EncodedTable) -> None:
            of_weights = sums[: -self.width].reshape(self.width, self.inputs)
            for start in range(0, len(records), _ROWS):
                active, inputs, outputs = self.parts(records.numeric[start : start + _ROWS])
                whole = grid.quantise(inputs).astype(np.float64)
                of_weights += (active.T.astype(np.float64) @ whole).astype(np.int64)
                sums[-self.width :] += grid.quantise(outputs).sum(axis=0, dtype=np.int64)

        return ExactSum(squared_norm=_MOST_SQUARED, add=add)

    def of_points(self) -> TorchForm:
        """Returns the mean gradients of points, (rows, numeric columns); nothing is rounded."""
        import torch

        def means(constants: Constants, points: Made, sets: int) -> Float[Tensor, "dim sets"]:
            assert isinstance(points, torch.Tensor)
            inputs = torch.cat([points, torch.ones_like(points[:, :1])], dim=1)
            hidden = inputs @ constants["weights"]
            active, outputs = (hidden > 0).to(hidden.dtype), hidden.relu()
            squares = active.sum(dim=1) * inputs.square().sum(dim=1) + outputs.square().sum(dim=1)
            inverse = squares.clamp_min(1e-12).rsqrt()[:, None] * (squares[:, None] > 0)
            inputs, outputs = inputs * inverse, outputs * inverse
            rows = len(points) // sets
            of_weights = active.reshape(sets, rows, -1).transpose(1, 2) @ inputs.reshape(sets, rows, -1) / rows
            of_outputs = outputs.reshape(sets, rows, -1).mean(dim=1)
            return torch.cat([of_weights.flatten(1), of_outputs], dim=1).T

        return TorchForm(means, {"weights": self._weights / WEIGHT_STEPS})


def draw_network(inputs: int, *, width: int, seed: int) -> NeuralTangent:
    """Returns the map of a network whose weights and biases are standard normal, from public randomness."""
    random = np.random.Generator(np.random.Philox(seed))
    drawn = np.rint(random.standard_normal((inputs + 1, width)) * WEIGHT_STEPS)
    return NeuralTangent(weights=np.clip(drawn, -_LARGEST_WEIGHT, _LARGEST_WEIGHT).astype(np.int64))
