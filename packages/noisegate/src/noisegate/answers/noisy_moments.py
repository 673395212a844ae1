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

Each record has one level of a column, so the terms t of a record satisfy R·t = t, with
the matrix R that takes the mean of its n levels off each and adds 1/n. The matrix of
their sums M then is R·M·R'. Noisy sums are not, and contradict each other: the levels
of a column do not add up to the records. R·M·R' of noisy sums does agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from noisegate.answers.domain import Domain, Floats, Level
from noisegate.answers.noisy_table import NoisyTable
from noisegate.queries.moments import Moments

Indices = npt.NDArray[np.intp]

# Keeps the weight of a sum without noise finite.
_MIN_VARIANCE = 1e-12


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
class ProductSums:
    """Sums of products of two terms; term 0 is 1.

    Attributes:
        feature_map: The map from a record to the products that are summed.
        terms: All terms but the first, in the order of the map.
        values: The sums, (products,).

    Examples:
        >>> import numpy as np
        >>> from noisegate.answers.noisy_moments import ProductSums, Term
        >>> from noisegate.queries.moments import Moments
        >>> moments = ProductSums(
        ...     feature_map=Moments(numeric=(), coded=((0, 2),)),
        ...     terms=(Term("ill", "level", False), Term("ill", "level", True)),
        ...     values=np.array([9.0, 6.0, 3.0]),
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
    def level_indices(self) -> dict[str, list[int]]:
        """The indices of the terms of each column with levels, ascending."""
        indices: dict[str, list[int]] = {}
        for index, term in enumerate(self.terms, 1):
            if term.kind == "level":
                indices.setdefault(term.column, []).append(index)
        return indices

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

    @cached_property
    def reduction(self) -> Floats:
        """R of the module's docstring, (1 + terms, 1 + terms)."""
        reduction = np.eye(len(self.terms) + 1)
        for levels in self.level_indices.values():
            reduction[np.ix_(levels, levels)] -= 1 / len(levels)
            reduction[levels, 0] += 1 / len(levels)
        return reduction

    def made_to_agree(self, values: Floats) -> Floats:
        """Makes sums agree: the levels of a column add up to the records.

        What it gives of two columns follows from their own products and, where these
        say nothing of it, from the sums of each. That is the least-squares estimate
        where the noise of all products of two columns is the same, and each column's
        sums are the best there are (as in `reconcile`).

        Args:
            values: `self.values`, or others in their place, (products,).

        Examples:
            >>> import numpy as np
            >>> from noisegate.answers.noisy_moments import ProductSums, Term
            >>> from noisegate.queries.moments import Moments
            >>> sums = ProductSums(
            ...     feature_map=Moments(numeric=(), coded=((0, 2),)),
            ...     terms=(Term("ill", "level", False), Term("ill", "level", True)),
            ...     values=np.array([10.0, 6.0, 3.0]),
            ... )
            >>> sums.made_to_agree(sums.values)
            array([10. ,  6.5,  3.5])
        """
        left, right = self.factors
        agreeing = self.reduction @ self.matrix(values) @ self.reduction.T
        return np.asarray(agreeing[left, right])

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


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyMoments(ProductSums):
    """Released sums of products, with independent noise.

    Attributes:
        variance: Variance of the noise on each, (products,).
    """

    variance: Floats

    def tables(self, domain: Domain) -> Iterator[NoisyTable]:
        """Yields what the sums say of counts, as tables.

        These are the number of records, the counts of each column with levels, and
        those of each pair of them.

        Args:
            domain: Has the cells of the columns.
        """
        sums = self.matrix(self.values)
        variance = self.matrix(self.variance)
        for n_columns in range(3):
            for names in combinations(self.level_indices, n_columns):
                # A missing axis is that of the term 1.
                axes = [[0]] * (2 - n_columns)
                axes += [self.level_indices[name] for name in names]
                cells = domain.project(names)
                yield NoisyTable(
                    cells,
                    sums[np.ix_(*axes)].reshape(cells.shape),
                    variance[np.ix_(*axes)].reshape(cells.shape),
                )

    @cached_property
    def pooled(self) -> NoisyMoments:
        """The same, in which the sum of a number counts all that states it.

        A number's products with the levels of another column add up to its own sum, in
        which the noise of n levels is together. Both are weighted by inverse variance.
        """
        sums = self.matrix(self.values)
        variances = self.matrix(self.variance)
        weights = 1 / np.maximum(variances[0], _MIN_VARIANCE)
        weighted_sums = weights * sums[0]
        for levels in self.level_indices.values():
            sums_over_levels = sums[levels].sum(axis=0)
            weight = 1 / np.maximum(variances[levels].sum(axis=0), _MIN_VARIANCE)
            weighted_sums += weight * sums_over_levels
            weights += weight
        values = self.values.copy()
        variance = self.variance.copy()
        left, right = self.factors
        is_number = np.array([False] + [term.kind != "level" for term in self.terms])
        is_sum = (left == 0) & is_number[right]
        values[is_sum] = (weighted_sums / weights)[right[is_sum]]
        variance[is_sum] = (1 / weights)[right[is_sum]]
        return replace(self, values=values, variance=variance)


@dataclass(frozen=True, kw_only=True, eq=False)
class MomentEstimates(ProductSums):
    """Estimates of sums of products, by all that a release states of them, that agree.

    Attributes:
        source_std: Standard deviation of the noise on each product before they were
            made to agree, which is independent, (products,).
        bias: What each may be off by beside its noise: standard deviations, a column
            for each independent cause, such as the width of a cell, (products, causes).
    """

    source_std: Floats
    bias: Floats

    @classmethod
    def agreeing(cls, sums: ProductSums, source_std: Floats, bias: Floats) -> Self:
        """Makes estimates that contradict each other agree.

        Args:
            sums: The estimates.
            source_std: Standard deviations of their independent noise, (products,).
            bias: What they may be off by beside, (products, causes).
        """
        agreeing_bias = [sums.made_to_agree(by_cause) for by_cause in bias.T]
        return cls(
            feature_map=sums.feature_map,
            terms=sums.terms,
            values=sums.made_to_agree(sums.values),
            source_std=source_std,
            bias=np.reshape(agreeing_bias, bias.T.shape).T,
        )

    @property
    def noise(self) -> Floats:
        """The noise of each product by its independent sources, (products, sources).

        Entries are standard deviations with signs. Source k is what was on product k.
        """
        left, right = self.factors
        reduction = self.reduction
        projection = reduction[np.ix_(left, left)] * reduction[np.ix_(right, right)]
        # A product of two terms stands in M on either side of the diagonal.
        mirrored = reduction[np.ix_(left, right)] * reduction[np.ix_(right, left)]
        mirrored[:, left == right] = 0.0
        return np.asarray((projection + mirrored) * self.source_std)
