from datetime import date, datetime

import numpy as np
import pytest
import torch
from scipy import stats

from noisegate.features.binning import NumericBins
from noisegate.models.mixture import Copula, Mixture, quantiles, shares
from noisegate.models.within_cell import WithinCell
from noisegate.schema import Continuous, Date, Datetime, Decimal, Integer, Schema
from noisegate.schema.layout import numbers_at, positions_of
from noisegate.seeds import public_random

COLUMNS = [
    Integer(name="x", lower=-7, upper=90),
    Integer(name="x", lower=0, upper=2**52, missing=True),
    Date(name="x", lower=date(1999, 12, 31), upper=date(2003, 7, 9), missing=True),
    Datetime(name="x", lower=datetime(2020, 1, 1), upper=datetime(2020, 1, 2)),
    Continuous(name="x", lower=-0.1, upper=0.7, missing=True),
    Decimal(
        name="x", lower=-1.5, upper=700, step=0.25, atoms=[-9, 0, 999], missing=True
    ),
    Integer(name="x", lower=0, upper=5_000, step=5, atoms=[-1, 9999]),
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


def near(found, share, rows):
    return abs(found - share) < 5 * (share * (1 - share) / rows) ** 0.5 + 1e-12


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
    column = Integer(name="x", lower=0, upper=9)
    within = fine(column, [4 / 9], [0, 4 / 9, 7 / 9, 1], [5, 1, 3])
    rows = 60_000
    steps = numbers_at(column, within.draw(np.ones(rows, int), random()))
    found = np.bincount(steps, minlength=10) / rows
    assert all(
        near(share, want, rows)
        for share, want in zip(found, [0] * 4 + [1 / 12] * 3 + [1 / 4] * 3, strict=True)
    )


def test_spikes_are_single_values_and_the_rest_is_even():
    column = Continuous(name="x", lower=0.0, upper=8.0)
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
    within = fine(
        Continuous(name="x", lower=0.0, upper=1.0), [0.5], [0, 0.25, 0.5, 1], [1, 1, 1]
    )
    values = within.draw(np.repeat([0, 1], 5000), random())
    for part in (values[:5000], values[5000:]):
        assert abs(np.corrcoef(part, np.arange(5000))[0, 1]) < 5 * 5000**-0.5


@pytest.mark.parametrize(
    ("column", "span", "kept"),
    [
        # Bins: [0, .5) in fine cells of shares 1/4, 3/4 and [.5, 1] in one.
        (
            Continuous(name="x", lower=0.0, upper=10.0),
            (2.0, 6.0),
            [1 / 4 * 1 / 5 + 3 / 4, 1 / 5],
        ),
        (Continuous(name="x", lower=0.0, upper=10.0), (0.0, 10.0), [1, 1]),
        (Continuous(name="x", lower=0.0, upper=10.0), (7.0, 7.0), [0, 0]),
        # Steps 0, 1, 2 | 3, 4 | 5 to 10.
        (Integer(name="x", lower=0, upper=10), (2, 5), [1 / 4 * 1 / 3 + 3 / 4, 1 / 6]),
        (Integer(name="x", lower=0, upper=10), (4, 4), [3 / 4 * 1 / 2, 0]),
    ],
)
def test_an_interval_that_cuts_a_bin_keeps_its_part(column, span, kept):
    within = fine(column, [0.5], [0, 0.25, 0.5, 1], [1, 3, 2])
    part, found = within.restricted(span)
    np.testing.assert_allclose(found, kept, atol=1e-12)
    for cell in np.flatnonzero(found):
        every, some = (
            numbers_at(column, w.draw(np.full(40_000, cell), random()))
            for w in (within, part)
        )
        inside = every[(every >= span[0]) & (every <= span[1])]
        assert (
            near(len(inside) / len(every), kept[cell], len(every))
            and some.min() >= span[0]
        )
        assert some.max() <= span[1]
        assert (
            abs(some.mean() - inside.mean()) < 0.06
        )  # more than five standard errors of either


def test_a_restriction_keeps_spikes_by_the_number_they_decode_to():
    column = Continuous(name="x", lower=-0.1, upper=1.0)
    zero = positions_of(column, np.array([0.0]))[0]
    within = fine(column, [], [0, zero, np.nextafter(zero, 1), 1], [1, 2, 1], [0, 1, 0])
    number = float(numbers_at(column, np.array([zero]))[0])
    part, kept = within.restricted((number, number))
    np.testing.assert_allclose(kept, [0.5])
    assert (part.draw(np.zeros(5, int), random()) == zero).all()


# Numbers go together within their cells as the cells do, and what lies in each cell stays as it is.

CUTS = stats.norm.ppf([0.2, 0.4, 0.6, 0.8])


def gaussian(correlation, joined, *, missing=0.0):
    """Two Gaussian numbers between -4 and 4 in five cells each, a component for each cell of the first."""
    edges = np.concatenate([[-4.0], CUTS, [4.0]])
    both = stats.multivariate_normal(cov=[[1, correlation], [correlation, 1]])
    below = np.array([[both.cdf([a, b]) for b in edges] for a in edges])
    table = np.diff(np.diff(below, axis=0), axis=1)
    layout = Schema(
        [
            Continuous(name=name, lower=-4, upper=4, missing=missing > 0)
            for name in ("x", "y")
        ]
    ).layout
    fine = np.linspace(0, 1, 161)
    fine = np.union1d(fine, (CUTS + 4) / 8)
    within = tuple(
        WithinCell.from_edges(
            column,
            NumericBins(tuple((CUTS + 4) / 8), missing > 0),
            edges=fine,
            masses=np.diff(stats.norm.cdf(8 * fine - 4)),
        )
        for column in layout.numeric
    )
    second = table / table.sum(axis=1, keepdims=True)
    first = np.eye(5)
    if missing:
        first, second = (
            np.column_stack([(1 - missing) * one, np.full(5, missing)])
            for one in (first, second)
        )
    weights = table.sum(axis=1) / table.sum()
    return Mixture(
        layout=layout,
        within=within,
        weights=weights,
        probabilities=(first, second),
        copula=joined,
    )


def drawn(model, **random):
    return model.draw(40_000, public_random(1, **random)).numeric * 8 - 4


@pytest.mark.parametrize("correlation", [0.8, -0.5])
@pytest.mark.parametrize("random", [{}, {"independent": True}])
def test_a_correlation_is_that_of_the_numbers_and_not_of_their_cells(
    correlation, random
):
    alone, joined = (
        np.corrcoef(drawn(gaussian(correlation, how), **random).T)[0, 1]
        for how in (False, True)
    )
    assert abs(alone) < abs(correlation) - 0.05 and joined == pytest.approx(
        correlation, abs=0.03
    )


def test_what_lies_in_each_cell_stays_as_it_is():
    alone, joined = (drawn(gaussian(0.8, how)) for how in (False, True))
    counts = [
        np.histogram2d(*one.T, bins=[[-4, *CUTS, 4]] * 2)[0] for one in (alone, joined)
    ]
    assert np.abs(counts[0] - counts[1]).max() < 150
    for column in (0, 1):
        assert stats.ks_2samp(alone[:, column], joined[:, column]).statistic < 0.005
    in_the_outer_cells = joined[(joined > CUTS[-1]).all(axis=1)]
    assert (
        np.corrcoef(in_the_outer_cells.T)[0, 1] > 0.35
    )  # .47 of Gaussian numbers with a correlation of .8


def test_a_missing_value_is_missing_and_says_nothing():
    found = drawn(gaussian(0.8, True, missing=0.3))
    assert np.isnan(found).mean(axis=0) == pytest.approx([0.3, 0.3], abs=0.01)
    assert np.corrcoef(found[~np.isnan(found).any(axis=1)].T)[0, 1] == pytest.approx(
        0.8, abs=0.03
    )


def test_columns_that_do_not_go_together_are_left_alone():
    alone, joined = (drawn(gaussian(0.05, how)) for how in (False, True))
    assert np.array_equal(alone, joined)


def test_a_model_keeps_how_it_draws_and_older_ones_draw_as_they_did():
    model = gaussian(0.8, True)
    schema = Schema([Continuous(name=name, lower=-4, upper=4) for name in ("x", "y")])
    told = model.to_json()
    again = Mixture.from_saved(schema, model.tensors(), told)
    older = Mixture.from_saved(
        schema, model.tensors(), {name: told[name] for name in ("components", "cells")}
    )
    assert np.array_equal(drawn(again), drawn(model)) and np.array_equal(
        drawn(older), drawn(gaussian(0.8, False))
    )


def test_scores_and_shares_are_those_of_the_normal_distribution():
    at = np.linspace(-5, 5, 101)
    assert shares(at) == pytest.approx(stats.norm.cdf(at), abs=1e-6) and quantiles(
        shares(at)
    ) == pytest.approx(at, abs=1e-3)


def test_correlations_that_contradict_each_other_are_made_to_fit():
    """Three columns, each pair of which could go together so, but not all at once."""
    tables = [np.eye(2)[[0, 1, 1, 0]], np.eye(2)[[0, 1, 0, 1]], np.eye(2)[[0, 1, 0, 1]]]
    found = Copula.of(np.full(4, 0.25), tables)
    assert found is not None and (np.linalg.eigvalsh(found.precision) > 0).all()
