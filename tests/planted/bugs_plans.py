"""Planted bugs in plans and their units, in choices by the data, in the price, and in the gate that answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.planted.patches import Plant, bug, table, wrong

from noisegate.privacy.events import gaussian_of, replace_gaussian


@wrong("plan.plan_sums", "test_shares_are_relative_parts_of_mu_squared")
def shares_not_normalised(
    plan_sums: Any, budget: Any, queries: Any, **options: Any
) -> Any:
    """Each question of a plan is given the whole budget."""
    alone = [plan_sums(budget, (query,), **options) for query in queries]
    return dataclasses.replace(
        alone[0], mechanisms=tuple(plan.releases[0] for plan in alone)
    )


def _not_in_the_price(plant: Plant, left_out: Callable[[Any], bool]) -> None:
    plant.wrap("plan.Plan.events")(
        lambda _, plan: tuple(
            release.event for release in plan.releases if not left_out(release.query)
        )
    )


@wrong(
    "discovery.plan_discovery",
    "test_a_level_of_one_record_is_seen_with_a_billionth_or_a_tenth_of_delta",
)
def threshold_one_record_too_low(
    plan_discovery: Any, *arguments: Any, **options: Any
) -> Any:
    """The threshold forgets that a level of one record already has one."""
    plan = plan_discovery(*arguments, **options)
    lower = [
        dataclasses.replace(
            counts,
            event=dataclasses.replace(
                counts.event, threshold=counts.event.threshold - counts.event.weight
            ),
        )
        if counts.event.name == "levels"
        else counts
        for counts in plan.mechanisms
    ]
    return dataclasses.replace(plan, mechanisms=tuple(lower))


@wrong(
    "gradient_plan.plan_steps",
    "test_questions_are_paid_from_the_same_budget",
)
def gradients_paid_alone(plan_steps: Any, budget: Any, query: Any) -> Any:
    """Steps are given the whole budget beside questions."""
    alone = plan_steps(budget, dataclasses.replace(query, queries=()))
    plan = plan_steps(budget, query)
    steps = dataclasses.replace(plan.mechanisms[-1], event=alone.events[0])
    return dataclasses.replace(plan, mechanisms=(*plan.releases, steps))


# Privacy units.


@wrong("plan.Budget.__post_init__", "test_units::test_unusable_options_are_refused")
def units_under_replace_one(check: Any, budget: Any) -> None:
    """Units are taken under replace-one, where the number of their records is no public knowledge."""
    adjacency = budget.adjacency
    object.__setattr__(budget, "adjacency", type(adjacency)("add-remove"))
    check(budget)
    object.__setattr__(budget, "adjacency", adjacency)


@wrong(
    "plan.Budget.__post_init__",
    "test_a_relation_given_as_text_has_the_noise_of_that_relation",
)
def text_for_a_relation(check: Any, budget: Any) -> None:
    """A relation that is given as text stays text, which is no relation that accounting asks for."""
    given = budget.adjacency
    check(budget)
    object.__setattr__(budget, "adjacency", given)


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
    wrap plan.Plan.__post_init__: lambda right, plan: None
opendp-told-of-one-record: OpenDP takes neighbours for closer than they are: one record apart, whatever the relation
        and the unit.
    by test_a_replaced_record_is_one_removed_and_one_added test_a_unit_with_several_records_moves_all_of_them
    wrap marginal_plan.neighbour_distance: lambda _, budget: 1
rounding-of-scores-not-paid: OpenDP may spend all of ρ; nothing is left for the rounding of its scores.
    by test_opendp_is_told_less_than_is_paid_by_what_rounding_may_cost
    wrap marginal_plan.NoisyMarginals.spendable_rho: lambda _, asked: asked.rho
events-of-a-discovery-not-checked: A certificate of a discovery may drop events, and state any sensitivity.
    by test_a_missing_event_is_found test_a_sensitivity_of_fewer_columns_or_of_add_remove_is_found
    wrap schema_certificate.check_events: lambda right, *arguments, **options: None
schema-left-out-of-the-sum: The line for schema and table gives the table's ε alone as that of both.
    by test_the_certificate_names_the_discovery_and_the_sum
    wrap accounting.joint_epsilon: lambda right, before, events, *more: right((), events, *more)
schema-left-out-of-the-headline: The public page promises for the table alone what is true of it and its schema.
    by test_the_certificate_names_the_discovery_and_the_sum
    wrap schema_certificate.with_discovery: lambda right, fit: fit
second-look-not-booked: The second look at the numeric columns is not paid for.
    by test_a_plan_costs_what_was_asked_and_hardly_less
    wrap plan.Plan.events: lambda events, plan: tuple(event for event in events(plan) if event.name != "cells")
rate-rounded-down: Steps are paid for a sampling probability below the one that is drawn.
    by test_rates_are_rounded_up_to_what_a_word_can_realise
    rewrite gradient_plan: math.ceil(any_rate * RATES) => max(int(any_rate * RATES), 1)
units-of-many-records-sampled: Records of one unit are sampled one by one, for which no bound is proved.
    by test_units_with_several_records_are_refused
    wrap gradient_plan.plan_steps: lambda plan_steps, budget, query: plan_steps(budget if budget.contributions is None
        else dataclasses.replace(budget, contributions=1), query)
units-paid-as-records: A unit with several records is paid for like one record.
    by test_a_unit_more_moves_the_sums_by_at_most_the_stated_sensitivity
    wrap grid.GridBound.of_unit: lambda _, bound, contributions: bound
units-booked-as-records: Plan and ledger speak of records where several of them belong together.
    by test_plan_and_certificate_state_the_unit
    wrap plan.resolve_unit: lambda _, unit, column, contributions: unit
records-booked-as-units: A run of records may claim the words for a unit column.
    by test_a_release_of_records_cannot_pass_for_one_of_units
    wrap events.check_unit: lambda check, unit, contributions: check(unit, contributions or 1)
""",
    unpaid=_not_in_the_price,
)


