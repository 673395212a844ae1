"""What the rows of a ledger mean. The state of every account is a fold over the rows; no sum is ever stored (G-10)."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from noisegate.errors import LedgerError, OptionError, UserError
from noisegate.ledger.names import lookalike
from noisegate.privacy import accounting
from noisegate.privacy.events import (
    Adjacency,
    Event,
    GaussianEvent,
    ThresholdedGaussianEvent,
    events_from_json,
)

_FORMAT = "noisegate-ledger-1"


@dataclass(frozen=True)
class Row:
    """One stored row, which carries the hash of the row before it; the head says how long the chain is.

    That detects any row changed, removed, inserted or moved, and rows cut off at the end. It cannot detect a whole
    ledger that was recomputed, or put back as it was earlier (`seen` may), by somebody who may write to it. Against
    that, give writers of a shared ledger only the rights they need, and compare the last hash with one noted elsewhere.
    The digest of a row is never changed, since every stored ledger holds it.
    """

    sequence: int  # 1, 2, 3, … without gaps over the whole ledger
    time: str  # when it was written, UTC, ISO 8601
    kind: str  # see `accounts.Kind`
    dataset: str
    reservation: str | None
    payload: str  # canonical JSON of what belongs to the kind
    previous: str  # hash of the row before, of the first row `GENESIS.hash`
    hash: str  # SHA-256 over all of the above, hexadecimal


@dataclass(frozen=True, kw_only=True)
class ChainHead:
    """The end of the chain: how many rows there are, and the hash of the last one."""

    rows: int
    hash: str


GENESIS = ChainHead(rows=0, hash="0" * 64)


def canonical(value: Any) -> str:
    """Returns `value` as JSON text that is the same for equal values: sorted keys, ASCII, no spaces."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )


def next_row(
    head: ChainHead, *, kind: str, dataset: str, reservation: str | None, payload: Any
) -> Row:
    """Returns the row that follows `head`, stamped with the time now."""
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    fields = (
        head.rows + 1,
        now,
        kind,
        dataset,
        reservation,
        canonical(payload),
        head.hash,
    )
    return Row(*fields, _digest(fields))


def verify_chain(rows: Sequence[Row], head: ChainHead) -> None:
    """Checks that `rows` are an unbroken chain that ends at `head`; a LedgerError names the first that is broken."""
    last = GENESIS
    for row in rows:
        number = last.rows + 1
        if row.sequence != number:
            raise _broken(
                number, f"it is missing (the next one there is {row.sequence!r})"
            )
        if row.hash != _digest(astuple(row)[:-1]):
            raise _broken(
                number,
                "its contents do not give its hash: it was changed after it was written",
            )
        if row.previous != last.hash:
            raise _broken(
                number, "it does not continue the row before it: rows were replaced"
            )
        last = ChainHead(rows=number, hash=row.hash)
    if head.rows != last.rows:
        raise _broken(
            max(0, min(head.rows, last.rows)) + 1
            if isinstance(head.rows, int)
            else last.rows,
            f"the ledger should have {head.rows!r} rows and has {last.rows}: rows were removed or added at the end",
        )
    if head.hash != last.hash:
        raise _broken(last.rows, "it is not the row that was written last")


def _digest(fields: tuple[Any, ...]) -> str:
    # `default`: a value that the database gives back as bytes gives another hash, not an exception.
    text = json.dumps(
        [_FORMAT, *fields], separators=(",", ":"), ensure_ascii=True, default=repr
    )
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _broken(row: int, what: str) -> LedgerError:
    cure = "restore it from a backup and find out who changed it."
    return LedgerError(
        f"it was tampered with or is damaged at row {row}: {what}. No budget is given from it; {cure}"
    )


_HALF = math.nextafter(0.5, 0)


class ClosedError(OptionError):
    """A reservation is committed or void already."""


class Kind(StrEnum):
    """What a row records."""

    REGISTER = "register"
    RESERVE = "reserve"
    CONFIRM = "confirm"
    COMMIT = "commit"
    VOID = "void"


class Stage(StrEnum):
    """Where a reservation stands. Only a void one costs nothing; a confirmed one may have drawn noise."""

    RESERVED = "reserved"
    CONFIRMED = "confirmed"
    COMMITTED = "committed"
    VOID = "void"


