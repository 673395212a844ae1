"""``y ~ x + g``, ``logit(y) ~ x + g`` and ``poisson(y) ~ x + g``."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np

from noisegate.answers.calibration import (
    EXPONENTIAL,
    LOGISTIC,
    CalibratedRegression,
    MeanFunction,
)
from noisegate.answers.domain import Floats
from noisegate.answers.estimates import (
    Estimate,
    Intervals,
    estimate,
    spread_of_moments,
)
from noisegate.answers.evidence import Evidence
from noisegate.answers.noisy_moments import ProductSums
from noisegate.answers.questions.question import (
    Question,
    column_name,
    level_text,
    register,
    require_number,
    require_two_levels,
)
from noisegate.answers.questions.sums import (
    estimate_from_moments,
    mean_products,
    moments_of_columns,
    number_term,
    outcome_index,
    regressor_indices,
    scale_of_outcome,
)

# `logit(y) ~ x + g`, or without a function `y ~ x + g`.
_MODEL = re.compile(
    r"(?:(?P<function>logit|poisson)\s*\((?P<inner>[^~]*)\)\s*|(?P<outcome>[^~]+))"
    r"~(?P<regressors>[^~]+)"
)
# A name between backquotes.
_QUOTED = re.compile("`[^`]*`")
# Each redraw of the noise solves an equation step by step.
_REDRAWS_OF_SOLUTIONS = 60


class _Formula(NamedTuple):
    """A regression as it was written."""

    function: str | None
    outcome: str
    regressors: tuple[str, ...]


def _parse_formula(text: str) -> _Formula | None:
    """Parses a regression; None if the text is none."""
    match = _MODEL.fullmatch(text)
    if match is None or "*" in _QUOTED.sub("", match["regressors"]):
        # With a product it is an `Interaction`.
        return None
    outcome = match["outcome"] if match["function"] is None else match["inner"]
    regressors = [column_name(name) for name in match["regressors"].split("+")]
    return _Formula(match["function"], column_name(outcome), tuple(regressors))


@register("ols")
@dataclass(frozen=True, kw_only=True)
class LeastSquares(Question):
    """The coefficients of a linear regression.

    Attributes:
        outcome: What is explained: a number, or a column with two levels.
        regressors: What explains it; of a column with levels, all but the first.
    """

    forms = ("y ~ x + g",)
    unit_columns = "all"

    outcome: str
    regressors: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parses the question; None if it is another."""
        formula = _parse_formula(text)
        if formula is None or formula.function is not None:
            return None
        return cls(text=text, outcome=formula.outcome, regressors=formula.regressors)

    @property
    def columns(self) -> tuple[str, ...]:
        """The outcome and the regressors."""
        return self.outcome, *self.regressors

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the intercept and the coefficient of each regressor."""
        moments = moments_of_columns(self, evidence, self.columns)
        design = design_of(evidence, moments, self.regressors)
        outcome = outcome_index(self, evidence, moments, self.outcome)
        centre, scale = scale_of_outcome(self, evidence, moments, self.outcome)
        indices = design.indices
        to_unit = design.to_unit
        intercept = np.eye(len(indices))[0]

        def coefficients(values: Floats) -> Floats:
            means = mean_products(moments, values)
            inner = means[np.ix_(indices, indices)]
            if np.linalg.eigvalsh(inner)[0] <= 0:
                return np.full((2, len(indices)), np.nan)
            inverse = np.linalg.inv(inner)
            solution = to_unit @ inverse @ means[indices, outcome]
            solution_in_unit = solution * scale + centre * intercept
            # A coefficient is a quotient by what the other regressors leave of its own
            # (Frisch and Waugh, Econometrica 1933), whose variance is 1/inverse_jj.
            left = 1 / np.einsum("ij,jk,ik->i", to_unit, inverse, to_unit)
            return np.stack([solution_in_unit * left, left])

        return estimate_from_moments(
            self, design.names, coefficients, evidence, moments, intervals
        )


@dataclass(frozen=True, kw_only=True)
class _GeneralisedRegression(Question):
    """The coefficients of a regression whose mean is no linear function of the score.

    Attributes:
        link: The mean of the outcome by the score.
        outcome: What is explained.
        regressors: What explains it; of a column with levels, all but the first.
    """

    link: ClassVar[MeanFunction]

    outcome: str
    regressors: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parses the question; None if it is another."""
        formula = _parse_formula(text)
        if formula is None or formula.function != cls.name:
            return None
        return cls(text=text, outcome=formula.outcome, regressors=formula.regressors)

    @property
    def columns(self) -> tuple[str, ...]:
        """The outcome and the regressors."""
        return self.outcome, *self.regressors

    @abstractmethod
    def check_outcome(self, evidence: Evidence) -> None:
        """Requires that the outcome is of the kind that the mean is of."""

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the intercept and the coefficient of each regressor."""
        self.check_outcome(evidence)
        moments = moments_of_columns(self, evidence, self.columns)
        self._check_missing(evidence, moments)
        design = design_of(evidence, moments, self.regressors)
        outcome = outcome_index(self, evidence, moments, self.outcome)
        centre, scale = scale_of_outcome(self, evidence, moments, self.outcome)
        regression = CalibratedRegression.of(
            moments, evidence.sample, design.indices, self.link
        )

        def solve(values: Floats) -> Floats:
            means = moments.matrix(values) / max(float(values[0]), 1.0)
            outcome_means = (
                centre * means[design.indices, 0]
                + scale * means[design.indices, outcome]
            )
            return regression.solve(values, outcome_means)

        def coefficients(values: Floats) -> Floats:
            return np.asarray(design.to_unit @ solve(values))

        answers = estimate(
            self.text,
            design.names,
            coefficients,
            spread_of_moments(evidence, moments, intervals),
            intervals,
            redraws=_REDRAWS_OF_SOLUTIONS,
            notes=evidence.clipping_notes(moments),
        )
        covariance = regression.sampling_covariance(solve(moments.values))
        variance = np.diag(design.to_unit @ covariance @ design.to_unit.T)
        errors = np.sqrt(variance).tolist()
        return [
            answer.with_error(error, intervals.z)
            for answer, error in zip(answers, errors, strict=True)
        ]

    def _check_missing(self, evidence: Evidence, moments: ProductSums) -> None:
        """Requires that no number may be missing, for which there is no answer."""
        nullable = [
            repr(evidence.names[number.index])
            for number in moments.feature_map.numeric
            if number.nullable
        ]
        if nullable:
            raise self.error(
                f": {', '.join(nullable)} may be missing, which {self.name} has no "
                "answer for; an OLS leaves such records out, pair by pair."
            )


@register("logit")
@dataclass(frozen=True, kw_only=True)
class Logistic(_GeneralisedRegression):
    """A logistic regression of the second of two levels."""

    forms = ("logit(y) ~ x + g",)
    link = LOGISTIC

    def check_outcome(self, evidence: Evidence) -> None:
        """Requires an outcome with two levels."""
        problem = ": logit needs an outcome with two levels."
        require_two_levels(self, evidence, self.outcome, problem)


@register("poisson")
@dataclass(frozen=True, kw_only=True)
class Poisson(_GeneralisedRegression):
    """A Poisson regression of a number."""

    forms = ("poisson(y) ~ x + g",)
    link = EXPONENTIAL

    def check_outcome(self, evidence: Evidence) -> None:
        """Requires a number."""
        require_number(self, evidence, self.outcome)


class RegressionDesign(NamedTuple):
    """The regressors of a regression, the first of them 1.

    Attributes:
        indices: Their terms among all.
        names: What the coefficients are of.
        to_unit: From coefficients of scaled numbers to those of numbers in their unit,
            (regressors, regressors).
    """

    indices: list[int]
    names: list[str]
    to_unit: Floats


def design_of(
    evidence: Evidence, moments: ProductSums, columns: Sequence[str]
) -> RegressionDesign:
    """Returns the regressors that some columns become."""
    indices = [0]
    names = ["intercept"]
    centres = [0.0]
    scales = [1.0]
    for column in columns:
        column_indices = regressor_indices(evidence, moments, column)
        indices += column_indices
        if evidence.numeric_column(column) is not None:
            _, term = number_term(moments, column)
            names.append(column)
            centres.append(term.centre)
            scales.append(term.scale)
        else:
            other_levels = evidence.levels(column)[1:]
            names += [f"{column} = {level_text(level)}" for level in other_levels]
            centres += [0.0] * len(other_levels)
            scales += [1.0] * len(other_levels)
    # b·(x − centre)/scale is b/scale·x, less a constant in the intercept.
    to_unit = np.diag(1 / np.array(scales))
    to_unit[0] -= np.array(centres) / np.array(scales)
    return RegressionDesign(indices, names, to_unit)
