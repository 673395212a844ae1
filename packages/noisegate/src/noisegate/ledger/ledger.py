"""The ledger: what every data set may cost, and what it has cost. Reserve first, then read (G-10)."""

import contextlib
import re
import uuid
import warnings
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from pathlib import Path
from typing import Any

from noisegate.atomic import close_to_others
from noisegate.errors import (
    BudgetRefusedError,
    LedgerError,
    LedgerWarning,
    OptionError,
    said,
)
from noisegate.ledger import accounts
from noisegate.ledger.accounts import (
    Account,
    Book,
    Cap,
    Entry,
    Kind,
    Row,
    Stage,
    next_row,
    text_option,
    verify_chain,
)
from noisegate.ledger.names import lookalike, mixed_scripts
from noisegate.ledger.tables import Store, Transaction, locate
from noisegate.privacy.events import Adjacency, Event, event_to_json, linked

__all__ = ["Account", "Cap", "Entry", "Kind", "Ledger", "Stage"]


class Ledger:
    """The privacy budget of data sets, in an SQLite file or a PostgreSQL database.

    Every method that reads or writes raises a LedgerError if the ledger cannot be used, or was tampered with.

    Args:
        location: Path of an SQLite file, or a URL such as postgresql://user@host/database. Default: the environment
            variable NOISEGATE_LEDGER, else a file in the user's data folder.

    Raises:
        OptionError: if the location is of an unknown kind.
        MissingExtraError: if it is a PostgreSQL URL and the driver is not installed.

    Examples:
        >>> from noisegate import Ledger
        >>> from noisegate.privacy.events import GaussianEvent, Sampler
        >>> ledger = Ledger("budget.sqlite")
        >>> ledger.register("survey", epsilon=1.0, delta=1e-5)
        >>> noise = {"noise_std": 20.0, "sampler": Sampler.DISCRETE_GAUSSIAN}
        >>> counts = GaussianEvent(name="counts", sensitivity=1, coordinates=4, **noise)
        >>> reservation = ledger.reserve("survey", [counts], adjacency="add-remove", purpose="counts of wards")
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
        """The SQLite file; None for a database."""
        return self._location.path

    def register(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
        unit: str = "record",
    ) -> None:
        """Gives a data set its cap, for good. Makes the ledger if there is none.

        Args:
            dataset: A new name, which nobody takes for one that is registered: refused if it differs only by case,
                blanks or letters that look alike; warned of if a word of it mixes alphabets.
            epsilon: In (0, 1000]: what all runs together may cost.
            delta: In (0, 1/2).
            adjacency: The neighbouring relation that every run must use.
            unit: Whose data one record is: the privacy unit that every run must state.

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
            caps = self._open(transaction).caps
            taken, alike = caps.get(dataset), lookalike(dataset, caps)
            if taken is not None:
                raise OptionError(
                    f"dataset={dataset!r} is registered already, with the cap ε = {taken.epsilon:g} at "
                    f"δ = {taken.delta:g} ({taken.adjacency.value}, unit {taken.unit!r}), "
                    "and a cap never changes; use it, or another name."
                )
            if alike is not None:
                raise OptionError(
                    f"dataset={dataset!r} differs from {alike!r}, which is registered, only by case, blanks or letters "
                    "that look alike; two names for one data set would be two budgets. Use that one, or another name."
                )
            _append(transaction, Kind.REGISTER, dataset, None, cap.to_json())
        if scripts := mixed_scripts(dataset):
            warnings.warn(
                f"dataset={dataset!r} has a word with letters of several alphabets ({', '.join(scripts)}), "
                "some of which may look alike; it may be mistyped later. It is registered as given.",
                LedgerWarning,
                2,
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
        """Spends the cost of a run that is about to read records, if the cap allows it.

        Args:
            dataset: A registered name.
            events: Everything that the run will release.
            adjacency: The relation for which `events` state their sensitivities; must be the registered one.
            unit: The privacy unit of the run; must be the registered one.
            purpose: What the run is for, one line.
            reservation: A new UUID to call it by, for a run that wrote it down before; None for one made here.

        Returns:
            The reservation, to commit or void later.

        Raises:
            BudgetRefusedError: if the cost of all runs and this one would exceed the cap. Nothing is spent then.
            OptionError: if the name is not registered, or adjacency or unit are others.
        """
        text_option("purpose", purpose)
        asked, relation = tuple(events), Adjacency.parse(adjacency)
        if not asked:
            raise OptionError(
                "events=() reserves nothing; give the events of the planned run."
            )
        book = self._read()
        _same_guarantee(dataset, book.cap(dataset), relation, unit)
        # First without the lock, since it may take seconds; costs are remembered. What decides is the second time.
        self._judge(book, dataset, asked)
        reservation = (
            str(uuid.uuid4()) if reservation is None else str(uuid.UUID(reservation))
        )
        with self._store.write() as transaction:
            locked_book = self._open(transaction)
            if reservation in locked_book.reservations:
                raise OptionError(
                    f"reservation={reservation!r} is in the ledger already; give a new one."
                )
            self._judge(locked_book, dataset, asked)
            # Adjacency and unit are those of the registration.
            payload = {
                "events": [event_to_json(event) for event in asked],
                "purpose": purpose,
            }
            _append(transaction, Kind.RESERVE, dataset, reservation, payload)
        return reservation

    def confirm(self, reservation: str, *, first: bool = False) -> None:
        """Makes sure that a reservation stands, just before noise is drawn: from here on it cannot be voided.

        To confirm again, as a run does that was interrupted and goes on, changes nothing.

        Args:
            reservation: What `reserve` returned.
            first: Whether to refuse one that was confirmed before: of several processes with one reservation, only one
                draws its first noise.

        Raises:
            OptionError: if the reservation is unknown.
            LedgerError: if somebody closed it, or confirmed it with `first`, or the ledger cannot be used or was
                tampered with. The run must stop.
        """
        with self._store.write() as transaction:
            book = self._open(transaction)
            held = book.reservations.get(reservation)
            if held is not None and held.state is Stage.CONFIRMED:
                if first:
                    raise LedgerError(
                        f"the reservation {reservation} of this run was confirmed by row "
                        f"{book.last(reservation).sequence} of the ledger {self.location}: another process goes on "
                        "with the run, and draws its noise. This one stopped before it drew any."
                    )
                return
            if held is not None and held.state is not Stage.RESERVED:
                closing = book.last(reservation)
                why = f" ({closing.reason})" if closing.reason else ""
                spent = (
                    " and nothing is spent"
                    if held.state is Stage.VOID
                    else "; it is spent"
                )
                raise LedgerError(
                    f"the reservation {reservation} of this run is {held.state.value} already, by row "
                    f"{closing.sequence} of the ledger {self.location}{why}. The run stopped before it drew any noise. "
                    f"Nothing was released{spent}. Start it again, and close no reservation of a run under way."
                )
            dataset = accounts.open_reservation(book, reservation, Kind.CONFIRM).dataset
            _append(transaction, Kind.CONFIRM, dataset, reservation, {})

    def commit(self, reservation: str, *, certificate: str) -> None:
        """Closes a reservation whose run is finished. It stays spent.

        Raises:
            OptionError: if the reservation is unknown or closed, or `certificate` is no SHA-256 in hexadecimal digits.
        """
        if not isinstance(certificate, str) or not re.fullmatch(
            "[0-9a-f]{64}", certificate
        ):
            raise OptionError(
                f"certificate={certificate!r} is not a SHA-256 digest of 64 lower-case hexadecimal digits."
            )
        self._close(reservation, Kind.COMMIT, {"certificate": certificate})

    def void(self, reservation: str, *, reason: str) -> None:
        """Gives back a reservation that was not confirmed; it costs nothing afterwards, and its run draws no noise.

        The `reason` says in one line why no noise was drawn.

        Raises:
            OptionError: if the reservation is unknown, confirmed, committed or void already.
        """
        self._close(reservation, Kind.VOID, {"reason": text_option("reason", reason)})

    def show(self, dataset: str | None = None) -> list[Account]:
        """Returns where one data set stands, or all in the order of their registration.

        Raises:
            OptionError: if the data set is not registered.
        """
        book = self._read()
        if dataset is not None:
            book.cap(dataset)
        return [book.account(name) for name in book.caps if dataset in (None, name)]

    def history(self, dataset: str) -> list[Entry]:
        """Returns everything that was recorded about a data set, in order.

        Raises:
            OptionError: if the data set is not registered.
        """
        book = self._read()
        book.cap(dataset)
        return [entry for entry in book.entries if entry.dataset == dataset]

    def check(self) -> int:
        """Returns the number of rows, whose chain is whole, each allowed by those before it, with no cap exceeded.

        Raises:
            LedgerError: naming the first broken row, or the data set over its cap.
        """
        book = self._read()
        for account in map(book.account, book.caps):
            if not account.spent <= account.epsilon:
                mine = (
                    entry for entry in book.entries if entry.dataset == account.dataset
                )
                last = max(
                    entry.sequence for entry in mine if entry.kind is Kind.RESERVE
                )
                raise LedgerError(
                    f"ledger {self.location}: data set {account.dataset!r} is over its cap by row {last}: "
                    f"ε = {_up(account.spent)} of "
                    f"{account.epsilon:g} at δ = {account.delta:g}; reserve never allows that, so the ledger was "
                    "written by something else. Restore it from a backup and find out who changed it."
                )
        return len(book.entries)

    def _read(self) -> Book:
        try:
            with self._store.read() as transaction:
                return self._open(transaction)
        except RewoundError:  # or another process has gone on meanwhile, as none can while this one may write
            with self._store.write() as transaction:
                return self._open(transaction)

    def _open(self, transaction: Transaction) -> Book:
        """Returns the accounts, from rows whose chain is whole and holds all that was seen before."""
        try:
            rows = transaction.rows()
            verify_chain(rows, transaction.head())
            check_seen(rows)
            return accounts.fold(rows)
        except LedgerError as error:
            raise type(error)(f"ledger {self.location}: {error}") from error.__cause__

    def _close(self, reservation: str, kind: Kind, payload: dict[str, Any]) -> None:
        with self._store.write() as transaction:
            held = accounts.open_reservation(self._open(transaction), reservation, kind)
            _append(transaction, kind, held.dataset, reservation, payload)

    def _judge(self, book: Book, dataset: str, asked: tuple[Event, ...]) -> None:
        """Refuses unless everything spent and what is asked, composed, stays within the cap."""
        cap, past = book.cap(dataset), book.events(dataset)
        total = accounts.cost(past + asked, cap.delta, cap.adjacency)
        if total <= cap.epsilon:
            return
        spent, alone = (
            accounts.cost(some, cap.delta, cap.adjacency) for some in (past, asked)
        )
        raise BudgetRefusedError(
            f"data set {dataset!r}: the ledger {self.location} refuses this run, and nothing was spent. "
            f"The cap is ε = {cap.epsilon:g} at δ = {cap.delta:g}; spent so far: ε = {_up(spent)}; this run alone: "
            f"ε = {_up(alone)}; together: ε = {_up(total)}. {_cure(accounts.remaining(past, cap))}"
        )


def _append(
    transaction: Transaction,
    kind: Kind,
    dataset: str,
    reservation: str | None,
    payload: Any,
) -> None:
    row = next_row(
        transaction.head(),
        kind=kind.value,
        dataset=dataset,
        reservation=reservation,
        payload=payload,
    )
    transaction.append(row)


def _same_guarantee(dataset: str, cap: Cap, adjacency: Adjacency, unit: str) -> None:
    if adjacency is not cap.adjacency:
        raise OptionError(
            f"adjacency={adjacency.value!r} differs from {cap.adjacency.value!r}, with which data set {dataset!r} is "
            f"registered; costs for different neighbours cannot be added up. "
            f"Use {said('adjacency', cap.adjacency.value)}."
        )
    if unit != cap.unit:
        cure = f"Use {said('unit', cap.unit)}."
        if linked(unit):
            cure = "Register a name for them: noisegate ledger register NAME --epsilon E --schema SCHEMA."
        says = f"unit={unit!r} differs from {cap.unit!r}, with which data set {dataset!r} is registered"
        raise OptionError(
            f"{says}; costs for different privacy units cannot be added up. {cure}"
        )


def _cure(left: float | None) -> str:
    if left is None:
        return "Ask for less; a cap cannot be raised."
    if left <= 0:
        return "Nothing remains: no further run on this data set is possible; a cap cannot be raised."
    return f"What remains for one more run is ε = {_up(left, ROUND_FLOOR)}: ask for at most that; a cap cannot be raised."


def _up(value: float, rounding: str = ROUND_CEILING) -> str:
    """Writes a cost with five digits, never less than it is."""
    return f"{Context(prec=5, rounding=rounding).create_decimal(value).normalize():f}"


class RewoundError(LedgerError):
    """A row that was seen before is not in the ledger."""


def check_seen(rows: Sequence[Row]) -> None:
    """Refuses rows, whose chain is whole, that lack one that was seen before; remembers the last of them otherwise."""
    # So a ledger that was put back is noticed, by a file in the user's state folder that is named by the hash of its
    # first row. Lines are added and never changed, so processes at once do no harm; where it cannot be read or written,
    # nothing is compared.
    import platformdirs

    if not rows:
        return
    path, text = (
        platformdirs.user_state_path("noisegate", appauthor=False)
        / "ledgers"
        / rows[0].hash,
        "",
    )
    with contextlib.suppress(OSError):
        text = path.read_text(encoding="ascii", errors="replace")
    seen = {
        int(number): digest
        for number, digest in re.findall(r"^(\d+) ([0-9a-f]{64})$", text, re.MULTILINE)
    }
    for number, digest in seen.items():
        if number > len(rows) or rows[number - 1].hash != digest:
            raise RewoundError(
                f"row {number}, which was seen before, is not in it: it was put back as it was earlier, or it is a "
                "copy of one that has gone on. What was spent since is not in it, and no budget is given from it. Use "
                f"the newest copy; if that is lost, see what {path} is for under 'The ledger' in docs/threat-model.md."
            )
    if len(rows) not in seen:
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            close_to_others(
                path.parent
            )  # who may remove a line may hide that a ledger was put back
            with path.open("a", encoding="ascii") as file:
                file.write(
                    f"\n{len(rows)} {rows[-1].hash}\n"
                )  # on a line of its own, after one that was cut off too
