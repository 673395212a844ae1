"""The closed form of the Gaussian mechanism, against SciPy and dp_accounting, over the whole range that is allowed."""

import math
from dataclasses import replace

import dp_accounting
import numpy as np
import pytest
from scipy import special

from noisegate.privacy import accounting, composition
from noisegate.privacy.composition import (
    DominatingPair,
    StepKind,
    lattice_losses,
)

EPSILONS = (0.01, 0.1, 1.0, 3.3, 10.0, 100.0, 1000.0)
DELTAS = (1e-12, 1e-9, 1e-5, 1e-2, 0.4)


def test_the_logarithm_of_the_normal_distribution_function():
    points = np.concatenate(
        [np.linspace(-40, 8, 4801), -np.geomspace(25, 1e6, 60), [-25.0, 0.0]]
    )
    ours = np.array([accounting._log_normal_cdf(float(x)) for x in points])
    assert np.allclose(ours, special.log_ndtr(points), rtol=2e-12, atol=1e-16)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_curve_agrees_with_dp_accounting_both_ways(epsilon, delta):
    mu = accounting.mu_for(epsilon, delta)
    assert 1 / mu == pytest.approx(
        dp_accounting.get_sigma_gaussian(epsilon, delta, tol=1e-14), rel=1e-6
    )
    epsilon_of_mu = accounting.gaussian_epsilon(mu, delta)
    assert epsilon_of_mu == pytest.approx(
        dp_accounting.get_epsilon_gaussian(1 / mu, delta), rel=1e-6, abs=1e-10
    )
    assert epsilon * (1 - 1e-6) <= epsilon_of_mu <= epsilon


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("mu", [1e-3, 0.03, 0.5, 2.0, 17.0, 40.0])
def test_the_epsilon_is_an_upper_bound(mu, delta):
    # dp_accounting's own curve at our epsilon: δ must not be above what was asked, but for its rounding.
    delta_of_oracle = accounting.gaussian_epsilon(mu, delta)
    log_delta = dp_accounting.gaussian_mechanism._get_log_delta(1 / mu, delta_of_oracle)
    assert log_delta <= math.log(delta) + 1e-10
    if delta_of_oracle > 0:
        assert dp_accounting.gaussian_mechanism._get_log_delta(
            1 / mu, delta_of_oracle * (1 - 1e-6)
        ) > math.log(delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_both_roots_lie_on_the_safe_side_by_more_than_rounding(epsilon, delta):
    mu = accounting.mu_for(epsilon, delta)
    assert accounting.log_delta(mu, epsilon) < math.log(delta)
    assert accounting.log_delta(mu * (1 + 1e-7), epsilon) > math.log(delta)
    above = accounting.gaussian_epsilon(mu * 1.5, delta)
    assert (
        accounting.log_delta(mu * 1.5, above)
        < math.log(delta)
        < accounting.log_delta(mu * 1.5, above * (1 - 1e-7))
    )


def test_no_noise_to_speak_of_and_no_query_at_all():
    assert accounting.log_delta(0.0, 1.0) == -math.inf
    assert accounting.gaussian_epsilon(1e-12, 1e-5) == 0.0
    assert accounting.gaussian_epsilon(1e200, 1e-5) == math.inf


def test_losses_are_raised_by_their_widening_at_every_delta():
    """By how far outcomes may be from their losses, the composed losses are raised as a whole."""
    pair = DominatingPair(p_is_mixture=True, q_is_mixture=False)
    step = StepKind(rate=0.1, shift=1.0, count=20)
    losses = lattice_losses(step, pair, 0.01, 9.0)
    assert losses is not None
    composed = composition._compose([losses], tilt=2.0)
    assert composed is not None
    exact = replace(composed, widening=0.0)
    raised = replace(composed, widening=0.25)
    for delta in (1e-9, 1e-5, 1e-2, 0.5, 1.0):
        assert raised.epsilon(delta) == pytest.approx(exact.epsilon(delta) + 0.25)
