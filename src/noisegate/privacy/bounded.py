"""A bound on one record's vector, which knows the sensitivity of the sum over records."""

from __future__ import annotations

import math
from dataclasses import dataclass

from noisegate.privacy.adjacency import Adjacency


@dataclass(frozen=True, kw_only=True)
class GridBound:
    """Every record's vector is integer and has L2 norm at most `units`.

    Guarantee G-01 (sensitivity). Let S be the sum of such vectors over the records of a data set, each placed in one
    column of a matrix chosen by the record (its label). For neighbouring data sets, ‖S − S'‖² is at most

    * add/remove-one: ``units²``, since S and S' differ by one vector;
    * replace-one, vectors that are non-negative in every coordinate: ``2·units²``, since
      ‖v − w‖² = ‖v‖² + ‖w‖² − 2⟨v, w⟩ and ⟨v, w⟩ ≥ 0; with different columns the inner product is zero;
    * replace-one, signed vectors: ``4·units²`` by the triangle inequality.

    All three are exact integers, and the vectors are integers, so no rounding enters the statement.
    Tested by ``tests/gate/test_neighbours.py``.

    Attributes:
        units: The norm bound, a positive integer in grid units.
        nonnegative: Whether every coordinate of every vector is at least zero.
    """

    units: int
    nonnegative: bool = False

    def of_unit(self, contributions: int) -> GridBound:
        """Returns the bound on the sum of at most `contributions` such vectors, by the triangle inequality."""
        return GridBound(units=self.units * contributions, nonnegative=self.nonnegative)

    def sensitivity_squared(self, adjacency: Adjacency) -> int:
        """Returns the exact squared L2 sensitivity of the sum, in squared grid units."""
        square = self.units * self.units
        match adjacency:
            case Adjacency.ADD_REMOVE:
                return square
            case Adjacency.REPLACE_ONE:
                return 2 * square if self.nonnegative else 4 * square

    def sensitivity(self, adjacency: Adjacency) -> int:
        """Returns the L2 sensitivity of the sum in grid units, rounded up to an integer."""
        square = self.sensitivity_squared(adjacency)
        root = math.isqrt(square)
        return root if root * root == square else root + 1
