"""Votes of records for the nearest of public candidates: a record's vector is 1 at its candidate and 0 elsewhere.

Private Evolution, Lin, Gopi, Kulkarni, Nori and Yekhanin (ICLR 2024), https://arxiv.org/abs/2305.15560, algorithm 2.
Every column's cells stand at public points of a lattice, so that records x and candidates y are rows of whole numbers.
The nearest candidate has the least ‖y‖² − 2⟨x, y⟩, the first of equally near ones, bit for bit (G-25): ‖x‖², ‖y‖² ≤ 2²³
is checked when the map is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.binning import NumericBins
from noisegate.features.contingency import column_cells
from noisegate.features.feature_map import ExactSum, Vectors
from noisegate.privacy.grid import Grid
from noisegate.schema import EncodedTable

LARGEST = 2**23
"""Of the squared norm of a row of points."""

# Numbers of a block of rows times candidates.
_BLOCK = 2**21

Points = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class NearestVotes:
    """The map from a record to its vote. Everything in it is public.

    Columns are numbered as in the layout, numeric ones first.

    Attributes:
        bins: Cells of each numeric column of the layout.
        points: For each column the points of its cells, (cells, axes): whole numbers, none negative.
        candidates: The cell of each candidate in each column, (candidates, columns).

    Raises:
        OptionError: if points or candidates are unusable.

    Examples:
        >>> import numpy as np
        >>> from noisegate_papers.features.votes import NearestVotes, lattice
        >>> from noisegate.records import Rows
        >>> candidates = np.array([[0], [2]], dtype=np.int32)
        >>> votes = NearestVotes(bins=(), points=lattice((), (3,)), candidates=candidates)
        >>> votes(Rows(np.zeros((3, 0)), np.array([[0], [1], [2]], dtype=np.int32))).tolist()
        [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """

    bins: tuple[NumericBins, ...]
    points: tuple[Points, ...]
    candidates: npt.NDArray[np.int32]
    norm: ClassVar[float] = 1.0
    nonnegative: ClassVar[bool] = True

    def __post_init__(self) -> None:
        squares = [int(np.square(points).sum(axis=1).max()) for points in self.points]
        if min(int(points.min()) for points in self.points) < 0 or sum(squares) > LARGEST:
            raise OptionError(f"points must be whole numbers, none negative, of squared norm at most {LARGEST} in all.")
        sizes = [len(points) for points in self.points]
        fits = self.candidates.ndim == 2 and self.candidates.shape[1] == len(sizes) and len(self.candidates)
        if not fits or (self.candidates < 0).any() or (self.candidates >= sizes).any():
            raise OptionError(f"candidates of shape {self.candidates.shape} are no cells of {len(sizes)} columns.")

    @property
    def dim(self) -> int:
        """Number of candidates."""
        return len(self.candidates)

    def nearest(self, records: EncodedTable) -> npt.NDArray[np.intp]:
        """Returns the place of each record's candidate, (rows,)."""
        cells, (twice, squares) = column_cells(self.bins, records), self._coordinates
        found, rows = np.empty(len(cells), dtype=np.intp), max(_BLOCK // self.dim, 1)
        for start in range(0, len(cells), rows):
            block = _rows_of(self.points, cells[start : start + rows])
            found[start : start + rows] = (block @ twice - squares).argmax(axis=1)
        return found

    def __call__(self, records: EncodedTable) -> Vectors:
        """Returns the votes, (rows, candidates)."""
        votes = np.zeros((len(records), self.dim), dtype=np.float32)
        votes[np.arange(len(records)), self.nearest(records)] = 1.0
        return votes

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


def _rows_of(points: Sequence[Points], cells: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
    """Returns the points of rows of cells, (rows, axes)."""
    parts = [one[cells[:, column]].astype(np.float32) for column, one in enumerate(points)]
    return np.concatenate(parts, axis=1)


def lattice(
    bins: Sequence[NumericBins], coded: Sequence[int], *, label: int | None = None, label_weight: float = 1.0
) -> tuple[Points, ...]:
    """Returns points for the cells of columns, as fine as `NearestVotes` takes them.

    A numeric column's intervals stand on a line at equal distances, and missing values beside its middle; codes are all
    equally far from each other. The squared distance of codes, and of a missing value and the middle, is half of that
    of the ends of a line; of labels it is `label_weight` times that of other codes.

    Args:
        bins: Cells of each numeric column.
        coded: Number of codes of each coded column.
        label: The coded column, numbered among all columns, that is the label, or None.
        label_weight: Positive.
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
            line_and_more = np.stack([np.append(line, side // 2), np.append(np.zeros_like(line), beside)], axis=1)
            found.append(line_and_more)
        else:
            found.append(line[:, None])
    lengths = [math.isqrt(int(weight * side * side)) for weight in weights]
    return (*found, *(length * np.eye(size, dtype=np.int64) for length, size in zip(lengths, coded, strict=True)))
