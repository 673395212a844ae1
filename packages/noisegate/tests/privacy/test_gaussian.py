"""The closed form of the Gaussian mechanism, against SciPy and dp_accounting, over the whole range that is allowed."""

import math

import dp_accounting
import numpy as np
import pytest
from scipy import special

from noisegate.privacy import accounting

EPSILONS = (0.01, 0.1, 1.0, 3.3, 10.0, 100.0, 1000.0)
DELTAS = (1e-12, 1e-9, 1e-5, 1e-2, 0.4)


def test_the_logarithm_of_the_normal_distribution_function():
    points = np.concatenate([np.linspace(-40, 8, 4801), -np.geomspace(25, 1e6, 60), [-25.0, 0.0]])
    ours = np.array([accounting._log_normal_cdf(float(x)) for x in points])
    assert np.allclose(ours, special.log_ndtr(points), rtol=2e-12, atol=1e-16)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_curve_agrees_with_dp_accounting_both_ways(epsilon, delta):
    mu = accounting.mu_for(epsilon, delta)
    assert 1 / mu == pytest.approx(dp_accounting.get_sigma_gaussian(epsilon, delta, tol=1e-14), rel=1e-6)
    found = accounting.gaussian_epsilon(mu, delta)
    assert found == pytest.approx(dp_accounting.get_epsilon_gaussian(1 / mu, delta), rel=1e-6, abs=1e-10)
    assert epsilon * (1 - 1e-6) <= found <= epsilon


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("mu", [1e-3, 0.03, 0.5, 2.0, 17.0, 40.0])
def test_the_epsilon_is_an_upper_bound(mu, delta):
    # dp_accounting's own curve at our epsilon: δ must not be above what was asked, but for its rounding.
    found = accounting.gaussian_epsilon(mu, delta)
    log_delta = dp_accounting.gaussian_mechanism._get_log_delta(1 / mu, found)
    assert log_delta <= math.log(delta) + 1e-10
    if found > 0:
        assert dp_accounting.gaussian_mechanism._get_log_delta(1 / mu, found * (1 - 1e-6)) > math.log(delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_both_roots_lie_on_the_safe_side_by_more_than_rounding(epsilon, delta):
    mu = accounting.mu_for(epsilon, delta)
    assert accounting.log_delta(mu, epsilon) < math.log(delta)
    assert accounting.log_delta(mu * (1 + 1e-7), epsilon) > math.log(delta)
    above = accounting.gaussian_epsilon(mu * 1.5, delta)
    assert accounting.log_delta(mu * 1.5, above) < math.log(delta) < accounting.log_delta(mu * 1.5, above * (1 - 1e-7))


def test_no_noise_to_speak_of_and_no_query_at_all():
    assert accounting.log_delta(0.0, 1.0) == -math.inf and accounting.gaussian_epsilon(1e-12, 1e-5) == 0.0
    assert accounting.gaussian_epsilon(1e200, 1e-5) == math.inf
