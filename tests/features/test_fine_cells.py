"""Fine cells: a function of the schema alone, one for each whole step where there are few, and no value on an edge."""

from datetime import date, datetime
from itertools import pairwise

import numpy as np
import pytest

from noisegate.features.binning import MOST_FINE_CELLS, fine_bins
from noisegate.schema import Continuous, Date, Datetime, Integer
from noisegate.schema.columns import positions_of

FEW = [
    Integer(name="n", lower=0, upper=1),
    Integer(name="n", lower=-3, upper=9, missing=True),
    Integer(name="n", lower=2**52, upper=2**52 + 100),
    Integer(name="n", lower=0, upper=MOST_FINE_CELLS - 1),
    Date(name="d", lower=date(2020, 1, 1), upper=date(2021, 12, 31)),
]
MANY = [
    Integer(name="n", lower=0, upper=MOST_FINE_CELLS),
    Integer(name="n", lower=-7, upper=99_991, missing=True),
    Integer(name="n", lower=0, upper=2**53),
    Integer(name="n", lower=-(2**60), upper=-(2**60) + 2**53),
    Date(name="d", lower=date(1, 1, 1), upper=date(9999, 12, 31)),
    Datetime(name="t", lower=datetime(1900, 1, 1), upper=datetime(2180, 1, 1)),
]


@pytest.mark.parametrize("column", FEW)
def test_few_whole_steps_have_a_cell_each(column):
    bins = fine_bins(column)
    first, last = column.steps
    steps = np.arange(first, last + 1)
    assert bins.codes(positions_of(column, steps)).tolist() == list(range(len(steps)))
    assert bins.size == len(steps) + column.missing


@pytest.mark.parametrize("column", MANY)
def test_many_whole_steps_share_cells_of_equal_width_and_the_bounds_stand_alone(column):
    bins = fine_bins(column)
    first, last = column.steps
    # Beyond 2**50 steps no cut fits between the last two.
    alone = int(last - first < 2**50)
    low, count = first + alone, last - first + 1 - 2 * alone
    cells = min(MOST_FINE_CELLS, count)
    inner = [low + place * count // cells for place in range(cells)]
    widths = np.diff([*inner, low + count])
    assert widths.max() - widths.min() <= 1
    starts = np.asarray([first, *inner, last] if alone else inner)
    ends = np.asarray([*starts[1:], last + 1]) - 1
    # The first and the last step of every cell, and some in between, are in it and not in its neighbour.
    between = starts + np.random.default_rng(0).integers(0, ends - starts + 1)
    for steps in (starts, between, ends):
        assert bins.codes(positions_of(column, steps)).tolist() == list(range(len(starts)))
    assert len(bins.cuts) + 1 == len(starts)


@pytest.mark.parametrize("column", [*FEW, *MANY])
def test_a_cut_lies_half_a_step_from_both_of_its_neighbours(column):
    first, last = column.steps
    half = 0.5 / (last - first)
    cuts = np.asarray(fine_bins(column).cuts)
    below = (cuts - half) * (last - first)
    assert np.abs(below - np.rint(below)).max() < 0.01 if last - first < 2**40 else (np.diff(cuts) > 2 * half).all()


@pytest.mark.parametrize("column", [*FEW, *MANY, Continuous(name="x", lower=-1e-9, upper=1e9)])
@pytest.mark.parametrize("most", [2, 7, MOST_FINE_CELLS])
def test_cuts_increase_strictly_whatever_their_number(column, most):
    cuts = fine_bins(column, most=most).cuts
    assert all(left < right for left, right in pairwise((0.0, *cuts, 1.0)))
    assert len(cuts) <= most + 1


@pytest.mark.parametrize("missing", [False, True])
def test_the_bounds_of_a_continuous_column_are_cells_of_their_own(missing):
    column = Continuous(name="x", lower=-2.0, upper=6.0, missing=missing)
    bins = fine_bins(column)
    assert bins.size == MOST_FINE_CELLS + 2 + missing
    values = np.array([-99.0, -2.0, np.nextafter(-2.0, 0), -1.999, 5.999, 6.0 - 1e-14, 6.0, 99.0])
    codes = bins.codes(positions_of(column, values))
    last = MOST_FINE_CELLS + 1
    assert codes[:2].tolist() == [0, 0]
    assert codes[-2:].tolist() == [last, last]
    assert codes[2:6].tolist() == [1, 1, last - 1, last - 1]


def test_the_interior_of_a_continuous_column_is_cut_evenly():
    bins = fine_bins(Continuous(name="x", lower=0.0, upper=1.0), most=4)
    assert bins.cuts[1:-1] == (0.25, 0.5, 0.75)


def test_missing_values_have_a_cell_only_where_they_may_occur():
    for missing in (False, True):
        bins = fine_bins(Integer(name="n", lower=0, upper=9, missing=missing))
        assert bins.codes(np.array([np.nan])).tolist() == [10 if missing else 9]
