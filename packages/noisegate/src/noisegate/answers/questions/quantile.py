"""``median(x)``, ``quantile(x, 0.9)``, ``quantile(x, 0.1, 0.9)``, also by groups.

Quantiles of a group come from the table of the number and the groups, whose cells are
wider than those of the fine histogram; so are their intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from noisegate.answers.distribution import (
    Distribution,
    censored_distribution,
    distribution_of_tables,
    with_limits,
)
from noisegate.answers.estimates import TOO_NOISY, Estimate, Intervals
from noisegate.answers.evidence import Evidence
from noisegate.answers.noisy_table import NoisyTable
from noisegate.answers.questions.groups import names_of_groups
from noisegate.answers.questions.question import (
    Question,
    column_name,
    parse_call,
    question_error,
    register,
    require_number,
)
from noisegate.answers.questions.tables import counts_together

# Fewer records of a group than so many standard deviations of the noise look like none.
_MIN_VISIBLE = 3.0


@register("quantile")
@dataclass(frozen=True, kw_only=True)
class Quantile(Question):
    """Quantiles of a number, in the records that have one.

    Attributes:
        column: The number.
        probabilities: Shares of records below, between 0 and 1, ascending, each once.
        groups: Columns of the groups; none for all records.
    """

    forms = (
        "quantile(x, 0.9)",
        "quantile(x, 0.1, 0.5, 0.9)",
        "median(x)",
        "median(x) by g",
    )
    percent_of = "range"
    unit_columns = "first"
    rests_on = "tables"
    limits_count_as = "ends"

    column: str
    probabilities: tuple[float, ...]
    groups: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parses the question; None if it is another."""
        median = parse_call(text, "median")
        if median is not None and len(median.arguments) == 1:
            return cls(
                text=text,
                column=column_name(median.arguments[0]),
                probabilities=(0.5,),
                groups=median.groups,
            )
        call = parse_call(text, "quantile")
        if call is None or len(call.arguments) < 2:
            return None
        column, *numbers = call.arguments
        probabilities = _parse_probabilities(text, numbers)
        if probabilities is None:
            return None
        return cls(
            text=text,
            column=column_name(column),
            probabilities=probabilities,
            groups=call.groups,
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The number, and the columns of groups."""
        return self.column, *self.groups

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns each quantile, of all records or of each group."""
        require_number(self, evidence, self.column)
        if not self.groups:
            distribution = censored_distribution(evidence, self.column)
            return self._quantiles(distribution, evidence, intervals, group="")
        names = names_of_groups(self, evidence, self.groups)
        table = counts_together(self, evidence, self.columns)
        n_cells = table.domain.shape[0]
        counts = table.counts.reshape(n_cells, -1)
        variance = table.variance.reshape(n_cells, -1)
        domain = table.domain.project([self.column])
        answers = []
        for index, name in enumerate(names):
            of_group = NoisyTable(domain, counts[:, index], variance[:, index])
            answers += self._quantiles_of_group(of_group, name, evidence, intervals)
        return answers

    def _quantiles_of_group(
        self, table: NoisyTable, group: str, evidence: Evidence, intervals: Intervals
    ) -> list[Estimate]:
        """Returns the quantiles of a group, or that its records are below the noise.

        Args:
            table: Counts of the number in the group.
            group: Name of the group.
            evidence: Knows the column.
            intervals: Which intervals are wanted.
        """
        records, variance = table.total
        if records < _MIN_VISIBLE * math.sqrt(variance):
            reason = f"{TOO_NOISY}: the group cannot be distinguished from the noise"
            return [Estimate(question=self.text, name=group, refused=reason)]
        distribution = with_limits(
            distribution_of_tables([table]), evidence, self.column
        )
        return self._quantiles(distribution, evidence, intervals, group)

    def _quantiles(
        self,
        distribution: Distribution,
        evidence: Evidence,
        intervals: Intervals,
        group: str,
    ) -> list[Estimate]:
        """Returns each quantile of a distribution.

        All come from one curve that never falls, so they cannot cross.

        Args:
            distribution: Of the records, with limits.
            evidence: Knows the column.
            intervals: Which intervals are wanted.
            group: Name of the group; empty for all records.
        """
        distribution = replace(
            distribution,
            low=evidence.within_bounds(self.column, distribution.low),
            high=evidence.within_bounds(self.column, distribution.high),
        )
        quantiles = [
            distribution.quantile(probability, intervals)
            for probability in self.probabilities
        ]
        values, lows, highs = np.array(quantiles).T
        # Nor do their intervals: a larger quantile is at least as large as the lower
        # end of a smaller one, and a smaller one at most the upper end of a larger.
        lows = np.maximum.accumulate(lows)
        highs = np.minimum.accumulate(highs[::-1])[::-1]
        return [
            Estimate(
                question=self.text,
                name=self._name_of(probability, group),
                value=float(value),
                low=float(low),
                high=float(high),
            )
            for probability, value, low, high in zip(
                self.probabilities, values, lows, highs, strict=True
            )
        ]

    def _name_of(self, probability: float, group: str) -> str:
        """Returns what an answer is called: the question where it has but one."""
        if group:
            if len(self.probabilities) == 1:
                return group
            return f"{group}: {self.column} at {probability:g}"
        if len(self.probabilities) == 1:
            return self.text
        return f"{self.column} at {probability:g}"


def _parse_probabilities(text: str, numbers: Sequence[str]) -> tuple[float, ...] | None:
    """Parses the probabilities of quantiles.

    Args:
        text: The question, for messages.
        numbers: One or more, as text.

    Returns:
        The probabilities, ascending, each once; None if one is no number.

    Raises:
        OptionError: if one is not between 0 and 1.
    """
    try:
        probabilities = sorted({float(number) for number in numbers})
    except ValueError:
        return None
    for probability in probabilities:
        if not 0 < probability < 1:
            raise question_error(
                text, ": the probability of a quantile must be between 0 and 1."
            )
    return tuple(probabilities)
