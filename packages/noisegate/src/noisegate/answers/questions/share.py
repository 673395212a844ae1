"""``share(c = level)``, the same by groups, and ``share(x < number)``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Self

from noisegate.answers.distribution import censored_distribution
from noisegate.answers.domain import Floats
from noisegate.answers.estimates import Estimate, Intervals
from noisegate.answers.evidence import Evidence
from noisegate.answers.questions.groups import (
    counts_with_cell,
    needs_table,
    share_by_table,
    share_in_table,
)
from noisegate.answers.questions.question import (
    Question,
    column_name,
    find_level,
    limit_cell,
    parse_call,
    parse_level,
    question_error,
    register,
    require_levels,
    require_number,
)
from noisegate.answers.questions.sums import (
    estimate_from_moments,
    group_indices,
    group_names,
    moments_of_columns,
    quotients_and_differences,
)

_BOUND = re.compile(r"(?P<column>[^<=]+?)\s*(?P<sign><=|<)\s*(?P<bound>.+)")


@register("share")
@dataclass(frozen=True, kw_only=True)
class Share(Question):
    """The share of records that have a level, of all or of each group.

    Attributes:
        column: A column with levels.
        level: The level, as it was written.
        groups: Columns of the groups; none for all records.
    """

    forms = ("share(c = level)", "share(c = level) by g", "share(c = level) by g, h")
    percent_of = "one"
    limits_count_as = "groups"
    weighted_form = "weighted share(c = level)"

    column: str
    level: str
    groups: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parses the question; None if it is another."""
        call = parse_call(text, "share")
        column_and_level = None if call is None else parse_level(call.inside)
        if call is None or column_and_level is None:
            return None
        column, level = column_and_level
        return cls(text=text, column=column, level=level, groups=call.groups)

    @property
    def columns(self) -> tuple[str, ...]:
        """The column with the level, and those of groups."""
        return self.column, *self.groups

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the share; with groups each of them, and differences to the first."""
        cell = limit_cell(evidence, self.column, self.level)
        if cell is not None:
            table, position = counts_with_cell(self, evidence, self.columns, cell)
            return share_in_table(
                self, evidence, intervals, table, position, self.groups
            )
        levels = require_levels(self, evidence, self.column)
        position = find_level(self, levels, self.column, self.level)
        if needs_table(evidence, self.groups):
            return share_by_table(
                self, evidence, intervals, self.column, position, self.groups
            )
        group = self.groups[0] if self.groups else None
        moments = moments_of_columns(self, evidence, self.columns)
        index = moments.indices(self.column)[position]
        groups = group_indices(self, evidence, moments, group)

        def shares(values: Floats) -> Floats:
            sums = moments.matrix(values)
            return quotients_and_differences(sums[index, groups], sums[0, groups])

        names = group_names(self, evidence, group)
        return estimate_from_moments(self, names, shares, evidence, moments, intervals)


@register("share-below")
@dataclass(frozen=True, kw_only=True)
class ShareBelow(Question):
    """The share of records whose number is below a bound, of those that have one.

    Attributes:
        column: The number.
        bound: The bound.
        includes_bound: Whether the bound itself counts.
    """

    forms = ("share(x < number)",)
    percent_of = "one"
    rests_on = "tables"
    limits_count_as = "ends"

    column: str
    bound: float
    includes_bound: bool

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parses the question; None if it is another, an error without a number."""
        call = parse_call(text, "share")
        match = None if call is None else _BOUND.fullmatch(call.inside)
        if call is None or match is None:
            return None
        sign = match["sign"]
        try:
            bound = float(match["bound"])
        except ValueError:
            raise question_error(
                text, f": a number is expected after {sign!r}."
            ) from None
        if call.groups:
            raise question_error(
                text, ": shares below a number are for all records: leave out 'by'."
            )
        return cls(
            text=text,
            column=column_name(match["column"]),
            bound=bound,
            includes_bound=sign == "<=",
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The number."""
        return (self.column,)

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the share, between those of the cells around the bound."""
        require_number(self, evidence, self.column)
        distribution = censored_distribution(evidence, self.column)
        if self.includes_bound:
            is_below = distribution.high <= self.bound
            is_beyond = distribution.low > self.bound
        else:
            is_below = distribution.high < self.bound
            is_beyond = distribution.low >= self.bound
        # At least the cells that lie below as a whole, at most all that do not beyond.
        min_share, min_noise = distribution.below(int(is_below.sum()))
        max_share, max_noise = distribution.below(int((~is_beyond).sum()))
        share = (min_share + max_share) / 2
        bias = (max_share - min_share) / 2
        noise = max(min_noise, max_noise)
        sampling = 0.0
        if not intervals.finite:
            sampling = distribution.sampling_error(share)
        half_width = intervals.z * math.hypot(noise, sampling) + bias
        return [
            Estimate(
                question=self.text,
                name=self.text,
                value=share,
                low=share - half_width,
                high=share + half_width,
                noise=noise,
                sampling=sampling,
                bias=bias,
            )
        ]
