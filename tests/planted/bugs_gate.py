"""Planted bugs at the gate: its state machine, and what is the own of each kind of query."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from tests.planted.patches import Plant, bug

MIXES = "test_a_map_that_mixes_records_is_refused_before_anything_is_spent"
ROUND = "test_rounds::test_an_error_while_noise_is_drawn_leaves_the_cost_spent"
MEPF_NOISE = "test_mepf::test_everything_that_is_released_has_its_noise"


def _kind(session: Any, name: str) -> bool:
    return type(session).__name__ == name


# The state machine.


@bug("test_a_plan_for_another_budget_is_refused")
def plan_for_another_budget(plant: Plant) -> None:
    """A gate answers a plan that was calibrated for more than it has."""
    plant.rewrite("asked.check_plan", "any_plan.budget != any_budget", "False")


@bug("test_gate::test_a_second_answer_is_refused", "test_of_two_sessions_of_one_gate_the_first_to_ask_has_the_answer")
def second_answer_for_free(plant: Plant) -> None:
    """A gate answers as many plans as it is asked."""
    plant.rewrite("session.Session._asking", "any_access.single_use_lock.acquire(blocking=False)", "True")


@bug(
    "test_another_process_is_given_nothing_and_pays_nothing",
    "test_a_process_that_is_forked_while_records_are_read_draws_no_noise",
    "test_a_forked_child_hands_out_no_second_release",
)
def answers_of_forked_processes(plant: Plant) -> None:
    """A process that was forked has the session, and answers what its parent answers."""
    plant.wrap("session.Session._check_process")(lambda *_: None)


@bug("test_what_answers_once_cannot_be_copied")
def copies_that_answer(plant: Plant) -> None:
    """A session or a gate can be copied like anything else."""
    plant.wrap("session.Single.__reduce_ex__")(lambda _, single, protocol: object.__reduce_ex__(single, protocol))


@bug("test_one_reservation_pays_for_one_release")
def two_releases_of_one_reservation(plant: Plant) -> None:
    """Who finds its reservation committed by another is warned, and keeps the release."""
    plant.rewrite("session.Reservation.commit", "ClosedError", "KeyboardInterrupt")


@bug("test_replace_one_needs_the_number_of_records_that_the_data_has")
def number_of_records_not_checked(plant: Plant) -> None:
    """Replace-one takes any number of records for the public one."""
    plant.rewrite(
        "session.Session._check_records", "any_budget.adjacency is Adjacency.REPLACE_ONE and any_a != any_b", "False"
    )


@bug("test_data_that_changes_between_rounds_stops_the_run_and_quotes_no_number")
def other_data_in_a_later_round(plant: Plant) -> None:
    """A later round may be of other records than the first."""
    plant.rewrite("session.Session._check_records", "self._seen.setdefault(any_a, any_b) != any_b", "False")


@bug("test_no_question_is_answered_after_the_ledger_refused", "test_a_refusal_of_the_ledger_ends_it")
def answered_after_a_refusal(plant: Plant) -> None:
    """Who asks again after the ledger refused is answered, and pays nothing."""
    plant.wrap("session.Session._end")(lambda *_: None)
    plant.rewrite(
        "session.Session._asking",
        "self.state = self.state.to(State.VOID)\nself._access.reservation.void(any_error)",
        "self.state = State.CONFIRMED",
    )


@bug("test_only_what_is_listed_follows")
def anything_follows_anything(plant: Plant) -> None:
    """The state machine refuses nothing."""
    plant.wrap("session.State.to")(lambda _, state, following: following)


def _noise_without_confirming(plant: Plant, kind: str) -> None:
    """The noise is drawn and the cost can still be given back."""
    plant.wrap("session.Session._confirm")(lambda confirm, session: None if _kind(session, kind) else confirm(session))


@bug(ROUND)
def voided_after_noise(plant: Plant) -> None:
    """An error after the first noise gives the cost of a round back."""
    _noise_without_confirming(plant, "SumSession")


@bug("test_when_opendp_stops_the_cost_stays_reserved")
def opendp_voided_after_noise(plant: Plant) -> None:
    """An error after OpenDP began gives the cost back."""
    _noise_without_confirming(plant, "MarginalSession")


@bug("test_after_noise_was_drawn_the_cost_stays")
def discovery_voided_after_noise(plant: Plant) -> None:
    """An error after the first look gives the cost of a discovery back."""
    _noise_without_confirming(plant, "SchemaGate")


@bug(ROUND)
def noise_taken_for_drawn_too_late(plant: Plant) -> None:
    """The reservation is confirmed when the noise is there, and not before."""

    @plant.wrap("session.Session._noisy")
    def _(_: Any, session: Any, sums: Any, event: Any) -> Any:
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


@bug(MEPF_NOISE, "test_another_network_may_say_when_to_stop")
def validation_embedding_without_noise(plant: Plant) -> None:
    """The embedding that a training stops by is exact, by whichever network: the leak of DP-MEPF's published code."""
    _exact(plant, "stopping")


