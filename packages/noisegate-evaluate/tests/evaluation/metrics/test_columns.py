import pyarrow as pa
import pytest

from noisegate.schema import Categorical, Integer, Schema
from noisegate_evaluate.metrics.marginals import column_shares


def shares(column, synthetic, real, bins=20):
    schema = Schema(columns=(column,))
    tables = pa.table({column.name: synthetic}), pa.table({column.name: real})
    return column_shares(*tables, column, schema, bins=bins)


def test_shares_and_distance_are_of_each_table():
    shown = shares(Categorical(name="c", levels=("a", "b")), ["a"], ["a", "b", "b", "b"])
    assert shown.synthetic.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert shown.real.tolist() == [0.25, 0.75, 0.0, 0.0]
    assert shown.distance == pytest.approx(0.75)


def test_numbers_are_in_bins_with_the_missing_share():
    shown = shares(Integer(name="n", lower=0, upper=20, missing=True), [0, None], [20, 20, 20, 0])
    assert (shown.real[0], shown.real[19], len(shown.real)) == (0.25, 0.75, 22)
    assert shown.synthetic.tolist() == [0.5, *[0.0] * 19, 0.5, 0.0]
