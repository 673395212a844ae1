from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from tests.shared.columns import categorical, continuous

from noisegate import Budget, Gate
from noisegate.schema import Schema
from noisegate_papers.methods.classifiers import DPLLM

SCHEMA = Schema(
    (continuous("u"), continuous("v", missing=True), categorical("c", "rg"), categorical("y", ("no", "yes", "other"))),
    label="y",
)
TINY = DPLLM(
    maps=3, projection=None, steps=12, sampling_probability=0.25, learning_rate=0.5, temperature=2.0, init_std=1.0
)
BUDGET = Budget(epsilon=20.0)


def table(rows=600, seed=0):
    """y is "yes" where exactly one of u and v is large: no single linear map tells it."""
    random = np.random.default_rng(seed)
    u, v = random.random(rows), random.random(rows)
    yes = (u > 0.5) != (v > 0.5)
    columns = {"u": u, "v": pa.array(v, mask=random.random(rows) < 0.02), "c": ["r", "g"] * (rows // 2)}
    return pa.table(columns | {"y": np.where(yes, "yes", "no")})


def gate(rows=600, **options):
    return Gate(table(rows), schema=SCHEMA, **{"epsilon": 20.0, "records": 600, **options})


def accuracy(model, rows=600):
    columns = [column for column in SCHEMA.columns if column.name != "y"]
    from noisegate.data.tables.tables import TableSource

    fresh = table(rows, seed=1)
    encoded = next(iter(TableSource(fresh.drop_columns("y"), Schema(tuple(columns))).batches()))
    found = np.array(model.classes)[model.predictions(encoded)]
    return (found == np.array(fresh["y"].to_pylist())).mean()


@pytest.mark.slow
@pytest.mark.parametrize("projection", [None, 4])
def test_several_maps_learn_what_one_map_cannot(projection):
    """Two-sided: one map of each class is logistic regression, which cannot tell it."""
    method = replace(
        TINY,
        maps=8,
        projection=projection,
        steps=120,
        sampling_probability=0.1,
        learning_rate=0.6,
        clip_norm=0.3,
        init_std=4.0,
    )
    assert accuracy(method.fit(gate(2400, epsilon=100.0, records=2400))) > 0.85
    if projection is None:
        assert accuracy(replace(method, maps=1).fit(gate(2400, epsilon=100.0, records=2400))) < 0.75


def test_the_loss_is_the_cross_entropy_of_the_models_scores():
    answers = torch.randn((3, 3), generator=torch.Generator().manual_seed(0))
    scores = torch.stack([torch.softmax(answers[:, k] / 2.0, dim=0) @ answers[:, k] for k in range(3)])
    loss = TINY.loss(SCHEMA).loss
    for label in range(3):
        expected = torch.nn.functional.cross_entropy(scores[None], torch.tensor([label]))
        assert torch.isclose(loss(answers[None], torch.zeros(2), torch.tensor([0, label])), expected)


def test_steps_are_those_of_adam_with_a_rate_that_falls_each_quarter():
    plan = replace(TINY, steps=8).plan(SCHEMA, BUDGET)
    training = replace(TINY, steps=8, decay=0.5).training(SCHEMA, plan, 10.0, "cpu")
    weight = torch.nn.Parameter(training.result()["weight"].clone())
    adam = torch.optim.Adam([weight], lr=TINY.learning_rate)
    schedule = torch.optim.lr_scheduler.StepLR(adam, 2, gamma=0.5)
    random = torch.Generator().manual_seed(0)
    for _ in range(8):
        noisy = torch.randn(weight.shape, generator=random)
        training.step({"weight": noisy})
        weight.grad = noisy / 10.0
        adam.step()
        schedule.step()
    assert torch.allclose(training.result()["weight"], weight, atol=1e-6)
