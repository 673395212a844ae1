"""Runs that no ledger knows: costs on the same records add up, and nobody counts. So this process does, and warns.

Runs that have a column in common are counted together; records are never compared, or a
run on one made-up record would tell whether it is among private ones.
"""

import math
import threading
import warnings
from collections.abc import Iterable

from noisegate.errors import UnbookedWarning
from noisegate.privacy.plan import Budget, PricedPlan

_RUNS: list[tuple[frozenset[str], Budget]] = []
_MOST_RUNS = 1000
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
            _RUNS.append((self._columns, self._budget))
            del _RUNS[:-_MOST_RUNS]
            alike = [budget for columns, budget in _RUNS if columns & self._columns]
        number, costs = (
            len(alike),
            [
                math.fsum(getattr(one, of) for one in alike)
                for of in ("epsilon", "delta")
            ],
        )
        if number > 1 and number & (number - 1) == 0:  # told at 2, 4, 8, ...
            text = (
                f"{number} runs of this process had columns in common, and no ledger knows of them. Where the "
                f"records are the same, they cost together up to epsilon = {costs[0]:.4g} at delta = {costs[1]:g}; "
                "runs of other processes come on top. Give ledger= and dataset= to record and limit what is spent, and "
                "choose settings on public or simulated records."
            )
            warnings.warn(text, UnbookedWarning, stacklevel=2)
