import numpy as np
import pyarrow as pa
import pytest

from noisegate.schema import Categorical, Continuous, Schema
from noisegate_evaluate.metrics.analyses import associations

X = Continuous(name="x", lower=-10.0, upper=10.0, missing=True)
Z = Continuous(name="z", lower=-10.0, upper=10.0, missing=True)
C = Categorical(name="c", levels=("a", "b", "c"), missing=True)
D = Categorical(name="d", levels=("a", "b", "c"), missing=True)


def between(first, second, left, right):
    table = pa.table({first.name: left, second.name: right})
    matrix = associations(table, (first, second), Schema(columns=(first, second)))
    np.testing.assert_array_equal(np.isnan(matrix.diagonal()), True)
    np.testing.assert_array_equal(matrix, matrix.T)
    return matrix[0, 1]


def test_the_correlation_of_numbers_by_hand():
    # A peak has no linear part, the sign does not matter, and a row without a number is left out.
    assert between(X, Z, [1.0, 2.0, 3.0], [0.0, 1.0, 0.0]) == pytest.approx(0.0)
    assert between(X, Z, [1.0, 2.0, 3.0], [6.0, 4.0, 2.0]) == pytest.approx(1.0)
    assert between(X, Z, [1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 4.0]) == pytest.approx(
        0.8
    )
    assert between(X, Z, [1.0, 2.0, 3.0, 9.0], [6.0, 4.0, 2.0, None]) == pytest.approx(
        1.0
    )


def test_levels_that_decide_each_other_and_levels_that_do_not():
    letters = np.array(["a", "b", "c"])
    spread = np.tile([0, 1, 2], 300)
    assert between(C, D, letters[spread], letters[2 - spread]) == pytest.approx(1.0)
    assert between(
        C, D, letters[spread], letters[np.repeat([0, 1, 2], 300)]
    ) == pytest.approx(0.0)


def test_many_levels_on_few_independent_rows_show_no_association():
    column, other = (Categorical(name=name, levels=tuple(range(30))) for name in "cd")
    generator = np.random.default_rng(0)
    assert (
        between(
            column,
            other,
            generator.integers(0, 30, 300),
            generator.integers(0, 30, 300),
        )
        < 0.1
    )
    assert (
        between(column, X, generator.integers(0, 30, 300), generator.normal(size=300))
        < 0.25
    )


def test_the_share_of_numbers_that_levels_explain():
    codes = np.repeat(["a", "b"], 50)
    noise = np.tile([-1.0, 1.0], 50)
    assert between(C, X, codes, np.repeat([0.0, 5.0], 50)) == pytest.approx(1.0)
    assert between(X, C, noise, codes) == 0.0
    # Group means -1 and 1, within-group spread 1: half of the spread is explained, less the correction 98 for 99.
    assert between(C, X, codes, noise + np.repeat([-1.0, 1.0], 50)) == pytest.approx(
        np.sqrt(1 - 0.5 * 99 / 98)
    )


def test_a_constant_column_has_no_association():
    assert np.isnan(between(X, Z, [1.0, 1.0], [1.0, 2.0]))
    assert np.isnan(between(C, D, ["a", "a"], ["a", "b"]))
    assert np.isnan(between(C, X, ["a", "b", "a"], [1.0, 1.0, 1.0]))
    assert np.isnan(between(X, Z, [None, None], [1.0, 2.0]))
    assert np.isnan(between(C, D, ["a"], ["b"]))
