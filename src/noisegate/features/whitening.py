"""Vectors centred, turned and stretched by what is known of public ones, so that no direction drowns in another.

With μ and Σ the mean and covariance of public vectors, Σ = V diag(s²) Vᵀ, a vector z becomes the first numbers of

    a · diag(s^−w) Vᵀ (z − μ),

where a makes public vectors as long as they should be, on average, and w from 0 to 1 says how much short directions are
stretched. What is longer than twice that is shortened to it: the record is one that no public one resembles.

As in `features.compression`, the matrix product is one of whole numbers that float64 adds without rounding in any
order; all else is done to each number, or along each row, by itself. So a record's vector is a function of that record
alone, bit for bit.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.feature_map import FeatureMap, Vectors
from noisegate.schema import EncodedTable

# Vectors are rounded to multiples of 2⁻²⁵; they and the columns of the matrix share 52 bits.
_BITS, _EXACT = 25, 52
# Directions in which public vectors vary less than this, beside the one in which they vary most, are left out.
_FLAT = 1e-6
_LONGEST = 2.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Whitened:
    """A map after which vectors are centred, turned and stretched. Made by `whitened`.

    Attributes:
        of: The map.
        centre: μ, (dim of the map,), float64; public.
        axes: a · V diag(s^−w), (dim of the map, dim), float64; public.
        norm: What no vector is longer than.
    """

    of: FeatureMap
    centre: npt.NDArray[np.float64]
    axes: npt.NDArray[np.float64]
    norm: float

    nonnegative: bool = False

    @property
    def dim(self) -> int:
        """Number of axes."""
        return int(self.axes.shape[1])

    def __call__(self, records: EncodedTable) -> Vectors:
        """Returns vectors, float32 (rows, dim)."""
        return self.after(self.of(records))

    def after(self, vectors: Vectors) -> Vectors:
        """Returns what becomes of vectors of the map, (rows, dim of the map)."""
        whole, bits, shift = self._whole
        turned = np.rint(vectors.astype(np.float64) * 2.0**_BITS) @ whole / 2.0 ** (_BITS + bits) - shift
        lengths = np.sqrt(np.square(turned).sum(axis=1, keepdims=True))
        turned *= np.minimum(1.0, self.norm / np.maximum(lengths, 1e-30))
        return turned.astype(np.float32)

    def digest(self) -> str:
        """Returns the SHA-256 of centre, axes and norm, for certificates."""
        digest = hashlib.sha256(f"{self.axes.shape} {self.norm!r}".encode())
        digest.update(np.ascontiguousarray(self.centre, dtype="<f8").tobytes())
        digest.update(np.ascontiguousarray(self.axes, dtype="<f8").tobytes())
        return digest.hexdigest()

    @cached_property
    def _whole(self) -> tuple[npt.NDArray[np.float64], int, npt.NDArray[np.float64]]:
        """Returns the axes in whole numbers, by how many bits they were made larger, and what the centre becomes."""
        longest = float(np.linalg.norm(self.axes, axis=0).max()) * max(self.of.norm, 1.0) * 1.01
        bits = _EXACT - _BITS - math.ceil(math.log2(max(longest, 1e-30))) - 1
        whole = np.rint(self.axes * 2.0**bits)
        return whole, bits, np.rint(self.centre * 2.0**_BITS) @ whole / 2.0 ** (_BITS + bits)


def whitened(of: FeatureMap, public: Vectors, *, dim: int, exponent: float, length: float) -> Whitened:
    """Returns a map that is centred, turned and stretched by public vectors.

    Args:
        of: The map.
        public: Its vectors at public records, (rows, dim of the map).
        dim: How many directions are kept, those first in which public vectors vary most; at most the map's.
        exponent: w, from 0 for none to 1, where public vectors vary as much in each direction.
        length: Root of the mean square of the lengths that public vectors get.

    Raises:
        OptionError: if all public vectors are the same.
    """
    exact = public.astype(np.float64)
    centre = exact.mean(axis=0)
    squares, turned = np.linalg.eigh((exact - centre).T @ (exact - centre) / len(exact))
    squares, turned = np.maximum(squares[::-1][:dim], 0.0), turned[:, ::-1][:, :dim]
    if not squares[0] > 1e-12:
        raise OptionError("public: all public records have the same features, so that none can be digest from another.")
    # Programs differ in the signs of what they turn to.
    largest = turned[np.abs(turned).argmax(axis=0), np.arange(dim)]
    turned = turned * np.where(largest < 0, -1.0, 1.0)
    stretched = np.where(squares > _FLAT * squares[0], np.maximum(squares, 1e-30) ** (-exponent / 2), 0.0)
    scale = length / math.sqrt(float((squares * np.square(stretched)).sum()))
    return Whitened(of=of, centre=centre, axes=turned * stretched * scale, norm=_LONGEST * length)
