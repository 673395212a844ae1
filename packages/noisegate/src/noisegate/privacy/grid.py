"""The integer grid: a record's vector is clipped and rounded toward zero to integers, so that sums are exact (G-02).

====================================  ==========================================================
vector                                result
====================================  ==========================================================
any NaN or ±inf                       the zero vector: the record takes part, with nothing
zero                                  the zero vector
norm ≤ bound                          every coordinate rounded toward zero to the grid
norm > bound                          scaled down onto the bound first (√D/2ᵏ short, never above)
bound = 0                             refused at construction
====================================  ==========================================================

Gradients are clipped here too, and summed by the block, in a quarter of the time of `Grid.quantise` (G-20). No sum is
one that could be rounded, since NumPy's order of adding depends on shape and layout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisegate.errors import DataError, OptionError
from noisegate.privacy.events import Adjacency

FloatRows = npt.NDArray[np.float32] | npt.NDArray[np.float64]

UNITS = 2**22
FACTOR_UNITS = 2**12
"""Norm bound, in grid units, of each of the two factors of a factored gradient (G-20)."""
_HEADROOM = 1 - 2.0**-10
_CHUNK = 4096
_WORK = 2**15
# Σ|q| over this many records stays below 2³¹, so blocks are summed in int32.
BLOCK_LIMIT = (2**31 - 1) // UNITS
# A coordinate of Σ|q| over this many records, 1.1·10¹², stays below 2⁶²: int64 has as much room again for the noise.
RECORD_LIMIT = (2**62 - 1) // UNITS


def check_room(records: int) -> None:
    """Refuses more records than 64 bits hold the sum of, with its noise, by a `DataError`."""
    if records > RECORD_LIMIT:
        raise DataError(
            f"more than {RECORD_LIMIT} records: their sum and its noise could leave 64 bits; release them in several "
            "parts, each with a budget of its own, and merge these (noisegate release, noisegate merge)"
        )


@dataclass(frozen=True, kw_only=True)
class GridBound:
    """Every record's vector is integer and has L2 norm at most `units`.

    Sums of them, each placed in the column of a matrix that its record chooses, have the sensitivity of G-01.

    `units` is a positive integer in grid units; if `nonnegative`, no coordinate of a vector is below zero.

    Examples:
        >>> from noisegate import Adjacency
        >>> from noisegate.privacy.events import Adjacency
        >>> counts = GridBound(units=10, nonnegative=True)
        >>> [counts.sensitivity_squared(each) for each in Adjacency]
        [100, 200]
        >>> GridBound(units=10).sensitivity(Adjacency.REPLACE_ONE), counts.of_unit(3).units
        (20, 30)
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


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The grid on which the vectors of one question are summed.

    Attributes:
        norm: The L2 norm that a record's vector is clipped to, positive.
        nonnegative: Whether negative coordinates are set to zero. The claim is enforced, not trusted.
        centre: Public vector that is subtracted from every record's vector before clipping, or None.

    Examples:
        >>> import numpy as np
        >>> from noisegate.privacy.grid import UNITS, Grid
        >>> grid = Grid(norm=1.0)
        >>> rows = grid.quantise(np.array([[3.0, 4.0], [np.nan, 1.0]], dtype=np.float32))
        >>> [sum(number**2 for number in row) <= UNITS**2 for row in rows.tolist()], rows[1].tolist()
        ([True, True], [0, 0])
        >>> grid.restore(rows[0].astype(np.int64)).round(2).tolist()
        [0.6, 0.8]
    """

    norm: float
    nonnegative: bool = False
    centre: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.norm) and self.norm > 0):
            raise OptionError(
                f"norm={self.norm!r} of a query must be positive and finite."
            )
        if self.nonnegative and self.centre is not None:
            raise OptionError(
                "a query cannot be both non-negative and centred; drop one of the two."
            )

    @property
    def bound(self) -> GridBound:
        """The norm bound of every quantised vector, in grid units."""
        return GridBound(units=UNITS, nonnegative=self.nonnegative)

    @property
    def scale(self) -> float:
        """Grid units per unit of the vectors."""
        return UNITS * _HEADROOM / self.norm

    def quantise(self, vectors: FloatRows) -> npt.NDArray[np.int32]:
        """Returns the rows of `vectors` clipped and rounded toward zero to the grid (G-02)."""
        if vectors.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise OptionError(
                f"vectors of type {vectors.dtype} cannot be summed; a feature map returns float32."
            )
        if self.centre is not None:
            vectors = vectors.astype(np.float64) - np.asarray(
                self.centre, dtype=np.float64
            )
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # whether a warning comes must not depend on a record
            scaled = vectors * vectors.dtype.type(self.scale)
            # Before negative values are dropped, so that a record with an infinite one is never taken for a finite one.
            accepted, refused = _decided(scaled)
        # NumPy's maximum takes longer than all else here: it is spared where nothing is to be dropped. NaN is not >= 0.
        if self.nonnegative and not scaled.min(initial=0) >= 0:
            np.maximum(scaled, 0, out=scaled)
        if accepted.all():
            return scaled.astype(np.int32)
        result = np.zeros(vectors.shape, dtype=np.int32)
        result[accepted] = scaled[accepted].astype(np.int32)
        # Without its negative values a row may be inside after all.
        outside = np.flatnonzero([] if self.nonnegative else refused)
        accepted[outside] = True
        for row in np.flatnonzero(~accepted):
            result[row] = _quantise_row(vectors[row], scaled[row], self.nonnegative)
        # Some rows at a time: work arrays that leave the cache cost more than the arithmetic.
        some = max(1, _WORK // max(vectors.shape[1], 1))
        for start in range(0, len(outside), some):
            rows = outside[start : start + some]
            result[rows] = _clip_rows(vectors[rows].astype(np.float64))
        return result

    def restore(self, sums: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Returns sums in grid units as sums in the units of the vectors (of vectors minus centre, when centred)."""
        return sums.astype(np.float64) / self.scale


