"""Feature maps: from a record to a vector. The protocols, and the two simplest maps.

The gate computes vectors with a map (`FeatureMap`), or sums of vectors without the
vectors (`ExactMap`). A generator is fitted with the torch form of the same map
(`CellMap`, `PointMap`, `TorchForm`), which is differentiable and contains no record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from noisegate.privacy.grid import Grid
from noisegate.schema import EncodedTable, Layout

if TYPE_CHECKING:
    import torch
    from jaxtyping import Float, Shaped
    from torch import Tensor

Vectors = npt.NDArray[np.float32]
"""Features of records, (rows, dim)."""

GeneratorOutput: TypeAlias = "Tensor | Sequence[Tensor]"
"""A batch from a generator: points, (rows, columns), or for each column the
probabilities of its cells, (cells, rows)."""

Constants: TypeAlias = Mapping[str, Any]
"""Tensors, modules or other torch forms by name, on the device of their form."""

_NO_CONSTANTS: Constants = MappingProxyType({})


class FeatureMap(Protocol):
    """Maps each record to a vector of bounded norm.

    A map is public: it is created without any private record. The vector of a record
    must be a function of that record only, bit for bit. It must not depend on the other
    records of the batch, or on the record's position among them.

    The gate calls a map with batches of one fixed size. It tests this property on
    simulated records, and clips the vectors. So a map with a wrong norm costs accuracy,
    never privacy.

    A generator of tables is fitted through maps with `of_cells` (`CellMap`), a
    generator of images through maps with `of_points` (`PointMap`). These methods
    compute the same features in torch, differentiably, up to rounding.

    Examples:
        >>> import numpy as np
        >>> from noisegate import Schema
        >>> from noisegate.schema import Integer
        >>> from noisegate.testing import check_feature_map
        >>> class AgeSquared:
        ...     dim = 1
        ...     norm = 1.0
        ...     nonnegative = True
        ...     def __call__(self, records):
        ...         squares = records.numeric[:, :1] ** 2
        ...         return np.nan_to_num(squares).astype(np.float32)
        >>> schema = Schema([Integer(name="age", lower=0, upper=99)])
        >>> check_feature_map(AgeSquared(), schema.layout)
    """

    @property
    def dim(self) -> int:
        """Length of a vector."""

    @property
    def norm(self) -> float:
        """Largest L2 norm of a vector."""

    @property
    def nonnegative(self) -> bool:
        """Whether all coordinates of all vectors are zero or more."""

    def __call__(self, records: EncodedTable) -> Vectors:
        """Computes the vectors of records, float32, (rows, dim)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ExactSum:
    """How the integer vectors of a map on a grid are summed without being built.

    What it adds for a record equals what `Grid.quantise` makes of the map's vector, bit
    for bit.

    Attributes:
        squared_norm: Squared norm that the integer vector of no record exceeds,
            whatever the record holds; exact.
        add: Adds the vectors of records to a sum, int64 (dim,), in grid units, in
            place.
        weighted: Whether it adds, for `WeightedRows`, the part that a record weighs,
            each entry rounded toward zero.
    """

    squared_norm: int
    add: Callable[[npt.NDArray[np.int64], EncodedTable], None]
    weighted: bool = False


@runtime_checkable
class ExactMap(FeatureMap, Protocol):
    """A map that is summed in integers of its own.

    The gate relies on the norm that such a sum states for reviewed maps alone
    (`gate.sums.REVIEWED`).
    """

    def exact_sum(self, grid: Grid) -> ExactSum | None:
        """Returns the sum on a grid; None where vectors must be quantised one by one.

        Raises:
            OptionError: if the grid is too narrow, or too coarse, for the map.
        """


@runtime_checkable
class CellMap(FeatureMap, Protocol):
    """A map whose expectation is known for records given by probabilities of cells.

    The cells are those of `schema.layout.Cells`.
    """

    def of_cells(self, layout: Layout) -> TorchForm:
        """Returns the torch form whose input is probabilities of cells.

        Its input has one tensor, (cells, rows), for each column, numeric ones first.
        """


