import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "dp_hp"))

from codes import code_distances

SIZES = {"a": 2, "b": 3, "c": 2, "d": 4, "e": 5}


def codes(seed, rows=400):
    generator = np.random.default_rng(seed)
    return np.column_stack([generator.integers(0, size, rows) for size in SIZES.values()])


def brute(left, right, order):
    """Mean and maximum over all column sets, counted by hand."""
    found = []
    for subset in itertools.combinations(range(left.shape[1]), order):
        cells = itertools.product(*(range(list(SIZES.values())[i]) for i in subset))
        shares = [[np.all(part[:, subset] == cell, axis=1).mean() for cell in cells] for part in (left,)]
        cells = itertools.product(*(range(list(SIZES.values())[i]) for i in subset))
        shares += [[np.all(right[:, subset] == cell, axis=1).mean() for cell in cells]]
        found.append(0.5 * np.abs(np.subtract(*shares)).sum())
    return np.mean(found), max(found)


def test_every_marginal_of_each_order_is_counted():
    left, right = codes(0), codes(1, rows=300)
    report = code_distances(left, right, SIZES)
    assert [(entry.order, entry.used, entry.total) for entry in report.orders] == [(2, 10, 10), (3, 10, 10), (4, 5, 5)]
    for entry in report.orders:
        assert (entry.mean, entry.largest) == pytest.approx(brute(left, right, entry.order))