def squared_norms(rows: FloatRows) -> npt.NDArray[np.float64]:
    """Returns the sum of squares of each row: in chunks of at most 4096 in the rows' type, of chunks in float64."""
    chunks = rows.shape[1] // _CHUNK
    # Products of a row with itself go to BLAS, which takes a third of einsum's time; so short ones start no threads.
    parts = rows[:, : chunks * _CHUNK].reshape(len(rows), chunks, _CHUNK)
    rest = rows[:, chunks * _CHUNK :]
    total = np.matmul(parts[:, :, None, :], parts[:, :, :, None])[:, :, 0, 0].sum(
        axis=1, dtype=np.float64
    )
    return np.asarray(total + np.matmul(rest[:, None, :], rest[:, :, None])[:, 0, 0])


def _decided(scaled: FloatRows) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Returns which rows are surely inside the ball after truncation, and which ones are finite and surely not."""
    # |trunc(x)| ≤ |x|, so the norm before truncation decides for the norm after it.
    total = squared_norms(scaled)
    inside: npt.NDArray[np.bool_] = (
        total * (1 + 2.0**-11) <= float(UNITS) ** 2
    )  # False for NaN
    outside = np.isfinite(total) & (
        total * (1 - 2.0**-11) > (UNITS + math.sqrt(scaled.shape[1])) ** 2
    )
    return inside, outside


def _quantise_row(
    row: FloatRows, scaled: FloatRows, nonnegative: bool
) -> npt.NDArray[np.int64]:
    if not np.isfinite(row).all():
        return np.zeros(row.shape, dtype=np.int64)
    if np.abs(scaled).max(initial=0) <= UNITS:
        exact = scaled.astype(np.int64)
        # At most 2⁴⁴ a square: chunks of 4096 stay below 2⁵⁶, and Python integers add the chunks.
        squares = sum(
            int(np.dot(part, part))
            for part in np.split(exact, range(_CHUNK, len(exact), _CHUNK))
        )
        if squares <= UNITS * UNITS:
            return exact
    exact_row = row.astype(np.float64)[None]
    return np.asarray(
        _clip_rows(np.maximum(exact_row, 0) if nonnegative else exact_row)[0]
    )


def _clip_rows(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Returns finite rows, which are overwritten, scaled down onto the ball."""
    dim = rows.shape[1]
    largest = np.maximum(
        rows.max(axis=1, keepdims=True), -rows.min(axis=1, keepdims=True)
    )
    # A row of zeros stays one.
    unit = np.divide(rows, np.where(largest > 0, largest, 1.0), out=rows)
    bits = (52 - math.ceil(math.log2(max(dim, 2)))) // 2
    coarse = unit * 2.0**bits
    np.trunc(coarse, out=coarse)
    radius = np.sqrt(np.einsum("ij,ij->i", coarse, coarse)) + math.sqrt(dim)
    unit *= (UNITS * 2.0**bits * _HEADROOM / radius)[:, None]
    return unit.astype(np.int64)


