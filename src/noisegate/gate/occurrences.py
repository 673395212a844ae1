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
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisegate.features.products import Products
from noisegate.privacy.grid import UNITS, Grid

# counts below 2³¹ times coordinates of at most 2²² stay below 2⁵³
MOST_ROWS = 2**31


@dataclass(frozen=True, kw_only=True, eq=False)
class LookedUp:
    """The columns that share one table and one weight.

    Attributes:
        columns: Their positions, (columns,).
        coordinates: Where their coordinates stand in the vector, (columns, width).
        rows: The rounded rows of the table, (values, width), whole numbers in float64.
    """

    columns: npt.NDArray[np.intp]
    coordinates: npt.NDArray[np.intp]
    rows: npt.NDArray[np.float64]


def rounded_tables(features: Products, grid: Grid) -> tuple[LookedUp, ...] | None:
    """Returns the rounded tables, or None where a vector might need clipping or a group has several columns."""
    if not features.single or grid.centre is not None:
        return None
    alike: dict[tuple[int, float], list[int]] = defaultdict(list)
    for group, ((column,), weight) in enumerate(zip(features.groups, features.weights, strict=True)):
        alike[id(features.tables[column]), weight].append(group)
    largest, found = 0, []
    for (_, weight), groups in alike.items():
        columns = np.asarray([features.groups[group][0] for group in groups], dtype=np.intp)
        table = features.tables[columns[0]]
        rounded = grid.quantise(table.rows * np.float32(weight))
        largest += len(groups) * int(np.square(rounded, dtype=np.int64).sum(axis=1).max())
        starts = np.asarray([features.starts[group] for group in groups], dtype=np.intp)
        coordinates = starts[:, None] + np.arange(table.width)
        found.append(LookedUp(columns=columns, coordinates=coordinates, rows=rounded.astype(np.float64)))
    return tuple(found) if largest <= UNITS**2 else None


def add_occurrences(sums: npt.NDArray[np.int64], places: npt.NDArray[np.intp], tables: tuple[LookedUp, ...]) -> None:
    """Adds the vectors of records to `sums`, (dim,), in grid units.

    Args:
        sums: Changed in place.
        places: Which row each record looks up in each column, (rows, columns), as `Products.places` gives it.
        tables: As `rounded_tables` gives them.
    """
    if len(places) >= MOST_ROWS:
        raise OverflowError(f"{len(places)} records at once: the products could leave float64's whole numbers.")
    for table in tables:
        values = len(table.rows)
        columns = len(table.columns)
        flat = places[:, table.columns] + np.arange(columns) * values
        counts = np.bincount(flat.ravel(), minlength=columns * values).reshape(columns, values)
        sums[table.coordinates] += (counts.astype(np.float64) @ table.rows).astype(np.int64)
