"""What answers of second moments have in common."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noisegate.answers.domain import Floats
from noisegate.answers.estimates import (
    Estimate,
    Intervals,
    Statistic,
    estimate,
    spread_of_moments,
)
from noisegate.answers.evidence import Evidence
from noisegate.answers.noisy_moments import MomentEstimates, ProductSums, Term
from noisegate.answers.questions.question import (
    Question,
    level_text,
    require_distinct,
    require_levels,
    require_number,
)


def moments_of_columns(
    question: Question, evidence: Evidence, columns: Sequence[str]
) -> MomentEstimates:
    """Returns the moments of columns that a question names.

    Raises:
        OptionError: if there is no such column, or one is named twice.
        NotMeasuredError: if they were not measured, or not together.
        TooNoisyError: if a number is too noisy to be located.
    """
    for name in columns:
        evidence.check_term(name)
    require_distinct(question, [evidence.column_of_term(name) for name in columns])
    return evidence.moments(columns)


def estimate_from_moments(
    question: Question,
    names: Sequence[str],
    statistic: Statistic,
    evidence: Evidence,
    moments: MomentEstimates,
    intervals: Intervals,
) -> list[Estimate]:
    """Estimates functions of second moments.

    Args:
        question: The question.
        names: What each estimate is.
        statistic: Computes them from the sums.
        evidence: Where the moments are from.
        moments: The sums.
        intervals: Which intervals are wanted.
    """
    return estimate(
        question.text,
        names,
        statistic,
        spread_of_moments(evidence, moments, intervals),
        intervals,
        notes=evidence.clipping_notes(moments),
    )


def number_term(moments: ProductSums, column: str) -> tuple[int, Term]:
    """Returns the index of a number's term among all, and the term."""
    index = moments.indices(column)[0]
    return index, moments.terms[index - 1]


def presence_index(moments: ProductSums, column: str) -> int:
    """Returns the index of the term that is 1 where a number is present."""
    index, _ = number_term(moments, column)
    return int(moments.presence_index[index])


def outcome_index(
    question: Question, evidence: Evidence, moments: ProductSums, column: str
) -> int:
    """Returns the index of the term of a number, or of the second of two levels.

    Raises:
        OptionError: if the column has another number of levels, missing included.
    """
    indices = moments.indices(column)
    if evidence.numeric_column(column) is not None:
        return indices[0]
    if len(indices) != 2:
        raise question.error(
            f": {column!r} must be a number, or have two levels, missing included."
        )
    return indices[1]


def regressor_indices(
    evidence: Evidence, moments: ProductSums, column: str
) -> list[int]:
    """Returns a regressor's terms: the number, or all levels but the first."""
    indices = moments.indices(column)
    if evidence.numeric_column(column) is not None:
        return indices[:1]
    return indices[1:]


def group_indices(
    question: Question, evidence: Evidence, moments: ProductSums, group: str | None
) -> list[int]:
    """Returns the indices of the terms of groups; of all records the term 1."""
    if group is None:
        return [0]
    require_levels(question, evidence, group)
    return moments.indices(group)


def group_names(question: Question, evidence: Evidence, group: str | None) -> list[str]:
    """Returns what `quotients_and_differences` are of, in its order."""
    if group is None:
        return [question.text]
    levels = require_levels(question, evidence, group)
    names = [f"{group} = {level_text(level)}" for level in levels]
    differences = [f"difference of {name} to {names[0]}" for name in names[1:]]
    return [*names, *differences]


def quotients_and_differences(numerators: Floats, denominators: Floats) -> Floats:
    """Returns the quotient of each group, and the differences to that of the first.

    A difference a/b − c/d is (a − c·b/d)/b, so that numbers stay of the size of counts.

    Args:
        numerators: Of each group, (groups,).
        denominators: Of each group, (groups,).

    Returns:
        Numerators and denominators, (2, 2·groups − 1).

    Examples:
        >>> import numpy as np
        >>> from noisegate.answers.questions.sums import quotients_and_differences
        >>> both = quotients_and_differences(np.array([3.0, 8.0]), np.array([6.0, 8.0]))
        >>> both[0] / both[1]
        array([0.5, 1. , 0.5])
    """
    first_quotient = numerators[0] / denominators[0]
    differences = numerators[1:] - first_quotient * denominators[1:]
    return np.stack(
        [
            np.append(numerators, differences),
            np.append(denominators, denominators[1:]),
        ]
    )


def mean_products(moments: ProductSums, values: Floats) -> Floats:
    """Returns the mean products of terms, (1 + terms, 1 + terms).

    Means are over the records in which both numbers are present.

    Args:
        moments: Say which products are summed.
        values: The sums, (products,).
    """
    sums = moments.matrix(values)
    presence = moments.presence_index
    records = sums[np.ix_(presence, presence)]
    with np.errstate(all="ignore"):
        return np.asarray(sums / records)


def scale_of_outcome(
    question: Question, evidence: Evidence, moments: ProductSums, column: str
) -> tuple[float, float]:
    """Returns the centre and the scale of a number, or 0 and 1 of a level."""
    if evidence.numeric_column(column) is None:
        return 0.0, 1.0
    require_number(question, evidence, column)
    _, term = number_term(moments, column)
    return term.centre, term.scale
