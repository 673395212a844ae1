"""Plan before data: queries and budget shares, calibrated to noise before the first record is read."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from noisegate.cards import ResultCard, Sheet, Shown
from noisegate.errors import CalibrationError, OptionError, said
from noisegate.privacy import accounting, events
from noisegate.privacy.events import (
    RECORD,
    Adjacency,
    Event,
    GaussianEvent,
    Sampler,
    check_unit,
    describe_unit,
)
from noisegate.privacy.grid import Grid
from noisegate.privacy.noise import choose_samplers, reached

_HEADINGS = ("query", "values", "sensitivity", "noise", "noise multiplier")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The guarantee that is asked for.

    Attributes:
        epsilon: In [0.01, 1000].
        delta: In [1e-12, 0.5). Choose it well below one over the number of records.
        adjacency: The neighbouring relation.
        unit: What one record stands for, in the words of the certificate; or whose records belong together.
        contributions: How many records of one unit are used at most; None when every record is a unit.

    Examples:
        >>> from noisegate import Budget, DPMERF, Schema
        >>> from noisegate.schema import Integer
        >>> schema = Schema([Integer(name="age", lower=0, upper=99)])
        >>> plan = DPMERF(frequencies=50).plan(schema, Budget(epsilon=1.0, delta=1e-6))
        >>> plan.epsilon <= 1.0, round(plan.epsilon, 6), plan.coordinates
        (True, 1.0, 101)
    """

    epsilon: float
    delta: float = 1e-5
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: str = RECORD
    contributions: int | None = None

    def __post_init__(self) -> None:
        for name, low, high, hint in (
            ("epsilon", 0.01, 1000.0, f"for instance {said('epsilon', 1)}"),
            (
                "delta",
                1e-12,
                math.nextafter(0.5, 0),
                f"for instance {said('delta', 1e-5)}",
            ),
        ):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not low <= value <= high:
                if name == "epsilon" and number and value > high:
                    hint = "above that hardly any privacy is left"
                raise OptionError(
                    f"{name}={value!r} must be a number from {low:g} to {high:g}; {hint}."
                )
            # A certificate is hashed as JSON, where 1 is not 1.0, and read back it has floats.
            object.__setattr__(self, name, float(value))
        if self.contributions is not None and not (
            type(self.contributions) is int and 1 <= self.contributions <= 1000
        ):
            raise OptionError(
                f"contributions={self.contributions!r} must be a whole number from 1 to 1000; noise grows in "
                "proportion to it, so choose what most units have."
            )
        check_unit(self.unit, self.contributions)
        if self.contributions is not None and self.adjacency is Adjacency.REPLACE_ONE:
            raise OptionError(
                "adjacency='replace-one' takes the number of records as public, which depends on how many records each "
                "unit has; with unit_column use adjacency='add-remove'."
            )


