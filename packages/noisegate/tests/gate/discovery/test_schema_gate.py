"""What discovery asks is calibrated to the budget, and its noise is about the same for every count."""

import math
from dataclasses import replace

import pytest

from noisegate.errors import CalibrationError, ModelError
from noisegate.gate.discovery.schema_gate import plan_discovery
from noisegate.privacy import accounting
from noisegate.privacy.events import (
    Adjacency,
    gaussian_of,
    replace_gaussian,
)
from noisegate.privacy.plan import Budget
from noisegate.privacy.schema_certificate import RECORD, check_events

SHAPES = [([106] * 5, 7), ([514], 0), ([], 1), ([106, 1001], 1)]


def plan(
    epsilon, delta, adjacency=Adjacency.ADD_REMOVE, magnitudes=(106,) * 5, texts=7
):
    budget = Budget(epsilon=epsilon, delta=delta, adjacency=adjacency)
    return plan_discovery(budget, magnitudes=magnitudes, cells=32, texts=texts)


@pytest.mark.parametrize(("magnitudes", "texts"), SHAPES)
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0.01, 1e-12), (0.01, 0.4), (1.0, 1e-5), (1000.0, 1e-5), (1000.0, 0.4)],
)
def test_a_plan_costs_what_was_asked_and_hardly_less(
    epsilon, delta, adjacency, magnitudes, texts
):
    discovery_plan = plan(epsilon, delta, adjacency, magnitudes, texts)
    assert (
        epsilon * (1 - 3e-4)
        <= accounting.epsilon(discovery_plan.events, delta, adjacency)
        <= epsilon
    )


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_sensitivities_are_those_of_one_cell_in_each_column(adjacency):
    discovery_plan = plan(1.0, 1e-5, adjacency)
    doubled = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    magnitudes, cells, levels = discovery_plan.events
    for event, columns in ((magnitudes, 5), (cells, 5), (levels, 7)):
        least = RECORD * math.sqrt(columns * doubled)
        assert least <= gaussian_of(event).sensitivity < least * (1 + 1e-3)
    assert [event.coordinates for event in (magnitudes, cells)] == [
        5 * 106,
        5 * 32,
    ]
    assert levels.keys == 7
    assert levels.weight == RECORD


@pytest.mark.parametrize(
    ("delta", "odds"), [(1e-12, 1e-13), (1e-9, 1e-10), (1e-5, 1e-9), (0.4, 1e-9)]
)
def test_a_level_of_one_record_is_seen_with_a_billionth_or_a_tenth_of_delta(
    delta, odds
):
    discovery_plan = plan(1.0, delta)
    assert 0.99 * odds < accounting.threshold_probability(discovery_plan.events) <= odds


def test_a_plan_that_costs_more_than_its_budget_cannot_be_made():
    discovery_plan = plan(1.0, 1e-5)
    with pytest.raises(
        CalibrationError, match=r"costs epsilon=.* more than the budget of 0\.9"
    ):
        replace(discovery_plan, budget=Budget(epsilon=0.9, delta=1e-5))
    exactly = Budget(epsilon=discovery_plan.epsilon, delta=1e-5)
    assert replace(discovery_plan, budget=exactly).events == discovery_plan.events


@pytest.mark.parametrize(("magnitudes", "texts"), SHAPES)
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_events_of_a_plan_are_those_of_its_columns(magnitudes, texts, adjacency):
    discovery_plan = plan(1.0, 1e-5, adjacency, magnitudes, texts)
    check_events(discovery_plan.events, adjacency, numeric=len(magnitudes), texts=texts)


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_missing_event_is_found(lost):
    events = list(plan(1.0, 1e-5).events)
    del events[lost]
    with pytest.raises(
        ModelError,
        match=r"a discovery of its columns has \['magnitudes', 'cells', 'levels'\]",
    ):
        check_events(events, Adjacency.ADD_REMOVE, numeric=5, texts=7)


@pytest.mark.parametrize("position", [0, 1])
def test_a_sensitivity_of_fewer_columns_or_of_add_remove_is_found(position):
    discovery_plan = plan(1.0, 1e-5)
    with pytest.raises(
        ModelError, match=r"is not what [57] columns need under replace-one"
    ):
        check_events(discovery_plan.events, Adjacency.REPLACE_ONE, numeric=5, texts=7)
    events = list(discovery_plan.events)
    less = gaussian_of(events[position]).sensitivity - 1
    events[position] = replace_gaussian(events[position], sensitivity=less)
    with pytest.raises(
        ModelError, match=f"event {events[position].name!r} is not what"
    ):
        check_events(events, Adjacency.ADD_REMOVE, numeric=5, texts=7)


@pytest.mark.parametrize("changes", [{"keys": 6}, {"weight": RECORD // 2}])
def test_keys_or_weight_below_those_of_a_record_are_found(changes):
    first, second, levels = plan(1.0, 1e-5).events
    with pytest.raises(ModelError, match="event 'levels' is not what 7 columns need"):
        check_events(
            (first, second, replace(levels, **changes)),
            Adjacency.ADD_REMOVE,
            numeric=5,
            texts=7,
        )