@runtime_checkable
class CountingMap(FeatureMap, Protocol):
    """A map whose sum of vectors also counts the records.

    That is so where all vectors have the same inner product with a public one.
    """

    @property
    def count_functional(self) -> npt.NDArray[np.float64] | None:
        """The shortest u with u · v(r) = 1 for every record r, (dim,).

        The shortest, as its inner product with a noisy sum has the least noise. None if
        there is no such vector.
        """


@runtime_checkable
class PointMap(FeatureMap, Protocol):
    """A map of numeric columns, such as pixels, whose features torch computes too."""

    def of_points(self) -> TorchForm:
        """Returns the torch form whose input is points, (rows, numeric columns).

        Points lie in [0, 1].
        """


@runtime_checkable
class SharingMap(FeatureMap, Protocol):
    """A map in two steps, of which other maps may share the first.

    Its vectors are those of `second_half` on what `first_half` gives, bit for bit. The
    gate computes a first half once for a batch and for all the maps whose `first_half`
    is the same object.
    """

    @property
    def first_half(self) -> Callable[[EncodedTable], Vectors]:
        """Maps records to intermediate numbers, float32, (rows, any)."""

    def second_half(self, values: Vectors) -> Vectors:
        """Computes the vectors, float32, (rows, dim).

        Args:
            values: What `first_half` gave, which must not be changed.
        """


@dataclass(frozen=True, kw_only=True, eq=False)
class AfterMap:
    """Base of a `SharingMap` that transforms the vectors of another one.

    Attributes:
        of: The other map, with vectors of norm at most 1. The gate computes its first
            half once for both.
    """

    of: SharingMap

    def __call__(self: SharingMap, records: EncodedTable) -> Vectors:
        """Computes the vectors of records, (rows, dim)."""
        return self.second_half(self.first_half(records))

    @property
    def first_half(self) -> Callable[[EncodedTable], Vectors]:
        """The first half of the other map; see `SharingMap`."""
        return self.of.first_half


class TorchForm:
    """The torch form of a map: mean features of what a generator gives, in float32.

    The means are differentiable. A map holds NumPy arrays and makes the form from them,
    so that no map needs torch until then.

    Args:
        means_fn: Computes mean features, (dim, sets), from the constants, a batch of a
            generator and the number of sets in it; see `means`.
        constants: Arrays, of which those of floats become float32 tensors; tensors; or
            anything else with a method `to`.
    """

    def __init__(
        self,
        means_fn: Callable[[Constants, GeneratorOutput, int], Tensor],
        constants: Constants,
    ) -> None:
        self._means_fn = means_fn
        self.constants = {
            name: _to_tensor(value) if isinstance(value, np.ndarray) else value
            for name, value in constants.items()
        }

    def means(self, generated: GeneratorOutput, sets: int) -> Float[Tensor, "dim sets"]:
        """Computes the mean features of sets of rows.

        Args:
            generated: Rows, those of one set after those of another, in sets of equal
                size.
            sets: Number of sets.

        Returns:
            Means, (dim, sets).
        """
        return self._means_fn(self.constants, generated, sets)

    def to(self, device: torch.device) -> Self:
        """Moves the constants to a device, and returns the form itself."""
        self.constants = {
            name: value.to(device) for name, value in self.constants.items()
        }
        return self


class RowForm(TorchForm):
    """A torch form that can also compute the features of every row.

    Args:
        rows_fn: Computes features, (dim, rows), from the constants and a batch of a
            generator.
        constants: As for `TorchForm`.
        means_fn: As for `TorchForm`, where means are computed without all features in
            memory; None to take the means of the rows.
    """

    def __init__(
        self,
        rows_fn: Callable[[Constants, GeneratorOutput], Tensor],
        constants: Constants = _NO_CONSTANTS,
        means_fn: Callable[[Constants, GeneratorOutput, int], Tensor] | None = None,
    ) -> None:
        super().__init__(means_fn or partial(means_of_rows, rows_fn), constants)
        self._rows_fn = rows_fn

    def __call__(self, generated: GeneratorOutput) -> Float[Tensor, "dim rows"]:
        """Computes the features of every row, (dim, rows)."""
        return self._rows_fn(self.constants, generated)


