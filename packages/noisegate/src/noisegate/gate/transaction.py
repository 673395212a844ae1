"""Transactions: pay once, confirm before noise, release once; the gate's state machine.

A transaction pays for one plan and lets its answers out. Whatever a plan asks for, it
goes through these states::

    PLANNED ──► RESERVED ──► CONFIRMED ──► RELEASED
       │          │  │           │            ▲
       ▼          ▼  └───────► CLOSED ────────┘
      VOID ◄──────┘

- The whole cost of the plan is reserved in the ledger before the first record is read.
  Until noise is drawn, an error gives it back.
- The reservation is confirmed just before the first noise. From there on the cost
  stays spent, and the reservation can only be committed (G-10, G-13).
- One release is released, with its certificate, and the reservation is committed.

This is the only module of the gate that asks for noise. What is asked, and of which
records, is up to those who hold a transaction: a `Session` for sums and steps,
`sessions.marginals` for OpenDP's marginals, and `SchemaGate` for a schema.

How to read it: `State` has the transitions, `Access` what a gate gives to one
transaction, `Transaction` the order of the steps, and `Reservation` the entry in the
ledger.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, Never, Protocol, Self, SupportsIndex

import numpy as np
import numpy.typing as npt

from noisegate.errors import BudgetRefusedError, DataError, LedgerWarning, OptionError
from noisegate.gate.journal import AnswerJournal
from noisegate.gate.sums import OpenEngine, Progress, RunEngine
from noisegate.gate.unbooked import UnbookedRun
from noisegate.ledger.accounts import ClosedError
from noisegate.ledger.ledger import Entry, Kind, Ledger
from noisegate.privacy import noise
from noisegate.privacy.certificate import Certificate, canonical_json
from noisegate.privacy.events import (
    Adjacency,
    StepEvent,
    SumEvent,
    Thresholded,
    event_to_json,
    gaussian_of,
)
from noisegate.privacy.plan import Plan
from noisegate.privacy.release import Release, array_hashes, release_arrays
from noisegate.progress import LOG

Values = npt.NDArray[np.float64]
"""An answer in the units of the vectors, (dim, columns)."""
Integers = npt.NDArray[np.int64]
"""Sums in grid units (`noisegate.privacy.grid`)."""


class State(Enum):
    """State of a session: what it has read, and whether noise may have been drawn.

    Another state or transition would change what G-10 and G-13 prove.
    """

    PLANNED = "planned"
    """Nothing was read or spent."""
    RESERVED = "reserved"
    """The whole cost is reserved and records may be read. No noise was drawn: an error
    gives the cost back."""
    CONFIRMED = "confirmed"
    """Noise may have been drawn: nothing is given back."""
    CLOSED = "closed"
    """Nothing more is answered. What was answered may be released."""
    RELEASED = "released"
    """The release was handed out."""
    VOID = "void"
    """The session ended before any noise: there is nothing to release."""

    def followed_by(self, following: State) -> State:
        """Returns the following state, if it may follow this one.

        Args:
            following: The state that a session is to have next.

        Raises:
            OptionError: if it may not follow; the message says what that means for the
                user.

        Examples:
            >>> from noisegate.gate.transaction import State
            >>> State.RESERVED.followed_by(State.CONFIRMED)
            <State.CONFIRMED: 'confirmed'>
        """
        if following not in _ALLOWED_TRANSITIONS[self]:
            raise OptionError(_REFUSALS[self])
        return following


_ALLOWED_TRANSITIONS: dict[State, tuple[State, ...]] = {
    State.PLANNED: (State.RESERVED, State.VOID),
    # RESERVED to CLOSED: this session drew no noise, but another process with the same
    # journal did.
    State.RESERVED: (State.CONFIRMED, State.CLOSED, State.VOID),
    State.CONFIRMED: (State.CLOSED, State.RELEASED),
    State.CLOSED: (State.RELEASED,),
    State.RELEASED: (),
    State.VOID: (),
}
# The message if a state is followed by one that it does not allow.
_REFUSALS = {
    State.PLANNED: "no query was run, so there is nothing to release.",
    State.RESERVED: "no noise was drawn, so there is nothing to release.",
    State.CONFIRMED: (
        "the cost of this session is reserved once, and is not given back."
    ),
    State.CLOSED: "this session has ended; open another gate, which costs again.",
    State.RELEASED: (
        "this session has returned its release; keep that one: a second would cost "
        "again."
    ),
    State.VOID: "this session has ended; open another gate, which costs again.",
}
# The state that a session ends in, by the state in which it is left or stopped.
_STATE_AT_END = {
    State.PLANNED: State.VOID,
    State.RESERVED: State.CLOSED,
    State.CONFIRMED: State.CLOSED,
}


@dataclass(frozen=True, kw_only=True)
class Access:
    """What a gate gives to one transaction: plan, private records, and the means."""

    plan: Plan
    """The calibrated plan."""
    source: Any
    """The private records: a source of `noisegate.sources`."""
    public_record_count: int | None
    """The number of records, if it is public: exact for replace-one, else an estimate.
    None if nothing is public about it."""
    method: str
    """Name of the method, for the certificate and the ledger."""
    public: Mapping[str, Any]
    """Public facts and settings that the method used, by name, for the certificate;
    JSON can express them."""
    reservation: Booking
    """The entry in the ledger that pays for the query."""
    single_use_lock: threading.Lock
    """The lock of the gate, which lets one transaction answer: the first that acquires
    it. It is never released."""
    engine: RunEngine | None = None
    """Where sums run; None for queries that need no engine."""
    progress: Progress | None = None
    """Called with the number of records summed so far."""
    unbooked_run: UnbookedRun | None = None
    """Counts this run, which has no ledger, and warns of what all such runs of this
    process cost together; None for a run with a ledger, or that is not to be
    counted."""
    journal: AnswerJournal | None = None
    """The file of begun queries and noisy answers by which the run can continue after a
    crash; None for a run that cannot."""


class SingleUse:
    """Base of objects that answer once, or pay once: they cannot be copied or pickled.

    A copy would answer a second time for the cost of one answer.
    """

    def __reduce_ex__(self, protocol: SupportsIndex) -> Never:
        """Refuses `copy.copy`, `copy.deepcopy` and `pickle`, which all call this.

        Raises:
            OptionError: always.
        """
        raise OptionError(
            f"a {type(self).__name__} answers once and cannot be copied or pickled; "
            "open another, which costs again."
        )


class Booking(Protocol):
    """What pays for a run in the ledger: a `Reservation`, or that of a stream."""

    @property
    def ledger_reference(self) -> Mapping[str, str] | None:
        """Data set and id of the reservation, for the certificate; None without one."""

    def reserve(self, plan: Plan, method: str, /) -> None:
        """Reserves the whole cost of a plan; see `Reservation.reserve`."""

    def confirm(self) -> None:
        """Makes the reservation final, just before noise is drawn."""

    def commit(self, certificate: Certificate, /) -> None:
        """Closes the reservation, with the certificate of its release."""

    def void(self, error: BaseException, /) -> bool:
        """Gives back the cost of a run that drew no noise, if it can."""


class BegunSteps(Protocol):
    """How many steps of a run were begun, where several processes may take them."""

    @property
    def is_resumed(self) -> bool:
        """Whether the run continues that an interrupted process had begun."""

    def create_journal(self, reservation: str | None, /) -> None:
        """Creates the journal of a new run, if it has one.

        Args:
            reservation: Id of the reservation in the ledger; None without a ledger.
        """

    def withdraw(self) -> bool:
        """Removes the journal that this process created, unless another one uses it.

        Returns:
            Whether the cost may be given back: no other process has begun a step.
        """


class Transaction(SingleUse):
    """Pays for one plan, in the process that opened it and in no fork of it.

    Whoever holds it reads records inside `reading_records`, turns sums into answers by
    `add_noise`, and ends with `release`. An error before any noise was drawn gives the
    cost back. After noise, the cost stays spent, also if not everything is answered.

    Args:
        access: The plan, the private records, and the means.
        begun_steps: Counts the steps of a plan that has some, by a journal that several
            processes may share; None for other plans.

    Attributes:
        state: What was read, and whether noise may have been drawn.
        plan: The calibrated plan.
        access: What the gate gave.
        lock: To be held during each call, so that two threads do not answer at the same
            time.
        map_digests: Hash of the feature map of each query that has one, by the query's
            name; filled where the run has a journal of answers.
    """

    def __init__(
        self, access: Access, *, begun_steps: BegunSteps | None = None
    ) -> None:
        self.state = State.PLANNED
        self.plan = access.plan
        self.access = access
        self.lock = threading.RLock()
        self.map_digests: dict[str, str] = {}
        self._begun_steps = begun_steps
        # The engine of all rounds; None before the first one.
        self._engine: OpenEngine | None = None
        # Closes the engine when everything is answered, or the transaction ends.
        self._engine_stack = contextlib.ExitStack()
        # The process that opened it; a fork of it must not answer.
        self._process_id = os.getpid()
        # Number of records of the first pass, by link; private. The link is None for a
        # single table.
        self._record_counts: dict[str | None, int] = {}
        # Whether this transaction created the file of the journal, or became the owner
        # of the run in it.
        self._has_joined_journal = False

    def add_public_facts(self, facts: Mapping[str, Any]) -> None:
        """Adds public facts to those that the certificate will list.

        Args:
            facts: The facts, by name; JSON can express them.
        """
        public = {**self.access.public, **facts}
        self.access = replace(self.access, public=public)

    def _advance_to(self, following: State) -> None:
        """Sets the next state.

        Args:
            following: The next state.

        Raises:
            OptionError: if it may not follow the present state.
        """
        self.state = self.state.followed_by(following)

    @contextmanager
    def reading_records(self) -> Iterator[None]:
        """Reserves the cost, and is the context in which records may be read.

        Records are read in a ``with`` block of this context manager only. On entry, it
        refuses everything that can be refused without the records, acquires the lock of
        the gate, and reserves the cost, unless noise was already drawn. After an error
        inside, the cost is given back if no noise was drawn, and the transaction ends.

        What a change must keep: no record is read before the cost is reserved (G-10),
        and of several transactions of one gate only one reads. The test
        `test_of_two_sessions_of_one_gate_the_first_to_ask_has_the_answer` notices a
        second one.

        Raises:
            OptionError: if this process may not answer, the transaction has ended, or
                the gate has answered another plan.
            BudgetRefusedError: if the ledger refuses.
        """
        self._check_process()
        with self.lock:
            if self.state is not State.CONFIRMED:
                # Before the lock is acquired: a transaction that has ended must not
                # take it away from others.
                reserved = self.state.followed_by(State.RESERVED)
                if not self.access.single_use_lock.acquire(blocking=False):
                    raise OptionError(
                        "this gate has run its plan; a second run would cost "
                        "again: open another gate."
                    )
                self.state = reserved
            try:
                if self.state is State.RESERVED:
                    self._reserve()
                yield
            except BaseException as error:
                self._give_cost_back(error)
                self.end()
                raise

    def _check_process(self) -> None:
        """Refuses to answer in a fork of the process that opened the transaction.

        A fork has a copy of it in memory. If it answered too, there would be
        two answers for the cost of one.

        Raises:
            OptionError: in another process.
        """
        if os.getpid() != self._process_id:
            raise OptionError(
                "this session was opened in another process, which alone may use it; "
                "open one here, which costs again."
            )

    def _reserve(self) -> None:
        """Reserves the cost of the plan, or continues with an interrupted run.

        A run of steps that is resumed costs nothing again, and gives nothing back: it
        may have drawn noise. A new one reserves in the ledger before it creates the
        journal of its steps. If the process dies in between, that reservation stays
        open without any noise drawn on it, and the next run reserves again.

        Raises:
            OptionError: if a journal is of another run, noise of it was lost, or the
                reservation of a resumed run is closed, or of another plan.
            BudgetRefusedError: if the ledger refuses.
        """
        steps = self._begun_steps
        if steps is not None and steps.is_resumed:
            self._reserve_resumed_steps()
            return
        self._reserve_or_join()
        if steps is not None:
            reference = self.access.reservation.ledger_reference or {}
            steps.create_journal(reference.get("reservation"))

    def _reserve_resumed_steps(self) -> None:
        """Continues the reservation of a run whose steps are resumed.

        The journal of the steps has identified the run and its reservation. If the run
        also has a journal of answers, this process becomes its owner.

        Raises:
            OptionError: if the reservation is closed, or of another plan.
        """
        access = self.access
        access.reservation.reserve(self.plan, access.method)
        if access.journal is not None and access.journal.exists:
            access.journal.become_owner(None)
        else:
            self.access = replace(access, journal=None)
        self._advance_to(State.CONFIRMED)

    def _reserve_or_join(self) -> None:
        """Reserves the cost of the plan, or continues with the run in the journal.

        A journal is a file in which a run writes what it has begun and answered, so
        that another process can continue after a crash. If its file exists, this
        process becomes the owner of that run, under the same reservation.

        What a change must keep: the journal of a new run is created before the ledger
        reserves, so that no reservation is without a journal.

        Raises:
            OptionError: if the journal is of another run, or noise of it was lost.
            BudgetRefusedError: if the ledger refuses.
        """
        access = self.access
        journal = access.journal
        if journal is None:
            access.reservation.reserve(self.plan, access.method)
            return

        reservation = access.reservation
        assert isinstance(reservation, Reservation)  # a stream has no journal
        if not journal.exists:
            self._has_joined_journal = True
            # After a crash between these two lines, the journal names a reservation
            # that does not exist, and the next process reserves it.
            journal.create(self.run_digest(), reservation.choose_id())
            reservation.reserve(self.plan, access.method)
            return

        reservation_id = journal.become_owner(self.run_digest())
        reservation.take_up(reservation_id, self.plan, access.method, journal)
        # Only now: if the reservation refuses to continue, the journal must stay.
        self._has_joined_journal = True
        if journal.begun_maps:
            # Noise may have been drawn, so nothing is given back.
            self._advance_to(State.CONFIRMED)

    def run_digest(self) -> str:
        """Hashes what a run must share with the interrupted run that it continues.

        Returns:
            SHA-256 in hexadecimal, of public facts alone: privacy events, budget,
            method, and the public facts that the method used.
        """
        budget = self.plan.budget
        run = {
            "events": [event_to_json(event) for event in self.plan.events],
            "method": self.access.method,
            "budget": [
                budget.epsilon,
                budget.delta,
                budget.adjacency.value,
                budget.unit,
                budget.contributions,
            ],
            "public": self.access.public,
        }
        return hashlib.sha256(canonical_json(run)).hexdigest()

    def _give_cost_back(self, error: BaseException) -> None:
        """Voids the reservation after an error, if nobody can have drawn noise on it.

        The reservation is voided before the journal is removed. After a crash in
        between, the journal names a void reservation, which `Reservation.take_up`
        reports.

        Args:
            error: What stopped the run; it gets a note that nothing was spent.
        """
        journal = self.access.journal
        # If another process continues with this run, it needs the reservation.
        is_own_run = journal is None or journal.is_own
        if self.state is not State.RESERVED or not is_own_run:
            return
        steps = self._begun_steps
        # So no other process can begin a step of this run after its cost was given
        # back. If one has begun a step, the cost is not.
        if steps is not None and not steps.withdraw():
            return
        self._advance_to(State.VOID)
        is_given_back = self.access.reservation.void(error)

        # If this process could not continue with the run in the journal, the journal
        # stays: the answers in it are paid for.
        is_journal_useless = self._has_joined_journal or isinstance(
            error, BudgetRefusedError
        )
        if journal is not None and is_given_back and is_journal_useless:
            journal.discard()

    def end(self) -> None:
        """Ends the transaction, so that it answers nothing more, and closes its engine.

        A second call changes nothing.
        """
        if self.state in _STATE_AT_END:
            self._advance_to(_STATE_AT_END[self.state])
        self.close_engine()

    def started_engine(self) -> OpenEngine:
        """Returns the engine of all rounds, which the first call opens."""
        if self._engine is None:
            assert self.access.engine is not None
            self._engine = self._engine_stack.enter_context(self.access.engine.opened())
        return self._engine

    def close_engine(self) -> None:
        """Closes the engine: nothing is left to sum. A second call changes nothing."""
        self._engine_stack.close()

    def confirm(self) -> None:
        """Makes the reservation final, just before noise is drawn.

        The order matters: first the journal says that noise may be drawn, then a run
        without a ledger is counted, then the ledger confirms the reservation, and at
        last the state says that nothing can be given back. An error in any of these
        leaves the state as it is, so that the cost can still be given back. A second
        call asks again, and changes nothing.

        Raises:
            LedgerError: if the ledger does not confirm. No noise may be drawn then.
        """
        self._check_process()
        access = self.access
        if access.journal is not None and not access.journal.has_begun_queries:
            # Where the whole plan is answered at once, no query is marked by itself.
            self._mark_begun(self.plan.events[0].name)
        if self.state is not State.CONFIRMED and access.unbooked_run is not None:
            access.unbooked_run.count_and_warn()
        access.reservation.confirm()
        if self.state is not State.CONFIRMED:
            self._advance_to(State.CONFIRMED)

    def _mark_begun(self, query: str) -> None:
        """Writes into the journal, if there is one, that a query's noise will be drawn.

        Args:
            query: Name of the query; the hash of its map is written too.
        """
        journal = self.access.journal
        if journal is not None:
            journal.begin_query(query, self.map_digests.get(query))

    def add_noise(self, sums: Integers, event: SumEvent | StepEvent) -> Integers:
        """Confirms the reservation, and then adds noise to exact sums.

        What a change must keep: no noise is drawn before the reservation is confirmed
        (G-10), and the noise is what the event states.
        `tests/contracts/test_blind_noise` and
        `test_an_error_from_the_noise_on_gives_nothing_back_and_ends_it` notice.

        Args:
            sums: Exact sums in grid units, any shape; private.
            event: The privacy event that was paid for, with the standard deviation of
                its noise and the sampler.

        Returns:
            Noisy sums in grid units, of the same shape.
        """
        if self.access.journal is not None:
            self._mark_begun(event.name)
        self.confirm()
        gaussian = gaussian_of(event)
        return noise.add_noise(
            sums, noise_std=gaussian.noise_std, sampler=gaussian.sampler
        )

    def noisy_counts_above(
        self, counts: Integers, event: Thresholded
    ) -> tuple[Integers, Integers]:
        """Confirms the reservation, and then selects counts that are large with noise.

        Args:
            counts: Exact counts in grid units, (counts,); private.
            event: The privacy event that was paid for, with its noise and threshold.

        Returns:
            Indices of the counts that, with their noise, are at least the threshold;
            and these noisy counts in grid units. Both (reached,).
        """
        self.confirm()
        return noise.noisy_counts_above(
            counts, noise_std=event.event.noise_std, threshold=event.threshold
        )

    def check_record_count(
        self,
        record_count: int,
        link: str | None = None,
        *,
        may_be_empty: bool = False,
    ) -> None:
        """Checks the number of records of a complete pass, before its sums are used.

        Messages do not quote the number, which is private.

        Args:
            record_count: How many records the pass has read; private.
            link: Of linked tables, the link whose rows were read, of which there may be
                none; None for a single table.
            may_be_empty: Whether there may be no records, as in a period of a stream.

        Raises:
            DataError: if the number is not the public one where that must be exact, is
                0, or differs from that of an earlier pass.
        """
        name = self.access.source.name
        public_count = self.access.public_record_count
        adjacency = self.plan.budget.adjacency
        if adjacency is Adjacency.REPLACE_ONE and record_count != public_count:
            raise DataError(
                f"records={public_count} was given as public knowledge, but the data "
                "has another number; replace-one needs the exact number. Correct it, "
                "or use adjacency='add-remove'."
            )
        # Other sources refuse to be empty themselves; images may all be skipped.
        if not record_count and link is None and not may_be_empty:
            raise DataError(
                f"{name}: every image was skipped, so there is nothing to copy; "
                "without on_error='skip' the first one is named."
            )
        if self._record_counts.setdefault(link, record_count) != record_count:
            raise DataError(
                f"{name}: the number of records changed between two passes; the cost "
                "stays reserved. Make sure that nothing writes to the data during a "
                "run."
            )

    def certify(self, hashes: Mapping[str, str]) -> Certificate:
        """Issues the one certificate, and commits the reservation.

        The state is set first, so that a second call is refused even if the commit
        fails. If the process dies before the commit, the reservation stays confirmed:
        the cost counts as spent, and nothing was released.

        Args:
            hashes: SHA-256 of each released array or file, by its name.

        Raises:
            OptionError: if there is nothing to release, or it was released before.
        """
        self._check_process()
        self._advance_to(State.RELEASED)
        access = self.access
        budget = self.plan.budget
        certificate = Certificate(
            epsilon=budget.epsilon,
            delta=budget.delta,
            adjacency=budget.adjacency,
            unit=budget.unit,
            contributions=budget.contributions,
            events=self.plan.events,
            method=access.method,
            public=access.public,
            hashes=hashes,
            ledger=access.reservation.ledger_reference,
        )
        access.reservation.commit(certificate)
        return certificate

    def release(
        self, values: Mapping[str, Values], noise_std: Mapping[str, float]
    ) -> Release:
        """Releases noisy values with their certificate, and commits the reservation.

        Args:
            values: Noisy arrays by name, in the units of the vectors, not of the grid.
            noise_std: Standard deviation of the noise in each array, in the same units.
        """
        certificate = self.certify(array_hashes(release_arrays(values, noise_std)))
        return Release.from_arrays(values, noise_std, certificate)


class Answering(SingleUse):
    """Base of what answers one plan, by a transaction; use it in a ``with`` block.

    Args:
        transaction: Pays for the plan.

    Attributes:
        plan: The calibrated plan.
    """

    def __init__(self, transaction: Transaction) -> None:
        self.plan = transaction.plan
        self._transaction = transaction

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._transaction.lock:
            self._transaction.end()

    @property
    def state(self) -> State:
        """What was read, and whether noise may have been drawn."""
        return self._transaction.state

    def hand_over(self) -> Access:
        """Returns the access, for a session that takes the place of this one.

        Periods of streams and shares of silos are sums that are answered in another
        way. Their sessions replace one that `Gate.open` returned and that has answered
        nothing. Both sessions share the lock of the gate, so only one can answer.
        """
        return self._transaction.access


# The entries of a reservation that an interrupted run can continue with: reserved, or
# also confirmed. Runs of early versions drew noise without confirming.
_OPEN_HISTORIES = ([Kind.RESERVE], [Kind.RESERVE, Kind.CONFIRM])


def resolve_ledger(
    ledger: Ledger | str | Path | None, dataset: str | None
) -> Ledger | None:
    """Opens the ledger that the options `ledger` and `dataset` describe.

    Args:
        ledger: A ledger, the path of its file or its URL; None for no ledger.
        dataset: Name of the data set in the ledger; None without a ledger.

    Raises:
        OptionError: if one of the two is missing, or the ledger is of another type.
    """
    if (ledger is None) != (dataset is None):
        raise OptionError(
            f"ledger={ledger!r} and dataset={dataset!r} go together: give both, or "
            "neither."
        )
    if ledger is None or isinstance(ledger, Ledger):
        return ledger
    if isinstance(ledger, str | Path):
        return Ledger(ledger)
    raise OptionError(
        f"ledger={ledger!r} must be a noisegate.Ledger, the path of its file, or its "
        "postgresql:// URL."
    )


class Reservation(SingleUse):
    """The cost of one run in a ledger; without a ledger, every method does nothing.

    The order of calls is `reserve`, `confirm`, `commit`; or `void` in place of the last
    two, if no noise was drawn. For a run that was interrupted, `take_up` replaces
    `reserve`, or `resume` comes before it. The id of a reservation is a UUID.

    Args:
        ledger: The ledger; None for a run that is not recorded.
        dataset: Name of the data set in the ledger; None without a ledger.
    """

    def __init__(self, ledger: Ledger | None, dataset: str | None) -> None:
        self.ledger = ledger
        self.dataset = dataset or ""
        # Id of the reservation; None before the ledger has reserved.
        self._id: str | None = None
        # Id under which the ledger is to reserve; None lets the ledger choose one.
        self._chosen_id: str | None = None
        # Id of the reservation of an interrupted run that continues, if noise of it may
        # have been drawn; None for other runs.
        self._resumed_id: str | None = None
        # Whether this process has confirmed it in the ledger.
        self._is_confirmed = False
        # Digest of the certificate, if the interrupted run had committed; else None.
        self._committed_digest: str | None = None
        self.is_shared = False
        """Whether several processes may draw noise under it. They do where the journal
        of a training gives each step to one of them."""

    @property
    def ledger_reference(self) -> Mapping[str, str] | None:
        """Data set and id of the reservation, for the certificate; None without one."""
        if self._id is None:
            return None
        return {"dataset": self.dataset, "reservation": self._id}

    def choose_id(self) -> str | None:
        """Chooses the id under which `reserve` will reserve; None without a ledger."""
        if self.ledger is not None:
            self._chosen_id = str(uuid.uuid4())
        return self._chosen_id

    def take_up(
        self,
        reservation_id: str | None,
        plan: Plan,
        method: str,
        journal: AnswerJournal,
    ) -> None:
        """Continues the reservation of a run that was interrupted, or refuses to.

        It refuses if noise may have been drawn whose answer is lost: to draw it again
        would answer twice for one cost. The entries of the reservation in the ledger,
        and the answers in the journal, decide::

            ledger             answers  what is done
            nothing            none     reserve now
            reserved           none     continue; no noise was drawn
            reserved, void     any      refuse: nothing is spent
            reserved, confirmed…  none  refuse: noise may have been drawn and lost
            reserved, confirmed…  some  continue, unless a begun query has no answer
            anything else      any      refuse: ledger and journal do not fit

        Args:
            reservation_id: Id of the reservation, from the journal; None for a run
                without a ledger.
            plan: The plan of this run.
            method: Name of the method.
            journal: Which queries the run had begun, and its answers.

        Raises:
            OptionError: if continuing is refused, or the reservation is of another
            plan.
            BudgetRefusedError: if the ledger refuses to reserve now.
        """
        if (reservation_id is None) != (self.ledger is None):
            raise OptionError(
                "the run began with a ledger, or without one: continue it in the "
                "same way."
            )
        if self.ledger is None or reservation_id is None:
            if journal.lost_queries:
                raise OptionError(
                    f"noise may have been drawn for {journal.lost_queries[0]!r} whose answer "
                    f"is lost. {_fit_again(journal)}"
                )
            self.reserve(plan, method)
            return

        entries = self.entries(self.ledger, reservation_id)
        kinds = [entry.kind for entry in entries]
        if not kinds and not journal.answers:
            # The run was stopped before the ledger reserved anything.
            journal.forget_begun_queries()
            self._chosen_id = reservation_id
            self.reserve(plan, method)
            return
        if kinds and entries[0].events != tuple(plan.events):
            raise OptionError(
                f"the reservation {reservation_id} in {self.ledger.location} is of "
                f"another plan. {_fit_again(journal)}"
            )
        if kinds == [Kind.RESERVE] and not journal.answers:
            # No process has confirmed the reservation, so none has drawn noise. If the
            # earlier one still lives, `confirm` lets only one of both draw any.
            journal.forget_begun_queries()
        else:
            self._check_resumable(self.ledger, reservation_id, kinds, journal)
            self._resumed_id = reservation_id
            self._committed_digest = entries[-1].certificate
        self._id = reservation_id
        self._log_continued(self.ledger, method)

    def _check_resumable(
        self,
        ledger: Ledger,
        reservation_id: str,
        kinds: Sequence[Kind],
        journal: AnswerJournal,
    ) -> None:
        """Checks that no answer is lost of a run which may have drawn noise.

        Args:
            ledger: The ledger, for messages.
            reservation_id: Id of the reservation of the run.
            kinds: Kinds of the entries of the reservation in the ledger, in order.
            journal: Which queries the run had begun, and its answers.

        Raises:
            OptionError: if the reservation was given back, the ledger does not fit the
                journal, or an answer is lost; see the table in `take_up`.
        """
        if kinds == [Kind.RESERVE, Kind.VOID]:
            raise OptionError(
                f"the reservation {reservation_id} was given back: nothing was drawn, "
                f"and nothing is spent. Remove {journal.path.parent}, and fit again."
            )
        if kinds[:2] != [Kind.RESERVE, Kind.CONFIRM]:
            raise OptionError(
                f"the ledger {ledger.location} does not fit the journal of this run. "
                f"{_fit_again(journal)}"
            )
        if journal.lost_queries or not journal.answers:
            lost_query = (
                repr(journal.lost_queries[0]) if journal.lost_queries else "a query"
            )
            raise OptionError(
                f"noise may have been drawn for {lost_query}, and its answer is lost. "
                f"{_fit_again(journal)}"
            )

    def reserve(self, plan: Plan, method: str) -> None:
        """Reserves the whole cost of a plan, or continues with a resumed reservation.

        If `resume` was called before, nothing is reserved: the reservation of the
        interrupted run is checked, and used.

        Args:
            plan: The plan, with its budget and the privacy events that the ledger
                records.
            method: Name of the method, which the ledger records as the purpose.

        Raises:
            BudgetRefusedError: if the ledger refuses.
            OptionError: if the reservation of the interrupted run is closed, or of
                another plan.
        """
        if self.ledger is None:
            LOG.info(
                "%s: epsilon = %g is not recorded in a ledger",
                method,
                plan.budget.epsilon,
            )
            return
        location = self.ledger.location
        if self._resumed_id is None:
            self._id = self.ledger.reserve(
                self.dataset,
                plan.events,
                adjacency=plan.budget.adjacency,
                unit=plan.budget.unit,
                purpose=method,
                reservation=self._chosen_id,
            )
            LOG.info(
                "%s: epsilon = %g is recorded under %r in %s",
                method,
                plan.budget.epsilon,
                self.dataset,
                location,
            )
            return

        entries = self.entries(self.ledger, self._resumed_id)
        kinds = [entry.kind for entry in entries]
        if kinds not in _OPEN_HISTORIES or entries[0].events != tuple(plan.events):
            raise OptionError(
                f"journal: the ledger has no open reservation {self._resumed_id} of "
                f"this plan for {self.dataset!r}; give another journal, which starts a "
                "run that costs again."
            )
        self._id = self._resumed_id
        self._log_continued(self.ledger, method)

    def resume(self, reservation_id: str | None) -> None:
        """Makes `reserve` continue the reservation of an interrupted run, at no cost.

        The ledger is not asked yet: `reserve` does that, before records are read.

        Args:
            reservation_id: Id of the reservation, from the journal of steps; None for a
                run without a ledger.

        Raises:
            OptionError: if only one of the interrupted run and this one has a ledger.
        """
        if (reservation_id is None) != (self.ledger is None):
            raise OptionError(
                "the journal is of a run with a ledger, or without one: resume it in "
                "the same way."
            )
        self._resumed_id = reservation_id

    def confirm(self) -> None:
        """Makes the reservation final in the ledger, just before noise is drawn.

        Of processes that do not share a journal of steps, only the first to confirm may
        draw noise. A second call on this object does nothing.

        Raises:
            LedgerError: if the ledger does not confirm. No noise may be drawn then.
        """
        if self.ledger and self._id and not self._is_confirmed:
            # A run that continues after noise has confirmed before, and may again.
            is_exclusive = self._resumed_id is None and not self.is_shared
            self.ledger.confirm(self._id, first=is_exclusive)
            self._is_confirmed = True

    def commit(self, certificate: Certificate) -> None:
        """Closes the reservation, with the certificate of its release.

        If the ledger cannot be written, there is only a warning: the release is paid
        for, as a confirmed reservation counts as spent whether it is closed or not.

        Args:
            certificate: The certificate, whose digest the ledger records.

        Raises:
            OptionError: if another run has closed the reservation.
        """
        if self.ledger and self._id:
            if self._committed_digest == certificate.digest():
                # The run was stopped just after it had committed this same release.
                return
            try:
                self.ledger.commit(self._id, certificate=certificate.digest())
            except ClosedError as error:
                raise OptionError(
                    f"the release is not returned: {error} Another run, or "
                    "somebody by hand, ended this one, and one reservation pays "
                    "for one release. Let nobody commit the reservation of a run "
                    "that is under way."
                ) from None
            except Exception as error:
                message = (
                    "the release is complete, but the ledger could not be updated: "
                    f"{error}"
                )
                LOG.warning("%s", message)
                try:
                    warnings.warn(message, LedgerWarning, stacklevel=4)
                except LedgerWarning:  # where warnings are errors
                    print(f"warning: {message}", file=sys.stderr)

    def void(self, error: BaseException) -> bool:
        """Gives back the cost of a run that drew no noise.

        A run that continues after noise, under its earlier reservation, gives nothing
        back.

        Args:
            error: What stopped the run; it gets a note that nothing was spent.

        Returns:
            Whether nothing is reserved any more; True without a ledger, False if the
            ledger could not be written.
        """
        if not self.ledger or not self._id:
            return True
        if self._resumed_id is None:
            # If the ledger fails here too, the cost stays recorded, which is the safe
            # side, and the first error is the one that matters.
            with contextlib.suppress(Exception):
                LOG.info(
                    "The cost is given back to %r: no noise was drawn.", self.dataset
                )
                self.ledger.void(
                    self._id,
                    reason=f"stopped by {type(error).__name__} before any release",
                )
                error.add_note("No noise was drawn, so nothing was spent.")
                return True
        return False

    def continue_with(self, reservation_id: str) -> None:
        """Continues an open or closed reservation, whose entries were checked.

        Nothing is reserved again, and nothing is given back.

        Args:
            reservation_id: Id of the reservation.
        """
        self._id = reservation_id
        self._resumed_id = reservation_id

    def entries(self, ledger: Ledger, reservation_id: str) -> list[Entry]:
        """Returns what a ledger has recorded of a reservation, in order."""
        history = ledger.history(self.dataset)
        return [entry for entry in history if entry.reservation == reservation_id]

    def _log_continued(self, ledger: Ledger, method: str) -> None:
        """Logs that an interrupted run continues with its reservation."""
        LOG.info(
            "%s continues with its reservation on %r in %s",
            method,
            self.dataset,
            ledger.location,
        )


def _fit_again(journal: AnswerJournal) -> str:
    """Returns the cure for a run that cannot continue, in the words of messages."""
    return (
        f"Its cost stays spent. Remove {journal.path.parent}, and fit again, which "
        "costs again."
    )


def check_public_record_count(records: int | None, adjacency: Adjacency) -> None:
    """Checks the public number of records of a run.

    Args:
        records: The number; None where it is not public.
        adjacency: The neighbouring relation: replace-one needs the number.

    Raises:
        OptionError: if it is not a positive integer, or missing where it is needed.
    """
    is_positive_integer = (
        isinstance(records, int) and not isinstance(records, bool) and records >= 1
    )
    if records is not None and not is_positive_integer:
        raise OptionError(f"records={records!r} must be a positive whole number.")
    if adjacency is Adjacency.REPLACE_ONE and records is None:
        raise OptionError(
            "adjacency='replace-one' takes the number of records as public: "
            "give records=N."
        )
