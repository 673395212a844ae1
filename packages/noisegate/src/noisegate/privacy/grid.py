"""The integer grid on which private vectors are summed, and the sums' sensitivity.

A record's vector is clipped to a norm and rounded to integers before it is added, so
that sums are exact and their sensitivity holds without a rounding error (G-01, G-02)::

    vector ──► minus centre ──► times scale ──► clip, round toward zero ──► integers
    float                       grid units      norm ≤ `UNITS`              int32

====================================  ==================================================
vector                                result
====================================  ==================================================
any NaN or ±inf                       the zero vector: the record counts, as nothing
zero                                  the zero vector
norm ≤ bound                          every coordinate rounded toward zero to the grid
norm > bound                          scaled down onto the bound first, never above it
                                      (√D/2ᵏ short, for D coordinates)
bound = 0                             refused at construction
====================================  ==================================================

Rounding is toward zero, so that it never makes a vector longer. Whatever a float
computes here depends on the row alone, bit for bit (G-06): no sum is taken that could
be rounded, except to decide which rows need an exact test, since the order in which
NumPy adds depends on shape and layout.

Gradients come onto the grid in `gradient_grid`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisegate.errors import DataError, OptionError
from noisegate.privacy.events import Adjacency

FloatRows = npt.NDArray[np.float32] | npt.NDArray[np.float64]

UNITS = 2**22
"""Norm bound of every vector on the grid, in grid units."""
FACTOR_UNITS = 2**12
"""Norm bound, in grid units, of both factors of a factored gradient (G-20)."""
HEADROOM = 1 - 2.0**-10
"""Part of `UNITS` that vectors are scaled to, as room for rounding errors."""
BLOCK_LIMIT = (2**31 - 1) // UNITS
"""How many records are summed in int32: Σ|q| over so many stays below 2³¹."""
RECORD_LIMIT = (2**62 - 1) // UNITS
"""How many records a sum may have, 1.1·10¹². A coordinate of Σ|q| over so many stays
below 2⁶², so that int64 has as much room again for the noise (G-07)."""

# Coordinates whose squares are summed in the type of the rows. The proof of the fast
# test bounds the error of a float32 sum for at most so many (G-02).
_CHUNK_SIZE = 4096
# Margin of the fast test, above the relative error of such a sum (G-02).
_TEST_MARGIN = 2.0**-11
# Numbers that are clipped at a time: work arrays that leave the cache cost more than
# the arithmetic.
_MAX_NUMBERS_AT_ONCE = 2**15


def check_record_limit(records: int) -> None:
    """Checks that a sum of this many records, with its noise, fits into 64 bits (G-07).

    Args:
        records: Number of records.

    Raises:
        DataError: if it may not.
    """
    if records > RECORD_LIMIT:
        raise DataError(
            f"more than {RECORD_LIMIT} records: their sum and its noise could leave 64 "
            "bits; release them in several parts, each with a budget of its own, and "
            "merge these (noisegate release, noisegate merge)"
        )


@dataclass(frozen=True, kw_only=True)
class GridBound:
    """Bound on the vectors of records: they are integer, with a bounded L2 norm.

    Each vector is added to one column of a matrix. The record determines the column.
    The sum of such vectors has the sensitivities of G-01.

    Attributes:
        units: Largest norm, in grid units; a positive integer.
        nonnegative: Whether no coordinate of a vector is negative.

    Examples:
        >>> from noisegate.privacy.events import Adjacency
        >>> from noisegate.privacy.grid import GridBound
        >>> counts = GridBound(units=10, nonnegative=True)
        >>> [counts.sensitivity_squared(adjacency) for adjacency in Adjacency]
        [100, 200]
        >>> GridBound(units=10).sensitivity(Adjacency.REPLACE_ONE)
        20
        >>> counts.of_unit(3).units
        30
    """

    units: int
    nonnegative: bool = False

    def of_unit(self, contributions: int) -> GridBound:
        """Returns the bound of a unit with several records, by the triangle inequality.

        Args:
            contributions: Largest number of records of a unit.
        """
        return GridBound(units=self.units * contributions, nonnegative=self.nonnegative)

    def sensitivity_squared(self, adjacency: Adjacency) -> int:
        """Returns the squared L2 sensitivity of the sum, exactly (G-01).

        An added record changes the sum by one vector, of norm at most B. A replaced
        record changes it by the difference of two vectors, whose square is at most
        (2B)². If no coordinate is negative, it is at most 2B², because the angle
        between two such vectors is at most a right angle.

        Args:
            adjacency: The neighbouring relation.

        Returns:
            The square, in squared grid units.
        """
        square = self.units * self.units
        match adjacency:
            case Adjacency.ADD_REMOVE:
                return square
            case Adjacency.REPLACE_ONE:
                return 2 * square if self.nonnegative else 4 * square

    def sensitivity(self, adjacency: Adjacency) -> int:
        """Returns the L2 sensitivity of the sum (G-01).

        Args:
            adjacency: The neighbouring relation.

        Returns:
            The sensitivity in grid units, rounded up to an integer.
        """
        square = self.sensitivity_squared(adjacency)
        root = math.isqrt(square)  # rounded down
        return root if root * root == square else root + 1


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The grid on which the vectors of one query are summed.

    Attributes:
        norm: The L2 norm that a record's vector is clipped to, positive.
        nonnegative: Whether vectors have no negative coordinates. This is enforced:
            negative coordinates are set to zero.
        centre: Public vector that is subtracted from every record's vector before
            clipping, or None.

    Raises:
        OptionError: if the norm is not positive and finite, or the query is both
            non-negative and centred.

    Examples:
        >>> import numpy as np
        >>> from noisegate.privacy.grid import UNITS, Grid
        >>> grid = Grid(norm=1.0)
        >>> vectors = np.array([[3.0, 4.0], [np.nan, 1.0]], dtype=np.float32)
        >>> rows = grid.quantise(vectors)
        >>> [sum(number**2 for number in row) <= UNITS**2 for row in rows.tolist()]
        [True, True]
        >>> rows[1].tolist()
        [0, 0]
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
        return UNITS * HEADROOM / self.norm

    def quantise(self, vectors: FloatRows) -> npt.NDArray[np.int32]:
        """Clips vectors and rounds them toward zero to the grid (G-02).

        Most rows are far inside or far outside the ball of the norm bound. A fast test
        decides them. The other rows are decided in integer arithmetic, one by one.

        A change of this function must preserve two properties: no row is outside the
        ball, and the bits of a row do not depend on the other rows. These tests check
        them: `test_adversarial_rows_stay_inside_the_ball`,
        `test_rows_close_to_the_bound_stay_inside_the_ball` and
        `test_a_row_has_the_same_bits_in_every_company`.

        Args:
            vectors: One vector for each record, (records, coordinates), float32 or
                float64.

        Returns:
            Integer vectors in grid units, (records, coordinates), whose norm is at most
            `UNITS` exactly. Each depends on its own row only. A row with a NaN or an
            infinite entry becomes zeros.

        Raises:
            OptionError: if the vectors are of another type.
        """
        if vectors.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise OptionError(
                f"vectors of type {vectors.dtype} cannot be summed; a feature map "
                "returns float32."
            )
        centred = self._subtract_centre(vectors)

        # Whether a warning comes must not depend on a record.
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = centred * centred.dtype.type(self.scale)
            # Tested before negative values are dropped, so that a row with an infinite
            # one is never taken for a finite one.
            is_inside, is_outside = _test_norms(scaled)
        # NumPy's maximum takes longer than all else here, so it is spared where nothing
        # is negative. A NaN is not >= 0.
        if self.nonnegative and not scaled.min(initial=0) >= 0:
            np.maximum(scaled, 0, out=scaled)
        if is_inside.all():
            return scaled.astype(np.int32)

        if self.nonnegative:
            # Without its negative values a row may be inside after all.
            is_outside = np.zeros_like(is_outside)
        is_undecided = ~(is_inside | is_outside)
        quantised = np.zeros(centred.shape, dtype=np.int32)
        quantised[is_inside] = scaled[is_inside].astype(np.int32)
        for row in np.flatnonzero(is_undecided):
            quantised[row] = _quantise_row(centred[row], scaled[row], self.nonnegative)
        outside_rows = np.flatnonzero(is_outside)
        rows_at_once = max(1, _MAX_NUMBERS_AT_ONCE // max(centred.shape[1], 1))
        for start in range(0, len(outside_rows), rows_at_once):
            rows = outside_rows[start : start + rows_at_once]
            # `astype` copies, so that the caller's vectors are not overwritten.
            quantised[rows] = _scale_onto_ball(centred[rows].astype(np.float64))
        return quantised

    def _subtract_centre(self, vectors: FloatRows) -> FloatRows:
        """Returns vectors minus the centre, in float64 if there is one."""
        if self.centre is None:
            return vectors
        centre = np.asarray(self.centre, dtype=np.float64)
        return vectors.astype(np.float64) - centre

    def restore(self, sums: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Converts sums from grid units to the units of the vectors.

        Args:
            sums: Sums in grid units, of any shape.

        Returns:
            The sums of the vectors, or of vectors minus the centre if there is one.
        """
        return sums.astype(np.float64) / self.scale


