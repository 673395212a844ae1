"""DataLens: a generator taught by compressed, voted gradients of many teachers (G-26).

Wang, Wu, Long, Rimanic, Zhang and Li (CCS 2021), https://arxiv.org/abs/2103.11109. Each teacher's gradient at a
generated record is compressed to the signs of its k largest entries, of which the noisy sum is followed. What differs
is in [differences](../../docs/differences.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.errors import OptionError
from noisegate.methods.gradient import AsksTeachers, GradientMethod, TrainsModel
from noisegate.methods.registry import register
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.privacy.shard_plan import ShardQuery
from noisegate.schema import Schema
from noisegate.settings import Count, Positive, Unit, derived, settings
from noisegate_papers.methods.shards import AUDITED_TEACHERS, ShardSettings

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from noisegate.models.record_model import RecordModel
    from noisegate_papers.training.guided import TransportTraining
    from noisegate_papers.training.shard_teacher import ShardTeacher


def _largest(given: Mapping[str, Any]) -> Any:
    return given["largest"] or (4 if given["image"] is None else 200)


@register("datalens")
@settings
class DataLens(ShardSettings, TrainsModel, AsksTeachers, GradientMethod):
    """DataLens: a generator taught by compressed, voted gradients of many teachers (Wang et al. 2021).

    Wang, Wu, Long, Rimanic, Zhang and Li (CCS 2021), https://arxiv.org/abs/2103.11109. Each teacher's gradient at a
    generated record is compressed to the signs of its k largest entries. The generator follows the noisy sum of these
    signs.

    Examples:
        >>> from noisegate import Budget, DataLens, Schema
        >>> from noisegate.schema import Integer
        >>> schema = Schema([Integer(name=name, lower=0, upper=99) for name in ("age", "dose")])
        >>> method = DataLens(steps=10, batch=8, largest=2)
        >>> event = method.plan(schema, Budget(epsilon=1.0)).events[0]
        >>> sensitivity = event.event.sensitivity / 2**22  # the norm of all signs of a step is √(k·batch)
        >>> event.shards, sensitivity, method.clip_norm
        (1000, 2.0, 4.0)
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {**AUDITED_TEACHERS, "largest": 2}

    largest: Count = derived(_largest)
    """k: number of the largest entries of a gradient whose signs are used."""
    bound: Positive = 1e-5
    """Entries of a gradient that are smaller than this are rounded to a sign at random, with probabilities in
    proportion to the entry."""
    threshold: Unit = 0.0
    """β: an entry is used only if the noisy share of teachers that vote for its sign exceeds the share that vote
    against it by at least β. The paper uses 0.2 to 0.9. At 0, the noisy sum is used unchanged."""
    clip_norm: Positive = derived(
        lambda given: math.sqrt(_largest(given) * given["batch"])
    )
    """L2 norm of all signs of a teacher in a step."""

    def __post_init__(self) -> None:
        self.check_generator()

    def gradient_plan(self, schema: Schema, budget: Budget) -> ShardQuery:
        """Returns the steps. In each, a teacher computes signs for every generated record.

        Raises:
            OptionError: if a record has fewer inputs than `largest`.
        """
        input_count = self.input_count(schema)
        if self.largest > input_count:
            raise OptionError(
                f"largest={self.largest} is more than the {input_count} inputs that a "
                "record has; lower it."
            )
        return self.shard_plan(schema, {"records": (self.batch, input_count)})

    def teacher(self, schema: Schema) -> ShardTeacher:
        """Returns a teacher in its initial state."""
        from noisegate_papers.training.shard_teacher import largest_signs

        answer = partial(largest_signs, largest=self.largest, bound=self.bound)
        return self.shard_teacher(schema, answer)

    def training(
        self, schema: Schema, plan: Plan, batch: float, device: str
    ) -> TransportTraining:
        """Returns the training of the generator in its initial state; see `GradientMethod`."""
        from noisegate_papers.training.guided import TransportTraining

        return TransportTraining(
            self.taught_start(schema, device), gradient=self.voted_gradient
        )

    def voted_gradient(
        self, noisy: Mapping[str, Tensor]
    ) -> Float[Tensor, "records inputs"]:
        """Returns the gradient that the generator follows, from the noisy sum of signs.

        It is the average sign of each entry. With a threshold, it is the sign of each entry beyond the threshold, and 0
        elsewhere.
        """
        mean_signs = noisy["records"] / (self.teachers * self.sampling_probability)
        if not self.threshold:
            return mean_signs
        return mean_signs.sign() * (mean_signs.abs() >= self.threshold)

    def model(self, release: Release) -> RecordModel:
        """Returns the released generator, to sample from."""
        return self.released_generator(release)
