"""Plans of gradients cost what was asked and hardly less, and are refused before any record is read."""

import dataclasses
from functools import cache

import numpy as np
import pytest
from tests.shared.stated import sampled

from noisegate.errors import CalibrationError, OptionError
from noisegate.privacy import accounting, gradient_plan
from noisegate.privacy.accounting import sampler_slack
from noisegate.privacy.events import Adjacency, Sampler, replace_gaussian
from noisegate.privacy.gradient_plan import RATES, GradientQuery, plan_steps, steps_of
from noisegate.privacy.grid import UNITS
from noisegate.privacy.noise import NARROWEST, convolved_std
from noisegate.privacy.plan import Budget, Query


def plan_of(**options):
    usual = dict(
        steps=200,
        sampling_probability=0.01,
        clip_norm=0.5,
        parameters={"w": (30, 5), "b": (5,)},
    )
    return GradientQuery(name="gradients", **{**usual, **options})


@cache
def calibrated():
    return plan_steps(Budget(epsilon=1.0), plan_of())


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(
    ("epsilon", "steps", "rate"),
    [(0.01, 10_000, 0.01), (1.0, 2400, 1 / 120), (10.0, 500, 0.1)],
)
def test_a_calibrated_plan_costs_what_was_asked_and_hardly_less(
    epsilon, steps, rate, adjacency
):
    budget = Budget(epsilon=epsilon, delta=1e-5, adjacency=adjacency)
    plan = plan_steps(budget, plan_of(steps=steps, sampling_probability=rate))
    assert epsilon * 0.998 <= plan.epsilon <= epsilon
    assert plan.epsilon == accounting.epsilon(plan.events, 1e-5, adjacency)
    # The other way round: two thirds of the noise cost clearly more.
    less = replace_gaussian(
        steps_of(plan).event,
        noise_std=convolved_std(steps_of(plan).event.event.noise_std * 2 / 3),
    )
    assert accounting.epsilon([less], 1e-5, adjacency) > epsilon * 1.2
    with pytest.raises(CalibrationError, match="more than"):
        dataclasses.replace(
            plan, mechanisms=(dataclasses.replace(steps_of(plan), event=less),)
        )


@pytest.mark.parametrize("epsilon", [0.01, 1000.0])
@pytest.mark.parametrize(("delta", "steps"), [(1e-12, 10_000), (0.4, 100)])
def test_the_extremes_calibrate(epsilon, delta, steps):
    plan = plan_steps(
        Budget(epsilon=epsilon, delta=delta),
        plan_of(steps=steps, sampling_probability=0.1),
    )
    assert 0 <= plan.epsilon <= epsilon
    less = replace_gaussian(
        steps_of(plan).event, noise_std=steps_of(plan).event.event.noise_std * 0.97
    )
    assert accounting.epsilon([less], delta) > epsilon


def test_noise_is_never_narrower_than_what_can_be_drawn():
    plan = plan_steps(
        Budget(epsilon=100.0), plan_of(steps=1, sampling_probability=1 / RATES)
    )
    assert steps_of(plan).event.event.noise_std == convolved_std(NARROWEST)
    assert plan.epsilon < 100.0


def test_questions_are_paid_from_the_same_budget():
    counts = Query(
        name="counts", dim=1, columns=10, norm=1.0, share=0.1, nonnegative=True
    )
    both = plan_steps(Budget(epsilon=1.0), plan_of(queries=(counts,)))
    alone = calibrated()
    assert 0.998 <= both.epsilon <= 1.0
    assert [event.name for event in both.events] == [
        "counts",
        "gradients",
    ]
    assert steps_of(both).noise_multiplier > steps_of(alone).noise_multiplier * 1.01
    assert accounting.epsilon([steps_of(both).event], 1e-5) < 1.0
    assert both.release("counts").event.noise_multiplier > 3.0


def test_questions_beside_steps_are_planned_for_units_of_one_record():
    budget = Budget(epsilon=1.0, unit="all records of one patient", contributions=1)
    counts = Query(
        name="counts", dim=1, columns=2, norm=1.0, share=0.1, nonnegative=True
    )
    assert plan_steps(budget, plan_of(queries=(counts,))).epsilon <= 1.0


