"""Neural tangent features: the gradient of a random network in its weights, at a record, scaled to norm 1 (G-27).

DP-NTK, Yang, Adamczewski, Sutherland and Park (TMLR 2024), https://arxiv.org/abs/2303.01687, section 4. The network is
f(x) = Σ_j relu(w_j·x̃) with x̃ = (x, 1); a table has a small one for each pair of columns.

DP-NTK, Yang, Adamczewski, Sutherland and Park (TMLR 2024),
https://arxiv.org/abs/2303.01687, section 4. The network has one hidden layer of k ReLU
units and one output, f(x) = Σ_j relu(w_j·x̃) with x̃ = (x, 1). Vectors and their sum
are exact, and nothing is negative (G-27, of tables as in G-23).

A table has a small network for each pair of columns, whose gradient has an expectation
in closed form under the cell probabilities of a generator. A numeric column enters as
its cell's position in [0, 1], a coded one, and what is missing, as one-hot vectors. A
record's vector is that of its cell in each pair, over √pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.privacy.grid import UNITS, Grid
from noisegate.queries.binning import NumericBins, fine_bins
from noisegate.queries.contingency import Contingency, equally_weighted
from noisegate.queries.feature_map import (
    Constants,
    ExactSum,
    GeneratorOutput,
    TorchForm,
    Vectors,
)
from noisegate.schema import EncodedTable, Layout
from noisegate.schema.layout import Cells, numeric_cells
from noisegate_papers.queries.hermite_products import columns_to_learn
from noisegate_papers.queries.products import MOST_ROWS

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float32, Float64
    from torch import Tensor

VALUE_STEPS, WEIGHT_STEPS = 65_536, 4_096
_LARGEST_WEIGHT = 8 * WEIGHT_STEPS
_EXACT = 2.0**52
# Of the grid's ball, what rounding to float32, twice, may add to a norm of 1.
_MOST_SQUARED = int((UNITS * (1 - 2.0**-11)) ** 2)
_ROWS = 256  # records whose hidden layer is computed at once

Array = npt.NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class NeuralTangent:
    """The normalised gradient of a random network at the numeric columns of a record, such as pixels.

    The coordinates are those of the first unit's weights, its bias last, then of the next unit's, and of all outputs.
    `weights` are public, of the hidden layer in whole numbers of 1/4096, (inputs + 1, width), the bias in the last row;
    an OptionError if sums of weights times inputs would leave float64's whole numbers.
    """

    weights: npt.NDArray[np.int64]
    norm: ClassVar[float] = 1.0
    nonnegative: ClassVar[bool] = True

    def __post_init__(self) -> None:
        largest = float(np.abs(self.weights).sum(axis=0).max()) * VALUE_STEPS
        # Squared norms of inputs are sums of whole numbers too.
        if max(largest, len(self.weights) * float(VALUE_STEPS) ** 2) >= _EXACT:
            raise OptionError(
                f"{len(self.weights) - 1:,} inputs are too many for exact sums of their weights."
            )

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
        largest = (
            np.maximum(self.weights, 0).sum(axis=0).astype(np.float64) * VALUE_STEPS
        )
        shift = 1.0
        while float(np.square(largest / shift).sum()) > _EXACT:
            shift *= 2
        return shift

    @cached_property
    def _weights(self) -> npt.NDArray[np.float64]:
        return self.weights.astype(np.float64)

    def parts(
        self, values: Float64[Array, "rows columns"]
    ) -> tuple[
        Bool[Array, "rows width"],
        Float32[Array, "rows inputs"],
        Float32[Array, "rows width"],
    ]:
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
        return (
            active,
            (inputs * inverse).astype(np.float32),
            (outputs * (unit * inverse)).astype(np.float32),
        )

    def __call__(self, records: EncodedTable) -> Vectors:
        """Returns the vectors, (rows, dim); zero where no unit is active."""
        active, inputs, outputs = self.parts(records.numeric)
        vectors = np.empty((len(inputs), self.dim), dtype=np.float32)
        of_weights = vectors[:, : -self.width].reshape(
            len(inputs), self.width, self.inputs
        )
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
                active, inputs, outputs = self.parts(
                    records.numeric[start : start + _ROWS]
                )
                whole = grid.quantise(inputs).astype(np.float64)
                of_weights += (active.T.astype(np.float64) @ whole).astype(np.int64)
                sums[-self.width :] += grid.quantise(outputs).sum(
                    axis=0, dtype=np.int64
                )

        return ExactSum(squared_norm=_MOST_SQUARED, add=add)

    def of_points(self) -> TorchForm:
        """Returns the mean gradients of points, (rows, numeric columns); nothing is rounded."""
        import torch

        def means(
            constants: Constants, points: GeneratorOutput, sets: int
        ) -> Float[Tensor, "dim sets"]:
            assert isinstance(points, torch.Tensor)
            inputs = torch.cat([points, torch.ones_like(points[:, :1])], dim=1)
            hidden = inputs @ constants["weights"]
            active, outputs = (hidden > 0).to(hidden.dtype), hidden.relu()
            squares = active.sum(dim=1) * inputs.square().sum(
                dim=1
            ) + outputs.square().sum(dim=1)
            inverse = squares.clamp_min(1e-12).rsqrt()[:, None] * (squares[:, None] > 0)
            inputs, outputs = inputs * inverse, outputs * inverse
            rows = len(points) // sets
            of_weights = (
                active.reshape(sets, rows, -1).transpose(1, 2)
                @ inputs.reshape(sets, rows, -1)
                / rows
            )
            of_outputs = outputs.reshape(sets, rows, -1).mean(dim=1)
            return torch.cat([of_weights.flatten(1), of_outputs], dim=1).T

        return TorchForm(means, {"weights": self._weights / WEIGHT_STEPS})


def draw_network(inputs: int, *, width: int, seed: int) -> NeuralTangent:
    """Returns the map of a network whose weights and biases are standard normal, from public randomness."""
    random = np.random.Generator(np.random.Philox(seed))
    drawn = np.rint(random.standard_normal((inputs + 1, width)) * WEIGHT_STEPS)
    return NeuralTangent(
        weights=np.clip(drawn, -_LARGEST_WEIGHT, _LARGEST_WEIGHT).astype(np.int64)
    )


Inputs = npt.NDArray[np.float64]

_BYTES = 4
_MARGIN = 1e-6  # so that rounding to float32 leaves every vector within its norm


@dataclass(frozen=True, kw_only=True, eq=False)
class PairTangents:
    """The map from a record to the vectors of its cells in pairs of columns. Everything in it is public."""

    joint: Contingency  # cells of the columns of each network, two, or one where there is no other
    vectors: tuple[
        npt.NDArray[np.float32], ...
    ]  # of each joint cell, the last column's fastest, (cells, weights)
    norm: ClassVar[float] = 1.0
    nonnegative: ClassVar[bool] = True

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the coordinates of each network begin, and the end of the last."""
        return tuple(accumulate((one.shape[1] for one in self.vectors), initial=0))

    @property
    def dim(self) -> int:
        """Number of weights of all networks."""
        return self.starts[-1]

    def joint_cells(self, records: EncodedTable) -> list[npt.NDArray[np.intp]]:
        """Returns the cell of each record, (rows,), for each network."""
        codes = self.joint.codes(records)
        return [self.joint.cells(codes, group) for group in self.joint.tables]

    def __call__(self, records: EncodedTable) -> Vectors:
        """Returns the vectors, (rows, dim)."""
        parts = [
            one[cells]
            for one, cells in zip(self.vectors, self.joint_cells(records), strict=True)
        ]
        return np.concatenate(parts, axis=1)

    def exact_sum(self, grid: Grid) -> ExactSum | None:
        """Returns the sum by counts of cells; see the module, and G-23 for why it is exact."""
        if grid.centre is not None:
            return None
        rounded = [grid.quantise(one) for one in self.vectors]
        largest = sum(
            int(np.square(one, dtype=np.int64).sum(axis=1).max()) for one in rounded
        )
        rows = [one.astype(np.float64) for one in rounded]

        def add(sums: npt.NDArray[np.int64], records: EncodedTable) -> None:
            if (count := len(records)) >= MOST_ROWS:
                raise OverflowError(
                    f"{count} records at once: the products could leave float64's whole numbers."
                )
            for place, cells in enumerate(self.joint_cells(records)):
                counts = np.bincount(cells, minlength=len(rows[place])).astype(
                    np.float64
                )
                sums[self.starts[place] : self.starts[place + 1]] += (
                    counts @ rows[place]
                ).astype(np.int64)

        return ExactSum(squared_norm=largest, add=add)

    def of_cells(self, layout: Layout) -> TorchForm:
        """Returns the expected vectors: a generated record's columns are independent given its noise."""
        import torch

        shares = {
            f"bins/{place}": _shares(numeric_cells(column), self.joint.bins[place]).T
            for place, column in enumerate(layout.numeric)
        }
        vectors = {f"vectors/{place}": one.T for place, one in enumerate(self.vectors)}

        def means(
            constants: Constants, made: GeneratorOutput, sets: int
        ) -> Float[Tensor, "dim sets"]:
            binned = [
                constants[f"bins/{place}"] @ made[place]
                for place in range(len(self.joint.bins))
            ]
            columns = [
                one.reshape(len(one), sets, -1)
                for one in (*binned, *made[len(binned) :])
            ]
            parts = []
            for place, (first, *others) in enumerate(self.joint.tables):
                joint: Tensor = columns[first].mean(dim=2)
                if others:
                    # (sets, cells of the first, rows) times (sets, rows, cells of the second)
                    both = columns[first].transpose(0, 1) @ columns[others[0]].permute(
                        1, 2, 0
                    )
                    joint = both.flatten(1).T / columns[first].shape[2]
                parts.append(constants[f"vectors/{place}"] @ joint)
            return torch.cat(parts)

        return TorchForm(means, {**shares, **vectors})


