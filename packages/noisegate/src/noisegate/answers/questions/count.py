"""``count(c = level)``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from noisegate.answers.domain import Floats
from noisegate.answers.estimates import (
    Estimate,
    Intervals,
    estimate,
    spread_of_table,
)
from noisegate.answers.evidence import Evidence
from noisegate.answers.questions.groups import counts_with_cell
from noisegate.answers.questions.question import (
    Question,
    find_level,
    limit_cell,
    parse_call,
    parse_level,
    question_error,
    register,
    require_levels,
)
from noisegate.answers.questions.sums import estimate_from_moments, moments_of_columns


@register("count")
@dataclass(frozen=True, kw_only=True)
class Count(Question):
    """The number of records that have a level.

    Attributes:
        column: A column with levels.
        level: The level, as it was written.
    """

    forms = ("count(c = level)",)
    limits_count_as = "groups"

    column: str
    level: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parses the question; None if it is another, an error without a level."""
        call = parse_call(text, "count")
        if call is None:
            return None
        column_and_level = parse_level(call.inside)
        if column_and_level is None or call.groups:
            raise question_error(
                text, ": a count needs a level, as in count(sex = female)."
            )
        column, level = column_and_level
        return cls(text=text, column=column, level=level)

    @property
    def columns(self) -> tuple[str, ...]:
        """The column with the level."""
        return (self.column,)

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the number of records."""
        names = [f"{self.column} = {self.level}"]
        cell = limit_cell(evidence, self.column, self.level)
        if cell is not None:
            table, index_of_cell = counts_with_cell(self, evidence, self.columns, cell)
            spread = spread_of_table(table, intervals)
            return estimate(
                self.text,
                names,
                lambda counts: counts[[index_of_cell]],
                spread,
                intervals,
            )
        levels = require_levels(self, evidence, self.column)
        position = find_level(self, levels, self.column, self.level)
        moments = moments_of_columns(self, evidence, self.columns)
        index = moments.indices(self.column)[position]

        def count(values: Floats) -> Floats:
            return moments.matrix(values)[[index], 0]

        return estimate_from_moments(self, names, count, evidence, moments, intervals)
