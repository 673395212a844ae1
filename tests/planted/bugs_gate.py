"""Planted bugs at the gate: its state machine, and what is the own of each kind of query."""

from __future__ import annotations

import dataclasses
from typing import Any

from tests.planted.patches import Plant, bug, table, wrong

MIXES = "test_a_map_that_mixes_records_is_refused_before_anything_is_spent"
ROUND = "test_rounds::test_an_error_while_noise_is_drawn_leaves_the_cost_spent"
MEPF_NOISE = "test_mepf::test_everything_that_is_released_has_its_noise"


def _kind(session: Any, name: str) -> bool:
    return type(session).__name__ == name


# The state machine.


def _noise_without_confirming(plant: Plant, kind: str) -> None:
    """The noise is drawn and the cost can still be given back."""
    plant.wrap("session.Session._confirm")(lambda confirm, session: None if _kind(session, kind) else confirm(session))


@wrong("session.Session._noisy", ROUND)
def noise_taken_for_drawn_too_late(_: Any, session: Any, sums: Any, event: Any) -> Any:
    """The reservation is confirmed when the noise is there, and not before."""
    from noisegate.privacy import noise

    drawn = noise.add_noise(sums, noise_std=event.noise_std, sampler=event.sampler)
    session._confirm()
    return drawn


def _noise_of(plant: Plant, wrong: Any) -> None:
    """Plants another event for the noise of each query; None for none at all."""

    @plant.wrap("session.Session._noisy")
    def _(noisy: Any, session: Any, sums: Any, event: Any) -> Any:
        changed = wrong(session, event)
        if changed is None:
            session._confirm()
            return sums
        return noisy(session, sums, changed)


def _exact(plant: Plant, *names: str) -> None:
    _noise_of(plant, lambda _, event: None if event.name.startswith(names) else event)


@bug("test_noise_stands_to_the_norm_that_was_chosen_as_was_paid_for")
def noise_shrunk_with_the_norm_twice(plant: Plant) -> None:
    """The noise of gradients is multiplied with the clipping norm once more."""

    def wrong(session: Any, event: Any) -> Any:
        norm = getattr(getattr(session.plan, "plan", None), "clip_norm", None)
        return event if norm is None else dataclasses.replace(event, noise_std=event.noise_std * norm / 2)

    _noise_of(plant, wrong)


# Sums in rounds.


@wrong("execution.map_execution", MIXES, "test_a_map_that_is_unusable_is_named_before_anything_is_spent")
def independence_probe_skipped(_: Any, name: str, feature_map: Any, layout: Any, rows: int | None = None) -> Any:
    """A map is used as it comes, whether it mixes records or not; also one that represents them."""
    from noisegate.gate.execution import Execution, block_rows

    return Execution(rows=rows or block_rows(feature_map, len(layout.numeric)))


# Steps.


@bug("test_a_resumed_run_that_fails_gives_nothing_back")
def resumed_run_gives_back(plant: Plant) -> None:
    """A resumed run that fails gives back what the run before it had spent."""
    plant.rewrite("gradients_query.StepSession._reserve", "self.state = self.state.to(State.CONFIRMED)", "pass")

    @plant.wrap("session.Reservation.void")
    def _(void: Any, reservation: Any, error: Any) -> None:
        reservation._resumed = None
        reservation.ledger.void = lambda number, reason: reservation.ledger.commit(number, certificate="0" * 64)
        void(reservation, error)


