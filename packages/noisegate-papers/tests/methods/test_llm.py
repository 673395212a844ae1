from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch
from tests.shared.columns import categorical, continuous

from noisegate import Budget, Gate
from noisegate.errors import ModelError, OptionError
from noisegate.schema import Schema, pixel_schema
from noisegate.sources.tables.tables import TableSource
from noisegate_images.training.adam import NoisyMomentum
from noisegate_papers.methods.dp_llm import DPLLM
from noisegate_papers.methods.dp_sgd import DPSGD
from noisegate_papers.models.released_classifier import load_classifier

SCHEMA = Schema(
    (
        continuous("u"),
        continuous("v", missing=True),
        categorical("c", "rg"),
        categorical("y", ("no", "yes", "other")),
    ),
    label="y",
)
TINY = DPLLM(
    maps=3,
    projection=None,
    steps=12,
    sampling_probability=0.25,
    learning_rate=0.5,
    temperature=2.0,
    init_std=1.0,
)
BUDGET = Budget(epsilon=20.0)


def table(rows=600, seed=0):
    """y is "yes" where exactly one of u and v is large: no single linear map tells it."""
    random = np.random.default_rng(seed)
    u, v = random.random(rows), random.random(rows)
    yes = (u > 0.5) != (v > 0.5)
    columns = {
        "u": u,
        "v": pa.array(v, mask=random.random(rows) < 0.02),
        "c": ["r", "g"] * (rows // 2),
    }
    return pa.table(columns | {"y": np.where(yes, "yes", "no")})


def gate(rows=600, **options):
    return Gate(
        table(rows), schema=SCHEMA, **{"epsilon": 20.0, "records": 600, **options}
    )


def accuracy(model, rows=600):
    columns = [column for column in SCHEMA.columns if column.name != "y"]
    fresh = table(rows, seed=1)
    encoded = next(
        iter(TableSource(fresh.drop_columns("y"), Schema(tuple(columns))).batches())
    )
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
        assert (
            accuracy(
                replace(method, maps=1).fit(gate(2400, epsilon=100.0, records=2400))
            )
            < 0.75
        )


def test_the_loss_is_the_cross_entropy_of_the_models_scores():
    answers = torch.randn((3, 3), generator=torch.Generator().manual_seed(0))
    scores = torch.stack(
        [torch.softmax(answers[:, k] / 2.0, dim=0) @ answers[:, k] for k in range(3)]
    )
    loss = TINY.loss(SCHEMA).loss
    for label in range(3):
        expected = torch.nn.functional.cross_entropy(
            scores[None], torch.tensor([label])
        )
        assert torch.isclose(
            loss(answers[None], torch.zeros(2), torch.tensor([0, label])), expected
        )


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


# Dp sgd.

DP_SGD_TINY = DPSGD(hidden=(6,), steps=5, sampling_probability=0.25)
IMAGES = DPSGD(image=(8, 8, 1), width=4, depth=1, steps=2, sampling_probability=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [(24,), pytest.param((), marks=pytest.mark.slow)])
def test_a_network_learns_what_no_linear_map_can(hidden):
    """Two-sided: without a hidden layer it is logistic regression, which cannot tell it."""
    method = replace(
        DP_SGD_TINY,
        hidden=hidden,
        steps=120,
        sampling_probability=0.1,
        learning_rate=0.5,
    )
    score = accuracy(method.fit(gate(rows=2400, epsilon=100.0, records=2400)))
    assert score > 0.85 if hidden else score < 0.7


def test_the_public_number_divides_the_sums_and_not_the_true_one(monkeypatch):
    seen, training = [], DPSGD.training

    def spy(self, schema, plan, batch, device):
        seen.append(batch)
        return training(self, schema, plan, batch, device)

    monkeypatch.setattr(DPSGD, "training", spy)
    DP_SGD_TINY.query(gate(rows=400, records=1000))
    assert seen == [250.0]


def test_the_loss_is_the_cross_entropy_of_the_networks_answer():
    network = DP_SGD_TINY._network(SCHEMA)
    numeric, codes = torch.tensor([0.25, float("nan")]), torch.tensor([1, 2])
    # Twice the distance from the middle; nothing where it is missing; that it is; the levels of c.
    logits = network(torch.tensor([[-0.5, 0.0, 1.0, 0.0, 1.0]]))
    right = torch.nn.functional.cross_entropy(logits, torch.tensor([2]))
    assert torch.isclose(
        DP_SGD_TINY.loss(SCHEMA)(dict(network.named_parameters()), numeric, codes),
        right,
    )


def test_steps_are_those_of_sgd_with_momentum_and_the_average_is_kept():
    start = {"w": torch.randn(3, 2, generator=torch.Generator().manual_seed(0))}
    options = {"learning_rate": 0.3, "momentum": 0.8, "batch": 10.0, "device": "cpu"}
    training = NoisyMomentum(start, ema_decay=0.5, **options)
    resumed = NoisyMomentum({"w": torch.zeros(3, 2)}, ema_decay=0.5, **options)
    weight = torch.nn.Parameter(start["w"].clone())
    descent, average = (
        torch.optim.SGD([weight], lr=0.3, momentum=0.8),
        start["w"].clone(),
    )
    random = torch.Generator().manual_seed(1)
    for step in range(15):
        noisy = torch.randn(3, 2, generator=random)
        if step == 7:
            resumed.load_state_dict(training.state_dict())
        for one in [training] + [resumed] * (step >= 7):
            one.step({"w": noisy})
        weight.grad = noisy / 10.0
        descent.step()
        kept = min(0.5, (1 + step) / (10 + step))
        average = kept * average + (1 - kept) * weight.detach()
    assert torch.allclose(training.parameters()["w"], weight, atol=1e-6)
    assert torch.allclose(training.result()["w"], average, atol=1e-6)
    assert torch.equal(resumed.result()["w"], training.result()["w"])


def test_a_training_goes_on_from_a_classifier_that_was_released(tmp_path):
    before = DP_SGD_TINY.classifier(DP_SGD_TINY.query(gate()))
    before.save(tmp_path / "before")
    after = replace(DP_SGD_TINY, start=str(tmp_path / "before"))
    plan = after.plan(SCHEMA, BUDGET)
    began = after.training(SCHEMA, plan, 1.0, "cpu").parameters()
    assert all(
        np.array_equal(began[name].numpy(), before.weights[name]) for name in began
    )
    release = after.query(gate())
    assert (
        release.certificate.public["start_certificate"] == before.certificate.digest()
    )
    assert release.certificate.check() <= 20.0
    with pytest.raises(
        OptionError,
        match=r"a perceptron with hidden layers \[6\] .* \[7\] is to be trained",
    ):
        replace(after, hidden=(7,)).query(gate())


def test_weights_of_another_network_are_refused(tmp_path):
    made = DP_SGD_TINY.classifier(DP_SGD_TINY.query(gate()))
    other = replace(made, design=replace(made.design, hidden=(7,)))
    with pytest.raises(
        ModelError, match="cannot be rebuilt: the weights are not those of a perceptron"
    ):
        load_classifier(other.save(tmp_path / "model"))


def test_images_are_seen_by_a_convnet_and_gradients_reach_the_pixels():
    schema = pixel_schema(8, 8, labels=("across", "down"))
    pixels = np.random.default_rng(0).integers(0, 256, (60, 64))
    columns = [
        *(pa.array(column) for column in pixels.T),
        pa.array(["across", "down"] * 30),
    ]
    made = IMAGES.fit(
        Gate(
            pa.table(columns, names=list(schema.names)),
            schema=schema,
            epsilon=20.0,
            records=60,
        )
    )
    seen = torch.rand(2, 64, requires_grad=True)
    made.module(seen)[:, 1].sum().backward()
    assert bool(seen.grad.abs().sum() > 0)