# Where something is chosen by the data: the discovery of a schema, and OpenDP's marginals.


ALIKE = (
    "test_a_level_of_k_records_is_nearly_as_likely_to_be_seen_as_one_of_k_and_one_more"
)
MOVED = "test_a_record_moves_the_exact_counts_by_at_most_the_sensitivity"


@wrong("exact_counts.LevelCounter.counted_levels", ALIKE, MOVED)
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


@wrong(
    "raw.RawTable.describe_columns",
    "test_neighbours_whose_types_differ_publish_the_same_facts",
)
def kinds_from_the_types_of_the_data(
    described: Any, table: Any, kinds: Any, *more: Any
) -> Any:
    """A column without a kind gets that of its type, which pandas chose by the values."""
    from noisegate.gate.discovery.raw import raw_kind_of

    suggested = {
        name: raw_kind_of(kind) or "ignore" for name, kind in table._types.items()
    }
    return described(table, {**suggested, **kinds}, *more)


@wrong("findings.column_from_levels", "test_bounds_and_levels_are_found")
def order_of_levels_from_the_data(
    from_levels: Any, gap: Any, levels: Any, *more: Any
) -> Any:
    """Levels stand in the order in which the records have them."""
    found = from_levels(gap, levels, *more)
    if found.column is None:
        return found
    other = found.column.other
    return dataclasses.replace(
        found, column=dataclasses.replace(found.column, levels=(*levels, other))
    )


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
    rewrite discovery.SchemaGate._find_bounds: findings.find_occupied_bins(any_noisy, any_std, any_zero) =>
        findings.find_occupied_bins(first_counts.bins[name].astype(float), any_std, any_zero)
opendp-spends-twice: OpenDP is told to spend twice what was paid.
    by test_opendp_finds_the_cost_of_a_neighbour_within_the_plan
    wrap marginal_plan.NoisyMarginals.spendable_rho: lambda spendable_rho, asked: 2 * spendable_rho(asked)
opendp-not-booked: Marginals are not booked.
    by test_marginals::test_a_refusal_of_the_ledger_comes_before_the_records
    wrap transaction.Transaction._reserve: lambda reserve, transaction: None if type(transaction.plan.mechanisms[0]
        ).__name__ == "NoisyMarginals" else reserve(transaction)
