"""Looked-up features of one column: a table with one row for each value that the column can take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from noisegate.features.cells import Cells
from noisegate.features.hermite import Series
from noisegate.schema import Layout
from noisegate.schema.columns import Continuous, NumericColumn

# A numeric column without steps of its own, or with more, is rounded to this many.
MOST_STEPS = 4096


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

    def over_cells(self, cells: Cells) -> npt.NDArray[np.float64]:
        """Returns the mean row of each cell of a numeric column, (cells, width): of its steps, or the nearest one."""
        assert self.steps is not None
        values = self.rows.astype(np.float64)
        running = np.vstack([np.zeros(self.width), values[: self.steps + 1].cumsum(axis=0)])
        first = np.rint(cells.low * self.steps).astype(np.intp)
        end = np.maximum(np.rint(cells.high * self.steps).astype(np.intp), first + 1)
        means = (running[end] - running[first]) / (end - first)[:, None]
        return np.vstack([means, values[-1:]]) if cells.missing else means


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
