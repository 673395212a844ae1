"""Planted bugs in the ledger, and in how a run books on it."""

from __future__ import annotations

import warnings
from typing import Any

from tests.planted.patches import Plant, bug, table, wrong

IN_ORDER = "test_the_cost_is_reserved_before_the_first_record_is_read_and_committed_after_the_noise"
MEANWHILE = "test_a_run_whose_reservation_is_voided_meanwhile_stops_before_its_noise"


@wrong("accounts.Book.events", "test_once_noise_is_drawn_the_cost_stays_spent")
def reserved_runs_cost_nothing(_: Any, book: Any, dataset: str) -> Any:
    """What is not committed yet does not count as spent."""
    held = [one for one in book.reservations.values() if one.dataset == dataset and one.state == "committed"]
    return tuple(event for one in held for event in one.events)


def _open_although(plant: Plant, state: str) -> None:
    @plant.wrap("accounts.open_reservation")
    def _(open_reservation: Any, book: Any, reservation: str, kind: Any) -> Any:
        held = book.reservations.get(reservation)
        return held if held and held.state == state else open_reservation(book, reservation, kind)


# How a run books.


@bug(IN_ORDER, "test_rounds::test_the_whole_plan_is_reserved_before_the_first_record_is_read")
def reserve_after_read(plant: Plant) -> None:
    """The cost is reserved when the records have been read, just before the noise."""
    later: dict[Any, Any] = {}
    plant.wrap("session.Reservation.reserve")(
        lambda reserve, booking, *asked: later.update({booking: (reserve, asked)})
    )

    @plant.wrap("session.Reservation.confirm")
    def _(confirm: Any, booking: Any) -> None:
        if booking in later:
            reserve, asked = later.pop(booking)
            reserve(booking, *asked)
        confirm(booking)


@bug(*(f"{MEANWHILE}[{door}]" for door in ("sums", "gradients", "marginals", "discovery")))
def released_though_voided(plant: Plant) -> None:
    """A run goes on to draw noise though somebody gave its cost back."""
    plant.wrap("session.Reservation.confirm")(lambda *_: None)


@wrong("session.Reservation.commit", "test_a_commit_that_fails_leaves_the_cost_spent_and_keeps_what_was_paid_for")
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
    wrap ledger.Ledger._judge: lambda *_: None
second-budget-under-a-lookalike: A data set can be registered again under a name that nobody tells from the first.
    by test_a_name_that_looks_like_another_is_not_registered_and_a_near_miss_is_named
    wrap accounts.lookalike: lambda *_: None
tables-of-another-postgresql-schema: Tables are found by the search path, which others may change.
    by test_tables_of_another_schema_in_the_search_path_do_not_stand_in
    rewrite ledger_tables: f'"{schema}".' => ''
    rewrite ledger_tables: 'SET LOCAL search_path = pg_catalog, pg_temp' => 'SELECT 1'
functions-of-another-postgresql-schema: Functions are found by the search path, which others may change.
    by test_functions_and_operators_of_another_schema_do_not_stand_in
    rewrite ledger_tables: 'SET LOCAL search_path = pg_catalog, pg_temp' => 'SELECT 1'
commit-skipped: A finished run stays open.
    by test_the_cost_is_reserved_before_the_first_record_is_read_and_committed_after_the_noise
    wrap session.Reservation.commit: lambda *_: None
cost-given-back-after-the-release: A run that released something is booked as one that did not.
    by test_the_cost_is_reserved_before_the_first_record_is_read_and_committed_after_the_noise
    wrap ledger.Ledger.confirm: lambda *_: None
    wrap ledger.Ledger.commit: lambda _, ledger, reservation, *, certificate: ledger.void(reservation,
        reason="finished")
older-ledger-believed: A ledger that was put back as it was earlier gives the budget anew.
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
