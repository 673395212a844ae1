"""Plans of gradients cost what was asked and hardly less, and are refused before any record is read."""

import dataclasses
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.shared.stated import sampled

from noisegate.errors import CalibrationError, OptionError, UserError
from noisegate.privacy import accounting, gradient_plan
from noisegate.privacy.accounting import effective_multiplier, sampler_slack
from noisegate.privacy.events import Adjacency, Sampler, replace_gaussian
from noisegate.privacy.gradient_plan import RATES, GradientQuery, plan_steps, steps_of
from noisegate.privacy.grid import UNITS
from noisegate.privacy.noise import NARROWEST, convolved_std
from noisegate.privacy.plan import Budget, Plan, Query, plan_sums


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
    both, alone = (
        plan_steps(Budget(epsilon=1.0), plan_of(queries=(counts,))),
        calibrated(),
    )
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


# Plan before data: what is asked, how the budget is shared, and that no weaker plan passes for a calibrated one.


def question(name="q", share=1.0, **options):
    return Query(
        **{
            "name": name,
            "dim": 10,
            "columns": 2,
            "norm": 1.0,
            "share": share,
            **options,
        }
    )


BUDGET = Budget(epsilon=1.0)


def plan(*shares, budget=BUDGET, **options):
    queries = [question(f"q{i}", share, **options) for i, share in enumerate(shares)]
    return plan_sums(budget, queries)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *[
            ({"epsilon": bad}, "epsilon=")
            for bad in (
                0,
                0.0,
                -1.0,
                0.0099,
                1000.1,
                math.nan,
                math.inf,
                True,
                "1",
                None,
            )
        ],
        *[
            ({"epsilon": 1, "delta": bad}, "delta=")
            for bad in (0, -1e-9, 0.5, 0.9, 1e-13, math.nan, False, "x", None)
        ],
    ],
)
def test_a_budget_out_of_range_is_refused_with_the_cure(options, message):
    with pytest.raises(OptionError, match=message) as caught:
        Budget(**options)
    assert "must be a number from" in str(caught.value)
    above = options["epsilon"] in (1000.1, math.inf)
    assert (
        "hardly any privacy is left" if above else f"for instance {message}1"
    ) in str(caught.value)


def test_the_ends_of_the_range_are_in_it():
    for epsilon in (0.01, 1000, 1000.0):
        for delta in (1e-12, math.nextafter(0.5, 0)):
            assert Budget(epsilon=epsilon, delta=delta).epsilon == epsilon


@pytest.mark.parametrize(
    "options",
    [
        {"dim": 0},
        {"columns": 0},
        *[{"share": bad} for bad in (0.0, -1.0, math.nan, math.inf)],
    ],
)
def test_an_unusable_question_is_refused_by_name(options):
    with pytest.raises(OptionError, match="query 'q'"):
        question(**options)


@pytest.mark.parametrize(
    "options",
    [{"norm": 0.0}, {"norm": math.nan}, {"nonnegative": True, "centre": (0.0,) * 10}],
)
def test_a_question_without_a_grid_is_refused_before_data(options):
    with pytest.raises(OptionError):
        plan_sums(Budget(epsilon=1.0), (question(**options),))


@pytest.mark.parametrize("questions", [(), (question("a"), question("a"))])
def test_a_plan_needs_questions_with_names_of_their_own(questions):
    with pytest.raises(OptionError, match="each with its own name"):
        plan_sums(BUDGET, questions)


@pytest.mark.parametrize("factor", [1.0, 1e-6, 3e5])
def test_shares_are_relative_parts_of_mu_squared(factor):
    shares = (1.0, 0.5, 0.03)
    calibrated = plan(*(share * factor for share in shares))
    parts = [effective_multiplier(event) ** -2 for event in calibrated.events]
    for part, share in zip(parts, shares, strict=True):
        assert part / sum(parts) == pytest.approx(share / sum(shares), rel=1e-9)
    assert 1 - 1e-6 <= calibrated.epsilon <= 1.0


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_sensitivity_below_that_of_the_adjacency_is_refused(adjacency):
    budget = Budget(epsilon=1.0, adjacency=adjacency)
    good = plan(1.0, 1.0, budget=budget)
    first = good.releases[0]
    assert Plan(budget=budget, mechanisms=good.releases) == good
    weak = replace(first, sensitivity=first.sensitivity - 1)
    with pytest.raises(CalibrationError, match="'q0': sensitivity="):
        Plan(budget=budget, mechanisms=(weak, good.releases[1]))


