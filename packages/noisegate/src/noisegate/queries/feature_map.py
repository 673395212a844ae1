"""The protocol of feature maps, what the gate and a generator's fit ask of them, and the two simplest maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from noisegate.privacy.grid import Grid
from noisegate.schema import EncodedTable, Layout

if TYPE_CHECKING:
    import torch
    from jaxtyping import Float
    from torch import Tensor

Vectors = npt.NDArray[np.float32]  # features, (rows, dim)

Made: TypeAlias = "Tensor | Sequence[Tensor]"
"""What a generator gave: points, (rows, columns), or cell probabilities of each column, (cells, rows)."""

Constants: TypeAlias = Mapping[
    str, Any
]  # tensors, modules or other forms by name, on the form's device

_NONE: Mapping[str, Any] = MappingProxyType({})


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

    @property
    def norm(self) -> float:
        """L2 norm that no vector exceeds."""

    @property
    def nonnegative(self) -> bool:
        """Whether every coordinate of every vector is at least zero."""

    def __call__(self, records: EncodedTable) -> Vectors:
        """Returns the vectors of `records`, float32 (rows, dim)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactSum:
    """How the integer vectors of a map on a grid are added up without being built.

    What it adds for a record is what `Grid.quantise` makes of the map's vector, bit for bit.
    """

    squared_norm: int  # squared norm that no record's integer vector exceeds, whatever is looked up; exact
    add: Callable[[npt.NDArray[np.int64], EncodedTable], None]
    """Adds the vectors of records to a sum, int64 (dim,), in grid units."""
    weighted: bool = False
    """Whether it adds of weighted records the parts that they weigh, each entry rounded toward zero."""


@runtime_checkable
class ExactMap(FeatureMap, Protocol):
    """A map that is summed in integers of its own. The gate takes a reviewed bound (`gate.sums.REVIEWED`)."""

    def exact_sum(self, grid: Grid) -> ExactSum | None:
        """Returns the sum on `grid`; None where vectors have to be quantised one by one.

        Raises:
            OptionError: if the grid is too narrow, or too coarse, for the map.
        """


@runtime_checkable
class CellMap(FeatureMap, Protocol):
    """A map that is known in expectation over the cells of each column (`schema.layout.Cells`)."""

    def of_cells(self, layout: Layout) -> TorchForm:
        """Returns the torch form whose input is the cell probabilities of each column, numeric ones first."""


@runtime_checkable
class CountingMap(FeatureMap, Protocol):
    """A map whose vectors all have the same inner product with a public one, so that their sum also counts records."""

    @property
    def counter(self) -> npt.NDArray[np.float64] | None:
        """The shortest u with u · v(r) = 1 for every record r, (dim,); None if there is none."""


@runtime_checkable
class PointMap(FeatureMap, Protocol):
    """A map of numeric columns, such as pixels."""

    def of_points(self) -> TorchForm:
        """Returns the torch form whose input is points, (rows, numeric columns), in [0, 1]."""


