"""Planted bugs at the gate: its state machine, and what is the own of each kind of query."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from tests.planted.patches import Plant, bug, table, wrong

MIXES = "test_a_map_that_mixes_records_is_refused_before_anything_is_spent"
ROUND = "test_an_error_from_the_noise_on_gives_nothing_back_and_ends_it[sums]"
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


@bug("test_an_error_before_any_noise_gives_the_cost_back_unless_the_run_was_resumed[True]")
def resumed_run_gives_back(plant: Plant) -> None:
    """A resumed run that fails gives back what the run before it had spent."""
    plant.rewrite("gradients_query.StepSession._reserve", "self.state = self.state.to(State.CONFIRMED)", "pass")

    @plant.wrap("session.Reservation.void")
    def _(void: Any, reservation: Any, error: Any) -> None:
        reservation._resumed = None
        reservation.ledger.void = lambda number, reason: reservation.ledger.commit(number, certificate="0" * 64)
        void(reservation, error)


TABLE = Path(__file__).with_name("gate.txt").read_text(encoding="utf-8")
table(TABLE, exact=_exact, unconfirmed=_noise_without_confirming)
