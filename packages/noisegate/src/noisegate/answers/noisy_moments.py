"""Noisy sums, over all records, of products of two functions of their columns.

They are what regressions and correlations follow from (`queries.moments` measures
them). With the terms 1, z₁, z₂ … of a record, the sums are a symmetric matrix::

           1          z₁         z₂
    1      records    Σ z₁       Σ z₂
    z₁     Σ z₁       Σ z₁²      Σ z₁·z₂
    z₂     Σ z₂       Σ z₁·z₂    Σ z₂²

A term is a number between its bounds, whether a number is present, or whether a column
has a level. Products of the latter are counts, and so `tables` of them are noisy tables
like others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from noisegate.answers.domain import Domain, Floats, Level
from noisegate.answers.noisy_table import NoisyTable


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


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """Noisy sums of all products of two terms; term 0 is 1.

    Attributes:
        terms: All terms but the first.
        sums: Symmetric, (1 + terms, 1 + terms).
        variance: Of the noise on each sum; 0 where it is known, as for two levels of
            one column, which no record has.

    Examples:
        >>> import numpy as np
        >>> from noisegate.answers.domain import Domain
        >>> from noisegate.answers.noisy_moments import NoisyMoments, Term
        >>> terms = Term("ill", "level", False), Term("ill", "level", True)
        >>> sums = np.array([[9.0, 6.0, 3.0], [6.0, 6.0, 0.0], [3.0, 0.0, 3.0]])
        >>> moments = NoisyMoments(terms, sums, np.ones((3, 3)))
        >>> domain = Domain.of({"ill": (False, True)})
        >>> [table.counts.tolist() for table in moments.tables(domain)]
        [9.0, [6.0, 3.0]]
    """

    terms: tuple[Term, ...]
    sums: Floats
    variance: Floats

    def tables(self, domain: Domain) -> Iterator[NoisyTable]:
        """Yields what the sums say of counts, as tables.

        These are the number of records, the counts of each column with levels, and
        those of each pair of them.

        Args:
            domain: Has the cells of the columns.
        """
        indices: dict[str, list[int]] = {}
        for index, term in enumerate(self.terms, 1):
            if term.kind == "level":
                indices.setdefault(term.column, []).append(index)
        for size in range(3):
            for names in combinations(indices, size):
                # A missing axis is that of the term 1.
                axes = [[0]] * (2 - size) + [indices[name] for name in names]
                cells = domain.project(names)
                yield NoisyTable(
                    cells,
                    self.sums[np.ix_(*axes)].reshape(cells.shape),
                    self.variance[np.ix_(*axes)].reshape(cells.shape),
                )