@bug(MEPF_NOISE)
def exact_label_counts(plant: Plant) -> None:
    """The numbers of records of each label are exact."""
    _exact(plant, "counts")


@bug("test_mge::test_everything_that_is_released_has_its_noise")
def second_moment_without_noise(plant: Plant) -> None:
    """The second of two moments is exact."""
    _exact(plant, "second-moment")


@bug("test_dre::test_every_sum_has_its_noise")
def discriminator_without_noise(plant: Plant) -> None:
    """The gradients of the discriminator are exact."""
    _exact(plant, "discriminator")


@bug("test_noise_stands_to_the_norm_that_was_chosen_as_was_paid_for")
def noise_shrunk_with_the_norm_twice(plant: Plant) -> None:
    """The noise of gradients is multiplied with the clipping norm once more."""

    def wrong(session: Any, event: Any) -> Any:
        norm = getattr(getattr(session.plan, "plan", None), "clip_norm", None)
        return event if norm is None else dataclasses.replace(event, noise_std=event.noise_std * norm / 2)

    _noise_of(plant, wrong)


# Sums in rounds.


@bug(MIXES, "test_a_map_that_is_unusable_is_named_before_anything_is_spent")
def independence_probe_skipped(plant: Plant) -> None:
    """A map is used as it comes, whether it mixes records or not; also one that represents them."""

    @plant.wrap("execution.map_execution")
    def _(_: Any, name: str, feature_map: Any, layout: Any, rows: int | None = None) -> Any:
        from noisegate.gate.execution import Execution, block_rows

        return Execution(rows=rows or block_rows(feature_map, len(layout.numeric)))


@bug("test_a_question_is_answered_once")
def a_question_answered_twice(plant: Plant) -> None:
    """A question stays open when it was answered."""
    plant.wrap("sums_query.SumSession.open_questions")(
        lambda _, session: tuple(release.query.name for release in session.plan.releases)
    )


@bug("test_an_adaptive_map_may_be_smaller_than_planned_but_not_larger")
def adaptive_question_of_any_size(plant: Plant) -> None:
    """An adaptive question may release more numbers than were paid for."""
    plant.rewrite(
        "sums_query.SumSession._task",
        "any_map.dim <= any_one.dim if any_one.adaptive else any_rest",
        "True if any_one.adaptive else any_rest",
    )


@bug("test_tables_of_other_columns_than_the_schema_has_are_refused")
def tables_of_another_schema(plant: Plant) -> None:
    """Tables of other columns than the records have are counted."""
    plant.rewrite("sums_query.SumSession._task", "len(any_a) != len(any_b) or any_c != any_d", "False")


# Sums that a map says how to take.


@bug(
    "test_the_table_is_used_when_no_vector_needs_clipping_and_only_then",
    "test_one_record_stays_in_the_ball_and_a_map_that_might_leave_it_is_not_counted",
)
def exact_sum_outside_the_ball(plant: Plant) -> None:
    """What a map looks up or counts is added though its vectors may be outside the ball."""
    plant.rewrite("sums.SumTask.exact", "found.squared_norm <= any_units", "True")


