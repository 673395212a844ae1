"""Planted bugs in the noise, the grid and the sensitivity; in the ledger, and in how a run books on it."""

from __future__ import annotations

import math
import os
import warnings
from typing import Any

import numpy as np
from tests.planted.patches import Plant, bug, table, wrong

SCALE = "test_noise::test_the_right_scale_is_accepted_and_two_thirds_and_three_halves_rejected"
AUDIT = "test_right_sums_stay_below_their_claim_and_are_seen"


def _noise_of(plant: Plant, wrong: Any) -> None:
    """Plants `wrong(add_noise, sums, noise_std, sampler)` in place of the noise."""

    @plant.wrap("noise.add_noise")
    def _(add_noise: Any, sums: Any, *, noise_std: float, sampler: Any) -> Any:
        def draw(sums: Any = sums, times: float = 1.0) -> Any:
            std = (
                noise_std if times == 1 else max(noise_std * times, 16.0)
            )  # what can be drawn at all
            return add_noise(sums, noise_std=std, sampler=sampler)

        return wrong(draw, sums, noise_std, sampler.name)


@bug("test_noise_is_never_the_same_twice")
def discrete_noise_drawn_once(plant: Plant) -> None:
    """What was drawn for sums of one shape is drawn for them again."""
    drawn: dict[Any, Any] = {}

    def wrong(draw: Any, sums: Any, noise_std: float, sampler: str) -> Any:
        if sampler != "DISCRETE_GAUSSIAN":
            return draw()
        key = sums.shape, noise_std
        if key not in drawn:
            drawn[key] = draw(np.zeros_like(sums))
        return sums + drawn[key]

    _noise_of(plant, wrong)


@wrong("noise.choose_samplers", "test_samplers_are_chosen_by_a_public_rule")
def fast_draws_chosen_whatever_they_cost(
    choose: Any, coordinates: Any, *, epsilon: float
) -> Any:
    """The convolved Gaussian is taken for large releases where e^ε times its distance is beyond what is proved, too."""
    return choose(coordinates, epsilon=min(epsilon, 1.0))


# The bound on a record's vector: `Grid.quantise`.


def _vectors_of(plant: Plant, wrong: Any) -> None:
    """Plants `wrong(quantise, grid, vectors)` in place of `Grid.quantise`."""
    plant.wrap("grid.Grid.quantise")(wrong)


def _scaled(grid: Any, vectors: Any) -> Any:
    """Returns rows in grid units before they are clipped and rounded; rows that are not numbers are zero."""
    rows = np.where(np.isfinite(vectors).all(axis=1)[:, None], vectors, 0).astype(
        np.float64
    )
    rows = (rows - (0 if grid.centre is None else np.asarray(grid.centre))).astype(
        vectors.dtype
    )
    scaled = (rows * rows.dtype.type(grid.scale)).astype(np.float64)
    return np.maximum(scaled, 0) if grid.nonnegative else scaled


def _norms(rows: Any) -> Any:
    """Returns the norm of each row over the bound."""
    return np.linalg.norm(rows.astype(np.float64) / 2**22, axis=1)


@bug(
    "test_adversarial_rows_stay_inside_the_ball",
    "test_a_hostile_map_stays_within_the_bound_and_meets_it",
    "test_adding_removing_or_changing_a_record",
)
def clip_removed(plant: Plant) -> None:
    """Rows outside the ball are rounded and not clipped."""

    def wrong(quantise: Any, grid: Any, vectors: Any) -> Any:
        whole = np.trunc(np.clip(_scaled(grid, vectors), -(2.0**30), 2.0**30)).astype(
            np.int32
        )
        return np.where((_norms(whole) > 1)[:, None], whole, quantise(grid, vectors))

    _vectors_of(plant, wrong)


@bug("test_rows_close_to_the_bound_stay_inside_the_ball")
def exact_bound_check_skipped(plant: Plant) -> None:
    """Rows that are a little outside the ball stay there."""

    def wrong(quantise: Any, grid: Any, vectors: Any) -> Any:
        scaled = _scaled(grid, vectors)
        close = _norms(scaled) <= 1 + 2.0**-10
        return np.where(
            close[:, None],
            np.trunc(np.where(close[:, None], scaled, 0)),
            quantise(grid, vectors),
        ).astype(np.int32)

    _vectors_of(plant, wrong)


@bug("test_what_is_cut_off_a_long_row_counts_for_its_norm")
def cut_off_part_not_counted(plant: Plant) -> None:
    """The norm that a row is scaled by is that of what is left of it after a first rounding."""

    def wrong(quantise: Any, grid: Any, vectors: Any) -> Any:
        rows = quantise(grid, vectors).astype(np.int64)
        scaled = _scaled(grid, vectors)
        for row in np.flatnonzero(_norms(scaled) > 1.01):
            unit = scaled[row] / np.abs(scaled[row]).max()
            bits = (52 - math.ceil(math.log2(max(len(unit), 2)))) // 2
            rows[row] = unit * (
                2**22
                * (1 - 2.0**-10)
                * 2.0**bits
                / np.linalg.norm(np.trunc(unit * 2.0**bits))
            )
        return rows

    _vectors_of(plant, wrong)


