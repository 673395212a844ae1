"""Plans of gradients cost what was asked and hardly less, and are refused before any record is read."""

import dataclasses
from functools import cache

import numpy as np
import pytest
from tests.shared.stated import sampled

from noisegate.errors import CalibrationError, OptionError
from noisegate.privacy import accounting, gradient_plan
from noisegate.privacy.accounting import sampler_slack
from noisegate.privacy.events import Adjacency, Sampler
from noisegate.privacy.gradient_plan import RATES, GradientPlan
from noisegate.privacy.grid import UNITS
from noisegate.privacy.noise import NARROWEST, reached
from noisegate.privacy.plan import Budget, Query


def plan_of(**options):
    usual = dict(steps=200, sampling_probability=0.01, clip_norm=0.5, parameters={"w": (30, 5), "b": (5,)})
    return GradientPlan(name="gradients", **{**usual, **options})


@cache
def calibrated():
    return plan_of().calibrate(Budget(epsilon=1.0))


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(("epsilon", "steps", "rate"), [(0.01, 10_000, 0.01), (1.0, 2400, 1 / 120), (10.0, 500, 0.1)])
def test_a_calibrated_plan_costs_what_was_asked_and_hardly_less(epsilon, steps, rate, adjacency):
    budget = Budget(epsilon=epsilon, delta=1e-5, adjacency=adjacency)
    found = plan_of(steps=steps, sampling_probability=rate).calibrate(budget)
    assert epsilon * 0.998 <= found.epsilon <= epsilon
    assert found.epsilon == accounting.epsilon(found.events, 1e-5, adjacency)
    # The other way round: two thirds of the noise cost clearly more.
    less = dataclasses.replace(found.event, noise_std=reached(found.event.noise_std * 2 / 3))
    assert accounting.epsilon([less], 1e-5, adjacency) > epsilon * 1.2
    with pytest.raises(CalibrationError, match="more than"):
        dataclasses.replace(found, event=less)


@pytest.mark.parametrize("epsilon", [0.01, 1000.0])
@pytest.mark.parametrize(("delta", "steps"), [(1e-12, 10_000), (0.4, 100)])
def test_the_extremes_calibrate(epsilon, delta, steps):
    found = plan_of(steps=steps, sampling_probability=0.1).calibrate(Budget(epsilon=epsilon, delta=delta))
    assert 0 <= found.epsilon <= epsilon
    less = dataclasses.replace(found.event, noise_std=found.event.noise_std * 0.97)
    assert accounting.epsilon([less], delta) > epsilon


def test_noise_is_never_narrower_than_what_can_be_drawn():
    found = plan_of(steps=1, sampling_probability=1 / RATES).calibrate(Budget(epsilon=100.0))
    assert found.event.noise_std == reached(NARROWEST) and found.epsilon < 100.0


def test_questions_are_paid_from_the_same_budget():
    counts = Query(name="counts", dim=1, columns=10, norm=1.0, share=0.1, nonnegative=True)
    both, alone = plan_of(queries=(counts,)).calibrate(Budget(epsilon=1.0)), calibrated()
    assert 0.998 <= both.epsilon <= 1.0 and [event.name for event in both.events] == ["counts", "gradients"]
    assert both.noise_multiplier > alone.noise_multiplier * 1.01 and accounting.epsilon([both.event], 1e-5) < 1.0
    assert both.release("counts").event.noise_multiplier > 3.0


def test_questions_beside_steps_are_planned_for_units_of_one_record():
    budget = Budget(epsilon=1.0, unit="all records of one patient", contributions=1)
    counts = Query(name="counts", dim=1, columns=2, norm=1.0, share=0.1, nonnegative=True)
    assert plan_of(queries=(counts,)).calibrate(budget).epsilon <= 1.0


def test_rates_are_rounded_up_to_what_a_word_can_realise():
    rate = plan_of(sampling_probability=1 / 3).sampling_probability
    assert rate * RATES == int(rate * RATES) and 1 / 3 <= rate < 1 / 3 + 2 / RATES
    assert plan_of(sampling_probability=1).sampling_probability == 1
    assert plan_of(sampling_probability=1e-300).sampling_probability == 1 / RATES
    found = plan_of(sampling_probability=1 / 3).calibrate(Budget(epsilon=1.0))
    assert found.event.rate == rate


def test_the_event_states_the_norm_of_one_record_under_both_relations():
    for adjacency in Adjacency:
        event = plan_of().calibrate(Budget(epsilon=1.0, adjacency=adjacency)).event
        assert (event.sensitivity, event.coordinates, event.steps) == (UNITS, 155, 200)
    factored = plan_of(parameters={"w": (1, 2, 3)}, factored=True).calibrate(Budget(epsilon=1.0))
    assert factored.event.sensitivity == 2**24
    assert factored.noise_std_natural == pytest.approx(factored.noise_multiplier * 0.5, rel=5e-3)


def test_an_event_of_another_plan_is_refused():
    found = calibrated()
    for change in ({"steps": 199}, {"rate": 0.005}, {"sensitivity": 1}, {"coordinates": 1}):
        with pytest.raises(CalibrationError, match="not that of its plan"):
            dataclasses.replace(found, event=dataclasses.replace(found.event, **change))


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 0},
        {"steps": 2.0},
        {"steps": 10**9},
        {"sampling_probability": 0.0},
        {"sampling_probability": 1.5},
        {"sampling_probability": float("nan")},
        {"clip_norm": 0.0},
        {"clip_norm": float("inf")},
        {"parameters": {}},
        {"parameters": {"w": (3, 0)}},
        {"factored": True},
    ],
)
def test_unusable_options_are_refused(options):
    with pytest.raises(OptionError, match=next(iter(options))):
        plan_of(**options)


def test_units_with_several_records_are_refused():
    budget = Budget(epsilon=1.0, unit="patient, at most 3 records", contributions=3)
    with pytest.raises(OptionError, match=r"contributions=3.*contributions=1"):
        plan_of().calibrate(budget)


def test_a_budget_that_no_noise_can_keep_is_refused_with_a_cure(monkeypatch):
    monkeypatch.setattr(gradient_plan.accounting, "MAXIMUM_STD", 2.0 * UNITS)
    with pytest.raises(CalibrationError, match=r"epsilon=0\.01.*200 steps.*they cost epsilon=.* at least"):
        plan_of().calibrate(Budget(epsilon=0.01))


def test_parameters_are_packed_in_the_order_of_the_plan_and_back():
    plan = plan_of()
    arrays = {"b": np.arange(5.0), "w": np.arange(150.0).reshape(30, 5)}
    values = plan.pack(arrays)
    assert values.shape == (155, 1) and values[:3, 0].tolist() == [0, 1, 2]
    back = plan.unpack(values)
    assert list(back) == ["w", "b"] and all(np.array_equal(back[name], arrays[name]) for name in arrays)
    with pytest.raises(OptionError, match="shapes"):
        plan.pack({"w": arrays["w"].T, "b": arrays["b"]})


def test_a_convolved_draw_is_charged_its_distance_on_every_coordinate_of_every_step():
    noise = {"noise_std": 1e6, "sampler": Sampler.CONVOLVED_GAUSSIAN}
    event = sampled(rate=0.5, steps=7, sensitivity=4.0, coordinates=11, **noise)
    assert sampler_slack([event], 0.0)[1] / (2 * 77 * 2.0**-277) == pytest.approx(1)
    assert sampler_slack([event], 0.0)[0] > 0
