"""The cost of one run in the ledger.

Reserved before the first record is read; then voided, or confirmed just before the first noise, and committed.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from noisegate.errors import LedgerWarning, OptionError
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import Event
from noisegate.privacy.ledger import Kind, Ledger
from noisegate.privacy.plan import Budget

# An interrupted run has confirmed if it drew noise; one of an earlier version has not.
_OPEN = ([Kind.RESERVE], [Kind.RESERVE, Kind.CONFIRM])


class PricedPlan(Protocol):
    """A calibrated plan of any kind: what will be run, and within which budget."""

    @property
    def budget(self) -> Budget:
        """The guarantee that is asked for."""
        ...

    @property
    def events(self) -> tuple[Event, ...]:
        """What will be run, for the ledger and the certificate."""
        ...


class Booking:
    """Where a run is booked; without a ledger, nowhere.

    Args:
        ledger: The ledger, or None.
        dataset: Name of the data set in it, or None.
    """

    def __init__(self, ledger: Ledger | None, dataset: str | None) -> None:
        self._ledger, self._dataset = ledger, dataset
        self._reservation: str | None = None
        self._resumed: str | None = None
        self._confirmed = False

    @property
    def place(self) -> Mapping[str, str] | None:
        """Data set and reservation, for the certificate."""
        if self._reservation is None:
            return None
        return {"dataset": self._dataset or "", "reservation": self._reservation}

    def reserve(self, plan: PricedPlan, method: str) -> None:
        """Reserves the whole cost of `plan`.

        Raises:
            BudgetRefusedError: if the ledger refuses.
            OptionError: if a run is resumed whose reservation is not open, or of another plan.
        """
        if self._ledger is None or self._dataset is None:
            return
        if self._resumed is not None:
            self._check_open(self._ledger, self._dataset, plan)
            return
        self._reservation = self._ledger.reserve(
            self._dataset, plan.events, adjacency=plan.budget.adjacency, unit=plan.budget.unit, purpose=method
        )

    def resume(self, reservation: str | None) -> None:
        """Makes `reserve` go on with the reservation of a run that was interrupted, and spend nothing.

        Raises:
            OptionError: if that run had a ledger and this one has none, or the other way round.
        """
        if (reservation is None) != (self._ledger is None):
            raise OptionError("the journal is of a run with a ledger, or without one: resume it in the same way.")
        self._resumed = reservation

    def _check_open(self, ledger: Ledger, dataset: str, plan: PricedPlan) -> None:
        entries = [entry for entry in ledger.history(dataset) if entry.reservation == self._resumed]
        kinds = [entry.kind for entry in entries]
        if kinds not in _OPEN or entries[0].events != tuple(plan.events):
            raise OptionError(
                f"journal: the ledger has no open reservation {self._resumed} of this plan for {dataset!r}; give "
                "another journal, which starts a run that costs again."
            )
        self._reservation = self._resumed

    def confirm(self) -> None:
        """Makes sure, just before noise is drawn, that the reservation stands, and that nobody can void it any more.

        Raises:
            LedgerError: if somebody closed it, or the ledger cannot be told. No noise may be drawn then.
        """
        if self._ledger and self._reservation and not self._confirmed:
            self._ledger.confirm(self._reservation)
            self._confirmed = True

    def commit(self, certificate: Certificate) -> None:
        """Closes the reservation; warns if the ledger cannot be told, whatever the reason."""
        if self._ledger and self._reservation:
            try:
                self._ledger.commit(self._reservation, certificate=certificate.digest())
            except Exception as error:
                # The release is paid for: losing it now would waste the budget, and a reservation counts as spent.
                warnings.warn(f"the release is whole, but the ledger could not be told: {error}", LedgerWarning, 4)

    def void(self, error: BaseException) -> None:
        """Gives the reservation back. Only for a run that drew no noise."""
        if self._ledger and self._reservation:
            # Were this to fail too, the cost would stay booked, which is the safe side; the first error matters more.
            with contextlib.suppress(Exception):
                self._ledger.void(self._reservation, reason=f"stopped by {type(error).__name__} before any release")


def ledger_of(given: Any) -> Ledger | None:
    """Returns the ledger that an argument means: one as it is, or the one at a path or URL.

    Raises:
        OptionError: if it is anything else.
    """
    if given is None or isinstance(given, Ledger):
        return given
    if isinstance(given, str | Path):
        return Ledger(given)
    raise OptionError(f"ledger={given!r} must be a noisegate.Ledger, the path of its file, or its postgresql:// URL.")