keys-read-off-the-records: The cells of a column are those that occur.
    by test_every_record_becomes_its_public_cell
    wrap marginals._read_cells: lambda read, *given: np.stack([np.unique(codes, return_inverse=True)[1] for codes in
        read(*given)])
message-of-opendp-passed-on: What OpenDP says of the records is told.
    by test_when_opendp_stops_the_cost_stays_reserved
    rewrite marginals._run_measurement: type(any_error).__name__ => str(any_error)
""")


def _is(event: Any, kind: str) -> bool:
    return type(event).__name__ == kind


def _priced(plant: Plant, wrong: Callable[[list[Any], Any], list[Any]]) -> None:
    """Makes ε that of other events than those that were run: `wrong(events, adjacency)`."""

    @plant.wrap("accounting.epsilon")
    def _(
        epsilon: Any, events: Any, delta: float, *adjacency: Any, **options: Any
    ) -> Any:
        relation = [*adjacency, *options.values()]
        return epsilon(
            wrong(list(events), relation[0] if relation else None), delta, *relation
        )


@bug(
    "test_shares_are_relative_parts_of_mu_squared",
    "test_epsilon_follows_from_the_file_alone",
)
def only_the_dearest_question_paid(plant: Plant) -> None:
    """Of several Gaussian events only the one with the least noise is paid for."""

    def wrong(events: list[Any], _: Any) -> list[Any]:
        gaussians = [event for event in events if _is(event, "Gaussian")]
        dearest = min(gaussians, key=lambda event: event.noise_multiplier, default=None)
        return [
            event for event in events if event is dearest or not _is(event, "Gaussian")
        ]

    _priced(plant, wrong)


@bug("test_events_of_all_records_are_exactly_gaussian")
def a_replaced_record_moves_once(plant: Plant) -> None:
    """A replaced record is paid for like an added one where every record is in every sample."""

    def wrong(events: list[Any], adjacency: Any) -> list[Any]:
        twice = getattr(adjacency, "value", "") == "replace-one"
        return [
            replace_gaussian(e, noise_std=2 * e.event.noise_std)
            if twice and _is(e, "Sampled") and e.rate == 1
            else e
            for e in events
        ]

    _priced(plant, wrong)


@bug("test_together_with_poisson_samples_they_are_refused")
def zcdp_beside_samples(plant: Plant) -> None:
    """Together with samples, what is stated in zCDP is left out instead of refused."""

    def wrong(events: list[Any], _: Any) -> list[Any]:
        sampled = any(_is(event, "Sampled") for event in events)
        return [
            event
            for event in events
            if not (sampled and _is(event, "ZeroConcentrated"))
        ]

    _priced(plant, wrong)


# Steps on samples.


@wrong("composition._normal_masses", "test_probabilities_are_rounded_up_by_their_error")
def probabilities_not_rounded_up(normal_masses: Any, places: Any) -> Any:
    """Probabilities of one step are taken for exact."""
    masses, errors = normal_masses(places)
    return masses, np.zeros_like(errors)


@wrong(
    "composition.lattice_losses",
    "test_a_step_on_the_lattice_is_never_below_the_exact_one",
)
def losses_rounded_down(lattice_losses: Any, *arguments: Any) -> Any:
    """Losses between two points of the lattice go to the lower one."""
    right = lattice_losses(*arguments)
    return right and dataclasses.replace(right, first_index=right.first_index - 1)


@wrong(
    "composition.lattice_losses",
    "test_points_that_are_found_badly_cost_tightness_and_nothing_else",
)
def misplaced_losses_not_raised(lattice_losses: Any, *arguments: Any) -> Any:
    """Losses are believed to be where they were looked for."""
    right = lattice_losses(*arguments)
    return right and dataclasses.replace(right, widening=0.0)


# Thresholds.


@wrong(
    "promise.tradeoff",
    "test_gaussian_sums_have_their_exact_curve",
    "test_no_threshold_on_the_noise_itself_beats_the_curve",
)
def an_attacker_who_sees_half(tradeoff: Any, certificate: Any) -> Any:
    """The curve of what an attacker catches is that of half of each epsilon."""
    curve = tradeoff(certificate)
    return dataclasses.replace(
        curve, pairs=tuple((epsilon / 2, delta) for epsilon, delta in curve.pairs)
    )


table(
    Path(__file__).with_name("cost.txt").read_text(encoding="utf-8"),
    _is=_is,
    gaussian_of=gaussian_of,
    priced=_priced,
)


# Streams: what every period adds, and what one record pays for all of them.
table(
    """
