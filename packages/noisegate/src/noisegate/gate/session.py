"""What all kinds of query share: paid once, confirmed before noise, released once, by one explicit state machine.

::

    PLANNED ──► RESERVED ──► CONFIRMED ──► RELEASED
       │          │  │           │            ▲
       ▼          ▼  └───────► CLOSED ────────┘
      VOID ◄──────┘

The whole cost of a plan is reserved in the ledger before the first record is read; until then it can be given back. The
reservation is confirmed just before the first noise, and can only be committed from there on (G-10, G-13). This is the
only module of the gate that asks for noise.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from noisegate.errors import BudgetRefusedError, DataError, LedgerWarning, OptionError
from noisegate.gate.journal import AnswerJournal
from noisegate.gate.sums import Engine, Progress
from noisegate.gate.unbooked import Unbooked
from noisegate.ledger.accounts import ClosedError
from noisegate.ledger.ledger import Kind, Ledger
from noisegate.privacy import noise
from noisegate.privacy.certificate import Certificate, canonical_json
from noisegate.privacy.events import (
    Adjacency,
    GaussianEvent,
    SampledGaussianEvent,
    ThresholdedGaussianEvent,
    event_to_json,
)
from noisegate.privacy.plan import PricedPlan
from noisegate.privacy.release import Release, array_hashes, release_arrays
from noisegate.progress import LOG

Values = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class State(Enum):
    """Where a session stands. Another state or transition is a change of G-10 and G-13."""

    PLANNED = "planned"
    """Nothing was read or spent."""
    RESERVED = "reserved"
    """The whole cost is reserved and records may be read. No noise was drawn: an error gives the cost back."""
    CONFIRMED = "confirmed"
    """Noise may have been drawn: nothing is given back."""
    CLOSED = "closed"
    """Nothing more is asked. What was answered may be released."""
    RELEASED = "released"
    """The release was handed out."""
    VOID = "void"
    """Ended before any noise: there is nothing to release."""

    def to(self, following: State) -> State:
        """Returns the state that follows; an `OptionError` if it cannot follow this one."""
        if following not in _FOLLOWING[self]:
            raise OptionError(_REFUSALS[self])
        return following


_FOLLOWING: dict[State, tuple[State, ...]] = {
    State.PLANNED: (State.RESERVED, State.VOID),
    # Closed without noise of its own: another process with the same journal has drawn some.
    State.RESERVED: (State.CONFIRMED, State.CLOSED, State.VOID),
    State.CONFIRMED: (State.CLOSED, State.RELEASED),
    State.CLOSED: (State.RELEASED,),
    State.RELEASED: (),
    State.VOID: (),
}
_REFUSALS = {
    State.PLANNED: "no query was run, so there is nothing to release.",
    State.RESERVED: "no noise was drawn, so there is nothing to release.",
    State.CONFIRMED: "the cost of this session is reserved once, and is not given back.",
    State.CLOSED: "this session has ended; open another gate, which costs again.",
    State.RELEASED: "this session has answered and handed out its release; keep that one: a second would cost again.",
    State.VOID: "this session has ended; open another gate, which costs again.",
}


@dataclass(frozen=True, kw_only=True)
class Access:
    """What a gate grants to one query: its plan and the private records, and what its certificate says beside them."""

    plan: Any
    source: Any
    records: int | None
    """Their number where it is public and exact, or a public guess."""
    method: str
    public: Mapping[str, Any]
    reservation: Reservation
    single_use_lock: threading.Lock
    """Whoever holds it has the gate's one answer."""
    engine: Engine | None = None
    progress: Progress | None = None
    unbooked: Unbooked | None = None
    """Counts the run where no ledger does."""
    journal: AnswerJournal | None = None
    """Where the run is written down, to go on after a crash; None for a run that cannot."""


class Single:
    """What answers once, or pays once: of it there is no copy, in this process or another."""

    def __reduce_ex__(self, protocol: Any) -> Any:  # of copy, deepcopy and pickle
        raise OptionError(
            f"a {type(self).__name__} answers once and cannot be copied or pickled; open another, which costs again."
        )


