"""Sections of linked tables on the private page."""

import numpy as np
import pytest

from noisegate_evaluate import evaluate_linked
from noisegate_evaluate.reading import bring_together
from noisegate_evaluate.reporting.private import compare_link
from noisegate_evaluate.reporting.private_figures.links import succession_charts

from ..metrics.test_links import SCHEMA, made


def compared_links(synthetic, real):
    report = evaluate_linked(synthetic, real, SCHEMA)
    sides = [bring_together(tables, SCHEMA, "given") for tables in (synthetic, real)]
    return [compare_link(*sides, link, report) for link in SCHEMA.links]


@pytest.fixture(scope="module")
def visits():
    """What is shown of visits: six a person, of which real ones stay alike more often."""
    [link] = compared_links(made(stay=0.5, days=4), made(stay=0.9, days=5))
    return link


def test_a_link_is_called_by_both_tables(visits):
    assert visits.title == "people and their visits"


def test_each_number_of_children_is_a_cell_of_its_own(visits):
    number, _ = visits.shares
    assert number.column.name == "visits.number"
    # All have six visits; the cells are those of 0 to 20, missing and outside.
    assert np.flatnonzero(number.real).tolist() == [6]


def test_gaps_are_in_spans_between_the_bounds(visits):
    _, gap = visits.shares
    # Of 20 spans of 99 days the first one ends before the fifth.
    assert np.flatnonzero(gap.real).tolist() == [1]
    assert np.flatnonzero(gap.synthetic).tolist() == [0]
    text_of_figure = {name: text for name, text, *_ in visits.figures}
    assert text_of_figure["gaps"] == "1.0000"


def test_the_maps_of_successive_children_have_their_numbers_below_the_second(visits):
    real_map, synthetic_map = succession_charts(visits)
    assert not real_map.rows
    [(pair, real, synthetic, _)] = synthetic_map.rows
    assert pair == "state → state"
    assert float(real) == pytest.approx(0.8, abs=0.08)
    assert float(synthetic) < 0.15


def test_without_children_there_are_no_maps():
    tables = made()
    [link] = compared_links({**tables, "visits": tables["visits"].slice(0, 0)}, tables)
    assert [shares.column.name for shares in link.shares] == ["visits.number"]
    assert succession_charts(link) == []