@dataclass(frozen=True, kw_only=True)
class Query:
    """One sum over all records of a vector of bounded norm.

    Attributes:
        name: Unique within the plan.
        dim: Length of one record's vector; with `adaptive`, the largest that it may have.
        columns: How many columns (label values) a record's vector may go to; 1 without labels.
        norm: L2 norm that every vector is clipped to.
        share: Part of the budget, positive; shares are relative to their sum, in units of Gaussian-DP μ².
        nonnegative: Whether vectors are non-negative; enforced by the gate.
        centre: Public centre to subtract, or None.
        adaptive: Whether the map is chosen after earlier answers of the same plan. Its norm, its share and its noise
            are fixed now all the same (docs/guarantees.md, G-13).
        tables: Number of contingency tables, where the query is about these. Only for forecasts of time.
        feature_map: From a record to its vector; None where it is known only when other answers are.

    Examples:
        >>> from noisegate import Adjacency, Budget
        >>> from noisegate.privacy.plan import Query
        >>> query = Query(name="means", dim=10, columns=2, norm=1.0, share=1.0)
        >>> query.coordinates
        20
        >>> [query.sensitivity(Budget(epsilon=1.0, adjacency=each)) / query.grid.bound.units for each in Adjacency]
        [1.0, 2.0]
    """

    name: str
    dim: int
    columns: int
    norm: float
    share: float
    nonnegative: bool = False
    centre: tuple[float, ...] | None = None
    adaptive: bool = False
    tables: int | None = None
    feature_map: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        name: str,
        feature_map: Any,
        *,
        columns: int,
        share: float,
        bound: float = 1.0,
    ) -> Query:
        """Returns the query for the sum of a `FeatureMap`'s vectors, clipped to a share `bound` of its norm."""
        vector: dict[str, Any] = {
            "dim": feature_map.dim,
            "nonnegative": feature_map.nonnegative,
        }
        norm = feature_map.norm * bound
        return cls(
            name=name,
            columns=columns,
            norm=norm,
            share=share,
            feature_map=feature_map,
            **vector,
        )

    def __post_init__(self) -> None:
        if self.dim < 1 or self.columns < 1:
            raise OptionError(
                f"query {self.name!r}: dim={self.dim} and columns={self.columns} must be at least 1."
            )
        if not (math.isfinite(self.share) and self.share > 0):
            raise OptionError(
                f"query {self.name!r}: share={self.share!r} must be positive and finite."
            )

    @property
    def grid(self) -> Grid:
        """The grid on which this query is summed."""
        return Grid(norm=self.norm, nonnegative=self.nonnegative, centre=self.centre)

    def sensitivity(self, budget: Budget) -> int:
        """Returns the L2 sensitivity of the sum for one privacy unit of `budget`, in grid units."""
        return self.grid.bound.of_unit(budget.contributions or 1).sensitivity(
            budget.adjacency
        )

    @property
    def coordinates(self) -> int:
        """How many numbers the answer has; with `adaptive`, at most."""
        return self.dim * self.columns


@dataclass(frozen=True, kw_only=True)
class PlannedRelease:
    """A query with its noise: everything the gate needs, and everything the certificate states."""

    query: Query
    sensitivity: int
    noise_std: float
    sampler: Sampler

    @property
    def event(self) -> GaussianEvent:
        """The private event that answering this query is."""
        return GaussianEvent(
            name=self.query.name,
            sensitivity=self.sensitivity,
            noise_std=self.noise_std,
            coordinates=self.query.coordinates,
            sampler=self.sampler,
        )

    @property
    def noise_std_natural(self) -> float:
        """Standard deviation of the noise in the units of the record's vector."""
        return self.noise_std / self.query.grid.scale

    def describe(self, records: int | None) -> dict[str, Any]:
        """Returns the release as a JSON object; `records` is a public guess of their number."""
        query = self.query
        noise_norm = self.noise_std_natural * math.sqrt(query.coordinates)
        return {
            "name": query.name,
            "dim": query.dim,
            "columns": query.columns,
            "adaptive": query.adaptive,
            "norm": query.norm,
            "sensitivity": self.sensitivity / query.grid.scale,
            "sensitivity_grid": self.sensitivity,
            "noise_std": self.noise_std_natural,
            "noise_std_grid": self.noise_std,
            "noise_multiplier": self.event.noise_multiplier,
            "sampler": self.sampler.value,
            "signal_to_noise": None
            if records is None
            else records * query.norm / noise_norm,
        }


