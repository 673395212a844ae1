import numpy as np
import pyarrow as pa

from noisegate.evaluation.matrix import prepare
from noisegate.schema import Categorical, Integer, Schema

SCHEMA = Schema(
    columns=(
        Integer(name="n", lower=0, upper=10, missing=True),
        Categorical(name="c", levels=("a", "b"), missing=True),
        Categorical(name="y", levels=("no", "yes")),
    ),
    label="y",
)


def rows(n, c):
    return pa.table({"n": n, "c": c, "y": ["no"] * len(n)})


def test_numbers_are_standardised_and_filled_by_the_training_table():
    train = rows([0, 2, 10, None], ["a"] * 4)
    matrix = prepare(train, SCHEMA, "y").matrix(rows([4, None], ["a", "a"]))
    unit = np.array([0.0, 0.2, 1.0])
    expected = (np.array([0.4, 0.2]) - unit.mean()) / unit.std()  # the median fills the second row
    np.testing.assert_allclose(matrix[:, 1], expected, rtol=1e-6)
    assert matrix[:, 2].tolist() == [0.0, 1.0]


def test_without_missing_numbers_in_training_there_is_no_indicator():
    with_indicator = prepare(rows([1, None], ["a", "b"]), SCHEMA, "y").matrix(rows([1], ["a"]))
    without = prepare(rows([1, 2], ["a", "b"]), SCHEMA, "y").matrix(rows([1], ["a"]))
    assert with_indicator.shape[1] == without.shape[1] + 1


def test_levels_are_one_hot_over_the_schema_and_unseen_ones_are_all_zero():
    matrix = prepare(rows([1], ["a"]), SCHEMA, "y").matrix(rows([1] * 4, ["a", "b", None, "zebra"]))
    assert matrix[:, 2:].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]


def test_a_constant_and_an_all_missing_number_give_finite_features():
    for values in ([3, 3], pa.nulls(2)):
        preparation = prepare(rows(values, ["a", "b"]), SCHEMA, "y")
        assert np.isfinite(preparation.matrix(rows([10, None], ["a", "b"]))).all()


def test_the_label_is_no_feature():
    preparation = prepare(rows([1], ["a"]), SCHEMA, "y")
    flipped = pa.table({"n": [1], "c": ["a"], "y": ["yes"]})
    np.testing.assert_array_equal(preparation.matrix(rows([1], ["a"])), preparation.matrix(flipped))
