"""The chain of a ledger: each row carries the hash of the row before it, and the head says how long the chain is.

What it detects: any row changed, removed, inserted or moved, and rows cut off at the end. What it cannot detect: a
whole ledger that was recomputed, or put back as it was earlier (`seen` may), by somebody who may write to it. Against
that, give writers of a shared ledger only the rights they need, and compare the last hash with one noted elsewhere.

Rules for this file: the digest of a row is never changed, since every stored ledger holds it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from typing import Any

from noisegate.errors import LedgerError

_FORMAT = "noisegate-ledger-1"


@dataclass(frozen=True)
class Row:
    """One stored row."""

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
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def next_row(head: ChainHead, *, kind: str, dataset: str, reservation: str | None, payload: Any) -> Row:
    """Returns the row that follows `head`, stamped with the time now."""
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    fields = (head.rows + 1, now, kind, dataset, reservation, canonical(payload), head.hash)
    return Row(*fields, _digest(fields))


def verify_chain(rows: Sequence[Row], head: ChainHead) -> None:
    """Checks that `rows` are an unbroken chain that ends at `head`; a LedgerError names the first that is broken."""
    last = GENESIS
    for row in rows:
        number = last.rows + 1
        if row.sequence != number:
            raise _broken(number, f"it is missing (the next one there is {row.sequence!r})")
        if row.hash != _digest(astuple(row)[:-1]):
            raise _broken(number, "its contents do not give its hash: it was changed after it was written")
        if row.previous != last.hash:
            raise _broken(number, "it does not continue the row before it: rows were replaced")
        last = ChainHead(rows=number, hash=row.hash)
    if head.rows != last.rows:
        raise _broken(
            max(0, min(head.rows, last.rows)) + 1 if isinstance(head.rows, int) else last.rows,
            f"the ledger should have {head.rows!r} rows and has {last.rows}: rows were removed or added at the end",
        )
    if head.hash != last.hash:
        raise _broken(last.rows, "it is not the row that was written last")


def _digest(fields: tuple[Any, ...]) -> str:
    # `default`: a value that the database gives back as bytes gives another hash, not an exception.
    text = json.dumps([_FORMAT, *fields], separators=(",", ":"), ensure_ascii=True, default=repr)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _broken(row: int, what: str) -> LedgerError:
    return LedgerError(
        f"it was tampered with or is damaged at row {row}: {what}. "
        "No budget is given from it; restore it from a backup and find out who changed it."
    )
