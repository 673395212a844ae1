"""Attributions of networks: what is known of them exactly, and what is refused."""

import pytest
import torch
from torch import nn

from noisegate.contrib.attributions import integrated_gradients, smooth_gradients
from noisegate.devices import seeded
from noisegate.errors import OptionError, installed

pytestmark = pytest.mark.skipif(not installed("captum"), reason="the extra attributions is not installed")


@pytest.fixture
def network():
    with seeded(3):
        return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).eval()


@pytest.fixture
def records():
    with seeded(4):
        return torch.rand(5, 6)


OF = torch.tensor([0, 2, 1, 0, 2])


def test_integrated_gradients_sum_to_what_the_score_gains_above_the_baseline(network, records):
    found = integrated_gradients(network, records, OF, baseline=0.25)
    gained = (network(records) - network(torch.full_like(records, 0.25))).gather(1, OF[:, None])[:, 0]
    torch.testing.assert_close(found.sum(dim=1), gained.detach(), rtol=1e-4, atol=1e-5)


def test_integrated_gradients_alone_are_those_not_times_the_record(network, records):
    alone = integrated_gradients(network, records, OF, times_inputs=False)
    torch.testing.assert_close(alone * records, integrated_gradients(network, records, OF))


def test_smooth_gradients_are_the_mean_gradient_over_noisy_copies(network, records):
    found = smooth_gradients(network, records, OF, noise=0.5, samples=500, seed=1)
    with seeded(99):
        copies = (records[:, None] + 0.5 * torch.randn(5, 500, 6)).requires_grad_()
    scores = network(copies).gather(2, OF[:, None, None].expand(-1, 500, 1))
    (gradients,) = torch.autograd.grad(scores.sum(), copies)
    error = gradients.std(dim=1) * (2 / 500) ** 0.5
    assert ((found - gradients.mean(dim=1)).abs() < 7 * error).all()
    assert (found < 0).any(), "signs are kept"


def test_smooth_gradients_follow_their_seed_and_leave_that_of_the_caller(network, records):
    torch.manual_seed(7)
    one, drawn = smooth_gradients(network, records, OF, samples=3, seed=1), torch.rand(2)
    torch.manual_seed(7)
    two = smooth_gradients(network, records, OF, samples=3, seed=2)
    assert torch.equal(one, smooth_gradients(network, records, OF, samples=3, seed=1))
    assert not torch.equal(one, two)
    assert torch.equal(drawn, torch.rand(2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "steps=0"),
        ({"of": torch.tensor([0, 1, 2, 3, 0])}, "classes from 0 to 3, expected 0 to 2"),
        ({"of": torch.tensor([0])}, "one for each of 5 records"),
    ],
)
def test_what_cannot_be_attributed_is_refused(network, records, change, message):
    with pytest.raises(OptionError, match=message):
        integrated_gradients(**{"network": network, "records": records, "of": OF, **change})


@pytest.mark.parametrize(("change", "message"), [({"samples": True}, "samples=True"), ({"noise": 0.0}, "noise=0.0")])
def test_copies_that_cannot_be_drawn_are_refused(network, records, change, message):
    with pytest.raises(OptionError, match=message):
        smooth_gradients(network, records, OF, **change)


def test_a_network_in_training_is_refused(network, records):
    with pytest.raises(OptionError, match="training mode"):
        smooth_gradients(network.train(), records, OF)
