"""Votes of records for the nearest of public candidates: 1 at the record's candidate and 0 elsewhere (G-25).

Private Evolution (`noisegate_papers.methods.pe`), algorithm 2. In a table every
column's cells stand at public points of a lattice; images have features of norm at most
1, by a public map, and vote for candidates of their label.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from noisegate.errors import ModelError, OptionError
from noisegate.privacy.grid import Grid
from noisegate.queries.binning import NumericBins
from noisegate.queries.contingency import column_cells
from noisegate.queries.feature_map import ExactSum, FeatureMap, Vectors
from noisegate.schema import EncodedTable

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32

LARGEST = 2**23  # of the squared norm of a row of points

_BLOCK = 2**21  # numbers of a block of rows times candidates

Points = npt.NDArray[np.int64]


class Votes(ABC):
    """What both maps share: a vector of votes for candidates, of which one is the nearest."""

    candidates: npt.NDArray[Any]
    norm: ClassVar[float] = 1.0
    nonnegative: ClassVar[bool] = True

    @property
    def dim(self) -> int:
        """Number of candidates."""
        return len(self.candidates)

    @abstractmethod
    def nearest(self, records: EncodedTable) -> npt.NDArray[np.intp]:
        """Returns the place of each record's candidate, (rows,)."""

    def __call__(self, records: EncodedTable) -> Vectors:
        """Returns the votes, (rows, candidates)."""
        votes = np.zeros((len(records), self.dim), dtype=np.float32)
        votes[np.arange(len(records)), self.nearest(records)] = 1.0
        return votes


