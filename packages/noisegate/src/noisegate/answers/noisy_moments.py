"""Noisy sums, over all records, of products of two functions of their columns.

They are what regressions and correlations follow from (`queries.moments` measures
them). With the terms 1, z₁, z₂ … of a record, the sums are a symmetric matrix::

           1          z₁         z₂
    1      records    Σ z₁       Σ z₂
    z₁     Σ z₁       Σ z₁²      Σ z₁·z₂
    z₂     Σ z₂       Σ z₁·z₂    Σ z₂²

A term is a number between its bounds, whether a number is present, or whether a column
has a level. Not all entries are measured: an indicator is its own square, and two
levels of one column have no record in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from noisegate.answers.domain import Domain, Floats, Level
from noisegate.answers.noisy_table import NoisyTable
from noisegate.queries.moments import Moments

Indices = npt.NDArray[np.intp]


class Term(NamedTuple):
    """A function of one column of a record.

    Attributes:
        column: Name of the column.
        kind: "number" is (x − centre)/scale, 0 where x is missing; "present" is 1 where
            x is not missing; "level" is 1 where the column has the level.
        level: The level; None of other kinds, and for missing values.
        centre: In the unit of the column.
        scale: In the unit of the column.
    """

    column: str
    kind: Literal["number", "present", "level"]
    level: Level = None
    centre: float = 0.0
    scale: float = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyMoments:
    """Noisy sums of products of two terms; term 0 is 1.

    Attributes:
        feature_map: The map from a record to the products that are summed.
        terms: All terms but the first, in the order of the map.
        values: The sums, (products,).
        variance: Variance of the noise on each, which is independent, (products,).
        bias: What each may be off by beside its noise: standard deviations, a column
            for each independent cause, (products, causes). Released sums have none;
            sums that are estimated from tables have that of the width of their cells.

    Examples:
        >>> import numpy as np
        >>> from noisegate.answers.noisy_moments import NoisyMoments, Term
        >>> from noisegate.queries.moments import Moments
        >>> ill = Moments(numeric=(), coded=((0, 2),))
        >>> moments = NoisyMoments(
        ...     feature_map=ill,
        ...     terms=(Term("ill", "level", False), Term("ill", "level", True)),
        ...     values=np.array([9.0, 6.0, 3.0]),
        ...     variance=np.ones(3),
        ...     bias=np.zeros((3, 0)),
        ... )
        >>> moments.matrix(moments.values)
        array([[9., 6., 3.],
               [6., 6., 0.],
               [3., 0., 3.]])
        >>> moments.indices("ill")
        [1, 2]
    """

    feature_map: Moments
    terms: tuple[Term, ...]
    values: Floats
    variance: Floats
    bias: Floats

    @property
    def factors(self) -> tuple[Indices, Indices]:
        """Indices of the two terms of each product, (products,) each."""
        return self.feature_map.entries

    def indices(self, column: str) -> list[int]:
        """Returns the indices of a column's terms, ascending; none of a column without.

        A number comes before its presence; levels are in the order of the column.
        """
        return [i for i, term in enumerate(self.terms, 1) if term.column == column]

    @cached_property
    def presence_index(self) -> Indices:
        """The term that is 1 where a term may be other than 0, (1 + terms,).

        For a number that may be missing it is its presence, for all others the term 1.
        """
        presence = np.zeros(len(self.terms) + 1, dtype=np.intp)
        for index, term in enumerate(self.terms, 1):
            if term.kind == "number" and self._has_presence(index):
                presence[index] = index + 1
        return presence

    def matrix(self, values: Floats) -> Floats:
        """Arranges a number for each product by its two terms.

        Args:
            values: `self.values`, or others in their place, (products,).

        Returns:
            A symmetric matrix, (1 + terms, 1 + terms). Products that were not measured
            are those that they equal; two levels of one column have 0.
        """
        size = len(self.terms) + 1
        matrix = np.zeros((size, size))
        left, right = self.factors
        matrix[left, right] = values
        matrix[right, left] = values
        alone, other = self._implied_products
        matrix[alone, other] = matrix[0, alone]
        matrix[other, alone] = matrix[0, alone]
        return matrix

    def tables(self, domain: Domain) -> Iterator[NoisyTable]:
        """Yields what the sums say of counts, as tables.

        These are the number of records, the counts of each column with levels, and
        those of each pair of them.

        Args:
            domain: Has the cells of the columns.
        """
        sums = self.matrix(self.values)
        variance = self.matrix(self.variance)
        level_columns = dict.fromkeys(
            term.column for term in self.terms if term.kind == "level"
        )
        for n_columns in range(3):
            for names in combinations(level_columns, n_columns):
                # A missing axis is that of the term 1.
                axes = [[0]] * (2 - n_columns) + [self.indices(name) for name in names]
                cells = domain.project(names)
                yield NoisyTable(
                    cells,
                    sums[np.ix_(*axes)].reshape(cells.shape),
                    variance[np.ix_(*axes)].reshape(cells.shape),
                )

    @cached_property
    def _implied_products(self) -> tuple[Indices, Indices]:
        """Pairs of terms whose product is the first of them, (pairs,) each.

        An indicator is its own square. A number is 0 where it is missing, so its
        product with the indicator of its presence is the number.
        """
        first = []
        second = []
        for index, term in enumerate(self.terms, 1):
            if term.kind != "number":
                first.append(index)
                second.append(index)
            elif self._has_presence(index):
                first.append(index)
                second.append(index + 1)
        return np.array(first, dtype=np.intp), np.array(second, dtype=np.intp)

    def _has_presence(self, index: int) -> bool:
        """Tells whether the term after a number, counted from 1, is its presence."""
        presence = Term(self.terms[index - 1].column, "present")
        return index < len(self.terms) and self.terms[index] == presence