@bug("test_a_map_that_only_looks_like_it_is_not_counted", "test_a_map_that_only_looks_like_it_is_not_looked_up")
def exact_sum_of_a_stranger(plant: Plant) -> None:
    """A subclass is summed like its base, though it may say something else."""
    plant.rewrite("sums.SumTask.exact", "any_one == any_other", "True")


@bug("test_counts_are_the_sums_of_quantised_vectors")
def counted_with_larger_weights(plant: Plant) -> None:
    """The weights of tables go to the next point of the grid outwards."""
    plant.wrap("contingency.Contingency.integer_weights")(lambda weights, *given: weights(*given) + 1)


@bug("test_vectors_longer_than_planned_are_refused")
def counted_beyond_the_norm(plant: Plant) -> None:
    """Tables of a larger norm than was planned are not refused."""
    plant.rewrite("contingency.Contingency.integer_weights", "any_sum > units * units", "False")


@bug("test_counts_are_the_sums_of_quantised_vectors")
def first_record_counted_twice(plant: Plant) -> None:
    """The first record of a batch is counted twice in each table."""
    plant.rewrite(
        "contingency.Contingency.exact_sum",
        "np.bincount(work, minlength=len(cells))",
        "np.bincount(np.concatenate([work, work[:1]]), minlength=len(cells))",
    )


@bug("test_one_record_stays_in_the_ball_and_a_map_that_might_leave_it_is_not_counted")
def ball_of_one_table_only(plant: Plant) -> None:
    """The squared norms of columns are not added up."""
    plant.rewrite("products.Products.exact_sum", "largest += len(members) * any_one", "largest = max(largest, any_one)")


# Steps.


@bug("test_every_step_draws_a_new_sample_of_all_records")
def fixed_batches_paid_as_poisson(plant: Plant) -> None:
    """Batches take turns, and are paid as if they were drawn."""
    plant.rewrite(
        "samples.PoissonSamples.places",
        "poisson_sample(records, any_rate, any_words)",
        "np.arange(step % 2, records, 2)",
    )


@bug("test_the_session_refuses_after_the_last_step")
def one_step_more(plant: Plant) -> None:
    """One step more may be begun than was paid for."""
    plant.rewrite("gradients_query.StepSession.remaining_steps", "max(steps - any_b, 0)", "max(steps + 1 - any_b, 0)")
    plant.rewrite("gradients_query.StepSession.step", "any_a >= any_plan.steps", "False")


@bug("test_two_processes_with_one_journal_share_its_steps")
def one_step_more_of_a_journal(plant: Plant) -> None:
    """Two processes take one step more than was paid for."""
    plant.rewrite("gradients_query.StepSession.step", "any_a >= any_plan.steps", "any_a > any_plan.steps")


@bug("test_steps_get_numbers_of_their_own", "test_a_run_is_resumed_with_the_steps_that_are_left_and_spends_once")
def step_begun_not_written(plant: Plant) -> None:
    """A step that is begun is not written down."""
    plant.rewrite("journal.Journal.begin", "os.write(handle, b'.')", "1")


@bug("test_a_resumed_run_that_fails_gives_nothing_back")
def resumed_run_gives_back(plant: Plant) -> None:
    """A resumed run that fails gives back what the run before it had spent."""
    plant.rewrite("gradients_query.StepSession._reserve", "self.state = self.state.to(State.CONFIRMED)", "pass")

    @plant.wrap("session.Reservation.void")
    def _(void: Any, reservation: Any, error: Any) -> None:
        reservation._resumed = None
        reservation.ledger.void = lambda number, reason: reservation.ledger.commit(number, certificate="0" * 64)
        void(reservation, error)


@bug("test_a_journal_of_a_closed_reservation_is_refused")
def resumed_without_its_reservation(plant: Plant) -> None:
    """A run goes on whose reservation was closed."""
    plant.rewrite("session.Reservation.reserve", "any_kinds not in _OPEN or any_rest", "False")


