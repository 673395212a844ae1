"""Domains: named columns, and the cells that records are counted in.

A table of counts has one axis for each column, and one entry on it for each cell. A
`Domain` says what the axes and entries are::

    age = (NumberRange(0, 49), NumberRange(50, 99), None)
    Domain.of({"sex": ("f", "m"), "age": age})

    axis 0: sex   f, m
    axis 1: age   0 to 49, 50 to 99, missing

Models and answers know of a number only its cell: an interval between public cuts
(`NumericBins`), in which a column of steps has only some values. `domain_of` gives the
cells of a layout.

The model is `Domain` of mbi (McKenna, Sheldon and Miklau, ICML 2019,
https://github.com/ryan112358/mbi), whose axes have sizes; here they have cells, so that
tables of one column on different cells are not taken for each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from noisegate.queries.binning import NumericBins
from noisegate.schema import Layout, NumericColumn
from noisegate.schema.layout import numbers_at, positions_of_ranks, ranks_at

Floats: TypeAlias = npt.NDArray[np.float64]

# Rounding may put the nearest step of an edge this many steps off.
_RANK_ERROR = 2


class NumberRange(NamedTuple):
    """The numbers that share a cell.

    Attributes:
        low: The lowest, in the unit of the column.
        high: The highest, which is in the cell too. In a column of real numbers, it
            is the lowest of the next cell, and belongs to that.
    """

    low: float
    high: float


Level: TypeAlias = str | bool | float | NumberRange | None
"""What a cell holds: a level, a span of numbers, or None for missing values."""


@dataclass(frozen=True)
class Domain:
    """Named columns and their cells, in the order of the axes of an array.

    Attributes:
        names: Name of each column.
        cells: What each cell of each column holds, in the order of its axis.

    Examples:
        >>> from noisegate.answers.domain import Domain
        >>> domain = Domain.of({"sex": ("f", "m"), "job": ("cook", "nurse", None)})
        >>> domain.shape, domain.size, domain.axes(["job"])
        ((2, 3), 6, (1,))
        >>> domain.project(["job"]).names, domain.position("job", None)
        (('job',), 2)
    """

    names: tuple[str, ...]
    cells: tuple[tuple[Level, ...], ...]

    @classmethod
    def of(cls, cells: Mapping[str, Sequence[Level]]) -> Domain:
        """Returns the domain of columns, given their cells by name."""
        return cls(tuple(cells), tuple(tuple(levels) for levels in cells.values()))

    @cached_property
    def by_name(self) -> dict[str, tuple[Level, ...]]:
        """The cells of each column, by its name."""
        return dict(zip(self.names, self.cells, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells of each column."""
        return tuple(len(levels) for levels in self.cells)

    @property
    def size(self) -> int:
        """Number of cells of a table of all columns; 1 without columns."""
        return math.prod(self.shape)

    def axes(self, names: Sequence[str]) -> tuple[int, ...]:
        """Returns the axis of each of some columns."""
        return tuple(self.names.index(name) for name in names)

    def project(self, names: Sequence[str]) -> Domain:
        """Returns the domain of some columns, in the order of `names`."""
        return Domain.of({name: self.by_name[name] for name in names})

    def with_cells(self, name: str, cells: Sequence[Level]) -> Domain:
        """Returns the same columns, one of them on other cells."""
        return Domain.of({**self.by_name, name: cells})

    def contains(self, other: Domain) -> bool:
        """Tells whether every column of another domain is here, with the same cells."""
        return other.by_name.items() <= self.by_name.items()

    def position(self, name: str, level: Level) -> int:
        """Returns the index of a level's cell on the axis of a column.

        Raises:
            LookupError: if the column has no such cell.
        """
        levels = self.by_name[name]
        if level not in levels:
            raise LookupError(f"{name!r} has no cell {level!r}; it has {levels}")
        return levels.index(level)


def nest(cells: Sequence[Level], wider: Sequence[Level]) -> npt.NDArray[np.intp]:
    """Finds the wider cell that each cell of a number lies in.

    A value that ends one wider cell and begins the next lies in the next one. Missing
    values nest in missing values.

    Args:
        cells: Spans, and None for missing values.
        wider: Wider spans, and None.

    Returns:
        The index of the wider cell, (cells,).

    Raises:
        ValueError: if a cell lies in none of the wider ones.

    Examples:
        >>> from noisegate.answers.domain import NumberRange, nest
        >>> fine = [NumberRange(0, 4), NumberRange(5, 9), NumberRange(10, 19), None]
        >>> nest(fine, [NumberRange(0, 9), NumberRange(10, 19), None])
        array([0, 0, 1, 2])
    """
    starts, ends = _ends(cells)
    wider_starts, wider_ends = _ends(wider)
    begins_inside = wider_starts <= starts[:, None]
    ends_inside = ends[:, None] <= wider_ends
    is_inside = begins_inside & ends_inside
    if not is_inside.any(axis=1).all():
        raise ValueError("The cells do not nest in the wider ones.")
    # Of several, the one that begins last; of these, the one that ends first.
    order = np.lexsort((-wider_ends, wider_starts))
    is_inside_in_order = is_inside[:, order]
    last = len(order) - 1 - is_inside_in_order[:, ::-1].argmax(axis=1)
    nesting: npt.NDArray[np.intp] = order[last]
    return nesting


