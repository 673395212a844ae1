"""Guarantee G-03: ε is an upper bound and no looser than it must be; dp_accounting is the oracle."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from tests.shared.stated import event_of, summed

from noisegate.errors import CalibrationError
from noisegate.privacy import accounting
from noisegate.privacy.events import (
    Adjacency,
    Batched,
    EventError,
    Gaussian,
    Sampled,
    Sampler,
)
from noisegate.privacy.noise import WIDTH, convolution_multipliers
from noisegate.privacy.plan import Budget, Query, plan_sums

from .conftest import gaussian_event, sampled_event


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.01, 0.4])
@pytest.mark.parametrize("multiplier", [0.03, 0.5, 1.0, 4.7, 60.0])
def test_one_release_costs_what_dp_accounting_says(multiplier, delta):
    epsilon = accounting.epsilon([gaussian_event(multiplier)], delta)
    oracle = dp_accounting.get_epsilon_gaussian(multiplier, delta)
    assert oracle * (1 - 1e-12) - 1e-12 <= epsilon <= oracle * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("multipliers", [(1.0, 1.0), (0.7, 3.0, 11.0), (20.0,) * 100])
def test_several_releases_compose_exactly(multipliers):
    events = [
        gaussian_event(m, name=str(i), sensitivity=1000 * (i + 1))
        for i, m in enumerate(multipliers)
    ]
    together = sum(m**-2 for m in multipliers) ** -0.5
    oracle = dp_accounting.get_epsilon_gaussian(together, 1e-6)
    assert accounting.epsilon(events, 1e-6) == pytest.approx(oracle, rel=1e-5)
    assert accounting.epsilon(events, 1e-6) >= oracle
    assert accounting.epsilon(events[::-1], 1e-6) == pytest.approx(
        accounting.epsilon(events, 1e-6), rel=1e-12
    )


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_loss_distribution_and_the_closed_form_agree_when_every_record_is_sampled(
    adjacency,
):
    closed = accounting.epsilon(
        [gaussian_event(2.0), gaussian_event(4.0, name="r")], 1e-6, adjacency
    )
    # A sampled event states the norm of a record; a replaced record moves a sum by twice that.
    multiplier = 8.0 if adjacency is Adjacency.REPLACE_ONE else 4.0
    sampled = [sampled_event(multiplier, 1.0, 4), sampled_event(multiplier, 1.0, 1)]
    mixed = [gaussian_event(2.0), sampled_event(multiplier, 1.0, 1)]
    for events in (sampled, mixed, mixed[::-1]):
        epsilon = accounting.epsilon(events, 1e-6, adjacency)
        assert closed * (1 - 1e-8) <= epsilon <= closed * (1 + 1e-3)


@pytest.mark.parametrize(
    ("rate", "steps", "multiplier"),
    [(0.01, 1000, 1.0), (0.2, 10, 3.0), (0.001, 1, 0.6)],
)
def test_sampled_steps_cost_what_dp_accounting_says(rate, steps, multiplier):
    accountant = PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(
        dp_accounting.PoissonSampledDpEvent(
            rate, dp_accounting.GaussianDpEvent(multiplier)
        ),
        steps,
    )
    oracle = accountant.get_epsilon(1e-5)
    # The oracle discretises losses more finely here, and so does not give away the last thousandth.
    epsilon = accounting.epsilon([sampled_event(multiplier, rate, steps)], 1e-5)
    assert oracle * (1 - 1e-6) <= epsilon <= oracle * (1 + 2e-3)


def test_thousands_of_steps_that_each_lose_little_are_not_blurred():
    # With a fixed interval of 1e-4 this would cost 0.0097; with 1e-6, where the estimate no longer changes, 0.0044.
    accountant = PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-6
    )
    accountant.compose(
        dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(500.0)),
        10_000,
    )
    oracle = accountant.get_epsilon(1e-5)
    epsilon = accounting.epsilon([sampled_event(500.0, 0.01, 10_000)], 1e-5)
    assert oracle * (1 - 1e-4) <= epsilon <= oracle * (1 + 2e-3)


def hockey_stick(first, second, epsilon, width):
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum() * width)


@pytest.mark.parametrize(("rate", "multiplier"), [(0.05, 1.0), (0.3, 2.0)])
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_one_sampled_step_by_numeric_integration(rate, multiplier, delta):
    # One step, in units of the bound of one record: present or absent, or moved from one end of the ball to the other.
    x, width = np.linspace(-40 * multiplier, 40 * multiplier, 400_001, retstep=True)

    def normal(centre):
        return np.exp(-(((x - centre) / multiplier) ** 2) / 2) / (
            multiplier * math.sqrt(2 * math.pi)
        )

    def mixture(centre):
        return (1 - rate) * normal(0) + rate * normal(centre)

    pairs = {
        Adjacency.ADD_REMOVE: (
            sampled_event(multiplier, rate, 1),
            [(mixture(1), normal(0)), (normal(0), mixture(1))],
        ),
        Adjacency.REPLACE_ONE: (
            sampled_event(multiplier, rate, 1),
            [(mixture(1), mixture(-1))],
        ),
    }
    for adjacency, (event, cases) in pairs.items():
        epsilon = accounting.epsilon([event], delta, adjacency)
        assert max(hockey_stick(*case, epsilon, width) for case in cases) <= delta * (
            1 + 1e-6
        )
        assert (
            max(hockey_stick(*case, epsilon * 0.99 - 1e-4, width) for case in cases)
            > delta
        )


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_mixture_of_both_kinds_costs_more_than_each_and_less_than_the_sum(adjacency):
    gauss = [gaussian_event(3.0)]
    steps = [sampled_event(2.0, 0.1, 20)]
    one, other = (
        accounting.epsilon(events, 1e-5, adjacency) for events in (gauss, steps)
    )
    both = accounting.epsilon(gauss + steps, 1e-5, adjacency)
    assert max(one, other) < both < one + other
    relation, scale = {
        Adjacency.ADD_REMOVE: (dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, 1),
        Adjacency.REPLACE_ONE: (dp_accounting.NeighboringRelation.REPLACE_ONE, 2),
    }[adjacency]
    accountant = PLDAccountant(relation)
    accountant.compose(
        dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(2.0)), 20
    )
    accountant.compose(dp_accounting.GaussianDpEvent(3.0 * scale))
    assert both == pytest.approx(accountant.get_epsilon(1e-5), rel=2e-3)


def test_a_sampled_step_whose_records_move_at_a_right_angle():
    # Non-negative vectors: a record of norm B becomes one at a right angle, √2·B away, or is not sampled at all.
    rate = 0.2
    std = 0.5
    delta = 1e-3
    event = sampled_event(std, rate, 1, coordinates=2)
    x, width = np.linspace(-4, 5, 1501, retstep=True)

    def normal(a, b):
        squares = (x[:, None] - a) ** 2 + (x[None, :] - b) ** 2
        return np.exp(-squares / (2 * std**2)) / (2 * math.pi * std**2)

    first, second = (
        (1 - rate) * normal(0, 0) + rate * normal(*at) for at in ((1, 0), (0, 1))
    )
    epsilon = accounting.epsilon([event], delta, Adjacency.REPLACE_ONE)
    assert hockey_stick(first, second, epsilon, width**2) <= delta * (1 + 1e-6)


@pytest.mark.parametrize("std", [16.0, 23.5, 64.0])
@pytest.mark.parametrize("sensitivity", [1, 7, 16, 40, 150])
def test_the_discrete_gaussian_leaks_no_more_than_it_is_charged_for(std, sensitivity):
    # Exact probabilities in one dimension: shift by the whole sensitivity, compare with e^ε at many ε.
    reach = 40 * int(std) + sensitivity
    z = np.arange(-reach, reach + sensitivity + 1)
    first, second = (
        np.exp(-((z - centre) ** 2) / (2 * std**2)) for centre in (sensitivity, 0)
    )
    first = first / first.sum()
    second = second / second.sum()
    event = summed(sensitivity=sensitivity, noise_std=std)
    checked = 0
    for delta in np.geomspace(1e-9, 0.4, 40):
        epsilon = accounting.epsilon([event], delta)
        assert hockey_stick(first, second, epsilon, 1) <= delta * (1 + 1e-9)
        if epsilon > 0.01:
            # ... and hardly less: at most what the given-up variance of 4 costs.
            assert hockey_stick(first, second, epsilon * 0.95 - 0.01, 1) > delta
            checked += 1
    assert checked > 3 or sensitivity < std / 10


def test_the_discrete_gaussian_is_charged_as_one_with_four_units_less_variance():
    event = gaussian_event(20.0 / 5, sensitivity=5)
    assert accounting.effective_multiplier(event) == math.sqrt(20.0**2 - 4) / 5
    assert (
        accounting.effective_multiplier(
            gaussian_event(4.0, sampler=Sampler.ROUNDED_GAUSSIAN)
        )
        == 4.0
    )
    ideal = dp_accounting.get_epsilon_gaussian(4.0, 1e-5)
    assert accounting.epsilon([event], 1e-5) > ideal * 1.004


def test_the_slack_of_the_discrete_gaussian_is_real_and_negligible():
    extra_epsilon, extra_delta = accounting.sampler_slack(
        [gaussian_event(1.0, coordinates=10**9)], 1.0
    )
    assert 0 < extra_epsilon < 1e-20
    assert extra_delta == 0.0


def test_the_rounded_gaussian_is_charged_its_distance_on_every_coordinate():
    exact = gaussian_event(1.0, coordinates=10**5)
    rounded = gaussian_event(1.0, coordinates=10**5, sampler=Sampler.ROUNDED_GAUSSIAN)
    delta = 1e-5
    epsilon = accounting.epsilon([rounded], delta)
    slack = 10**5 * 2.0**-42 * (1 + math.exp(epsilon))
    assert accounting.sampler_slack([rounded], epsilon) == (0.0, pytest.approx(slack))
    left = delta - slack
    assert left > 0
    assert epsilon >= dp_accounting.get_epsilon_gaussian(1.0, left)
    assert epsilon > accounting.epsilon([exact], delta)
    assert accounting.epsilon([rounded], slack / 2) == math.inf


def test_the_slack_of_several_events_adds_up():
    rounded = gaussian_event(1.0, coordinates=1000, sampler=Sampler.ROUNDED_GAUSSIAN)
    exact = gaussian_event(1.0, coordinates=1000)
    _, delta_of_one = accounting.sampler_slack([rounded], 1.0)
    _, delta_of_three = accounting.sampler_slack([rounded] * 3, 1.0)
    assert delta_of_three == pytest.approx(3 * delta_of_one)
    epsilon_of_one, _ = accounting.sampler_slack([exact], 1.0)
    epsilon_of_three, _ = accounting.sampler_slack([exact] * 3, 1.0)
    assert epsilon_of_three == pytest.approx(3 * epsilon_of_one)


def test_every_step_of_a_sampled_event_is_charged_its_slack():
    event = sampled_event(
        1.0, 0.1, 50, coordinates=1000, sampler=Sampler.ROUNDED_GAUSSIAN
    )
    expected = 50 * 1000 * 2.0**-42 * (1 + math.exp(2.0))
    assert accounting.sampler_slack([event], 2.0)[1] == pytest.approx(expected)


@pytest.mark.parametrize("std", [15.99, 2.0**51, 2.0**80, 1e300])
@pytest.mark.parametrize("sampler", list(Sampler))
def test_noise_outside_the_grid_of_the_proof_is_refused(sampler, std):
    noise = {"sensitivity": 1, "noise_std": std, "coordinates": 1, "sampler": sampler}
    for event in (
        Gaussian(name="wide", **noise),
        event_of(Sampled, name="wide", rate=0.1, steps=1, **noise),
    ):
        with pytest.raises(CalibrationError, match=r"'wide'.*outside \[16, "):
            accounting.epsilon([event], 1e-5)
    fine = Gaussian(name="fine", **{**noise, "noise_std": 16.0})
    assert 0 < accounting.epsilon([fine], 1e-5) < 1


def planned(budget, coordinates=1000):
    queries = (
        Query(name="a", dim=coordinates, columns=2, norm=1.0, share=1.0),
        Query(name="b", dim=10, columns=2, norm=0.3, share=0.2, nonnegative=True),
    )
    return plan_sums(budget, queries)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.4])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0, 1000.0])
def test_a_calibrated_plan_costs_what_was_asked_and_hardly_less(
    epsilon, delta, adjacency
):
    calibrated = planned(Budget(epsilon=epsilon, delta=delta, adjacency=adjacency))
    assert (
        epsilon * (1 - 1e-6)
        <= accounting.epsilon(calibrated.events, delta, adjacency)
        <= epsilon
    )


@pytest.mark.parametrize(
    ("coordinates", "epsilon", "sampler", "unused"),
    [
        (510_000, 1.0, Sampler.CONVOLVED_GAUSSIAN, 1e-4),
        # Convolutions come in steps, and the noise is rounded up to one.
        (1_515_520, 1.0, Sampler.CONVOLVED_GAUSSIAN, 1e-4),
        (1_515_520, 10.0, Sampler.CONVOLVED_GAUSSIAN, 2e-3),
        (1_515_520, 100.0, Sampler.CONVOLVED_GAUSSIAN, 2e-2),
        (1_515_520, 101.0, Sampler.DISCRETE_GAUSSIAN, 1e-6),
    ],
)
def test_a_calibrated_plan_with_a_fast_sampler_costs_what_was_asked_and_hardly_less(
    coordinates, epsilon, sampler, unused
):
    calibrated = planned(Budget(epsilon=epsilon, delta=1e-5), coordinates)
    assert [event.sampler for event in calibrated.events] == [
        sampler,
        Sampler.DISCRETE_GAUSSIAN,
    ]
    assert epsilon * (1 - unused) <= calibrated.epsilon <= epsilon
    if (
        sampler is Sampler.CONVOLVED_GAUSSIAN
    ):  # what is stated is what is drawn, up to the last bit
        stated = calibrated.events[0].noise_std
        assert WIDTH * math.hypot(*convolution_multipliers(stated)) == pytest.approx(
            stated, rel=1e-15
        )


def batch(**options):
    fields = {
        "name": "b",
        "rate": 0.05,
        "steps": 40,
        "shards": 1,
        "sensitivity": 2**23,
        "noise_std": 2.0**23,
    }
    return event_of(
        Batched,
        **{**fields, "coordinates": 9, "sampler": Sampler.DISCRETE_GAUSSIAN, **options},
    )


@pytest.mark.parametrize("adjacency", [*Adjacency])
def test_samples_as_a_whole_cost_what_sums_of_records_of_their_diameter_cost(adjacency):
    vectors = batch()
    summed = Sampled(event=vectors.event, rate=vectors.rate, steps=vectors.steps)
    assert accounting.epsilon([batch()], 1e-5, adjacency) == accounting.epsilon(
        [summed], 1e-5, adjacency
    )


@pytest.mark.parametrize("adjacency", [*Adjacency])
@pytest.mark.parametrize(
    ("steps", "shards", "uses"), [(12, 1, 12), (12, 4, 3), (13, 4, 4), (3, 4, 1)]
)
def test_disjoint_shards_compose_in_parallel(steps, shards, uses, adjacency):
    event = batch(rate=1.0, steps=steps, shards=shards, noise_std=2.0**25)
    right = accounting.gaussian_epsilon(math.sqrt(uses) / 4, 1e-5)
    assert accounting.epsilon([event], 1e-5, adjacency) == pytest.approx(
        right, rel=1e-8
    )


def test_shards_are_not_sampled_too():
    with pytest.raises(EventError, match="nothing is proved"):
        batch(shards=2)


def test_noise_in_shares_costs_what_one_discrete_gaussian_does_and_a_larger_slack():
    alone, shared = (
        gaussian_event(4.7, sampler=sampler)
        for sampler in (Sampler.DISCRETE_GAUSSIAN, Sampler.SUMMED_GAUSSIAN)
    )
    slack, larger = (
        accounting.sampler_slack([event], 1.0)[0] for event in (alone, shared)
    )
    assert larger == pytest.approx(accounting.MOST_SHARES * slack)
    assert larger < 1e-20
    assert (
        accounting.epsilon([alone], 1e-5)
        <= accounting.epsilon([shared], 1e-5)
        < 1.0000001
    )
