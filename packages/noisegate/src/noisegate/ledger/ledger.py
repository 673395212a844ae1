"""The ledger as its users see it: reserve first, then read records (G-10).

Every method reads the whole ledger, verifies its chain, and computes all figures from
the stored events.
"""

import re
import uuid
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noisegate.errors import (
    BudgetRefusedError,
    LedgerError,
    LedgerWarning,
    OptionError,
)
from noisegate.ledger.accounts import (
    Account,
    Book,
    Entry,
    Kind,
    Stage,
    fold,
    open_reservation,
)
from noisegate.ledger.budgets import Cap, advice, cost, format_epsilon, remaining
from noisegate.ledger.dataset_names import mixed_scripts, text_option
from noisegate.ledger.hash_chain import next_row, verify_chain
from noisegate.ledger.location import SQLiteFile, locate
from noisegate.ledger.rewind import RewoundError, check_seen
from noisegate.ledger.tables import Store, TableTransaction
from noisegate.privacy.events import Adjacency, Event, event_to_json

__all__ = ["Account", "Cap", "Entry", "Kind", "Ledger", "Stage"]

_SHA256 = re.compile("[0-9a-f]{64}")
_CONSEQUENCE_OF_CLOSING = {
    Stage.COMMITTED: "; it is spent",
    Stage.VOID: " and nothing is spent",
}


