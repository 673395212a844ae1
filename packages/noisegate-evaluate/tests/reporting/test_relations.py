"""Sections of linked tables on the private page."""

import numpy as np
import pytest

from noisegate_evaluate import evaluate_linked
from noisegate_evaluate.reading import bring_together
from noisegate_evaluate.reporting.private import relation

from ..evaluation.metrics.test_links import SCHEMA, made


def related(synthetic, real):
    report = evaluate_linked(synthetic, real, SCHEMA)
    sides = (bring_together(tables, SCHEMA, "given") for tables in (synthetic, real))
    return [relation(*sides, link, report) for link in SCHEMA.links]


def test_numbers_of_children_gaps_and_successions_are_shown():
    [found] = related(made(stay=0.5, days=4), made(stay=0.9, days=5))
    assert found.title == "people and their visits"
    number, gap = found.shares
    # All have six visits, each a cell of its own among 0 to 20, missing and outside.
    assert number.column.name == "visits.number" and np.flatnonzero(
        number.real
    ).tolist() == [6]
    # Of 20 spans of 99 days the first one ends before the fifth.
    assert [
        np.flatnonzero(shares).tolist() for shares in (gap.real, gap.synthetic)
    ] == [[1], [0]]
    assert dict((row[0], row[1]) for row in found.figures)["gaps"] == "1.0000"
    assert not found.successions[0].rows
    [row] = found.successions[1].rows
    assert row[0] == "state → state"
    assert float(row[1]) == pytest.approx(0.8, abs=0.08) and float(row[2]) < 0.15


def test_without_children_there_are_no_charts():
    tables = made()
    [found] = related({**tables, "visits": tables["visits"].slice(0, 0)}, tables)
    assert [one.column.name for one in found.shares] == [
        "visits.number"
    ] and not found.successions
