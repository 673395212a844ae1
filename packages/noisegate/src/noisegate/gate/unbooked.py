"""Runs that no ledger knows: costs on the same records add up, and nobody counts. So this process does, and warns."""

from __future__ import annotations

import math
import secrets
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.data.stores import children, status
from noisegate.errors import UnbookedWarning, UserError
from noisegate.privacy import accounting
from noisegate.privacy.plan import PricedPlan
from noisegate.records import Images, Rows

Hashes = npt.NDArray[np.uint64]

_MOST_HASHES = 1 << 13  # of one run; of a larger one the smallest are kept
_MOST_RUNS = 1000
_SHARED = 0.05  # of the smaller run: fewer records in common are taken for chance
_KEY = secrets.randbits(64)
_RUNS: list[Unbooked] = []
_LOCK = threading.Lock()


class Unbooked:
    """One run without a ledger, from its plan to its first noise: what it costs, and what it reads."""

    def __init__(self, plan: PricedPlan, data: Any) -> None:
        self._plan, self._places = plan, frozenset(_places(data))
        with suppress(TypeError):  # what cannot be referred to weakly is found by its records
            self._data: Any = weakref.ref(data)
        self._lock, self._open = threading.Lock(), True
        self._whole, self._hashes = (0, 0), np.empty(0, dtype=np.uint64)

    def see(self, records: Rows) -> None:
        """Takes in some records, in any thread and in constant memory; after the first noise nothing more."""
        if not self._open:
            return
        found = _hashes(records)
        with self._lock:
            count, total = self._whole
            self._whole = (count + found.size, (total + int(found.sum())) % 2**64)
            self._hashes = np.unique(np.concatenate((self._hashes, found)))[:_MOST_HASHES]

    def warn(self) -> None:
        """Counts the run, right before its first noise, and warns of what it costs with those before it.

        As an error the warning stops the run, which has spent nothing yet.
        """
        self._open = False
        with _LOCK:
            others = [run for run in _RUNS if run.shares_records(self)]
            _RUNS.append(self)
            del _RUNS[:-_MOST_RUNS]
        number = len(others) + 1
        if others and number & (number - 1) == 0:  # told at 2, 4, 8, ...
            epsilon, delta = _together([run._plan for run in (*others, self)])
            text = (
                f"{number} runs of this process were on the same private records, and no ledger knows of them. "
                f"Together they cost up to epsilon = {epsilon:.4g} at delta = {delta:.4g}, for a record that all of "
                "them used; "
                "runs of other processes come on top. Give ledger= and dataset= to book and limit what is spent, and "
                "choose settings on public or simulated records."
            )
            warnings.warn(text, UnbookedWarning, _outside())

    def shares_records(self, other: Unbooked) -> bool:
        """Whether another run was on the same records, or some of them."""
        if self._places & other._places or self._is(other) or (self._whole[0] and self._whole == other._whole):
            return True
        if self._alike or other._alike:
            return False
        common = np.intersect1d(self._hashes, other._hashes, assume_unique=True).size
        return bool(common > _SHARED * min(self._hashes.size, other._hashes.size))

    @property
    def _alike(self) -> bool:
        """Whether records are so much alike that those of other data are the same by chance."""
        distinct: float = self._hashes.size
        if distinct == _MOST_HASHES:  # by how small the largest of the smallest hashes is
            distinct *= 2**64 / (int(self._hashes[-1]) + 1)
        return distinct <= self._whole[0] / 2

    def _is(self, other: Unbooked) -> bool:
        one, two = (getattr(run, "_data", lambda: None)() for run in (self, other))
        return one is not None and one is two


def _places(data: Any) -> Iterator[tuple[int, int] | str]:
    if isinstance(data, str | Path):
        path = Path(data)
        with suppress(OSError):
            for file in [path, *(children(path) if status(path).folder else ())]:
                yield status(file).identity


def _hashes(records: Rows) -> Hashes:
    if isinstance(records, Images):
        flat = records.pixels.reshape(len(records), math.prod(records.pixels.shape[1:]))
        flat = np.pad(flat, ((0, 0), (0, -flat.shape[1] % 8)))
        words = [np.ascontiguousarray(flat).view(np.uint64)]
    else:
        words = [np.ascontiguousarray(records.numeric).view(np.uint64)]
    words.append(records.codes.astype(np.uint64))
    table = np.concatenate(words, axis=1)
    keys = np.random.Generator(np.random.PCG64(_KEY)).integers(0, 2**64, (2, table.shape[1] + 1), dtype=np.uint64)
    # What tells floats apart stands in their upper bits, and a product carries upwards only.
    mixed = (table ^ (table >> np.uint64(32)) ^ keys[0, 1:]) * (keys[1, 1:] | np.uint64(1))
    total: Hashes = mixed.sum(axis=1, dtype=np.uint64)
    return np.asarray((total ^ (total >> np.uint64(29))) * (keys[1, 0] | np.uint64(1)))


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
