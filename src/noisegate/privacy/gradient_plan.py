"""Gradients and vectors of whole samples, before data: what may be asked in steps, and with what sensitivity."""

from __future__ import annotations

from dataclasses import dataclass

from noisegate.errors import OptionError
from noisegate.privacy.events import BatchGaussianEvent, SampledGaussianEvent, Sampler
from noisegate.privacy.grid import UNITS, Grid
from noisegate.privacy.step_plan import RATES, CalibratedStepPlan, StepPlan, unpacked

__all__ = ["FACTOR_UNITS", "RATES", "BatchPlan", "CalibratedGradientPlan", "GradientPlan", "unpacked"]

CalibratedGradientPlan = CalibratedStepPlan

FACTOR_UNITS = 2**12
"""Norm bound, in grid units, of each of the two factors of a factored gradient (G-20)."""

MOST_SHARDS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class GradientPlan(StepPlan):
    """Sums of clipped per-example gradients over Poisson samples.

    Attributes:
        factored: Whether gradients come as products of two factors (`FactoredLoss`): one parameter, of shape (groups,
            outputs, inputs).

    Examples:
        >>> from noisegate import Budget
        >>> from noisegate.privacy.gradient_plan import GradientPlan
        >>> steps = GradientPlan(name="network", steps=100, rate=0.125, norm=1.0, parameters={"weight": (3, 2)})
        >>> plan = steps.calibrate(Budget(epsilon=1.0))
        >>> plan.events[0].coordinates, plan.epsilon <= 1.0
        (6, True)
    """

    factored: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.factored and [len(shape) for shape in self.parameters.values()] != [3]:
            raise OptionError("factored gradients have one parameter of shape (groups, outputs, inputs).")

    @property
    def units(self) -> int:
        """Norm bound of one record's gradient in grid units."""
        return FACTOR_UNITS**2 if self.factored else UNITS

    @property
    def scale(self) -> float:
        """Grid units per unit of the gradients."""
        if not self.factored:
            return self.grid.scale
        shrink = UNITS / FACTOR_UNITS
        return (Grid(norm=1.0).scale / shrink) * (self.grid.scale / shrink)

    def event(self, noise_std: float, sampler: Sampler) -> SampledGaussianEvent:
        """Returns the event of all steps."""
        return SampledGaussianEvent(
            name=self.name,
            rate=self.rate,
            steps=self.steps,
            sensitivity=self.units,
            noise_std=noise_std,
            coordinates=self.count,
            sampler=sampler,
        )


@dataclass(frozen=True, kw_only=True)
class BatchPlan(StepPlan):
    """Vectors of whole samples, each from any function of the sample and clipped as a whole (G-24).

    A sample is a Poisson sample of all records; or, with `shards`, one of as many disjoint parts of them, in turn. A
    record that comes or goes may change the vector of every sample that it is in from end to end, so the sensitivity is
    the diameter of what vectors can be, 2 · norm, where a sum of gradients has norm. Use it for losses that are no sum
    over records, such as optimal transport; otherwise a `GradientPlan` has half the noise.

    Attributes:
        shards: Number of disjoint shards, each used in every `shards`-th step; 1 for Poisson samples. With more the
            rate is 1: a whole shard is used.

    Examples:
        >>> from noisegate import Budget
        >>> from noisegate.privacy.gradient_plan import BatchPlan
        >>> steps = BatchPlan(name="network", steps=10, rate=1.0, shards=5, norm=1.0, parameters={"weight": (3, 2)})
        >>> event = steps.calibrate(Budget(epsilon=1.0)).events[0]
        >>> event.uses, event.sensitivity / steps.grid.bound.units
        (2, 2.0)
    """

    shards: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.shards, bool) or not isinstance(self.shards, int) or not 1 <= self.shards <= MOST_SHARDS:
            raise OptionError(f"shards={self.shards!r} must be a whole number from 1 to {MOST_SHARDS}.")
        if self.shards > 1 and self.rate != 1:
            raise OptionError(
                f"rate={self.rate:g} with shards={self.shards}: a whole shard is used in each step, and what shards "
                "save is not saved twice. Give rate=1.0, or shards=1 for Poisson samples."
            )

    def event(self, noise_std: float, sampler: Sampler) -> BatchGaussianEvent:
        """Returns the event of all steps."""
        return BatchGaussianEvent(
            name=self.name,
            rate=self.rate,
            steps=self.steps,
            shards=self.shards,
            sensitivity=2 * UNITS,
            noise_std=noise_std,
            coordinates=self.count,
            sampler=sampler,
        )
