"""The cost of one run in the ledger: reserved before the first record is read, confirmed just before the first noise.

Then it can only be committed; before, it can be given back.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from noisegate.errors import LedgerWarning, OptionError
from noisegate.ledger.ledger import Kind, Ledger
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.plan import PricedPlan

# An interrupted run has confirmed if it drew noise; one of an earlier version has not.
_OPEN = ([Kind.RESERVE], [Kind.RESERVE, Kind.CONFIRM])


def ledger_of(ledger: Any, dataset: str | None) -> Ledger | None:
    """Returns the ledger that an argument means: one as it is, or the one at a path or URL.

    Raises:
        OptionError: if it is anything else, or only one of ledger and data set is given.
    """
    if (ledger is None) != (dataset is None):
        raise OptionError(f"ledger={ledger!r} and dataset={dataset!r} go together: give both, or neither.")
    if ledger is None or isinstance(ledger, Ledger):
        return ledger
    if isinstance(ledger, str | Path):
        return Ledger(ledger)
    raise OptionError(f"ledger={ledger!r} must be a noisegate.Ledger, the path of its file, or its postgresql:// URL.")


class Reservation:
    """The place of one run in a ledger; without a ledger, nowhere.

    Args:
        ledger: The ledger, or None.
        dataset: Name of the data set in it, or None.
    """

    def __init__(self, ledger: Ledger | None, dataset: str | None) -> None:
        self.ledger, self.dataset = ledger, dataset or ""
        self._number: str | None = None
        self._resumed: str | None = None
        self._confirmed = False

    @property
    def place(self) -> Mapping[str, str] | None:
        """Data set and reservation, for the certificate."""
        return None if self._number is None else {"dataset": self.dataset, "reservation": self._number}

    def reserve(self, plan: PricedPlan, method: str) -> None:
        """Reserves the whole cost of `plan`, or takes up the reservation of the run that is resumed.

        Raises:
            BudgetRefusedError: if the ledger refuses.
            OptionError: if a run is resumed whose reservation is not open, or of another plan.
        """
        if self.ledger is None:
            return
        if self._resumed is None:
            self._number = self.ledger.reserve(
                self.dataset, plan.events, adjacency=plan.budget.adjacency, unit=plan.budget.unit, purpose=method
            )
            return
        entries = [entry for entry in self.ledger.history(self.dataset) if entry.reservation == self._resumed]
        if [entry.kind for entry in entries] not in _OPEN or entries[0].events != tuple(plan.events):
            raise OptionError(
                f"journal: the ledger has no open reservation {self._resumed} of this plan for {self.dataset!r}; give "
                "another journal, which starts a run that costs again."
            )
        self._number = self._resumed

    def resume(self, number: str | None) -> None:
        """Makes `reserve` go on with the reservation of a run that was interrupted, and spend nothing.

        Raises:
            OptionError: if that run had a ledger and this one has none, or the other way round.
        """
        if (number is None) != (self.ledger is None):
            raise OptionError("the journal is of a run with a ledger, or without one: resume it in the same way.")
        self._resumed = number

    def confirm(self) -> None:
        """Makes sure, just before noise is drawn, that the reservation stands, and that nobody can void it any more.

        Raises:
            LedgerError: if somebody closed it, or the ledger cannot be told. No noise may be drawn then.
        """
        if self.ledger and self._number and not self._confirmed:
            self.ledger.confirm(self._number)
            self._confirmed = True

    def commit(self, certificate: Certificate) -> None:
        """Closes the reservation; warns if the ledger cannot be told, whatever the reason."""
        if self.ledger and self._number:
            try:
                self.ledger.commit(self._number, certificate=certificate.digest())
            except Exception as error:
                # The release is paid for: losing it now would waste the budget, and a reservation counts as spent.
                told = f"the release is whole, but the ledger could not be told: {error}"
                try:
                    warnings.warn(told, LedgerWarning, 4)
                except LedgerWarning:  # where warnings are errors
                    print(f"warning: {told}", file=sys.stderr)

    def void(self, error: BaseException) -> None:
        """Gives the reservation back. Only for a run that drew no noise, so never for one that is resumed."""
        if self.ledger and self._number and self._resumed is None:
            # Were this to fail too, the cost would stay booked, which is the safe side; the first error matters more.
            with contextlib.suppress(Exception):
                self.ledger.void(self._number, reason=f"stopped by {type(error).__name__} before any release")
