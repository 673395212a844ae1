"""G-PATE: a generator taught by voted gradients of many teachers (G-26).

Long, Wang, Yang, Kailkhura, Zhang, Gunter and Li (NeurIPS 2021), https://arxiv.org/abs/1906.09338. Each teacher's
gradient at a generated record is projected at random to a few coordinates. In each coordinate, the teacher votes for a
bin. The bin with the most noisy votes represents the gradient. For deviations see
[differences](../../docs/differences.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.methods.gradient import AsksTeachers, GradientMethod, TrainsModel
from noisegate.methods.registry import register
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.privacy.shard_plan import ShardQuery
from noisegate.schema import Schema
from noisegate.settings import Count, Positive, TwoOrMore, derived, settings
from noisegate_papers.methods.shards import AUDITED_TEACHERS, ShardSettings

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from noisegate.models.record_model import RecordModel
    from noisegate_papers.training.guided import TransportTraining
    from noisegate_papers.training.shard_teacher import ShardTeacher


def _coordinates(given: Mapping[str, Any]) -> Any:
    return given["coordinates"] or (10 if given["image"] is None else 100)


@register("g-pate")
@settings
class GPATE(ShardSettings, TrainsModel, AsksTeachers, GradientMethod):
    """G-PATE: a generator taught by voted gradients of many teachers (Long et al. 2021).

    Long, Wang, Yang, Kailkhura, Zhang, Gunter and Li (NeurIPS 2021), https://arxiv.org/abs/1906.09338. Each teacher's
    gradient at a generated record is projected at random to a few coordinates. In each coordinate, the teacher votes
    for a bin. The bin with the most noisy votes represents the gradient.

    Examples:
        >>> from noisegate import Budget, GPATE, Schema
        >>> from noisegate.schema import Integer
        >>> method = GPATE(steps=10, batch=8, coordinates=2, bins=5)
        >>> event = method.plan(Schema([Integer(name="age", lower=0, upper=99)]), Budget(epsilon=1.0)).events[0]
        >>> event, clip_norm = event.event, method.clip_norm
        >>> event.coordinates, clip_norm, round(event.sensitivity / 2**22, 3)  # other bins: √2 times the norm
        (80, 4.0, 1.414)
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {
        **AUDITED_TEACHERS,
        "coordinates": 2,
        "bins": 4,
    }

    coordinates: Count = derived(_coordinates)
    """Number of coordinates of the random projection. The paper uses 10. With 10, images need thousands of steps."""
    bins: TwoOrMore = 4
    """Number of bins of each coordinate, of equal width."""
    bound: Positive = 1e-2
    """Projected gradients are clipped to ± this. The paper uses 10 bins and 1e-4."""
    clip_norm: Positive = derived(
        lambda given: math.sqrt(given["batch"] * _coordinates(given))
    )
    """L2 norm of all votes of a teacher in a step."""

    def __post_init__(self) -> None:
        self.check_generator()

    def gradient_plan(self, schema: Schema, budget: Budget) -> ShardQuery:
        """Returns the steps. In each, a teacher votes for a bin of every coordinate."""
        votes_shape = (self.batch, self.coordinates, self.bins)
        return self.shard_plan(schema, {"votes": votes_shape}, nonnegative=True)

    def teacher(self, schema: Schema) -> ShardTeacher:
        """Returns a teacher in its initial state."""
        from noisegate_papers.training.shard_teacher import histogram_votes

        answer = partial(histogram_votes, bound=self.bound, bins=self.bins)
        return self.shard_teacher(schema, answer)

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> TransportTraining:
        """Returns the training of the generator in its initial state; see `GradientMethod`."""
        from noisegate_papers.training.guided import TransportTraining

        return TransportTraining(
            self.taught_start(schema, device),
            gradient=self.voted_gradient,
            beside=partial(self.projections, schema),
        )

    def projections(self, schema: Schema, step: int) -> Mapping[str, Tensor]:
        """Returns the projections of a step, of independent entries of variance 1/coordinates.

        Each step and each record has a projection of its own. Because the projections differ, the average of the
        projected gradients is close to the gradient.

        Args:
            schema: Public schema of the records.
            step: Number of the step, counted from 0.

        Returns:
            The array "projection", (records, inputs, coordinates).
        """
        import torch

        from noisegate_papers.training.adversarial import stream

        shape = (self.batch, self.input_count(schema), self.coordinates)
        # The generator's noise of the step has the stream of two numbers.
        entries = torch.randn(shape, generator=stream(self.seed, step, 1))
        return {"projection": entries / math.sqrt(self.coordinates)}

    def voted_gradient(
        self, known: Mapping[str, Tensor]
    ) -> Float[Tensor, "records inputs"]:
        """Returns the midpoints of the bins with the most votes, projected back to the inputs.

        Args:
            known: The noisy votes, (records, coordinates, bins), and the projections.
        """
        votes = known["votes"]
        middles = (2 * votes.argmax(dim=2) + 1) / self.bins - 1
        columns = middles.to(votes.dtype)[:, :, None]
        return self.bound * (known["projection"] @ columns)[:, :, 0]

    def model(self, release: Release) -> RecordModel:
        """Returns the released generator, to sample from."""
        return self.released_generator(release)
