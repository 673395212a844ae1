"""Weighted shares and means of synthetic records beside those of real ones."""

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, continuous

from noisegate.schema import Integer, Schema
from noisegate_evaluate import evaluate_tables
from noisegate_evaluate.metrics.weighted import WeightedFigures

SCHEMA = Schema(
    (
        Integer(name="weight", lower=0, upper=100),
        continuous("wage", 0, 10),
        boolean("ill"),
    ),
    weights="weight",
)


def records(count, seed, *, ties_to_weight=1.0):
    """Draws records of which heavy ones earn more and are ill more often."""
    random = np.random.default_rng(seed)
    is_heavy = random.random(count) < 0.3
    tied = np.where(random.random(count) < ties_to_weight, is_heavy, ~is_heavy)
    return pa.table(
        {
            "weight": np.where(is_heavy, 90, 10),
            "wage": np.clip(
                np.where(tied, 7, 3) + random.standard_normal(count), 0, 10
            ),
            "ill": random.random(count) < np.where(tied, 0.8, 0.1),
        }
    )


def measure(synthetic, real, schema=SCHEMA):
    return WeightedFigures.measured(synthetic, real, seed=0, schema=schema)


def test_figures_are_weighted_averages():
    synthetic = records(2_000, seed=0)
    real = records(3_000, seed=1)
    figures = {figure.name: figure for figure in measure(synthetic, real).figures}
    frame = real.to_pandas()
    assert set(figures) == {"mean of wage", "ill = False", "ill = True"}
    assert figures["mean of wage"].real == pytest.approx(
        np.average(frame["wage"], weights=frame["weight"])
    )
    assert figures["ill = True"].real == pytest.approx(
        np.average(frame["ill"], weights=frame["weight"])
    )


def test_chance_alone_explains_another_sample():
    result = measure(records(2_000, seed=0), records(3_000, seed=1))
    assert result.figures[0].beyond_chance < 0.01
    assert result.verdict().word == "good"


def test_copies_that_lose_the_tie_to_the_weights_are_found():
    result = measure(records(5_000, seed=0, ties_to_weight=0.6), records(5_000, seed=1))
    verdict = result.verdict()
    assert verdict.word == "rough"
    assert "weighted by weight, " in verdict.reasons[0]
    assert [finding.answer for finding in verdict.findings] == ["lost"]


def test_records_without_a_value_do_not_count():
    real = records(2_000, seed=1)
    schema = Schema(
        (SCHEMA.columns[0], continuous("wage", 0, 10, missing=True), SCHEMA.columns[2]),
        weights="weight",
    )
    is_missing = np.random.default_rng(0).random(2_000) < 0.3
    wage = pa.array(real["wage"].to_numpy(), mask=is_missing)
    with_gaps = real.set_column(1, "wage", wage)
    known = with_gaps.to_pandas().dropna()
    figures = {one.name: one for one in measure(with_gaps, with_gaps, schema).figures}
    assert figures["mean of wage"].real == pytest.approx(
        np.average(known["wage"], weights=known["weight"])
    )


def test_a_schema_without_weights_has_none():
    schema = Schema(SCHEMA.columns)
    table = records(200, seed=0)
    assert measure(table, table, schema) is None


def test_weights_of_nothing_give_no_figures():
    table = records(200, seed=0)
    no_weight = table.set_column(0, "weight", pa.array([0] * 200))
    assert measure(no_weight, table) is None


def test_an_evaluation_has_them_in_its_verdict_and_its_json():
    real = records(2_000, seed=0)
    lost = records(2_000, seed=1, ties_to_weight=0.6)
    report = evaluate_tables(lost, real, SCHEMA)
    assert any("weighted by weight" in reason for reason in report.verdict.reasons)
    assert report.to_json()["metrics"]["weighted"]["weights"] == "weight"
