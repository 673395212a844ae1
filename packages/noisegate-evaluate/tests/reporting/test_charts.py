"""Charts: every name and value is in them, nothing leaves them, and what is drowned in noise is drawn all the same."""

import re

import numpy as np
import pytest

from noisegate.schema import Boolean, Integer
from noisegate_evaluate.reporting.charts import Bar, bars, card, coded, heat_map


@pytest.mark.parametrize("value", [1e-9, 0.0, 3.0, 700.0, -5.0])
def test_noise_larger_than_the_records_can_be_drawn(value):
    drawn = bars("k", "t", "", [Bar(name="a", value=value, mark=0.1, error=abs(value))])
    ends = [float(x) for x in re.findall(r"[MH](-?[\d.]+)", drawn)]
    assert len(ends) >= 5
    assert all(0 <= x <= float(re.search(r'width="(\d+)"', drawn)[1]) for x in ends)


def test_many_levels_become_the_largest_and_the_rest_and_the_table_has_all():
    names = [f"level {place}" for place in range(40)]
    shares = np.arange(40) / np.arange(40).sum()
    made = card(
        "k",
        [Boolean(name="c")],
        names,
        (shares, shares[::-1]),
        "told",
        ("real", "synthetic"),
    )
    assert "26 others" in made.chart.drawing
    assert [row[0] for row in made.chart.rows] == names
    number = Integer(name="c", lower=0, upper=39)
    assert (
        "others"
        not in card("k", [number], names, (shares, shares), "", ("", "")).chart.drawing
    )


def test_a_heat_map_shades_by_value_and_leaves_out_what_is_not_measured():
    values = np.array([[np.nan, 0.0, 1.0], [0.0, np.nan, 0.5], [1.0, 0.5, np.nan]])
    drawn = heat_map("k", "t", "", ["a", "b", "c"], values)
    own = drawn.split("scale(12)")[0]  # what follows is the scale below the map
    squares = {
        shade: path.count("M")
        for path, shade in re.findall(r'd="(M[^"]*)" class="([a-z]+-?\d?)"', own)
    }
    assert squares == {"nothing": 3, "shade-0": 2, "shade-5": 2, "shade-9": 2}
    assert all(drawn.count(f">{name}<") == 2 for name in "abc")
    assert "not measured" not in drawn  # no column is a pair with itself
    values[0, 1] = np.nan
    drawn = heat_map("k", "t", "", ["a", "b", "c"], values, ends=("0 %", "7 %"))
    assert "not measured" in drawn
    assert ">7 %<" in drawn
    assert 'd="M1 0.5l1-1" class="hatched"' in drawn


def test_what_stands_between_backticks_is_code_and_nothing_else_is_markup():
    assert (
        coded("`noisegate plan` says <b>, `")
        == "<code>noisegate plan</code> says &lt;b&gt;, `"
    )
