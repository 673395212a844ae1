"""Sums over disjoint shards before data (G-26), and plans of marginals that OpenDP chooses on the way, within a ρ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Annotated, Any, Literal

from noisegate.errors import OptionError
from noisegate.privacy import accounting
from noisegate.privacy.events import (
    Adjacency,
    BatchGaussianEvent,
    Sampler,
    ShardGaussianEvent,
    ZeroConcentratedEvent,
)
from noisegate.privacy.gradient_plan import StepPlan
from noisegate.privacy.grid import UNITS, Grid
from noisegate.privacy.plan import Budget, PricedPlan
from noisegate.settings import Within, settings


@settings
class BatchPlan(StepPlan):
    """Vectors of whole samples, each from any function of the sample and clipped as a whole (G-24).

    A sample is a Poisson sample of all records; or, with `shards`, one of as many disjoint parts of them, in turn. The
    sensitivity is the diameter of what vectors can be, 2 · clip_norm. Use it for losses that are no sum over records,
    such as optimal transport; otherwise a `GradientPlan` has half the noise.

    Examples:
        >>> from noisegate import Budget
        >>> from noisegate.privacy.shard_plan import BatchPlan
        >>> shapes = {"parameters": {"weight": (3, 2)}}
        >>> steps = BatchPlan(name="network", steps=10, sampling_probability=1.0, shards=5, clip_norm=1.0, **shapes)
        >>> event = steps.calibrate(Budget(epsilon=1.0)).events[0]
        >>> event.uses, event.sensitivity / steps.grid.bound.units
        (2, 2.0)
    """

    shards: Annotated[
        int, Within(ge=1, le=1_000_000), "a whole number from 1 to 1000000"
    ] = 1
    """Number of disjoint shards, used whole and in turn, with sampling probability 1; 1 for Poisson samples."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shards > 1 and self.sampling_probability != 1:
            raise OptionError(
                f"sampling_probability={self.sampling_probability:g} with shards={self.shards}: a whole shard is used "
                "in each step, and what shards save is not saved twice. Give sampling_probability=1.0, or shards=1 for "
                "Poisson samples."
            )

    def event(self, noise_std: float, sampler: Sampler) -> BatchGaussianEvent:
        """Returns the event of all steps."""
        steps = vars(super().event(noise_std, sampler))
        return BatchGaussianEvent(
            **steps | {"sensitivity": 2 * UNITS, "shards": self.shards}
        )


@settings
class ShardPlan(StepPlan):
    """Sums of one vector of each disjoint shard, each from a state that the shard alone has trained (G-26).

    The records are split into shards once. In a step each shard is asked with `sampling_probability`, by itself, and
    what leaves is the noisy sum of the vectors of those that were asked, of sensitivity 2 · clip_norm.

    Examples:
        >>> from noisegate import Budget
        >>> from noisegate.privacy.shard_plan import ShardPlan
        >>> votes = ShardPlan(name="votes", steps=10, shards=50, clip_norm=1.0, parameters={"votes": (4,)})
        >>> event = votes.calibrate(Budget(epsilon=1.0)).events[0]
        >>> event.rate, event.shards, event.sensitivity / votes.units
        (1.0, 50, 2.0)
    """

    shards: Annotated[
        int, Within(ge=1, le=1_000_000), "a whole number from 1 to 1000000"
    ]
    """Number of disjoint shards."""
    sampling_probability: Annotated[
        float, Within(gt=0, le=1), "a number above 0 and at most 1"
    ] = 1.0
    """Probability with which each shard, by itself, is asked in a step; rounded up to a multiple of 2⁻³²."""
    nonnegative: bool = False
    """Whether no coordinate is negative, which is enforced: two vectors are then at most √2 · clip_norm apart."""

    def event(self, noise_std: float, sampler: Sampler) -> ShardGaussianEvent:
        """Returns the event of all steps."""
        steps = vars(super().event(noise_std, sampler))
        return ShardGaussianEvent(
            **steps | {"sensitivity": self.diameter, "shards": self.shards}
        )

    @property
    def diameter(self) -> int:
        """Largest distance between two vectors of a shard in grid units, rounded up.

        Where a shard may be left out, its vectors are compared with none as well, and nothing is gained by their signs.
        """
        if self.sampling_probability < 1:
            return 2 * UNITS
        return self.grid.bound.sensitivity(Adjacency.REPLACE_ONE)

    @property
    def grid(self) -> Grid:
        """Where vectors are clipped and rounded."""
        return Grid(norm=self.clip_norm, nonnegative=self.nonnegative)


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
    candidates: tuple[
        tuple[int, ...], ...
    ]  # the tables, as column numbers, that it may choose, they or parts of them
    rho: float  # what the mechanism may spend, in zCDP

    def __post_init__(self) -> None:
        if sum(size > 1 for size in self.sizes) < 2:
            raise OptionError(
                f"{self.name} looks for pairs, and fewer than two columns have several values; choose another method."
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
        return cls(
            budget=budget, rho=accounting.rho_for(budget.epsilon, budget.delta), **asked
        )

    @property
    def events(self) -> tuple[ZeroConcentratedEvent, ...]:
        """What will be run, for the ledger and the certificate."""
        return (
            ZeroConcentratedEvent(
                name=self.name, rho=self.rho, mechanism=f"OpenDP mbi.{self.algorithm}"
            ),
        )

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns with more than one cell; the others hold no information."""
        return tuple(column for column, size in enumerate(self.sizes) if size > 1)

    @property
    def table_bytes(self) -> int:
        """Memory of the candidates' exact tables and of all their parts, which OpenDP counts at the start."""
        tables = {
            part
            for table in self.candidates
            for n in range(len(table))
            for part in combinations(table, n + 1)
        }
        return sum(
            4 * math.prod(self.sizes[column] for column in table) for table in tables
        )

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
            "megabytes_at_the_gate": None
            if records is None
            else 600 + (records * per_record + self.table_bytes) / 1e6,
        }


def marginal_name(event: str, number: int, columns: Sequence[int]) -> str:
    """Returns the name in a release of the `number`-th noisy table of an event, over `columns`."""
    return f"{event}/{number}:{','.join(map(str, columns))}"


def marginal_columns(name: str) -> tuple[int, ...]:
    """Returns the columns in a name that `marginal_name` made."""
    columns = name.rpartition(":")[2]
    return tuple(int(column) for column in columns.split(",") if column)
