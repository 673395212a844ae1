from datetime import date, datetime

import numpy as np
import pytest
import torch
from tests.shared.columns import continuous, integer

from noisegate.models.within_cell import WithinCell
from noisegate.queries.binning import NumericBins
from noisegate.schema import Continuous, Date, Datetime, Decimal
from noisegate.schema.layout import numbers_at, positions_of

COLUMNS = [
    integer("x", -7, 90),
    integer("x", 0, 2**52, missing=True),
    Date(name="x", lower=date(1999, 12, 31), upper=date(2003, 7, 9), missing=True),
    Datetime(name="x", lower=datetime(2020, 1, 1), upper=datetime(2020, 1, 2)),
    continuous("x", -0.1, 0.7, missing=True),
    Decimal(
        name="x", lower=-1.5, upper=700, step=0.25, atoms=[-9, 0, 999], missing=True
    ),
    integer("x", 0, 5_000, step=5, atoms=[-1, 9999]),
]


def random(seed=0):
    return torch.Generator().manual_seed(seed)


def fine(column, cuts, edges, masses, spikes=None):
    spikes = None if spikes is None else np.array(spikes, dtype=bool)
    return WithinCell.from_edges(
        column,
        NumericBins(tuple(cuts), column.missing),
        edges=np.asarray(edges, dtype=float),
        masses=np.asarray(masses, dtype=float),
        spikes=spikes,
    )


def near(numbers, share, rows):
    return abs(numbers - share) < 5 * (share * (1 - share) / rows) ** 0.5 + 1e-12


@pytest.mark.parametrize(
    "column", COLUMNS, ids=lambda column: f"{column.kind}-{column.upper}"
)
@pytest.mark.parametrize(
    "cuts", [(0.1, 0.35, 0.6), tuple(np.arange(1, 97) / 97), ()], ids=len
)
def test_a_value_decodes_into_the_cell_that_it_was_drawn_for(column, cuts):
    edges = np.unique(np.r_[0, cuts, 0.5, 1])
    within = fine(column, cuts, edges, np.ones(len(edges) - 1))
    cells = np.arange(5000) % within.bins.size
    values = within.draw(cells, random())
    assert (np.isnan(values) == (cells > len(cuts))).all()
    present = ~np.isnan(values)
    decoded = numbers_at(column, values[present])
    if not isinstance(column, Continuous):
        assert (
            within.bins.codes(positions_of(column, decoded)) == cells[present]
        ).all()
    assert (within.bins.codes(values)[present] == cells[present]).all()


def test_values_follow_the_masses_of_the_fine_cells_in_their_bin():
    # Whole numbers 0 to 9; the bin from 4 on is cut into {4, 5, 6} and {7, 8, 9}, in shares 1 to 3.
    column = integer("x", 0, 9)
    within = fine(column, [4 / 9], [0, 4 / 9, 7 / 9, 1], [5, 1, 3])
    rows = 60_000
    steps = numbers_at(column, within.draw(np.ones(rows, int), random()))
    shares = np.bincount(steps, minlength=10) / rows
    assert all(
        near(share, want, rows)
        for share, want in zip(
            shares, [0] * 4 + [1 / 12] * 3 + [1 / 4] * 3, strict=True
        )
    )


def test_spikes_are_single_values_and_the_rest_is_even():
    column = continuous("x", 0.0, 8.0)
    last = np.nextafter(1.0, 0.0)
    within = fine(
        column,
        [],
        [0, 1e-6, 0.25, 0.2500001, last, 1],
        [2, 1, 3, 2, 2],
        [1, 0, 1, 0, 1],
    )
    rows = 50_000
    values = within.draw(np.zeros(rows, int), random())
    for value, share in ((0.0, 0.2), (0.25, 0.3), (1.0, 0.2)):
        assert near((values == value).mean(), share, rows)
    between = np.sort(values[(values > 0.2500001) & (values < last)])
    gap = np.abs(
        (between - 0.2500001) / 0.75 - np.arange(len(between)) / len(between)
    ).max()
    assert gap < 2 * len(between) ** -0.5  # Kolmogorov-Smirnov, far beyond 99.9 %


def test_values_of_a_cell_do_not_follow_the_order_of_its_rows():
    within = fine(continuous("x"), [0.5], [0, 0.25, 0.5, 1], [1, 1, 1])
    values = within.draw(np.repeat([0, 1], 5000), random())
    for part in (values[:5000], values[5000:]):
        assert abs(np.corrcoef(part, np.arange(5000))[0, 1]) < 5 * 5000**-0.5


@pytest.mark.parametrize(
    ("column", "span", "kept"),
    [
        # Bins: [0, .5) in fine cells of shares 1/4, 3/4 and [.5, 1] in one.
        (
            continuous("x", 0.0, 10.0),
            (2.0, 6.0),
            [1 / 4 * 1 / 5 + 3 / 4, 1 / 5],
        ),
        (continuous("x", 0.0, 10.0), (0.0, 10.0), [1, 1]),
        (continuous("x", 0.0, 10.0), (7.0, 7.0), [0, 0]),
        # Steps 0, 1, 2 | 3, 4 | 5 to 10.
        (integer("x", 0, 10), (2, 5), [1 / 4 * 1 / 3 + 3 / 4, 1 / 6]),
        (integer("x", 0, 10), (4, 4), [3 / 4 * 1 / 2, 0]),
    ],
)
def test_an_interval_that_cuts_a_bin_keeps_its_part(column, span, kept):
    within = fine(column, [0.5], [0, 0.25, 0.5, 1], [1, 3, 2])
    part, restricted = within.restricted(span)
    np.testing.assert_allclose(restricted, kept, atol=1e-12)
    for cell in np.flatnonzero(restricted):
        every, kept_numbers = (
            numbers_at(column, w.draw(np.full(40_000, cell), random()))
            for w in (within, part)
        )
        inside = every[(every >= span[0]) & (every <= span[1])]
        assert near(len(inside) / len(every), kept[cell], len(every))
        assert kept_numbers.min() >= span[0]
        assert kept_numbers.max() <= span[1]
        assert (
            abs(kept_numbers.mean() - inside.mean()) < 0.06
        )  # more than five standard errors of either


def test_a_restriction_keeps_spikes_by_the_number_they_decode_to():
    column = continuous("x", -0.1, 1.0)
    zero = positions_of(column, np.array([0.0]))[0]
    within = fine(column, [], [0, zero, np.nextafter(zero, 1), 1], [1, 2, 1], [0, 1, 0])
    number = float(numbers_at(column, np.array([zero]))[0])
    part, restricted = within.restricted((number, number))
    np.testing.assert_allclose(restricted, [0.5])
    assert (part.draw(np.zeros(5, int), random()) == zero).all()