def squared_norms(rows: FloatRows) -> npt.NDArray[np.float64]:
    """Computes the sum of squares of each row, approximately.

    Args:
        rows: Rows of numbers, (rows, coordinates).

    Returns:
        The sums, (rows,): within chunks of 4096 coordinates in the type of the rows,
        over chunks in float64. A float32 sum of a chunk is off by a relative 2⁻¹¹ at
        most (G-02).
    """
    chunk_count = rows.shape[1] // _CHUNK_SIZE
    in_chunks = chunk_count * _CHUNK_SIZE
    chunks = rows[:, :in_chunks].reshape(len(rows), chunk_count, _CHUNK_SIZE)
    remainder = rows[:, in_chunks:]
    # Products of a row with itself go to BLAS, which takes a third of the time of
    # einsum; they are short, so that BLAS starts no threads.
    chunk_squares = np.matmul(chunks[:, :, None, :], chunks[:, :, :, None])[:, :, 0, 0]
    remainder_squares = np.matmul(remainder[:, None, :], remainder[:, :, None])[:, 0, 0]
    return np.asarray(chunk_squares.sum(axis=1, dtype=np.float64) + remainder_squares)


def exact_bits(length: int) -> int:
    """Returns how many bits integers may have whose squares float64 adds up exactly.

    Args:
        length: Number of integers.

    Returns:
        The largest k such that `length` times 2²ᵏ is at most 2⁵². A sum of the squares
        of integers of at most 2ᵏ is then exact in whatever order it is taken.
    """
    return (52 - math.ceil(math.log2(max(length, 2)))) // 2


