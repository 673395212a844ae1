"""Plans queries before any data is read: what is computed, and with how much noise.

A method describes its queries, each with a bound on the norm of a record's vector and a
share of the budget. A function chooses the least noise that keeps the budget, and
everything is fixed before the first record is read::

    Query, Query, …  ──►  plan_sums(Budget, queries)  ──►  Plan
    (dim, norm, share)                                     (NoisySum, NoisySum, …)

A plan is a budget and *mechanisms*: queries with their noise, each with the privacy
event that answering it is. Of one kind are the sums over all records, here. Steps on
samples are in `gradient_plan`, marginals that OpenDP chooses in `marginal_plan`, and
the counts by which a schema is discovered in `gate.discovery.schema_gate`.

A plan computes its cost on creation. A plan that costs more than its budget, or that
states too small a sensitivity, cannot be created. Gate, ledger and certificate use only
the sensitivities and the noise of the plan.

Noise and sensitivities are in grid units, unless a name says *natural*: the units of a
record's vector.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from noisegate.cards import ResultCard, Sheet, Shown
from noisegate.errors import CalibrationError, OptionError, said
from noisegate.privacy import accounting, events
from noisegate.privacy.events import (
    RECORD,
    Adjacency,
    Continual,
    Event,
    Gaussian,
    Sampler,
    SumEvent,
    check_unit,
    describe_unit,
    gaussian_of,
)
from noisegate.privacy.grid import Grid
from noisegate.privacy.noise import choose_samplers, convolved_std

# Ranges of ε and δ of a budget; a value outside is nearly surely a mistake.
_MIN_EPSILON = 0.01
_MAX_EPSILON = 1000.0
_MIN_DELTA = 1e-12
_MAX_DELTA = math.nextafter(0.5, 0)
# More records of one unit need more noise than any result would bear.
_MAX_CONTRIBUTIONS = 1000

# Columns of the card's table of queries, see `_card_row`.
_CARD_HEADINGS = ("query", "values", "sensitivity", "noise", "noise multiplier")
# What a plan's card states of steps and of adaptive mechanisms, by the names in
# `describe`; sums over all records have none of these.
_CARD_FIELDS = ("steps", "rate", "noise_multiplier", "rho")

# Rough, on one core: seconds to count a record in a table, features of a record
# computed a second, exact draws of noise a second.
_SECONDS_PER_TABLE = 5e-9
_FEATURES_PER_SECOND = 4e8
_DRAWS_PER_SECOND = 1e5
# Rough: libraries, and two int64 sums in each of four threads.
_MEGABYTES_OF_LIBRARIES = 300
_BYTES_PER_COORDINATE = 8 * 8

# Noise is wider than calibrated by this much, relatively, so that rounding of the few
# operations that led to it cannot make it too narrow.
_ROUNDING = 1e-12


class BoundedMap(Protocol):
    """The facts about a feature map that a query needs: how its vectors are bounded."""

    @property
    def dim(self) -> int:
        """Length of a record's vector."""

    @property
    def norm(self) -> float:
        """Largest L2 norm of a record's vector."""

    @property
    def nonnegative(self) -> bool:
        """Whether no coordinate is negative."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The guarantee that a run must satisfy.

    Attributes:
        epsilon: ε, in [0.01, 1000].
        delta: δ, in [1e-12, 0.5). Choose it much smaller than one over the number of
            records.
        adjacency: The neighbouring relation.
        unit: The privacy unit (what one record stands for, or what groups records), as
            the certificate states it.
        contributions: Largest number of records used per unit, up to 1000; None if
            every record is a unit.

    Raises:
        OptionError: if a value is out of range, or `unit`, `contributions` and
            `adjacency` do not fit together.

    Examples:
        >>> from noisegate import Budget, DPMERF, Schema
        >>> from noisegate.schema import Integer
        >>> schema = Schema([Integer(name="age", lower=0, upper=99)])
        >>> budget = Budget(epsilon=1.0, delta=1e-6)
        >>> plan = DPMERF(frequencies=50).plan(schema, budget)
        >>> plan.epsilon <= 1.0, round(plan.epsilon, 6), plan.coordinates
        (True, 1.0, 101)
    """

    epsilon: float
    delta: float = 1e-5
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: str = RECORD
    contributions: int | None = None

    def __post_init__(self) -> None:
        """Checks all values; turns ε and δ into floats, and text into a relation.

        Raises:
            OptionError: if one is out of range, or they do not go together.
        """
        if _is_number(self.epsilon) and self.epsilon > _MAX_EPSILON:
            epsilon_hint = "above that hardly any privacy is left"
        else:
            epsilon_hint = f"for instance {said('epsilon', 1)}"
        delta_hint = f"for instance {said('delta', 1e-5)}"
        _check_range("epsilon", self.epsilon, _MIN_EPSILON, _MAX_EPSILON, epsilon_hint)
        _check_range("delta", self.delta, _MIN_DELTA, _MAX_DELTA, delta_hint)
        # Certificates are hashed as JSON, where 1 is not 1.0, and are read as floats.
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))
        # Text would count as another relation than its own, and get the noise of that.
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        self._check_unit()

    def _check_unit(self) -> None:
        """Checks the privacy unit, and how many records of it are used.

        Raises:
            OptionError: if they mean nothing, or for several records of a unit under
                replace-one, where the number of all records is public.
        """
        if self.contributions is not None and not (
            type(self.contributions) is int
            and 1 <= self.contributions <= _MAX_CONTRIBUTIONS
        ):
            raise OptionError(
                f"contributions={self.contributions!r} must be a whole number from 1 "
                f"to {_MAX_CONTRIBUTIONS}; noise grows in proportion to it, so choose "
                "what most units have."
            )
        check_unit(self.unit, self.contributions)
        if self.contributions is not None and self.adjacency is Adjacency.REPLACE_ONE:
            raise OptionError(
                "adjacency='replace-one' takes the number of records as public, which "
                "depends on how many records each unit has; with unit_column use "
                "adjacency='add-remove'."
            )


