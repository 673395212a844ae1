"""Fine cells: a function of the schema alone, one for each whole step where there are few, and no value on an edge."""

from datetime import date, datetime
from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.shared.columns import continuous, integer

from noisegate.models.within_cell import WithinCell
from noisegate.queries.binning import (
    MAX_FINE_BINS,
    denoise,
    fine_bins,
    holds_atom,
    is_single_value,
    merged_bins,
)
from noisegate.schema import Date, Datetime, Decimal
from noisegate.schema.layout import (
    INTERVAL_COUNT,
    numbers_at,
    numeric_cells,
    positions_of,
)

FEW = [
    integer("n", 0, 1),
    integer("n", -3, 9, missing=True),
    integer("n", 2**52, 2**52 + 100),
    integer("n", 0, MAX_FINE_BINS - 1),
    Date(name="d", lower=date(2020, 1, 1), upper=date(2021, 12, 31)),
]
MANY = [
    integer("n", 0, MAX_FINE_BINS),
    integer("n", -7, 99_991, missing=True),
    integer("n", 0, 2**53),
    integer("n", -(2**60), -(2**60) + 2**53),
    Date(name="d", lower=date(1, 1, 1), upper=date(9999, 12, 31)),
    Datetime(name="t", lower=datetime(1900, 1, 1), upper=datetime(2180, 1, 1)),
]


@pytest.mark.parametrize("column", FEW)
def test_few_whole_steps_have_a_cell_each(column):
    bins = fine_bins(column)
    first, last = column.unit_bounds
    steps = np.arange(first, last + 1)
    assert bins.codes(positions_of(column, steps)).tolist() == list(range(len(steps)))
    assert bins.size == len(steps) + column.missing


@pytest.mark.parametrize("column", MANY)
def test_many_whole_steps_share_cells_of_equal_width_and_the_bounds_stand_alone(column):
    bins = fine_bins(column)
    first, last = column.unit_bounds
    # Beyond 2**50 steps no cut fits between the last two.
    alone = int(last - first < 2**50)
    low = first + alone
    count = last - first + 1 - 2 * alone
    cells = min(MAX_FINE_BINS, count)
    inner = [low + index * count // cells for index in range(cells)]
    widths = np.diff([*inner, low + count])
    assert widths.max() - widths.min() <= 1
    starts = np.asarray([first, *inner, last] if alone else inner)
    ends = np.asarray([*starts[1:], last + 1]) - 1
    # The first and the last step of every cell, and some in between, are in it and not in its neighbour.
    between = starts + np.random.default_rng(0).integers(0, ends - starts + 1)
    for steps in (starts, between, ends):
        assert bins.codes(positions_of(column, steps)).tolist() == list(
            range(len(starts))
        )
    assert len(bins.cuts) + 1 == len(starts)


@pytest.mark.parametrize("column", [*FEW, *MANY, continuous("x", -1e-9, 1e9)])
@pytest.mark.parametrize("most", [2, 7, MAX_FINE_BINS])
def test_cuts_increase_strictly_whatever_their_number(column, most):
    cuts = fine_bins(column, max_bins=most).cuts
    assert all(left < right for left, right in pairwise((0.0, *cuts, 1.0)))
    assert len(cuts) <= most + 1


@pytest.mark.parametrize("missing", [False, True])
def test_the_bounds_of_a_continuous_column_are_cells_of_their_own(missing):
    column = continuous("x", -2.0, 6.0, missing=missing)
    bins = fine_bins(column)
    assert bins.size == MAX_FINE_BINS + 2 + missing
    values = np.array(
        [-99.0, -2.0, np.nextafter(-2.0, 0), -1.999, 5.999, 6.0 - 1e-14, 6.0, 99.0]
    )
    codes = bins.codes(positions_of(column, values))
    last = MAX_FINE_BINS + 1
    assert codes[:2].tolist() == [0, 0]
    assert codes[-2:].tolist() == [last, last]
    assert codes[2:6].tolist() == [1, 1, last - 1, last - 1]


ATOMS = [
    continuous("x", 0.0, 100.0, atoms=[-9, -1, 12.5, 50, 999]),
    integer("x", 0, 100_000, atoms=[-9, -1, 12, 50_000, 999_999]),
    integer("x", 0, 50, atoms=[-9, -1, 12, 50, 999]),
    Decimal(name="x", lower=0, upper=100.0, step=0.01, atoms=[-9, -1, 12.5, 50, 999]),
]


@pytest.mark.parametrize(
    "column", ATOMS, ids=lambda column: f"{column.kind}-{column.upper}"
)
def test_atoms_are_cells_of_their_own(column):
    bins = fine_bins(column)
    atoms = positions_of(column, column.atoms)
    everything = np.unique(
        positions_of(column, np.r_[column.atoms, np.linspace(0, column.upper, 300_001)])
    )
    held = np.bincount(bins.codes(everything), minlength=bins.size)
    assert held[bins.codes(atoms)].tolist() == [1] * 5
    assert (
        np.flatnonzero(holds_atom(column, bins)).tolist() == bins.codes(atoms).tolist()
    )
    within = WithinCell.from_edges(
        column,
        bins,
        edges=np.array([0.0, *bins.cuts, 1.0]),
        masses=np.ones(len(bins.cuts) + 1),
        spikes=is_single_value(column, bins),
    )
    drawn = within.draw(
        np.repeat(bins.codes(atoms), 3), torch.Generator().manual_seed(0)
    )
    assert numbers_at(column, drawn).tolist() == np.repeat(column.atoms, 3).tolist()
    every = numbers_at(
        column,
        within.draw(np.arange(bins.size).repeat(9), torch.Generator().manual_seed(0)),
    )
    outer = every[(every < 0) | (every > column.upper)]
    assert (
        set(outer.tolist()) == {-9, -1, 999}
        if column.upper < 999
        else {-9, -1, 999_999}
    )


def test_a_stated_atom_is_kept_apart_where_another_value_would_be_taken_for_noise():
    column = integer("x", 0, 999, atoms=[500])
    bins = fine_bins(column)
    noisy = np.full(1000, 4.0)
    noisy[[300, 500]] += 35.0
    for atoms, is_kept in ((None, False), (holds_atom(column, bins), True)):
        histogram = denoise(noisy, 10.0, is_atom=atoms)
        cells = merged_bins(bins, histogram, target_count=8)
        held = np.bincount(cells.codes(np.arange(1000) / 999), minlength=cells.size)
        assert (held[cells.codes(np.array([500 / 999]))[0]] == 1) == is_kept
        assert held[cells.codes(np.array([300 / 999]))[0]] > 1


# Cells.


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (integer("x", 0, 1), 2),
        (integer("x", -3, 124), 128),
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
        integer("x", -3, 125),
        continuous("x", 0, 1),
        Date(name="x", lower=date(2000, 1, 1), upper=date(2020, 1, 1)),
        Datetime(name="x", lower=datetime(2020, 1, 1), upper=datetime(2020, 1, 2)),
    ],
)
def test_others_are_intervals_with_an_atom_at_each_bound(column):
    cells = numeric_cells(column)
    assert cells.size == INTERVAL_COUNT + 2
    assert cells.low[0] == 0
    assert cells.high[0] == 0
    assert cells.low[-1] == 1
    assert cells.high[-1] == 1
    np.testing.assert_array_equal(cells.low[2:-1], cells.high[1:-2])
    assert cells.low[1] == 0
    assert cells.high[-2] == 1
