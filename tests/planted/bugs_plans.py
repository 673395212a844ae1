"""Planted bugs in plans, in the units that they are made for, and where something is chosen by the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tests.planted.patches import Plant, table, wrong


@wrong("plan.Plan.calibrate", "test_shares_are_relative_parts_of_mu_squared")
def shares_not_normalised(calibrate: Any, plan: Any, budget: Any) -> Any:
    """Each question of a plan is given the whole budget."""
    alone = [calibrate(dataclasses.replace(plan, queries=(one,)), budget) for one in plan.queries]
    return dataclasses.replace(alone[0], releases=tuple(plan.releases[0] for plan in alone))


def _not_in_the_price(plant: Plant, left_out: Callable[[Any], bool]) -> None:
    plant.wrap("plan.CalibratedPlan.events")(
        lambda _, plan: tuple(release.event for release in plan.releases if not left_out(release.query))
    )


@wrong("discovery.plan_discovery", "test_a_level_of_one_record_is_seen_with_a_billionth_or_a_tenth_of_delta")
def threshold_one_record_too_low(plan_discovery: Any, *arguments: Any, **options: Any) -> Any:
    """The threshold forgets that a level of one record already has one."""
    plan = plan_discovery(*arguments, **options)
    lower = plan.levels and dataclasses.replace(plan.levels, threshold=plan.levels.threshold - plan.levels.weight)
    return dataclasses.replace(plan, levels=lower)


@wrong("gradient_plan.GradientPlan.calibrate", "test_questions_are_paid_from_the_same_budget")
def gradients_paid_alone(calibrate: Any, plan: Any, budget: Any) -> Any:
    """Steps are given the whole budget beside questions."""
    alone = calibrate(dataclasses.replace(plan, queries=()), budget)
    return dataclasses.replace(calibrate(plan, budget), event=alone.event)


# Privacy units.


@wrong("plan.Budget.__post_init__", "test_rounds::test_unusable_options_are_refused")
def units_under_replace_one(check: Any, budget: Any) -> None:
    """Units are taken under replace-one, where the number of their records is no public knowledge."""
    adjacency = budget.adjacency
    object.__setattr__(budget, "adjacency", type(adjacency)("add-remove"))
    check(budget)
    object.__setattr__(budget, "adjacency", adjacency)


table(
    """
second-round-not-in-the-price: A question that is asked after other answers is not in the price of the plan.
    by test_the_certificate_states_the_planned_events_and_which_were_adaptive
    unpaid: lambda question: question.adaptive
forgotten-product-release: One of DP-HP's products is released and not paid for.
    by test_every_release_of_products_is_in_the_plan_the_ledger_and_the_certificate
    unpaid: lambda question: question.name == 'product-3'
a-plan-is-believed: Neither what a calibrated plan costs nor the sensitivities that it states are checked.
    by test_too_little_noise_is_refused test_a_sensitivity_below_that_of_the_adjacency_is_refused
    wrap plan.CalibratedPlan.__post_init__: lambda right, plan: None
opendp-told-of-one-record: OpenDP takes neighbours for closer than they are: one record apart, whatever the relation
        and the unit.
    by test_a_replaced_record_is_one_removed_and_one_added test_a_unit_with_several_records_moves_all_of_them
    wrap marginal_plan.MarginalPlan.distance: lambda _, plan: 1
rounding-of-scores-not-paid: OpenDP may spend all of ρ; nothing is left for the rounding of its scores.
    by test_opendp_is_told_less_than_is_paid_by_what_rounding_may_cost
    wrap marginal_plan.MarginalPlan.spendable: lambda _, plan: plan.rho
events-of-a-discovery-not-checked: A certificate of a discovery may drop events, and state any sensitivity.
    by test_a_missing_event_is_found test_a_sensitivity_of_fewer_columns_or_of_add_remove_is_found
    wrap schema_certificate.check_events: lambda right, *arguments, **options: None
second-look-not-booked: The second look at the numeric columns is not paid for.
    by test_a_plan_costs_what_was_asked_and_hardly_less
    wrap discovery.DiscoveryPlan.events: lambda events, plan: tuple(event for event in events(plan) if event.name
        != "cells")
rate-rounded-down: Steps are paid for a sampling probability below the one that is drawn.
    by test_rates_are_rounded_up_to_what_a_word_can_realise
    rewrite gradient_plan: math.ceil(any_rate * RATES) => max(int(any_rate * RATES), 1)
units-of-many-records-sampled: Records of one unit are sampled one by one, for which no bound is proved.
    by test_units_with_several_records_are_refused
    wrap gradient_plan.GradientPlan.calibrate: lambda calibrate, plan, budget: calibrate(plan, budget if
        budget.contributions is None else dataclasses.replace(budget, contributions=1))
