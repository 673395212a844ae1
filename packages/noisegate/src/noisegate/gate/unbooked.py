"""Runs that no ledger knows: costs on the same records add up, and nobody counts. So this process does, and warns."""

import math
import sys
import threading
import warnings
from collections.abc import Iterable
from contextlib import suppress

from noisegate.errors import UnbookedWarning, UserError
from noisegate.privacy import accounting
from noisegate.privacy.plan import PricedPlan

_RUNS: dict[frozenset[str], list[PricedPlan]] = {}
_LOCK = threading.Lock()


class Unbooked:
    """One run without a ledger, from its plan to its first noise: what it costs, and the columns that it reads."""

    def __init__(self, plan: PricedPlan, columns: Iterable[str]) -> None:
        self._plan, self._columns = plan, frozenset(columns)

    def warn(self) -> None:
        """Counts the run, right before its first noise, and warns of what it costs with those before it.

        As an error the warning stops the run, which has spent nothing yet.
        """
        with _LOCK:
            plans = _RUNS.setdefault(self._columns, [])
            plans.append(self._plan)
            number = len(plans)
        if number > 1 and number & (number - 1) == 0:  # told at 2, 4, 8, ...
            epsilon, delta = _together(plans)
            text = (
                f"{number} runs of this process were on records with these columns, and no ledger knows of them. Where "
                f"the records are the same, they cost together up to epsilon = {epsilon:.4g} at delta = {delta:.4g}; "
                "runs of other processes come on top. Give ledger= and dataset= to record and limit what is spent, and "
                "choose settings on public or simulated records."
            )
            warnings.warn(text, UnbookedWarning, _outside())


def _together(plans: list[PricedPlan]) -> tuple[float, float]:
    """Returns ε and δ of several runs: composed exactly where they protect the same thing, else their sums."""
    budgets = [plan.budget for plan in plans]
    delta, added = max(each.delta for each in budgets), math.fsum(each.epsilon for each in budgets)
    if len({(each.adjacency, each.unit, each.contributions) for each in budgets}) == 1:
        with suppress(UserError, ArithmeticError, ValueError):
            events = [event for plan in plans for event in plan.events]
            composed = accounting.epsilon(tuple(events), delta, budgets[0].adjacency)
            if composed <= added:
                return composed, delta
    return added, math.fsum(each.delta for each in budgets)


def _outside() -> int:
    """Returns how far up the stack the nearest caller outside the package is, as `warnings.warn` counts."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("noisegate."):
        frame, level = frame.f_back, level + 1
    return level
