"""Products of looked-up column features: the sum kernel, the product kernel and their mixtures (DP-HP, section 3.2).

Every column has a table with one row for each value that it can take. A numeric column is rounded to public steps and
looks up its Hermite features there; a coded column looks up the one-hot vector of its level, whose kernel is exact. A
*group* of columns has the outer product of their rows as its vector, times a public weight; the record's vector is all
groups side by side:

* groups of one column each, weights 1/√D: the sum kernel (equation 10);
* one group of several columns: the product kernel on these (equation 8);
* groups of pairs: a sum of product kernels.

Guarantee G-22 (the truncated supremum). The squared norm of a group's vector is the product of the squared norms of the
rows that were looked up, so Σ weight²·Π sup ‖row‖² bounds the squared norm of every record. Since a column has finitely
many rows, each supremum is a maximum over them, found by looking at all; it is below 1 for a truncated series, where
the papers use 1. `norm` is that bound, and 10⁻⁵ for the rounding of float32. The gate clips to it all the same.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.hermite import Series
from noisegate.schema import EncodedTable, Layout
from noisegate.schema.columns import Continuous, NumericColumn

# A numeric column without steps of its own, or with more, is rounded to this many.
MOST_STEPS = 4096
_MARGIN = 1e-5

Group = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnTable:
    """The features of one column.

    Attributes:
        rows: (values, width) float32, read-only.
        steps: For a numeric column, how many steps its range is cut into: its values are 0 … steps, and then missing if
            it may be. None for a coded column.
    """

    rows: npt.NDArray[np.float32]
    steps: int | None

    @cached_property
    def squared_supremum(self) -> float:
        """Largest squared norm of a row."""
        return float(np.square(self.rows, dtype=np.float64).sum(axis=1).max())

    @property
    def width(self) -> int:
        """Length of a row."""
        return int(self.rows.shape[1])


def numeric_table(series: Series, steps: int, *, missing: bool, reference: float | None = None) -> ColumnTable:
    """Returns the Hermite features of a column whose range is cut into `steps`.

    A missing value has a coordinate of its own, as long as the longest of the other rows.

    Args:
        series: Gives the features of a position.
        steps: Of the column's range.
        missing: Whether a value may be missing.
        reference: A public position whose features are subtracted, so that columns that stand there add nothing.
    """
    rows = series(np.arange(steps + 1) / steps)
    if reference is not None:
        rows -= series(round(reference * steps) / steps)
    if missing:
        longest = math.sqrt(np.square(rows).sum(axis=1).max())
        rows = np.pad(rows, ((0, 1), (0, 1)))
        rows[-1, -1] = longest
    return ColumnTable(rows=_frozen(rows), steps=steps)


def compressed(table: ColumnTable, rank: int) -> ColumnTable:
    """Returns a numeric column's table with its rows projected on their `rank` strongest directions.

    The directions are those of the table itself, every value counting alike; they are public.
    """
    if rank >= table.width:
        return table
    directions = np.linalg.svd(table.rows.astype(np.float64), full_matrices=False)[2][:rank]
    # Of two opposite directions, the one that more of the rows point along, so that machines agree.
    directions *= np.where(directions.sum(axis=1) < 0, -1.0, 1.0)[:, None]
    return ColumnTable(rows=_frozen(table.rows @ directions.T), steps=table.steps)


def level_table(size: int) -> ColumnTable:
    """Returns the one-hot vectors of `size` codes."""
    return ColumnTable(rows=_frozen(np.eye(size)), steps=None)


def column_tables(
    layout: Layout, series: Sequence[Series], *, reference: float | None = None, rank: int | None = None
) -> tuple[ColumnTable, ...]:
    """Returns the table of each column of a layout, numeric ones first; equal columns share one.

    Args:
        layout: The columns.
        series: For each numeric column.
        reference: See `numeric_table`.
        rank: See `compressed`; None keeps all.
    """
    made: dict[tuple[Series, int, bool], ColumnTable] = {}
    tables = []
    for column, one in zip(layout.numeric, series, strict=True):
        key = (one, _steps(column), column.missing)
        if key not in made:
            table = numeric_table(one, key[1], missing=column.missing, reference=reference)
            made[key] = table if rank is None else compressed(table, rank)
        tables.append(made[key])
    return (*tables, *(level_table(column.size) for column in layout.coded))


def _steps(column: NumericColumn) -> int:
    if isinstance(column, Continuous):
        return MOST_STEPS
    first, last = column.steps
    return min(last - first, MOST_STEPS)


def _frozen(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    frozen = np.ascontiguousarray(rows, dtype=np.float32)
    frozen.setflags(write=False)
    return frozen


@dataclass(frozen=True, kw_only=True, eq=False)
class Products:
    """The map from a record to the weighted outer products of its groups of columns. Everything in it is public.

    Attributes:
        tables: For each column of the layout, numeric ones first.
        groups: For each group its columns, by position in `tables`, each once.
        weights: For each group what its vector is multiplied by, positive.

    Raises:
        OptionError: if a group or a weight is unusable.
    """

    tables: tuple[ColumnTable, ...]
    groups: tuple[Group, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.groups or len(self.groups) != len(self.weights):
            raise OptionError(f"{len(self.groups)} groups of columns and {len(self.weights)} weights do not match.")
        for group in self.groups:
            if not group or len(set(group)) != len(group) or not set(group) <= set(range(len(self.tables))):
                raise OptionError(f"group {group!r}: expected different columns from 0 to {len(self.tables) - 1}.")
        if not all(math.isfinite(weight) and weight > 0 for weight in self.weights):
            raise OptionError("the weight of every group of columns must be positive and finite.")

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the coordinates of each group begin, and the end of the last."""
        starts = [0]
        for group in self.groups:
            starts.append(starts[-1] + math.prod(self.tables[column].width for column in group))
        return tuple(starts)

    @property
    def dim(self) -> int:
        """Number of coordinates of all groups."""
        return self.starts[-1]

    @cached_property
    def norm(self) -> float:
        """The bound of G-22 on the norm of every vector."""
        squares = [
            weight**2 * math.prod(self.tables[column].squared_supremum for column in group)
            for group, weight in zip(self.groups, self.weights, strict=True)
        ]
        return math.sqrt(math.fsum(squares)) * (1 + _MARGIN)

    @property
    def nonnegative(self) -> bool:
        """Whether all groups are of coded columns: Hermite features change sign."""
        return all(self.tables[column].steps is None for group in self.groups for column in group)

    @cached_property
    def single(self) -> bool:
        """Whether every group is one column, so that its sum follows from how often each value occurs."""
        return all(len(group) == 1 for group in self.groups)

    @cached_property
    def _steps(self) -> npt.NDArray[np.float64]:
        return np.asarray([table.steps for table in self.tables if table.steps is not None], dtype=np.float64)

    @cached_property
    def _last(self) -> npt.NDArray[np.intp]:
        return np.asarray([len(table.rows) - 1 for table in self.tables], dtype=np.intp)

    def places(self, records: EncodedTable) -> npt.NDArray[np.intp]:
        """Returns which row of its table each record looks up in each column, (rows, columns)."""
        numeric = records.numeric.shape[1]
        places = np.empty((len(records), len(self.tables)), dtype=np.intp)
        missing = np.isnan(records.numeric)
        nearest = np.rint(np.where(missing, 0, records.numeric).clip(0, 1) * self._steps)
        places[:, :numeric] = np.where(missing, self._last[:numeric], nearest)
        places[:, numeric:] = records.codes
        return places

    @cached_property
    def _shelves(self) -> tuple[_Shelf, ...]:
        """The groups by the widths of their columns, so that alike ones are multiplied at once."""
        alike: dict[Group, list[int]] = defaultdict(list)
        for place, group in enumerate(self.groups):
            alike[tuple(self.tables[column].width for column in group)].append(place)
        return tuple(_Shelf.of(self, places) for places in alike.values())

    def __call__(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Returns the vectors, (rows, dim). A product is the same bits wherever its record stands."""
        places = self.places(records)
        vectors = np.empty((len(records), self.dim), dtype=np.float32)
        for shelf in self._shelves:
            vectors[:, shelf.coordinates] = shelf.products(places)
        return vectors


@dataclass(frozen=True, kw_only=True, eq=False)
class _Place:
    """The columns that stand at one place of the groups of a shelf, each looked up once.

    Attributes:
        columns: The different ones, (columns,).
        offsets: Where the table of each begins in `rows`, (columns,).
        rows: Their tables, one under the other.
        of_group: Which of the columns stands in each group, (groups,).
    """

    columns: npt.NDArray[np.intp]
    offsets: npt.NDArray[np.intp]
    rows: npt.NDArray[np.float32]
    of_group: npt.NDArray[np.intp]

    @classmethod
    def of(cls, tables: Sequence[ColumnTable], of_group: Sequence[int]) -> _Place:
        columns, inverse = np.unique(np.asarray(of_group, dtype=np.intp), return_inverse=True)
        starts: dict[int, int] = {}
        parts: list[npt.NDArray[np.float32]] = []
        for column in columns.tolist():
            if id(tables[column]) not in starts:
                starts[id(tables[column])] = sum(map(len, parts))
                parts.append(tables[column].rows)
        offsets = np.asarray([starts[id(tables[column])] for column in columns.tolist()], dtype=np.intp)
        return cls(columns=columns, offsets=offsets, rows=np.concatenate(parts), of_group=inverse.astype(np.intp))

    def look_up(self, places: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
        """Returns what each group has at this place, (rows, groups, width)."""
        looked = self.rows.take(places[:, self.columns] + self.offsets, axis=0)
        return looked.take(self.of_group, axis=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Shelf:
    """Groups of one shape.

    Attributes:
        members: For each place in a group.
        weights: (groups,).
        coordinates: Where the products go, (groups · coordinates,); a slice where they are neighbours.
    """

    members: tuple[_Place, ...]
    weights: npt.NDArray[np.float32]
    coordinates: npt.NDArray[np.intp] | slice

    @classmethod
    def of(cls, features: Products, groups: Sequence[int]) -> _Shelf:
        columns = np.asarray([features.groups[group] for group in groups], dtype=np.intp)
        spans = [np.arange(features.starts[group], features.starts[group + 1]) for group in groups]
        coordinates = np.concatenate(spans)
        first, end = int(coordinates[0]), int(coordinates[-1]) + 1
        return cls(
            members=tuple(_Place.of(features.tables, of_group.tolist()) for of_group in columns.T),
            weights=np.asarray([features.weights[group] for group in groups], dtype=np.float32),
            coordinates=slice(first, end) if end - first == len(coordinates) else coordinates,
        )

    def products(self, places: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
        """Returns the weighted products, (rows, groups · coordinates)."""
        product = self.members[-1].look_up(places) * self.weights[:, None]
        # From the last column to the first, so that the inner loops are long; the order of coordinates is the same.
        for member in reversed(self.members[:-1]):
            factor = member.look_up(places)
            product = (factor[..., None] * product[:, :, None, :]).reshape(*product.shape[:2], -1)
        return product.reshape(len(places), -1)
