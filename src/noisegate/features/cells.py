"""How a generator writes down one column: cells that it gives probabilities to.

A coded column has one cell a level. A numeric column is cut over its public bounds into atoms, single values, and
intervals:

* a column of at most 128 whole values gets one atom each;
* any other gets an atom at each bound, where clamped and censored values pile up, and equal intervals between them.

Missing is one more cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisegate.schema import Column, Date, Integer

INTERVALS = 100
MOST_ATOMS = 128


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The cells of a numeric column, as ends in the unit interval; an atom's ends are equal.

    Attributes:
        low: Lower ends, (cells,).
        high: Upper ends, (cells,).
        missing: Whether one more cell stands for a missing value.
    """

    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]
    missing: bool

    @property
    def size(self) -> int:
        """Number of cells, missing included."""
        return len(self.low) + self.missing


def numeric_cells(column: Column) -> Cells:
    """Returns the cells of a numeric column, from its schema alone."""
    steps = _whole_steps(column)
    if steps is not None and steps < MOST_ATOMS:
        atoms = np.arange(steps + 1) / steps
        return Cells(low=atoms, high=atoms, missing=column.missing)
    edges = np.linspace(0, 1, INTERVALS + 1)
    return Cells(low=np.r_[0, edges[:-1], 1], high=np.r_[0, edges[1:], 1], missing=column.missing)


def _whole_steps(column: Column) -> int | None:
    match column:
        case Integer(lower=lower, upper=upper):
            return upper - lower
        case Date(lower=lower, upper=upper):
            return (upper - lower).days
        case _:
            return None
