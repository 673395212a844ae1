"""Clips the gradients of a block to the grid and sums them, some columns at a time, so that work stays in the cache.

Guarantee (part of G-20). With the factors c that `clip_factors` returns, each record's row x, its parts side by side,
becomes the integer row q = trunc(x·c) with ‖q‖₂ ≤ `UNITS`, exactly, and q is a function of that row alone, bit for bit.
It is what `Grid.quantise` gives, but that rows at the edge of the ball or outside of it differ a little in length, and
takes a quarter of the time.

Proof. Let m = max|x|, D the length of a row, s = min(2ᵏ/m, 2¹²⁰) in float32 with k ≤ 22 such that D·2²ᵏ ≤ 2⁵², and t =
trunc(fl(x·s)). Coordinates of t are at most 2ᵏ, so Σ t² is an exact float64 whatever the order. Each coordinate has
|x·s|·(1 − 2⁻²³) < |t| + 1, also where a product underflows. So

    ‖x‖ ≤ (√(Σ t²) + √D)/s · (1 + 2⁻²²) =: r.

Let c = UNITS·(1 − 2⁻¹⁰)/norm where r ≤ norm·(1 + 2⁻¹¹), else UNITS·(1 − 2⁻¹⁰)/r, at most 2¹²⁰, rounded to float32. In
both cases c·‖x‖ ≤ UNITS·(1 − 2⁻¹¹)(1 + 2⁻²³), and q = trunc(fl(x·c)) has ‖q‖ ≤ UNITS·(1 − 2⁻¹¹)(1 + 2⁻²²)² < UNITS.
Each step is one IEEE operation a coordinate, or exact, so q is a function of the row. A row with an entry that is not
finite gets the factor zero, and adds nothing. Tested by tests/gate/test_clipped_rows.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from noisegate.privacy.grid import UNITS, Grid

Rows = npt.NDArray[np.float32]
Factors = npt.NDArray[np.float32]

_HEADROOM, _EDGE = 1 - 2.0**-10, 1 + 2.0**-11
_LARGEST = 2.0**120
# Numbers that are worked on at once: a few arrays of them fit into the cache of a core.
_PIECE = 2**15


def clip_factors(parts: Sequence[Rows], grid: Grid) -> Factors:
    """Returns what each row is to be multiplied with, in grid units per unit, (rows,); zero where it is not finite.

    Args:
        parts: Parts of each row, (rows, numbers) each.
        grid: The norm; it has no centre, and signs are kept.
    """
    length = max(sum(part.shape[1] for part in parts), 1)
    bits = min((52 - math.ceil(math.log2(max(length, 2)))) // 2, 22)
    with np.errstate(all="ignore"):  # whether a warning comes must not depend on a record
        largest = np.max([_largest(part) for part in parts], axis=0)
        finite = np.isfinite(largest)
        scales = np.minimum(2.0**bits / np.where(finite, largest, 1.0), _LARGEST).astype(np.float32)
        squares = np.sum([_squares(part, scales) for part in parts], axis=0)
        bounds = (np.sqrt(squares) + math.sqrt(length)) / scales.astype(np.float64) * (1 + 2.0**-22)
        kept = np.where(bounds <= grid.norm * _EDGE, grid.norm, bounds)
        factors = np.minimum(UNITS * _HEADROOM / kept, _LARGEST).astype(np.float32)
    return np.where(finite, factors, np.float32(0))


def add_clipped(total: npt.NDArray[np.int64], part: Rows, factors: Factors) -> None:
    """Adds a part of the rows, clipped and rounded, to `total`, (numbers,).

    Args:
        total: In grid units.
        part: (rows, numbers), of at most `BLOCK_LIMIT` rows: their sum is taken in 32 bits.
        factors: What `clip_factors` returned for these rows.
    """
    for columns, piece in _pieces(*_finite(part, factors)):
        total[columns] += piece.astype(np.int32).sum(axis=0, dtype=np.int32)


def clipped(part: Rows, factors: Factors) -> npt.NDArray[np.int32]:
    """Returns a part of the rows, clipped and rounded, (rows, numbers); see `add_clipped`."""
    result = np.zeros(part.shape, dtype=np.int32)
    result[factors > 0] = (part[factors > 0] * factors[factors > 0, None]).astype(np.int32)
    return result


def _finite(part: Rows, factors: Factors) -> tuple[Rows, Factors]:
    finite = factors > 0
    return (part, factors) if finite.all() else (part[finite], factors[finite])


def _largest(part: Rows) -> Factors:
    """Returns the largest magnitude of each row, NaN where there is one."""
    found: Factors = np.maximum(part.max(axis=1, initial=0), -part.min(axis=1, initial=0))
    return found


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