def _is_number(value: object) -> bool:
    """Returns whether a value is an integer or a float; True and False are neither."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_range(name: str, value: float, low: float, high: float, hint: str) -> None:
    """Checks that an option is a number in [low, high].

    Args:
        name: The option.
        value: Its value, of whatever type the user gave.
        low: Smallest value.
        high: Largest value.
        hint: What the message suggests.

    Raises:
        OptionError: otherwise.
    """
    if not _is_number(value) or not low <= value <= high:
        raise OptionError(
            f"{name}={value!r} must be a number from {low:g} to {high:g}; {hint}."
        )


@dataclass(frozen=True, kw_only=True)
class Query:
    """One sum over all records of a vector of bounded norm.

    With labels, the vector of a record is added to the column of its label, so the
    result is a matrix, (dim, columns).

    Attributes:
        name: Unique within the plan.
        dim: Length of one record's vector; with `adaptive`, the largest length.
        columns: Number of columns (label values) that a record's vector may be added
            to; 1 without labels.
        norm: L2 norm that every vector is clipped to.
        share: Share of the budget, positive. Shares are relative to their sum, and
            divide the squared Gaussian-DP parameter μ².
        nonnegative: Whether vectors are non-negative; enforced by the gate.
        centre: Public centre to subtract, or None.
        adaptive: Whether the map is chosen after earlier noisy results of the same
            plan. Its norm, share and noise are fixed in advance (docs/guarantees.md,
            G-13).
        tables: Number of contingency tables, if the query counts tables. Used only to
            estimate run times.
        feature_map: The `FeatureMap` from a record to its vector; None if it is known
            only after other queries.

    Raises:
        OptionError: if a size is below 1, or the share is not positive and finite.

    Examples:
        >>> from noisegate import Adjacency, Budget
        >>> from noisegate.privacy.plan import Query
        >>> query = Query(name="means", dim=10, columns=2, norm=1.0, share=1.0)
        >>> query.coordinates
        20
        >>> replace_one = Budget(epsilon=1.0, adjacency=Adjacency.REPLACE_ONE)
        >>> query.sensitivity(replace_one) / query.grid.bound.units
        2.0
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
    # Of a room that this one does not know.
    feature_map: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        name: str,
        feature_map: BoundedMap,
        *,
        columns: int,
        share: float,
        bound: float = 1.0,
    ) -> Query:
        """Creates the query for the sum of a feature map's vectors.

        Args:
            name: Unique within the plan.
            feature_map: The map, which states the length and the norm of its vectors.
            columns: Number of columns that a record's vector may be added to.
            share: Share of the budget.
            bound: Factor of the map's norm; vectors are clipped to the product. Below
                1, long vectors are shortened.
        """
        return cls(
            name=name,
            dim=feature_map.dim,
            columns=columns,
            norm=feature_map.norm * bound,
            share=share,
            nonnegative=feature_map.nonnegative,
            feature_map=feature_map,
        )

    def __post_init__(self) -> None:
        """Checks sizes and share."""
        if self.dim < 1 or self.columns < 1:
            raise OptionError(
                f"query {self.name!r}: dim={self.dim} and columns={self.columns} must "
                "be at least 1."
            )
        if not (math.isfinite(self.share) and self.share > 0):
            raise OptionError(
                f"query {self.name!r}: share={self.share!r} must be positive and "
                "finite."
            )

    @property
    def grid(self) -> Grid:
        """The grid on which vectors are clipped, rounded and summed."""
        return Grid(norm=self.norm, nonnegative=self.nonnegative, centre=self.centre)

    def sensitivity(self, budget: Budget) -> int:
        """Returns the L2 sensitivity of the sum to one privacy unit, in grid units.

        Args:
            budget: Budget, whose neighbouring relation and number of records per unit
                are used.
        """
        record_bound = self.grid.bound
        unit_bound = record_bound.of_unit(budget.contributions or 1)
        return unit_bound.sensitivity(budget.adjacency)

    @property
    def coordinates(self) -> int:
        """Number of coordinates of the result; with `adaptive`, the largest number."""
        return self.dim * self.columns


