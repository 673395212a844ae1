"""Sums of looked-up columns from how often each value occurs: the same integers as of quantised vectors, much sooner.

Guarantee G-23 (occurrences). When every group of a `Products` map is one column, a record's vector is a row of each
column's table, side by side. The grid rounds each coordinate on its own, so it may round the rows of the tables once;
that no record leaves the ball is checked in integers, Σ over columns of the largest squared norm of a rounded row ≤
units², and then `Grid.quantise` gives these very integers (G-02). Their sum over records is, for each column, the count
of each value times its row: products of whole numbers below 2⁵³, exact in float64 in whatever order they are added.

784 pixels with 100 coordinates each are thus 784 counts a record instead of 79,184 coordinates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisegate.features.column_tables import ColumnTable
from noisegate.features.feature_map import ExactSum
from noisegate.privacy.grid import Grid
from noisegate.schema import EncodedTable

# counts below 2³¹ times coordinates of at most 2²² stay below 2⁵³
MOST_ROWS = 2**31


@dataclass(frozen=True, kw_only=True, eq=False)
class TabulatedColumns:
    """The columns that share one table and one weight.

    Attributes:
        columns: Their positions, (columns,).
        coordinates: Where their coordinates stand in the vector, (columns, width).
        rows: The rounded rows of the table, (values, width), whole numbers in float64.
    """

    columns: npt.NDArray[np.intp]
    coordinates: npt.NDArray[np.intp]
    rows: npt.NDArray[np.float64]

    def add(self, sums: npt.NDArray[np.int64], places: npt.NDArray[np.intp]) -> None:
        """Adds the vectors of records to `sums`, (dim,): counts of values times rows."""
        values, columns = len(self.rows), len(self.columns)
        flat = places[:, self.columns] + np.arange(columns) * values
        counts = np.bincount(flat.ravel(), minlength=columns * values).reshape(columns, values)
        sums[self.coordinates] += (counts.astype(np.float64) @ self.rows).astype(np.int64)


def value_count_sum(
    groups: Sequence[tuple[int, float, int]],
    tables: Sequence[ColumnTable],
    places: Callable[[EncodedTable], npt.NDArray[np.intp]],
    grid: Grid,
) -> ExactSum:
    """Returns the exact sum of a map whose groups are one column each.

    Args:
        groups: Column, weight and first coordinate of each.
        tables: Of each column.
        places: Which row of its table each record looks up in each column, (rows, columns).
        grid: Where vectors are rounded; it has no centre.
    """
    alike: dict[tuple[int, float], list[tuple[int, int]]] = defaultdict(list)
    for column, weight, start in groups:
        alike[id(tables[column]), weight].append((column, start))
    largest, found = 0, []
    for (_, weight), members in alike.items():
        columns, starts = np.asarray(members, dtype=np.intp).T
        table = tables[columns[0]]
        rounded = grid.quantise(table.rows * np.float32(weight))
        largest += len(members) * int(np.square(rounded, dtype=np.int64).sum(axis=1).max())
        coordinates = starts[:, None] + np.arange(table.width)
        found.append(TabulatedColumns(columns=columns, coordinates=coordinates, rows=rounded.astype(np.float64)))

    def add(sums: npt.NDArray[np.int64], records: EncodedTable) -> None:
        if len(records) >= MOST_ROWS:
            raise OverflowError(f"{len(records)} records at once: the products could leave float64's whole numbers.")
        looked_up = places(records)
        for alike_columns in found:
            alike_columns.add(sums, looked_up)

    return ExactSum(squared_norm=largest, add=add)
