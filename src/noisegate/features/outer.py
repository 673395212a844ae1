"""The outer product of a vector with itself, as a vector of the same geometry: what a full covariance is a sum of.

Of the symmetric matrix xxᵀ the upper triangle is kept, row by row, with the entries off the diagonal times √2. With
v = (xᵢxⱼ·[√2 if i < j])ᵢ≤ⱼ,

* ⟨v(x), v(y)⟩ = Σᵢ xᵢ²yᵢ² + Σ_{i<j} 2 xᵢxⱼyᵢyⱼ = (Σᵢ xᵢyᵢ)² = ⟨x, y⟩², so ‖v(x)‖ = ‖x‖² ≤ 1 for ‖x‖ ≤ 1, with equality
  for ‖x‖ = 1: under add/remove-one the sensitivity of a sum of v is 1, whatever the number of coordinates;
* the map from symmetric matrices with the Frobenius norm to such vectors keeps lengths, so noise of one size on v is
  noise of one size on the matrix, and the nearest admissible matrix is the nearest admissible vector.

Under replace-one ‖v(x) − v(y)‖² = ‖x‖⁴ + ‖y‖⁴ − 2⟨x, y⟩² ≤ 2. But entries have both signs, and the gate enforces norms
and signs alone; so it is asked with the 2 of signed vectors there, which is more than it would have to be by √2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisegate.features.feature_map import AfterMap, Vectors

_ROOT = np.float32(math.sqrt(2))


@dataclass(frozen=True, kw_only=True, eq=False)
class OuterProducts(AfterMap):
    """Upper triangles of the outer products of what another map gives."""

    @property
    def dim(self) -> int:
        """Entries on and above the diagonal."""
        return self.of.dim * (self.of.dim + 1) // 2

    @property
    def norm(self) -> float:
        """The square of the other map's."""
        return self.of.norm**2

    @property
    def nonnegative(self) -> bool:
        """Whether the other map is."""
        return self.of.nonnegative

    def second_half(self, values: Vectors) -> Vectors:
        """Returns triangles, (rows, dim), of what the first half gave; each entry is one product, rounded once."""
        vectors = self.of.second_half(values)
        down, right = np.triu_indices(self.of.dim)
        products = vectors[:, down] * vectors[:, right]
        return np.where(down == right, products, products * _ROOT)


def matrices_of(triangles: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns the symmetric matrices, (rows, k, k), whose triangles, (rows, k(k + 1)/2), are given."""
    size = (math.isqrt(8 * triangles.shape[1] + 1) - 1) // 2
    down, right = np.triu_indices(size)
    entries = np.where(down == right, triangles, triangles / math.sqrt(2))
    matrices = np.zeros((len(triangles), size, size))
    matrices[:, down, right] = entries
    matrices[:, right, down] = entries
    return matrices