@dataclass(frozen=True, kw_only=True)
class Cap:
    """What a data set may cost in total, for all runs ever; every run has its adjacency and its unit."""

    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: str

    def __post_init__(self) -> None:
        for name, most, where in (
            ("epsilon", 1000, "in (0, 1000]"),
            ("delta", _HALF, "above 0 and below 1/2"),
        ):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 < value <= most
            ):
                raise OptionError(
                    f"{name}={value!r} cannot be a cap; give a number {where}."
                )
        text_option("unit", self.unit)

    def to_json(self) -> dict[str, Any]:
        """Returns the cap as the payload of a row; floats survive exactly."""
        return {**asdict(self), "adjacency": self.adjacency.value}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Cap:
        """Returns the cap that `to_json` wrote."""
        return cls(**{**data, "adjacency": Adjacency(data["adjacency"])})


@dataclass(frozen=True, kw_only=True)
class ReservedCost:
    """The cost of one run: what was reserved for which data set, and where it stands."""

    dataset: str
    events: tuple[Event, ...]
    state: Stage


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One row of the history, understood. What does not belong to its kind is None or empty."""

    sequence: int  # number of the row in the whole ledger
    time: str  # when it was written, UTC, ISO 8601
    kind: Kind  # what happened
    dataset: str
    hash: str  # of the row; note it elsewhere to prove later that history was not rewritten
    reservation: str | None = None  # but of a registration
    cap: Cap | None = None  # of a registration
    events: tuple[Event, ...] = ()  # of a reservation: what was reserved
    purpose: str | None = None  # of a reservation: what for
    certificate: str | None = None  # of a commit: SHA-256 of the certificate
    reason: str | None = None  # of a void: why


@dataclass(frozen=True, kw_only=True)
class Account:
    """Where one data set stands."""

    dataset: str  # its name
    epsilon: float  # the cap on ε
    delta: float  # the cap on δ; every ε here is at this δ
    adjacency: Adjacency  # the neighbouring relation of every run
    unit: str  # the privacy unit of every run
    spent: float  # ε of all runs reserved or committed, composed
    remaining: (
        float | None
    )  # about the largest ε of one more Gaussian run; None after Poisson-sampled ones
    reserved: int  # runs that are reserved, confirmed or not, and not finished; they count as spent
    committed: int  # runs that are finished
    voided: int  # reservations that were given back before noise was drawn


@dataclass(kw_only=True)
class Book:
    """All accounts of a ledger, as its rows tell."""

    caps: dict[str, Cap] = field(default_factory=dict)
    reservations: dict[str, ReservedCost] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)

    def cap(self, dataset: str) -> Cap:
        """Returns the cap of a data set."""
        if dataset not in self.caps:
            known = ", ".join(repr(name) for name in self.caps) or "none"
            alike = lookalike(dataset, self.caps) if isinstance(dataset, str) else None
            if alike is not None:
                raise OptionError(
                    f"dataset={dataset!r} is not registered in the ledger, but {alike!r} is, from which it differs "
                    f"only by case, blanks or letters that look alike; give {alike!r}."
                )
            cure = f"run: noisegate ledger register {dataset} --epsilon E --delta D"
            raise OptionError(
                f"dataset={dataset!r} is not registered in the ledger (registered: {known}); {cure}"
            )
        return self.caps[dataset]

    def events(self, dataset: str) -> tuple[Event, ...]:
        """Returns everything that was spent on a data set: the events of all its reservations that are not void."""
        held = (
            r
            for r in self.reservations.values()
            if r.dataset == dataset and r.state is not Stage.VOID
        )
        return tuple(event for reservation in held for event in reservation.events)

    def account(self, dataset: str) -> Account:
        """Returns where a data set stands."""
        cap, events = self.cap(dataset), self.events(dataset)
        stages = Counter(
            held.state for held in self.reservations.values() if held.dataset == dataset
        )
        return Account(
            dataset=dataset,
            **vars(cap),
            spent=cost(events, cap.delta, cap.adjacency),
            remaining=remaining(events, cap),
            reserved=stages[Stage.RESERVED] + stages[Stage.CONFIRMED],
            committed=stages[Stage.COMMITTED],
            voided=stages[Stage.VOID],
        )

    def last(self, reservation: str) -> Entry:
        """Returns the latest row about a reservation."""
        return next(
            entry
            for entry in reversed(self.entries)
            if entry.reservation == reservation
        )


def fold(rows: Sequence[Row]) -> Book:
    """Returns the accounts that the rows tell of; a LedgerError names the first row that cannot be."""
    book = Book()
    for row in rows:
        try:
            entry = _entry(row)
            _apply(book, entry)
        except (KeyError, TypeError, ValueError, UserError) as error:
            note = "It was written by a newer version of noisegate, or by something else; no budget is given from it."
            raise LedgerError(
                f"row {row.sequence} of the ledger ({row.kind!r}) cannot be: {error}. {note}"
            ) from error
        book.entries.append(entry)
    return book


def _entry(row: Row) -> Entry:
    kind, data, told = Kind(row.kind), json.loads(row.payload), dict[str, Any]()
    if kind is Kind.REGISTER:
        told = {"cap": Cap.from_json(data)}
    elif kind is Kind.RESERVE:
        told = {"events": events_from_json(data["events"]), "purpose": data["purpose"]}
    elif kind is not Kind.CONFIRM:
        name = "certificate" if kind is Kind.COMMIT else "reason"
        told = {name: data[name]}
    same = {
        name: getattr(row, name)
        for name in ("sequence", "time", "dataset", "hash", "reservation")
    }
    return Entry(kind=kind, **same, **told)


def _apply(book: Book, entry: Entry) -> None:
    if entry.cap is not None:
        if entry.dataset in book.caps:
            raise ValueError(f"data set {entry.dataset!r} is registered twice")
        book.caps[entry.dataset] = entry.cap
        return
    if entry.reservation is None:
        raise ValueError("it names no reservation")
    if entry.kind is Kind.RESERVE:
        book.cap(entry.dataset)
        if entry.reservation in book.reservations or not entry.events:
            raise ValueError(
                f"reservation {entry.reservation!r} is made twice or holds no event"
            )
        book.reservations[entry.reservation] = ReservedCost(
            dataset=entry.dataset, events=entry.events, state=Stage.RESERVED
        )
        return
    held = open_reservation(book, entry.reservation, entry.kind)
    if held.dataset != entry.dataset:
        raise ValueError(
            f"reservation {entry.reservation!r} is one of data set {held.dataset!r}"
        )
    book.reservations[entry.reservation] = replace(held, state=_AFTER[entry.kind])


_AFTER = {
    Kind.CONFIRM: Stage.CONFIRMED,
    Kind.COMMIT: Stage.COMMITTED,
    Kind.VOID: Stage.VOID,
}


def open_reservation(book: Book, reservation: str, kind: Kind) -> ReservedCost:
    """Returns a reservation of which a row of `kind` may be written."""
    held = book.reservations.get(reservation)
    if held is None:
        raise OptionError(
            f"reservation={reservation!r} is not in the ledger; see: noisegate ledger history DATASET"
        )
    if held.state is Stage.CONFIRMED and kind is not Kind.COMMIT:
        raise OptionError(
            f"reservation={reservation!r} cannot be given back: its run confirmed it just before it drew noise (row "
            f"{book.last(reservation).sequence}), and nobody can know what that released. Its cost stays."
        )
    if held.state in (Stage.COMMITTED, Stage.VOID):
        raise ClosedError(
            f"reservation={reservation!r} is {held.state.value} already; that is final."
        )
    return held


@lru_cache(maxsize=64)
def cost(events: tuple[Event, ...], delta: float, adjacency: Adjacency) -> float:
    """Returns ε of the composition of `events` at `delta`. Remembered, since sampled events take seconds."""
    return accounting.epsilon(events, delta, adjacency)


def remaining(events: tuple[Event, ...], cap: Cap) -> float | None:
    """Returns about the largest ε, at the cap's δ, that one more Gaussian run may have; None if no one number."""
    # Other events have no Gaussian-DP parameter, so what they leave depends on what is asked next.
    if not events:
        return cap.epsilon
    gaussians = [
        event
        for event in events
        if isinstance(event, GaussianEvent | ThresholdedGaussianEvent)
    ]
    if len(gaussians) < len(events):
        return None
    odds = accounting.threshold_odds(events)
    if odds >= cap.delta or odds >= cap.epsilon / 2:
        return 0.0
    allowed = accounting.mu_for(cap.epsilon + math.log1p(-odds), cap.delta - odds)
    left = allowed**2 - accounting.total_mu(gaussians) ** 2
    return (
        min(cap.epsilon, accounting.gaussian_epsilon(math.sqrt(left), cap.delta))
        if left > 0
        else 0.0
    )


def text_option(option: str, value: str) -> str:
    """Returns `value` if it is one line of printable text."""
    if (
        not isinstance(value, str)
        or not value.strip()
        or not value.isprintable()
        or len(value) > 500
    ):
        raise OptionError(
            f"{option}={value!r} cannot be recorded; give one line of text, at most 500 characters."
        )
    return value
