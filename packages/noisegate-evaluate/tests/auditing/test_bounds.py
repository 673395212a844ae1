"""The bounds of an audit hold as often as they say, and say much: exact cases and simulated attackers."""

import math

import numpy as np
import pytest
from scipy import stats
from tests.shared.stated import sampled, summed

from noisegate.privacy.events import Adjacency, Sampler, ZeroConcentrated
from noisegate_evaluate.auditing import bounds

GAUSSIAN = summed(sensitivity=2.0**20, noise_std=2.0**20)
SAMPLED = sampled(
    rate=1.0,
    steps=1,
    sensitivity=2.0**20,
    noise_std=2.0**20,
    sampler=Sampler.DISCRETE_GAUSSIAN,
)


def test_limits_of_the_spread_hold_as_often_as_they_say():
    random = np.random.default_rng(0)
    found = [bounds.spread_limits(random.normal(size=30) * 2, 0.2) for _ in range(1000)]
    missed = np.mean([not low <= 2 <= high for low, high in found])
    assert 0.16 < missed < 0.24
    assert bounds.spread_limits([], 0.2) == (0.0, math.inf)
    # Given as the root of a sum of squares, the same.
    assert bounds.spread_limits([3.0, 4.0], 0.1) == pytest.approx(
        bounds.spread_limits(5.0, 0.1, degrees=2)
    )


def test_limits_of_a_rate_are_exact():
    low, high = bounds.rate_limits(7, 20, 0.1)
    assert stats.binom(20, low).sf(6) == pytest.approx(0.05)
    assert stats.binom(20, high).cdf(7) == pytest.approx(0.05)
    assert bounds.rate_limits(0, 5, 0.1)[0] == 0
    assert bounds.rate_limits(5, 5, 0.1)[1] == 1


@pytest.mark.parametrize("event", [GAUSSIAN, SAMPLED])
@pytest.mark.parametrize("times", [0.5, 3.0])
def test_a_perfect_attacker_of_a_gaussian_finds_most_of_it_and_never_more(event, times):
    """Rates are the exact ones of N(0, 1) against N(times, 1), of so many runs that limits hardly matter."""
    runs = 100_000
    threshold = times / 2
    hits = np.arange(runs) < runs * stats.norm.cdf(times - threshold)
    alarms = np.arange(runs) < runs * stats.norm.sf(threshold)
    found = bounds.sensitivity_factor([event], Adjacency.ADD_REMOVE, hits, alarms, 1e-4)
    assert 0.85 * times < found <= times


def test_guesses_at_random_say_nothing_and_perfect_ones_much():
    random = np.random.default_rng(0)
    coins = random.uniform(size=(2, 200)) < 0.5
    assert (
        bounds.sensitivity_factor([GAUSSIAN], Adjacency.ADD_REMOVE, *coins, 1e-4) == 0
    )
    yes = np.ones(200, dtype=bool)
    assert (
        bounds.sensitivity_factor([GAUSSIAN], Adjacency.ADD_REMOVE, yes, ~yes, 1e-4) > 2
    )
    concentrated = ZeroConcentrated(name="z", rho=0.01, mechanism="m")
    assert (
        bounds.sensitivity_factor([concentrated], Adjacency.ADD_REMOVE, yes, ~yes, 1e-4)
        > 2
    )
    assert bounds.more_sensitive(concentrated, 2.0).rho == 0.04


def test_the_bound_of_one_run_on_guesses_at_random_and_on_perfect_ones():
    random = np.random.default_rng(1)
    coins = random.uniform(size=6000) < 0.5

    def bound(scores):
        return bounds.one_run_epsilon(
            bounds.count_right_guesses(coins, scores, 200),
            200,
            len(coins),
            delta=1e-8,
            chance=2.5e-5,
        )

    assert bound(random.normal(size=6000)) == 0
    # With all of 200 guesses right, ε = −ln(chance^(−1/200) − 1) would do without δ.
    assert 2.5 < bound(coins + random.normal(size=6000) / 100) < 3.2


def test_randomised_response_is_not_found_to_be_worse_than_it_is():
    """Each coin is told with e^ε/(1 + e^ε): the bound exceeds ε with the chance that is stated at most."""
    random = np.random.default_rng(2)
    epsilon = 1.0
    above = 0
    found = []
    for _ in range(50):
        right = random.binomial(400, 1 / (1 + math.exp(-epsilon)))
        found.append(bounds.one_run_epsilon(right, 400, 400, delta=0.0, chance=0.05))
        above += found[-1] > epsilon
    assert above <= 12  # 2.5 are expected at most; more than 12 has a chance below 1e-5
    assert np.median(found) > 0.7 * epsilon
