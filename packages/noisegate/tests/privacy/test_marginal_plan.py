from dataclasses import replace

import pytest

from noisegate.errors import CalibrationError, OptionError
from noisegate.privacy import accounting
from noisegate.privacy.events import Adjacency, ZeroConcentrated
from noisegate.privacy.marginal_plan import (
    marginals_of,
    neighbour_distance,
    plan_marginals,
)
from noisegate.privacy.plan import Budget, Plan


def planned(sizes=(3, 1, 4), candidates=((0, 2),), **budget):
    return plan_marginals(
        Budget(**{"epsilon": 1.0, **budget}),
        name="mst",
        algorithm="MST",
        options={},
        sizes=sizes,
        candidates=candidates,
    )


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0, 1000.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5])
def test_a_plan_spends_the_whole_budget_and_no_more(epsilon, delta):
    plan = planned(epsilon=epsilon, delta=delta)
    assert plan.events == (
        ZeroConcentrated(
            name="mst", rho=marginals_of(plan).rho, mechanism="OpenDP mbi.MST"
        ),
    )
    assert epsilon * (1 - 1e-6) <= accounting.epsilon(plan.events, delta) <= epsilon


def test_a_plan_that_costs_more_than_its_budget_cannot_be_made():
    plan = planned()
    with pytest.raises(CalibrationError, match="more than the budget of 1"):
        marginals = marginals_of(plan)
        more = replace(marginals, rho=marginals.rho * 1.001)
        Plan(budget=plan.budget, mechanisms=(more,))


def test_opendp_is_told_less_than_is_paid_by_what_rounding_may_cost():
    few = marginals_of(planned())
    many = marginals_of(planned(sizes=(3, 1, 100_000)))
    assert 0.99 < few.spendable_rho / few.rho < 0.9995
    assert 0.9 < many.spendable_rho / many.rho < few.spendable_rho / few.rho


@pytest.mark.parametrize(
    ("adjacency", "distance"), [(Adjacency.ADD_REMOVE, 1), (Adjacency.REPLACE_ONE, 2)]
)
def test_a_replaced_record_is_one_removed_and_one_added(adjacency, distance):
    assert neighbour_distance(Budget(epsilon=1.0, adjacency=adjacency)) == distance


def test_a_unit_with_several_records_moves_all_of_them():
    assert neighbour_distance(Budget(epsilon=1.0, contributions=3)) == 3


@pytest.mark.parametrize("sizes", [(), (5,), (1, 5, 1)])
def test_there_must_be_two_columns_to_pair(sizes):
    with pytest.raises(OptionError, match="fewer than two"):
        planned(sizes=sizes, candidates=())


def test_tables_that_cannot_be_held_are_refused_with_the_cure():
    with pytest.raises(OptionError, match="of 37 GiB, more than 4; lower bins"):
        planned(sizes=(100_000, 100_000), candidates=((0, 1),))