class Mechanism(Protocol):
    """A query with its noise, as a plan has it: one event, and what it releases."""

    @property
    def event(self) -> Event:
        """The privacy event that answering it is."""

    @property
    def coordinates(self) -> int:
        """How many numbers are released, at most."""

    def check(self, plan: Plan, /) -> None:
        """Checks that the mechanism states its full cost.

        Args:
            plan: The plan that it is part of.

        Raises:
            CalibrationError: otherwise.
        """

    def describe(self, records: int | None, /) -> dict[str, Any]:
        """Returns the description of the mechanism in a plan, as a JSON object.

        Args:
            records: Public estimate of the number of records, or None.
        """


class Periods(Protocol):
    """The facts of a stream's periods that a sum needs (`continual_plan.Horizon`)."""

    @property
    def periods(self) -> int:
        """Largest number of periods."""

    @property
    def weights(self) -> tuple[int, ...]:
        """The first column of the Toeplitz factor, in units of 1/256."""

    @property
    def band(self) -> int:
        """For how many periods the noise of one is kept, its own among them."""

    def noise_factor(self, period: int, /) -> float:
        """Returns the noise of the release after a period, over fresh noise of one."""

    def correction_factor(self, query: Query, /) -> int:
        """Returns the factor on the squared sensitivity that corrections cost."""


