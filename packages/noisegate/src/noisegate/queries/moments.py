"""Second moments: the vector of a record holds the products of two of its terms, from which regressions follow.

The terms of a record are 1; of each numeric column z = (x - centre) / scale, clipped to [-1, 1] and 0 where the value
is missing; where it may be, 1 if it is present; of each coded column 1 for the level that the record has, 0 for others.
Entries are all products of terms of two columns, each once, the terms themselves, and z². With t terms other than 0 in
each column, T of them in all and p numeric columns, their squares sum to at most 1 + T + Σ_(i<j) t_i t_j + p.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from noisegate.queries.feature_map import Vectors
from noisegate.schema import EncodedTable, Layout
from noisegate.schema.layout import bound_positions

Ranges = Mapping[int, tuple[float, float, float]]
"""Positions that become -1 and 1 of numeric columns, and about how many records lie beyond either."""


@dataclass(frozen=True, kw_only=True)
class Scaled:
    """A numeric column: `low` and `high`, positions within its bounds, become -1 and 1."""

    place: int
    low: float
    high: float
    start: (
        float  # positions outside its bounds are those of atoms: they count as missing
    )
    stop: float
    nullable: bool
    tail: float = 0.0  # about how many records are clipped at either end


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """The map from a record to its products of two terms. Everything in it is public.

    Attributes:
        numeric: Numeric columns.
        coded: Coded columns: their places, and the number of their codes.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.queries.moments import moments_of
        >>> from noisegate.schema import Boolean, Integer
        >>> from noisegate.testing import check_feature_map
        >>> layout = Schema([Integer(name="age", lower=0, upper=99), Boolean(name="ill")]).layout
        >>> found = moments_of(layout, [0, 1])
        >>> found.dim, found.terms
        (7, ((0, None), (1, 0), (1, 1)))
        >>> check_feature_map(found, layout)
    """

    numeric: tuple[Scaled, ...]
    coded: tuple[tuple[int, int], ...]
    norm: ClassVar[float] = 1.0
    nonnegative: ClassVar[bool] = False

    @cached_property
    def terms(self) -> tuple[tuple[int, int | None], ...]:
        """All terms but 1: the column, and its code, None for the number, and -1 for its presence."""
        numbers = [
            (at, code)
            for at, one in enumerate(self.numeric)
            for code in (None, *([-1] * one.nullable))
        ]
        first = len(self.numeric)
        return (
            *numbers,
            *(
                (first + at, code)
                for at, (_, size) in enumerate(self.coded)
                for code in range(size)
            ),
        )

    @cached_property
    def entries(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The two terms of each entry, counted from 1; term 0 is the number one."""
        alone = [(0, term) for term in range(len(self.terms) + 1)]
        squares = [
            (at + 1, at + 1) for at, (_, code) in enumerate(self.terms) if code is None
        ]
        of = [column for column, _ in self.terms]
        products = [
            (i + 1, j + 1) for i, j in combinations(range(len(of)), 2) if of[i] != of[j]
        ]
        left, right = zip(*alone, *squares, *products, strict=True)
        return np.asarray(left, dtype=np.intp), np.asarray(right, dtype=np.intp)

    @property
    def dim(self) -> int:
        """Number of entries."""
        return len(self.entries[0])

    @cached_property
    def weight(self) -> float:
        """What an entry of one record is at most."""
        each = [1 + one.nullable for one in self.numeric] + [1] * len(self.coded)
        pairs = (sum(each) ** 2 - sum(one * one for one in each)) // 2
        return 1 / math.sqrt(1 + sum(each) + pairs + len(self.numeric))

    def of(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Returns the terms of records, (rows, 1 + terms), the first of them 1."""
        found = np.ones((len(records), len(self.terms) + 1), dtype=np.float32)
        at = 1
        for one in self.numeric:
            positions = records.numeric[:, one.place]
            present = (positions >= one.start) & (positions <= one.stop)
            z = (positions - (one.low + one.high) / 2) * (2 / (one.high - one.low))
            found[:, at] = np.where(present, np.clip(z, -1.0, 1.0), 0.0)
            if one.nullable:
                found[:, at + 1] = present
            at += 1 + one.nullable
        for place, size in self.coded:
            found[:, at : at + size] = records.codes[:, place, None] == np.arange(size)
            at += size
        return found

    def products(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Returns the entries of records, (rows, dim), as they are before they are weighted."""
        terms, (left, right) = self.of(records), self.entries
        return terms[:, left] * terms[:, right]

    def __call__(self, records: EncodedTable) -> Vectors:
        """Returns the vectors, (rows, dim)."""
        return self.products(records) * np.float32(self.weight)


def moments_of(
    layout: Layout, columns: Sequence[int], ranges: Ranges | None = None
) -> Moments:
    """Returns the map of some columns, numeric ones first; `ranges` where bounds are wider than needed."""
    # A column whose atoms lie outside its bounds may be missing, since these are no numbers like others.
    numeric, found = len(layout.numeric), []
    for place in (column for column in columns if column < numeric):
        column = layout.numeric[place]
        start, stop = bound_positions(column)
        low, high, tail = (ranges or {}).get(place, (start, stop, 0.0))
        nullable = column.missing or any(column.outer_atoms)
        found.append(
            Scaled(
                place=place,
                low=low,
                high=high,
                start=start,
                stop=stop,
                nullable=nullable,
                tail=tail,
            )
        )
    coded = [
        (column - numeric, layout.coded[column - numeric].size)
        for column in columns
        if column >= numeric
    ]
    return Moments(numeric=tuple(found), coded=tuple(coded))