noise-of-a-period-forgotten: No period takes earlier noise back, so that it adds up.
    by test_every_release_is_the_exact_total_with_the_stated_noise
    rewrite stream_session.StreamTotals.answer: sums - noise_to_take_back(weights, earlier_noise) => sums
noise-drawn-twice: A period that is played again gets fresh noise.
    by test_a_period_has_one_answer_and_its_records_no_second_one
    rewrite stream_session.StreamTotals.answer: self._state.read_answer(self._period, name) is None => True
matrix-priced-unrounded: The sensitivity is that of the matrix before it is rounded, and of noise that is not.
    by test_the_stated_sensitivity_is_that_of_the_rounded_matrix_and_of_rounded_noise[7]
    wrap accounting.continual_sensitivity: lambda right, weights, record, corrected, numbers: record * math.sqrt(
        corrected * sum(math.prod((2 * j - 1) / (2 * j) for j in range(1, k + 1)) ** 2 for k in range(len(weights))))
corrections-not-paid: A record that is amended pays like one that stays as it was.
    by test_a_record_moves_a_whole_stream_by_at_most_the_stated_sensitivity[amended-None]
    wrap stream_plans.Horizon.correction_factor: lambda right, horizon, query: 1
withdrawal-taken-as-given: What is withdrawn is priced as if it were, to the bit, what was given.
    by test_a_record_moves_a_whole_stream_by_at_most_the_stated_sensitivity[misspelt-None]
        test_whatever_is_withdrawn_is_paid_for[all]
    wrap stream_plans.Horizon.correction_factor: lambda right, horizon, query: min(right(horizon, query), 3)
weights-that-do-not-fall: A certificate may state 3 for a correction whatever its weights are.
    by test_an_event_that_states_3_for_weights_that_do_not_fall_is_refused[weights0]
    rewrite events.Continual.__post_init__: self.corrected == _EXACT_CORRECTION_FACTOR and
        not weights_fall => False
withdrawn-twice: What is withdrawn leaves the sums twice.
    by test_periods_add_up_under_the_cells_of_the_first
    rewrite stream_session._PeriodRounds.sum: totals.sums[name] -= sums => totals.sums[name] -= 2 * sums
period-answered-again: Records that were released are released again, as those of another period.
    by test_a_period_has_one_answer_and_its_records_no_second_one
    wrap stream_state.StreamState.check_records_are_new: lambda right, *arguments, **options: None
noise-kept-for-ever: Noise that no later period takes back is not erased.
    by test_noise_that_no_later_period_takes_back_is_erased
    wrap stream_state.StreamState.erase_secrets_until: lambda right, *arguments: None
sums-of-periods-fitted: A method is given sums of single periods as if they were queries.
    by test_four_periods_of_few_records_are_fitted_to_their_queries[dp-merf]
    rewrite release.Release.from_arrays: name.startswith(PERIOD_PREFIX) => not name
seal-kept: The seal of a period stays when its noise is erased, and the exact sums can be found by trying.
    by test_a_seal_goes_with_its_noise_and_the_key_with_the_last_period
    rewrite stream_state.StreamState.erase_secrets_until: PeriodSums(answer.noisy) =>
        PeriodSums(answer.noisy, None, answer.seal)
key-of-seals-kept: The key of the seals stays when a stream has ended.
    by test_a_seal_goes_with_its_noise_and_the_key_with_the_last_period
    wrap stream_state.StreamState.erase_all_secrets: lambda right, state:
        state.erase_secrets_until(state.begun_period_count)