@dataclass(frozen=True, kw_only=True)
class NoisySum:
    """A sum over all records with its noise: what the gate needs to answer a query.

    Attributes:
        query: The query.
        sensitivity: L2 sensitivity of the sum, in grid units.
        noise_std: Standard deviation of the noise on each coordinate, in grid units; of
            a stream, of the fresh noise of each period.
        sampler: How the noise is drawn.
        horizon: The periods of the stream that answers it in each; None for a query
            that is answered once.
        period: The period after which the total of the stream is, counted from 1.
    """

    query: Query
    sensitivity: int
    noise_std: float
    sampler: Sampler
    horizon: Periods | None = None
    period: int = 1

    @property
    def event(self) -> SumEvent:
        """The event that answering this query is, in all periods together."""
        event = Gaussian(
            name=self.query.name,
            sensitivity=self.sensitivity,
            noise_std=self.noise_std,
            coordinates=self.query.coordinates,
            sampler=self.sampler,
        )
        if self.horizon is None:
            return event
        periods = self.horizon.periods
        return Continual(
            event=replace(event, coordinates=event.coordinates * periods),
            periods=periods,
            weights=self.horizon.weights,
            record=float(self.query.grid.bound.units),
            corrected=self.horizon.correction_factor(self.query),
        )

    @property
    def coordinates(self) -> int:
        """How many numbers are released, at most; of a stream, in each period."""
        return self.query.coordinates

    @property
    def noise_std_natural(self) -> float:
        """Standard deviation of the noise in the units of the record's vector.

        Of a stream, that of the noise on the total after the period.
        """
        noise_std = self.noise_std / self.query.grid.scale
        if self.horizon is None:
            return noise_std
        return noise_std * self.horizon.noise_factor(self.period)

    def check(self, plan: Plan) -> None:
        """Checks that the sensitivity is not below that of the query.

        Args:
            plan: The plan that it is part of, for the adjacency.

        Raises:
            CalibrationError: otherwise.
        """
        if self.sensitivity < self.query.sensitivity(plan.budget):
            raise CalibrationError(
                f"query {self.query.name!r}: sensitivity={self.sensitivity} is below "
                f"that of {plan.budget.adjacency.value}; make plans with plan_sums."
            )

    def describe(self, records: int | None) -> dict[str, Any]:
        """Returns the sum as a JSON object.

        Args:
            records: Public estimate of the number of records, or None. With it, the
                signal-to-noise ratio is stated: the largest norm of the sum over that
                of the noise.
        """
        query = self.query
        if records is None:
            signal_to_noise = None
        else:
            noise_norm = self.noise_std_natural * math.sqrt(query.coordinates)
            signal_to_noise = records * query.norm / noise_norm
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
            "noise_multiplier": gaussian_of(self.event).noise_multiplier,
            "sampler": self.sampler.value,
            "signal_to_noise": signal_to_noise,
        }


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Shown):
    """The mechanisms of a run, and the budget that they are charged to.

    The cost of a plan is always computed from its events. A plan whose cost exceeds its
    budget cannot be created.

    Attributes:
        budget: The guarantee that the run satisfies.
        mechanisms: Queries with their noise, in the order of their events.
        design: The inputs from which a method built the plan, stored for that method.
            Neither the gate nor the cost depends on them.

    Raises:
        CalibrationError: if the plan costs more than the budget, or a mechanism states
            too small a cost.

    Examples:
        >>> from noisegate import Budget
        >>> from noisegate.privacy.plan import Query, plan_sums
        >>> means = Query(name="means", dim=10, columns=2, norm=1.0, share=0.97)
        >>> total = Query(name="total", dim=1, columns=1, norm=1.0, share=0.03)
        >>> plan = plan_sums(Budget(epsilon=1.0), (means, total))
        >>> [round(release.noise_std_natural, 2) for release in plan.releases]
        [3.79, 21.56]
        >>> round(plan.epsilon, 6)
        1.0
    """

    budget: Budget
    mechanisms: tuple[Mechanism, ...]
    design: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Checks what the mechanisms state, and that the budget covers the cost.

        The check also covers plans that were created without the functions of this
        package.

        Raises:
            CalibrationError: if a mechanism states too small a cost, or the cost is too
                high.
        """
        for mechanism in self.mechanisms:
            mechanism.check(self)
        price = self.epsilon
        # Not `>`, so that an ε that is not a number is refused too.
        if not price <= self.budget.epsilon:
            raise CalibrationError(
                f"the plan costs epsilon={price:g}, more than the budget of "
                f"{self.budget.epsilon:g}."
            )

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that will be run, for the ledger and the certificate."""
        return tuple(mechanism.event for mechanism in self.mechanisms)

    @cached_property
    def epsilon(self) -> float:
        """ε of the complete plan at the budget's δ, computed from its events."""
        return accounting.epsilon(self.events, self.budget.delta, self.budget.adjacency)

    @property
    def coordinates(self) -> int:
        """Largest number of coordinates that will be released."""
        return sum(mechanism.coordinates for mechanism in self.mechanisms)

    @property
    def releases(self) -> tuple[NoisySum, ...]:
        """The sums over all records, with their noise."""
        return tuple(
            mechanism
            for mechanism in self.mechanisms
            if isinstance(mechanism, NoisySum)
        )

    @property
    def has_only_sums(self) -> bool:
        """Whether all queries are sums over all records."""
        return len(self.releases) == len(self.mechanisms)

    def release(self, name: str) -> NoisySum:
        """Returns the noisy sum of a query, by the query's name.

        Raises:
            StopIteration: if the plan has no such query.
        """
        return next(release for release in self.releases if release.query.name == name)

    @property
    def maps(self) -> dict[str, Any]:
        """The feature map of each query whose map is known already, by name."""
        return {
            release.query.name: release.query.feature_map
            for release in self.releases
            if release.query.feature_map is not None
        }

    def restricted_to(self, names: Container[str]) -> Plan:
        """Returns the plan of some of the queries, with unchanged noise.

        Args:
            names: Names of the queries; others are left out.
        """
        releases = tuple(
            release for release in self.releases if release.query.name in names
        )
        return replace(self, mechanisms=releases)

    def with_shared_noise(self) -> Plan:
        """Returns the plan with noise that several silos draw in shares (G-32).

        Standard deviations and cost are unchanged.
        """
        releases = tuple(
            replace(release, sampler=Sampler.SUMMED_GAUSSIAN)
            for release in self.releases
        )
        return replace(self, mechanisms=releases)

    def card(self) -> ResultCard:
        """Returns queries and costs as a card for a terminal or a notebook."""
        description = self.describe(None)
        rows = [_card_row(release) for release in description.get("releases", ())]
        facts = {
            name: f"{description[name]:.6g}"
            for name in _CARD_FIELDS
            if name in description
        }
        for name, shape, _, noise, noise_multiplier in rows:
            facts[name] = (
                f"{shape} values, noise {noise}, noise multiplier {noise_multiplier}"
            )
        budget = self.budget
        title = (
            f"Plan: epsilon = {budget.epsilon:g}, "
            f"delta = {budget.delta:g}, {budget.adjacency.value}, "
            f"unit: {describe_unit(budget.unit, budget.contributions)}"
        )
        sheets = []
        if rows:
            sheets.append(Sheet(title="Queries", headings=_CARD_HEADINGS, rows=rows))
        return ResultCard(title=title, facts=facts, sheets=sheets)

    def describe(self, records: int | None) -> dict[str, Any]:
        """Returns the plan as a JSON object.

        Args:
            records: Public estimate of the number of records, or None.
        """
        described: dict[str, Any] = {
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "adjacency": self.budget.adjacency.value,
            "unit": self.budget.unit,
        }
        for mechanism in self.mechanisms:
            if not isinstance(mechanism, NoisySum):
                described |= mechanism.describe(records)
        if self.releases:
            described["releases"] = [
                release.describe(records) for release in self.releases
            ]
        if self.has_only_sums:
            described |= self._cost_of_sums(records)
        return described

    def _cost_of_sums(self, records: int | None) -> dict[str, Any]:
        """Returns the computing cost of sums over all records, as a JSON object.

        Args:
            records: Public estimate of the number of records, or None. With it, the
                approximate time is stated, in seconds of one core.
        """
        if records is None:
            seconds = None
        else:
            seconds_per_record = sum(
                _seconds_per_record(release.query) for release in self.releases
            )
            seconds = (
                records * seconds_per_record + self.coordinates / _DRAWS_PER_SECOND
            )
        return {
            "contributions": self.budget.contributions,
            "coordinates": self.coordinates,
            "seconds_at_the_gate": seconds,
            "megabytes_at_the_gate": _MEGABYTES_OF_LIBRARIES
            + self.coordinates * _BYTES_PER_COORDINATE / 1e6,
        }


