"""A plan whose questions are chosen on the way, by one of OpenDP's mechanisms, within a ρ that is fixed beforehand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from noisegate.errors import OptionError
from noisegate.privacy import accounting
from noisegate.privacy.events import Adjacency, ZeroConcentratedEvent
from noisegate.privacy.plan import Budget, PricedPlan

# Largest number of records, and of records that a model may stand for: float64 scores are analysed up to here.
MOST_RECORDS = 2**28
MOST_TABLE_BYTES = 2**32
_ROUNDOFF = 2.0**-53
# Relative part of ρ that pays for rounding where AIM subtracts a penalty from a score.
_PENALTIES = 1e-3


@dataclass(frozen=True, kw_only=True, repr=False)
class MarginalPlan(PricedPlan):
    """Noisy marginals that an adaptive mechanism chooses. Made by `calibrate` only."""

    name: str  # what the event is called
    algorithm: Literal["AIM", "MST"]  # class in `opendp.extras.mbi`
    options: Mapping[str, Any]  # its settings; public, JSON
    sizes: tuple[int, ...]  # number of cells of each column, numeric columns first
    candidates: tuple[tuple[int, ...], ...]  # the tables, as column numbers, that it may choose, they or parts of them
    rho: float  # what the mechanism may spend, in zCDP

    def __post_init__(self) -> None:
        if sum(size > 1 for size in self.sizes) < 2:
            raise OptionError(
                f"{self.name} looks for pairs of columns, and the schema has fewer than two with more than one value; "
                "choose another method."
            )
        if self.table_bytes > MOST_TABLE_BYTES:
            raise OptionError(
                f"{self.name} would count candidate tables of {self.table_bytes / 2**30:.0f} GiB, more than "
                f"{MOST_TABLE_BYTES / 2**30:.0f}; lower bins, or degree for aim, or leave out columns with many levels."
            )
        super().__post_init__()

    @classmethod
    def calibrate(cls, budget: Budget, **asked: Any) -> MarginalPlan:
        """Returns the plan of what is `asked`, by attribute, with the largest ρ that keeps `budget`."""
        return cls(budget=budget, rho=accounting.rho_for(budget.epsilon, budget.delta), **asked)

    @property
    def events(self) -> tuple[ZeroConcentratedEvent, ...]:
        """What will be run, for the ledger and the certificate."""
        return (ZeroConcentratedEvent(name=self.name, rho=self.rho, mechanism=f"OpenDP mbi.{self.algorithm}"),)

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns with more than one cell; the others hold no information."""
        return tuple(column for column, size in enumerate(self.sizes) if size > 1)

    @property
    def table_bytes(self) -> int:
        """Memory of the candidates' exact tables and of all their parts, which OpenDP counts at the start."""
        tables = {part for table in self.candidates for n in range(len(table)) for part in combinations(table, n + 1)}
        return sum(4 * math.prod(self.sizes[column] for column in table) for table in tables)

    @property
    def distance(self) -> int:
        """How many records at most are in one of two neighbours only, counting both ways."""
        replaced = 1 if self.budget.adjacency is Adjacency.ADD_REMOVE else 2
        return replaced * (self.budget.contributions or 1)

    @property
    def spendable(self) -> float:
        """The ρ that OpenDP is told to spend; the rest pays for the rounding of its float64 scores (see Guarantees)."""
        depth = max(self.sizes) + 64
        widening = 2 * _ROUNDOFF * (depth + 4) * 2 * MOST_RECORDS
        return self.rho / ((1 + widening) ** 2 * (1 + _PENALTIES))

    @property
    def coordinates(self) -> int:
        """How many numbers will be released, at most: if every candidate were measured once."""
        return self.table_bytes // 4

    def describe(self, records: int | None) -> dict[str, Any]:
        """Returns the plan as a JSON object; `records` is a public guess of their number."""
        # All records are held at once, in 4 bytes a column, twice while they are handed over.
        per_record = 8 * len(self.sizes)
        return {
            **super().describe(records),
            "mechanism": self.events[0].mechanism,
            "rho": self.rho,
            "settings": dict(self.options),
            "cells": list(self.sizes),
            "coordinates": self.coordinates,
            "bytes_per_record_at_the_gate": per_record,
            "megabytes_of_tables_at_the_gate": self.table_bytes / 1e6,
            # Beside 600 MB of libraries.
            "megabytes_at_the_gate": None if records is None else 600 + (records * per_record + self.table_bytes) / 1e6,
        }


def marginal_name(event: str, number: int, columns: Sequence[int]) -> str:
    """Returns the name in a release of the `number`-th noisy table of an event, over `columns`."""
    return f"{event}/{number}:{','.join(map(str, columns))}"


def marginal_columns(name: str) -> tuple[int, ...]:
    """Returns the columns in a name that `marginal_name` made."""
    columns = name.rpartition(":")[2]
    return tuple(int(column) for column in columns.split(",") if column)
