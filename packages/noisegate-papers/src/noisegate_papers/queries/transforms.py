"""Maps of what another map gives, exact (G-06): squares, outer products, a public projection, and whitening.

Projections and whitening multiply whole numbers of 2⁻²⁵, so that float64 holds each
partial sum; all else is done to each number, or along each row, by itself: a record's
vector is a function of that record alone, bit for bit (G-06).
"""

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.queries.feature_map import AfterMap, FeatureMap, Vectors
from noisegate.schema import EncodedTable

Matrix = npt.NDArray[np.float64]

_ROOT = np.float32(math.sqrt(2))
_BITS, _EXACT = (
    25,
    52,
)  # entries are rounded to multiples of 2⁻²⁵; two factors and their sums share 52 bits
_UNIT = 2.0**_BITS
_SKEW = 1e-6
# Directions in which public vectors vary less than this, beside the one in which they vary most, are left out.
_FLAT = 1e-6
_LONGEST = 2.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Squares(AfterMap):
    """The element-wise squares of vectors of norm at most 1: what a second moment is a sum of.

    How good a sum of them is:  docs/mge.md. These are not `Perceptual(moment=2)`, whose squares are scaled to
    norm 1 once more: f²/‖f²‖ has no variance of f/‖f‖ in it.
    """

    nonnegative: ClassVar[bool] = True

    @property
    def dim(self) -> int:
        """Length of the vector."""
        return self.of.dim

    @property
    def norm(self) -> float:
        """The square of the other map's: ‖z ⊙ z‖ ≤ ‖z‖², with equality where one entry is all there is."""
        return self.of.norm**2

    def second_half(self, values: Vectors) -> Vectors:
        """Returns the squares, (rows, dim), of what the first half gave."""
        return np.square(self.of.second_half(values))


@dataclass(frozen=True, kw_only=True, eq=False)
class OuterProducts(AfterMap):
    """The outer product of a vector with itself, as a vector of the same geometry: what a full covariance is a sum of.

    Of the symmetric matrix xxᵀ the upper triangle is kept, row by row, with the entries off the diagonal times √2, so
    that noise of one size on it is noise of one size on the matrix. The norm is ‖x‖² ≤ 1 (docs/mge.md, also of
    replace-one).
    """

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


def matrices_of(triangles: Matrix) -> Matrix:
    """Returns the symmetric matrices, (rows, k, k), whose triangles, (rows, k(k + 1)/2), are given."""
    size = (math.isqrt(8 * triangles.shape[1] + 1) - 1) // 2
    down, right = np.triu_indices(size)
    matrices = np.zeros((len(triangles), size, size))
    matrices[:, down, right] = np.where(
        down == right, triangles, triangles / math.sqrt(2)
    )
    matrices[:, right, down] = matrices[:, down, right]
    return matrices


@dataclass(frozen=True, kw_only=True, eq=False)
class Compression(AfterMap):
    """A public projection of vectors to few numbers, such as the axes of a public PCA, which makes no vector longer.

    `axes` are orthonormal columns, (dim of the map, dim), or an OptionError says so. What rounding adds to a norm is
    below 2⁻¹⁵ for up to 1024 entries and axes; the gate clips it off.
    """

    axes: Matrix
    nonnegative: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if (
            self.axes.ndim != 2
            or len(self.axes) != self.of.dim
            or not 1 <= self.axes.shape[1] <= self.of.dim
        ):
            raise OptionError(
                f"axes of shape {self.axes.shape} do not compress vectors of {self.of.dim} numbers."
            )
        if not np.abs(self.axes.T @ self.axes - np.eye(self.dim)).max() < _SKEW:
            raise OptionError(
                "the axes of a compression must be orthonormal, or it would make vectors longer."
            )

    @property
    def dim(self) -> int:
        """Number of axes."""
        return int(self.axes.shape[1])

    @property
    def norm(self) -> float:
        """That of the map: a projection makes no vector longer."""
        return self.of.norm

    def second_half(self, values: Vectors) -> Vectors:
        """Returns coordinates along the axes, (rows, dim), of what the first half gave."""
        whole = np.rint(self.of.second_half(values).astype(np.float64) * _UNIT)
        return ((whole @ self._whole) / _UNIT**2).astype(np.float32)

    @cached_property
    def _whole(self) -> Matrix:
        return np.rint(self.axes * _UNIT)


def random_axes(entering: int, leaving: int, *, seed: int) -> Matrix:
    """Returns orthonormal columns in random directions, (entering, leaving), from a public seed."""
    return np.ascontiguousarray(
        _signed(
            np.linalg.qr(np.random.default_rng(seed).normal(size=(entering, leaving)))[
                0
            ]
        )
    )