@runtime_checkable
class SharingMap(FeatureMap, Protocol):
    """A map that is its second half after its first one, bit for bit.

    The gate computes a first half once for a block and all the maps whose `first_half` is the same object.
    """

    @property
    def first_half(self) -> Callable[[EncodedTable], Vectors]:
        """From records to whatever numbers, float32 (rows, any)."""

    def second_half(self, values: Vectors) -> Vectors:
        """Returns the vectors, float32 (rows, dim), of what `first_half` gave, which must not be changed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class AfterMap:
    """Base of a `SharingMap` that follows another one."""

    of: SharingMap  # with vectors of norm at most 1; the gate computes what it shares once for both

    def __call__(self: SharingMap, records: EncodedTable) -> Vectors:
        """Returns the vectors, (rows, dim)."""
        return self.second_half(self.first_half(records))

    @property
    def first_half(self) -> Callable[[EncodedTable], Vectors]:
        """What the other map shares; see `SharingMap`."""
        return self.of.first_half


class TorchForm:
    """The torch form of a map: the mean features of what a generator gives, differentiably, in float32.

    No map needs torch until one of these is made: a map holds NumPy arrays and makes the form from them.

    Args:
        means_fn: From the constants, what the generator gave, and a number of sets, to mean features, (dim, sets).
        constants: Arrays, taken in float32 if they are of floats; tensors; or anything else that has `to`.
    """

    def __init__(
        self,
        means_fn: Callable[[Constants, Made, int], Tensor],
        constants: Mapping[str, Any],
    ) -> None:
        self._means_fn = means_fn
        self.constants = {name: _tensor(value) for name, value in constants.items()}

    def means(self, made: Made, sets: int) -> Float[Tensor, "dim sets"]:
        """Returns the means, (dim, sets), of so many equal sets of rows of what was made, one after the other."""
        return self._means_fn(self.constants, made, sets)

    def to(self, device: torch.device) -> Self:
        """Moves the constants, and returns the form itself."""
        self.constants = {
            name: value.to(device) for name, value in self.constants.items()
        }
        return self


class RowForm(TorchForm):
    """The features of every row, and their means; `rows_fn` makes of the constants and what was given (dim, rows)."""

    def __init__(
        self,
        rows_fn: Callable[[Constants, Made], Tensor],
        constants: Mapping[str, Any] = _NONE,
    ) -> None:
        super().__init__(self._mean_rows, constants)
        self._rows_fn = rows_fn

    def __call__(self, made: Made) -> Float[Tensor, "dim rows"]:
        """Returns features, (dim, rows)."""
        return self._rows_fn(self.constants, made)

    def _mean_rows(
        self, constants: Constants, made: Made, sets: int
    ) -> Float[Tensor, "dim sets"]:
        features = self._rows_fn(constants, made)
        return features.reshape(len(features), sets, -1).mean(dim=2)


def _tensor(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    import torch

    copied = np.ascontiguousarray(
        value, dtype=np.float32 if value.dtype.kind == "f" else None
    )
    return torch.from_numpy(copied if copied.flags.writeable else copied.copy())


def torch_forms(
    maps: Mapping[str, FeatureMap], layout: Layout | None = None
) -> dict[str, TorchForm]:
    """Returns the torch form of each map that is not constant, for cells of `layout`, for points where it is None."""
    if layout is None:
        return {
            name: each.of_points()
            for name, each in maps.items()
            if isinstance(each, PointMap)
        }
    return {
        name: each.of_cells(layout)
        for name, each in maps.items()
        if isinstance(each, CellMap)
    }


@dataclass(frozen=True)
class Counts:
    """Maps every record to the number 1: its class-wise sum is the number of records of each label.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.queries.feature_map import Counts
        >>> from noisegate.schema import Boolean
        >>> from noisegate.testing import made_up
        >>> Counts()(made_up(Schema([Boolean(name="ill")]).layout, rows=2)).tolist()
        [[1.0], [1.0]]
    """

    dim: int = 1
    norm: float = 1.0
    nonnegative: bool = True

    def __call__(self, records: EncodedTable) -> Vectors:
        """Returns ones, (rows, 1)."""
        return np.ones((len(records), 1), dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class Levels:
    """One-hot codes of all coded columns, scaled so that the block's norm is exactly bounded; missing is a level.

    The polynomial kernel of order 1 of DP-MERF, Harder, Adamczewski and Park (AISTATS 2021),
    https://arxiv.org/abs/2002.11603, section 4.3: a record has one level in each of q columns, and its one-hot vector
    of norm √q is divided by √q.
    """

    columns: tuple[int, ...]  # positions among the coded columns of the layout
    sizes: tuple[int, ...]  # number of codes of each, missing included
    norm: float = 1.0
    nonnegative: bool = True

    @property
    def dim(self) -> int:
        """Total number of levels."""
        return sum(self.sizes)

    @property
    def amplitude(self) -> float:
        """Value of a hot coordinate, 1/√q."""
        return float(len(self.columns) ** -0.5)

    @property
    def counter(self) -> npt.NDArray[np.float64]:
        """See `CountingMap`: a record has one level in each column; of few levels, counts have the least noise."""
        sizes = np.asarray(self.sizes)
        return np.asarray(
            np.repeat(1 / sizes, sizes) / (self.amplitude * (1 / sizes).sum())
        )

    def __call__(self, records: EncodedTable) -> Vectors:
        """Returns scaled one-hot codes, (rows, dim)."""
        result = np.zeros((len(records), self.dim), dtype=np.float32)
        offsets = np.cumsum([0, *self.sizes])[:-1]
        result[
            np.arange(len(records))[:, None],
            offsets + records.codes[:, list(self.columns)],
        ] = self.amplitude
        return result

    def of_cells(self, layout: Layout) -> RowForm:
        """Returns the expected features over the levels of each column."""
        import torch

        def features(
            constants: Constants, probabilities: Made
        ) -> Float[Tensor, "dim rows"]:
            chosen = [
                probabilities[len(layout.numeric) + column] for column in self.columns
            ]
            return torch.cat(chosen) * self.amplitude

        return RowForm(features)
