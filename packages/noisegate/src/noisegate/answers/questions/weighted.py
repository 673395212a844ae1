"""``weighted mean(x)`` and ``weighted share(c = level)``: those of the population.

A survey weight is how many people of the population a record stands for. With weights
w, the weighted mean of x is the quotient of two sums of products (Lumley, *Complex
Surveys*, 2010, section 2.1)::

    Σ w·x / Σ w

over the records that have x; a weighted share is the mean of an indicator. Both sums
follow from the second moments of the two columns, or from their table of counts. Their
error by sampling is that of records that are drawn independently: strata and clusters
of a survey are not known to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from noisegate.answers.domain import Floats
from noisegate.answers.estimates import Estimate, Intervals
from noisegate.answers.evidence import Evidence
from noisegate.answers.noisy_moments import ProductSums
from noisegate.answers.questions.question import (
    Question,
    column_name,
    find_level,
    parse_call,
    parse_level,
    question_error,
    register,
    require_levels,
    require_number,
)
from noisegate.answers.questions.sums import (
    estimate_from_moments,
    moments_of_columns,
    number_term,
    presence_index,
)

_PREFIX = "weighted "


@register("weighted-mean")
@dataclass(frozen=True, kw_only=True)
class WeightedMean(Question):
    """The mean of a number over the population that weighted records stand for.

    Attributes:
        column: The number.
    """

    forms = ("weighted mean(x)",)
    percent_of = "range"
    unit_columns = "first"

    column: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parses the question; None if it is another, an error with groups."""
        inside = _inside_weighted_call(text, "mean")
        if inside is None:
            return None
        return cls(text=text, column=column_name(inside))

    @property
    def columns(self) -> tuple[str, ...]:
        """The number; its weights are those of the schema."""
        return (self.column,)

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the weighted mean."""
        weights = _weights_of_schema(self, evidence)
        require_number(self, evidence, self.column)
        moments = moments_of_columns(self, evidence, [self.column, weights])
        number, term = number_term(moments, self.column)
        present = presence_index(moments, self.column)

        def weighted_mean(values: Floats) -> Floats:
            sums = _weighted_sums(moments, values, weights)
            total = term.centre * sums[present] + term.scale * sums[number]
            return np.array([[total], [sums[present]]])

        return estimate_from_moments(
            self, [self.text], weighted_mean, evidence, moments, intervals
        )


@register("weighted-share")
@dataclass(frozen=True, kw_only=True)
class WeightedShare(Question):
    """The share of the population that has a level.

    Attributes:
        column: A column with levels.
        level: The level, as it was written.
    """

    forms = ("weighted share(c = level)",)
    percent_of = "one"

    column: str
    level: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parses the question; None if it is another, an error with groups."""
        inside = _inside_weighted_call(text, "share")
        column_and_level = None if inside is None else parse_level(inside)
        if column_and_level is None:
            return None
        column, level = column_and_level
        return cls(text=text, column=column, level=level)

    @property
    def columns(self) -> tuple[str, ...]:
        """The column with the level; its weights are those of the schema."""
        return (self.column,)

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the weighted share."""
        weights = _weights_of_schema(self, evidence)
        levels = require_levels(self, evidence, self.column)
        position = find_level(self, levels, self.column, self.level)
        moments = moments_of_columns(self, evidence, [self.column, weights])
        index = moments.indices(self.column)[position]

        def weighted_share(values: Floats) -> Floats:
            sums = _weighted_sums(moments, values, weights)
            return np.array([[sums[index]], [sums[0]]])

        return estimate_from_moments(
            self, [self.text], weighted_share, evidence, moments, intervals
        )


def _inside_weighted_call(text: str, function: str) -> str | None:
    """Returns what stands in the brackets of a weighted call; None of other text.

    Raises:
        OptionError: if the call has groups, of which no products are released.

    Examples:
        >>> _inside_weighted_call("weighted mean(wage)", "mean")
        'wage'
        >>> _inside_weighted_call("mean(wage)", "mean") is None
        True
    """
    if not text.startswith(_PREFIX):
        return None
    call = parse_call(text.removeprefix(_PREFIX).lstrip(), function)
    if call is None:
        return None
    if call.groups:
        raise question_error(
            text,
            ": weighted answers are for all records: leave out 'by', or ask for "
            "weighted shares.",
        )
    return call.inside


def _weights_of_schema(question: Question, evidence: Evidence) -> str:
    """Returns the column of weights; an OptionError if the schema names none."""
    if evidence.weights is None:
        raise question.error(
            ': the schema names no survey weights. Add weights = "COLUMN" at its top '
            "before the fit."
        )
    if evidence.weights in question.columns:
        raise question.error(
            f": {evidence.weights!r} is the column of weights itself; expected another."
        )
    return evidence.weights


def _weighted_sums(moments: ProductSums, values: Floats, weights: str) -> Floats:
    """Computes the sum of each term, weighted by a number in its own unit.

    Args:
        moments: Of the weights and of other columns.
        values: The sums of products, (products,).
        weights: The column of weights, which every record has.

    Returns:
        Weighted sums of 1 and of each term, (1 + terms,).
    """
    sums = moments.matrix(values)
    index, term = number_term(moments, weights)
    present = presence_index(moments, weights)
    return np.asarray(term.centre * sums[present] + term.scale * sums[index])
