"""Charts: every name and value is in them, nothing leaves them, and what is drowned in noise is drawn all the same."""

import re

import numpy as np
import pytest

from noisegate_evaluate.reporting.charts import Bar, bars, cut, heat_map, tag
from noisegate_evaluate.reporting.marginals import card


def numbers(name, drawing):
    return [float(value) for value in re.findall(rf'\b{name}="([\d.-]+)"', drawing)]


def test_elements_escape_what_they_are_given():
    assert tag("text", "<b>", cls='"') == '<text class="&#34;">&lt;b&gt;</text>'
    assert tag("g", tag("rect", x=1.0, y=2.345)) == '<g><rect x="1" y="2.35"></rect></g>'


def test_a_bar_is_as_long_as_its_share_and_stays_on_the_paper():
    drawn = bars("k", "t", "", [Bar(name="a", value=0.5, mark=0.25, error=0.1), Bar(name="b", value=-0.2, mark=0.0)])
    first, second = numbers("width", drawn)[1:]
    assert second == 0
    left, end = numbers("x1", drawn)
    assert first / (end - left) == pytest.approx(0.5 / 0.6, abs=1e-3)
    assert numbers("cx", drawn)[0] == pytest.approx(left + (end - left) * 0.25 / 0.6, abs=0.01)


@pytest.mark.parametrize("value", [1e-9, 0.0, 3.0, 700.0, -5.0])
def test_noise_larger_than_the_records_can_be_drawn(value):
    drawn = bars("k", "t", "", [Bar(name="a", value=value, mark=0.1, error=abs(value))])
    width = numbers("width", drawn)[0]
    assert all(0 <= x <= width for name in ("x", "cx", "x1", "x2") for x in numbers(name, drawn))


def test_a_span_of_days_has_both_ends():
    assert "2021-01-01 – 2021-03-14" in bars("k", "t", "", [Bar(name="2021-01-01 – 2021-03-14", value=0.5)])


def test_many_levels_become_the_largest_and_the_rest_and_the_table_has_all():
    names = [f"level {place}" for place in range(40)]
    shares = np.arange(40) / np.arange(40).sum()
    made = card("k", "c", names, (shares, shares[::-1]), "told", ("real", "synthetic"))
    assert "26 others" in made.chart.drawing
    assert [row[0] for row in made.chart.rows] == names
    assert "others" not in card("k", "c", names, (shares, shares), "", ("", ""), ordered=True).chart.drawing


def test_a_heat_map_shades_by_value_and_leaves_out_what_is_not_measured():
    values = np.array([[np.nan, 0.0, 1.0], [0.0, np.nan, 0.5], [1.0, 0.5, np.nan]])
    drawn = heat_map("k", "t", "", ["a", "b", "c"], values)
    squares = {shade: path.count("M") for path, shade in re.findall(r'd="(M[^"]*)" class="shade-(\d)"', drawn)}
    assert squares == {"0": 2, "5": 2, "9": 2}
    assert all(drawn.count(f">{name}<") == 2 for name in "abc")


def test_long_names_are_cut_and_blank_ones_say_so():
    assert cut("a name\nthat is much too long", 10) == "a name th…"
    assert cut("  ", 10) == "(empty)"
