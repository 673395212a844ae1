"""``mean(x)``, ``mean(x) by g`` and ``mean(x) by g, h``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from noisegate.answers.domain import Floats
from noisegate.answers.estimates import Estimate, Intervals
from noisegate.answers.evidence import Evidence
from noisegate.answers.questions.groups import mean_by_table, needs_table
from noisegate.answers.questions.question import (
    Question,
    column_name,
    parse_call,
    register,
    require_number,
)
from noisegate.answers.questions.sums import (
    estimate_from_moments,
    group_indices,
    group_names,
    moments_of_columns,
    number_term,
    presence_index,
    quotients_and_differences,
)


@register("mean")
@dataclass(frozen=True, kw_only=True)
class Mean(Question):
    """The mean of a number, in all records that have it, or in each group.

    Attributes:
        column: The number.
        groups: Columns of the groups; none for all records.
    """

    forms = ("mean(x)", "mean(x) by g", "mean(x) by g, h")
    percent_of = "range"
    unit_columns = "first"
    weighted_form = "weighted mean(x)"

    column: str
    groups: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parses the question; None if it is another."""
        call = parse_call(text, "mean")
        if call is None or len(call.arguments) != 1:
            return None
        column = column_name(call.arguments[0])
        return cls(text=text, column=column, groups=call.groups)

    @property
    def columns(self) -> tuple[str, ...]:
        """The number, and the columns of groups."""
        return self.column, *self.groups

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the mean; with groups each of them, and differences to the first."""
        require_number(self, evidence, self.column)
        if needs_table(evidence, self.groups):
            return mean_by_table(self, evidence, intervals, self.column, self.groups)
        group = self.groups[0] if self.groups else None
        moments = moments_of_columns(self, evidence, self.columns)
        number, term = number_term(moments, self.column)
        present = presence_index(moments, self.column)
        groups = group_indices(self, evidence, moments, group)

        def means(values: Floats) -> Floats:
            sums = moments.matrix(values)
            records = sums[present, groups]
            sums_in_unit = term.centre * records + term.scale * sums[number, groups]
            return quotients_and_differences(sums_in_unit, records)

        names = group_names(self, evidence, group)
        return estimate_from_moments(self, names, means, evidence, moments, intervals)