def _ends(cells: Sequence[Level]) -> tuple[Floats, Floats]:
    """Returns both ends of each cell of a number; missing values are at infinity."""
    nowhere = NumberRange(math.inf, math.inf)
    spans = [cell if isinstance(cell, NumberRange) else nowhere for cell in cells]
    starts = np.array([span.low for span in spans])
    ends = np.array([span.high for span in spans])
    return starts, ends


class CellProfile(Protocol):
    """Where in its cells the values of a numeric column lie; see `models.within_cell`.

    Each cell is divided into fine cells, in ascending order, whose ends are positions.
    """

    @property
    def bins(self) -> NumericBins:
        """The cells."""
        ...

    @property
    def low(self) -> Floats:
        """Lowest position of each fine cell, (fine,)."""
        ...

    @property
    def high(self) -> Floats:
        """Highest position of each fine cell, (fine,)."""
        ...

    @property
    def shares(self) -> Floats:
        """Share of each fine cell in its cell, (fine,)."""
        ...

    @property
    def bin_of(self) -> npt.NDArray[np.int32]:
        """The cell of each fine cell, (fine,)."""
        ...


@runtime_checkable
class HasCellProfiles(Protocol):
    """A model that knows where in their cells numbers lie."""

    @property
    def within(self) -> Sequence[CellProfile]:
        """The profile of each numeric column."""
        ...


def ends_of(column: NumericColumn, edges: Floats) -> tuple[Floats, Floats, Floats]:
    """Finds which positions lie between edges.

    Args:
        column: The column.
        edges: Ends of right-open cells, ascending from 0 to 1, (cells + 1,).

    Returns:
        Lowest and highest position in each cell, (cells,) each, and how large it is,
        (cells,): its width, or in a column of steps how many it holds, which may be
        none.
    """
    if not column.stepped:
        return edges[:-1], edges[1:], np.diff(edges)
    # The first step at or above each edge, by the comparison that puts encoded steps
    # into bins.
    start: npt.NDArray[np.int64] = np.maximum(
        ranks_at(column, edges[:-1]) - _RANK_ERROR, 0
    )
    for _ in range(2 * _RANK_ERROR):
        start += positions_of_ranks(column, start) < edges[:-1]
    stop = np.append(start[1:], column.last_rank + 1) - 1
    return (
        positions_of_ranks(column, start),
        positions_of_ranks(column, stop),
        (stop - start + 1).astype(np.float64),
    )


def number_ranges(column: NumericColumn, bins: NumericBins) -> tuple[Level, ...]:
    """Returns the numbers in each cell of a column, and None last if it may be missing.

    Args:
        column: The column.
        bins: Its cells.

    Examples:
        >>> from noisegate.answers.domain import number_ranges
        >>> from noisegate.queries.binning import NumericBins
        >>> from noisegate.schema import Integer
        >>> age = Integer(name="age", lower=0, upper=99)
        >>> low, high = number_ranges(age, NumericBins((0.5,)))
        >>> low
        NumberRange(low=0.0, high=49.0)
    """
    low, high, _ = ends_of(column, np.array([0.0, *bins.cuts, 1.0]))
    lows = numbers_at(column, low).tolist()
    highs = numbers_at(column, high).tolist()
    ranges = [
        NumberRange(float(first), float(last))
        for first, last in zip(lows, highs, strict=True)
    ]
    missing = [None] if bins.nullable else []
    return (*ranges, *missing)


def cell_indices(
    column: NumericColumn, cells: Sequence[Level], positions: Floats
) -> npt.NDArray[np.intp]:
    """Finds the cell that each record lies in.

    Args:
        column: The column.
        cells: Its cells, ascending, as `number_ranges` returns them.
        positions: Positions of records; NaN where the number is missing, (records,).

    Returns:
        Index of each record's cell, (records,).

    Examples:
        >>> import numpy as np
        >>> from noisegate.answers.domain import cell_indices
        >>> from noisegate.answers.domain import NumberRange
        >>> from noisegate.schema import Integer
        >>> age = Integer(name="age", lower=0, upper=99, missing=True)
        >>> cells = [NumberRange(0, 49), NumberRange(50, 99), None]
        >>> cell_indices(age, cells, np.array([0.0, 0.4, 1.0, np.nan]))
        array([0, 0, 1, 2])
    """
    is_missing = np.isnan(positions)
    numbers = numbers_at(column, np.where(is_missing, 0.0, positions))
    ranges = [cell for cell in cells if isinstance(cell, NumberRange)]
    lows = np.array([cell.low for cell in ranges])
    indices = np.maximum(np.searchsorted(lows, numbers, side="right") - 1, 0)
    # A cell with one real number ends where the next one begins.
    for index, cell in enumerate(ranges):
        if cell.low == cell.high:
            indices[numbers == cell.low] = index
    if None in cells:
        indices[is_missing] = cells.index(None)
    return indices


def domain_of(layout: Layout, bins: Sequence[NumericBins]) -> Domain:
    """Returns the columns of a layout with their cells, numeric columns first.

    Args:
        layout: The columns.
        bins: The cells of each numeric column; if empty, these are left out.
    """
    cells: dict[str, tuple[Level, ...]] = {}
    if bins:
        for numeric, column_bins in zip(layout.numeric, bins, strict=True):
            cells[numeric.name] = number_ranges(numeric, column_bins)
    for coded in layout.coded:
        has_missing = coded.size > len(coded.levels)
        cells[coded.name] = (
            (*coded.levels, None) if has_missing else tuple(coded.levels)
        )
    return Domain.of(cells)
