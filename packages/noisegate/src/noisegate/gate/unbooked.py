"""Counts the runs of this process that no ledger records, and warns of what they cost.

The costs of runs on the same records add up. A ledger adds them up. Without a ledger,
this process counts its own runs, and warns after the 2nd, 4th, 8th, …

Runs that have a column in common are counted together. Records are never compared: if
they were, a run on one made-up record would tell whether it is among the private ones.
"""

import math
import threading
import warnings
from collections.abc import Iterable

from noisegate.errors import UnbookedWarning
from noisegate.privacy.plan import Budget, Plan

# Columns and budgets of the latest runs, oldest first.
_RUNS: list[tuple[frozenset[str], Budget]] = []
# Older runs are forgotten, so that a server's memory does not grow.
_MAX_RUNS = 1000
_LOCK = threading.Lock()


class UnbookedRun:
    """One run without a ledger, which is counted when it draws its first noise.

    Args:
        plan: What the run costs.
        columns: Names of the columns that it reads.
    """

    def __init__(self, plan: Plan, columns: Iterable[str]) -> None:
        self._budget = plan.budget
        self._columns = frozenset(columns)

    def count_and_warn(self) -> None:
        """Counts the run, just before its first noise, and warns of the total cost.

        It is called once for a run: a second call would count the run twice. Where
        warnings are errors, the run stops here and has spent nothing.
        """
        with _LOCK:
            _RUNS.append((self._columns, self._budget))
            del _RUNS[:-_MAX_RUNS]
            budgets = [budget for columns, budget in _RUNS if columns & self._columns]

        run_count = len(budgets)
        is_power_of_two = run_count & (run_count - 1) == 0
        if run_count > 1 and is_power_of_two:
            # Basic composition: ε and δ each add up.
            epsilon = math.fsum(budget.epsilon for budget in budgets)
            delta = math.fsum(budget.delta for budget in budgets)
            message = (
                f"{run_count} runs of this process had columns in common and are "
                "in no ledger. If their records are the same, they cost together "
                f"up to epsilon = {epsilon:.4g} at delta = {delta:g}; runs of "
                "other processes add to that. Give ledger= and dataset= to record "
                "and limit what is spent, and choose settings on public or "
                "simulated records."
            )
            warnings.warn(message, UnbookedWarning, stacklevel=2)
