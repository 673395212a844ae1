"""Where the fit of a link sets out: first children, next ones and none told apart, columns independent in each.

That a first child has none before it, and that where there is none nothing is said of it, is known without any data,
and how often each is the case follows from the numbers of children. So the fit need not find it in noisy pairs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from noisegate.models.link_columns import LinkColumns
from noisegate.schema.links import STEPS, Step
from noisegate.training.tables import ClassTables, Start, likely_shares

Floats = npt.NDArray[np.float64]

# Of a cell that cannot be, and of one that a nullable column's noise has emptied.
_NEVER, _RARE = 1e-9, 1e-3


def with_start(tables: ClassTables, columns: LinkColumns, numbers: Floats, begins: npt.NDArray[np.intp]) -> ClassTables:
    """Returns the tables of a link with where their fit sets out.

    Args:
        tables: Of one class.
        columns: What they are.
        numbers: How many parents have 0, 1, ... children, (most + 1,).
        begins: Where among these the cells of the column of numbers begin.
    """
    if not numbers.sum() > 0:
        return tables
    start = _start(likely_shares(tables)[0], tables.spans, columns, numbers, begins)
    return replace(tables, start=start)


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
