"""Planted bugs in the ledger, and in how a run books on it."""

from __future__ import annotations

import warnings
from typing import Any

from tests.planted.patches import Plant, bug

IN_ORDER = "test_the_cost_is_reserved_before_the_first_record_is_read_and_committed_after_the_noise"
MEANWHILE = "test_a_run_whose_reservation_is_voided_meanwhile_stops_before_its_noise"
SEARCH_PATH = "'SET LOCAL search_path = pg_catalog, pg_temp'"


@bug("test_a_run_beyond_the_cap_is_refused_before_a_record_is_read")
def ledger_check_skipped(plant: Plant) -> None:
    """Any run fits under any cap."""
    plant.wrap("ledger.Ledger._judge")(lambda *_: None)


@bug("test_once_noise_is_drawn_the_cost_stays_spent")
def reserved_runs_cost_nothing(plant: Plant) -> None:
    """What is not committed yet does not count as spent."""

    @plant.wrap("accounts.Book.events")
    def _(_: Any, book: Any, dataset: str) -> Any:
        held = [one for one in book.reservations.values() if one.dataset == dataset and one.state == "committed"]
        return tuple(event for one in held for event in one.events)


def _open_although(plant: Plant, state: str) -> None:
    @plant.wrap("accounts.open_reservation")
    def _(open_reservation: Any, book: Any, reservation: str, kind: Any) -> Any:
        held = book.reservations.get(reservation)
        return held if held and held.state == state else open_reservation(book, reservation, kind)


@bug(IN_ORDER)
def void_after_commit(plant: Plant) -> None:
    """What a finished run cost can be given back."""
    _open_although(plant, "committed")


@bug(
    "test_one_reservation_pays_for_one_release",
    "test_nobody_can_void_a_run_that_draws",
)
def confirmed_cost_given_back(plant: Plant) -> None:
    """What a run costs that may have drawn noise can be given back."""
    _open_although(plant, "confirmed")


@bug("test_a_name_that_looks_like_another_is_not_registered_and_a_near_miss_is_named")
def second_budget_under_a_lookalike(plant: Plant) -> None:
    """A data set can be registered again under a name that nobody tells from the first."""
    plant.wrap("accounts.lookalike")(lambda *_: None)


@bug("test_tables_of_another_schema_in_the_search_path_do_not_stand_in")
def tables_of_another_postgresql_schema(plant: Plant) -> None:
    """Tables are found by the search path, which others may change."""
    plant.rewrite("ledger_tables", "{None: any_schema}", "{}")
    plant.rewrite("ledger_tables", SEARCH_PATH, "'SELECT 1'")


@bug("test_functions_and_operators_of_another_schema_do_not_stand_in")
def functions_of_another_postgresql_schema(plant: Plant) -> None:
    """Functions are found by the search path, which others may change."""
    plant.rewrite("ledger_tables", SEARCH_PATH, "'SELECT 1'")


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


@bug(*(f"{MEANWHILE}[{door}]" for door in ("sums", "gradients", "opendp", "schema")))
def released_though_voided(plant: Plant) -> None:
    """A run goes on to draw noise though somebody gave its cost back."""
    plant.wrap("session.Reservation.confirm")(lambda *_: None)


@bug(IN_ORDER)
def commit_skipped(plant: Plant) -> None:
    """A finished run stays open."""
    plant.wrap("session.Reservation.commit")(lambda *_: None)


@bug(IN_ORDER)
def cost_given_back_after_the_release(plant: Plant) -> None:
    """A run that released something is booked as one that did not."""
    plant.wrap("ledger.Ledger.confirm")(lambda *_: None)
    plant.wrap("ledger.Ledger.commit")(
        lambda _, ledger, reservation, *, certificate: ledger.void(reservation, reason="finished")
    )


@bug("test_a_commit_that_fails_leaves_the_cost_spent_and_keeps_what_was_paid_for")
def paid_release_lost_with_the_ledger(plant: Plant) -> None:
    """A release that was paid for is thrown away when the ledger cannot be told."""

    @plant.wrap("session.Reservation.commit")
    def _(commit: Any, *arguments: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            commit(*arguments)


@bug(
    "test_a_journal_that_was_left_under_another_name_does_not_take_spending_back",
    "test_a_ledger_that_was_put_back_is_refused_by_all_until_what_was_seen_is_removed",
    "test_two_copies_that_both_went_on_are_not_both_believed",
)
def older_ledger_believed(plant: Plant) -> None:
    """A ledger that was put back as it was earlier gives the budget anew."""
    plant.wrap("ledger_seen.check_seen")(lambda *_: None)


@bug("test_a_reader_that_others_overtook_reads_once_more")
def readers_that_are_overtaken(plant: Plant) -> None:
    """Who reads while another process spends takes its own ledger for an older one."""
    plant.rewrite("ledger.Ledger._read", "RewoundError", "KeyboardInterrupt")


@bug(
    "test_a_ledger_under_a_second_name_is_refused",
    "test_a_ledger_that_is_mounted_by_itself_is_refused",
    "test_a_key_under_a_second_name_is_refused",
)
def two_names_of_one_file(plant: Plant) -> None:
    """Files beside which journals or marks lie may have several names."""
    plant.wrap("atomic.second_name")(lambda *_: None)
