"""``median(x)``, ``quantile(x, 0.9)`` and ``quantile(x, 0.1, 0.5, 0.9)``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from noisegate.answers.distribution import censored_distribution
from noisegate.answers.estimates import Estimate, Intervals
from noisegate.answers.evidence import Evidence
from noisegate.answers.questions.question import (
    Question,
    column_name,
    parse_call,
    question_error,
    register,
    require_number,
)


@register("quantile")
@dataclass(frozen=True, kw_only=True)
class Quantile(Question):
    """Quantiles of a number, in the records that have one.

    Attributes:
        column: The number.
        probabilities: Shares of records below, between 0 and 1, ascending, each once.
    """

    forms = ("quantile(x, 0.9)", "quantile(x, 0.1, 0.5, 0.9)", "median(x)")
    percent_of = "range"
    unit_columns = "first"
    rests_on = "tables"
    limits_count_as = "ends"

    column: str
    probabilities: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parses the question; None if it is another."""
        median = parse_call(text, "median")
        if median is not None and not median.groups and len(median.arguments) == 1:
            column = column_name(median.arguments[0])
            return cls(text=text, column=column, probabilities=(0.5,))
        call = parse_call(text, "quantile")
        if call is None or call.groups or len(call.arguments) < 2:
            return None
        column, *numbers = call.arguments
        probabilities = _parse_probabilities(text, numbers)
        if probabilities is None:
            return None
        return cls(text=text, column=column_name(column), probabilities=probabilities)

    @property
    def columns(self) -> tuple[str, ...]:
        """The number."""
        return (self.column,)

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns each quantile.

        All come from one curve that never falls, so they cannot cross.
        """
        require_number(self, evidence, self.column)
        distribution = censored_distribution(evidence, self.column)
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
                name=self._name_of(probability),
                value=float(value),
                low=float(low),
                high=float(high),
            )
            for probability, value, low, high in zip(
                self.probabilities, values, lows, highs, strict=True
            )
        ]

    def _name_of(self, probability: float) -> str:
        """Returns what an answer is called: the question where it has but one."""
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
