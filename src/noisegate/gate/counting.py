"""Contingency tables counted in integers: the same sums as of quantised vectors, without building a vector.

Guarantee G-12 (counts). A record has, in grid units, ``weights[t]`` at one cell of each table t, and zero elsewhere;
the weights are integers, and Σ weights² ≤ units² is checked exactly. So every record keeps the bound of the grid, and
the sum over records is weight times count. It is what `Grid.quantise` makes of the vector that the map defines: that
rounds each coordinate alone and toward zero, and keeps what is inside the ball.

Counting each table by itself costs about 2 ns a record and table on one core, however many cells it has. A matrix
product of one-hot codes (XᵀX in float32, exact below 2²⁴ records) costs 14 ns with 24 cells a column; it wins only
below 8 cells, where both are fast. So there is one way.
"""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.contingency import Contingency
from noisegate.privacy.grid import Grid
from noisegate.schema import EncodedTable

# Rounding toward zero takes at most 0.4 % from a larger one, and a table of so small a weight has far more noise.
LEAST_WEIGHT = 256
# NumPy holds the interpreter lock while it counts; threads that took turns at every table would lose half their time.
_TURN = threading.Lock()


def integer_weights(features: Contingency, grid: Grid) -> npt.NDArray[np.int64]:
    """Returns the weight of each table in grid units, (tables,).

    Raises:
        OptionError: if a record's vector would leave the ball of the grid, or a weight is lost in rounding.
    """
    # The operations of `Grid.quantise` on each coordinate.
    with np.errstate(over="ignore"):
        scaled = np.asarray(features.weights, dtype=np.float32) * np.float32(grid.scale)
    units = grid.bound.units
    weights: npt.NDArray[np.int64] = np.minimum(scaled, np.float32(units + 1)).astype(np.int64)
    if sum(weight * weight for weight in weights.tolist()) > units * units:
        raise OptionError(
            f"the vectors of the contingency tables have norm {features.norm:g}, the question was planned with "
            f"norm={grid.norm:g}; plan it with the norm of its map, or a larger one."
        )
    least = int(weights.argmin())
    if weights[least] < LEAST_WEIGHT:
        raise OptionError(
            f"table {features.tables[least]!r}: its weight {features.weights[least]:g} is too small beside the norm "
            f"{grid.norm:g} of all, below {LEAST_WEIGHT / grid.scale:g}; give it more weight, or leave it out."
        )
    return weights


def add_counts(
    sums: npt.NDArray[np.int64], records: EncodedTable, features: Contingency, weights: npt.NDArray[np.int64]
) -> None:
    """Adds the vectors of `records` to `sums`, (dim,), in grid units."""
    codes = features.codes(records)
    with _TURN:
        columns = codes.T.astype(np.intp)
        work = np.empty(len(records), dtype=np.intp)
        first: tuple[int, ...] | None = None
        base = work
        for place, table in enumerate(features.tables):
            cells = sums[features.starts[place] : features.starts[place + 1]]
            if not table:
                cells += weights[place] * len(records)
                continue
            if table[:-1] != first:
                first, base = table[:-1], features.cells(codes, table[:-1])
            np.multiply(base, features.sizes[table[-1]], out=work)
            work += columns[table[-1]]
            # A code that no column has would make this longer than the table, which NumPy refuses to add.
            cells += weights[place] * np.bincount(work, minlength=len(cells))
