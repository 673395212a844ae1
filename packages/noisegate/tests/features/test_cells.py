from datetime import date, datetime

import numpy as np
import pytest

from noisegate.schema import Continuous, Date, Datetime, Integer
from noisegate.schema.layout import INTERVALS, numeric_cells


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (Integer(name="x", lower=0, upper=1), 2),
        (Integer(name="x", lower=-3, upper=124), 128),
        (Date(name="x", lower=date(2020, 1, 1), upper=date(2020, 1, 31)), 31),
    ],
)
def test_few_whole_values_are_atoms(column, values):
    cells = numeric_cells(column)
    assert cells.size == values
    np.testing.assert_array_equal(cells.low, cells.high)
    np.testing.assert_allclose(cells.low, np.linspace(0, 1, values), atol=1e-15)


@pytest.mark.parametrize(
    "column",
    [
        Integer(name="x", lower=-3, upper=125),
        Continuous(name="x", lower=0, upper=1),
        Date(name="x", lower=date(2000, 1, 1), upper=date(2020, 1, 1)),
        Datetime(name="x", lower=datetime(2020, 1, 1), upper=datetime(2020, 1, 2)),
    ],
)
def test_others_are_intervals_with_an_atom_at_each_bound(column):
    cells = numeric_cells(column)
    assert cells.size == INTERVALS + 2 and (cells.low[0], cells.high[0], cells.low[-1], cells.high[-1]) == (0, 0, 1, 1)
    np.testing.assert_array_equal(cells.low[2:-1], cells.high[1:-2])
    assert (cells.low[1], cells.high[-2]) == (0, 1)
