from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import torch

from noisegate import Budget, Gate
from noisegate.errors import ModelError, OptionError
from noisegate.schema import pixel_schema
from noisegate_images.training.adam import NoisyMomentum
from noisegate_papers.methods.classifiers import DPSGD
from noisegate_papers.models.released_classifier import load_classifier

from .test_llm import SCHEMA, accuracy, gate

TINY = DPSGD(hidden=(6,), steps=5, sampling_probability=0.25)
IMAGES = DPSGD(image=(8, 8, 1), width=4, depth=1, steps=2, sampling_probability=0.1)
BUDGET = Budget(epsilon=20.0)


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [(24,), pytest.param((), marks=pytest.mark.slow)])
def test_a_network_learns_what_no_linear_map_can(hidden):
    """Two-sided: without a hidden layer it is logistic regression, which cannot tell it."""
    method = replace(TINY, hidden=hidden, steps=120, sampling_probability=0.1, learning_rate=0.5)
    score = accuracy(method.fit(gate(rows=2400, epsilon=100.0, records=2400)))
    assert score > 0.85 if hidden else score < 0.7


def test_the_public_number_divides_the_sums_and_not_the_true_one(monkeypatch):
    seen, training = [], DPSGD.training

    def spy(self, schema, plan, batch, device):
        seen.append(batch)
        return training(self, schema, plan, batch, device)

    monkeypatch.setattr(DPSGD, "training", spy)
    TINY.query(gate(rows=400, records=1000))
    assert seen == [250.0]


def test_the_loss_is_the_cross_entropy_of_the_networks_answer():
    network = TINY._network(SCHEMA)
    numeric, codes = torch.tensor([0.25, float("nan")]), torch.tensor([1, 2])
    # Twice the distance from the middle; nothing where it is missing; that it is; the levels of c.
    logits = network(torch.tensor([[-0.5, 0.0, 1.0, 0.0, 1.0]]))
    right = torch.nn.functional.cross_entropy(logits, torch.tensor([2]))
    assert torch.isclose(TINY.loss(SCHEMA)(dict(network.named_parameters()), numeric, codes), right)


def test_steps_are_those_of_sgd_with_momentum_and_the_average_is_kept():
    start = {"w": torch.randn(3, 2, generator=torch.Generator().manual_seed(0))}
    options = {"learning_rate": 0.3, "momentum": 0.8, "batch": 10.0, "device": "cpu"}
    training = NoisyMomentum(start, ema_decay=0.5, **options)
    resumed = NoisyMomentum({"w": torch.zeros(3, 2)}, ema_decay=0.5, **options)
    weight = torch.nn.Parameter(start["w"].clone())
    descent, average = torch.optim.SGD([weight], lr=0.3, momentum=0.8), start["w"].clone()
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
    before = TINY.classifier(TINY.query(gate()))
    before.save(tmp_path / "before")
    after = replace(TINY, start=str(tmp_path / "before"))
    plan = after.plan(SCHEMA, BUDGET)
    began = after.training(SCHEMA, plan, 1.0, "cpu").parameters()
    assert all(np.array_equal(began[name].numpy(), before.weights[name]) for name in began)
    release = after.query(gate())
    assert release.certificate.public["start_certificate"] == before.certificate.digest()
    assert release.certificate.check() <= 20.0
    with pytest.raises(OptionError, match=r"a perceptron with hidden layers \[6\] .* \[7\] is to be trained"):
        replace(after, hidden=(7,)).query(gate())


def test_weights_of_another_network_are_refused(tmp_path):
    made = TINY.classifier(TINY.query(gate()))
    other = replace(made, design=replace(made.design, hidden=(7,)))
    with pytest.raises(ModelError, match="cannot be rebuilt: the weights are not those of a perceptron"):
        load_classifier(other.save(tmp_path / "model"))


def test_images_are_seen_by_a_convnet_and_gradients_reach_the_pixels():
    schema = pixel_schema(8, 8, labels=("across", "down"))
    pixels = np.random.default_rng(0).integers(0, 256, (60, 64))
    columns = [*(pa.array(column) for column in pixels.T), pa.array(["across", "down"] * 30)]
    made = IMAGES.fit(Gate(pa.table(columns, names=list(schema.names)), schema=schema, epsilon=20.0, records=60))
    seen = torch.rand(2, 64, requires_grad=True)
    made.module(seen)[:, 1].sum().backward()
    assert bool(seen.grad.abs().sum() > 0)