@bug("test_rounding_is_toward_zero")
def rounding_to_nearest(plant: Plant) -> None:
    """Coordinates go to the nearest point of the grid, which may be further out."""

    def wrong(quantise: Any, grid: Any, vectors: Any) -> Any:
        right = quantise(grid, vectors)
        scaled = _scaled(grid, vectors)
        inside = (_norms(scaled) < 1)[:, None]
        return np.where(inside, np.rint(np.where(inside, scaled, 0)), right).astype(
            np.int32
        )

    _vectors_of(plant, wrong)


@bug(
    "test_rows_inside_the_ball_keep_their_length_and_rows_outside_get_that_of_the_bound"
)
def rows_refused_too_early(plant: Plant) -> None:
    """Long rows are taken for too long, and moved to the bound from inside."""

    def wrong(quantise: Any, grid: Any, vectors: Any) -> Any:
        rows = quantise(grid, vectors)
        norms = _norms(rows)
        return np.trunc(rows / np.where(norms**2 > 0.5, norms, 1.0)[:, None]).astype(
            np.int32
        )

    _vectors_of(plant, wrong)


table(
    """
noise-halved: Noise of half the standard deviation that is stated is drawn for sums and for steps.
    by test_noise::test_the_right_scale_is_accepted_and_two_thirds_and_three_halves_rejected
        test_the_released_noise_has_the_scale_that_the_budget_asks_for
        test_a_step_is_the_clipped_sum_and_noise_of_the_planned_size test_every_sum_has_its_noise
    noise: lambda draw, *_: draw(times=1 / 2)
noise-a-third-which-the-audit-sees: A third of the noise is drawn.
    by test_right_sums_stay_below_their_claim_and_are_seen
    noise: lambda draw, *_: draw(times=1 / 3)
fast-noise-two-thirds: The convolved Gaussian is narrower than is stated.
    by test_noise::test_the_right_scale_is_accepted_and_two_thirds_and_three_halves_rejected
    noise: lambda draw, _, __, sampler: draw(times=2 / 3 if sampler == 'CONVOLVED_GAUSSIAN' else 1)
counts-without-noise: A question of one number a record is answered exactly.
    by test_the_counts_get_their_noise_in_every_column
    noise: lambda draw, sums, *_: sums if sums.ndim == 2 and sums.shape[1] == 1 else draw()
noise-on-the-first-label-only: The sums of the other labels come out exactly.
    by test_the_counts_get_their_noise_in_every_column
    noise: lambda draw, sums, *_: np.vstack([draw()[:1], sums[1:]]) if sums.ndim == 2 else draw()
same-noise-on-every-coordinate: One number is drawn and added to all sums.
    by test_noise::test_coordinates_and_calls_are_independent
    noise: lambda draw, sums, *_: sums + draw(np.zeros(1, dtype=np.int64))[0]
noise-beyond-64-bits: Noise so wide that sums overflow is drawn.
    by test_noise::test_noise_outside_what_is_proved_is_never_drawn
    noise: lambda draw, sums, noise_std, _: sums if noise_std > 2.0 ** 50 else draw()
nan-not-zeroed: Only the values that are no numbers become zero, not the row.
    by test_a_row_with_a_value_that_is_no_number_takes_part_with_nothing
    vectors: lambda quantise, grid, vectors: quantise(grid, np.where(np.isfinite(vectors), vectors, 0))
nonnegative-not-enforced: A map that says it is non-negative is believed.
    by test_a_nonnegative_question_sets_negative_values_to_zero test_a_hostile_map_stays_within_the_bound_and_meets_it
    vectors: lambda quantise, grid, vectors: quantise(dataclasses.replace(grid, nonnegative=False), vectors)
centre-forgotten: The public centre is not subtracted.
    by test_a_centred_question_clips_around_its_centre
    vectors: lambda quantise, grid, vectors: quantise(dataclasses.replace(grid, centre=None), vectors)
vectors-of-any-type: Vectors of a type for which the tests of the norm are not proved are summed.
    by test_vectors_of_another_type_are_refused
    vectors: lambda quantise, grid, vectors: quantise(grid, vectors.astype(np.float64))
fast-noise-of-the-same-words: The words of the convolved sampler are the same each time.
    by test_noise_is_never_the_same_twice
    rewrite noise: secrets.token_bytes(4 * count) => b"four" * count
sensitivity-of-the-wrong-adjacency: A replaced record is paid for like an added one.
    by test_the_sensitivity_is_the_largest_difference_over_all_vectors_and_columns
        test_the_stated_sensitivity_is_that_of_unit_vectors
    wrap grid.GridBound.sensitivity_squared: lambda _, bound, adjacency: bound.units**2
signed-taken-for-nonnegative: The sensitivity of vectors with negative coordinates is that of vectors without.
    by test_the_sensitivity_is_the_largest_difference_over_all_vectors_and_columns
        test_a_hostile_map_stays_within_the_bound_and_meets_it
    wrap grid.GridBound.sensitivity_squared: lambda squared, bound, adjacency: squared(dataclasses.replace(bound,
        nonnegative=True), adjacency)
sensitivity-rounded-down: The sensitivity in whole grid units is below the exact one.
    by test_the_sensitivity_in_grid_units_is_rounded_up
    wrap grid.GridBound.sensitivity: lambda _, bound, adjacency: math.isqrt(bound.sensitivity_squared(adjacency))
moment-sensitivity-halved: The question for the second moments states half of its sensitivity.
    by test_the_stated_sensitivities
    wrap plan.Query.sensitivity: lambda sensitivity, question, budget: sensitivity(question, budget) // (1 +
        (question.name == "second-moment"))
epsilon-rounded-down: ε of a Gaussian is a little below the exact one.
    by test_both_roots_lie_on_the_safe_side_by_more_than_rounding
    wrap accounting.gaussian_epsilon: lambda epsilon_of, mu, delta: epsilon_of(mu, delta) * (1 - 2e-9)
noise-rounded-down: μ that a budget allows is a little above the exact one.
    by test_both_roots_lie_on_the_safe_side_by_more_than_rounding
    wrap accounting.mu_for: lambda mu_for, epsilon, delta: mu_for(epsilon, delta) * (1 + 8e-9)
""",
    noise=_noise_of,
    vectors=_vectors_of,
)


