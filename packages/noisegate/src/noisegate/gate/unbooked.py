"""Runs that no ledger knows: costs on the same records add up, and nobody counts. So this process does, and warns."""

import math
import threading
import warnings
from collections.abc import Iterable

from noisegate.errors import UnbookedWarning
from noisegate.privacy.plan import Budget, PricedPlan

_RUNS: dict[frozenset[str], list[Budget]] = {}
_LOCK = threading.Lock()


class Unbooked:
    """One run without a ledger, from its plan to its first noise: what it costs, and the columns that it reads."""

    def __init__(self, plan: PricedPlan, columns: Iterable[str]) -> None:
        self._budget, self._columns = plan.budget, frozenset(columns)

    def warn(self) -> None:
        """Counts the run, right before its first noise, and warns of what it costs with those before it.

        As an error the warning stops the run, which has spent nothing yet.
        """
        with _LOCK:
            budgets = _RUNS.setdefault(self._columns, [])
            budgets.append(self._budget)
            number, costs = (
                len(budgets),
                [math.fsum(of) for of in zip(*((b.epsilon, b.delta) for b in budgets), strict=True)],
            )
        if number > 1 and number & (number - 1) == 0:  # told at 2, 4, 8, ...
            text = (
                f"{number} runs of this process were on records with these columns, and no ledger knows of them. Where "
                f"the records are the same, they cost together up to epsilon = {costs[0]:.4g} at delta = {costs[1]:g}; "
                "runs of other processes come on top. Give ledger= and dataset= to record and limit what is spent, and "
                "choose settings on public or simulated records."
            )
            warnings.warn(text, UnbookedWarning, stacklevel=2)
