"""Sums over disjoint shards before data: how many shards, how often each is asked, with how much noise (G-26)."""

from __future__ import annotations

from typing import Annotated

from noisegate.errors import OptionError
from noisegate.privacy.events import Adjacency, BatchGaussianEvent, Sampler, ShardGaussianEvent
from noisegate.privacy.gradient_plan import StepPlan
from noisegate.privacy.grid import UNITS, Grid
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

    shards: Annotated[int, Within(ge=1, le=1_000_000), "a whole number from 1 to 1000000"] = 1
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
        return BatchGaussianEvent(**steps | {"sensitivity": 2 * UNITS, "shards": self.shards})


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

    shards: Annotated[int, Within(ge=1, le=1_000_000), "a whole number from 1 to 1000000"]
    """Number of disjoint shards."""
    sampling_probability: Annotated[float, Within(gt=0, le=1), "a number above 0 and at most 1"] = 1.0
    """Probability with which each shard, by itself, is asked in a step; rounded up to a multiple of 2⁻³²."""
    nonnegative: bool = False
    """Whether no coordinate is negative, which is enforced: two vectors are then at most √2 · clip_norm apart."""

    def event(self, noise_std: float, sampler: Sampler) -> ShardGaussianEvent:
        """Returns the event of all steps."""
        steps = vars(super().event(noise_std, sampler))
        return ShardGaussianEvent(**steps | {"sensitivity": self.diameter, "shards": self.shards})

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