class Session(Single):
    """The answers to one plan, given in the process that opened it: one that was forked from it has no answer.

    Use it in a ``with`` block. An error before any noise was drawn voids the reservation; a session that is left after
    that, before everything is answered, counts as spent.
    """

    def __init__(self, access: Access) -> None:
        self.state = State.PLANNED
        self.plan, self._access = access.plan, access
        self._lock, self._process = threading.RLock(), os.getpid()
        self._seen: dict[str | None, int] = {}
        self._has_reserved = (
            False  # or takes the reservation of a run with which it goes on
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._end()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Around everything that may read records, after all that can be refused beforehand."""
        self._check_process()
        with self._lock:
            if self.state is not State.CONFIRMED:
                reserved = self.state.to(State.RESERVED)
                if not self._access.single_use_lock.acquire(blocking=False):
                    raise OptionError(
                        "this gate has answered its plan; a second answer would cost again: open another gate."
                    )
                self.state = reserved
            try:
                if self.state is State.RESERVED:
                    self._reserve()
                yield
            except BaseException as error:
                journal = self._access.journal
                is_own = (
                    journal is None or journal.is_own
                )  # else another process goes on with the reservation
                if self.state is State.RESERVED and is_own and self._may_give_back():
                    self.state = self.state.to(State.VOID)
                    given_back = self._access.reservation.void(error)
                    # A run that may not go on keeps its journal, which says why.
                    if (
                        journal is not None
                        and given_back
                        and (
                            self._has_reserved or isinstance(error, BudgetRefusedError)
                        )
                    ):
                        journal.discard()
                self._end()
                raise

    def _check_process(self) -> None:
        """Refuses in a process that was forked from the one that opened the session: both would answer."""
        if os.getpid() != self._process:
            raise OptionError(
                "this session was opened in another process, which alone may use it; open one here, which costs again."
            )

    def _reserve(self) -> None:
        """Reserves the cost, or takes up what a run has reserved that goes on by its journal."""
        access, journal = self._access, self._access.journal
        if journal is None:
            access.reservation.reserve(self.plan, access.method)
            return
        if not journal.exists:
            self._has_reserved = True
            # Written down first: a crash in between leaves no reservation of which nobody knows.
            journal.create(self._run_digest(), access.reservation.new_number())
            access.reservation.reserve(self.plan, access.method)
            return
        number = journal.take_up(self._run_digest())
        access.reservation.take_up(number, self.plan, access.method, journal)
        self._has_reserved = True
        if journal.begun:
            # Noise was drawn, and its answers are in the journal: nothing is given back.
            self.state = self.state.to(State.CONFIRMED)

    def _run_digest(self) -> str:
        """Returns a hash of all that a run shares with the one that it goes on with; nothing of it is private."""
        budget = self.plan.budget
        run = {
            "events": [event_to_json(event) for event in self.plan.events],
            "method": self._access.method,
            "budget": [
                budget.epsilon,
                budget.delta,
                budget.adjacency.value,
                budget.unit,
                budget.contributions,
            ],
            "public": self._access.public,
        }
        return hashlib.sha256(canonical_json(run)).hexdigest()

    def _may_give_back(self) -> bool:
        return True  # nobody else has drawn noise on the reservation

    def _end(self) -> None:
        ended = {
            State.PLANNED: State.VOID,
            State.RESERVED: State.CLOSED,
            State.CONFIRMED: State.CLOSED,
        }
        if self.state in ended:
            self.state = self.state.to(ended[self.state])

    def _confirm(self) -> None:
        """Just before noise: makes sure that the reservation stands, and that it is never given back."""
        self._check_process()
        access = self._access
        if access.journal is not None and not access.journal.has_begun:
            # A kind of query that answers its plan as a whole.
            self._mark_begun(self.plan.events[0].name)
        if self.state is not State.CONFIRMED and access.unbooked is not None:
            access.unbooked.warn()
        access.reservation.confirm()
        if self.state is not State.CONFIRMED:
            self.state = self.state.to(State.CONFIRMED)

    def _mark_begun(self, query: str) -> None:
        """Writes down, before its noise, that a query was begun."""
        journal = self._access.journal
        if journal is not None:
            journal.begin(query)

    def _noisy(
        self, sums: Integers, event: GaussianEvent | SampledGaussianEvent
    ) -> Integers:
        """Returns exact sums with the noise of their event, in grid units."""
        if self._access.journal is not None:
            self._mark_begun(event.name)
        self._confirm()
        return noise.add_noise(sums, noise_std=event.noise_std, sampler=event.sampler)

    def _noisy_above(
        self, counts: Integers, event: ThresholdedGaussianEvent
    ) -> tuple[Integers, Integers]:
        """Returns which exact counts reach their event's threshold with noise, and these noisy counts."""
        self._confirm()
        return noise.noisy_counts_above(
            counts, noise_std=event.noise_std, threshold=event.threshold
        )

    def _check_records(self, seen: int, link: str | None = None) -> None:
        """Checks the number of records of a whole pass, before any of it is used; those of a `link` may be none."""
        name, public = self._access.source.name, self._access.records
        if self.plan.budget.adjacency is Adjacency.REPLACE_ONE and seen != public:
            raise DataError(
                f"records={public} was given as public knowledge, but the data has another number; "
                "replace-one needs the exact number. Correct it, or use adjacency='add-remove'."
            )
        if not seen and link is None:
            raise DataError(
                f"{name}: every image was skipped, so there is nothing to copy; without "
                "on_error='skip' the first one is named."
            )
        if self._seen.setdefault(link, seen) != seen:
            raise DataError(
                f"{name}: the number of records changed between two passes; the cost stays reserved. "
                "Make sure that nothing writes to the data during a run."
            )

    def _certify(self, hashes: Mapping[str, str]) -> Certificate:
        """Hands out the session's one certificate, and commits the reservation."""
        self._check_process()
        self.state = self.state.to(State.RELEASED)
        budget, access = self.plan.budget, self._access
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
            ledger=access.reservation.place,
        )
        access.reservation.commit(certificate)
        return certificate

    def _release(
        self, values: Mapping[str, Values], noise_std: Mapping[str, float]
    ) -> Release:
        certificate = self._certify(array_hashes(release_arrays(values, noise_std)))
        return Release.from_arrays(values, noise_std, certificate)


