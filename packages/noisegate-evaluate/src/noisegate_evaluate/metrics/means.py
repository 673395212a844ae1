"""How far the means of numbers are off, in standard deviations of the real values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from noisegate.schema import Schema
from noisegate_evaluate.metrics.result import MetricResult, metric
from noisegate_evaluate.reading import read_numbers

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
            ours, theirs = (
                values[~np.isnan(values)]
                for values in (
                    read_numbers(table, column, schema).unit
                    for table in (synthetic, real)
                )
            )
            spread = float(theirs.std()) if len(theirs) else 0.0
            if not spread or not len(ours):
                continue
            difference = abs(float(ours.mean() - theirs.mean())) / spread
            errors = [
                values.std() / math.sqrt(len(values)) for values in (ours, theirs)
            ]
            chance = 2 * math.hypot(*errors) / spread
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