IN_ORDER = "test_the_cost_is_reserved_before_the_first_record_is_read_and_committed_after_the_noise"
MEANWHILE = "test_a_run_whose_reservation_is_voided_meanwhile_stops_before_its_noise"


@wrong("accounts.Book.events", "test_once_noise_is_drawn_the_cost_stays_spent")
def reserved_runs_cost_nothing(_: Any, book: Any, dataset: str) -> Any:
    """What is not committed yet does not count as spent."""
    held = [
        one
        for one in book.reservations.values()
        if one.dataset == dataset and one.state == "committed"
    ]
    return tuple(event for one in held for event in one.events)


def _open_although(plant: Plant, state: str) -> None:
    @plant.wrap("accounts.open_reservation")
    def _(open_reservation: Any, book: Any, reservation: str, kind: Any) -> Any:
        held = book.reservations.get(reservation)
        return (
            held
            if held and held.state == state
            else open_reservation(book, reservation, kind)
        )


# How a run books.


@bug(
    IN_ORDER,
    "test_rounds::test_the_whole_plan_is_reserved_before_the_first_record_is_read",
)
def reserve_after_read(plant: Plant) -> None:
    """The cost is reserved when the records have been read, just before the noise."""
    later: dict[Any, Any] = {}
    plant.wrap("transaction.Reservation.reserve")(
        lambda reserve, booking, *asked: later.update({booking: (reserve, asked)})
    )

    @plant.wrap("transaction.Reservation.confirm")
    def _(confirm: Any, booking: Any) -> None:
        if booking in later:
            reserve, asked = later.pop(booking)
            reserve(booking, *asked)
        confirm(booking)


@bug(
    *(
        f"{MEANWHILE}[{door}]"
        for door in ("sums", "gradients", "marginals", "discovery")
    )
)
def released_though_voided(plant: Plant) -> None:
    """A run goes on to draw noise though somebody gave its cost back."""
    plant.wrap("transaction.Reservation.confirm")(lambda *_: None)


LOST = "test_a_run_whose_noise_may_have_been_drawn_and_lost_draws_no_more"


@bug(LOST)
def drawn_again_after_lost_noise(plant: Plant) -> None:
    """A run goes on under a reservation though noise was drawn whose answer is lost, and draws it again."""

    @plant.wrap("transaction.Reservation.take_up")
    def _(
        take_up: Any, booking: Any, number: Any, plan: Any, method: Any, journal: Any
    ) -> None:
        journal.forget_begun_queries()
        booking._id = booking._resumed_id = number


@bug("test_a_run_that_is_killed_goes_on_at_no_further_cost")
def answers_drawn_again(plant: Plant) -> None:
    """A run that goes on draws noise anew for queries that were answered."""
    plant.wrap("session.Session._earlier_answers")(lambda *_: {})


