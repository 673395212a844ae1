"""The cost of one run in the ledger: reserved before the first record is read, then committed or voided."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping
from typing import Protocol

from noisegate.errors import LedgerWarning
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import Event
from noisegate.privacy.ledger import Ledger
from noisegate.privacy.plan import Budget


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
        """
        if self._ledger is None or self._dataset is None:
            return
        self._reservation = self._ledger.reserve(
            self._dataset, plan.events, adjacency=plan.budget.adjacency, unit=plan.budget.unit, purpose=method
        )

    def commit(self, certificate: Certificate) -> None:
        """Closes the reservation; warns if the ledger cannot be told, whatever the reason."""
        if self._ledger and self._reservation:
            try:
                self._ledger.commit(self._reservation, certificate=certificate.digest())
            except Exception as error:
                # The release is paid for: losing it now would waste the budget, and a reservation counts as spent.
                warnings.warn(f"the release is whole, but its reservation stays open: {error}", LedgerWarning, 4)

    def void(self, error: BaseException) -> None:
        """Gives the reservation back. Only for a run that drew no noise."""
        if self._ledger and self._reservation:
            # Were this to fail too, the cost would stay booked, which is the safe side; the first error matters more.
            with contextlib.suppress(Exception):
                self._ledger.void(self._reservation, reason=f"stopped by {type(error).__name__} before any release")