def _card_row(release: dict[str, Any]) -> list[str]:
    """Returns a release as a row of the card, under `_CARD_HEADINGS`.

    Args:
        release: What `NoisySum.describe` returned.
    """
    return [
        release["name"],
        f"{release['dim']} x {release['columns']}",
        f"{release['sensitivity']:.4g}",
        f"{release['noise_std']:.4g}",
        f"{release['noise_multiplier']:.4g}",
    ]


def _seconds_per_record(query: Query) -> float:
    """Estimates the time for a record: to count it, or to compute its features."""
    if query.tables:
        return _SECONDS_PER_TABLE * query.tables
    return query.dim / _FEATURES_PER_SECOND


def plan_sums(budget: Budget, queries: Sequence[Query], *, design: Any = None) -> Plan:
    """Plans sums over all records, with the least noise that meets a budget.

    Queries with parameters μᵢ compose to μ² = Σ μᵢ², exactly. So the μ² of the budget
    is split in proportion to the shares, and several queries cost no more than one. The
    noise of each query is its sensitivity divided by its μᵢ.

    Args:
        budget: The guarantee that all queries together must satisfy.
        queries: At least one, each with a different name.
        design: The inputs from which a method built the plan, stored for that method.

    Raises:
        OptionError: if there is no query, or two have the same name.
        CalibrationError: if a query needs less or more noise than can be drawn.

    Examples:
        >>> from noisegate import Budget
        >>> from noisegate.privacy.plan import Query, plan_sums
        >>> means = Query(name="means", dim=10, columns=2, norm=1.0, share=1.0)
        >>> round(plan_sums(Budget(epsilon=1.0), [means]).epsilon, 6)
        1.0
    """
    names = [query.name for query in queries]
    has_duplicates = len(set(names)) != len(names)
    if not names or has_duplicates:
        raise OptionError(
            f"queries={names!r}: a plan needs at least one query, each with its own "
            "name."
        )
    sizes = [query.coordinates for query in queries]
    samplers = choose_samplers(sizes, epsilon=budget.epsilon)
    mu = accounting.mu_for(budget.epsilon, budget.delta)
    total_share = math.fsum(query.share for query in queries)
    sums = tuple(
        with_noise(
            query,
            sampler,
            mu * math.sqrt(query.share / total_share),
            query.sensitivity(budget),
        )
        for query, sampler in zip(queries, samplers, strict=True)
    )
    return Plan(budget=budget, mechanisms=sums, design=design)