def test_a_plan_for_add_remove_does_not_pass_for_replace_one():
    good = plan(1.0)
    with pytest.raises(CalibrationError):
        Plan(
            budget=Budget(epsilon=1.0, adjacency=Adjacency.REPLACE_ONE),
            mechanisms=good.releases,
        )


def test_a_plan_may_cost_exactly_its_budget():
    good = plan(1.0)
    assert (
        Plan(budget=Budget(epsilon=good.epsilon), mechanisms=good.releases).events
        == good.events
    )


@pytest.mark.parametrize("factor", [1 - 1e-5, 2 / 3, 0.5, 1e-3])
def test_too_little_noise_is_refused(factor):
    good = plan(1.0, 0.1)
    weak = tuple(
        replace(release, noise_std=release.noise_std * factor)
        for release in good.releases
    )
    with pytest.raises(CalibrationError, match="more than the 1 asked for"):
        Plan(budget=BUDGET, mechanisms=weak)
    strong = tuple(
        replace(release, noise_std=release.noise_std / factor)
        for release in good.releases
    )
    assert Plan(budget=BUDGET, mechanisms=strong).epsilon < 1.0


def test_another_question_asked_on_the_side_is_refused():
    good = plan(1.0)
    more = plan(1.0, 1.0).releases[1]
    with pytest.raises(CalibrationError, match="more than"):
        Plan(budget=BUDGET, mechanisms=(*good.releases, more))


@pytest.mark.parametrize("field", ["sensitivity", "noise_std"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, 0.0, 1.0])
def test_values_that_no_calibration_gives_are_refused(field, bad):
    (good,) = plan(1.0).releases
    with pytest.raises(UserError):
        Plan(budget=BUDGET, mechanisms=(replace(good, **{field: bad}),))


def test_a_share_too_small_for_the_grid_is_refused():
    with pytest.raises(CalibrationError, match=r"'q1'.*larger share"):
        plan(1.0, 1e-30)


def test_no_sampler_eats_more_than_a_tenth_of_delta():
    # On its own, each of these questions would cost less than that by the rounded sampler; twenty take all of δ.
    samplers = plan(*[1.0] * 20, dim=510_000)
    assert samplers.releases[0].coordinates == 1_020_000
    assert {event.sampler for event in samplers.events} == {Sampler.CONVOLVED_GAUSSIAN}
    assert 1 - 1e-4 <= samplers.epsilon <= 1.0


def test_a_plan_says_its_noise_beside_what_records_add_up_to():
    plan = plan_sums(Budget(epsilon=1.0), (question(norm=2.0),))
    description = plan.describe(1000)
    (one,) = description["releases"]
    assert one["sensitivity"] == pytest.approx(2.0, rel=1e-3)
    assert one["signal_to_noise"] == pytest.approx(
        1000 * 2.0 / (one["noise_std"] * math.sqrt(10 * 2))
    )
    assert plan.describe(None)["releases"][0]["signal_to_noise"] is None
    assert description["megabytes_at_the_gate"] == pytest.approx(
        300 + 20 * 64 / 1e6, abs=1e-6
    )


def test_a_plan_of_steps_says_how_many_records_a_step_uses_and_how_large_its_noise_is():
    described = plan_of(steps=50, sampling_probability=0.125)
    described = plan_steps(BUDGET, described).describe(1000)
    assert described["records_a_step"] == 125.0
    assert described["parameters"] == 155
    assert described["steps"] == 50
    assert described["noise_multiplier"] > 0


def test_each_query_beside_the_steps_is_described_with_its_signal():
    steps = plan_of(queries=(question(norm=2.0),))
    (beside,) = plan_steps(BUDGET, steps).describe(1000)["releases"]
    assert beside["norm"] == 2.0
    assert beside["signal_to_noise"] > 0
