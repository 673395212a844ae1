"""Rules that real records keep to and synthetic ones break: orders, sums, and values that never stand together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from noisegate.discovery.rules import MOST_COLUMNS, Sum, find_rules, numbers_of
from noisegate.records import Rows
from noisegate.schema import Constraint, Schema
from noisegate_evaluate.metrics.result import MetricResult, metric
from noisegate_evaluate.reading import read_rows

MOST_ROWS = 20_000
WORTH_TELLING = 0.01
"""A rule is told where so large a part more of the synthetic records breaks it than of the real ones."""


@metric("rules", "tables")
@dataclass(frozen=True, kw_only=True)
class RulesKept(MetricResult):
    """Rules that (nearly) all real records keep to, as `noisegate schema init` finds them, in synthetic records.

    ``found`` is how many there are; ``broken`` those that synthetic records break more often, the worst first, each
    (rule, part of the real records that breaks it, part of the synthetic ones).
    """

    found: int
    broken: Sequence[tuple[str, float, float]]

    @classmethod
    def measured(cls, synthetic: pa.Table, real: pa.Table, *, seed: int, **more: Any) -> RulesKept | None:
        """Returns the figures; None where real records show no rule, or have too many columns to look for some."""
        schema: Schema = more["schema"]
        if len(schema.names) > MOST_COLUMNS:
            return None
        ours, theirs = (read_rows(table, schema, MOST_ROWS) for table in (synthetic, real))
        rules = find_rules(theirs, schema)
        told = [
            (str(rule), _share(rule, theirs, schema), _share(rule, ours, schema))
            for rule in (*rules.constraints, *rules.sums)
        ]
        if not told:
            return None
        broken = [one for one in told if one[2] > one[1] + WORTH_TELLING]
        return cls(found=len(told), broken=sorted(broken, key=lambda one: -one[2]))

    def page(self, name: str) -> dict[str, str]:
        """Returns how many rules are kept, and those that are broken most."""
        told = {"rules of real records kept": f"{self.found - len(self.broken)} of {self.found}"}
        return told | {f"broken: {rule}": f"{made:.1%} for {real:.1%}" for rule, real, made in self.broken[:5]}


def _share(rule: Constraint | Sum, rows: Rows, schema: Schema) -> float:
    if not len(rows):
        return 0.0
    if isinstance(rule, Sum):
        return float(rule.broken(numbers_of(rows, schema)).mean())
    return float(np.mean(rule.broken(rows, schema.layout, schema.missing_values)))
