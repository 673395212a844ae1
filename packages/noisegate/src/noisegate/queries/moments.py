"""Second moments: a record's vector holds products of two of its terms.

Regressions follow from sums of such products. The terms of a record are

- the number 1;
- for each numeric column z = (x − middle) / half a range, clipped to [−1, 1], and 0
  where the value is missing; where it may be, also 1 if it is present;
- for each coded column 1 for the level that the record has, and 0 for the others.

The entries of a vector are the terms themselves, each z², and all products of terms of
two different columns, each once. If column i has at most tᵢ terms other than 0, which
are T together, and p columns are numeric, then the squares of all entries sum to at
most 1 + T + p + Σ_(i<j) tᵢ tⱼ, since no term is larger than 1.
"""

import math
from abc import ABC, abstractmethod
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
"""By numeric column the positions that become −1 and 1, and about how many records lie
beyond either."""

Term = tuple[int, int | None]
"""The position of a column in a map, numeric ones first, and what is taken of it: the
code of a level, None for the number, or −1 for its presence."""

_PRESENCE = -1


@dataclass(frozen=True, kw_only=True)
class ScaledNumber(ABC):
    """A number of a record that is scaled to [−1, 1].

    Attributes:
        index: Which of the layout's numeric columns it is of.
        low: What becomes −1.
        high: What becomes 1.
        start: Position of the lower bound. Positions below it are those of atoms, which
            count as missing.
        stop: Position of the upper bound, likewise.
        nullable: Whether there is a term for the presence of a value.
        tail: About how many records are clipped at either end.
    """

    index: int
    low: float
    high: float
    start: float
    stop: float
    nullable: bool
    tail: float = 0.0

    @property
    @abstractmethod
    def is_clipped(self) -> bool:
        """Whether numbers within the bounds are clipped."""

    @abstractmethod
    def unclipped(self, positions: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Scales positions, of any shape; those beyond the range leave [−1, 1]."""

    @property
    def term_count(self) -> int:
        """Number of terms: the number and, where it may be missing, its presence."""
        return 1 + self.nullable

    def is_present(self, positions: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """Finds the values within the bounds, which are not missing, (rows,)."""
        return (positions >= self.start) & (positions <= self.stop)

    def scale(self, positions: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Scales positions to [−1, 1], with 0 where a value is missing, (rows,)."""
        scaled = np.clip(self.unclipped(positions), -1.0, 1.0)
        return np.where(self.is_present(positions), scaled, 0.0)


@dataclass(frozen=True, kw_only=True)
class ScaledColumn(ScaledNumber):
    """A numeric column with the range of positions that is scaled to [−1, 1]."""

    @property
    def is_clipped(self) -> bool:
        """Whether numbers within the bounds are clipped."""
        return (self.low, self.high) != (self.start, self.stop)

    def unclipped(self, positions: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Scales positions, of any shape; those beyond the range leave [−1, 1]."""
        middle = (self.low + self.high) / 2
        return (positions - middle) * (2 / (self.high - self.low))


@dataclass(frozen=True, kw_only=True, eq=False)
class Moments:
    """The map from a record to products of two of its terms; all of it is public.

    Attributes:
        numeric: The numeric columns.
        coded: For each coded column its position among those of the layout, and the
            number of its codes.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.queries.moments import moments_of
        >>> from noisegate.schema import Boolean, Integer
        >>> from noisegate.testing import check_feature_map
        >>> columns = [Integer(name="age", lower=0, upper=99), Boolean(name="ill")]
        >>> layout = Schema(columns).layout
        >>> moments = moments_of(layout, [0, 1])
        >>> moments.terms, moments.dim
        (((0, None), (1, 0), (1, 1)), 7)
        >>> check_feature_map(moments, layout)
    """

    numeric: tuple[ScaledNumber, ...]
    coded: tuple[tuple[int, int], ...]
    norm: ClassVar[float] = 1.0
    nonnegative: ClassVar[bool] = False

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """All terms but the number 1, column by column."""
        terms: list[Term] = []
        for position, column in enumerate(self.numeric):
            terms.append((position, None))
            if column.nullable:
                terms.append((position, _PRESENCE))
        for position, (_, size) in enumerate(self.coded, start=len(self.numeric)):
            terms.extend((position, code) for code in range(size))
        return tuple(terms)

    @cached_property
    def entries(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The two terms of each entry, each array (dim,).

        Terms are counted from 1, and term 0 is the number 1.
        """
        numbered = list(enumerate(self.terms, start=1))
        single = [(0, term) for term in range(len(self.terms) + 1)]
        squares = [(term, term) for term, (_, code) in numbered if code is None]
        products = [
            (first, second)
            for (first, (column, _)), (second, (other, _)) in combinations(numbered, 2)
            if column != other
        ]
        left, right = zip(*single, *squares, *products, strict=True)
        return np.asarray(left, dtype=np.intp), np.asarray(right, dtype=np.intp)

    @property
    def dim(self) -> int:
        """Number of entries."""
        return len(self.entries[0])

    @cached_property
    def weight(self) -> float:
        """The factor of all entries, by which the vectors have norm 1 at most.

        It is one over the root of the sum in the module's docstring.
        """
        # A record has at most so many terms other than 0 in each column.
        counts = [column.term_count for column in self.numeric] + [1] * len(self.coded)
        pair_count = (sum(counts) ** 2 - sum(count * count for count in counts)) // 2
        return 1 / math.sqrt(1 + sum(counts) + pair_count + len(self.numeric))

    def terms_of(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Computes the terms of records, (rows, 1 + terms), the first of them 1."""
        terms = np.ones((len(records), len(self.terms) + 1), dtype=np.float32)
        index = 1
        for column in self.numeric:
            positions = records.numeric[:, column.index]
            terms[:, index] = column.scale(positions)
            if column.nullable:
                terms[:, index + 1] = column.is_present(positions)
            index += column.term_count
        for coded_index, size in self.coded:
            codes = records.codes[:, coded_index, None]
            terms[:, index : index + size] = codes == np.arange(size)
            index += size
        return terms

    def products(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Computes the entries of records without their weight, (rows, dim)."""
        terms = self.terms_of(records)
        left, right = self.entries
        return terms[:, left] * terms[:, right]

    def __call__(self, records: EncodedTable) -> Vectors:
        """Computes the vectors of records, (rows, dim)."""
        return self.products(records) * np.float32(self.weight)


def moments_of(
    layout: Layout, columns: Sequence[int], ranges: Ranges | None = None
) -> Moments:
    """Returns the map of some columns.

    Args:
        layout: The table's columns.
        columns: Numbers of the columns, of which those of numeric ones come first.
        ranges: Ranges that are scaled to [−1, 1], for columns whose bounds are wider
            than needed. Others have their bounds.
    """
    numeric_count = len(layout.numeric)
    numeric = [
        _scaled_column(layout, column, ranges or {})
        for column in columns
        if column < numeric_count
    ]
    coded = [
        (column - numeric_count, layout.coded[column - numeric_count].size)
        for column in columns
        if column >= numeric_count
    ]
    return Moments(numeric=tuple(numeric), coded=tuple(coded))


def _scaled_column(layout: Layout, index: int, ranges: Ranges) -> ScaledColumn:
    """Returns a numeric column with its range, or else with its bounds."""
    column = layout.numeric[index]
    start, stop = bound_positions(column)
    low, high, tail = ranges.get(index, (start, stop, 0.0))
    # Atoms outside the bounds are no numbers like others, so that a column that has
    # some may be missing.
    nullable = column.missing or any(column.outer_atoms)
    return ScaledColumn(
        index=index,
        low=low,
        high=high,
        start=start,
        stop=stop,
        nullable=nullable,
        tail=tail,
    )
