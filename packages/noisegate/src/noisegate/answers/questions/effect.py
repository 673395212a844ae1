"""``effect(y, treated | x1 + x2)``: an average treatment effect, by standardisation.

It is the mean outcome if all were treated, less that if nobody were (Hernán and Robins,
*Causal Inference: What If*, 2020, section 13.1). If the columns after the bar are all
that decides both treatment and outcome, and a regression of the outcome on them holds
in each arm with coefficients β₁ and β₀, that is

    Σᵢ xᵢ·(β₁ − β₀) / n

over the x of all records. Arms have coefficients of their own where tables hold the
treatment with two more columns, as with the treatment as the label. Where they do not,
the effect is the coefficient of the treatment in one regression of all records, which
takes it to be the same for everybody.

Where one arm has no records, an effect is a guess by the regression alone. So it is
refused unless both arms are seen in cells that hold nearly all records.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from noisegate.answers.domain import Floats
from noisegate.answers.estimates import Estimate, Intervals, estimate
from noisegate.answers.evidence import Evidence, NotMeasuredError
from noisegate.answers.questions.arms import Arms, arms_of
from noisegate.answers.questions.question import (
    Question,
    column_name,
    level_text,
    parse_call,
    register,
    require_two_levels,
)
from noisegate.answers.questions.regression import LeastSquares
from noisegate.answers.questions.sums import scale_of_outcome
from noisegate.answers.questions.tables import counts_together

# Both arms must be seen in cells that hold all but this part of the records.
_MAX_PART_WITHOUT_OVERLAP = 0.1
# An arm is seen in a cell if it has this part of its records, beyond the noise.
_MIN_PART_OF_ARM = 0.02
_MIN_VISIBLE = 1.0  # standard deviations of the noise


@register("effect")
@dataclass(frozen=True, kw_only=True)
class TreatmentEffect(Question):
    """The average effect of a treatment with two levels on an outcome.

    Attributes:
        outcome: A number, or a column with two levels.
        treatment: A column with two levels; the effect is of the second.
        covariates: What is adjusted for; none for the difference of both arms.
    """

    forms = ("effect(y, treated | x1 + x2)",)

    outcome: str
    treatment: str
    covariates: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parses the question; None if it is another."""
        call = parse_call(text, "effect")
        if call is None or call.groups:
            return None
        pair, _, others = call.inside.partition("|")
        names = [column_name(name) for name in pair.split(",")]
        if len(names) != 2:
            return None
        covariates = [
            column_name(name) for name in re.split(r"[,+]", others) if name.strip()
        ]
        outcome, treatment = names
        return cls(
            text=text,
            outcome=outcome,
            treatment=treatment,
            covariates=tuple(covariates),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The outcome, the treatment and the covariates."""
        return self.outcome, self.treatment, *self.covariates

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the effect of the second level, less the first."""
        problem = f": {self.treatment!r} must have two levels, such as yes and no."
        require_two_levels(self, evidence, self.treatment, problem)
        if self.treatment in (self.outcome, *self.covariates):
            raise self.error(" names a column twice.")
        for covariate in self.covariates:
            without_overlap = self._part_without_overlap(evidence, covariate)
            if without_overlap > _MAX_PART_WITHOUT_OVERLAP:
                return self.refused(
                    f"overlap cannot be seen: {without_overlap:.0%} of the records are "
                    f"where {covariate!r} has no visible records of one level of "
                    f"{self.treatment!r}"
                )
        try:
            arms = arms_of(
                self,
                evidence,
                intervals,
                group=self.treatment,
                outcome=self.outcome,
                regressors=self.covariates,
            )
        except NotMeasuredError:
            return self._pooled_effect(evidence, intervals)
        return self._standardised_effect(arms, evidence, intervals)

    @property
    def _name(self) -> str:
        """What the answer is called."""
        return f"effect of {self.treatment} on {self.outcome}"

    def _part_without_overlap(self, evidence: Evidence, covariate: str) -> float:
        """Estimates the part of the records in cells where an arm is not seen.

        Args:
            evidence: What the release says.
            covariate: A column that is adjusted for, or its logarithm.

        Raises:
            NotMeasuredError: if no table holds the covariate and the treatment.
        """
        column = evidence.column_of_term(covariate)
        table = counts_together(self, evidence, [column, self.treatment])
        counts = np.maximum(table.counts, 0.0)
        records = counts.sum(axis=1)
        is_visible = table.counts >= _MIN_VISIBLE * np.sqrt(table.variance)
        is_enough = counts >= _MIN_PART_OF_ARM * records[:, None]
        has_both = (is_visible & is_enough).all(axis=1)
        return float(records[~has_both].sum() / max(records.sum(), 1.0))

    def _standardised_effect(
        self, arms: Arms, evidence: Evidence, intervals: Intervals
    ) -> list[Estimate]:
        """Returns the difference of the regressions of arms at the x of all records."""
        first_moments = arms.moments[0]
        _, scale = scale_of_outcome(self, evidence, first_moments, self.outcome)
        presence = first_moments.presence_index[arms.regressors]

        def effect(values: Floats) -> Floats:
            control, treated = arms.coefficients(values)
            sums = np.zeros((2, len(arms.regressors)))
            for moments, of_arm in zip(arms.moments, arms.split(values), strict=True):
                matrix = moments.matrix(of_arm)
                sums += [matrix[0, arms.regressors], matrix[0, presence]]
            means = sums[0] / sums[1]
            return np.array([scale * means @ (treated - control)])

        answers = estimate(self.text, [self._name], effect, arms.spread, intervals)
        note = "numbers are linear in each level of the treatment"
        return [self._with_notes(answer, evidence, note) for answer in answers]

    def _pooled_effect(
        self, evidence: Evidence, intervals: Intervals
    ) -> list[Estimate]:
        """Returns the coefficient of the treatment in one regression of all records."""
        regressors = (self.treatment, *self.covariates)
        regression = LeastSquares(
            text=self.text, outcome=self.outcome, regressors=regressors
        )
        # The intercept comes first, and then the second level of the treatment.
        _, coefficient, *_ = regression.answer(evidence, intervals)
        note = (
            "the effect is taken to be the same for everybody; with "
            f"{self.treatment!r} as the label of the schema it need not be"
        )
        answer = replace(coefficient, name=self._name)
        return [self._with_notes(answer, evidence, note)]

    def _with_notes(self, answer: Estimate, evidence: Evidence, note: str) -> Estimate:
        """Returns an answer with what it assumes."""
        first_level, second_level = evidence.levels(self.treatment)
        compared = (
            f"{level_text(second_level)} less {level_text(first_level)}, if nothing but "
            f"{' and '.join(self.covariates) or 'chance'} decides who is treated"
        )
        return replace(answer, notes=(*answer.notes, compared, note))