@dataclass(frozen=True, kw_only=True, repr=False)
class PricedPlan(Shown):
    """What will be run, and the budget that pays for it: a plan that costs more cannot be made."""

    budget: Budget
    releases: tuple[PlannedRelease, ...] = ()  # sums over all records, with their noise

    def __post_init__(self) -> None:
        for release in self.releases:
            if release.sensitivity < release.query.sensitivity(self.budget):
                raise CalibrationError(
                    f"query {release.query.name!r}: sensitivity={release.sensitivity} is below that of "
                    f"{self.budget.adjacency.value}; make plans with Plan.calibrate."
                )
        spent = self.epsilon
        if not spent <= self.budget.epsilon:
            raise CalibrationError(
                f"the plan costs epsilon={spent:g}, more than the {self.budget.epsilon:g} asked for."
            )

    @property
    def events(self) -> tuple[Event, ...]:
        """What will be run, for the ledger and the certificate."""
        return tuple(release.event for release in self.releases)

    @cached_property
    def epsilon(self) -> float:
        """ε of the whole plan at the budget's δ, recomputed from its events."""
        return accounting.epsilon(self.events, self.budget.delta, self.budget.adjacency)

    @property
    def coordinates(self) -> int:
        """How many numbers will be released, at most."""
        return sum(release.query.coordinates for release in self.releases)

    def release(self, name: str) -> PlannedRelease:
        """Returns the planned release of the query called `name`."""
        return next(release for release in self.releases if release.query.name == name)

    def card(self) -> ResultCard:
        """Returns what will be asked and what it costs, as a card for a terminal or a notebook."""
        told, budget = self.describe(None), self.budget
        rows = [
            [one["name"], f"{one['dim']} x {one['columns']}"]
            + [
                f"{one[name]:.4g}"
                for name in ("sensitivity", "noise_std", "noise_multiplier")
            ]
            for one in told.get("releases", ())
        ]
        facts: dict[str, str] = {}
        facts |= {
            name: f"{told[name]:.6g}"
            for name in ("steps", "rate", "noise_multiplier", "rho")
            if name in told
        }
        facts |= {
            row[0]: f"{row[1]} values, noise {row[3]}, noise multiplier {row[4]}"
            for row in rows
        }
        asked = [Sheet(title="Queries", headings=_HEADINGS, rows=rows)] if rows else []
        price = f"epsilon = {budget.epsilon:g}, delta = {budget.delta:g}, {budget.adjacency.value}"
        price += f", unit: {describe_unit(budget.unit, budget.contributions)}"
        return ResultCard(
            title=f"{type(self).__name__}: {price}", facts=facts, sheets=asked
        )

    def describe(self, records: int | None) -> dict[str, Any]:
        """Returns the plan as a JSON object; `records` is a public guess of their number."""
        budget = self.budget
        asked = {"epsilon": budget.epsilon, "delta": budget.delta}
        return {**asked, "adjacency": budget.adjacency.value, "unit": budget.unit}