def with_noise(query: Query, sampler: Sampler, mu: float, sensitivity: int) -> NoisySum:
    """Plans a query with the least noise that makes it μ-GDP.

    Noise is on the integers. Of variance s², it is charged as continuous noise of
    variance s² − 4 (`accounting.effective_multiplier`), and that is μ-GDP where its
    standard deviation is sensitivity/μ. So s² must be (sensitivity/μ)² + 4.

    Args:
        query: The query.
        sampler: How the noise is to be drawn. A convolved one draws certain standard
            deviations only, of which the next larger is taken.
        mu: Gaussian-DP parameter, the sensitivity over the noise.
        sensitivity: L2 sensitivity of the query, in grid units.

    Raises:
        CalibrationError: if that noise is outside of what can be drawn.
    """
    exact_std = math.sqrt((sensitivity / mu) ** 2 + accounting.SMOOTHING_VARIANCE)
    if not accounting.MINIMUM_STD <= exact_std < accounting.MAXIMUM_STD:
        raise CalibrationError(
            f"query {query.name!r} would need noise of {exact_std:g} grid units, "
            "outside [16, 2^50]; give it a larger share, or ask for another epsilon."
        )
    # Rounded up first, so that the next larger of the widths below is above it too.
    noise_std = exact_std * (1 + _ROUNDING)
    if sampler is Sampler.CONVOLVED_GAUSSIAN:
        noise_std = convolved_std(noise_std)
    return NoisySum(
        query=query, sensitivity=sensitivity, noise_std=noise_std, sampler=sampler
    )