Rows = npt.NDArray[np.float32]
Factors = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]

_EDGE = 1 + 2.0**-11
_LARGEST = 2.0**120
# Norm bound of each of the two factors of a weight's gradient, so that their product stays within `UNITS`.
_HALF_UNITS = 2**11
# Numbers that are worked on at once: a few arrays of them fit into the cache of a core.
_PIECE = 2**15


def add_gradients(
    total: npt.NDArray[np.int64],
    shapes: Mapping[str, tuple[int, ...]],
    whole: Rows,
    products: Mapping[str, tuple[Rows, Rows]],
    grid: Grid,
) -> None:
    """Adds the gradients of records, each clipped as a whole, to `total`, (numbers,), in grid units.

    `total` has all parameters of `shapes` side by side. `whole` has the gradients of those that are in `shapes` alone,
    (rows, numbers); `products` of the others inputs and gradients at the outputs, (rows, ·) each, whose product the
    gradient is. The grid is the norm: it has no centre, and signs are kept.
    """
    norms = {name: row_norms(inputs) for name, (inputs, _) in products.items()}
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = {
            name: (outputs * norms[name]).astype(np.float32)
            for name, (_, outputs) in products.items()
        }
    factors = clip_factors((whole, *scaled.values()), grid)
    done = start = 0
    for name, shape in shapes.items():
        size = math.prod(shape)
        part = total[start : start + size]
        if name in products:
            add_products(
                part, products[name][0], norms[name], clipped(scaled[name], factors)
            )
        else:
            add_clipped(part, whole[:, done : done + size], factors)
            done += size
        start += size


