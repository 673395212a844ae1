"""Neural tangent features of tables: a small random network for each pair of columns, looked up by their cells.

A generator of tables gives cell probabilities of columns that are independent given its noise, and the gradient of a
network of two columns has an expectation in closed form under these: it is a vector for each of their joint cells. So
the kernel is the mean over the pairs of the normalised kernels of `noisegate_papers.features.tangent`.

A numeric column is cut into public cells, and enters as its cell's position in [0, 1]; a coded column, and what is
missing, enter as one-hot vectors. A record's vector is that of its cell in each pair, over √pairs, of norm at most 1;
their sum is, for each pair, the count of each cell times the cell's vector, whole numbers both, as in G-23.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, combinations
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.binning import NumericBins, fine_bins
from noisegate.features.contingency import column_cells
from noisegate.features.feature_map import Constants, ExactSum, Made, TorchForm, Vectors
from noisegate.privacy.grid import Grid
from noisegate.schema import EncodedTable, Layout
from noisegate.schema.layout import Cells, numeric_cells
from noisegate_papers.features.products import MOST_ROWS
from noisegate_papers.features.tangent import draw_network

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

Inputs = npt.NDArray[np.float64]

_BYTES = 4
# So that rounding to float32 leaves every vector within its norm.
_MARGIN = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class PairTangents:
    """The map from a record to the vectors of its cells in pairs of columns. Everything in it is public.

    Columns are numbered as in the layout, numeric ones first.

    Attributes:
        bins: Cells of each numeric column of the layout.
        groups: For each network its columns: two, or one where there is no other.
        vectors: For each network the vector of each joint cell, the last column's fastest, (cells, weights) float32.
        sizes: Number of cells of each column.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate_papers.features.tangent_pairs import draw_pairs
        >>> from noisegate.schema import Boolean, Integer
        >>> from noisegate.testing import check_feature_map
        >>> layout = Schema([Boolean(name="ill"), Integer(name="age", lower=0, upper=99)]).layout
        >>> check_feature_map(draw_pairs(layout, width=4, cells=10, memory=10, seed=0), layout)
    """

    bins: tuple[NumericBins, ...]
    groups: tuple[tuple[int, ...], ...]
    vectors: tuple[npt.NDArray[np.float32], ...]
    sizes: tuple[int, ...]
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

    def joint_cells(self, records: EncodedTable) -> npt.NDArray[np.intp]:
        """Returns the cell of each record for each network, (networks, rows)."""
        cells = column_cells(self.bins, records)
        joint = np.zeros((len(self.groups), len(cells)), dtype=np.intp)
        for place, group in enumerate(self.groups):
            for column in group:
                joint[place] = joint[place] * self.sizes[column] + cells[:, column]
        return joint

    def __call__(self, records: EncodedTable) -> Vectors:
        """Returns the vectors, (rows, dim)."""
        parts = [one[cells] for one, cells in zip(self.vectors, self.joint_cells(records), strict=True)]
        return np.concatenate(parts, axis=1)

    def exact_sum(self, grid: Grid) -> ExactSum | None:
        """Returns the sum by counts of cells; see the module, and G-23 for why it is exact."""
        if grid.centre is not None:
            return None
        rounded = [grid.quantise(one) for one in self.vectors]
        largest = sum(int(np.square(one, dtype=np.int64).sum(axis=1).max()) for one in rounded)
        rows = [one.astype(np.float64) for one in rounded]

        def add(sums: npt.NDArray[np.int64], records: EncodedTable) -> None:
            if (count := len(records)) >= MOST_ROWS:
                raise OverflowError(f"{count} records at once: the products could leave float64's whole numbers.")
            for place, cells in enumerate(self.joint_cells(records)):
                counts = np.bincount(cells, minlength=len(rows[place])).astype(np.float64)
                sums[self.starts[place] : self.starts[place + 1]] += (counts @ rows[place]).astype(np.int64)

        return ExactSum(squared_norm=largest, add=add)

    def of_cells(self, layout: Layout) -> TorchForm:
        """Returns the expected vectors: a generated record's columns are independent given its noise."""
        import torch

        shares = {
            f"bins/{place}": _shares(numeric_cells(column), self.bins[place]).T
            for place, column in enumerate(layout.numeric)
        }
        vectors = {f"vectors/{place}": one.T for place, one in enumerate(self.vectors)}

        def means(constants: Constants, made: Made, sets: int) -> Float[Tensor, "dim sets"]:
            binned = [constants[f"bins/{place}"] @ made[place] for place in range(len(self.bins))]
            columns = [one.reshape(len(one), sets, -1) for one in (*binned, *made[len(binned) :])]
            parts = []
            for place, (first, *others) in enumerate(self.groups):
                joint: Tensor = columns[first].mean(dim=2)
                if others:
                    # (sets, cells of the first, rows) times (sets, rows, cells of the second)
                    both = columns[first].transpose(0, 1) @ columns[others[0]].permute(1, 2, 0)
                    joint = both.flatten(1).T / columns[first].shape[2]
                parts.append(constants[f"vectors/{place}"] @ joint)
            return torch.cat(parts)

        return TorchForm(means, {**shares, **vectors})