def draw_pairs(
    layout: Layout, *, width: int, cells: int, memory: int, seed: int
) -> PairTangents:
    """Returns the map of a network for each pair of columns but the label, of at most `memory` megabytes."""
    bins = tuple(fine_bins(column, max_bins=cells) for column in layout.numeric)
    usable = columns_to_learn(layout)
    codes = [_inputs_of(one) for one in bins] + [
        np.eye(column.size) for column in layout.coded
    ]
    groups = tuple(combinations(usable, 2)) if len(usable) > 1 else ((usable[0],),)
    joint = equally_weighted(
        bins, tuple(column.size for column in layout.coded), groups
    )
    cells_of = np.diff(joint.starts).tolist()
    needed = width * sum(
        count * (2 + sum(codes[column].shape[1] for column in group))
        for group, count in zip(groups, cells_of, strict=True)
    )
    if needed * _BYTES > memory * 1e6:
        raise OptionError(
            f"the networks of {len(groups):,} pairs of columns would take {needed * _BYTES / 1e6:,.0f} MB, more than "
            f"memory={memory} MB: lower width={width} or cells={cells}, merge rare levels, or raise memory."
        )
    amplitude = np.float32((1 - _MARGIN) * len(groups) ** -0.5)
    vectors = []
    for place, group in enumerate(groups):
        # Of the joint cells, the last column's fastest.
        places = np.indices([len(codes[column]) for column in group]).reshape(
            len(group), -1
        )
        inputs = np.concatenate(
            [codes[column][where] for column, where in zip(group, places, strict=True)],
            axis=1,
        )
        own_seed = int(np.random.SeedSequence([seed, place]).generate_state(1)[0])
        network = draw_network(inputs.shape[1], width=width, seed=own_seed)
        vectors.append(
            network(EncodedTable(inputs, np.zeros((len(inputs), 0), dtype=np.int32)))
            * amplitude
        )
    return PairTangents(joint=joint, vectors=tuple(vectors))


