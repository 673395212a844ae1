"""``y ~ a * b``: a linear regression with an interaction of two columns.

Its coefficients follow from a regression on one column in each level of the other. With
intercept and slopes (α₀, β₀) in the first level of a, and (αₖ, βₖ) in level k,

    y = α₀ + β₀·b + Σₖ (αₖ − α₀)·1[a = k] + Σₖ (βₖ − β₀)·b·1[a = k]
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

import numpy as np

from noisegate.answers.domain import Floats
from noisegate.answers.estimates import Estimate, Intervals, estimate
from noisegate.answers.evidence import Evidence
from noisegate.answers.questions.arms import arms_of
from noisegate.answers.questions.question import (
    Question,
    column_name,
    level_text,
    register,
    require_distinct,
)
from noisegate.answers.questions.regression import design_of
from noisegate.answers.questions.sums import scale_of_outcome

_FORMULA = re.compile(r"(?P<outcome>[^~]+)~(?P<first>[^~*+]+)\*(?P<second>[^~*+]+)")


@register("interaction")
@dataclass(frozen=True, kw_only=True)
class Interaction(Question):
    """The coefficients of a linear regression on two columns and their product.

    Attributes:
        outcome: What is explained: a number, or a column with two levels.
        first: A column.
        second: Another one; one of both has levels.
    """

    forms = ("y ~ a * b",)
    unit_columns = "all"

    outcome: str
    first: str
    second: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parses the question; None if it is another."""
        match = _FORMULA.fullmatch(text)
        if match is None or match["outcome"].startswith(("logit", "poisson")):
            return None
        return cls(
            text=text,
            outcome=column_name(match["outcome"]),
            first=column_name(match["first"]),
            second=column_name(match["second"]),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The outcome and both columns."""
        return self.outcome, self.first, self.second

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the coefficients of the columns and of their products."""
        for name in self.columns:
            evidence.check_term(name)
        require_distinct(self, [evidence.column_of_term(name) for name in self.columns])
        group, regressor = self._group_and_regressor(evidence)
        arms = arms_of(
            self,
            evidence,
            intervals,
            group=group,
            outcome=self.outcome,
            regressors=[regressor],
        )
        first_moments = arms.moments[0]
        design = design_of(evidence, first_moments, [regressor])
        centre, scale = scale_of_outcome(self, evidence, first_moments, self.outcome)
        intercept = np.eye(len(arms.regressors))[0]

        def coefficients(values: Floats) -> Floats:
            in_unit = [
                scale * design.to_unit @ of_arm + centre * intercept
                for of_arm in arms.coefficients(values)
            ]
            differences = [of_arm - in_unit[0] for of_arm in in_unit[1:]]
            return np.concatenate([in_unit[0], *differences])

        names = list(design.names)
        for level in arms.levels[1:]:
            of_level = f"{group} = {level_text(level)}"
            names += [of_level, *(f"{of_level} × {name}" for name in design.names[1:])]
        return estimate(self.text, names, coefficients, arms.spread, intervals)

    def _group_and_regressor(self, evidence: Evidence) -> tuple[str, str]:
        """Returns in whose levels the regressions are, and on what.

        The label comes first among columns with levels, as all tables hold it.

        Raises:
            OptionError: if both columns are numbers.
        """
        with_levels = [
            name
            for name in (self.first, self.second)
            if evidence.numeric_column(name) is None
        ]
        if not with_levels:
            raise self.error(
                f": {self.first!r} and {self.second!r} are numbers; one of them must "
                "have levels."
            )
        label = evidence.label
        group = label if label in with_levels else with_levels[0]
        others = [name for name in (self.first, self.second) if name != group]
        return group, others[0]