@bug("test_a_process_that_still_reads_draws_nothing_when_another_has_gone_on")
def both_processes_draw(plant: Plant) -> None:
    """A process does not look whether another one goes on with its run, and the ledger confirms both."""
    plant.wrap("journal.AnswerJournal.begin_query")(lambda *_: None)
    plant.wrap("ledger.Ledger.confirm")(
        lambda confirm, ledger, reservation, **_: confirm(ledger, reservation)
    )


@bug(
    "test_secure::test_a_key_that_others_may_have_read_is_not_used",
    "test_a_key_that_others_may_have_read_signs_nothing",
)
def keys_that_others_may_have_read_are_used(plant: Plant) -> None:
    """Nobody looks whether a private key is open to other users."""
    plant.wrap("atomic.check_private")(lambda *_: None)


@bug("test_what_is_written_down_is_the_same_for_neighbours")
def a_fingerprint_of_the_records_in_the_folder(plant: Plant) -> None:
    """The size of the private file is written down, to tell it from another one when the run goes on."""
    plant.wrap("run_folder.paths_of")(
        lambda paths_of, data: [paths_of(data), os.path.getsize(data)]
    )


@wrong(
    "transaction.Reservation.commit",
    "test_a_commit_that_fails_leaves_the_cost_spent_and_keeps_what_was_paid_for",
)
def paid_release_lost_with_the_ledger(commit: Any, *arguments: Any) -> None:
    """A release that was paid for is thrown away when the ledger cannot be told."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        commit(*arguments)


table(
    """
void-after-commit: What a finished run cost can be given back.
    by test_the_cost_is_reserved_before_the_first_record_is_read_and_committed_after_the_noise
    open: 'committed'
confirmed-cost-given-back: What a run costs that may have drawn noise can be given back.
    by test_one_reservation_pays_for_one_release test_nobody_can_void_a_run_that_draws
    open: 'confirmed'
ledger-check-skipped: Any run fits under any cap.
    by test_a_run_beyond_the_cap_is_refused_before_a_record_is_read
    wrap ledger.Ledger._check_fits: lambda *_: None
second-budget-under-a-lookalike: A data set can be registered again under a name that nobody tells from the first.
    by test_a_name_that_looks_like_another_is_not_registered_and_a_near_miss_is_named
    wrap accounts.lookalike: lambda *_: None
page-left-out-of-the-signature: Anyone may exchange the public page of a signed folder, and its promise with it.
    by test_a_page_that_was_made_again_or_added_differs_from_what_was_signed
    wrap signature._build_statement: lambda right, folder, covers_page: right(folder, covers_page=False)
letters-of-few-alphabets-look-alike: Names are compared by a short list of letters instead of Unicode's table.
    by test_a_name_that_looks_like_another_is_not_registered_and_a_near_miss_is_named
    wrap dataset_names._skeleton: lambda right, text: text
tables-of-another-postgresql-schema: Tables are found by the search path, which others may change.
    by test_tables_of_another_schema_in_the_search_path_do_not_stand_in
    rewrite ledger_tables: f'"{schema}".' => ''
    rewrite ledger_tables: 'SET LOCAL search_path = pg_catalog, pg_temp' => 'SELECT 1'
functions-of-another-postgresql-schema: Functions are found by the search path, which others may change.
    by test_functions_and_operators_of_another_schema_do_not_stand_in
    rewrite ledger_tables: 'SET LOCAL search_path = pg_catalog, pg_temp' => 'SELECT 1'
commit-skipped: A finished run stays open.
    by test_the_cost_is_reserved_before_the_first_record_is_read_and_committed_after_the_noise
    wrap transaction.Reservation.commit: lambda *_: None
cost-given-back-after-the-release: A run that released something is booked as one that did not.
    by test_the_cost_is_reserved_before_the_first_record_is_read_and_committed_after_the_noise
    wrap ledger.Ledger.confirm: lambda *_, **__: None
    wrap ledger.Ledger.commit: lambda _, ledger, reservation, *, certificate: ledger.void(reservation,
        reason="finished")
older-ledger-believed: A ledger that was restored from an earlier state gives the budget anew.
    by test_a_journal_that_was_left_under_another_name_does_not_take_spending_back
        test_a_ledger_that_was_put_back_is_refused_by_all_until_what_was_seen_is_removed
        test_two_copies_that_both_went_on_are_not_both_believed
    wrap ledger.check_seen: lambda *_: None
readers-that-are-overtaken: Who reads while another process spends takes its own ledger for an older one.
    by test_a_reader_that_others_overtook_reads_once_more
    rewrite ledger.Ledger._read: RewoundError => KeyboardInterrupt
two-names-of-one-file: Files beside which journals or marks lie may have several names.
    by test_a_ledger_under_a_second_name_is_refused test_a_ledger_that_is_mounted_by_itself_is_refused
        test_a_key_under_a_second_name_is_refused
    wrap atomic.second_name: lambda *_: None
""",
    open=_open_although,
)
