"""The protocol of feature maps: what the gate asks of them, and what a generator is matched through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from noisegate.features.torch_form import TorchForm
from noisegate.privacy.grid import Grid
from noisegate.schema import EncodedTable, Layout

Vectors = npt.NDArray[np.float32]
"""Features, (rows, dim)."""


class FeatureMap(Protocol):
    """Maps each record to a vector. Public knowledge: it is built without looking at any private record.

    The row of a record must be a function of that record alone, bit for bit, whatever the other rows and its position.
    The gate calls it with blocks of one fixed number of rows, probes it for that on made-up records, and clips what it
    returns; so a map that breaks its promise on the norm costs accuracy, never privacy.

    A generator of tables is matched through maps that have `of_cells` (`CellMap`), one of images through those that
    have `of_points` (`PointMap`): the same features in torch, differentiable, up to rounding.

    Examples:
        >>> import numpy as np
        >>> from noisegate import Schema
        >>> from noisegate.schema import Integer
        >>> from noisegate.testing import check_feature_map
        >>> class AgeSquared:
        ...     dim, norm, nonnegative = 1, 1.0, True
        ...     def __call__(self, records):
        ...         return np.nan_to_num(records.numeric[:, :1] ** 2).astype(np.float32)
        >>> check_feature_map(AgeSquared(), Schema([Integer(name="age", lower=0, upper=99)]).layout)
    """

    @property
    def dim(self) -> int:
        """Length of the vector."""
        ...

    @property
    def norm(self) -> float:
        """L2 norm that no vector exceeds."""
        ...

    @property
    def nonnegative(self) -> bool:
        """Whether every coordinate of every vector is at least zero."""
        ...

    def __call__(self, records: EncodedTable) -> Vectors:
        """Returns the vectors of `records`, float32 (rows, dim)."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactSum:
    """How the integer vectors of a map on a grid are added up without being built.

    What it adds for a record is what `Grid.quantise` makes of the map's vector, bit for bit.

    Attributes:
        squared_norm: Squared norm that no record's integer vector exceeds, whatever is looked up; exact.
        add: Adds the vectors of records to a sum, int64 (dim,), in grid units.
    """

    squared_norm: int
    add: Callable[[npt.NDArray[np.int64], EncodedTable], None]


@runtime_checkable
class ExactMap(FeatureMap, Protocol):
    """A map that is summed in integers of its own. The gate checks the bound, and takes it from this library only."""

    def exact_sum(self, grid: Grid) -> ExactSum | None:
        """Returns the sum on `grid`; None where vectors have to be quantised one by one.

        Raises:
            OptionError: if the grid is too narrow, or too coarse, for the map.
        """
        ...


@runtime_checkable
class CellMap(FeatureMap, Protocol):
    """A map that is known in expectation over the cells of each column (`features.cells`)."""

    def of_cells(self, layout: Layout) -> TorchForm:
        """Returns the torch form whose input is the cell probabilities of each column, numeric ones first."""
        ...


@runtime_checkable
class PointMap(FeatureMap, Protocol):
    """A map of numeric columns, such as pixels."""

    def of_points(self) -> TorchForm:
        """Returns the torch form whose input is points, (rows, numeric columns), in [0, 1]."""
        ...


@runtime_checkable
class SharingMap(FeatureMap, Protocol):
    """A map that is its second half after its first one, where other maps may have the same first half.

    It gives the same vectors as calling it does, bit for bit. The gate computes a first half once for a block of
    records and all the maps whose `first_half` is the same object.
    """

    @property
    def first_half(self) -> Callable[[EncodedTable], Vectors]:
        """From records to whatever numbers, float32 (rows, any)."""
        ...

    def second_half(self, values: Vectors) -> Vectors:
        """Returns the vectors, float32 (rows, dim), of what `first_half` gave, which must not be changed."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class AfterMap:
    """Base of a `SharingMap` that follows another one.

    Attributes:
        of: The other map, whose vectors have norm at most 1; the gate computes what it shares once for both.
    """

    of: SharingMap

    def __call__(self: SharingMap, records: EncodedTable) -> Vectors:
        """Returns the vectors, (rows, dim)."""
        return self.second_half(self.first_half(records))

    @property
    def first_half(self) -> Callable[[EncodedTable], Vectors]:
        """What the other map shares; see `SharingMap`."""
        return self.of.first_half


def torch_forms(maps: Mapping[str, FeatureMap], layout: Layout | None = None) -> dict[str, TorchForm]:
    """Returns the torch form of each map that a generator is matched through; constant features have none.

    Args:
        maps: By name.
        layout: For a generator of cells of these columns; None for one of points, such as images.
    """
    if layout is None:
        return {name: each.of_points() for name, each in maps.items() if isinstance(each, PointMap)}
    return {name: each.of_cells(layout) for name, each in maps.items() if isinstance(each, CellMap)}