private-folder-open: A private folder that lay there stays open to all.
    by test_the_folder_is_its_owners_alone_and_free_of_what_a_killed_process_left
    wrap stream_state.StreamState._protect: lambda right, state: None
left-by-a-killed-process: What a killed process left in a private folder stays there.
    by test_the_folder_is_its_owners_alone_and_free_of_what_a_killed_process_left
    wrap stream_state.StreamState._sweep: lambda right, state: None
"""
)


MIXES = "test_a_map_that_mixes_records_is_refused_before_anything_is_spent"
ROUND = "test_an_error_from_the_noise_on_gives_nothing_back_and_ends_it[sums]"


def _kind(transaction: Any, name: str) -> bool:
    return type(transaction.plan.mechanisms[0]).__name__ == name


# The state machine.


def _noise_without_confirming(plant: Plant, kind: str) -> None:
    """The noise is drawn and the cost can still be given back."""
    plant.wrap("transaction.Transaction.confirm")(
        lambda confirm, transaction: (
            None if _kind(transaction, kind) else confirm(transaction)
        )
    )


@wrong("transaction.Transaction.add_noise", ROUND)
def noise_taken_for_drawn_too_late(
    _: Any, transaction: Any, sums: Any, event: Any
) -> Any:
    """The reservation is confirmed when the noise is there, and not before."""
    from noisegate.privacy import noise

    stated = gaussian_of(event)
    drawn = noise.add_noise(sums, noise_std=stated.noise_std, sampler=stated.sampler)
    transaction.confirm()
    return drawn


def _noise_of(plant: Plant, wrong: Any) -> None:
    """Plants another event for the noise of each query; None for none at all."""

    @plant.wrap("transaction.Transaction.add_noise")
    def _(noisy: Any, transaction: Any, sums: Any, event: Any) -> Any:
        changed = wrong(transaction, event)
        if changed is None:
            transaction.confirm()
            return sums
        return noisy(transaction, sums, changed)


def _exact(plant: Plant, *names: str) -> None:
    _noise_of(plant, lambda _, event: None if event.name.startswith(names) else event)


@bug("test_noise_stands_to_the_norm_that_was_chosen_as_was_paid_for")
def noise_shrunk_with_the_norm_twice(plant: Plant) -> None:
    """The noise of gradients is multiplied with the clipping norm once more."""

    def wrong(transaction: Any, event: Any) -> Any:
        queries = [getattr(one, "query", None) for one in transaction.plan.mechanisms]
        (norm,) = [getattr(one, "clip_norm", None) for one in queries[-1:]]
        if norm is None:
            return event
        return replace_gaussian(
            event, noise_std=gaussian_of(event).noise_std * norm / 2
        )

    _noise_of(plant, wrong)


# Sums in rounds.


@wrong(
    "execution.map_execution",
    MIXES,
    "test_a_map_that_is_unusable_is_named_before_anything_is_spent",
)
def independence_probe_skipped(
    _: Any,
    name: str,
    feature_map: Any,
    layout: Any,
    rows: int | None = None,
    *,
    threads: int = 1,
) -> Any:
    """A map is used as it comes, whether it mixes records or not; also one that represents them."""
    from noisegate.gate.execution import Execution, block_rows

    block = rows or block_rows(feature_map, len(layout.numeric))
    return Execution(rows=block, threads=threads)


# Steps.


@bug(
    "test_an_error_before_any_noise_gives_the_cost_back_unless_the_run_was_resumed[True]"
)
def resumed_run_gives_back(plant: Plant) -> None:
    """A resumed run that fails gives back what the run before it had spent."""
    plant.rewrite(
        "transaction.Transaction._reserve_resumed_steps",
        "self._advance_to(State.CONFIRMED)",
        "None",
    )

    @plant.wrap("transaction.Reservation.void")
    def _(void: Any, reservation: Any, error: Any) -> None:
        reservation._resumed_id = None
        reservation.ledger.void = lambda number, reason: reservation.ledger.commit(
            number, certificate="0" * 64
        )
        void(reservation, error)


TABLE = Path(__file__).with_name("gate.txt").read_text(encoding="utf-8")
table(TABLE, exact=_exact, unconfirmed=_noise_without_confirming)
