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
        row_sets = (others, np.r_[others, (row + 1) % len(records)])
        yield [total - sum_of(records.rows(rows), features, grid) for rows in row_sets]


def squared(vector):
    """The exact square of the length of a vector of integers."""
    return sum(int(value) ** 2 for value in vector.ravel())


def check_tables(records, features, release):
    """Each of some records moves one cell of each table, and the sum by the planned bound and hardly less."""
    grid = release.query.grid
    units = release.query.grid.bound.units
    moved = [without for without, _ in moves(records, features, grid, 5)]
    # Rounded to the grid, the weights of many tables lose a little.
    assert all(
        0.98 * units**2
        < squared(difference)
        <= units**2
        <= release.event.sensitivity**2
        for difference in moved
    )
    for weight, start, end in zip(
        features.integer_weights(grid),
        features.starts,
        features.starts[1:],
        strict=False,
    ):
        assert all(
            np.count_nonzero(difference[start:end]) == 1
            and difference[start:end].max() == weight
            for difference in moved
        )


def same_tables(left, right):
    return all(
        getattr(left, name) == getattr(right, name)
        for name in ("bins", "coded", "tables", "weights")
    )