def principal_axes(vectors: npt.NDArray[np.floating], leaving: int) -> Matrix:
    """Returns the axes along which public vectors, (rows, dim), are largest, (dim, leaving): eigenvectors of E zzᵀ."""
    if len(vectors) < leaving:
        raise OptionError(
            f"{len(vectors)} public record(s) give no {leaving} principal axes; give more, or ask fewer."
        )
    exact = vectors.astype(np.float64)
    return np.ascontiguousarray(
        _signed(np.linalg.eigh(exact.T @ exact)[1][:, ::-1][:, :leaving])
    )


def axes_digest(axes: Matrix) -> str:
    """Returns the SHA-256 of axes, rounded as they are used, for certificates."""
    whole = np.rint(axes * _UNIT).astype("<i8")
    return hashlib.sha256(
        f"{whole.shape}".encode() + np.ascontiguousarray(whole).tobytes()
    ).hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class Whitened:
    """Vectors centred, turned and stretched by what is known of public ones, so that no direction is hidden by another.

    With μ and Σ = V diag(s²) Vᵀ the mean and covariance of public vectors, a vector z becomes the first numbers of a ·
    diag(s^−w) Vᵀ (z − μ), where a makes public vectors as long as they should be, on average, and w from 0 to 1 says
    how much short directions are stretched. What is longer than `norm`, twice that, is shortened to it: the record is
    one that no public one resembles. `centre` is μ, (dim of the map,), and `axes` are a · V diag(s^−w), (dim of the
    map, dim); both are public, float64, and made by `whitened`.
    """

    of: FeatureMap
    centre: Matrix
    axes: Matrix
    norm: float
    nonnegative: ClassVar[bool] = False

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
        turned = (
            np.rint(vectors.astype(np.float64) * _UNIT) @ whole / 2.0 ** (_BITS + bits)
            - shift
        )
        lengths = np.sqrt(np.square(turned).sum(axis=1, keepdims=True))
        turned *= np.minimum(1.0, self.norm / np.maximum(lengths, 1e-30))
        return turned.astype(np.float32)

    def digest(self) -> str:
        """Returns the SHA-256 of centre, axes and norm, for certificates."""
        digest = hashlib.sha256(f"{self.axes.shape} {self.norm!r}".encode())
        for public in (self.centre, self.axes):
            digest.update(np.ascontiguousarray(public, dtype="<f8").tobytes())
        return digest.hexdigest()

    @cached_property
    def _whole(self) -> tuple[Matrix, int, Matrix]:
        """The axes in whole numbers, by how many bits they were made larger, and what the centre becomes."""
        longest = (
            float(np.linalg.norm(self.axes, axis=0).max())
            * max(self.of.norm, 1.0)
            * 1.01
        )
        bits = _EXACT - _BITS - math.ceil(math.log2(max(longest, 1e-30))) - 1
        whole = np.rint(self.axes * 2.0**bits)
        return whole, bits, np.rint(self.centre * _UNIT) @ whole / 2.0 ** (_BITS + bits)


def whitened(
    of: FeatureMap, public: Vectors, *, dim: int, exponent: float, length: float
) -> Whitened:
    """Returns a map that is centred, turned and stretched by public vectors, (rows, dim of the map)."""
    # `dim` directions are kept, those first in which public vectors vary most; `exponent` is w, and `length` the root
    # of the mean square of the lengths that public vectors get.
    exact = public.astype(np.float64)
    centre = exact.mean(axis=0)
    squares, turned = np.linalg.eigh((exact - centre).T @ (exact - centre) / len(exact))
    squares, turned = (
        np.maximum(squares[::-1][:dim], 0.0),
        _signed(turned[:, ::-1][:, :dim]),
    )
    if not squares[0] > 1e-12:
        raise OptionError(
            "public: all public records have the same features, so that they "
            "cannot be distinguished."
        )
    stretched = np.where(
        squares > _FLAT * squares[0], np.maximum(squares, 1e-30) ** (-exponent / 2), 0.0
    )
    scale = length / math.sqrt(float((squares * np.square(stretched)).sum()))
    return Whitened(
        of=of, centre=centre, axes=turned * stretched * scale, norm=_LONGEST * length
    )


def _signed(axes: Matrix) -> Matrix:
    """Returns axes turned so that the largest entry of each is positive: programs differ in this."""
    largest = axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])]
    return axes * np.where(largest < 0, -1.0, 1.0)