def check_votes(
    votes: Sequence[float] | npt.NDArray[np.float64], candidates: int, earlier: int
) -> None:
    """Checks that a release has one vote for each candidate of a round, so many `earlier` ones before it."""
    if len(votes) != candidates:
        raise ModelError(
            f"the release holds {len(votes)} votes in round {earlier + 1}, and {candidates} candidates follow from its "
            "earlier answers."
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class NearestVotes(Votes):
    """The map from a record of a table to its vote; an OptionError if points or candidates are unusable.

    Everything in it is public. Columns are numbered as in the layout, numeric ones first.
    """

    bins: tuple[NumericBins, ...]  # cells of numeric columns
    points: tuple[
        Points, ...
    ]  # of the cells of each column, (cells, axes), whole numbers, none negative
    candidates: npt.NDArray[
        np.int32
    ]  # the cell of each candidate in each column, (candidates, columns)

    def __post_init__(self) -> None:
        squares = [int(np.square(points).sum(axis=1).max()) for points in self.points]
        if (
            min(int(points.min()) for points in self.points) < 0
            or sum(squares) > LARGEST
        ):
            raise OptionError(
                f"points must be whole numbers, none negative, of squared norm at most {LARGEST} in all."
            )
        sizes = [len(points) for points in self.points]
        fits = (
            self.candidates.ndim == 2
            and self.candidates.shape[1] == len(sizes)
            and len(self.candidates)
        )
        if not fits or (self.candidates < 0).any() or (self.candidates >= sizes).any():
            raise OptionError(
                f"candidates of shape {self.candidates.shape} are not cells of {len(sizes)} columns."
            )

    def nearest(self, records: EncodedTable) -> npt.NDArray[np.intp]:
        """Returns the place of each record's candidate, (rows,)."""
        cells, (twice, squares) = column_cells(self.bins, records), self._coordinates
        found, rows = np.empty(len(cells), dtype=np.intp), max(_BLOCK // self.dim, 1)
        for start in range(0, len(cells), rows):
            block = _rows_of(self.points, cells[start : start + rows])
            found[start : start + rows] = (block @ twice - squares).argmax(axis=1)
        return found

    def exact_sum(self, grid: Grid) -> ExactSum | None:
        """Returns the counts of votes, each times the weight of one in grid units; None where it would be clipped."""
        if grid.centre is not None or grid.norm < self.norm:
            return None
        weight = int(grid.quantise(np.ones((1, 1), dtype=np.float32))[0, 0])

        def add(sums: npt.NDArray[np.int64], records: EncodedTable) -> None:
            sums += weight * np.bincount(self.nearest(records), minlength=self.dim)

        return ExactSum(squared_norm=weight * weight, add=add)

    @cached_property
    def _coordinates(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Twice the candidates' points, (axes, candidates), and their squared norms, (candidates,)."""
        rows = _rows_of(self.points, self.candidates)
        # Numbers up to 2²³ are exact in float32, and so are their sums here.
        return np.ascontiguousarray(2 * rows.T), np.square(rows).sum(axis=1)


def _rows_of(
    points: Sequence[Points], cells: npt.NDArray[np.int32]
) -> npt.NDArray[np.float32]:
    """Returns the points of rows of cells, (rows, axes)."""
    parts = [
        one[cells[:, column]].astype(np.float32) for column, one in enumerate(points)
    ]
    return np.concatenate(parts, axis=1)


def lattice(
    bins: Sequence[NumericBins],
    coded: Sequence[int],
    *,
    label: int | None = None,
    label_weight: float = 1.0,
) -> tuple[Points, ...]:
    """Returns points for the cells of columns, as fine as `NearestVotes` takes them.

    A numeric column's intervals stand on a line at equal distances, and missing values beside its middle; codes are all
    equally far from each other. The squared distance of codes, and of a missing value and the middle, is half of that
    of the ends of a line; of labels, the coded column `label` as numbered among all columns, it is `label_weight` times
    that.
    """
    weights = [0.25] * len(coded)
    if label is not None:
        weights[label - len(bins)] *= label_weight
    side = math.isqrt(int(LARGEST / (len(bins) * 1.0 + sum(weights))))
    beside = math.isqrt(side * side // 2)
    found: list[Points] = []
    for each in bins:
        line = np.rint(np.linspace(0, side, len(each.cuts) + 1)).astype(np.int64)
        if each.nullable:
            found.append(
                np.stack(
                    [
                        np.append(line, side // 2),
                        np.append(np.zeros_like(line), beside),
                    ],
                    axis=1,
                )
            )
        else:
            found.append(line[:, None])
    lengths = [math.isqrt(int(weight * side * side)) for weight in weights]
    return (
        *found,
        *(
            length * np.eye(size, dtype=np.int64)
            for length, size in zip(lengths, coded, strict=True)
        ),
    )


LARGEST_IMAGE = 2**24 // 3  # of the squared norm of a row of whole numbers

SCALE = math.isqrt(LARGEST_IMAGE) - 1
"""What features are multiplied by: 2363. It leaves room for a norm of 1 that is one up to rounding."""


def whole_numbers(vectors: Vectors) -> Vectors:
    """Returns vectors of norm at most 1 on the lattice of the votes, rounded toward zero: whole numbers in float32."""
    # A row that is longer all the same counts as one of zeros, which is near to no candidate in particular.
    whole = np.trunc(vectors * np.float32(SCALE))
    # In float64, where squares of whole numbers add up without rounding; a NaN is no short row either.
    short = np.square(whole, dtype=np.float64).sum(axis=1) <= LARGEST_IMAGE
    return np.where(short[:, None], whole, np.float32(0))


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageVotes(Votes):
    """The map from an image to its vote.

    Everything in it is public; there is at least one candidate for each label.
    """

    encoding: (
        FeatureMap  # gives features of norm at most 1, which is what the gate probes
    )
    candidates: Float32[npt.NDArray[np.float32], "candidates features"]
    labels: Int32[npt.NDArray[np.int32], " candidates"]
    label: int | None  # the coded column of a record's; None where all labels are 0

    def nearest(self, records: EncodedTable) -> npt.NDArray[np.intp]:
        """Returns the place of each record's candidate, (rows,)."""
        twice, squares = self._lattice
        scores = whole_numbers(self.encoding(records)) @ twice - squares
        if self.label is not None:
            scores[records.codes[:, self.label, None] != self.labels] = -np.inf
        return np.asarray(scores.argmax(axis=1))

    @cached_property
    def _lattice(self) -> tuple[Vectors, Vectors]:
        """Twice the candidates' whole numbers, (features, candidates), and their squared norms, (candidates,)."""
        rows = whole_numbers(self.candidates)
        squares = np.square(rows, dtype=np.float64).sum(axis=1)
        return np.ascontiguousarray(2 * rows.T), squares.astype(np.float32)
