"""Records drawn from conditional tables follow them."""

import numpy as np
import pytest
import torch

from noisegate.queries.binning import NumericBins
from noisegate_papers.models.graphical import Conditional, GraphicalModel

X = np.array([[0.7, 0.1, 0.2], [0.0, 1.0, 0.0]])
C = np.array([0.5, 0.0, 0.5])
Y = np.array([[1.0, 0.0], [0.3, 0.7], [0.25, 0.75]])
ROWS = 40_000


def model(factors=None):
    if factors is None:
        # c first, then y given c, then x given y: numbered numeric first.
        factors = (
            Conditional(column=1, parents=(), probabilities=C),
            Conditional(column=2, parents=(1,), probabilities=Y),
            Conditional(column=0, parents=(2,), probabilities=X),
        )
    return GraphicalModel(
        bins=(NumericBins((0.25,), nullable=True),), coded=(3, 2), factors=factors
    )


def drawn(built, seed=0):
    return built.draw(ROWS, torch.Generator().manual_seed(seed))


def test_records_follow_the_tables():
    records = drawn(model())
    c, y = records.codes.T
    x = np.where(
        np.isnan(records.numeric[:, 0]), 2, (records.numeric[:, 0] >= 0.25).astype(int)
    )
    assert records.codes.dtype == np.int32
    # Five standard deviations of a share over 40,000 records are 0.0125.
    assert np.bincount(c, minlength=3) / ROWS == pytest.approx(C, abs=0.0125)
    assert not (c == 1).any()
    assert y[c == 0].max() == 0
    assert y[c == 2].mean() == pytest.approx(0.75, abs=0.02)
    for value in (0, 1):
        assert np.bincount(x[y == value], minlength=3) / (
            y == value
        ).sum() == pytest.approx(X[value], abs=0.02)


def test_values_are_uniform_inside_a_cell():
    values = drawn(model()).numeric[:, 0]
    low, high = values[values < 0.25], values[values >= 0.25]
    assert low.min() >= 0 and high.max() <= 1
    assert low.mean() == pytest.approx(0.125, abs=0.005)
    assert high.mean() == pytest.approx(0.625, abs=0.01)


def test_two_parents_are_looked_up_in_their_order():
    table = np.zeros((3, 2, 3))
    table[0, 0, 1] = table[2, 0, 2] = table[2, 1, 0] = table[0, 1, 0] = table[
        1, :, 0
    ] = 1
    factors = (
        *model().factors[:2],
        Conditional(column=0, parents=(1, 2), probabilities=table),
    )
    records = drawn(model(factors))
    c, y = records.codes.T
    x = records.numeric[:, 0]
    assert (x[(c == 0) & (y == 0)] >= 0.25).all()
    assert np.isnan(x[(c == 2) & (y == 0)]).all()
    assert (x[(c == 2) & (y == 1)] < 0.25).all()


@pytest.mark.parametrize(
    "factors",
    [
        (),
        model().factors[:2],
        (*model().factors, model().factors[0]),
        tuple(reversed(model().factors)),
        (*model().factors[:2], Conditional(column=0, parents=(1,), probabilities=X)),
    ],
    ids=["none", "missing", "twice", "child-first", "other-shape"],
)
def test_tables_that_do_not_fit_are_refused(factors):
    with pytest.raises(ValueError, match=r"column|tables"):
        model(factors)


@pytest.mark.parametrize(
    "table",
    [np.ones(3), np.array([1.5, -0.5]), np.array([np.nan, 1]), np.zeros(0), np.eye(2)],
)
def test_a_table_that_holds_no_probabilities_is_refused(table):
    with pytest.raises(ValueError, match="column 0"):
        Conditional(column=0, parents=(), probabilities=table)
