"""Plans steps on samples before data: how many, on what samples, with how much noise.

Training takes thousands of small answers, each a noisy vector over a random sample of
the records. A plan fixes all of them before the first is taken::

    plan_steps(Budget, StepQuery)  ──►  Plan(…, NoisySteps): one event for all steps

A `StepQuery` is one of three, by what a step returns:

- `GradientQuery`: the sum of the clipped gradients of a Poisson sample (here, G-19 to
  G-21).
- `BatchQuery`: one clipped vector of a whole sample (`shard_plan`, G-24).
- `ShardQuery`: the sum of one vector of each disjoint shard (`shard_plan`, G-26).

The least noise has no formula, as ε of many sampled steps is computed numerically. So
`_least_noise` searches for it, and stops a little above it; the plan it is put into
computes its own cost and cannot be made if that is too high (`Plan`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import CalibrationError, OptionError
from noisegate.privacy import accounting
from noisegate.privacy.events import (
    Adjacency,
    Batched,
    Event,
    Gaussian,
    Sampled,
    Sampler,
    Sharded,
    StepEvent,
)
from noisegate.privacy.grid import FACTOR_UNITS, UNITS, Grid
from noisegate.privacy.noise import CONVOLVED_UP_TO, NARROWEST, convolved_std
from noisegate.privacy.plan import Budget, NoisySum, Plan, Query, plan_sums
from noisegate.settings import Settings, Within, settings

RATES = 2**32
"""Rates are multiples of one divided by this, so that a random integer of 32 bits
realises them exactly (G-19)."""

# Part of ε that calibration may leave unused: as much as accounting gives away anyway.
_UNUSED_PART = 5e-4
# Noise is searched until ends of the bracket are this close, relatively, ...
_BRACKET_WIDTH = 1e-3
# ... or for this many rounds; a few do.
_MAX_ROUNDS = 100
# The first step of the search, as a factor; each further one is the square.
_FIRST_STEP = 1.3
# A new point of the search is at most this far from the lower end, as a fraction of the
# bracket: so both ends move.
_MAX_FRACTION = 0.9
# exp of more would be near the largest float64.
_MAX_EXPONENT = 700.0
# Smallest ε that a `Budget` can have.
_MIN_EPSILON = 0.01
_Shapes = Annotated[Mapping[str, tuple[int, ...]], "shapes by name"]


@settings
class StepQuery(Settings, ABC):
    """Noisy vectors over samples of the records, step after step, before any budget."""

    renamed = {"rate": "sampling_probability", "norm": "clip_norm"}  # noqa: RUF012

    name: str = field()  # type: ignore[misc]
    """What the event and the final parameters are called."""
    steps: Annotated[
        int, Within(ge=1, le=1_000_000), "a whole number from 1 to 1000000"
    ]
    """How many steps are paid for."""
    sampling_probability: Annotated[
        float, Within(gt=0, le=1), "a number above 0 and at most 1"
    ]
    """Poisson sampling probability per step, rounded up to a multiple of 2⁻³²."""
    clip_norm: Annotated[
        float, Within(gt=0, le=1e30), "a number above 0 and at most 1e+30"
    ]
    """L2 norm that is clipped to."""
    parameters: _Shapes
    """Shape of each array that a step returns."""
    trained: _Shapes | None = None
    """Shape of what is trained on them and released, in the order of packing; None
    where that is the parameters."""
    queries: tuple[Query, ...] = ()
    """Ordinary queries at the same gate; the budget covers both together."""
    share: Annotated[
        float, Within(gt=0, le=1e30), "a number above 0 and at most 1e+30"
    ] = 1.0
    """Part of the budget for the steps, beside the shares of the queries."""

    def __post_init__(self) -> None:
        """Checks names and shapes, and rounds the sampling probability up.

        Raises:
            OptionError: if a query has the name of the steps, or a shape is empty.
        """
        if any(query.name == self.name for query in self.queries):
            raise OptionError(
                f"a query and the gradients are both called {self.name!r}; rename one "
                "of them."
            )
        _check_shapes("parameters", self.parameters)
        _check_shapes("trained", self.released)
        # Up, never down: a record must not be sampled more often than is paid for.
        rounded_rate = math.ceil(self.sampling_probability * RATES) / RATES
        object.__setattr__(self, "sampling_probability", rounded_rate)

    @abstractmethod
    def event(self, step: Gaussian) -> StepEvent:
        """Returns the private event that all steps together are.

        Args:
            step: The noisy sum that one step is.
        """

    @property
    @abstractmethod
    def sensitivity(self) -> int:
        """Sensitivity of a step in grid units, as its event states it."""

    @property
    @abstractmethod
    def grid(self) -> Grid:
        """The grid that vectors are clipped and rounded on."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """Grid units per unit of what a step returns."""

    def noisy_event(self, noise_std: float, sampler: Sampler) -> StepEvent:
        """Returns the private event that all steps together are, with their noise.

        Args:
            noise_std: Standard deviation of the noise in each step, in grid units.
            sampler: How it is drawn.
        """
        step = Gaussian(
            name=self.name,
            sensitivity=self.sensitivity,
            noise_std=noise_std,
            coordinates=self.count,
            sampler=sampler,
        )
        return self.event(step)

    @property
    def count(self) -> int:
        """How many numbers a step returns."""
        return sum(math.prod(shape) for shape in self.parameters.values())

    @property
    def released(self) -> Mapping[str, tuple[int, ...]]:
        """Shape of each array that is released in the end."""
        return self.parameters if self.trained is None else self.trained

    def check_trained_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Checks that what is to be released has the planned names and shapes.

        Raises:
            OptionError: otherwise.
        """
        if dict(shapes) != dict(self.released):
            raise OptionError(
                f"what was trained has shapes {dict(shapes)}, the plan has "
                f"{dict(self.released)}."
            )

    def pack(self, arrays: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        """Puts the arrays that were trained one below the other, as a release has them.

        Args:
            arrays: What was trained, by name, in any order.

        Returns:
            All numbers in the planned order, each array row by row, (numbers, 1).

        Raises:
            OptionError: if names or shapes are others than planned.
        """
        self.check_trained_shapes(
            {name: tuple(array.shape) for name, array in arrays.items()}
        )
        columns = [
            np.asarray(arrays[name], np.float64).reshape(-1, 1)
            for name in self.released
        ]
        return np.concatenate(columns)

    def unpack(
        self, noisy: npt.NDArray[np.int64]
    ) -> dict[str, npt.NDArray[np.float32]]:
        """Splits the noisy vector of a step into arrays of the planned shapes.

        Args:
            noisy: The vector in grid units, (count,).

        Returns:
            The arrays by name, float32, in the units of what a step returns.
        """
        return split_arrays(noisy.astype(np.float64) / self.scale, self.parameters)


def _check_shapes(option: str, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Checks that there is at least one array, and that none is empty.

    Raises:
        OptionError: otherwise.
    """
    has_empty = any(size < 1 for shape in shapes.values() for size in shape)
    if not shapes or has_empty:
        raise OptionError(
            f"{option}={dict(shapes)!r}: at least one, and no size below 1."
        )


@dataclass(frozen=True, kw_only=True)
class NoisySteps:
    """Steps on samples with their noise.

    `plan_steps` creates them. Objects that are created otherwise pass the same checks
    of event and queries.

    Attributes:
        query: The steps, as the method defines them.
        event: All steps together, with their noise.

    Raises:
        CalibrationError: if the event is not that of the query.
    """

    query: StepQuery
    event: StepEvent

    def __post_init__(self) -> None:
        """Checks that the event is that of the query.

        Raises:
            CalibrationError: otherwise.
        """
        step = self.event.event
        if self.event != self.query.noisy_event(step.noise_std, step.sampler):
            raise CalibrationError(
                f"event {self.event.name!r} is not that of its plan; make plans with "
                "plan_steps."
            )

    def check(self, plan: Plan) -> None:
        """Checks that the sums beside the steps are those that were asked for.

        Args:
            plan: The plan that the steps are part of.

        Raises:
            CalibrationError: otherwise.
        """
        if [release.query for release in plan.releases] != list(self.query.queries):
            raise CalibrationError(
                "the calibrated queries are not those of the plan; make plans with "
                "plan_steps."
            )

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the noise of a step over its sensitivity."""
        return self.event.event.noise_multiplier

    @property
    def noise_std_natural(self) -> float:
        """Standard deviation of the noise on each coordinate, in units of a step."""
        return self.event.event.noise_std / self.query.scale

    @property
    def coordinates(self) -> int:
        """How many numbers will be released: those that are trained."""
        return sum(math.prod(shape) for shape in self.query.released.values())

    def describe(self, records: int | None) -> dict[str, Any]:
        """Returns the steps as a JSON object.

        It states the size of the noise of a step relative to that of its signal: the
        norm of the noise over the largest norm of the sum.

        Args:
            records: Public estimate of the number of records, or None.
        """
        query = self.query
        event = self.event
        shard_fields: dict[str, Any] = {}
        if isinstance(event, Batched):
            shard_fields = {"shards": event.shards, "vectors_of": "samples"}
        elif isinstance(event, Sharded):
            shard_fields = {"shards": event.shards, "vectors_of": "shards"}

        max_sum = self._max_sum_over_sensitivity(records)
        if max_sum is None:
            relative_noise = None
        else:
            # Both over the sensitivity.
            noise_norm = self.noise_multiplier * math.sqrt(query.count)
            relative_noise = noise_norm / max_sum
        return {
            "steps": query.steps,
            "rate": query.sampling_probability,
            **shard_fields,
            "records_a_step": self._records_a_step(records),
            "clipping_norm": query.clip_norm,
            "parameters": query.count,
            "noise_multiplier": self.noise_multiplier,
            "noise_std": self.noise_std_natural,
            "noise_norm_over_clipping_norm": relative_noise,
            "sampler": event.event.sampler.value,
            # Those of the queries beside the steps, if there are any.
            "releases": [],
        }

    def _records_a_step(self, records: int | None) -> float | None:
        """Returns the expected number of records in a step.

        Args:
            records: Public estimate of the number of all records, or None.

        Returns:
            The number; None if it is unknown, as for shards that are queried.
        """
        if records is None or isinstance(self.event, Sharded):
            return None
        sampled = self.query.sampling_probability * records
        if isinstance(self.event, Batched):
            return sampled / self.event.shards
        return sampled

    def _max_sum_over_sensitivity(self, records: int | None) -> float | None:
        """Returns the largest norm of a step's sum, relative to its sensitivity.

        Gradients are as long as the sensitivity, and a step adds up those of a sample.
        A vector of a whole sample stands alone and is half as long, since the
        sensitivity is the distance between two opposite ones. Of shards, a step adds up
        one vector of each that is queried.

        Args:
            records: Public estimate of the number of all records, or None.

        Returns:
            The ratio; None for gradients, if the number of records is not known.
        """
        event = self.event
        if isinstance(event, Batched):
            return 0.5
        if isinstance(event, Sharded):
            relative_length = UNITS / event.event.sensitivity
            return relative_length * event.rate * event.shards
        return self._records_a_step(records)


def steps_of(plan: Plan) -> NoisySteps:
    """Returns the steps of a plan.

    Raises:
        OptionError: if it has none.
    """
    for mechanism in plan.mechanisms:
        if isinstance(mechanism, NoisySteps):
            return mechanism
    raise OptionError("the plan has no steps; make it with plan_steps.")


def split_arrays(
    values: npt.NDArray[np.float64], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, npt.NDArray[np.float32]]:
    """Splits numbers that stand one after the other into arrays.

    Args:
        values: The numbers of all arrays, of any shape.
        shapes: Shape of each array, by name, in the order of the numbers.

    Returns:
        The arrays by name, float32.
    """
    sizes = [math.prod(shape) for shape in shapes.values()]
    first_of_next = np.cumsum(sizes)[:-1]
    flat_arrays = np.split(values.reshape(-1).astype(np.float32), first_of_next)
    return {
        name: flat_array.reshape(shapes[name])
        for name, flat_array in zip(shapes, flat_arrays, strict=True)
    }


# Calibration.


def plan_steps(budget: Budget, query: StepQuery) -> Plan:
    """Plans steps and further queries with approximately the least noise.

    The queries get their share of the Gaussian-DP μ² of the budget first. The steps
    then get the least noise with which all of them together meet ε.

    Args:
        budget: The guarantee that steps and queries together must satisfy.
        query: The steps.

    Raises:
        OptionError: if a privacy unit of `budget` may have several records. No bound is
            proved for sampled steps in that case.
        CalibrationError: if no noise gives the guarantee.

    Examples:
        >>> from noisegate import Budget
        >>> from noisegate.privacy.gradient_plan import GradientQuery, plan_steps
        >>> steps = GradientQuery(
        ...     name="network",
        ...     steps=100,
        ...     sampling_probability=0.125,
        ...     clip_norm=1.0,
        ...     parameters={"weight": (3, 2)},
        ... )
        >>> (event,) = plan_steps(Budget(epsilon=1.0), steps).events
        >>> event.steps, event.rate
        (100, 0.125)
    """
    if budget.contributions is not None and budget.contributions > 1:
        raise OptionError(
            f"contributions={budget.contributions}: records of one unit are sampled "
            "one by one, for which no bound is proved. Use contributions=1, or a "
            "method that sums over all records, such as merf."
        )
    sums = _sums_beside(query, budget)
    if budget.epsilon > CONVOLVED_UP_TO:
        sampler = Sampler.DISCRETE_GAUSSIAN
    else:
        sampler = Sampler.CONVOLVED_GAUSSIAN
    events_of_sums = tuple(release.event for release in sums)
    event = _least_noise(query, budget, events_of_sums, sampler)
    steps = NoisySteps(query=query, event=event)
    return Plan(budget=budget, mechanisms=(*sums, steps))


def _sums_beside(query: StepQuery, budget: Budget) -> tuple[NoisySum, ...]:
    """Returns the queries beside steps with noise that leaves the steps their part.

    Args:
        query: The steps, with the queries.
        budget: The budget of steps and queries together.
    """
    if not query.queries:
        return ()
    shares = [query.share, *(other.share for other in query.queries)]
    fraction_of_steps = query.share / math.fsum(shares)
    mu_of_all = accounting.mu_for(budget.epsilon, budget.delta)
    # Shares divide μ², and the queries get what is not that of the steps.
    mu_of_queries = mu_of_all * math.sqrt(1 - fraction_of_steps)
    epsilon_of_queries = accounting.gaussian_epsilon(mu_of_queries, budget.delta)
    query_budget = replace(budget, epsilon=max(epsilon_of_queries, _MIN_EPSILON))
    return plan_sums(query_budget, query.queries).releases


def _least_noise(
    query: StepQuery, budget: Budget, query_events: tuple[Event, ...], sampler: Sampler
) -> StepEvent:
    """Returns all steps as an event, with about the least noise that keeps a budget.

    ε falls as the noise grows. So two widths are searched, one that is enough and one
    that is not, and then the crossing in between. What is returned was priced and found
    to be enough, whatever the search did; `Plan` prices it again.

    Args:
        query: The steps.
        budget: The guarantee that steps and queries together must keep.
        query_events: What else is paid from the budget.
        sampler: How the noise is to be drawn.

    Raises:
        CalibrationError: if the widest noise is not enough.
    """
    is_convolved = sampler is Sampler.CONVOLVED_GAUSSIAN
    min_std = float(NARROWEST) if is_convolved else accounting.MINIMUM_STD
    max_std = accounting.MAXIMUM_STD / 2

    def event_with(noise_std: float) -> StepEvent:
        """Returns the steps with the noise that is drawn for a wanted width."""
        drawn_std = convolved_std(noise_std) if is_convolved else noise_std
        return query.noisy_event(drawn_std, sampler)

    def log_excess(noise_std: float) -> float:
        """Returns ln of ε over that of the budget: positive if noise is too little."""
        events = (*query_events, event_with(noise_std))
        price = accounting.epsilon(events, budget.delta, budget.adjacency)
        return math.log(price / budget.epsilon) if price > 0 else -math.inf

    guessed_std = min(max(_guess_noise(query, budget), min_std), max_std)
    if log_excess(guessed_std) > 0:
        bracket = _widen_until_sufficient(log_excess, guessed_std, max_std)
        if bracket is None:
            widest_event = event_with(max_std)
            message = _no_noise_message(query, budget, query_events, widest_event)
            raise CalibrationError(message)
    else:
        bracket = _narrow_until_insufficient(log_excess, guessed_std, min_std)
        if bracket is None:
            return event_with(min_std)
    insufficient_std, sufficient_std = bracket
    least_std = _find_crossing(log_excess, insufficient_std, sufficient_std)
    return event_with(least_std)


def _widen_until_sufficient(
    log_excess: Callable[[float], float], insufficient_std: float, max_std: float
) -> tuple[float, float] | None:
    """Widens noise that is not enough, in steps that grow, until it is enough.

    Args:
        log_excess: ln of the cost over the budget; it falls as the noise grows.
        insufficient_std: Noise, in grid units, with an excess above zero.
        max_std: Widest noise.

    Returns:
        Noise that is not enough, and wider noise that is; None if none is.
    """
    factor = _FIRST_STEP
    while insufficient_std < max_std:
        wider_std = min(insufficient_std * factor, max_std)
        factor *= factor
        if log_excess(wider_std) <= 0:
            return insufficient_std, wider_std
        insufficient_std = wider_std
    return None


def _narrow_until_insufficient(
    log_excess: Callable[[float], float], sufficient_std: float, min_std: float
) -> tuple[float, float] | None:
    """Narrows noise that is enough, in steps that grow, until it is not enough.

    Args:
        log_excess: ln of the cost over the budget; it falls as the noise grows.
        sufficient_std: Noise, in grid units, with an excess of at most zero.
        min_std: Narrowest noise.

    Returns:
        Noise that is not enough, and wider noise that is; None if all is.
    """
    factor = _FIRST_STEP
    while sufficient_std > min_std:
        narrower_std = max(sufficient_std / factor, min_std)
        factor *= factor
        if log_excess(narrower_std) > 0:
            return narrower_std, sufficient_std
        sufficient_std = narrower_std
    return None


def _guess_noise(query: StepQuery, budget: Budget) -> float:
    """Estimates the noise that keeps a budget, in grid units.

    The estimate is right if the losses of many steps add up to a normal distribution.
    Then k steps at rate q with sensitivity Δ and noise σ are about as hard to
    distinguish as a Gaussian mechanism with μ² = k·ln(1 + q²(e^(Δ²/σ²) − 1)), solved
    here for σ.

    Args:
        query: The steps.
        budget: The guarantee, whose μ is known.
    """
    if budget.adjacency is Adjacency.REPLACE_ONE:
        moved_records = 2  # one goes and one comes
    else:
        moved_records = 1
    mu = accounting.mu_for(budget.epsilon, budget.delta) / moved_records
    # Any noise does: only the sensitivity and the number of steps are read.
    event = query.noisy_event(NARROWEST, Sampler.CONVOLVED_GAUSSIAN)
    if isinstance(event, Batched):
        steps_of_a_record = event.steps_of_a_record
    else:
        steps_of_a_record = event.steps
    mu_squared_a_step = min(mu**2 / steps_of_a_record, _MAX_EXPONENT)
    shift_squared = math.log1p(
        math.expm1(mu_squared_a_step) / query.sampling_probability**2
    )
    return event.event.sensitivity / math.sqrt(shift_squared)


def _find_crossing(
    log_excess: Callable[[float], float], insufficient_std: float, sufficient_std: float
) -> float:
    """Finds noise that is barely enough, by regula falsi.

    Both axes are logarithms, on which ε is nearly a straight line in the noise. The
    search stops where at most `_UNUSED_PART` of ε is left, or the bracket is narrow.

    Args:
        log_excess: ln of the cost over the budget; it falls as the noise grows.
        insufficient_std: Noise, in grid units, with an excess above zero.
        sufficient_std: Wider noise, with an excess of at most zero.

    Returns:
        Noise that was tried, with an excess of at most zero.
    """
    excess_above = log_excess(insufficient_std)
    excess_below = log_excess(sufficient_std)
    for _ in range(_MAX_ROUNDS):
        is_tight = excess_below > -_UNUSED_PART
        is_narrow = sufficient_std <= insufficient_std * (1 + _BRACKET_WIDTH)
        if is_tight or is_narrow:
            break
        if math.isfinite(excess_above) and math.isfinite(excess_below):
            crossing = excess_above / (excess_above - excess_below)
            # A little beyond the crossing, so that what is tried is enough.
            fraction = min(crossing + _UNUSED_PART, _MAX_FRACTION)
        else:
            fraction = 0.5
        middle_std = insufficient_std * (sufficient_std / insufficient_std) ** fraction
        excess_middle = log_excess(middle_std)
        if excess_middle > 0:
            insufficient_std = middle_std
            excess_above = excess_middle
        else:
            sufficient_std = middle_std
            excess_below = excess_middle
    return sufficient_std


def _no_noise_message(
    query: StepQuery,
    budget: Budget,
    query_events: tuple[Event, ...],
    widest_event: StepEvent,
) -> str:
    """Returns the message that no noise keeps the budget, with what would work instead.

    Args:
        query: The steps.
        budget: The guarantee that cannot be kept.
        query_events: Further events that are charged to the budget.
        widest_event: The steps with the widest noise that can be drawn. They still have
            a cost, because a record may be sampled in one step whatever the noise.

    Returns:
        The least ε for the steps, and a number of steps for the ε, if there is one.
    """

    def price_of(steps: int) -> float:
        events = (*query_events, replace(widest_event, steps=steps))
        return accounting.epsilon(events, budget.delta, budget.adjacency)

    payable_steps = query.steps
    while payable_steps > 1 and price_of(payable_steps) > budget.epsilon:
        payable_steps //= 2
    steps_advice = ""
    if price_of(payable_steps) <= budget.epsilon:
        steps_advice = f"; {payable_steps} steps would do"
    min_epsilon = price_of(query.steps)
    if math.isfinite(min_epsilon):
        # A hundredth more, so that the three digits that are shown are enough.
        remedy = f"they cost epsilon={min_epsilon * 1.01:.3g} at least{steps_advice}"
    else:
        remedy = f"raise delta{steps_advice}"
    return (
        f"epsilon={budget.epsilon:g} at delta={budget.delta:g} is too little for "
        f"{query.steps} steps at rate {query.sampling_probability:.3g}, whatever the "
        f"noise: {remedy}."
    )


@settings
class GradientQuery(StepQuery):
    """Sums of clipped per-example gradients over Poisson samples (G-19 to G-21).

    Examples:
        >>> from noisegate import Budget
        >>> from noisegate.privacy.gradient_plan import GradientQuery, plan_steps
        >>> steps = GradientQuery(
        ...     name="network",
        ...     steps=100,
        ...     sampling_probability=0.125,
        ...     clip_norm=1.0,
        ...     parameters={"weight": (3, 2)},
        ... )
        >>> plan = plan_steps(Budget(epsilon=1.0), steps)
        >>> plan.events[0].event.coordinates, plan.epsilon <= 1.0
        (6, True)
    """

    factored: bool = False
    """Whether gradients are products of two factors (`FactoredLoss`), for one parameter
    (groups, outputs, inputs)."""

    def __post_init__(self) -> None:
        """Checks that factored gradients have the one shape that they can have."""
        super().__post_init__()
        dimensions = [len(shape) for shape in self.parameters.values()]
        if self.factored and dimensions != [3]:
            raise OptionError(
                "factored gradients have one parameter of shape (groups, outputs, "
                "inputs)."
            )

    def event(self, step: Gaussian) -> Sampled:
        """Returns the event of all steps, as it is charged to the budget."""
        return Sampled(event=step, rate=self.sampling_probability, steps=self.steps)

    @property
    def sensitivity(self) -> int:
        """Norm bound of one record's gradient, in grid units."""
        return FACTOR_UNITS**2 if self.factored else UNITS

    @property
    def grid(self) -> Grid:
        """The grid to which gradients are clipped and rounded."""
        return Grid(norm=self.clip_norm)

    @property
    def scale(self) -> float:
        """Grid units per unit of the gradients."""
        return factored_scale(self.grid.scale) if self.factored else self.grid.scale


def factored_scale(scale: float) -> float:
    """Returns the grid units per unit of a product of two factors (G-20).

    One factor is a gradient with the clipping norm, the other a direction of norm 1.
    Each is rounded to a grid that is coarser by the same factor, UNITS/FACTOR_UNITS.

    Args:
        scale: Grid units per unit of a gradient on its own grid, of `UNITS` a norm.
    """
    coarsening = UNITS / FACTOR_UNITS
    direction_scale = Grid(norm=1.0).scale / coarsening
    gradient_scale = scale / coarsening
    return direction_scale * gradient_scale