def means_of_rows(
    rows_fn: Callable[[Constants, GeneratorOutput], Tensor],
    constants: Constants,
    generated: GeneratorOutput,
    sets: int,
) -> Float[Tensor, "dim sets"]:
    """Computes the features of every row, and the means of each set, (dim, sets).

    Args:
        rows_fn: As for `RowForm`.
        constants: What it takes.
        generated: Rows, those of one set after those of another.
        sets: Number of sets.
    """
    features = rows_fn(constants, generated)
    return features.reshape(len(features), sets, -1).mean(dim=2)


def _to_tensor(array: npt.NDArray[Any]) -> Shaped[Tensor, "..."]:
    """Copies an array into a tensor, of float32 if it holds floats."""
    import torch

    dtype = np.float32 if array.dtype.kind == "f" else None
    contiguous = np.ascontiguousarray(array, dtype=dtype)
    # A tensor must not share memory that is read-only.
    if not contiguous.flags.writeable:
        return torch.from_numpy(contiguous.copy())
    return torch.from_numpy(contiguous)


def torch_forms(
    maps: Mapping[str, FeatureMap], layout: Layout | None = None
) -> dict[str, TorchForm]:
    """Returns the torch forms of those maps that have one.

    Args:
        maps: Maps by the name of their query.
        layout: The columns whose cells a generator gives; None for a generator of
            points.
    """
    if layout is None:
        return {
            name: feature_map.of_points()
            for name, feature_map in maps.items()
            if isinstance(feature_map, PointMap)
        }
    return {
        name: feature_map.of_cells(layout)
        for name, feature_map in maps.items()
        if isinstance(feature_map, CellMap)
    }


@dataclass(frozen=True)
class Counts:
    """Maps every record to the number 1, so that a sum is a number of records.

    Summed for each label, these are the numbers of records with each label.

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
    """One-hot codes of coded columns, side by side, scaled to norm 1.

    A missing value is a level. A record has one level in each of q columns, so that its
    one-hot vector has norm √q, and is divided by that. This is the polynomial kernel of
    order 1 of DP-MERF, Harder, Adamczewski and Park (AISTATS 2021),
    https://arxiv.org/abs/2002.11603, section 4.3.

    Attributes:
        columns: Positions among the coded columns of the layout.
        sizes: Number of codes of each, missing included.
        norm: L2 norm that no vector exceeds.
        nonnegative: Whether coordinates are at least zero.

    Examples:
        >>> import numpy as np
        >>> from noisegate.queries.feature_map import Levels
        >>> from noisegate.records import Rows
        >>> records = Rows(np.empty((1, 0)), np.array([[1]], dtype=np.int32))
        >>> Levels(columns=(0,), sizes=(3,))(records).tolist()
        [[0.0, 1.0, 0.0]]
    """

    columns: tuple[int, ...]
    sizes: tuple[int, ...]
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
    def count_functional(self) -> npt.NDArray[np.float64]:
        """The shortest u with u · v(r) = 1 for every record r, (dim,).

        Each column counts every record. A column of few levels does so with the least
        noise, and gets the largest weight.
        """
        sizes = np.asarray(self.sizes)
        return np.asarray(
            np.repeat(1 / sizes, sizes) / (self.amplitude * (1 / sizes).sum())
        )

    def __call__(self, records: EncodedTable) -> Vectors:
        """Computes scaled one-hot codes, (rows, dim)."""
        vectors = np.zeros((len(records), self.dim), dtype=np.float32)
        offsets = np.cumsum([0, *self.sizes])[:-1]
        row_indices = np.arange(len(records))[:, None]
        hot_indices = offsets + records.codes[:, list(self.columns)]
        vectors[row_indices, hot_indices] = self.amplitude
        return vectors

    def of_cells(self, layout: Layout) -> RowForm:
        """Returns the torch form: expected features by the probabilities of levels."""
        import torch

        def features(
            constants: Constants, probabilities: GeneratorOutput
        ) -> Float[Tensor, "dim rows"]:
            numeric_count = len(layout.numeric)
            selected = [
                probabilities[numeric_count + column] for column in self.columns
            ]
            return torch.cat(selected) * self.amplitude

        return RowForm(features)
