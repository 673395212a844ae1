"""DP-Sinkhorn: the gate hands out one clipped gradient of a whole sample a step, and the generator follows it."""

import numpy as np
import pytest
import torch

from noisegate import Budget, DPSinkhorn, Gate
from noisegate_papers.training.transport import transport_gradient, transport_plan

from .test_sharded import SCHEMA, people


def gate_of(epsilon=5.0, data=None, schema=SCHEMA, **options):
    data = people() if data is None else data
    return Gate(data, schema=schema, epsilon=epsilon, records=len(data), **options)


@pytest.mark.slow
def test_with_little_noise_each_label_comes_to_its_records():
    # The means of the records are 0.7 apart.
    method = DPSinkhorn(
        steps=300,
        sampling_probability=0.2,
        hidden=(16,),
        latent=4,
        batch=16,
        learning_rate=1e-2,
    )
    made = (
        method.fit(gate_of(epsilon=900.0), device="cpu").sample(400, seed=0).to_pandas()
    )
    means = made.groupby("ill").a.mean()
    assert means[True] - means[False] > 0.3


def test_a_plan_has_the_weights_of_both_sets():
    cost, shares = (
        torch.rand(5, 4, generator=torch.Generator().manual_seed(0)),
        torch.tensor([0.1, 0.0, 0.3, 0.6]),
    )
    plan = transport_plan(cost, shares, 0.1, 200)
    torch.testing.assert_close(plan.sum(dim=1), torch.full((5,), 1 / 5))
    torch.testing.assert_close(plan.sum(dim=0), shares)


def test_nearly_without_regularisation_it_is_the_assignment():
    places = torch.tensor([[0.0], [1.0], [2.0]])
    plan = transport_plan(
        (places - (places[[2, 0, 1]] + 0.1).T).square(),
        torch.full((3,), 1 / 3),
        1e-3,
        500,
    )
    torch.testing.assert_close(3 * plan, torch.eye(3)[:, [2, 0, 1]], atol=1e-4, rtol=0)


ALIKE = torch.zeros(80, dtype=torch.long)  # labels


def gradient_of(made, real, **options):
    """Returns what pulls on generated records and their labels, of which the first ten are X₁."""
    given = {
        "first": 10,
        "label_cost": 10.0,
        "regularisation": 0.05,
        "iterations": 50,
        **options,
    }
    return transport_gradient(made, real, **given)


@pytest.mark.slow
def test_following_the_gradient_moves_records_to_those_of_their_label():
    random, labels = torch.Generator().manual_seed(0), torch.arange(60) % 2
    real = torch.randn(60, 2, generator=random) * 0.1 + 3 * labels[:, None], labels
    made = torch.randn(10, 2, generator=random) + 1.5
    for _ in range(600):
        made -= 0.075 * gradient_of((made, labels[:10]), real)
    assert made[0::2].mean() == pytest.approx(0, abs=0.4) and made[
        1::2
    ].mean() == pytest.approx(3, abs=0.4)


def test_shares_of_labels_need_not_be_those_of_the_records():
    labels = torch.tensor([0, 1]).repeat(5)
    real = (
        3.0 * (torch.arange(40) % 10 == 0)[:, None].expand(-1, 2),
        (torch.arange(40) % 10 == 0).long(),
    )
    made = 3.0 * labels[:, None].expand(-1, 2)
    assert gradient_of((made, labels), real).abs().max() < 1e-3


def test_records_of_one_distribution_do_not_pull_on_average():
    random, pulls = torch.Generator().manual_seed(0), []
    for _ in range(100):
        made, real = (
            torch.randn(20, 8, generator=random),
            torch.randn(80, 8, generator=random),
        )
        pulls.append(
            float((made * gradient_of((made, ALIKE[:20]), (real, ALIKE))).sum())
        )
    # Against all real records at once it is more than half a standard deviation: each comes to the middle of several.
    assert abs(np.mean(pulls)) < 0.25 * np.std(pulls)


def test_fresh_records_have_the_labels_of_those_that_they_stand_in_for():
    method = DPSinkhorn(steps=3, hidden=(4,), latent=2, batch=10)
    plan = method.plan(SCHEMA, Budget(epsilon=1.0))
    labels = method.training(SCHEMA, plan, 5.0, "cpu").parameters()["labels"]
    assert len(labels) == 14 and torch.equal(labels[10:], labels[:4])


def test_fresh_records_are_in_the_term_that_takes_off_the_bias_alone():
    made, real = (
        torch.randn(14, 2, generator=torch.Generator().manual_seed(0)),
        torch.zeros(6, 2),
    )
    found = [gradient_of((made, ALIKE[:14]), (real + far, ALIKE[:6])) for far in (0, 5)]
    assert torch.equal(found[0][10:], found[1][10:]) and not torch.equal(
        found[0][:10], found[1][:10]
    )


def test_an_empty_sample_does_not_pull():
    assert not gradient_of(
        (torch.ones(14, 2), ALIKE[:14]), (torch.ones(0, 2), ALIKE[:0])
    ).any()