def draw_pairs(layout: Layout, *, width: int, cells: int, memory: int, seed: int) -> PairTangents:
    """Returns the map of a network of `width` hidden units for each pair of columns but the label.

    Args:
        layout: Of the records.
        width: Hidden units of each network.
        cells: Of a numeric column, about.
        memory: Megabytes that the vectors of all cells may take.
        seed: Of the networks' weights; public.
    """
    bins = tuple(fine_bins(column, most=cells) for column in layout.numeric)
    sizes = (*(one.size for one in bins), *(column.size for column in layout.coded))
    usable = [*range(len(bins)), *(len(bins) + place for place in layout.others)]
    if not usable:
        raise OptionError("the schema has no column besides the label; there is nothing to learn.")
    codes = [_inputs_of(one) for one in bins] + [np.eye(column.size) for column in layout.coded]
    groups = tuple(combinations(usable, 2)) if len(usable) > 1 else ((usable[0],),)
    needed = sum(
        np.prod([sizes[column] for column in group]) * width * (2 + sum(codes[column].shape[1] for column in group))
        for group in groups
    )
    if needed * _BYTES > memory * 1e6:
        raise OptionError(
            f"the networks of {len(groups):,} pairs of columns would take {needed * _BYTES / 1e6:,.0f} MB, more than "
            f"memory={memory} MB: lower width={width} or cells={cells}, merge rare levels, or raise memory."
        )
    amplitude = np.float32((1 - _MARGIN) * len(groups) ** -0.5)
    vectors = []
    for place, group in enumerate(groups):
        inputs = _joint([codes[column] for column in group])
        own_seed = int(np.random.SeedSequence([seed, place]).generate_state(1)[0])
        network = draw_network(inputs.shape[1], width=width, seed=own_seed)
        vectors.append(network(EncodedTable(inputs, np.zeros((len(inputs), 0), dtype=np.int32))) * amplitude)
    return PairTangents(bins=bins, groups=groups, vectors=tuple(vectors), sizes=sizes)


def _inputs_of(bins: NumericBins) -> Inputs:
    """Returns what a numeric column's cells enter a network as: their middle, and whether they are that of missing."""
    edges = np.asarray([0.0, *bins.cuts, 1.0])
    middles: Inputs = ((edges[:-1] + edges[1:]) / 2)[:, None]
    if not bins.nullable:
        return middles
    inputs = np.pad(middles, ((0, 1), (0, 1)))
    inputs[-1, 1] = 1.0
    return inputs


def _joint(codes: Sequence[Inputs]) -> Inputs:
    """Returns the inputs of the joint cells of columns, the last column's fastest, (cells, inputs)."""
    places = np.indices([len(one) for one in codes]).reshape(len(codes), -1)
    return np.concatenate([one[place] for one, place in zip(codes, places, strict=True)], axis=1)


def _shares(cells: Cells, bins: NumericBins) -> Inputs:
    """Returns which part of each cell of a generator lies in each bin, (cells, bins)."""
    edges = np.asarray([-np.inf, *bins.cuts, np.inf])
    low, high = cells.low[:, None], cells.high[:, None]
    width = np.where(high > low, high - low, 1.0)
    parts: Inputs = np.clip(np.minimum(high, edges[1:]) - np.maximum(low, edges[:-1]), 0, None) / width
    atoms = cells.low == cells.high
    parts[atoms] = np.eye(parts.shape[1])[bins.codes(cells.low[atoms])[:, None].ravel()]
    if not bins.nullable:
        return parts
    shares = np.pad(parts, ((0, int(cells.missing)), (0, 1)))
    shares[-1, -1] = float(cells.missing)
    return shares