@bug("test_a_step_is_the_clipped_sum_and_noise_of_the_planned_size")
def padding_of_a_step_counted(plant: Plant) -> None:
    """The last record of a block is added once for each empty place."""
    plant.rewrite("steps.HeldGradients.total", "part[:len(block)]", "part")


@bug("test_gradients_that_depend_on_the_place_in_a_block_are_refused")
def gradient_probe_skipped(plant: Plant) -> None:
    """A loss is used as it comes, whether it is a function of the record or not."""
    plant.wrap("gradients.choose_execution")(lambda *_: None)


# Vectors of whole samples.


@bug(
    "test_a_vector_is_clipped_as_a_whole_exactly", "test_batch::test_a_record_moves_a_vector_by_at_most_the_sensitivity"
)
def vector_of_a_sample_not_clipped(plant: Plant) -> None:
    """The vector of a sample is as long as the function makes it."""
    plant.rewrite(
        "batches.BatchSession._clipped",
        "any_grid.quantise(any_row)[0].astype(np.int64)",
        "np.rint(np.nan_to_num(row, posinf=0, neginf=0).clip(-1e9, 1e9) * plan.scale).astype(np.int64)",
    )


@bug(
    "test_batch::test_a_record_moves_a_vector_by_at_most_the_sensitivity",
    "test_two_worlds_are_told_apart_by_as_much_as_is_claimed_and_no_more",
)
def vector_of_a_sample_moves_by_its_norm(plant: Plant) -> None:
    """The sensitivity of the vector of a whole sample is taken for its norm, as if a record were added to it."""
    plant.wrap("batch_plan.BatchPlan.event")(
        lambda event, *given: dataclasses.replace(event(*given), sensitivity=event(*given).sensitivity / 2)
    )


@bug("test_a_function_that_fails_for_a_sample_hands_out_the_noise_of_a_vector_of_zeros")
def failure_of_a_function_is_told(plant: Plant) -> None:
    """A function that fails for some samples stops the run, which tells of them."""
    plant.rewrite("batches.BatchSession._exact", "return np.zeros(any_count, dtype=np.int64)", "raise")


@bug("test_a_shape_that_follows_the_sample_is_a_vector_of_zeros")
def shape_of_a_vector_follows_the_sample(plant: Plant) -> None:
    """A vector has as many coordinates as the function makes."""
    plant.rewrite("batches.BatchSession._clipped", "any_shapes != plan.parameters", "False")


@bug("test_every_step_is_of_a_new_poisson_sample")
def whole_batches_paid_as_sampled(plant: Plant) -> None:
    """Every step uses all records, and is paid as if they were sampled."""
    plant.wrap("gradients_query.SampleSession._sample")(lambda _, session, records, number: np.arange(records))


@bug("test_a_function_with_a_memory_is_refused_before_anything_is_spent")
def function_with_a_memory_accepted(plant: Plant) -> None:
    """A function is used as it comes, whatever it keeps between calls."""
    plant.wrap("batches.BatchSession._probe")(lambda *_: None)


@bug("test_what_a_function_writes_into_its_parameters_is_gone_at_the_next_step")
def parameters_handed_out_to_write_into(plant: Plant) -> None:
    """A function can leave what it saw of a sample in the parameters of the next step."""
    plant.wrap("batches.copied")(lambda _, parameters: parameters)


@bug("test_a_record_is_in_one_shard_and_shards_take_turns")
def shards_drawn_anew(plant: Plant) -> None:
    """A record is in another shard in each step, and pays for one."""
    plant.rewrite("batches.BatchSession._sample", "self._shards is None", "True")


@bug("test_shards_cost_what_the_steps_of_one_cost")
def one_shard_pays_for_none(plant: Plant) -> None:
    """The steps that a shard is used in are rounded down."""
    plant.wrap("events.BatchGaussianEvent.uses")(lambda _, event: max(event.steps // event.shards, 1))
