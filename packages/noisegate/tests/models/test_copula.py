"""Numbers go together within their cells as the cells do, and what lies in each cell stays as it is."""

import numpy as np
import pytest
from scipy import stats
from tests.shared.columns import continuous

from noisegate.models.copula import Copula, normal_cdf, normal_quantile
from noisegate.models.mixture import Mixture
from noisegate.models.within_cell import WithinCell
from noisegate.queries.binning import NumericBins
from noisegate.schema import Schema
from noisegate.seeds import public_random

CUTS = stats.norm.ppf([0.2, 0.4, 0.6, 0.8])


def gaussian(correlation, joined, *, missing=0.0):
    """Two Gaussian numbers between -4 and 4 in five cells each, a component for each cell of the first."""
    edges = np.concatenate([[-4.0], CUTS, [4.0]])
    both = stats.multivariate_normal(cov=[[1, correlation], [correlation, 1]])
    below = np.array([[both.cdf([a, b]) for b in edges] for a in edges])
    table = np.diff(np.diff(below, axis=0), axis=1)
    layout = Schema(
        [continuous(name, -4, 4, missing=missing > 0) for name in ("x", "y")]
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
            np.column_stack([(1 - missing) * column, np.full(5, missing)])
            for column in (first, second)
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
    assert abs(alone) < abs(correlation) - 0.05
    assert joined == pytest.approx(correlation, abs=0.03)


def test_what_lies_in_each_cell_stays_as_it_is():
    alone, joined = (drawn(gaussian(0.8, how)) for how in (False, True))
    counts = [
        np.histogram2d(*records.T, bins=[[-4, *CUTS, 4]] * 2)[0]
        for records in (alone, joined)
    ]
    assert np.abs(counts[0] - counts[1]).max() < 150
    for column in (0, 1):
        assert stats.ks_2samp(alone[:, column], joined[:, column]).statistic < 0.005
    in_the_outer_cells = joined[(joined > CUTS[-1]).all(axis=1)]
    assert (
        np.corrcoef(in_the_outer_cells.T)[0, 1] > 0.35
    )  # .47 of Gaussian numbers with a correlation of .8


def test_a_missing_value_is_missing_and_says_nothing():
    drawn_records = drawn(gaussian(0.8, True, missing=0.3))
    assert np.isnan(drawn_records).mean(axis=0) == pytest.approx([0.3, 0.3], abs=0.01)
    assert np.corrcoef(drawn_records[~np.isnan(drawn_records).any(axis=1)].T)[
        0, 1
    ] == pytest.approx(0.8, abs=0.03)


def test_columns_that_do_not_go_together_are_left_alone():
    alone, joined = (drawn(gaussian(0.05, how)) for how in (False, True))
    assert np.array_equal(alone, joined)


def test_a_model_keeps_how_it_draws_and_older_ones_draw_as_they_did():
    model = gaussian(0.8, True)
    schema = Schema([continuous(name, -4, 4) for name in ("x", "y")])
    stated = model.to_json()
    again = Mixture.from_saved(schema, model.tensors(), stated)
    older = Mixture.from_saved(
        schema,
        model.tensors(),
        {name: stated[name] for name in ("components", "cells")},
    )
    assert np.array_equal(drawn(again), drawn(model))
    assert np.array_equal(drawn(older), drawn(gaussian(0.8, False)))


def test_scores_and_shares_are_those_of_the_normal_distribution():
    at = np.linspace(-5, 5, 101)
    assert normal_cdf(at) == pytest.approx(stats.norm.cdf(at), abs=1e-6)
    assert normal_quantile(normal_cdf(at)) == pytest.approx(at, abs=1e-3)


def test_correlations_that_contradict_each_other_are_made_to_fit():
    """Three columns, each pair of which could go together so, but not all at once."""
    tables = [np.eye(2)[[0, 1, 1, 0]], np.eye(2)[[0, 1, 0, 1]], np.eye(2)[[0, 1, 0, 1]]]
    copula = Copula.of_mixture(np.full(4, 0.25), tables)
    assert copula is not None
    assert (np.linalg.eigvalsh(copula.precision) > 0).all()
