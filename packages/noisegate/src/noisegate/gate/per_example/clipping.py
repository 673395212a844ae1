"""The integer half of gradients: clips those of a block to the grid and sums them. NumPy alone, whatever made them.

NumPy adds the rows of an array in another order where it has another shape or layout, so no sum here is one that could
be rounded: each step is a function of a record's row alone, bit for bit (G-20).

With the factors c of `clip_factors`, each row x, its parts side by side, becomes q = trunc(x·c) with ‖q‖₂ ≤ `UNITS`,
exactly, in a quarter of the time of `Grid.quantise`. Where the gradient of a weight is d ⊗ x, |x|·d takes its place in
the row (`add_products`); of factored gradients, directions and |x_g|·d_g are quantised (`add_factored`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from noisegate.privacy.gradient_plan import FACTOR_UNITS
from noisegate.privacy.grid import UNITS, Grid

Rows = npt.NDArray[np.float32]
Factors = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.float64]

_HEADROOM, _EDGE = 1 - 2.0**-10, 1 + 2.0**-11
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

    Args:
        total: Those of all parameters side by side.
        shapes: Shape of each parameter.
        whole: Gradients of the parameters that are in `shapes` alone, side by side, (rows, numbers).
        products: Of the others: inputs and gradients at the outputs, (rows, ·) each; the gradient is their product.
        grid: The norm; it has no centre, and signs are kept.
    """
    norms = {name: row_norms(inputs) for name, (inputs, _) in products.items()}
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = {name: (outputs * norms[name]).astype(np.float32) for name, (_, outputs) in products.items()}
    factors = clip_factors((whole, *scaled.values()), grid)
    done = start = 0
    for name, shape in shapes.items():
        size = math.prod(shape)
        part = total[start : start + size]
        if name in products:
            add_products(part, products[name][0], norms[name], clipped(scaled[name], factors))
        else:
            add_clipped(part, whole[:, done : done + size], factors)
            done += size
        start += size


def clip_factors(parts: Sequence[Rows], grid: Grid) -> Factors:
    """Returns the factor of each row, (rows,), of `parts`, (rows, numbers) each; zero where a row is not finite."""
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
    """Adds at most `BLOCK_LIMIT` rows, (rows, numbers), times `clip_factors` and rounded, to `total`, (numbers,)."""
    finite = factors > 0
    if not finite.all():
        part, factors = part[finite], factors[finite]
    for columns, piece in _pieces(part, factors):
        total[columns] += piece.astype(np.int32).sum(axis=0, dtype=np.int32)


def clipped(part: Rows, factors: Factors) -> npt.NDArray[np.int32]:
    """Returns a part of the rows, clipped and rounded, (rows, numbers); see `add_clipped`."""
    result = np.zeros(part.shape, dtype=np.int32)
    result[factors > 0] = (part[factors > 0] * factors[factors > 0, None]).astype(np.int32)
    return result


def row_norms(rows: Rows) -> Numbers:
    """Returns the norm of each row, (…, 1), of rows (…, numbers): infinite or NaN where an entry is."""
    bits = (52 - math.ceil(math.log2(max(rows.shape[-1], 2)))) // 2
    with np.errstate(all="ignore"):  # whether a warning comes must not depend on a record
        largest = np.abs(rows).max(axis=-1, keepdims=True, initial=0).astype(np.float64)
        finite = np.isfinite(largest)
        exponents = np.frexp(np.where(finite, largest, 1.0))[1]
        whole = np.trunc(np.ldexp(rows.astype(np.float64), bits - exponents))
        squares = np.square(whole, out=whole).sum(axis=-1, keepdims=True)
        norms: Numbers = np.where(finite, np.ldexp(np.sqrt(squares), exponents - bits), largest)
    return norms


def add_products(total: npt.NDArray[np.int64], inputs: Rows, norms: Numbers, gradients: npt.NDArray[np.int32]) -> None:
    """Adds Σ over records of gradients ⊗ directions of the inputs to `total`, (outputs · inputs,).

    Of at most `BLOCK_LIMIT` records: inputs, (rows, inputs), their norms, (rows, 1), and |inputs| · gradient at the
    outputs, clipped and rounded, (rows, outputs).
    """
    first = _coarse(Grid(norm=1.0), _directions(inputs, norms), _HALF_UNITS)
    second = np.trunc(gradients * (_HALF_UNITS / UNITS))
    total += (second.T @ first).astype(np.int64).reshape(-1)


def add_factored(total: npt.NDArray[np.int64], inputs: Rows, gradients: Rows, grid: Grid) -> None:
    """Adds Σ over records of gradients ⊗ inputs of all groups, clipped as a whole, to `total`.

    Of at most `BLOCK_LIMIT` records: inputs, (rows, groups, inputs), and gradients at the outputs, (rows, groups,
    outputs); total is (groups · outputs · inputs,) in grid units.
    """
    norms = row_norms(inputs)
    with np.errstate(over="ignore", invalid="ignore"):
        weighted = gradients * norms
    directions = _directions(inputs, norms)
    first = _coarse(Grid(norm=1.0), directions.reshape(-1, inputs.shape[2]), FACTOR_UNITS).reshape(inputs.shape)
    second = _coarse(grid, weighted.reshape(len(gradients), -1), FACTOR_UNITS).reshape(gradients.shape)
    total += np.matmul(second.transpose(1, 2, 0), first.transpose(1, 0, 2)).reshape(-1).astype(np.int64)


def _directions(inputs: Rows, norms: Numbers) -> Numbers:
    with np.errstate(over="ignore", invalid="ignore"):
        directions: Numbers = inputs / np.where(norms > 0, norms, 1.0)
    return directions


def _coarse(grid: Grid, vectors: Numbers, units: int) -> Numbers:
    """Returns integer rows of norm at most `units`, as float64: rounding toward zero twice."""
    coarse: Numbers = np.trunc(grid.quantise(vectors) * (units / UNITS))
    return coarse


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