# An interrupted run has confirmed if it drew noise; one of an earlier version has not.
_OPEN = ([Kind.RESERVE], [Kind.RESERVE, Kind.CONFIRM])


def ledger_of(ledger: Any, dataset: str | None) -> Ledger | None:
    """Returns the ledger that an argument means: one as it is, or the one at a path or URL. It needs a data set."""
    if (ledger is None) != (dataset is None):
        raise OptionError(
            f"ledger={ledger!r} and dataset={dataset!r} go together: give both, or neither."
        )
    if ledger is None or isinstance(ledger, Ledger):
        return ledger
    if isinstance(ledger, str | Path):
        return Ledger(ledger)
    raise OptionError(
        f"ledger={ledger!r} must be a noisegate.Ledger, the path of its file, or its postgresql:// URL."
    )


class Reservation(Single):
    """The place of one run in a ledger; without a ledger, nowhere."""

    def __init__(self, ledger: Ledger | None, dataset: str | None) -> None:
        self.ledger, self.dataset = ledger, dataset or ""
        self._number: str | None = None
        self._new_number: str | None = None
        self._resumed: str | None = None
        self._confirmed = False
        self._committed: str | None = None
        self.shared = False
        """Whether several processes may draw noise on it, none of it twice, as the journal of a training arranges."""

    @property
    def place(self) -> Mapping[str, str] | None:
        """Data set and reservation, for the certificate."""
        return (
            None
            if self._number is None
            else {"dataset": self.dataset, "reservation": self._number}
        )

    def new_number(self) -> str | None:
        """Returns what the reservation will be called, before it is made; None without a ledger."""
        if self.ledger is not None:
            self._new_number = str(uuid.uuid4())
        return self._new_number

    def take_up(
        self, number: str | None, plan: PricedPlan, method: str, journal: AnswerJournal
    ) -> None:
        """Goes on with the reservation of a run that was stopped, as far as ledger and journal show no lost noise.

        Args:
            number: What the journal says that it is called; None for a run without a ledger.
            plan: What is asked.
            method: For whom.
            journal: What was begun and answered.

        Raises:
            OptionError: if noise may have been drawn whose answer is lost, or the reservation is closed or of another
                plan.
        """
        if (number is None) != (self.ledger is None):
            raise OptionError(
                "the run began with a ledger, or without one: go on with it in the same way."
            )
        cure = f"Its cost stays spent. Remove {journal.path.parent}, and fit again, which costs again."
        if self.ledger is None or number is None:
            if journal.lost:
                raise OptionError(
                    f"noise may have been drawn for {journal.lost[0]!r} whose answer is lost. {cure}"
                )
            self.reserve(plan, method)
            return
        entries = [
            entry
            for entry in self.ledger.history(self.dataset)
            if entry.reservation == number
        ]
        kinds = [entry.kind for entry in entries]
        if not kinds and not journal.answers:
            # It was stopped before the ledger had reserved.
            journal.nothing_drawn()
            self._new_number = number
            self.reserve(plan, method)
            return
        if kinds and entries[0].events != tuple(plan.events):
            raise OptionError(
                f"the reservation {number} in {self.ledger.location} is of another plan. {cure}"
            )
        if kinds == [Kind.RESERVE] and not journal.answers:
            # No process has confirmed it, so none has drawn noise, and `confirm` lets only one of them draw any.
            journal.nothing_drawn()
        elif kinds == [Kind.RESERVE, Kind.VOID]:
            raise OptionError(
                f"the reservation {number} was given back: nothing was drawn, and nothing is spent. Remove "
                f"{journal.path.parent}, and fit again."
            )
        elif kinds[:2] != [Kind.RESERVE, Kind.CONFIRM]:
            raise OptionError(
                f"the ledger {self.ledger.location} does not fit the journal of this run. {cure}"
            )
        elif journal.lost or not journal.answers:
            lost = repr(journal.lost[0]) if journal.lost else "a query"
            raise OptionError(
                f"noise may have been drawn for {lost}, and its answer is lost. {cure}"
            )
        else:
            self._resumed = number
            self._committed = entries[-1].certificate
        self._number = number
        LOG.info(
            "%s goes on with its reservation on %r in %s",
            method,
            self.dataset,
            self.ledger.location,
        )

    def reserve(self, plan: PricedPlan, method: str) -> None:
        """Reserves the whole cost of `plan`, or takes up the open reservation of the run that is resumed."""
        if self.ledger is None:
            LOG.info(
                "%s: epsilon = %g is not recorded in a ledger",
                method,
                plan.budget.epsilon,
            )
            return
        where = self.ledger.location
        if self._resumed is None:
            self._number = self.ledger.reserve(
                self.dataset,
                plan.events,
                adjacency=plan.budget.adjacency,
                unit=plan.budget.unit,
                purpose=method,
                reservation=self._new_number,
            )
            LOG.info(
                "%s: epsilon = %g is recorded under %r in %s",
                method,
                plan.budget.epsilon,
                self.dataset,
                where,
            )
            return
        entries = [
            entry
            for entry in self.ledger.history(self.dataset)
            if entry.reservation == self._resumed
        ]
        if [entry.kind for entry in entries] not in _OPEN or entries[0].events != tuple(
            plan.events
        ):
            raise OptionError(
                f"journal: the ledger has no open reservation {self._resumed} of this plan for {self.dataset!r}; give "
                "another journal, which starts a run that costs again."
            )
        self._number = self._resumed
        LOG.info(
            "%s goes on with its reservation on %r in %s", method, self.dataset, where
        )

    def resume(self, number: str | None) -> None:
        """Makes `reserve` go on with the reservation of a run that was interrupted, and spend nothing."""
        if (number is None) != (self.ledger is None):
            raise OptionError(
                "the journal is of a run with a ledger, or without one: resume it in the same way."
            )
        self._resumed = number

    def confirm(self) -> None:
        """Makes sure, just before noise, that the reservation stands for good; a `LedgerError` forbids any noise."""
        if self.ledger and self._number and not self._confirmed:
            self.ledger.confirm(
                self._number, first=self._resumed is None and not self.shared
            )
            self._confirmed = True

    def commit(self, certificate: Certificate) -> None:
        """Closes the reservation; warns if the ledger cannot be told, but refuses one that was closed before."""
        if self.ledger and self._number:
            if self._committed == certificate.digest():
                return  # by the process that was stopped right behind it: the release is the same, to the bit
            try:
                self.ledger.commit(self._number, certificate=certificate.digest())
            except ClosedError as error:
                raise OptionError(
                    f"the release is not handed out: {error} Another run, or somebody by hand, ended this one, and one "
                    "reservation pays for one release. Let nobody commit the reservation of a run that is under way."
                ) from None
            except Exception as error:
                # The release is paid for: losing it now would waste the budget, and a reservation counts as spent.
                told = f"the release is complete, but the ledger could not be updated: {error}"
                LOG.warning("%s", told)
                try:
                    warnings.warn(told, LedgerWarning, 4)
                except LedgerWarning:  # where warnings are errors
                    print(f"warning: {told}", file=sys.stderr)

    def void(self, error: BaseException) -> bool:
        """Gives the reservation back, and returns whether nothing is reserved any more.

        Only for a run that drew no noise, so never for one that goes on after noise.
        """
        if not self.ledger or not self._number:
            return True
        if self._resumed is None:
            # Were this to fail too, the cost would stay booked, which is the safe side; the first error matters more.
            with contextlib.suppress(Exception):
                LOG.info(
                    "The cost is given back to %r: no noise was drawn.", self.dataset
                )
                self.ledger.void(
                    self._number,
                    reason=f"stopped by {type(error).__name__} before any release",
                )
                error.add_note("No noise was drawn, so nothing was spent.")
                return True
        return False


def check_public_records(records: int | None, adjacency: Adjacency) -> None:
    """Refuses a number of records that is no positive whole number, or missing where it must be public."""
    if records is not None and (
        isinstance(records, bool) or not isinstance(records, int) or records < 1
    ):
        raise OptionError(f"records={records!r} must be a positive whole number.")
    if adjacency is Adjacency.REPLACE_ONE and records is None:
        raise OptionError(
            "adjacency='replace-one' takes the number of records as public: give records=N."
        )
