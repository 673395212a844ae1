"""Plans marginals that an adaptive mechanism of OpenDP chooses, within a ρ (G-17).

AIM and MST look at the records, choose tables that the model so far gets wrong, measure
these with noise, and continue. What they choose is not known beforehand. What is fixed
is which tables they may choose from, how large these are, and the ρ (in
zero-concentrated differential privacy) that all rounds together may spend.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from noisegate.errors import OptionError
from noisegate.privacy import accounting
from noisegate.privacy.events import Adjacency, ZeroConcentrated
from noisegate.privacy.plan import Budget, Plan

MOST_RECORDS = 2**28
"""Largest number of records, and of records that a model may stand for: up to here the
rounding of scores in float64 is analysed (G-17)."""
MOST_TABLE_BYTES = 2**32
"""Largest memory of the candidate tables, which OpenDP counts at the start."""

_BYTES_PER_CELL = 4
# Largest relative error of one rounding in float64.
_ROUNDOFF = 2.0**-53
# NumPy adds in blocks: a sum over s cells rounds at most s + 64 times one after
# another.
_BLOCK_DEPTH = 64
# Relative part of ρ that pays for rounding where AIM subtracts a penalty from a score.
_PENALTY_PART = 1e-3
# Rough: the libraries of the gate with OpenDP.
_MEGABYTES_OF_LIBRARIES = 600


@dataclass(frozen=True, kw_only=True)
class NoisyMarginals:
    """Noisy marginals that an adaptive mechanism chooses, with the ρ for all of them.

    `plan_marginals` makes them, with the largest ρ that keeps a budget.

    Attributes:
        name: What the event is called.
        algorithm: Class in `opendp.extras.mbi`.
        options: Its settings; public, JSON.
        sizes: Number of cells of each column, numeric columns first.
        candidates: The tables that it may choose, they or parts of them, each by the
            indices of its columns.
        rho: What the mechanism may spend, in zCDP.

    Raises:
        OptionError: if fewer than two columns have several values, or the tables are
            too large.
    """

    name: str
    algorithm: Literal["AIM", "MST"]
    options: Mapping[str, Any]
    sizes: tuple[int, ...]
    candidates: tuple[tuple[int, ...], ...]
    rho: float

    def __post_init__(self) -> None:
        """Checks the columns and the size of the tables.

        Raises:
            OptionError: if there is no pair of columns, or the tables are too large.
        """
        if len(self.columns) < 2:
            raise OptionError(
                f"{self.name} looks for pairs, and fewer than two columns have several "
                "values; choose another method."
            )
        if self.table_bytes > MOST_TABLE_BYTES:
            raise OptionError(
                f"{self.name} would count candidate tables of "
                f"{self.table_bytes / 2**30:.0f} GiB, more than "
                f"{MOST_TABLE_BYTES / 2**30:.0f}; lower bins, or degree for aim, or "
                "leave out columns with many levels."
            )

    def check(self, plan: Plan) -> None:
        """Checks nothing: what it costs is its ρ, which its event states."""

    @property
    def event(self) -> ZeroConcentrated:
        """The privacy event that all marginals together are."""
        return ZeroConcentrated(
            name=self.name, rho=self.rho, mechanism=f"OpenDP mbi.{self.algorithm}"
        )

    @property
    def columns(self) -> tuple[int, ...]:
        """Indices of the columns with several cells; others hold no information."""
        return tuple(column for column, size in enumerate(self.sizes) if size > 1)

    @property
    def table_bytes(self) -> int:
        """Memory of the candidates' exact tables and all their parts, in bytes.

        A part is a table over some of the columns. One that several candidates have
        counts once.
        """
        tables = {
            part
            for candidate in self.candidates
            for column_count in range(1, len(candidate) + 1)
            for part in combinations(candidate, column_count)
        }
        cell_counts = [
            math.prod(self.sizes[column] for column in table) for table in tables
        ]
        return _BYTES_PER_CELL * sum(cell_counts)

    @property
    def spendable_rho(self) -> float:
        """The ρ that OpenDP may spend; the rest of `rho` pays for rounding (G-17).

        OpenDP proves its choice of tables for exact scores, of sensitivity 1. Computed
        in float64 their sensitivity is at most 1 + η with η = 2u(D + 4)·2·2²⁸, where D
        bounds how often a sum is rounded one addition after another. The cost of a
        choice grows with the square of the sensitivity, so ρ is divided by (1 + η)².
        """
        addition_depth = max(self.sizes) + _BLOCK_DEPTH
        sensitivity_excess = 2 * _ROUNDOFF * (addition_depth + 4) * 2 * MOST_RECORDS
        return self.rho / ((1 + sensitivity_excess) ** 2 * (1 + _PENALTY_PART))

    @property
    def coordinates(self) -> int:
        """How many numbers will be released, if every candidate is measured once."""
        return self.table_bytes // _BYTES_PER_CELL

    def describe(self, records: int | None) -> dict[str, Any]:
        """Returns the plan as a JSON object.

        Args:
            records: Public guess of the number of records, or None. With it, the memory
                at the gate is stated, roughly.
        """
        # All records are held at once, in 4 bytes a column, and twice while they are
        # handed over.
        bytes_per_record = 8 * len(self.sizes)
        if records is None:
            megabytes = None
        else:
            data_bytes = records * bytes_per_record + self.table_bytes
            megabytes = _MEGABYTES_OF_LIBRARIES + data_bytes / 1e6
        return {
            "mechanism": self.event.mechanism,
            "rho": self.rho,
            "settings": dict(self.options),
            "cells": list(self.sizes),
            "coordinates": self.coordinates,
            "bytes_per_record_at_the_gate": bytes_per_record,
            "megabytes_of_tables_at_the_gate": self.table_bytes / 1e6,
            "megabytes_at_the_gate": megabytes,
        }


def plan_marginals(
    budget: Budget,
    *,
    name: str,
    algorithm: Literal["AIM", "MST"],
    options: Mapping[str, Any],
    sizes: tuple[int, ...],
    candidates: tuple[tuple[int, ...], ...],
) -> Plan:
    """Plans marginals with the largest ρ that keeps a budget.

    Args:
        budget: The guarantee that the mechanism must satisfy.
        name: What the event is called.
        algorithm: Class in `opendp.extras.mbi`.
        options: Its settings; public, JSON.
        sizes: Number of cells of each column, numeric columns first.
        candidates: The tables that it may choose, by the indices of their columns.

    Raises:
        OptionError: if columns or tables are unusable.
    """
    marginals = NoisyMarginals(
        rho=accounting.rho_for(budget.epsilon, budget.delta),
        name=name,
        algorithm=algorithm,
        options=options,
        sizes=sizes,
        candidates=candidates,
    )
    return Plan(budget=budget, mechanisms=(marginals,))


def marginals_of(plan: Plan) -> NoisyMarginals:
    """Returns the marginals of a plan.

    Raises:
        OptionError: if it has none.
    """
    for mechanism in plan.mechanisms:
        if isinstance(mechanism, NoisyMarginals):
            return mechanism
    raise OptionError("the plan has no marginals; make it with plan_marginals.")


def neighbour_distance(budget: Budget) -> int:
    """Returns how many records at most are in one of two neighbours only, in either.

    A replaced record is one that was removed and one that was added.
    """
    if budget.adjacency is Adjacency.ADD_REMOVE:
        differing_units = 1
    else:
        differing_units = 2
    return differing_units * (budget.contributions or 1)


def marginal_name(event: str, number: int, columns: Sequence[int]) -> str:
    """Returns what a noisy table is called in a release.

    Args:
        event: Name of the event that it came of.
        number: Which of the event's tables it is, from 0.
        columns: Indices of its columns.

    >>> marginal_name("mst", 3, [0, 5])
    'mst/3:0,5'
    """
    return f"{event}/{number}:{','.join(map(str, columns))}"


def marginal_columns(name: str) -> tuple[int, ...]:
    """Returns the indices of the columns in a name that `marginal_name` made.

    >>> marginal_columns("mst/3:0,5")
    (0, 5)
    """
    columns = name.rpartition(":")[2]
    return tuple(int(column) for column in columns.split(",") if column)