units-paid-as-records: A unit with several records is paid for like one record.
    by test_a_unit_more_moves_the_sums_by_at_most_the_stated_sensitivity
    wrap grid.GridBound.of_unit: lambda _, bound, contributions: bound
units-booked-as-records: Plan and ledger speak of records where several of them belong together.
    by test_plan_and_certificate_state_the_unit
    wrap plan.unit_text: lambda _, unit, column, contributions: unit
records-booked-as-units: A run of records may claim the words for a unit column.
    by test_a_release_of_records_cannot_pass_for_one_of_units
    wrap events.check_unit: lambda check, unit, contributions: check(unit, contributions or 1)
""",
    unpaid=_not_in_the_price,
)


# Where something is chosen by the data: the discovery of a schema, and OpenDP's marginals.


ALIKE = "test_a_level_of_k_records_is_nearly_as_likely_to_be_seen_as_one_of_k_and_one_more"
MOVED = "test_a_record_moves_the_exact_counts_by_at_most_the_sensitivity"


@wrong("exact_counts.LevelCounter.counts", ALIKE, MOVED)
def level_counted_twice(counts: Any, counter: Any) -> Any:
    """A record adds two to the count of its level."""
    names, numbers = counts(counter)
    return names, 2 * numbers


@wrong("exact_counts.read_counts", MOVED)
def look_counted_twice(read_counts: Any, *arguments: Any, **options: Any) -> Any:
    """A record adds two to its cell of a numeric column."""
    found = read_counts(*arguments, **options)
    found.bins = {name: 2 * counts for name, counts in found.bins.items()}
    return found


@wrong("findings.from_levels", "test_bounds_and_levels_are_found")
def order_of_levels_from_the_data(from_levels: Any, gap: Any, levels: Any, *more: Any) -> Any:
    """Levels stand in the order in which the records have them."""
    found = from_levels(gap, levels, *more)
    if found.column is None:
        return found
    other = found.column.other
    return dataclasses.replace(found, column=dataclasses.replace(found.column, levels=(*levels, other)))


table("""
levels-without-threshold: Every level that occurs is seen.
    by test_a_record_with_a_level_of_its_own_is_nearly_never_seen_in_files
    wrap noise.noisy_counts_above: lambda above, counts, *, noise_std, threshold: above(counts, noise_std=noise_std,
        threshold=1)
level-noise-halved: Counts of levels get half of their noise.
    by test_a_level_of_k_records_is_nearly_as_likely_to_be_seen_as_one_of_k_and_one_more
    wrap noise.noisy_counts_above: lambda above, counts, *, noise_std, threshold: above(counts, noise_std=noise_std /
        2, threshold=threshold)
threshold-from-the-data: The most frequent level is always seen.
    by test_a_record_with_a_level_of_its_own_is_nearly_never_seen_in_files
    wrap noise.noisy_counts_above: lambda above, counts, *, noise_std, threshold: above(counts, noise_std=noise_std,
        threshold=min(threshold, int(counts.max(initial=1))))
looks-without-noise: The counts along a column are exact.
    by test_the_noise_on_both_looks_has_the_stated_scale
    wrap noise.add_noise: lambda _, sums, **__: sums
bounds-from-exact-counts: Bounds are found in exact counts.
    by test_a_record_with_an_extreme_value_hardly_moves_the_bounds
    rewrite discovery.SchemaGate._bounds: occupied(any_noisy, any_std, any_zero) =>
        occupied(first.bins[name].astype(float), any_std, any_zero)
opendp-spends-twice: OpenDP is told to spend twice what was paid.
    by test_opendp_finds_the_cost_of_a_neighbour_within_the_plan
    wrap marginal_plan.MarginalPlan.spendable: lambda spendable, plan: 2 * spendable(plan)
opendp-not-booked: Marginals are not booked.
    by test_marginals::test_a_refusal_of_the_ledger_comes_before_the_records
    wrap session.Session._reserve: lambda reserve, session: None if type(session).__name__ == "MarginalSession" else
        reserve(session)
keys-read-off-the-records: The cells of a column are those that occur.
    by test_every_record_becomes_its_public_cell
    wrap marginals._read: lambda read, *given: np.stack([np.unique(codes, return_inverse=True)[1] for codes in
        read(*given)])
message-of-opendp-passed-on: What OpenDP says of the records is told.
    by test_when_opendp_stops_the_cost_stays_reserved
    rewrite marginals._run: type(any_error).__name__ => str(any_error)
""")
