"""The plan of a stream: what it states of its noise, and the budget that it is compared with."""

import math

import pytest
from tests.shared.columns import boolean

from noisegate.errors import OptionError
from noisegate.methods.pairwise import Pairwise
from noisegate.privacy import accounting
from noisegate.privacy.continual_plan import Horizon
from noisegate.privacy.events import MOST_PERIODS
from noisegate.privacy.plan import Budget
from noisegate.schema import Schema

SCHEMA = Schema([boolean("ill"), boolean("old")])
HORIZONS = [
    Horizon(periods=5),
    Horizon(periods=12, window=3),
    Horizon(periods=5, corrections=True),
]


@pytest.mark.parametrize("horizon", HORIZONS)
def test_the_noise_of_each_query_is_that_of_its_total_in_the_units_of_the_answers(
    horizon,
):
    plan = horizon.plan(Pairwise().plan(SCHEMA, Budget(epsilon=1.0)), 3)
    stated = horizon.noise_by_query(plan, 3)
    assert stated == {
        release.query.name: pytest.approx(release.noise_std_natural)
        for release in plan.releases
    }
    # Fresh noise of one period is in the total of three more than once.
    first = horizon.noise_by_query(plan, 1)
    assert all(stated[query] > first[query] for query in stated)


@pytest.mark.parametrize("horizon", HORIZONS)
def test_a_stream_is_compared_with_asking_once_at_the_noise_of_its_last_release(
    horizon,
):
    budget = Budget(epsilon=2.0, delta=1e-5)
    once = horizon.at_once(budget)
    ratio = accounting.mu_for(2.0, 1e-5) / accounting.mu_for(once.epsilon, 1e-5)
    correction = math.sqrt(5) if horizon.corrections else 1.0
    assert ratio == pytest.approx(
        horizon.overhead(horizon.periods) * correction, rel=1e-6
    )
    assert once.epsilon < 2.0
    assert once.delta == budget.delta


def test_a_long_stream_is_compared_with_no_less_than_a_hundredth():
    once = Horizon(periods=1000).at_once(Budget(epsilon=0.01))
    assert once.epsilon == 0.01


def test_a_single_period_is_compared_with_its_own_budget():
    once = Horizon(periods=1).at_once(Budget(epsilon=2.0))
    assert once.epsilon == pytest.approx(2.0, rel=1e-6)


def test_what_is_written_of_a_horizon():
    horizon = Horizon(periods=5, window=2)
    assert horizon.to_json() == {
        "periods": 5,
        "window": 2,
        "corrections": False,
        "weights": list(horizon.weights),
        "overhead": horizon.overhead(5),
    }
    assert Horizon.of(horizon.facts) == horizon
    # Plans with corrections that say nothing of withdrawals are of earlier versions.
    assert Horizon.of({"periods": 5, "corrections": True}).exact_withdrawals
    assert not Horizon.of(Horizon(corrections=True).facts).exact_withdrawals


@pytest.mark.parametrize(
    ("fields", "option"),
    [
        ({"periods": 0}, "periods=0"),
        ({"periods": MOST_PERIODS + 1}, f"periods={MOST_PERIODS + 1}"),
        ({"periods": True}, "periods=True"),
        ({"periods": 5, "window": 6}, "window=6"),
        ({"periods": 5, "window": 0}, "window=0"),
    ],
)
def test_numbers_of_periods_out_of_range_are_refused_by_name(fields, option):
    with pytest.raises(
        OptionError, match=f"^{option} must be a whole number from 1 to"
    ):
        Horizon(**fields)
