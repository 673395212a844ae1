"""What an attacker can reach: bounds that no test beats, and that the best test nearly reaches."""

import numpy as np
import pytest
from scipy.stats import norm
from tests.shared.stated import event_of

from noisegate import Adjacency, Certificate
from noisegate.privacy import accounting
from noisegate.privacy.events import Gaussian, Sampled, Sampler
from noisegate_evaluate.reporting.promise import Tradeoff, tradeoff

ALARMS = [0.0, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.5, 0.9, 1.0]


def certificate(*events, adjacency=Adjacency.ADD_REMOVE, delta=1e-5):
    epsilon = accounting.epsilon(events, delta, adjacency)
    return Certificate(
        epsilon=epsilon,
        delta=delta,
        adjacency=adjacency,
        unit="record",
        events=events,
        method="x",
    )


def gaussian(multiplier, name="sums"):
    noise = {"noise_std": multiplier * 1000, "sampler": Sampler.DISCRETE_GAUSSIAN}
    return Gaussian(name=name, sensitivity=1000, coordinates=4, **noise)


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 4.0, 30.0])
def test_gaussian_sums_have_their_exact_curve(multiplier):
    # The most powerful test of N(0, 1) against N(mu, 1): nothing may be below it, and little above.
    curve = tradeoff(certificate(gaussian(multiplier)))
    mu = 1 / multiplier
    exact = norm.cdf(norm.ppf(ALARMS) + mu)
    found = np.array([curve.catches(alarm) for alarm in ALARMS])
    assert (found >= exact - 1e-12).all()
    assert (found <= exact + 0.01).all()
    assert norm.cdf(mu / 2) <= curve.right <= norm.cdf(mu / 2) + 0.004


def test_no_threshold_on_the_noise_itself_beats_the_curve():
    curve = tradeoff(certificate(gaussian(2.0), gaussian(3.0, "more")))
    draw = np.random.default_rng(0)
    shift = np.array([1 / 2.0, 1 / 3.0])
    without = draw.normal(size=(200_000, 2)) @ shift
    with_it = (draw.normal(size=(200_000, 2)) + shift) @ shift
    for threshold in np.quantile(without, [0.5, 0.9, 0.99]):
        alarms = (without > threshold).mean()
        caught = (with_it > threshold).mean()
        # Ten standard errors of a share: a false failure is not to be expected in a lifetime; two thirds of the noise
        # would be seen at once.
        assert caught <= curve.catches(alarms) + 0.011
        assert caught >= curve.catches(alarms) - 0.03


def test_the_pair_of_a_certificate_alone_gives_the_region_of_epsilon_and_delta():
    curve = Tradeoff(((1.0, 0.01),))
    assert curve.catches(0.0) == pytest.approx(0.01)
    assert curve.catches(0.1) == pytest.approx(np.e * 0.1 + 0.01)
    assert curve.catches(0.9) == pytest.approx(1 - (1 - 0.01 - 0.9) / np.e)
    assert curve.catches(1.0) == 1.0
    # Where both lines meet, guesses at even odds are best.
    best = max(
        (1 - alarm + curve.catches(alarm)) / 2 for alarm in np.linspace(0, 1, 10_001)
    )
    assert curve.right == pytest.approx(best, abs=1e-4)


def test_steps_on_samples_are_no_better_than_their_stated_pair_and_better_than_it_alone():
    noise = {
        "sensitivity": 4000,
        "noise_std": 4000.0,
        "coordinates": 4,
        "sampler": Sampler.CONVOLVED_GAUSSIAN,
    }
    stated = certificate(
        event_of(Sampled, name="gradients", rate=0.01, steps=200, **noise)
    )
    curve = tradeoff(stated)
    alone = Tradeoff(((stated.epsilon, stated.delta),))
    assert 0.5 < curve.right < alone.right
    assert all(curve.catches(alarm) <= alone.catches(alarm) for alarm in ALARMS)
    assert all(alarm <= curve.catches(alarm) <= 1 for alarm in ALARMS)


def test_a_huge_epsilon_promises_nothing_and_overflows_nowhere():
    curve = Tradeoff(((2000.0, 1e-5),))
    assert curve.catches(1e-9) == 1.0
    assert curve.right == pytest.approx(1.0)