table(
    """
voided-after-noise: An error after the first noise gives the cost of a round back.
    by test_rounds::test_an_error_while_noise_is_drawn_leaves_the_cost_spent
    unconfirmed: 'SumSession'
opendp-voided-after-noise: An error after OpenDP began gives the cost back.
    by test_when_opendp_stops_the_cost_stays_reserved
    unconfirmed: 'MarginalSession'
discovery-voided-after-noise: An error after the first look gives the cost of a discovery back.
    by test_after_noise_was_drawn_the_cost_stays
    unconfirmed: 'SchemaGate'
validation-embedding-without-noise: The embedding that a training stops by is exact, by whichever network: the leak of
        DP-MEPF's published code.
    by test_mepf::test_everything_that_is_released_has_its_noise test_another_network_may_say_when_to_stop
    exact: 'stopping'
exact-label-counts: The numbers of records of each label are exact.
    by test_mepf::test_everything_that_is_released_has_its_noise
    exact: 'counts'
second-moment-without-noise: The second of two moments is exact.
    by test_mge::test_everything_that_is_released_has_its_noise
    exact: 'second-moment'
discriminator-without-noise: The gradients of the discriminator are exact.
    by test_dre::test_every_sum_has_its_noise
    exact: 'discriminator'
plan-for-another-budget: A gate answers a plan that was calibrated for more than it has.
    by test_a_plan_for_another_budget_is_refused
    rewrite gate._check_plan: any_plan.budget != any_budget => False
second-answer-for-free: A gate answers as many plans as it is asked.
    by test_gate::test_a_second_answer_is_refused test_of_two_sessions_of_one_gate_the_first_to_ask_has_the_answer
    rewrite session.Session._asking: any_access.single_use_lock.acquire(blocking=False) => True
answers-of-forked-processes: A process that was forked has the session, and answers what its parent answers.
    by test_another_process_is_given_nothing_and_pays_nothing
        test_a_process_that_is_forked_while_records_are_read_draws_no_noise
        test_a_forked_child_hands_out_no_second_release
    wrap session.Session._check_process: lambda *_: None
copies-that-answer: A session or a gate can be copied like anything else.
    by test_what_answers_once_cannot_be_copied
    wrap session.Single.__reduce_ex__: lambda _, single, protocol: object.__reduce_ex__(single, protocol)
two-releases-of-one-reservation: Who finds its reservation committed by another is warned, and keeps the release.
    by test_one_reservation_pays_for_one_release
    rewrite session.Reservation.commit: ClosedError => KeyboardInterrupt
number-of-records-not-checked: Replace-one takes any number of records for the public one.
    by test_replace_one_needs_the_number_of_records_that_the_data_has
    rewrite session.Session._check_records: any_budget.adjacency is Adjacency.REPLACE_ONE and any_a != any_b => False
other-data-in-a-later-round: A later round may be of other records than the first.
    by test_data_that_changes_between_rounds_stops_the_run_and_quotes_no_number
    rewrite session.Session._check_records: self._seen.setdefault(any_a, any_b) != any_b => False
answered-after-a-refusal: Who asks again after the ledger refused is answered, and pays nothing.
    by test_no_question_is_answered_after_the_ledger_refused test_a_refusal_of_the_ledger_ends_it
    wrap session.Session._end: lambda *_: None
    rewrite session.Session._asking: self.state = self.state.to(State.VOID); self._access.reservation.void(any_error)
        => self.state = State.CONFIRMED
anything-follows-anything: The state machine refuses nothing.
    by test_only_what_is_listed_follows
    wrap session.State.to: lambda _, state, following: following
a-question-answered-twice: A question stays open when it was answered.
    by test_a_question_is_answered_once
    wrap sums_query.SumSession.open_questions: lambda _, session: tuple(release.query.name for release in
        session.plan.releases)
adaptive-question-of-any-size: An adaptive question may release more numbers than were paid for.
    by test_an_adaptive_map_may_be_smaller_than_planned_but_not_larger
    rewrite sums_query.SumSession._task: any_map.dim <= any_one.dim if any_one.adaptive else any_rest => True if
        any_one.adaptive else any_rest
tables-of-another-schema: Tables of other columns than the records have are counted.
    by test_tables_of_other_columns_than_the_schema_has_are_refused
    rewrite sums_query.SumSession._task: len(any_a) != len(any_b) or any_c != any_d => False
exact-sum-outside-the-ball: What a map looks up or counts is added though its vectors may be outside the ball.
    by test_the_table_is_used_when_no_vector_needs_clipping_and_only_then
        test_one_record_stays_in_the_ball_and_a_map_that_might_leave_it_is_not_counted
    rewrite sums.SumTask.exact: found.squared_norm <= any_units => True
exact-sum-of-a-stranger: A subclass is summed like its base, though it may say something else.
    by test_a_map_that_only_looks_like_it_is_not_counted test_a_map_that_only_looks_like_it_is_not_looked_up
    rewrite sums.SumTask.exact: is_reviewed(any_type) => True
counted-with-larger-weights: The weights of tables go to the next point of the grid outwards.
    by test_counts_are_the_sums_of_quantised_vectors
    wrap contingency.Contingency.integer_weights: lambda weights, *given: weights(*given) + 1
counted-beyond-the-norm: Tables of a larger norm than was planned are not refused.
    by test_vectors_longer_than_planned_are_refused
    rewrite contingency.Contingency.integer_weights: any_sum > units * units => False
first-record-counted-twice: The first record of a batch is counted twice in each table.
    by test_counts_are_the_sums_of_quantised_vectors
    rewrite contingency.Contingency.exact_sum: np.bincount(work, minlength=len(cells)) =>
        np.bincount(np.concatenate([work, work[:1]]), minlength=len(cells))
ball-of-one-table-only: The squared norms of columns are not added up.
    by test_one_record_stays_in_the_ball_and_a_map_that_might_leave_it_is_not_counted
    rewrite products.Products.exact_sum: largest += len(members) * any_one => largest = max(largest, any_one)
fixed-batches-paid-as-poisson: Batches take turns, and are paid as if they were drawn.
    by test_every_step_draws_a_new_sample_of_all_records
    rewrite samples.PoissonSamples.places: poisson_sample(records, any_rate, any_words) => np.arange(step % 2,
        records, 2)
one-step-more: One step more may be begun than was paid for.
    by test_the_session_refuses_after_the_last_step
    rewrite gradients_query.StepSession.remaining_steps: max(steps - any_b, 0) => max(steps + 1 - any_b, 0)
    rewrite gradients_query.StepSession.step: any_a >= any_plan.steps => False
one-step-more-of-a-journal: Two processes take one step more than was paid for.
    by test_two_processes_with_one_journal_share_its_steps
    rewrite gradients_query.StepSession.step: any_a >= any_plan.steps => any_a > any_plan.steps
step-begun-not-written: A step that is begun is not written down.
    by test_steps_get_numbers_of_their_own test_a_run_is_resumed_with_the_steps_that_are_left_and_spends_once
    rewrite journal.Journal.begin: os.write(handle, b'.') => 1
resumed-without-its-reservation: A run goes on whose reservation was closed.
    by test_a_journal_of_a_closed_reservation_is_refused
    rewrite session.Reservation.reserve: any_kinds not in _OPEN or any_rest => False
padding-of-a-step-counted: The last record of a block is added once for each empty place.
    by test_a_step_is_the_clipped_sum_and_noise_of_the_planned_size
    rewrite samples.HeldGradients.total: part[:len(block)] => part
gradient-probe-skipped: A loss is used as it comes, whether it is a function of the record or not.
    by test_gradients_that_depend_on_the_place_in_a_block_are_refused
    wrap gradients.choose_execution: lambda *_: None
vector-of-a-sample-not-clipped: The vector of a sample is as long as the function makes it.
    by test_a_vector_is_clipped_as_a_whole_exactly test_batch::test_a_record_moves_a_vector_by_at_most_the_sensitivity
    rewrite shards.BatchSession._clipped: any_grid.quantise(any_row)[0].astype(np.int64) =>
        np.rint(np.nan_to_num(row, posinf=0, neginf=0).clip(-1e9, 1e9) * plan.scale).astype(np.int64)
vector-of-a-sample-moves-by-its-norm: The sensitivity of the vector of a whole sample is taken for its norm, as if a
        record were added to it.
    by test_batch::test_a_record_moves_a_vector_by_at_most_the_sensitivity
        test_two_worlds_are_told_apart_by_as_much_as_is_claimed_and_no_more
    wrap shard_plan.BatchPlan.event: lambda event, *given: dataclasses.replace(event(*given),
        sensitivity=event(*given).sensitivity / 2)
failure-of-a-function-is-told: A function that fails for some samples stops the run, which tells of them.
    by test_a_function_that_fails_for_a_sample_hands_out_the_noise_of_a_vector_of_zeros
    rewrite shards.BatchSession._exact: return np.zeros(any_count, dtype=np.int64) => raise
shape-of-a-vector-follows-the-sample: A vector has as many coordinates as the function makes.
    by test_a_shape_that_follows_the_sample_is_a_vector_of_zeros
    rewrite shards.BatchSession._clipped: any_shapes != plan.parameters => False
whole-batches-paid-as-sampled: Every step uses all records, and is paid as if they were sampled.
    by test_every_step_is_of_a_new_poisson_sample
    wrap gradients_query.SampleSession._sample: lambda _, session, records, number: np.arange(records)
function-with-a-memory-accepted: A function is used as it comes, whatever it keeps between calls.
    by test_a_function_with_a_memory_is_refused_before_anything_is_spent
    wrap shards.BatchSession._probe: lambda *_: None
parameters-handed-out-to-write-into: A function can leave what it saw of a sample in the parameters of the next step.
    by test_what_a_function_writes_into_its_parameters_is_gone_at_the_next_step
    wrap shards.copied: lambda _, parameters: parameters
shards-drawn-anew: A record is in another shard in each step, and pays for one.
    by test_a_record_is_in_one_shard_and_shards_take_turns
    rewrite shards.BatchSession._sample: self._shards is None => True
one-shard-pays-for-none: The steps that a shard is used in are rounded down.
    by test_shards_cost_what_the_steps_of_one_cost
    wrap events.BatchGaussianEvent.uses: lambda _, event: max(event.steps // event.shards, 1)
""",
    exact=_exact,
    unconfirmed=_noise_without_confirming,
)