class Ledger:
    """The privacy budgets of data sets, in an SQLite file or a PostgreSQL database.

    Every method that reads or writes raises a LedgerError if the ledger cannot be used,
    or was tampered with.

    Args:
        location: Path of an SQLite file, or a URL such as
            postgresql://user@host/database. Default: the environment variable
            NOISEGATE_LEDGER, else a file in the user's data folder.

    Raises:
        OptionError: if the location is of an unknown kind.
        MissingExtraError: if it is a PostgreSQL URL and the driver is not installed.

    Examples:
        >>> from noisegate import Ledger
        >>> from noisegate.privacy.events import Gaussian, Sampler
        >>> ledger = Ledger("budget.sqlite")
        >>> ledger.register("survey", epsilon=1.0, delta=1e-5)
        >>> counts = Gaussian(
        ...     name="counts",
        ...     sensitivity=1,
        ...     coordinates=4,
        ...     noise_std=20.0,
        ...     sampler=Sampler.DISCRETE_GAUSSIAN,
        ... )
        >>> reservation = ledger.reserve(
        ...     "survey", [counts], adjacency="add-remove", purpose="counts of wards"
        ... )
        >>> ledger.confirm(reservation)  # the last thing before noise is drawn
        >>> ledger.commit(reservation, certificate=64 * "0")
        >>> round(ledger.show("survey")[0].spent, 4), ledger.check()
        (0.1609, 4)
    """

    def __init__(self, location: str | Path | None = None) -> None:
        self._location = locate(location)
        self._store = Store(self._location)

    @property
    def location(self) -> str:
        """The path or URL, with any password masked."""
        return self._location.shown

    @property
    def path(self) -> Path | None:
        """The SQLite file; None for a PostgreSQL database."""
        if isinstance(self._location, SQLiteFile):
            return self._location.path
        return None

    def register(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
        unit: str = "record",
    ) -> None:
        """Registers a data set with its cap, permanently.

        If there is no ledger, it is created.

        Args:
            dataset: A new name. It is refused if it differs from a registered name only
                by case, blanks or letters that look alike. A warning is given if a part
                of the name mixes alphabets.
            epsilon: ε of all runs together, in (0, 1000].
            delta: δ of all runs together, in (0, 1/2).
            adjacency: The neighbouring relation that every run must use.
            unit: The privacy unit that every run must state.

        Raises:
            OptionError: if a value is out of range or the name is taken.
        """
        text_option("dataset", dataset)
        cap = Cap(
            epsilon=epsilon,
            delta=delta,
            adjacency=Adjacency.parse(adjacency),
            unit=unit,
        )
        with self._store.write(create=True) as transaction:
            book = self._verified_book(transaction)
            book.check_new_name(dataset)
            _append(
                transaction,
                kind=Kind.REGISTER,
                dataset=dataset,
                reservation=None,
                payload=cap.to_json(),
            )
        scripts = mixed_scripts(dataset)
        if scripts:
            warnings.warn(
                f"dataset={dataset!r} has a word with letters of several alphabets "
                f"({', '.join(scripts)}), some of which may look alike; it may be "
                "mistyped later. It is registered as given.",
                LedgerWarning,
                stacklevel=2,
            )

    def reserve(
        self,
        dataset: str,
        events: Sequence[Event],
        *,
        adjacency: Adjacency | str,
        unit: str = "record",
        purpose: str,
        reservation: str | None = None,
    ) -> str:
        """Reserves the cost of a run before it reads records, if the cap allows it.

        A reservation counts as spent until it is voided.

        Args:
            dataset: A registered name.
            events: Everything that the run will release.
            adjacency: The relation for which `events` state their sensitivities; must
                be the registered one.
            unit: The privacy unit of the run; must be the registered one.
            purpose: What the run is for, in one line.
            reservation: A new UUID for the reservation, if the run has stored one in
                advance; None generates one.

        Returns:
            The identifier of the reservation, to confirm and commit, or to void, later.

        Raises:
            BudgetRefusedError: if this run and all others together would exceed the
                cap. Nothing is spent then.
            OptionError: if the name is not registered, `adjacency` or `unit` differ
                from the registered ones, or the reservation is in the ledger already.
        """
        text_option("purpose", purpose)
        planned_events = tuple(events)
        relation = Adjacency.parse(adjacency)
        if not planned_events:
            raise OptionError(
                "events=() reserves nothing; give the events of the planned run."
            )

        unlocked_book = self._read()
        cap = unlocked_book.cap(dataset)
        cap.check_guarantee(dataset, relation, unit)
        # Costs may take seconds to compute and are cached. So they are computed here,
        # where nobody waits for the lock; what decides is the check under the lock.
        self._check_fits(unlocked_book, dataset, planned_events)

        if reservation is None:
            new_reservation = str(uuid.uuid4())
        else:
            new_reservation = str(uuid.UUID(reservation))
        with self._store.write() as transaction:
            locked_book = self._verified_book(transaction)
            if new_reservation in locked_book.reservations:
                raise OptionError(
                    f"reservation={new_reservation!r} is in the ledger already; "
                    "give a new one."
                )
            self._check_fits(locked_book, dataset, planned_events)
            # Adjacency and unit need not be stored: they are those of the registration.
            payload = {
                "events": [event_to_json(event) for event in planned_events],
                "purpose": purpose,
            }
            _append(
                transaction,
                kind=Kind.RESERVE,
                dataset=dataset,
                reservation=new_reservation,
                payload=payload,
            )
        return new_reservation

    def confirm(self, reservation: str, *, first: bool = False) -> None:
        """Confirms that a reservation is valid, just before noise is drawn.

        A confirmed reservation cannot be voided. Confirming again changes nothing; an
        interrupted run does so when it continues.

        Args:
            reservation: The identifier that `reserve` returned.
            first: Whether to refuse a reservation that was confirmed before. Of several
                processes with one reservation, only one may draw its first noise.

        Raises:
            OptionError: if the reservation is unknown.
            LedgerError: if the reservation was closed, or was confirmed before and
                `first` is set, or the ledger cannot be used or was tampered with. The
                run must stop.
        """
        with self._store.write() as transaction:
            book = self._verified_book(transaction)
            stage = book.stage(reservation)
            if stage is Stage.CONFIRMED and first:
                row = book.last_entry(reservation).sequence
                raise LedgerError(
                    f"the reservation {reservation} of this run was confirmed by "
                    f"row {row} of the ledger {self.location}: another process "
                    "continues the run, and draws its noise. This one stopped "
                    "before it drew any."
                )
            if stage is Stage.CONFIRMED:
                return
            if stage is Stage.COMMITTED or stage is Stage.VOID:
                raise self._closed_under_way(book.last_entry(reservation), stage)
            reserved = open_reservation(book, reservation, Kind.CONFIRM)
            _append(
                transaction,
                kind=Kind.CONFIRM,
                dataset=reserved.dataset,
                reservation=reservation,
                payload={},
            )

    def commit(self, reservation: str, *, certificate: str) -> None:
        """Closes the reservation of a finished run. Its cost stays spent.

        Args:
            reservation: The identifier of the reservation.
            certificate: SHA-256 of the certificate, in lower-case hexadecimal digits.

        Raises:
            OptionError: if the reservation is unknown or closed, or `certificate` is
                not such a digest.
        """
        if not isinstance(certificate, str) or not _SHA256.fullmatch(certificate):
            raise OptionError(
                f"certificate={certificate!r} is not a SHA-256 digest of 64 lower-case "
                "hexadecimal digits."
            )
        self._close(reservation, Kind.COMMIT, {"certificate": certificate})

    def void(self, reservation: str, *, reason: str) -> None:
        """Voids a reservation that was not confirmed.

        Its cost is given back, and its run can draw no noise.

        Args:
            reservation: The identifier of the reservation.
            reason: Why no noise was drawn, in one line.

        Raises:
            OptionError: if the reservation is unknown, or was confirmed, committed or
                voided already.
        """
        text_option("reason", reason)
        self._close(reservation, Kind.VOID, {"reason": reason})

    def show(self, dataset: str | None = None) -> list[Account]:
        """Returns the account of a data set, or all accounts in order of registration.

        Raises:
            OptionError: if the data set is not registered.
        """
        book = self._read()
        if dataset is not None:
            return [book.account(dataset)]
        return [book.account(name) for name in book.caps]

    def history(self, dataset: str) -> list[Entry]:
        """Returns all entries of a data set, in order.

        Raises:
            OptionError: if the data set is not registered.
        """
        book = self._read()
        book.cap(dataset)  # raises if the data set is not registered
        return [entry for entry in book.entries if entry.dataset == dataset]

    def check(self) -> int:
        """Checks every row and every account.

        The hash chain must be complete, every row must be allowed by the rows before
        it, and no cap may be exceeded.

        Returns:
            The number of rows.

        Raises:
            LedgerError: for the first broken row, or the data set over its cap.
        """
        book = self._read()
        for dataset in book.caps:
            account = book.account(dataset)
            is_within_cap = account.spent <= account.epsilon
            if not is_within_cap:
                raise self._over_cap(account, book)
        return len(book.entries)

    def _read(self) -> Book:
        """Reads the accounts without a lock."""
        try:
            with self._store.read() as transaction:
                return self._verified_book(transaction)
        except RewoundError:
            # Perhaps another process only wrote a row after this one had read, and
            # noted it as seen. Nobody can do so while this process may write.
            with self._store.write() as transaction:
                return self._verified_book(transaction)

    def _verified_book(self, transaction: TableTransaction) -> Book:
        """Reads the accounts from rows that are verified.

        Raises:
            LedgerError: if the chain is broken, lacks a row that was seen before, or
                has a row that is not allowed.
        """
        try:
            rows = transaction.rows()
            verify_chain(rows, transaction.head())
            check_seen(rows)
            return fold(rows)
        except LedgerError as error:
            # Its own type, since `_read` tells a RewoundError from others.
            error_type = type(error)
            raise error_type(f"ledger {self.location}: {error}") from error.__cause__

    def _close(self, reservation: str, kind: Kind, payload: dict[str, str]) -> None:
        with self._store.write() as transaction:
            book = self._verified_book(transaction)
            reserved = open_reservation(book, reservation, kind)
            _append(
                transaction,
                kind=kind,
                dataset=reserved.dataset,
                reservation=reservation,
                payload=payload,
            )

    def _check_fits(self, book: Book, dataset: str, events: tuple[Event, ...]) -> None:
        """Checks that a run and everything spent before, composed, stay within the cap.

        Args:
            book: All accounts.
            dataset: A registered name.
            events: Everything that the run will release.

        Raises:
            BudgetRefusedError: if they do not.
        """
        cap = book.cap(dataset)
        spent_events = book.events(dataset)
        total = cost(spent_events + events, cap.delta, cap.adjacency)
        if total <= cap.epsilon:
            return
        spent = cost(spent_events, cap.delta, cap.adjacency)
        run_alone = cost(events, cap.delta, cap.adjacency)
        raise BudgetRefusedError(
            f"data set {dataset!r}: the ledger {self.location} refuses this run, and "
            f"nothing was spent. The cap is ε = {cap.epsilon:g} at δ = {cap.delta:g}; "
            f"spent so far: ε = {format_epsilon(spent)}; "
            f"this run alone: ε = {format_epsilon(run_alone)}; "
            f"together: ε = {format_epsilon(total)}. "
            f"{advice(remaining(spent_events, cap))}"
        )

    def _closed_under_way(self, closing: Entry, stage: Stage) -> LedgerError:
        """Returns the error of a run whose reservation somebody else closed.

        Args:
            closing: The entry that closed the reservation.
            stage: COMMITTED or VOID.
        """
        reason = f" ({closing.reason})" if closing.reason else ""
        consequence = _CONSEQUENCE_OF_CLOSING[stage]
        return LedgerError(
            f"the reservation {closing.reservation} of this run is {stage.value} "
            f"already, by row {closing.sequence} of the ledger "
            f"{self.location}{reason}. The run stopped before it drew any noise. "
            f"Nothing was released{consequence}. Start it again, and close no "
            "reservation of a run under way."
        )

    def _over_cap(self, account: Account, book: Book) -> LedgerError:
        last_reserve = max(
            entry.sequence
            for entry in book.entries
            if entry.dataset == account.dataset and entry.kind is Kind.RESERVE
        )
        return LedgerError(
            f"ledger {self.location}: data set {account.dataset!r} is over its cap by "
            f"row {last_reserve}: ε = {format_epsilon(account.spent)} of "
            f"{account.epsilon:g} at δ = {account.delta:g}; reserve never allows that, "
            "so the ledger was written by something else. Restore it from a backup and "
            "find out who changed it."
        )


def _append(
    transaction: TableTransaction,
    *,
    kind: Kind,
    dataset: str,
    reservation: str | None,
    payload: dict[str, Any],
) -> None:
    row = next_row(
        transaction.head(),
        kind=kind.value,
        dataset=dataset,
        reservation=reservation,
        payload=payload,
    )
    transaction.append(row)
