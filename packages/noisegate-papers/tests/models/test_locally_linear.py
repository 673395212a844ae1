import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.shared.columns import boolean, categorical, continuous

from noisegate import Synthesizer
from noisegate.errors import ModelError
from noisegate.models.folder import MODEL_FILE, read_model, write_model
from noisegate.schema import EncodedTable, Schema
from noisegate_papers.models import locally_linear
from noisegate_papers.models.inputs import inputs_of
from noisegate_papers.models.locally_linear import (
    LocallyLinear,
    answers,
    draw_projection,
    reasons,
)

SCHEMA = Schema(
    [
        *(continuous(f"x{j}") for j in range(3)),
        boolean("flag"),
        categorical("y", "abcd"),
    ],
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
    return EncodedTable(
        random.random((rows, 3)), random.integers(0, 2, (rows, 1)).astype(np.int32)
    )


def by_hand(model, record, numeric, weights=None):
    """Equation 3, map by map: the scores, and σ of each map and class."""
    flag = [1 - record.codes[0, 0], record.codes[0, 0]]
    x = np.array([*(2 * (numeric - 0.5)), *flag]) / 2
    scores, sigmas = [], []
    for k in range(CLASSES):
        g = np.array([model.weights[m, k] @ x + model.bias[m, k] for m in range(MAPS)])
        sigma = (
            np.exp(g / TEMPERATURE) / np.exp(g / TEMPERATURE).sum()
            if weights is None
            else weights[k]
        )
        scores.append(sigma @ g)
        sigmas.append(sigma)
    return np.array(scores), np.array(sigmas)


def test_scores_and_importance_are_those_of_the_paper(model):
    for row in range(7):
        record = records().rows([row])
        scores, sigmas = by_hand(model, record, record.numeric[0])
        assert np.allclose(model.scores(record)[0], scores)
        for k in range(CLASSES):
            assert np.allclose(
                model.importance(record, of=np.array([k]))[0], sigmas[k], atol=1e-6
            )
        assert np.allclose(
            model.probabilities(record)[0], np.exp(scores) / np.exp(scores).sum()
        )
        assert model.predictions(record)[0] == scores.argmax()


def test_an_explanation_is_what_the_predicted_class_gains_by_each_column(model):
    """With σ held: from the lower to the upper bound of a column, the class gains the entry of that column."""
    record = records(1)
    scores, sigmas = by_hand(model, record, record.numeric[0])
    k, explained = scores.argmax(), model.explain(record)[0]
    for column in range(3):
        low, high = record.numeric[0].copy(), record.numeric[0].copy()
        low[column], high[column] = 0.0, 1.0
        gained = (
            by_hand(model, record, high, sigmas)[0]
            - by_hand(model, record, low, sigmas)[0]
        )
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
    assert np.allclose(
        single.explain(records(), of=np.zeros(7, dtype=int)), single.filters("a")
    )


DRAW = {"inputs": 12, "maps": 3, "constant": 0.5}


@pytest.mark.parametrize("level", [0, 9])
@pytest.mark.parametrize("dimensions", [None, 4, 12])
def test_what_was_trained_on_projected_inputs_is_a_linear_map_of_the_inputs(
    dimensions, level
):
    projection = replace(
        draw_projection(**DRAW, dimensions=dimensions, seed=1), level=level
    )
    groups, outputs, width = projection.shape(classes=2)
    random = np.random.default_rng(0)
    trained = random.normal(size=(groups, outputs, width)).astype(np.float32)
    x = random.normal(size=12).astype(np.float32)
    seen = projection(torch.from_numpy(x)).numpy()
    assert seen.shape == (groups, width)
    answers = np.einsum("gow,gw->go", trained, seen).reshape(3, 2)
    weights, bias = projection.unfold(trained)
    assert weights.shape == (3, 2, 12)
    assert np.allclose(weights @ x + bias, answers, atol=1e-4)


def test_what_the_first_inputs_share_counts_as_one_of_them():
    projection = replace(draw_projection(**DRAW, dimensions=None, seed=1), level=9)
    same, others = (
        torch.tensor([3.0] * 9 + [0.0] * 3),
        torch.tensor([2.0, -2.0] + [0.0] * 7 + [1.0, 2.0, 3.0]),
    )
    assert torch.allclose(projection(same)[0, :12].norm(), torch.tensor(3.0))
    assert torch.allclose(projection(others)[0, :12], others)


def test_a_projection_keeps_lengths_on_average_and_follows_its_seed():
    projection = draw_projection(
        inputs=300, maps=4, dimensions=200, constant=0.0, seed=3
    )
    x = torch.nn.functional.normalize(torch.ones(300), dim=0)
    assert np.allclose(projection(x).norm(dim=1), 1.0, atol=0.25)
    again, other = (
        draw_projection(**DRAW, dimensions=4, seed=seed).matrices for seed in (3, 4)
    )
    assert np.array_equal(draw_projection(**DRAW, dimensions=4, seed=3).matrices, again)
    assert not np.array_equal(again, other)
    assert not np.array_equal(again[0], again[1])


@pytest.mark.parametrize("k", [0, 1, 2])
def test_what_columns_add_is_the_score_above_the_others(trained, unseen, k):
    found = reasons(trained, unseen, of=np.full(6, k))
    assert found.columns == ("u", "v", "c", "flag")
    scores = trained.scores(unseen)
    above = scores[:, k] - np.delete(scores, k, axis=1).mean(axis=1)
    assert found.adds.sum(axis=1) + found.rest == pytest.approx(above, abs=1e-5)


def test_a_column_answers_for_all_of_its_inputs_and_for_no_other(trained, unseen):
    """By hand for one record: v is missing, so its input says so; c has three levels."""
    inputs, record = trained.inputs, unseen.rows(slice(2, 3))
    assert inputs.names == (
        *(
            "u",
            "v",
            "v is missing",
            "c = r",
            "c = g",
            "c is missing",
            "flag = False",
            "flag = True",
        ),
    )
    # Of the numbers in the record only these are not 0, each in units of `scale`.
    seen = {"u": 2 * (record.numeric[0, 0] - 0.25), "v": 1.0, "c": 1.0, "flag": 1.0}
    place = {
        "u": 0,
        "v": 2,
        "c": 3 + record.codes[0, 0],
        "flag": 6 + record.codes[0, 1],
    }
    adds = np.zeros((3, 4))
    for k in range(3):
        weights = trained.importance(record, of=np.array([k]))[0]
        for j, name in enumerate(seen):
            adds[k, j] = (
                weights @ trained.weights[:, k, place[name]] * seen[name] * inputs.scale
            )
    found = reasons(trained, record, of=np.array([1]))
    assert found.adds[0] == pytest.approx(adds[1] - (adds[0] + adds[2]) / 2, abs=1e-5)


def test_what_a_class_answers_to_is_the_mean_of_its_maps_above_the_others(trained):
    weights, spread = answers(trained, "yes")
    no, yes, other = (trained.filters(label) for label in trained.classes)
    assert weights == pytest.approx(
        yes.mean(axis=0) - (no.mean(axis=0) + other.mean(axis=0)) / 2, abs=1e-5
    )
    assert spread == pytest.approx(yes.std(axis=0), abs=1e-5)


@pytest.mark.parametrize(
    "broken",
    [
        {"tensors": {"weights": np.zeros((3, 3, 7), np.float32)}},
        {"tensors": {"bias": np.zeros((3, 2), np.float32)}},
        {"tensors": {"weights": None}},
        {"model": {"temperature": "hot"}},
        {"model": {"centre": None}},
    ],
)
def test_weights_that_do_not_fit_the_schema_are_refused(trained, tmp_path, broken):
    release, tensors, model = read_model(trained.save(tmp_path / "model"))
    tensors = {
        name: value
        for name, value in {**tensors, **broken.get("tensors", {})}.items()
        if value is not None
    }
    write_model(
        tmp_path / "broken",
        release=release,
        tensors=tensors,
        model={**model, **broken.get("model", {})},
    )
    with pytest.raises(ModelError, match="broken: the classifier cannot be rebuilt"):
        LocallyLinear.load(tmp_path / "broken")


def test_a_classifier_and_a_synthesizer_are_not_taken_for_each_other(trained, tmp_path):
    folder = trained.save(tmp_path / "model")
    with pytest.raises(
        ModelError,
        match=r"holds a classifier, which draws no records: .*noisegate explain",
    ):
        Synthesizer.load(folder)
    release, tensors, _ = read_model(folder)
    write_model(
        tmp_path / "other", release=release, tensors=tensors, model={"kind": "mixture"}
    )
    assert json.loads((tmp_path / "other" / MODEL_FILE).read_text())["model"] == {
        "kind": "mixture"
    }
    with pytest.raises(
        ModelError,
        match="holds a model of records, which predicts no label: `noisegate sample`",
    ):
        LocallyLinear.load(tmp_path / "other")