def test_rates_are_rounded_up_to_what_a_word_can_realise():
    rate = plan_of(sampling_probability=1 / 3).sampling_probability
    assert rate * RATES == int(rate * RATES)
    assert 1 / 3 <= rate < 1 / 3 + 2 / RATES
    assert plan_of(sampling_probability=1).sampling_probability == 1
    assert plan_of(sampling_probability=1e-300).sampling_probability == 1 / RATES
    plan = plan_steps(Budget(epsilon=1.0), plan_of(sampling_probability=1 / 3))
    assert steps_of(plan).event.rate == rate


def test_the_event_states_the_norm_of_one_record_under_both_relations():
    for adjacency in Adjacency:
        (event,) = plan_steps(
            Budget(epsilon=1.0, adjacency=adjacency), plan_of()
        ).events
        step = event.event
        assert step.sensitivity == UNITS
        assert step.coordinates == 155
        assert event.steps == 200
    factored = plan_steps(
        Budget(epsilon=1.0), plan_of(parameters={"w": (1, 2, 3)}, factored=True)
    )
    assert steps_of(factored).event.event.sensitivity == 2**24
    assert steps_of(factored).noise_std_natural == pytest.approx(
        steps_of(factored).noise_multiplier * 0.5, rel=5e-3
    )


def test_an_event_of_another_plan_is_refused():
    plan = calibrated()
    for other in (
        dataclasses.replace(steps_of(plan).event, steps=199),
        dataclasses.replace(steps_of(plan).event, rate=0.005),
        replace_gaussian(steps_of(plan).event, sensitivity=1),
        replace_gaussian(steps_of(plan).event, coordinates=1),
    ):
        with pytest.raises(CalibrationError, match="not that of its plan"):
            dataclasses.replace(steps_of(plan), event=other)


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
        plan_steps(budget, plan_of())


def test_a_budget_that_no_noise_can_keep_is_refused_with_a_cure(monkeypatch):
    monkeypatch.setattr(gradient_plan.accounting, "MAXIMUM_STD", 2.0 * UNITS)
    with pytest.raises(
        CalibrationError,
        match=r"epsilon=0\.01.*200 steps.*they cost epsilon=.* at least",
    ):
        plan_steps(Budget(epsilon=0.01), plan_of())


def test_parameters_are_packed_in_the_order_of_the_plan_and_back():
    plan = plan_of()
    arrays = {"b": np.arange(5.0), "w": np.arange(150.0).reshape(30, 5)}
    values = plan.pack(arrays)
    assert values.shape == (155, 1)
    assert values[:3, 0].tolist() == [0, 1, 2]
    back = plan.unpack(values * plan.scale)
    assert list(back) == ["w", "b"]
    assert all(np.array_equal(back[name], arrays[name]) for name in arrays)
    with pytest.raises(OptionError, match="shapes"):
        plan.pack({"w": arrays["w"].T, "b": arrays["b"]})


def test_a_convolved_draw_is_charged_its_distance_on_every_coordinate_of_every_step():
    noise = {"noise_std": 1e6, "sampler": Sampler.CONVOLVED_GAUSSIAN}
    event = sampled(rate=0.5, steps=7, sensitivity=4.0, coordinates=11, **noise)
    assert sampler_slack([event], 0.0)[1] / (2 * 77 * 2.0**-277) == pytest.approx(1)
    assert sampler_slack([event], 0.0)[0] == pytest.approx(
        2 * 77 * 8 * accounting._DISCRETE_KAPPA
    )


def test_a_plan_of_steps_says_how_many_records_a_step_uses_and_how_large_its_noise_is():
    query = plan_of(steps=50, sampling_probability=0.125)
    described = plan_steps(Budget(epsilon=1.0), query).describe(1000)
    assert described["records_a_step"] == 125.0
    assert described["parameters"] == 155
    assert described["steps"] == 50
    assert described["noise_multiplier"] > 0


def test_each_query_beside_the_steps_is_described_with_its_signal():
    query = Query(name="counts", dim=10, columns=2, norm=2.0, share=1.0)
    steps = plan_of(queries=(query,))
    (beside,) = plan_steps(Budget(epsilon=1.0), steps).describe(1000)["releases"]
    assert beside["norm"] == 2.0
    assert beside["signal_to_noise"] > 0


def test_a_relation_given_as_text_has_the_noise_of_that_relation():
    named = plan_steps(Budget(epsilon=1.0, adjacency="replace-one"), plan_of())
    right = Budget(epsilon=1.0, adjacency=Adjacency.REPLACE_ONE)
    assert named == plan_steps(right, plan_of())
    assert named != plan_steps(Budget(epsilon=1.0), plan_of())
