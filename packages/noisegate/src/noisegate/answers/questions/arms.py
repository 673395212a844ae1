"""Regressions in each level of a column: what effects and interactions follow from.

Sums of products of two terms do not say how a third column changes them. Where tables
of three columns were measured, sums within each level of one of them follow, and with
them a regression for each level, or *arm*::

    tables of (y, x, a) ──condition on a──► sums in arm 1 ──► coefficients in arm 1
                                            sums in arm 2 ──► coefficients in arm 2

The noise of arms is independent, as they have no cell in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisegate.answers.domain import Floats, Level
from noisegate.answers.estimates import Intervals, Spread, spread_of_moments
from noisegate.answers.evidence import Evidence, NotMeasuredError
from noisegate.answers.noisy_moments import MomentEstimates
from noisegate.answers.questions.question import Question, level_text
from noisegate.answers.questions.sums import (
    mean_products,
    moments_of_columns,
    outcome_index,
    regressor_indices,
)

# Fewer records than so many standard deviations of the noise look like none.
_MIN_VISIBLE = 3.0


@dataclass(frozen=True, kw_only=True)
class Arms:
    """Noisy sums of the same products in each level of a column.

    Attributes:
        levels: The levels.
        moments: The sums in each, with the same terms.
        spread: All sums, one level after the other, and how they vary.
        outcome: Index of the outcome's term.
        regressors: Indices of the regressors' terms, the first of them that of 1.
    """

    levels: tuple[Level, ...]
    moments: tuple[MomentEstimates, ...]
    spread: Spread
    outcome: int
    regressors: list[int]

    def split(self, values: Floats) -> list[Floats]:
        """Splits sums of all arms into those of each, (products,) each."""
        return np.split(values, len(self.levels))

    def coefficients(self, values: Floats) -> list[Floats]:
        """Computes the least squares coefficients in each arm, (regressors,) each.

        They are of scaled terms, and NaN where the noise leaves no solution.

        Args:
            values: Sums of all arms, (arms·products,).
        """
        return [
            self._solve(moments, of_arm)
            for moments, of_arm in zip(self.moments, self.split(values), strict=True)
        ]

    def _solve(self, moments: MomentEstimates, values: Floats) -> Floats:
        """Computes the coefficients of one arm."""
        means = mean_products(moments, values)
        inner = means[np.ix_(self.regressors, self.regressors)]
        is_usable = np.isfinite(inner).all() and np.linalg.eigvalsh(inner)[0] > 0
        if not is_usable:
            return np.full(len(self.regressors), np.nan)
        return np.asarray(np.linalg.solve(inner, means[self.regressors, self.outcome]))


def arms_of(
    question: Question,
    evidence: Evidence,
    intervals: Intervals,
    *,
    group: str,
    outcome: str,
    regressors: Sequence[str],
) -> Arms:
    """Returns the sums of regressions in each level of a column.

    Args:
        question: The question.
        evidence: What the release says.
        intervals: Which intervals are wanted.
        group: The column whose levels are the arms.
        outcome: What is explained.
        regressors: What explains it.

    Raises:
        OptionError: if a column does not fit the question.
        NotMeasuredError: if no table holds three columns that are needed together, or
            the records of an arm are too noisy.
    """
    columns = [outcome, *regressors]
    for name in columns:
        # Before arms are built, so that a wrong name is refused as elsewhere.
        evidence.check_term(name)
    levels = evidence.levels(group)
    moments = []
    spreads = []
    for level in levels:
        of_arm = evidence.of_group(group, level)
        records, variance = of_arm.total
        if records < _MIN_VISIBLE * np.sqrt(variance):
            raise NotMeasuredError(
                f"query {question.text!r}: too noisy to see the records with "
                f"{group} = {level_text(level)}."
            )
        try:
            moments.append(moments_of_columns(question, of_arm, columns))
        except NotMeasuredError:
            raise _not_measured_in_arms(question, group, columns) from None
        spreads.append(spread_of_moments(of_arm, moments[-1], intervals))
    first = moments[0]
    regressor_terms = [0]
    for name in regressors:
        regressor_terms += regressor_indices(evidence, first, name)
    return Arms(
        levels=levels,
        moments=tuple(moments),
        spread=_together(spreads),
        outcome=outcome_index(question, evidence, first, outcome),
        regressors=regressor_terms,
    )


def _together(spreads: Sequence[Spread]) -> Spread:
    """Returns independent sums as one, one after the other."""
    return Spread(
        values=np.concatenate([spread.values for spread in spreads]),
        noise=_block_diagonal([spread.noise for spread in spreads]),
        bias=_block_diagonal([spread.bias for spread in spreads]),
        sampling=_block_diagonal([spread.sampling for spread in spreads]),
    )


def _block_diagonal(blocks: Sequence[Floats]) -> Floats:
    """Returns a matrix with blocks along its diagonal, and 0 elsewhere."""
    rows = sum(block.shape[0] for block in blocks)
    columns = sum(block.shape[1] for block in blocks)
    matrix = np.zeros((rows, columns))
    row = column = 0
    for block in blocks:
        height, width = block.shape
        matrix[row : row + height, column : column + width] = block
        row += height
        column += width
    return matrix


def _not_measured_in_arms(
    question: Question, group: str, columns: Sequence[str]
) -> NotMeasuredError:
    """Returns the error where tables of three columns lack, with how to have them."""
    others = " and ".join(repr(name) for name in columns)
    return NotMeasuredError(
        f"query {question.text!r}: {others} were not measured together within each "
        f"level of {group!r}. Make {group!r} the label of the schema, or name the "
        "three columns in the setting triples of method='pairwise', before the fit."
    )
