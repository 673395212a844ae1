from dataclasses import replace

import numpy as np
import pytest

from noisegate.schema import Boolean, Categorical, Continuous, EncodedTable, Schema
from noisegate_papers.models import locally_linear
from noisegate_papers.models.inputs import inputs_of
from noisegate_papers.models.locally_linear import LocallyLinear

SCHEMA = Schema(
    (
        *(Continuous(name=f"x{j}", lower=0.0, upper=1.0) for j in range(3)),
        Boolean(name="flag"),
        Categorical(name="y", levels=("a", "b", "c", "d")),
    ),
    label="y",
)
MAPS, CLASSES, INPUTS, TEMPERATURE = 2, 4, 5, 3.0


@pytest.fixture
def model():
    random = np.random.default_rng(0)
    return LocallyLinear(
        weights=(10 * random.normal(size=(MAPS, CLASSES, INPUTS))).astype(np.float32),
        bias=random.normal(size=(MAPS, CLASSES)).astype(np.float32),
        temperature=TEMPERATURE,
        classes=("a", "b", "c", "d"),
        inputs=inputs_of(SCHEMA, centre=0.5),
        release=None,
    )


def records(rows=7):
    random = np.random.default_rng(1)
    return EncodedTable(random.random((rows, 3)), random.integers(0, 2, (rows, 1)).astype(np.int32))


def by_hand(model, record, numeric, weights=None):
    """Equation 3, map by map: the scores, and σ of each map and class."""
    flag = [1 - record.codes[0, 0], record.codes[0, 0]]
    x = np.array([*(2 * (numeric - 0.5)), *flag]) / 2
    scores, sigmas = [], []
    for k in range(CLASSES):
        g = np.array([model.weights[m, k] @ x + model.bias[m, k] for m in range(MAPS)])
        sigma = np.exp(g / TEMPERATURE) / np.exp(g / TEMPERATURE).sum() if weights is None else weights[k]
        scores.append(sigma @ g)
        sigmas.append(sigma)
    return np.array(scores), np.array(sigmas)


def test_scores_and_importance_are_those_of_the_paper(model):
    for row in range(7):
        record = records().rows([row])
        scores, sigmas = by_hand(model, record, record.numeric[0])
        assert np.allclose(model.scores(record)[0], scores)
        for k in range(CLASSES):
            assert np.allclose(model.importance(record, of=np.array([k]))[0], sigmas[k], atol=1e-6)
        assert np.allclose(model.probabilities(record)[0], np.exp(scores) / np.exp(scores).sum())
        assert model.predictions(record)[0] == scores.argmax()


def test_an_explanation_is_what_the_predicted_class_gains_by_each_column(model):
    """With σ held: from the lower to the upper bound of a column, the class gains the entry of that column."""
    record = records(1)
    scores, sigmas = by_hand(model, record, record.numeric[0])
    k, explained = scores.argmax(), model.explain(record)[0]
    for column in range(3):
        low, high = record.numeric[0].copy(), record.numeric[0].copy()
        low[column], high[column] = 0.0, 1.0
        gained = by_hand(model, record, high, sigmas)[0] - by_hand(model, record, low, sigmas)[0]
        assert explained[column] == pytest.approx(gained[k], rel=1e-4)
    one = model.explain(record, of=np.array([2]))[0]
    assert np.allclose(one, sigmas[2] @ model.filters("c"), rtol=1e-4)


def test_records_beside_a_record_do_not_matter(model, monkeypatch):
    many = records(50)
    monkeypatch.setattr(locally_linear, "_ROWS", 16)
    for asked in (model.scores, model.importance, model.explain):
        alone = np.concatenate([asked(many.rows([row])) for row in range(50)])
        assert np.allclose(asked(many), alone, rtol=1e-6)
        assert len(asked(many.rows([]))) == 0


def test_one_map_is_logistic_regression(model):
    single = replace(model, weights=model.weights[:1], bias=model.bias[:1])
    assert np.allclose(single.importance(records()), 1.0)
    assert np.allclose(single.explain(records(), of=np.zeros(7, dtype=int)), single.filters("a"))
