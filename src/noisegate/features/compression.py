"""Vectors turned into few numbers by a public matrix with orthonormal columns, such as the axes of a public PCA.

A projection makes no vector longer: x = Pᵀz with PᵀP = 1 has ‖x‖² = zᵀPPᵀz ≤ ‖z‖², since PPᵀ is an orthogonal
projection. So a bound on the vectors is one on the compressed ones.

A matrix product may round differently with another batch or on another machine, and then one record would move others.
So it is taken of whole numbers: entries of z and P are rounded to multiples of 2⁻²⁵. Each partial sum of zⱼPⱼₖ over j,
in whatever order, is then a multiple of 2⁻⁵⁰ no larger than Σ |zⱼ||Pⱼₖ| ≤ ‖z‖‖Pₖ‖ < 2, so below 2⁵¹ of them, and
float64 holds it without rounding. The one rounding is that of the result to float32, entry by entry. What all rounding
adds to a norm is below 2⁻¹⁵ for up to 1024 entries and axes; the gate clips it off.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.feature_map import AfterMap, Vectors

_UNIT = 2.0**25
_SKEW = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False)
class Compression(AfterMap):
    """A map after which a public projection comes.

    Attributes:
        axes: Orthonormal columns, (dim of the map, dim), float64; public.

    Raises:
        OptionError: if the columns are not orthonormal, or do not fit the map.
    """

    axes: npt.NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.axes.ndim != 2 or len(self.axes) != self.of.dim or not 1 <= self.axes.shape[1] <= self.of.dim:
            raise OptionError(f"axes of shape {self.axes.shape} do not compress vectors of {self.of.dim} numbers.")
        if not np.abs(self.axes.T @ self.axes - np.eye(self.dim)).max() < _SKEW:
            raise OptionError("the axes of a compression must be orthonormal, or it would make vectors longer.")

    @property
    def dim(self) -> int:
        """Number of axes."""
        return int(self.axes.shape[1])

    @property
    def norm(self) -> float:
        """That of the map: a projection makes no vector longer."""
        return self.of.norm

    @property
    def nonnegative(self) -> bool:
        """False: axes have both signs."""
        return False

    def second_half(self, values: Vectors) -> Vectors:
        """Returns coordinates along the axes, (rows, dim), of what the first half gave."""
        whole = np.rint(self.of.second_half(values).astype(np.float64) * _UNIT)
        return ((whole @ self._whole) / _UNIT**2).astype(np.float32)

    @cached_property
    def _whole(self) -> npt.NDArray[np.float64]:
        return np.rint(self.axes * _UNIT)


def random_axes(entering: int, leaving: int, *, seed: int) -> npt.NDArray[np.float64]:
    """Returns orthonormal columns in random directions, (entering, leaving); public.

    Args:
        entering: Length of the vectors.
        leaving: Number of axes, at most `entering`.
        seed: Of the directions.
    """
    normal = np.random.default_rng(seed).normal(size=(entering, leaving))
    return _signed(np.linalg.qr(normal)[0])


def principal_axes(vectors: npt.NDArray[np.floating], leaving: int) -> npt.NDArray[np.float64]:
    """Returns the axes along which public vectors are largest, (dim, leaving), the largest first.

    They are eigenvectors of the second moment E zzᵀ, without the mean taken off: what is compressed is the vector
    itself, and its mean direction is the first thing to keep.

    Args:
        vectors: Of public records, (rows, dim).
        leaving: Number of axes, at most dim.

    Raises:
        OptionError: if there are fewer vectors than axes, which would leave some to chance.
    """
    if len(vectors) < leaving:
        raise OptionError(f"{len(vectors)} public record(s) give no {leaving} principal axes; give more, or ask fewer.")
    exact = vectors.astype(np.float64)
    return _signed(np.linalg.eigh(exact.T @ exact)[1][:, ::-1][:, :leaving])


def axes_digest(axes: npt.NDArray[np.float64]) -> str:
    """Returns the SHA-256 of axes, rounded as they are used, for certificates."""
    whole = np.rint(axes * _UNIT).astype("<i8")
    return hashlib.sha256(f"{whole.shape}".encode() + np.ascontiguousarray(whole).tobytes()).hexdigest()


def _signed(axes: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Returns axes turned so that the largest entry of each is positive: programs differ in this."""
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return np.ascontiguousarray(axes * np.where(largest < 0, -1.0, 1.0))
