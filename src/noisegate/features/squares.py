"""The element-wise squares of vectors of norm at most 1: what a second moment is a sum of.

DP-MGE, Wu, Guo and Chaudhuri (2023), https://arxiv.org/abs/2309.00008, section 3.1.

Sensitivity, proved. Let ‖z‖₂ ≤ 1 and v = z ⊙ z. Then

* ‖v‖₂² = Σ zⱼ⁴ ≤ (Σ zⱼ²)² = ‖z‖₂⁴ ≤ 1, as the cross terms zᵢ² zⱼ² that the square has beside the fourth powers are not
  negative; equality for a vector with one entry ±1, so under add/remove-one the sensitivity of a sum of v is exactly 1;
* v ≥ 0 in every coordinate, whatever the signs of z. So ‖v − w‖² = ‖v‖² + ‖w‖² − 2⟨v, w⟩ ≤ 2, and under replace-one the
  sensitivity is exactly √2 (two vectors with their one entry at different places).

The paper's Claim 1 has neither the second line nor exact composition: see `noisegate.methods.mge`.

These are not `Perceptual(moment=2)`, whose squares are scaled to norm 1 once more. That suits DP-MEPF, which only
compares embeddings, but f²/‖f²‖ has no variance of f/‖f‖ in it. Here Σⱼ vⱼ = ‖z‖², which is 1 for every vector of
length 1, and known before any record is read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noisegate.features.feature_map import AfterMap, Vectors


@dataclass(frozen=True, kw_only=True, eq=False)
class Squares(AfterMap):
    """The squares of what another map gives, entry by entry."""

    @property
    def dim(self) -> int:
        """Length of the vector."""
        return self.of.dim

    @property
    def norm(self) -> float:
        """The square of the other map's: ‖z ⊙ z‖ ≤ ‖z‖², with equality where one entry is all there is."""
        return self.of.norm**2

    @property
    def nonnegative(self) -> bool:
        """True, whatever the other map is."""
        return True

    def second_half(self, values: Vectors) -> Vectors:
        """Returns the squares, (rows, dim), of what the first half gave."""
        return np.square(self.of.second_half(values))
