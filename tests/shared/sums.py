"""Sums over records in grid units, as the gate makes them, and by how much one record moves them."""

import numpy as np

from noisegate.gate.sums import SumTask, sum_records


def sum_of(records, features, grid):
    task = SumTask(feature_map=features, grid=grid, columns=1, label=None)
    return sum_records(records, {"q": task}).sums["q"][0]


def moves(records, features, grid, rows):
    """By how much the sum moves without each of the first records, and with the next one in its place."""
    total = sum_of(records, features, grid)
    for row in range(rows):
        others = np.delete(np.arange(len(records)), row)
        kept = (others, np.r_[others, (row + 1) % len(records)])
        yield [total - sum_of(records.rows(rows), features, grid) for rows in kept]


def squared(vector):
    """The exact square of the length of a vector of integers."""
    return sum(int(value) ** 2 for value in vector.ravel())


def check_tables(records, features, release):
    """Each of some records moves one cell of each table, and the sum by the planned bound and hardly less."""
    grid = release.query.grid
    weights, units = features.integer_weights(grid).tolist(), grid.bound.units
    for moved, _ in moves(records, features, grid, 5):
        for weight, start, end in zip(weights, features.starts, features.starts[1:], strict=False):
            assert sorted(moved[start:end].tolist())[-1] == weight and np.count_nonzero(moved[start:end]) == 1
        # Rounded to the grid, the weights of many tables lose a little.
        assert 0.98 * units**2 < squared(moved) <= units**2 <= release.event.sensitivity**2


def same_tables(left, right):
    return all(getattr(left, name) == getattr(right, name) for name in ("bins", "coded", "tables", "weights"))
