"""A numeric label is scored by regressors, missing labels are told, and the verdict says what is kept."""

import numpy as np
import pyarrow as pa
from tests.shared.columns import categorical, continuous

from noisegate import Schema
from noisegate_evaluate import evaluate_tables, regression_scores

SCHEMA = Schema(
    (continuous("x"), categorical("g", "ab"), continuous("y", -2.0, 4.0, missing=True)),
    label="y",
)


def table(rows, seed, *, slope=1.0, missing=0.0):
    random = np.random.default_rng(seed)
    x = random.random(rows)
    g = random.choice(["a", "b"], rows)
    y = slope * (2 * x + (g == "b")) + random.normal(scale=0.1, size=rows)
    return pa.table(
        {"x": x, "g": g, "y": pa.array(y, mask=random.random(rows) < missing)}
    )


def test_what_is_learnt_is_explained_and_what_is_not_is_not():
    good = regression_scores(table(500, 0), table(300, 1), SCHEMA)
    assert set(good.models) == {"ridge regression", "gradient boosting"}
    assert all(
        scores.r2 > 0.95 and scores.absolute_error < 0.03
        for scores in good.models.values()
    )
    bad = regression_scores(table(500, 0, slope=-0.5), table(300, 1), SCHEMA)
    assert bad.mean.r2 < 0
    assert regression_scores(table(500, 0), table(300, 1), SCHEMA) == good


def test_an_evaluation_scores_a_numeric_label_and_judges_what_is_kept():
    report = evaluate_tables(table(500, 0), table(300, 1), SCHEMA, table(400, 2))
    assert report.downstream is None
    assert report.regression_ceiling.mean.r2 > 0.95
    assert report.verdict.figures["score"] == "R²"
    assert report.verdict.word == "good"
    told = report.to_json()
    assert (
        told["regression"]["models"]["ridge regression"]["r2"]
        == report.regression.models["ridge regression"].r2
    )
    worse = evaluate_tables(
        table(500, 0, slope=0.0), table(300, 1), SCHEMA, table(400, 2)
    )
    assert worse.verdict.word == "noise"
    assert worse.verdict.figures["kept"] < 0.2


def test_records_without_a_label_are_left_out_with_a_word():
    report = evaluate_tables(
        table(500, 0, missing=0.3), table(300, 1, missing=0.5), SCHEMA
    )
    assert report.regression.mean.r2 > 0.9
    assert (
        sum("have no known 'y' and were left out" in note for note in report.notes) == 2
    )
    nothing = evaluate_tables(table(50, 0, missing=1.0), table(300, 1), SCHEMA)
    assert nothing.regression.mean.r2 <= 0
    assert any("0 value(s) of 'y'" in note for note in nothing.notes)
    unknown = evaluate_tables(table(50, 0), table(300, 1, missing=1.0), SCHEMA)
    assert unknown.regression is None
    assert any(
        "fewer than 2 values in the test table" in note for note in unknown.notes
    )
