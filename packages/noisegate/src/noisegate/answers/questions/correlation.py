"""``corr(x, y)`` and ``partial(x, y | z)``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Self

import numpy as np

from noisegate.answers.domain import Floats
from noisegate.answers.estimates import Estimate, Intervals
from noisegate.answers.evidence import Evidence
from noisegate.answers.questions.question import (
    Question,
    column_name,
    parse_call,
    register,
)
from noisegate.answers.questions.sums import (
    estimate_from_moments,
    mean_products,
    moments_of_columns,
    outcome_index,
    regressor_indices,
)
from noisegate.answers.questions.tables import QuestionOfTwoColumns


@register("corr")
@dataclass(frozen=True, kw_only=True)
class Correlation(QuestionOfTwoColumns):
    """The correlation of two columns, numbers or with two levels."""

    forms = ("corr(x, y)",)
    percent_of = "one"

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the correlation."""
        return _partial_correlation(
            self, (self.first, self.second), (), evidence, intervals
        )


@register("partial")
@dataclass(frozen=True, kw_only=True)
class PartialCorrelation(Question):
    """The correlation of what two columns have beside their regression on others.

    Attributes:
        first: A column, a number or with two levels.
        second: Another one.
        others: The columns that are regressed on.
    """

    forms = ("partial(x, y | z)",)
    percent_of = "one"

    first: str
    second: str
    others: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parses the question; None if it is another."""
        call = parse_call(text, "partial")
        if call is None or call.groups:
            return None
        pair, bar, others = call.inside.partition("|")
        names = [column_name(name) for name in pair.split(",")]
        if not bar or len(names) != 2:
            return None
        other_names = [column_name(name) for name in re.split(r"[,+]", others)]
        return cls(
            text=text, first=names[0], second=names[1], others=tuple(other_names)
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Both columns, and the others."""
        return self.first, self.second, *self.others

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the partial correlation."""
        return _partial_correlation(
            self, (self.first, self.second), self.others, evidence, intervals
        )


def _partial_correlation(
    question: Question,
    pair: tuple[str, str],
    others: tuple[str, ...],
    evidence: Evidence,
    intervals: Intervals,
) -> list[Estimate]:
    """Estimates the correlation of a pair of columns given others."""
    moments = moments_of_columns(question, evidence, [*pair, *others])
    outcomes = [outcome_index(question, evidence, moments, name) for name in pair]
    regressors = [0]
    for name in others:
        regressors += regressor_indices(evidence, moments, name)

    def correlation(values: Floats) -> Floats:
        means = mean_products(moments, values)
        try:
            coefficients = np.linalg.solve(
                means[np.ix_(regressors, regressors)],
                means[np.ix_(regressors, outcomes)],
            )
        except np.linalg.LinAlgError:
            return np.full((2, 1), np.nan)
        # The covariance of what the regression leaves.
        residual = (
            means[np.ix_(outcomes, outcomes)]
            - means[np.ix_(outcomes, regressors)] @ coefficients
        )
        denominator = math.nan
        if residual[0, 0] > 0 and residual[1, 1] > 0:
            denominator = math.sqrt(residual[0, 0] * residual[1, 1])
        return np.array([[residual[0, 1]], [denominator]])

    return estimate_from_moments(
        question, [question.text], correlation, evidence, moments, intervals
    )
