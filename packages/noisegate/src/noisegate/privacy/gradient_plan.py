"""Queries in steps before data: how many, on how large samples, with how much noise; calibrated before any is taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from noisegate.errors import CalibrationError, OptionError
from noisegate.privacy import accounting
from noisegate.privacy.events import (
    Adjacency,
    BatchGaussianEvent,
    Event,
    SampledGaussianEvent,
    Sampler,
    ShardGaussianEvent,
)
from noisegate.privacy.grid import FACTOR_UNITS, UNITS, Grid
from noisegate.privacy.noise import CONVOLVED_UP_TO, NARROWEST, reached
from noisegate.privacy.plan import Budget, Plan, PlannedRelease, PricedPlan, Query
from noisegate.settings import Settings, Within, settings

RATES = 2**32
"""Rates are multiples of one over this, so that a 32-bit random word realises them exactly (G-19)."""

# Part of ε that calibration may leave unused; the pessimistic estimate gives away as much.
_GIVEN_AWAY = 5e-4
_Shapes = Annotated[Mapping[str, tuple[int, ...]], "shapes by name"]


@settings
class StepPlan(Settings):
    """Noisy vectors over samples of the records, step after step, before any budget is fixed."""

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
    """Shape of what is trained on them and released, in the order of packing; None where that is the parameters."""
    queries: tuple[Query, ...] = ()
    """Ordinary queries at the same gate; the budget covers both together."""
    share: Annotated[
        float, Within(gt=0, le=1e30), "a number above 0 and at most 1e+30"
    ] = 1.0
    """Part of the budget for the steps, beside the shares of the queries."""

    def __post_init__(self) -> None:
        if any(query.name == self.name for query in self.queries):
            raise OptionError(
                f"a query and the gradients are both called {self.name!r}; rename one of them."
            )
        for option, shapes in (
            ("parameters", self.parameters),
            ("trained", self.released),
        ):
            if not shapes or any(
                size < 1 for shape in shapes.values() for size in shape
            ):
                raise OptionError(
                    f"{option}={dict(shapes)!r}: at least one, and no size below 1."
                )
        object.__setattr__(
            self,
            "sampling_probability",
            math.ceil(self.sampling_probability * RATES) / RATES,
        )

    def event(self, noise_std: float, sampler: Sampler) -> SampledGaussianEvent:
        """Returns the private event that all steps together are, with noise of so many grid units."""
        return SampledGaussianEvent(
            name=self.name,
            rate=self.sampling_probability,
            steps=self.steps,
            sensitivity=self.units,
            noise_std=noise_std,
            coordinates=self.count,
            sampler=sampler,
        )

    @property
    def units(self) -> int:
        """Norm bound of one vector in grid units."""
        return UNITS

    @property
    def count(self) -> int:
        """How many numbers a step returns."""
        return sum(math.prod(shape) for shape in self.parameters.values())

    @property
    def released(self) -> Mapping[str, tuple[int, ...]]:
        """Shape of each array that is released in the end."""
        return self.parameters if self.trained is None else self.trained

    @property
    def grid(self) -> Grid:
        """Where vectors are clipped and rounded."""
        return Grid(norm=self.clip_norm)

    @property
    def scale(self) -> float:
        """Grid units per unit of what a step returns."""
        return self.grid.scale

    def check(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Checks that names and shapes of what is to be released are those planned."""
        if dict(shapes) != dict(self.released):
            raise OptionError(
                f"what was trained has shapes {dict(shapes)}, the plan has {dict(self.released)}."
            )

    def pack(self, arrays: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
        """Returns what was trained as one column, (numbers, 1)."""
        self.check({name: tuple(array.shape) for name, array in arrays.items()})
        return np.concatenate(
            [
                np.asarray(arrays[name], np.float64).reshape(-1, 1)
                for name in self.released
            ]
        )

    def unpack(
        self, values: npt.NDArray[np.float64]
    ) -> dict[str, npt.NDArray[np.float32]]:
        """Returns the numbers of a step, (count,), array by array, as float32."""
        return unpacked(values, self.parameters)

    def calibrate(self, budget: Budget) -> CalibratedStepPlan:
        """Returns the plan with about the least noise that keeps `budget`.

        Raises:
            OptionError: if a unit of `budget` may have several records, for which no bound is proved on samples.
            CalibrationError: if no noise can give the guarantee.
        """
        if budget.contributions is not None and budget.contributions > 1:
            raise OptionError(
                f"contributions={budget.contributions}: records of one unit are sampled one by one, for which no bound "
                "is proved. Use contributions=1, or a method that sums over all records, such as merf."
            )
        part = self.share / math.fsum(
            [self.share, *(query.share for query in self.queries)]
        )
        releases: tuple[PlannedRelease, ...] = ()
        if self.queries:  # with the rest of the budget, measured in Gaussian-DP μ²
            mu = accounting.mu_for(budget.epsilon, budget.delta) * math.sqrt(1 - part)
            smaller = replace(
                budget, epsilon=max(accounting.gaussian_epsilon(mu, budget.delta), 0.01)
            )
            releases = Plan(queries=self.queries).calibrate(smaller).releases
        exact = budget.epsilon > CONVOLVED_UP_TO
        asked = Sampler.DISCRETE_GAUSSIAN if exact else Sampler.CONVOLVED_GAUSSIAN
        others = tuple(release.event for release in releases)
        return CalibratedStepPlan(
            plan=self,
            budget=budget,
            releases=releases,
            event=_least_noise(self, budget, others, asked),
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class CalibratedStepPlan(PricedPlan):
    """Steps, and maybe queries, with noise that together cost at most `budget`. Made by `StepPlan.calibrate`."""

    plan: StepPlan
    event: SampledGaussianEvent  # all steps together

    def __post_init__(self) -> None:
        if self.event != self.plan.event(self.event.noise_std, self.event.sampler):
            raise CalibrationError(
                f"event {self.event.name!r} is not that of its plan; make plans with calibrate()."
            )
        if [release.query for release in self.releases] != list(self.plan.queries):
            raise CalibrationError(
                "the calibrated queries are not those of the plan; make plans with calibrate()."
            )
        super().__post_init__()

    @property
    def events(self) -> tuple[Event, ...]:
        """What will be run, for the ledger and the certificate."""
        return (*super().events, self.event)

    @property
    def noise_multiplier(self) -> float:
        """Noise standard deviation of a step over its sensitivity."""
        return self.event.noise_multiplier

    @property
    def noise_std_natural(self) -> float:
        """Standard deviation of the noise on each coordinate of a step's sum, in its own units."""
        return self.event.noise_std / self.plan.scale

    @property
    def coordinates(self) -> int:
        """How many numbers will be released, at most."""
        return (
            sum(math.prod(shape) for shape in self.plan.released.values())
            + super().coordinates
        )

    def describe(self, records: int | None) -> dict[str, Any]:
        """Returns the plan as a JSON object; `records` is a public guess of their number."""
        plan, batch = (
            self.plan,
            None if records is None else self.plan.sampling_probability * records,
        )
        event = self.event
        of: dict[str, Any] = {}
        # What exceeds the norm of no mean gradient, vector of a whole sample, or mean vector of the shards asked.
        parts = batch
        if isinstance(event, BatchGaussianEvent):
            of, parts = {"shards": event.shards, "vectors_of": "samples"}, 0.5
            batch = None if batch is None else batch / event.shards
        elif isinstance(event, ShardGaussianEvent):
            of, batch = {"shards": event.shards, "vectors_of": "shards"}, None
            parts = plan.units / event.sensitivity * event.rate * event.shards
        loss = (
            None
            if parts is None
            else self.noise_multiplier * math.sqrt(plan.count) / parts
        )
        return {
            **super().describe(records),
            "steps": plan.steps,
            "rate": plan.sampling_probability,
            **of,
            "records_a_step": batch,
            "clipping_norm": plan.clip_norm,
            "parameters": plan.count,
            "noise_multiplier": self.noise_multiplier,
            "noise_std": self.noise_std_natural,
            "noise_norm_over_clipping_norm": loss,
            "sampler": self.event.sampler.value,
            "releases": [release.describe(records) for release in self.releases],
        }


CalibratedGradientPlan = CalibratedStepPlan


def unpacked(
    values: npt.NDArray[np.float64], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, npt.NDArray[np.float32]]:
    """Returns arrays of these shapes from numbers that stand one after the other, as float32."""
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    parts = np.split(values.reshape(-1).astype(np.float32), ends[:-1])
    return {
        name: part.reshape(shapes[name])
        for name, part in zip(shapes, parts, strict=True)
    }


def _least_noise(
    plan: StepPlan, budget: Budget, others: tuple[Event, ...], sampler: Sampler
) -> SampledGaussianEvent:
    """Returns the event with about the least noise that costs, with `others`, at most ε; the plan prices it again."""
    convolved, widest = (
        sampler is Sampler.CONVOLVED_GAUSSIAN,
        accounting.MAXIMUM_STD / 2,
    )
    narrowest = float(NARROWEST) if convolved else accounting.MINIMUM_STD

    def event(noise: float) -> SampledGaussianEvent:
        return plan.event(reached(noise) if convolved else noise, sampler)

    def excess(noise: float) -> float:
        spent = accounting.epsilon(
            (*others, event(noise)), budget.delta, budget.adjacency
        )
        return math.log(spent / budget.epsilon) if spent > 0 else -math.inf

    # The noise, in grid units, that would do if losses added up to a normal distribution.
    mu = accounting.mu_for(budget.epsilon, budget.delta) / (
        2 if budget.adjacency is Adjacency.REPLACE_ONE else 1
    )
    quiet = plan.event(NARROWEST, Sampler.CONVOLVED_GAUSSIAN)
    spread = math.log1p(
        math.expm1(min(mu**2 / quiet.uses, 700.0)) / plan.sampling_probability**2
    )
    guess = min(max(quiet.sensitivity / math.sqrt(spread), narrowest), widest)
    low, high, step = guess, guess, 1.3
    while excess(high) > 0:
        if high >= widest:
            raise CalibrationError(_too_little(plan, budget, others, event(widest)))
        low, high, step = high, min(high * step, widest), step * step
    while low == high or excess(low) <= 0:
        if low <= narrowest:
            return event(low)
        low, high, step = max(low / step, narrowest), low, step * step
    return event(_root(excess, low, high))


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Returns where a function that falls from above zero at `low` to at most zero at `high` is barely below zero."""
    # Regula falsi on logarithms, on which ε is nearly a straight line in the noise.
    above, below = excess(low), excess(high)
    for _ in range(100):
        if below > -_GIVEN_AWAY or high <= low * (1 + 1e-3):
            break
        finite = math.isfinite(above) and math.isfinite(below)
        # A little beyond the crossing, so that the end that is kept moves.
        place = min(above / (above - below) + _GIVEN_AWAY, 0.9) if finite else 0.5
        middle = low * (high / low) ** place
        found = excess(middle)
        if found > 0:
            low, above = middle, found
        else:
            high, below = middle, found
    return high


def _too_little(
    plan: StepPlan,
    budget: Budget,
    others: tuple[Event, ...],
    quietest: SampledGaussianEvent,
) -> str:
    """Returns what would work instead: the least ε for the steps, and the most steps for the ε."""

    def cost(steps: int) -> float:
        return accounting.epsilon(
            (*others, replace(quietest, steps=steps)), budget.delta, budget.adjacency
        )

    steps = plan.steps
    while steps > 1 and cost(steps) > budget.epsilon:
        steps //= 2
    least = cost(plan.steps)
    cure = f"; {steps} steps would do" if cost(steps) <= budget.epsilon else ""
    floor = (
        f"they cost epsilon={least * 1.01:.3g} at least{cure}"
        if math.isfinite(least)
        else f"raise delta{cure}"
    )
    return (
        f"epsilon={budget.epsilon:g} at delta={budget.delta:g} is too little for {plan.steps} steps at rate "
        f"{plan.sampling_probability:.3g}, whatever the noise: {floor}."
    )


@settings
class GradientPlan(StepPlan):
    """Sums of clipped per-example gradients over Poisson samples.

    Examples:
        >>> from noisegate import Budget
        >>> from noisegate.privacy.gradient_plan import GradientPlan
        >>> shapes = {"parameters": {"weight": (3, 2)}}
        >>> steps = GradientPlan(name="network", steps=100, sampling_probability=0.125, clip_norm=1.0, **shapes)
        >>> plan = steps.calibrate(Budget(epsilon=1.0))
        >>> plan.events[0].coordinates, plan.epsilon <= 1.0
        (6, True)
    """

    factored: bool = False
    """Whether gradients are products of two factors (`FactoredLoss`), of one parameter (groups, outputs, inputs)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.factored and [len(shape) for shape in self.parameters.values()] != [3]:
            raise OptionError(
                "factored gradients have one parameter of shape (groups, outputs, inputs)."
            )

    @property
    def units(self) -> int:
        """Norm bound of one record's gradient in grid units."""
        return FACTOR_UNITS**2 if self.factored else UNITS

    @property
    def scale(self) -> float:
        """Grid units per unit of the gradients."""
        return factored_scale(self.grid.scale) if self.factored else self.grid.scale


def factored_scale(scale: float) -> float:
    """Returns the grid units per unit of a product of two factors, one of which has so many on a whole grid (G-20)."""
    shrink = UNITS / FACTOR_UNITS
    return (Grid(norm=1.0).scale / shrink) * (scale / shrink)
