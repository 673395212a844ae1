"""Plan before data: what is asked, how the budget is shared, and that no weaker plan passes for a calibrated one."""

import math
from dataclasses import replace

import pytest

from noisegate.errors import CalibrationError, OptionError, UserError
from noisegate.privacy.accounting import effective_multiplier
from noisegate.privacy.events import Adjacency, Sampler
from noisegate.privacy.plan import Budget, Plan, Query, plan_sums


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


def test_a_relation_that_is_not_known_is_refused_with_those_that_are():
    with pytest.raises(OptionError, match="choose one of 'add-remove', 'replace-one'"):
        Budget(epsilon=1.0, adjacency="replace")


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
    with pytest.raises(CalibrationError, match="more than the budget of 1"):
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
    (release,) = description["releases"]
    assert release["sensitivity"] == pytest.approx(2.0, rel=1e-3)
    assert release["signal_to_noise"] == pytest.approx(
        1000 * 2.0 / (release["noise_std"] * math.sqrt(10 * 2))
    )
    assert plan.describe(None)["releases"][0]["signal_to_noise"] is None
    assert description["megabytes_at_the_gate"] == pytest.approx(
        300 + 20 * 64 / 1e6, abs=1e-6
    )
