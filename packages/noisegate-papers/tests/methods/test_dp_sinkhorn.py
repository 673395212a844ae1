"""DP-Sinkhorn: the gate hands out one clipped gradient of a whole sample a step, and the generator follows it."""

import pytest
import torch

from noisegate import DPSinkhorn, Gate
from noisegate_papers.training.teachers import transport_gradient, transport_plan

from .test_sharded import SCHEMA, people


def gate_of(epsilon=5.0, data=None, schema=SCHEMA, **options):
    data = people() if data is None else data
    return Gate(data, schema=schema, epsilon=epsilon, records=len(data), **options)


@pytest.mark.slow
def test_with_little_noise_each_label_comes_to_its_records():
    # In twelve runs the means were 0.55 to 0.73 apart, with a standard deviation of 0.05; the records' are 0.7 apart.
    method = DPSinkhorn(steps=300, sampling_probability=0.2, hidden=(16,), latent=4, batch=16, learning_rate=1e-2)
    made = method.fit(gate_of(epsilon=900.0), device="cpu").sample(400, seed=0).to_pandas()
    means = made.groupby("ill").a.mean()
    assert means[True] - means[False] > 0.3


def test_a_plan_has_the_weights_of_both_sets():
    cost = torch.rand(5, 8, generator=torch.Generator().manual_seed(0))
    plan = transport_plan(cost, 0.1, 200)
    torch.testing.assert_close(plan.sum(dim=1), torch.full((5,), 1 / 5))
    torch.testing.assert_close(plan.sum(dim=0), torch.full((8,), 1 / 8))


def test_nearly_without_regularisation_it_is_the_assignment():
    places = torch.tensor([[0.0], [1.0], [2.0]])
    plan = transport_plan((places - (places[[2, 0, 1]] + 0.1).T).square(), 1e-3, 500)
    torch.testing.assert_close(3 * plan, torch.eye(3)[:, [2, 0, 1]], atol=1e-4, rtol=0)


@pytest.mark.slow
def test_following_the_gradient_moves_records_to_those_of_their_label():
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(10) % 2
    real = torch.randn(30, 2, generator=random) * 0.1 + 3 * (torch.arange(30) % 2)[:, None], torch.arange(30) % 2
    made = torch.randn(10, 2, generator=random) + 1.5
    for _ in range(600):
        options = {"first": 10, "label_cost": 10.0, "regularisation": 0.05, "iterations": 30}
        made -= 0.15 * transport_gradient((made, labels), real, **options)
    assert made[labels == 0].mean() == pytest.approx(0, abs=0.4)
    assert made[labels == 1].mean() == pytest.approx(3, abs=0.4)


def test_fresh_records_are_in_the_term_that_takes_off_the_bias_alone():
    random = torch.Generator().manual_seed(0)
    made, labels = torch.randn(14, 2, generator=random), torch.zeros(14, dtype=torch.long)
    options = {"first": 10, "label_cost": 1.0, "regularisation": 0.5, "iterations": 30}
    found = [
        transport_gradient((made, labels), (torch.randn(6, 2, generator=random) + far, labels[:6]), **options)
        for far in (0, 5)
    ]
    assert torch.equal(found[0][10:], found[1][10:])
    assert not torch.equal(found[0][:10], found[1][:10])


def test_an_empty_sample_does_not_pull():
    made, real = (torch.ones(6, 2), torch.zeros(6).long()), (torch.ones(0, 2), torch.zeros(0).long())
    options = {"first": 4, "label_cost": 1.0, "regularisation": 0.1, "iterations": 3}
    assert not transport_gradient(made, real, **options).any()