@dataclass(frozen=True, kw_only=True, repr=False)
class CalibratedPlan(PricedPlan):
    """Queries with noise that together cost at most `budget`. Made by `Plan.calibrate` only.

    `design` is what a method made the plan from, carried for its own use: neither the gate nor the price looks at it.
    """

    design: Any = field(default=None, compare=False, repr=False)

    @property
    def maps(self) -> dict[str, Any]:
        """The feature map of each query that has one already."""
        queries = (release.query for release in self.releases)
        return {
            query.name: query.feature_map
            for query in queries
            if query.feature_map is not None
        }

    def only(self, names: Container[str]) -> CalibratedPlan:
        """Returns the plan of some of the queries, with the noise that they have in this one."""
        return replace(
            self,
            releases=tuple(one for one in self.releases if one.query.name in names),
        )

    def summed(self) -> CalibratedPlan:
        """Returns the plan with noise that several silos draw in shares (G-32), of the same price."""
        return replace(
            self,
            releases=tuple(
                replace(one, sampler=Sampler.SUMMED_GAUSSIAN) for one in self.releases
            ),
        )

    def describe(self, records: int | None) -> dict[str, Any]:
        """Returns the plan as a JSON object; `records` is a public guess of their number."""
        queries = [release.query for release in self.releases]
        # What a core needs, roughly: reading a cell of each table, or computing every feature.
        per_record = sum(
            5e-9 * query.tables if query.tables else query.dim / 4e8
            for query in queries
        )
        return {
            **super().describe(records),
            "contributions": self.budget.contributions,
            "releases": [release.describe(records) for release in self.releases],
            "coordinates": self.coordinates,
            # Rough: about 1e5 draws a second on one core, and two int64 sums a thread beside 300 MB of libraries.
            "seconds_at_the_gate": None
            if records is None
            else records * per_record + self.coordinates / 1e5,
            "megabytes_at_the_gate": 300 + self.coordinates * 8 * 8 / 1e6,
        }


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a method wants to ask of the private data, before any budget is fixed.

    Examples:
        >>> from noisegate import Budget
        >>> from noisegate.privacy.plan import Plan, Query
        >>> means = Query(name="means", dim=10, columns=2, norm=1.0, share=0.97)
        >>> counts = Query(name="counts", dim=1, columns=2, norm=1.0, share=0.03, nonnegative=True)
        >>> plan = Plan(queries=(means, counts)).calibrate(Budget(epsilon=1.0))
        >>> {release.query.name: round(release.noise_std_natural, 2) for release in plan.releases}
        {'means': 3.79, 'counts': 21.56}
        >>> round(plan.epsilon, 6)
        1.0
    """

    queries: tuple[Query, ...]
    design: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        names = [query.name for query in self.queries]
        if not names or len(set(names)) != len(names):
            raise OptionError(
                f"queries={names!r}: a plan needs at least one query, each with its own name."
            )

    def calibrate(self, budget: Budget) -> CalibratedPlan:
        """Returns the plan with the least noise that keeps `budget`.

        The Gaussian-DP budget μ² is split in proportion to the shares (exact composition, so nothing is lost by asking
        several queries), and each query's noise follows from its own sensitivity.
        """
        sizes = [query.coordinates for query in self.queries]
        samplers = choose_samplers(sizes, epsilon=budget.epsilon)
        mu = accounting.mu_for(budget.epsilon, budget.delta)
        total = math.fsum(query.share for query in self.queries)
        releases = tuple(
            with_noise(
                query,
                sampler,
                mu * math.sqrt(query.share / total),
                query.sensitivity(budget),
            )
            for query, sampler in zip(self.queries, samplers, strict=True)
        )
        return CalibratedPlan(budget=budget, releases=releases, design=self.design)


def with_noise(
    query: Query, sampler: Sampler, mu: float, sensitivity: int
) -> PlannedRelease:
    """Returns a query with the least noise that makes it μ-GDP at a sensitivity, in grid units."""
    ideal = math.sqrt((sensitivity / mu) ** 2 + accounting.SMOOTHING_VARIANCE)
    if not accounting.MINIMUM_STD <= ideal < accounting.MAXIMUM_STD:
        raise CalibrationError(
            f"query {query.name!r} would need noise of {ideal:g} grid units, outside [16, 2^50]; "
            "give it a larger share, or ask for another epsilon."
        )
    noise_std = ideal * (1 + 1e-12)
    if sampler is Sampler.CONVOLVED_GAUSSIAN:
        noise_std = reached(
            noise_std
        )  # convolutions come in steps; the event states what is drawn
    return PlannedRelease(
        query=query, sensitivity=sensitivity, noise_std=noise_std, sampler=sampler
    )


def unit_text(unit: str, column: str | None, contributions: int | None) -> str:
    """Returns the privacy unit in the words of plan, ledger and certificate.

    It does not name `contributions`: what neighbours are, and so which costs may be added up, does not depend on it.
    """
    if column is None and contributions is None:
        if isinstance(unit, str) and events.names_linked_tables(unit):
            raise OptionError(
                f"unit={unit!r} is what a run on linked tables says, and here every record is a unit of its own; give "
                "their schema, with [tables.NAME], or say what one record stands for."
            )
        return unit
    if column is None or contributions is None:
        raise OptionError(
            f"unit_column={column!r} and contributions={contributions!r} go together: give the column that says whose "
            "record each one is, and how many records of a unit are used at most; or neither."
        )
    if not isinstance(column, str) or not column.strip() or not column.isprintable():
        raise OptionError(
            f"unit_column={column!r} must be the name of a column of the data."
        )
    if unit != RECORD:
        raise OptionError(
            f"unit={unit!r} is of one record, unit_column={column!r} of several together; give one of the two."
        )
    return f"{events.SEVERAL} {column.strip()}"


def linked_unit(tables: Sequence[str]) -> str:
    """Returns the privacy unit of linked tables, the first of which holds the units, in the same words."""
    root, *others = tables
    return f"{events.LINKED} {root} with all that belongs to it in {', '.join(others)}"
