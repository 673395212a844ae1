"""How close synthetic records are in each group of a column, such as each sex: the worst group beside the mean."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from noisegate.answers.verdict import (
    Verdict,
    in_percent,
    of_misplaced,
    word_of_misplaced,
)
from noisegate.errors import OptionError, choices
from noisegate.schema import Schema
from noisegate_evaluate.metrics.marginals import marginal_distances
from noisegate_evaluate.reading import read_levels

# Sampling alone decides the distances of fewer real records.
_LEAST_RECORDS = 30


@dataclass(frozen=True, kw_only=True)
class Group:
    """One group: the records with one level of a column.

    Attributes:
        level: The level.
        records: Number of its real records.
        share: Share of the synthetic records that are of this group.
        real_share: Share of the real ones.
        pairs: Total variation error of a pair of columns beyond sampling error, in the mean over pairs; None for a
            group of few real records, or one without synthetic ones.
    """

    level: str
    records: int
    share: float
    real_share: float
    pairs: float | None


@dataclass(frozen=True, kw_only=True)
class Groups:
    """All groups of a column.

    Attributes:
        column: Name of the column.
        groups: Its groups, in the order of the schema.
    """

    column: str
    groups: tuple[Group, ...]

    @property
    def worst(self) -> Group | None:
        """The group with the largest error; None where none could be measured."""
        measured = [group for group in self.groups if group.pairs is not None]
        return max(measured, key=lambda group: group.pairs or 0.0, default=None)

    def verdict(self) -> Verdict | None:
        """Returns what the worst group says; None where none could be measured."""
        worst = self.worst
        if worst is None or worst.pairs is None:
            return None
        word = word_of_misplaced(worst.pairs)
        errors = [group.pairs for group in self.groups if group.pairs is not None]
        mean_error = float(np.mean(errors))
        reason = (
            f"by {self.column}, total variation error of {in_percent(worst.pairs)} in a pair of columns of "
            f"{worst.level!r}, the worst of {len(errors)} groups, and of {in_percent(mean_error)} in the mean"
        )
        cures = () if word == "good" else (f"more records of {worst.level!r}",)
        return Verdict(
            word=word,
            source="evaluate",
            reasons=(reason,),
            cures=cures,
            figures={"worst_group": worst.level, "error_of_worst_group": worst.pairs},
            findings=(
                of_misplaced(
                    "groups",
                    worst.pairs,
                    f" in pairs of {worst.level!r}, the worst by {self.column}",
                ),
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the figures as JSON values."""
        return {
            "column": self.column,
            "groups": [asdict(group) for group in self.groups],
        }


def group_figures(
    synthetic: pa.Table, real: pa.Table, schema: Schema, column: str, *, seed: int = 0
) -> Groups:
    """Returns how close synthetic records are in each group of a column.

    Args:
        synthetic: Synthetic records.
        real: Real ones.
        schema: Their schema.
        column: A column of levels.
        seed: As of `marginal_distances`.

    Raises:
        OptionError: if the schema has no such column of levels.
    """
    names = [each.name for each in schema.columns if not each.numeric]
    if column not in names:
        raise OptionError(
            f"groups of {column!r}: expected a column of levels: {choices(column, names)}"
        )
    described = next(each for each in schema.columns if each.name == column)
    assert not described.numeric
    codes = [read_levels(table, described, schema).codes for table in (synthetic, real)]
    others = tuple(each for each in schema.columns if each.name != column)
    group_schema = Schema(others, missing_values=schema.missing_values)

    def group_of(code: int, level: object) -> Group:
        made, true = (
            table.filter(pa.array(of == code))
            for table, of in zip((synthetic, real), codes, strict=True)
        )
        pairs = None
        if made.num_rows and true.num_rows >= _LEAST_RECORDS:
            orders = (min(2, len(others)),)
            distances = marginal_distances(
                made, true, group_schema, orders=orders, seed=seed
            )
            pairs = distances.orders[-1].beyond_sampling
        return Group(
            level=str(level),
            records=true.num_rows,
            share=made.num_rows / synthetic.num_rows,
            real_share=true.num_rows / real.num_rows,
            pairs=pairs,
        )

    return Groups(
        column=column,
        groups=tuple(
            group_of(code, level) for code, level in enumerate(described.levels)
        ),
    )
