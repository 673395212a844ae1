"""Cells of numeric columns, as positions and as numbers.

Models and answers know of a number only its cell: an interval between public cuts
(`NumericBins`), in which a column of steps has only some values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from noisegate.answers.domain import Level, NumberRange
from noisegate.queries.binning import NumericBins
from noisegate.schema import Continuous, NumericColumn
from noisegate.schema.layout import numbers_at, positions_of_ranks, ranks_at

Floats = npt.NDArray[np.float64]

# Rounding may put the nearest step of an edge this many steps off.
_RANK_ERROR = 2


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
    if isinstance(column, Continuous):
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
        >>> from noisegate.answers.cells import number_ranges
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
        >>> from noisegate.answers.cells import cell_indices
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
