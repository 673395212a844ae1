"""Guarantee G-23 where several columns share one table, as the pixels of an image do."""

import numpy as np
import pytest

from noisegate.gate.sums import SumTask, sum_records
from noisegate.privacy.grid import Grid
from noisegate.schema import EncodedTable
from noisegate_papers.features import products
from noisegate_papers.features.hermite import Series, numeric_table
from noisegate_papers.features.products import Products

TABLE = numeric_table(Series(length_scale=0.1, order=5, stretch=3.0), 7, missing=False)
MAP = {"tables": (TABLE,) * 4, "groups": ((3,), (0,), (2,), (1,)), "weights": (0.5, 0.5, 0.2, 0.5)}


class Slow(Products):
    """The same map, which the gate does not know, so that it quantises every vector."""


def test_columns_of_one_table_are_counted_apart():
    numeric = np.random.default_rng(0).integers(0, 8, (300, 4)) / 7
    records = EncodedTable(numeric, np.zeros((300, 0), dtype=np.int32))
    quick, slow = Products(**MAP), Slow(**MAP)
    tasks = [SumTask(feature_map=f, grid=Grid(norm=quick.norm), columns=1, label=None) for f in (quick, slow)]
    assert [task.exact is None for task in tasks] == [False, True]
    sums = [sum_records(records, {"q": task}).sums["q"] for task in tasks]
    assert (sums[0] == sums[1]).all()


def test_more_records_than_the_products_are_exact_for_are_refused(monkeypatch):
    found = Products(**MAP)
    exact, sums = found.exact_sum(Grid(norm=found.norm)), np.zeros(found.dim, dtype=np.int64)
    records = EncodedTable(np.zeros((5, 4)), np.zeros((5, 0), dtype=np.int32))
    monkeypatch.setattr(products, "MOST_ROWS", 6)
    exact.add(sums, records)
    monkeypatch.setattr(products, "MOST_ROWS", 5)
    with pytest.raises(OverflowError, match="5 records at once"):
        exact.add(sums, records)
