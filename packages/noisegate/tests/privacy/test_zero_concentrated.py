"""zCDP to (ε, δ) and back, against dp_accounting, and its place in the composition of events."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant
from tests.shared.stated import summed

from noisegate.errors import CalibrationError
from noisegate.privacy import accounting, events

from .conftest import sampled_event

EPSILONS = (0.01, 0.1, 1.0, 3.3, 10.0, 100.0, 1000.0)
DELTAS = (1e-12, 1e-9, 1e-5, 1e-2)
RHO = events.ZeroConcentrated(name="aim", rho=0.03, mechanism="AIM")


def gaussian_event(mu, name="sum"):
    """The event whose charge is exactly μ: the discrete Gaussian is charged with a variance smaller by 4."""
    noise = math.sqrt((1e4 / mu) ** 2 + 4)
    return summed(name=name, sensitivity=1e4, noise_std=noise, coordinates=10)


def theirs(rho, delta):
    orders = 1 + np.geomspace(0.011, 1e7, 8_000)
    return rdp_privacy_accountant.compute_epsilon(orders, orders * rho, delta)[0]


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", (0.1, 1.0, 10.0, 1000.0))
def test_the_conversion_agrees_with_dp_accounting(epsilon, delta):
    rho = accounting.rho_for(epsilon, delta)
    assert accounting.zcdp_epsilon(rho, delta) == pytest.approx(
        theirs(rho, delta), rel=2e-6
    )


def in_fifty_digits(excess, rho, delta):
    """The formula of Canonne, Kamath and Steinke at α = 1 + `excess`."""
    one, excess, rho, delta = (Decimal(number) for number in (1, excess, rho, delta))
    alpha = one + excess
    return (
        alpha * rho
        + (-delta.ln() + excess * (one - one / alpha).ln() - alpha.ln()) / excess
    )


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_what_is_stated_stands_a_billionth_above_the_least_of_all_orders(
    epsilon, delta
):
    rho = accounting.rho_for(epsilon, delta)
    with localcontext() as context:
        context.prec = 50
        low = 1e-3
        high = 1e9
        for _ in range(200):
            left = low ** (2 / 3) * high ** (1 / 3)
            right = low ** (1 / 3) * high ** (2 / 3)
            if in_fifty_digits(left, rho, delta) < in_fifty_digits(right, rho, delta):
                high = right
            else:
                low = left
        least = in_fifty_digits(low, rho, delta)
        excess = float(Decimal(accounting.zcdp_epsilon(rho, delta)) / least - 1)
    assert 0.9e-9 < excess < 1.1e-9


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_root_is_on_the_safe_side_and_tight(epsilon, delta):
    rho = accounting.rho_for(epsilon, delta)
    assert accounting.zcdp_epsilon(rho, delta) <= epsilon
    assert accounting.zcdp_epsilon(rho * (1 + 1e-6), delta) > epsilon


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 5.0])
def test_a_gaussian_costs_no_less_through_zcdp_than_exactly(mu, delta):
    through = accounting.zcdp_epsilon(accounting.rho_of_gaussian(mu), delta)
    exact = accounting.gaussian_epsilon(mu, delta)
    assert exact <= through <= 1.35 * exact + 0.1


def test_events_in_zcdp_add_up():
    twice = accounting.epsilon((RHO, RHO), 1e-5)
    assert twice == pytest.approx(accounting.zcdp_epsilon(0.06, 1e-5), rel=1e-12)
    assert twice >= accounting.zcdp_epsilon(0.06, 1e-5)


def test_gaussian_events_join_them_with_half_the_square_of_mu():
    together = accounting.epsilon((gaussian_event(0.2), RHO, gaussian_event(0.1)), 1e-5)
    assert together == pytest.approx(
        accounting.zcdp_epsilon(0.03 + 0.05 / 2, 1e-5), rel=1e-9
    )


def test_a_rounded_gaussian_beside_them_still_pays_its_distance_in_delta():
    many = summed(
        sensitivity=1e4,
        noise_std=1e5,
        coordinates=10**7,
        sampler=events.Sampler.ROUNDED_GAUSSIAN,
    )
    alone = accounting.zcdp_epsilon(0.03 + 0.1**2 / 2, 1e-5)
    assert accounting.epsilon((many, RHO), 1e-5) > alone * 1.01


def test_together_with_poisson_samples_they_are_refused():
    sampled = sampled_event(1.0, 0.1, 10)
    with pytest.raises(
        CalibrationError,
        match="'aim' is stated in zCDP and 'step' is of Poisson samples",
    ):
        accounting.epsilon((RHO, sampled), 1e-5)


def test_an_event_survives_json():
    assert events.event_from_json(events.event_to_json(RHO)) == RHO
    assert events.event_to_json(RHO) == {
        "kind": "zero-concentrated",
        "name": "aim",
        "rho": 0.03,
        "mechanism": "AIM",
    }


@pytest.mark.parametrize(
    "change",
    [
        {"rho": 0.0},
        {"rho": -1.0},
        {"rho": math.inf},
        {"rho": "1"},
        {"mechanism": ""},
        {"sampler": "x"},
    ],
)
def test_a_broken_event_is_refused(change):
    with pytest.raises(events.EventError, match="aim"):
        events.event_from_json({**events.event_to_json(RHO), **change})