def _test_norms(
    scaled: FloatRows,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Tests the norms of rows against the bound, as far as floats can tell (G-02).

    Sums of squares are off by rounding, which depends on shape and layout. So a row is
    decided here only where it is so far from the bound that no order of adding could
    decide otherwise; the rows in between take an exact test, one by one.

    Args:
        scaled: Rows in grid units, before rounding, (records, coordinates).

    Returns:
        Whether each row is surely inside the ball after rounding, (records,), and
        whether it is finite and surely outside, (records,). Where both are False, only
        an exact test can tell.
    """
    # Rounding toward zero makes no coordinate longer, so a row that is inside before it
    # is inside after it. It shortens a row of D coordinates by at most √D.
    squares = squared_norms(scaled)
    is_inside: npt.NDArray[np.bool_] = (  # False for NaN
        squares * (1 + _TEST_MARGIN) <= float(UNITS) ** 2
    )
    max_shortening = math.sqrt(scaled.shape[1])
    is_outside = np.isfinite(squares) & (
        squares * (1 - _TEST_MARGIN) > (UNITS + max_shortening) ** 2
    )
    return is_inside, is_outside


def _quantise_row(
    row: FloatRows, scaled_row: FloatRows, nonnegative: bool
) -> npt.NDArray[np.int64]:
    """Quantises a row that floats cannot decide on, by an exact test (G-02).

    Args:
        row: The vector, (coordinates,).
        scaled_row: The same in grid units; without negative values if `nonnegative`.
        nonnegative: Whether negative coordinates are set to zero.

    Returns:
        The integer vector, (coordinates,).
    """
    if not np.isfinite(row).all():
        return np.zeros(row.shape, dtype=np.int64)
    if np.abs(scaled_row).max(initial=0) <= UNITS:
        rounded = scaled_row.astype(np.int64)
        # A square is at most 2⁴⁴, so chunks of 4096 stay below 2⁵⁶; the chunks are
        # added as Python integers, which have no limit.
        chunks = np.split(rounded, range(_CHUNK_SIZE, len(rounded), _CHUNK_SIZE))
        squared_norm = sum(int(np.dot(chunk, chunk)) for chunk in chunks)
        if squared_norm <= UNITS * UNITS:
            return rounded
    long_row = row.astype(np.float64)[None]  # a copy, which is overwritten below
    if nonnegative:
        long_row = np.maximum(long_row, 0)
    return np.asarray(_scale_onto_ball(long_row)[0])


def _scale_onto_ball(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Scales rows that are longer than the bound onto the ball, and rounds them (G-02).

    The caller gives it only such rows: each comes out about as long as the bound, since
    only its direction matters. A row of zeros stays one.

    What a change must keep:

    - A row is divided by an upper bound on its norm, never by the norm of a rounded
      row, which may be smaller: what is cut off counts too
      (`test_what_is_cut_off_a_long_row_counts_for_its_norm`).
    - The squares are those of integers that float64 adds up exactly, so that the order
      of adding, and with it the company of a row, changes no bit
      (`test_a_row_has_the_same_bits_in_every_company`).
    - Rounding is toward zero (`test_rounding_is_toward_zero`).

    Args:
        rows: Finite vectors, (records, coordinates), which are overwritten. They need
            not be in grid units, since their length is lost.

    Returns:
        Integer vectors of a norm just below `UNITS`, (records, coordinates).
    """
    dim = rows.shape[1]
    largest = np.maximum(
        rows.max(axis=1, keepdims=True), -rows.min(axis=1, keepdims=True)
    )
    # Coordinates from -1 to 1, of which one is -1 or 1.
    scaled = np.divide(rows, np.where(largest > 0, largest, 1.0), out=rows)
    # In units of 2^-bits, coordinates are cut to integers whose squares add up exactly.
    # What was cut off is less than 1 a coordinate, so its norm is below √dim, and the
    # triangle inequality bounds the norm of the whole row.
    bits = exact_bits(dim)
    integers = scaled * 2.0**bits
    np.trunc(integers, out=integers)
    max_norm = np.sqrt(np.einsum("ij,ij->i", integers, integers)) + math.sqrt(dim)
    # `HEADROOM` is room for the rounding errors of this product (G-02).
    scaled *= (UNITS * 2.0**bits * HEADROOM / max_norm)[:, None]
    return scaled.astype(np.int64)
