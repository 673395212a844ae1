"""DataLens: a generator that follows the signs of the largest gradients of many teachers.

Wang, Wu, Long, Rimanic, Zhang and Li (CCS 2021), https://arxiv.org/abs/2103.11109. Each teacher's gradient at a
generated record is compressed to the signs of its k largest entries; they are added up with noise, and an entry of the
sum counts as far as it is beyond a part β of the number of teachers. What differs is in docs/differences.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from noisegate.errors import OptionError
from noisegate.methods.registry import register
from noisegate.schema import Schema
from noisegate.settings import Count, Positive, Unit, derived, settings
from noisegate_papers.methods.sharded import AUDITED_TEACHERS, ShardedMethod

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

    from noisegate_papers.methods.generative import Shapes
    from noisegate_papers.training.teachers import ShardTeacher


def _largest(given: Mapping[str, Any]) -> Any:
    """Returns how many entries count, as given or by what records are."""
    return given["largest"] or (4 if given["image"] is None else 200)


@register("datalens")
@settings
class DataLens(ShardedMethod):
    """Settings of DataLens; none of them depends on private data.

    Examples:
        >>> from noisegate import Budget, DataLens, Schema
        >>> from noisegate.schema import Integer
        >>> schema = Schema([Integer(name=name, lower=0, upper=99) for name in ("age", "dose")])
        >>> method = DataLens(steps=10, batch=8, largest=2)
        >>> event = method.plan(schema, Budget(epsilon=1.0)).events[0]
        >>> event.shards, event.sensitivity / 2**22, method.clip_norm  # the norm of all signs of a step, √(k·batch)
        (1000, 2.0, 4.0)
    """

    audit_settings: ClassVar[Mapping[str, Any]] = {**AUDITED_TEACHERS, "largest": 2}

    largest: Count = derived(_largest)
    """k: how many entries of a gradient count."""
    bound: Positive = 1e-5
    """Entries of a gradient below this are rounded to a sign at random, in proportion."""
    threshold: Unit = 0.0
    """β: the part of the teachers that must agree, over those that do not, for an entry to count; the paper takes 0.2
    to 0.9. At 0 the noisy sum is followed as it is."""
    clip_norm: Positive = derived(lambda given: math.sqrt(_largest(given) * given["batch"]))
    """L2 norm of all signs of a teacher in a step."""

    def answers(self, schema: Schema) -> Shapes:
        """Returns the shape of the signs; an OptionError if a record has fewer inputs than signs that count."""
        inputs = self.inputs(schema)
        if self.largest > inputs:
            raise OptionError(f"largest={self.largest} is more than the {inputs} inputs that a record has; lower it.")
        return {"records": (self.batch, inputs)}

    def teacher(self, schema: Schema) -> ShardTeacher:
        """Returns a teacher that answers with signs."""
        from noisegate_papers.training.teachers import ShardTeacher, largest_signs

        return ShardTeacher(**self.teaching(schema), says=largest_signs(self.largest, self.bound))

    def pulled(self, schema: Schema, told: Mapping[str, Tensor]) -> Float[Tensor, "records inputs"]:
        """Returns the mean sign of each entry, or with a threshold the sign of each that is beyond it."""
        mean = told["records"] / (self.teachers * self.sampling_probability)
        return mean.sign() * (mean.abs() >= self.threshold) if self.threshold else mean
