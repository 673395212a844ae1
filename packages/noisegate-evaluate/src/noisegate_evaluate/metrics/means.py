"""How far the means of numbers are off, in standard deviations of the real values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from noisegate.schema import Schema
from noisegate_evaluate.metrics.result import MetricResult, metric
from noisegate_evaluate.reading import known_numbers

RANKS_PER_DEVIATION = 1 / math.sqrt(2 * math.pi)
"""How far a mean that is off by a standard deviation is off in ranks, where values are
normal and differences small: the density at the mean."""


@metric("means", "tables")
@dataclass(frozen=True, kw_only=True)
class Means(MetricResult):
    """Differences of the means of every number and date, in standard deviations of its real values.

    ``mean`` is the mean absolute difference, ``largest`` the largest one beyond two standard errors, of ``column``.
    """

    PRINTED: ClassVar = {
        "means, difference in standard deviations, mean": "{it.mean:.3f}",
        "means, largest difference beyond chance": "{it.largest:.3f} ({it.column})",
    }
    mean: float
    largest: float
    column: str

    @classmethod
    def measured(
        cls, synthetic: pa.Table, real: pa.Table, *, seed: int, **more: Any
    ) -> Means | None:
        """Returns the figures; None of tables without a number that varies."""
        schema: Schema = more["schema"]
        differences: list[float] = []
        beyond_chance: dict[str, float] = {}
        for column in schema.file_layout.numeric:
            synthetic_numbers = known_numbers(synthetic, column, schema)
            real_numbers = known_numbers(real, column, schema)
            deviation = float(real_numbers.std()) if len(real_numbers) else 0.0
            if not deviation or not len(synthetic_numbers):
                continue
            difference = abs(float(synthetic_numbers.mean() - real_numbers.mean()))
            difference /= deviation
            errors = [
                numbers.std() / math.sqrt(len(numbers))
                for numbers in (synthetic_numbers, real_numbers)
            ]
            chance = 2 * math.hypot(*errors) / deviation
            differences.append(difference)
            beyond_chance[column.name] = max(difference - chance, 0.0)
        if not differences:
            return None
        worst = max(beyond_chance, key=lambda name: beyond_chance[name])
        return cls(
            mean=float(np.mean(differences)),
            largest=beyond_chance[worst],
            column=worst,
        )
