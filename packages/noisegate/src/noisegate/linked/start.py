"""Where the fit of a link sets out: first children, next ones and none told apart, columns independent in each.

How often each is the case follows from the numbers of children, so the fit need not find it in noisy pairs. Where there
are few children, what pairs say beyond it is kept as far as it stands out of its noise (James and Stein, 1961; Gavish
and Donoho, 2017). Along many children, what that takes away adds up.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from noisegate.linked.links import STEPS, LinkColumns, Step
from noisegate.tables.tables import ClassTables, Start, likely_shares

Floats = npt.NDArray[np.float64]

# Of a cell that cannot be, and of one that a nullable column's noise has emptied.
_NEVER, _RARE = 1e-9, 1e-3
# With more children in the mean families are long: between simulated clinics of 1.2 and of 11.
_LONG = 4.0


def with_start(tables: ClassTables, columns: LinkColumns, numbers: Floats, begins: npt.NDArray[np.intp]) -> ClassTables:
    """Returns the tables of a link with where their fit sets out; of short families, their pairs drawn towards it.

    Args:
        tables: Of one class.
        columns: What they are.
        numbers: How many parents have 0, 1, ... children, (most + 1,).
        begins: Where among these the cells of the column of numbers begin.
    """
    if not numbers.sum() > 0:
        return tables
    start = _start(likely_shares(tables)[0], tables.spans, columns, numbers, begins)
    mean = float(np.arange(len(numbers)) @ numbers / numbers.sum())
    pairs = tables.pairs if mean > _LONG else _shrunk(tables, start, kept=tables.spans[columns.number])
    return replace(tables, start=start, pairs=pairs)


def _start(
    shares: Floats, spans: tuple[slice, ...], columns: LinkColumns, numbers: Floats, begins: npt.NDArray[np.intp]
) -> Start:
    """Returns the shares of the steps and of all cells in each."""
    count = np.maximum(np.arange(len(numbers)), 1)
    by_step = {"first": numbers / count, "next": numbers * (count - 1) / count, "none": numbers * 0}
    by_step["first"][0], by_step["none"][0] = 0.0, numbers[0]
    parts = np.stack([by_step[step] for step in STEPS])
    weights = np.maximum(parts.sum(axis=1) / numbers.sum(), _RARE)
    weights /= weights.sum()
    cells = np.tile(shares, (len(STEPS), 1))
    cells[:, spans[columns.number]] = _positive(np.add.reduceat(parts, begins, axis=1))
    cells[:, spans[columns.step]] = _positive(np.eye(len(STEPS)))
    steps: dict[int, tuple[Step, ...]] = dict.fromkeys(columns.children, ("first", "next"))
    steps |= dict.fromkeys((column for column in (*columns.previous, columns.gap) if column is not None), ("next",))
    steps |= {} if columns.first is None else {columns.first: ("first",)}
    nullable = {*columns.nullable, *(columns.before[column] for column in columns.nullable)}
    for column, found in steps.items():
        there = shares[spans[column]].copy()
        away = 1 - sum(weights[STEPS.index(step)] for step in found)
        there[-1] = max(there[-1] - away, _RARE) if column in nullable else 0.0
        absent = np.append(np.zeros(len(there) - 1), 1.0)
        for place, step in enumerate(STEPS):
            cells[place, spans[column]] = _positive(there if step in found else absent)
    return Start(weights=weights, cells=cells)


def _positive(shares: Floats) -> Floats:
    shares = np.maximum(shares, _NEVER * np.maximum(shares.sum(axis=-1, keepdims=True), 1e-300))
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


def _shrunk(tables: ClassTables, start: Start, *, kept: slice) -> npt.NDArray[np.float32]:
    """Returns the counts of pairs, all but those of the number drawn to what the start expects where it is noise."""
    expected = tables.counts[0] * (start.cells.T * start.weights) @ start.cells
    found = tables.pairs.copy()
    for one, other in combinations(tables.spans, 2):
        if kept not in (one, other) and tables.precision[one, other].any():
            noise_std = 1 / float(tables.precision[one, other].max())
            apart = (tables.pairs[0, one, other] - expected[one, other]) / noise_std
            found[0, one, other] = expected[one, other] + noise_std * denoised(apart)
    return found


def denoised(apart: Floats) -> Floats:
    """Returns what stands out of a table with noise of 1 in each cell, (rows, columns).

    The mean of two estimates: all cells alike, kept by how much larger they are together than noise is, and the few
    patterns of rows and columns that noise does not make, each by its own size.
    """
    rows, columns = sorted(apart.shape)
    energy = max(float(np.square(apart).sum()), _NEVER)
    left, sizes, right = np.linalg.svd(apart, full_matrices=False)
    ratio, scaled = rows / columns, np.maximum(sizes, _NEVER) / math.sqrt(columns)
    kept = np.sqrt(np.maximum((scaled**2 - ratio - 1) ** 2 - 4 * ratio, 0)) / scaled**2
    patterns = (left * np.where(scaled > 1 + math.sqrt(ratio), kept, 0) * sizes) @ right
    return np.asarray((max(1 - apart.size / energy, 0.0) * apart + patterns) / 2)
