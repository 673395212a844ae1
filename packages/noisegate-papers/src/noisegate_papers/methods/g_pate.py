"""G-PATE: a generator that follows gradients which teachers agree on, coordinate by coordinate of a projection.

Long, Wang, Yang, Kailkhura, Zhang, Gunter and Li (NeurIPS 2021), https://arxiv.org/abs/1906.09338. Each teacher's
gradient at a generated record is projected at random to a few coordinates; in each of them it votes for one of some
bins, and the bin with the most noisy votes stands for the gradient. What differs is in docs/differences.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.methods.registry import register
from noisegate.schema import Schema
from noisegate.settings import Count, Positive, TwoOrMore, derived, settings
from noisegate_papers.methods.sharded import AUDITED_TEACHERS, ShardedMethod

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from noisegate_papers.methods.generative import Shapes
    from noisegate_papers.training.teachers import ShardTeacher


def _coordinates(given: Mapping[str, Any]) -> Any:
    """Returns how many coordinates a projection has, as given or by what records are."""
    return given["coordinates"] or (10 if given["image"] is None else 100)


@register("g-pate")
@settings
class GPATE(ShardedMethod):
    """Settings of G-PATE; none of them depends on private data.

    Examples:
        >>> from noisegate import Budget, GPATE, Schema
        >>> from noisegate.schema import Integer
        >>> method = GPATE(steps=10, batch=8, coordinates=2, bins=5)
        >>> event = method.plan(Schema([Integer(name="age", lower=0, upper=99)]), Budget(epsilon=1.0)).events[0]
        >>> event.coordinates, method.clip_norm, round(event.sensitivity / 2**22, 3)  # other bins: √2 times the norm
        (80, 4.0, 1.414)
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {**AUDITED_TEACHERS, "coordinates": 2, "bins": 4}

    nonnegative = True

    coordinates: Count = derived(_coordinates)
    """Coordinates of the random projection; the paper has 10, of which thousands of steps are needed for images."""
    bins: TwoOrMore = 4
    bound: Positive = 1e-2
    """Projected gradients are clipped to ± this; the paper has 10 bins and 1e-4."""
    clip_norm: Positive = derived(lambda given: math.sqrt(given["batch"] * _coordinates(given)))
    """L2 norm of all votes of a teacher in a step."""

    def answers(self, schema: Schema) -> Shapes:
        """Returns the shape of the histograms."""
        return {"votes": (self.batch, self.coordinates, self.bins)}

    def teacher(self, schema: Schema) -> ShardTeacher:
        """Returns a teacher that votes for bins."""
        from noisegate_papers.training.teachers import ShardTeacher, histogram_votes

        return ShardTeacher(**self.teaching(schema), says=histogram_votes(self.bound, self.bins))

    def beside(self, schema: Schema, step: int) -> Mapping[str, Tensor]:
        """Returns the step's own projection, (inputs, coordinates), of independent entries of variance 1/coordinates.

        With one for all steps, records could never leave a space of so few dimensions.
        """
        import torch

        from noisegate_papers.training.adversarial import stream

        # The generator's noise of the step has the stream of two numbers.
        drawn = torch.randn(self.inputs(schema), self.coordinates, generator=stream(self.seed, step, 1))
        return {"projection": drawn / math.sqrt(self.coordinates)}

    def pulled(self, schema: Schema, told: Mapping[str, Tensor]) -> Float[Tensor, "records inputs"]:
        """Returns the middle of the bins with the most votes, back at the inputs."""
        votes = told["votes"]
        middles = (2 * votes.argmax(dim=2) + 1) / self.bins - 1
        return self.bound * middles.to(votes.dtype) @ told["projection"].T
