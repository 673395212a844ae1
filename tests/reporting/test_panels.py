import numpy as np
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

from noisegate.reporting.pictures import draw_marginal, marginal
from noisegate.schema import Categorical, Integer, Ordinal, Schema


def drawn(column, synthetic, real):
    schema = Schema(columns=(column,))
    shown = marginal(pa.table({column.name: synthetic}), pa.table({column.name: real}), column, schema)
    axes = Figure().subplots()
    draw_marginal(axes, shown)
    return shown, axes


def words(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_shares_and_distance_are_of_each_table():
    column = Categorical(name="c", levels=("a", "b"))
    shown, axes = drawn(column, ["a"], ["a", "b", "b", "b"])
    assert shown.synthetic.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert shown.real.tolist() == [0.25, 0.75, 0.0, 0.0]
    assert shown.distance == pytest.approx(0.75)
    assert axes.get_title("right") == "TV 0.750"
    assert [bar.get_width() for bar in axes.patches] == [0.25, 0.75]
    assert axes.lines[0].get_xdata().tolist() == [1.0, 0.0]


def test_the_rest_of_many_levels_is_one_row_and_missing_is_shown():
    column = Categorical(name="c", levels=tuple(range(20)), missing=True)
    _, axes = drawn(column, [0, 1], [5, 5, None, 99])
    assert words(axes) == ["0", "1", "5", "2", "3", "4", "6", "13 more levels", "(missing)", "(outside)"]


def test_ordinal_levels_keep_their_order():
    _, axes = drawn(Ordinal(name="o", levels=("low", "mid", "top")), ["top"] * 3, ["mid", "top"])
    assert words(axes) == ["low", "mid", "top"]


def test_numbers_are_drawn_in_bins_with_the_missing_share():
    _, axes = drawn(Integer(name="n", lower=0, upper=20, missing=True), [0, None], [20, 20, 20, 0])
    real, synthetic = (patch.get_data().values for patch in axes.patches)
    assert (real[0], real[-1], len(real)) == (0.25, 0.75, 20)
    np.testing.assert_array_equal(synthetic, [0.5, *[0.0] * 19])
    assert axes.texts[0].get_text() == "missing: 0.0% real, 50.0% synthetic"