def clip_factors(parts: Sequence[Rows], grid: Grid) -> Factors:
    """Returns the factor of each row, (rows,), of `parts`, (rows, numbers) each; zero where a row is not finite."""
    length = max(sum(part.shape[1] for part in parts), 1)
    bits = min((52 - math.ceil(math.log2(max(length, 2)))) // 2, 22)
    with np.errstate(
        all="ignore"
    ):  # whether a warning comes must not depend on a record
        largest = np.max([_largest(part) for part in parts], axis=0)
        finite = np.isfinite(largest)
        scales = np.minimum(
            2.0**bits / np.where(finite, largest, 1.0), _LARGEST
        ).astype(np.float32)
        squares = np.sum([_squares(part, scales) for part in parts], axis=0)
        bounds = (
            (np.sqrt(squares) + math.sqrt(length))
            / scales.astype(np.float64)
            * (1 + 2.0**-22)
        )
        kept = np.where(bounds <= grid.norm * _EDGE, grid.norm, bounds)
        factors = np.minimum(UNITS * _HEADROOM / kept, _LARGEST).astype(np.float32)
    return np.where(finite, factors, np.float32(0))


def add_clipped(total: npt.NDArray[np.int64], part: Rows, factors: Factors) -> None:
    """Adds at most `BLOCK_LIMIT` rows, (rows, numbers), times `clip_factors` and rounded, to `total`, (numbers,)."""
    finite = factors > 0
    if not finite.all():
        part, factors = part[finite], factors[finite]
    for columns, piece in _pieces(part, factors):
        total[columns] += piece.astype(np.int32).sum(axis=0, dtype=np.int32)


def clipped(part: Rows, factors: Factors) -> npt.NDArray[np.int32]:
    """Returns a part of the rows, clipped and rounded, (rows, numbers); see `add_clipped`."""
    result = np.zeros(part.shape, dtype=np.int32)
    result[factors > 0] = (part[factors > 0] * factors[factors > 0, None]).astype(
        np.int32
    )
    return result


def row_norms(rows: Rows) -> Numbers:
    """Returns the norm of each row, (…, 1), of rows (…, numbers): infinite or NaN where an entry is."""
    bits = (52 - math.ceil(math.log2(max(rows.shape[-1], 2)))) // 2
    with np.errstate(
        all="ignore"
    ):  # whether a warning comes must not depend on a record
        largest = np.abs(rows).max(axis=-1, keepdims=True, initial=0).astype(np.float64)
        finite = np.isfinite(largest)
        exponents = np.frexp(np.where(finite, largest, 1.0))[1]
        whole = np.trunc(np.ldexp(rows.astype(np.float64), bits - exponents))
        squares = np.square(whole, out=whole).sum(axis=-1, keepdims=True)
        return np.asarray(
            np.where(finite, np.ldexp(np.sqrt(squares), exponents - bits), largest)
        )


def add_products(
    total: npt.NDArray[np.int64],
    inputs: Rows,
    norms: Numbers,
    gradients: npt.NDArray[np.int32],
) -> None:
    """Adds Σ over records of gradients ⊗ directions of the inputs to `total`, (outputs · inputs,).

    Of at most `BLOCK_LIMIT` records: inputs, (rows, inputs), their norms, (rows, 1), and |inputs| · gradient at the
    outputs, clipped and rounded, (rows, outputs).
    """
    first = _coarse(Grid(norm=1.0), _directions(inputs, norms), _HALF_UNITS)
    second = np.trunc(gradients * (_HALF_UNITS / UNITS))
    total += (second.T @ first).astype(np.int64).reshape(-1)


def add_factored(
    total: npt.NDArray[np.int64], inputs: Rows, gradients: Rows, grid: Grid
) -> None:
    """Adds Σ over records of gradients ⊗ inputs of all groups, clipped as a whole, to `total`.

    Of at most `BLOCK_LIMIT` records: inputs, (rows, groups, inputs), and gradients at the outputs, (rows, groups,
    outputs); total is (groups · outputs · inputs,) in grid units.
    """
    norms = row_norms(inputs)
    with np.errstate(over="ignore", invalid="ignore"):
        weighted = gradients * norms
    directions = _directions(inputs, norms)
    first = _coarse(
        Grid(norm=1.0), directions.reshape(-1, inputs.shape[2]), FACTOR_UNITS
    ).reshape(inputs.shape)
    second = _coarse(grid, weighted.reshape(len(gradients), -1), FACTOR_UNITS).reshape(
        gradients.shape
    )
    total += (
        np.matmul(second.transpose(1, 2, 0), first.transpose(1, 0, 2))
        .reshape(-1)
        .astype(np.int64)
    )


def _directions(inputs: Rows, norms: Numbers) -> Numbers:
    with np.errstate(over="ignore", invalid="ignore"):
        return inputs / np.where(norms > 0, norms, 1.0)


def _coarse(grid: Grid, vectors: Numbers, units: int) -> Numbers:
    """Returns integer rows of norm at most `units`, as float64: rounding toward zero twice."""
    return np.asarray(np.trunc(grid.quantise(vectors) * (units / UNITS)))


def _largest(part: Rows) -> Factors:
    """Returns the largest magnitude of each row, NaN where there is one."""
    return np.asarray(
        np.maximum(part.max(axis=1, initial=0), -part.min(axis=1, initial=0))
    )


def _squares(part: Rows, scales: Factors) -> npt.NDArray[np.float64]:
    """Returns Σ t² of each row, exact where the row is finite."""
    found = np.zeros(len(part))
    for _, piece in _pieces(part, scales):
        whole = np.trunc(piece, out=piece).astype(np.float64)
        found += np.einsum("ij,ij->i", whole, whole)
    return found


def _pieces(part: Rows, factors: Factors) -> Iterator[tuple[slice, Rows]]:
    """Yields some columns after the other, times the factor of each row; the array is used again."""
    width = max(_PIECE // max(len(part), 1), 1)
    work = np.empty((len(part), width), dtype=np.float32)
    for start in range(0, part.shape[1], width):
        columns = slice(start, min(start + width, part.shape[1]))
        piece = work[:, : columns.stop - start]
        yield columns, np.multiply(part[:, columns], factors[:, None], out=piece)