def _inputs_of(bins: NumericBins) -> Inputs:
    """Returns what a numeric column's cells enter a network as: their middle, and whether they are that of missing."""
    edges = np.asarray([0.0, *bins.cuts, 1.0])
    middles: Inputs = ((edges[:-1] + edges[1:]) / 2)[:, None]
    if not bins.nullable:
        return middles
    inputs = np.pad(middles, ((0, 1), (0, 1)))
    inputs[-1, 1] = 1.0
    return inputs


def _shares(cells: Cells, bins: NumericBins) -> Inputs:
    """Returns which part of each cell of a generator lies in each bin, (cells, bins)."""
    edges = np.asarray([-np.inf, *bins.cuts, np.inf])
    low, high = cells.low[:, None], cells.high[:, None]
    width = np.where(high > low, high - low, 1.0)
    parts: Inputs = (
        np.clip(np.minimum(high, edges[1:]) - np.maximum(low, edges[:-1]), 0, None)
        / width
    )
    atoms = cells.low == cells.high
    parts[atoms] = np.eye(parts.shape[1])[bins.codes(cells.low[atoms])[:, None].ravel()]
    if not bins.nullable:
        return parts
    shares = np.pad(parts, ((0, int(cells.missing)), (0, 1)))
    shares[-1, -1] = float(cells.missing)
    return shares
