"""Plans steps whose answers are vectors of whole samples, or of disjoint shards.

A `GradientQuery` adds up a vector of each record. Losses that are no sum over records,
such as optimal transport, and teachers that each shard trains have one vector of many
records instead. A record may then turn that vector round altogether, so sensitivities
are distances between any two vectors, and not norms::

    query         a step returns                              sensitivity
    ──────────────────────────────────────────────────────────────────────────
    BatchQuery    one vector of a sample, clipped as a whole  2 · clip_norm  (G-24)
    ShardQuery    the sum of one vector of each shard that    `sensitivity`     (G-26)
                  is queried
"""

from __future__ import annotations

from typing import Annotated

from noisegate.errors import OptionError
from noisegate.privacy.events import (
    Adjacency,
    Batched,
    Gaussian,
    Sharded,
)
from noisegate.privacy.gradient_plan import StepQuery
from noisegate.privacy.grid import UNITS, Grid
from noisegate.settings import Within, settings


@settings
class BatchQuery(StepQuery):
    """Vectors of whole samples. A vector is any function of its sample (G-24).

    Vectors are clipped as a whole. A sample is a Poisson sample of all records; or,
    with `shards`, one of several disjoint parts of the records, in turn. The
    sensitivity is the largest distance between two clipped vectors, 2 · clip_norm. Use
    this query for losses that are not a sum over records. For other losses, a
    `GradientQuery` needs half the noise.

    Examples:
        >>> from noisegate import Budget
        >>> from noisegate.privacy.gradient_plan import plan_steps
        >>> from noisegate.privacy.shard_plan import BatchQuery
        >>> steps = BatchQuery(
        ...     name="network",
        ...     steps=10,
        ...     sampling_probability=1.0,
        ...     shards=5,
        ...     clip_norm=1.0,
        ...     parameters={"weight": (3, 2)},
        ... )
        >>> (event,) = plan_steps(Budget(epsilon=1.0), steps).events
        >>> sensitivity = event.event.sensitivity
        >>> event.steps_of_a_record, sensitivity / steps.grid.bound.units
        (2, 2.0)
    """

    shards: Annotated[
        int, Within(ge=1, le=1_000_000), "a whole number from 1 to 1000000"
    ] = 1
    """Number of disjoint shards. They are used completely and in turn, with sampling
    probability 1; 1 for Poisson samples."""

    def __post_init__(self) -> None:
        """Checks that shards are used whole, and not sampled too."""
        super().__post_init__()
        if self.shards > 1 and self.sampling_probability != 1:
            raise OptionError(
                f"sampling_probability={self.sampling_probability:g} with "
                f"shards={self.shards}: a whole shard is used in each step, and what "
                "shards save is not saved twice. Give sampling_probability=1.0, or "
                "shards=1 for Poisson samples."
            )

    def event(self, step: Gaussian) -> Batched:
        """Returns the event of all steps, as it is charged to the budget."""
        return Batched(
            event=step,
            rate=self.sampling_probability,
            steps=self.steps,
            shards=self.shards,
        )

    @property
    def sensitivity(self) -> int:
        """Largest distance between two vectors, in grid units."""
        return 2 * UNITS

    @property
    def grid(self) -> Grid:
        """The grid to which vectors are clipped and rounded."""
        return Grid(norm=self.clip_norm)

    @property
    def scale(self) -> float:
        """Grid units per unit of the vectors."""
        return self.grid.scale


@settings
class ShardQuery(StepQuery):
    """Sums of one vector of each disjoint shard, from what it alone has trained (G-26).

    The records are split into shards once. In a step each shard is queried with
    `sampling_probability`, independently. What leaves is the noisy sum of the vectors
    of those that were queried. A record is in one shard, and moves that shard's vector
    by at most `sensitivity`.

    Examples:
        >>> from noisegate import Budget
        >>> from noisegate.privacy.gradient_plan import plan_steps
        >>> from noisegate.privacy.shard_plan import ShardQuery
        >>> votes = ShardQuery(
        ...     name="votes",
        ...     steps=10,
        ...     shards=50,
        ...     clip_norm=1.0,
        ...     parameters={"votes": (4,)},
        ... )
        >>> (event,) = plan_steps(Budget(epsilon=1.0), votes).events
        >>> event.rate, event.shards, event.event.sensitivity / votes.grid.bound.units
        (1.0, 50, 2.0)
    """

    shards: Annotated[
        int, Within(ge=1, le=1_000_000), "a whole number from 1 to 1000000"
    ]
    """Number of disjoint shards."""
    sampling_probability: Annotated[
        float, Within(gt=0, le=1), "a number above 0 and at most 1"
    ] = 1.0
    """Probability with which each shard, independently, is queried in a step; rounded
    up to a multiple of 2⁻³²."""
    nonnegative: bool = False
    """Whether no coordinate is negative, which is enforced: two vectors are then at
    most √2 · clip_norm apart."""

    def event(self, step: Gaussian) -> Sharded:
        """Returns the private event that all steps together are."""
        return Sharded(
            event=step,
            rate=self.sampling_probability,
            steps=self.steps,
            shards=self.shards,
        )

    @property
    def sensitivity(self) -> int:
        """Largest distance between two vectors of a shard in grid units, rounded up.

        Where all shards are queried, it is that of a replaced vector: 2 · clip_norm, or
        √2 · clip_norm without negative coordinates. Where a shard may be left out, its
        vectors are compared with none as well, and their signs gain nothing (G-26).
        """
        if self.sampling_probability < 1:
            return 2 * UNITS
        return self.grid.bound.sensitivity(Adjacency.REPLACE_ONE)

    @property
    def grid(self) -> Grid:
        """The grid that vectors are clipped and rounded on."""
        return Grid(norm=self.clip_norm, nonnegative=self.nonnegative)

    @property
    def scale(self) -> float:
        """Grid units per unit of the vectors."""
        return self.grid.scale