# Privacy units, in the words of plan, ledger and certificate.


def resolve_unit(unit: str, column: str | None, contributions: int | None) -> str:
    """Returns the text of the privacy unit of a run on one table, from its options.

    A run has one of two kinds of units. Without a unit column, each record is a unit;
    its text is the user's name for what a record stands for, such as `household`. With
    a unit column, all records with the same value in the column are a unit.

    The text does not state how many records of a unit are used: a ledger adds up the
    costs of equal texts, and the costs of one unit add up whatever that number is.

    Args:
        unit: What one record stands for; `RECORD` with a unit column.
        column: Name of the unit column, or None.
        contributions: Largest number of records of a unit that are used; None without a
            column. `Budget` checks its value.

    Raises:
        OptionError: if the options do not fit together, or the text is that of another
            kind of unit.

    >>> resolve_unit("household", None, None)
    'household'
    >>> resolve_unit("record", "patient", 3)
    'all records of one patient'
    """
    if column is None and contributions is None:
        _check_is_no_linked_unit(unit)
        return unit
    if column is None or contributions is None:
        raise OptionError(
            f"unit_column={column!r} and contributions={contributions!r} go together: "
            "give the column that says whose record each one is, and how many records "
            "of a unit are used at most; or neither."
        )
    _check_unit_column(column)
    if unit != RECORD:
        raise OptionError(
            f"unit={unit!r} is of one record, unit_column={column!r} of several "
            "together; give one of the two."
        )
    return f"{events.SEVERAL} {column.strip()}"


def _check_is_no_linked_unit(unit: object) -> None:
    """Checks that the words for a unit of single records claim no linked tables.

    Args:
        unit: What the user gave, of whatever type; `check_unit` refuses what is no
            text.

    Raises:
        OptionError: otherwise.
    """
    if isinstance(unit, str) and events.names_linked_tables(unit):
        raise OptionError(
            f"unit={unit!r} is what a run on linked tables says, and here every "
            "record is a unit of its own; give their schema, with [tables.NAME], "
            "or say what one record stands for."
        )


def _check_unit_column(column: object) -> None:
    """Checks that a unit column is a name that a page can show in one line.

    Args:
        column: What the user gave, of whatever type.

    Raises:
        OptionError: otherwise.
    """
    if not isinstance(column, str) or not column.strip() or not column.isprintable():
        raise OptionError(
            f"unit_column={column!r} must be the name of a column of the data."
        )


def linked_unit(tables: Sequence[str]) -> str:
    """Returns the text of the privacy unit of linked tables.

    Args:
        tables: Names of the tables; the first holds the units.

    >>> linked_unit(["patients", "visits"])
    'one record of the table patients with all that belongs to it in visits'
    """
    root, *children = tables
    return (
        f"{events.LINKED} {root} with all that belongs to it in {', '.join(children)}"
    )
