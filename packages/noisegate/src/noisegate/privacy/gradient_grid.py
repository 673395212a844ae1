"""Clips the gradients of single records onto the integer grid and sums them (G-20).

A gradient comes in one of three forms, by how many numbers it needs:

- *plain*: all parameters side by side, one row a record (`add_clipped`).
- *product*: for the weight of a linear layer, the gradient at its output and its input,
  d and x, whose outer product d ⊗ x is the gradient. It is never written out for a
  record (`add_products`).
- *factored*: the sum of such products over groups, clipped as a whole (`add_factored`).

The first two may be parts of one gradient, which `add_gradients` clips as a whole. The
norm of an outer product is the product of the norms, |d ⊗ x| = |d||x|. So the row
|x|·d, which has as few numbers as the layer has outputs, is as long as the gradient,
and stands for it wherever only the length counts. On the grid the gradient becomes
D ⊗ U, where D are the integers of |x|·d and U those of the direction x/|x|::

    x ──► x/|x| ──────────────────► U, norm ≤ 2¹¹ ─╮
    d ──► |x|·d ──► clip, round ──► D              ├─► Σ D ⊗ U over records, exact
                    norm ≤ 2²²      norm ≤ 2¹¹ ────╯

As in `grid`, a float computes nothing here that depends on more than its row: either it
is one operation a number, or all sums are of integers that float64 or int32 hold
exactly. It takes a quarter of the time of `Grid.quantise`.

A block has at most `BLOCK_LIMIT` records in every function below.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from noisegate.privacy.grid import FACTOR_UNITS, HEADROOM, UNITS, Grid, exact_bits

Rows = npt.NDArray[np.float32]  # (records, numbers)
Factors = npt.NDArray[np.float32]  # (records,)
Float64s = npt.NDArray[np.float64]

# Norm bound of each of the two integer factors of a product, so that their product
# stays within `UNITS`.
_HALF_UNITS = 2**11
# How far a norm may seem to be above the bound and still be taken for it: above the
# rounding errors of `clip_factors`, so that a gradient on the bound is not shortened.
_NORM_TOLERANCE = 1 + 2.0**-11
# Rounding of a product in float32, and of a bound on a norm, moves it by less (G-20).
_ROUNDING = 1 + 2.0**-22
# Bits of the integers whose squares give a norm; float32 holds no more (G-20).
_MAX_NORM_BITS = 22
# Factors of rows that are nearly zero end here, far from the largest float32.
_MAX_FACTOR = 2.0**120
# Numbers that are worked on at once: a few arrays of so many fit into the cache of a
# core.
_BLOCK_SIZE = 2**15


def add_gradients(
    total: npt.NDArray[np.int64],
    shapes: Mapping[str, tuple[int, ...]],
    plain: Rows,
    products: Mapping[str, tuple[Rows, Rows]],
    grid: Grid,
) -> None:
    """Adds the gradients of records to a sum, each clipped as a whole (G-20).

    A record's gradient is all its parts together, so one factor clips them all: it is
    computed from every part before the first is added. A part that was clipped by
    itself, or left out of the norm, would let a gradient exceed the sensitivity;
    `test_adding_removing_or_changing_a_record` would notice.

    Args:
        total: Sum in grid units over all parameters of `shapes` side by side,
            (parameters,), which is changed.
        shapes: Shape of each parameter, by name.
        plain: Gradients at the parameters that are not in `products`, side by side in
            the order of `shapes`, (records, numbers).
        products: For each parameter whose gradient is a product: the inputs of its
            layer, (records, inputs), and the gradients at its outputs,
            (records, outputs).
        grid: The norm to clip to. Its centre must be None, and `nonnegative` False:
            gradients are clipped around zero, and keep their signs.
    """
    input_norms = {name: row_norms(inputs) for name, (inputs, _) in products.items()}
    weighted_gradients = {
        name: _weigh_gradients(output_gradients, input_norms[name])
        for name, (_, output_gradients) in products.items()
    }
    factors = clip_factors((plain, *weighted_gradients.values()), grid)

    total_start = 0  # of the parameter, in `total`
    plain_start = 0  # of the parameter, in `plain`
    for name, shape in shapes.items():
        size = math.prod(shape)
        parameter_total = total[total_start : total_start + size]
        if name in products:
            inputs, _ = products[name]
            integer_gradients = clip_rows(weighted_gradients[name], factors)
            add_products(parameter_total, inputs, input_norms[name], integer_gradients)
        else:
            gradients = plain[:, plain_start : plain_start + size]
            add_clipped(parameter_total, gradients, factors)
            plain_start += size
        total_start += size


def _weigh_gradients(output_gradients: Rows, input_norms: Float64s) -> Rows:
    """Computes |x|·d: rows that are as long as the products d ⊗ x.

    What overflows float32 becomes infinite, and 0·∞ becomes NaN. Both are safe:
    `clip_factors` gives such a row the factor 0, so that the record adds nothing. NumPy
    must not warn of them, since whether a warning comes must not depend on a record.

    Args:
        output_gradients: d, (records, outputs).
        input_norms: |x| of each record, (records, 1).

    Returns:
        The rows, (records, outputs).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return (output_gradients * input_norms).astype(np.float32)


def clip_factors(parts: Sequence[Rows], grid: Grid) -> Factors:
    """Computes what each row is multiplied with to be clipped, in grid units (G-20).

    The factor is UNITS · HEADROOM over the norm that is clipped to, or over an upper
    bound on the norm of the row where that is more.

    What a change must keep: the bound is never below the true norm, and follows from
    the row alone, bit for bit. So it is computed from integers whose squares float64
    adds exactly, in whatever order; a plain `np.linalg.norm` would round differently in
    other company. `test_no_row_is_longer_than_the_bound` watches over this.

    Args:
        parts: Parts of the rows, (records, numbers) each, that are clipped together.
        grid: The norm to clip to.

    Returns:
        The factor of each row, (records,); zero where a row is not finite. A row times
        its factor, rounded toward zero, has a norm of at most `UNITS` exactly.
    """
    length = max(sum(part.shape[1] for part in parts), 1)
    bits = min(exact_bits(length), _MAX_NORM_BITS)
    # Whether a warning comes must not depend on a record.
    with np.errstate(all="ignore"):
        largest = np.max([_largest_magnitudes(part) for part in parts], axis=0)
        is_finite = np.isfinite(largest)
        # The norm is bounded by that of the row cut to few bits, whose square is exact,
        # and by what was cut off: less than 1 in each number.
        scales = np.minimum(
            2.0**bits / np.where(is_finite, largest, 1.0), _MAX_FACTOR
        ).astype(np.float32)
        squares = np.sum([_truncated_squares(part, scales) for part in parts], axis=0)
        max_norms = (
            (np.sqrt(squares) + math.sqrt(length))
            / scales.astype(np.float64)
            * _ROUNDING
        )
        is_within = max_norms <= grid.norm * _NORM_TOLERANCE
        norms = np.where(is_within, grid.norm, max_norms)
        # `HEADROOM` is room for the rounding of the factor, and of rows times factors.
        factors = np.minimum(UNITS * HEADROOM / norms, _MAX_FACTOR).astype(np.float32)
    return np.where(is_finite, factors, np.float32(0))


def add_clipped(total: npt.NDArray[np.int64], rows: Rows, factors: Factors) -> None:
    """Adds rows to a sum, each clipped and rounded toward zero.

    It adds what `clip_rows` returns, without holding all of it. Rows whose factor is 0
    are left out, as NaN times 0 is no 0.

    Args:
        total: Sum in grid units, (numbers,), which is changed.
        rows: The rows, or some of their columns, (records, numbers); at most
            `BLOCK_LIMIT` records, whose sum fits into int32.
        factors: What `clip_factors` returns for the whole rows, (records,).
    """
    is_finite = factors > 0
    if is_finite.all():
        finite_rows = rows
        finite_factors = factors
    else:
        finite_rows = rows[is_finite]
        finite_factors = factors[is_finite]
    for columns, scaled in _scaled_columns(finite_rows, finite_factors):
        total[columns] += scaled.astype(np.int32).sum(axis=0, dtype=np.int32)


def clip_rows(rows: Rows, factors: Factors) -> npt.NDArray[np.int32]:
    """Clips rows and rounds them toward zero.

    Args:
        rows: The rows, or some of their columns, (records, numbers).
        factors: What `clip_factors` returns for the whole rows, (records,).

    Returns:
        Integers in grid units, (records, numbers); zeros where a row is not finite.
    """
    is_finite = factors > 0
    integers = np.zeros(rows.shape, dtype=np.int32)
    scaled = rows[is_finite] * factors[is_finite, None]
    integers[is_finite] = scaled.astype(np.int32)
    return integers


def row_norms(rows: Rows) -> Float64s:
    """Computes the norm of each row, by the row alone bit for bit (G-20).

    Args:
        rows: Rows of numbers, (…, numbers).

    Returns:
        The norms, (…, 1): a little too small, as the squares of truncated numbers are
        summed, which is exact; infinite or NaN where an entry is.
    """
    bits = exact_bits(rows.shape[-1])
    # Whether a warning comes must not depend on a record.
    with np.errstate(all="ignore"):
        largest = np.abs(rows).max(axis=-1, keepdims=True, initial=0).astype(np.float64)
        is_finite = np.isfinite(largest)
        # Scaled by a power of two, which is exact, so that the largest has `bits` bits.
        _, exponents = np.frexp(np.where(is_finite, largest, 1.0))
        truncated = np.trunc(np.ldexp(rows.astype(np.float64), bits - exponents))
        squares = np.square(truncated, out=truncated).sum(axis=-1, keepdims=True)
        norms = np.ldexp(np.sqrt(squares), exponents - bits)
        return np.asarray(np.where(is_finite, norms, largest))


def add_products(
    total: npt.NDArray[np.int64],
    inputs: Rows,
    input_norms: Float64s,
    integer_gradients: npt.NDArray[np.int32],
) -> None:
    """Adds the gradients of a linear layer's weight to a sum, Σ D ⊗ U (G-20).

    U are the integers of the direction x/|x|, of norm at most 2¹¹. D are the rows
    |x|·d on a grid that is coarser by 2¹¹, so that D ⊗ U is in grid units again. Both
    are rounded toward zero, so a product is no longer than its row |x|·d was.

    Args:
        total: Sum in grid units, (outputs · inputs,), which is changed.
        inputs: Inputs of the layer, x, (records, inputs).
        input_norms: |x| as `row_norms` returns it, (records, 1). It is only used to
            make directions; the gradients are multiplied with it already.
        integer_gradients: Gradients at the outputs times the norms of the inputs,
            clipped and rounded, (records, outputs).
    """
    directions = _directions(inputs, input_norms)
    integer_directions = _coarse_integers(Grid(norm=1.0), directions, _HALF_UNITS)
    coarse_gradients = np.trunc(integer_gradients * (_HALF_UNITS / UNITS))
    # Exact in float64, in whatever order BLAS adds: each is an integer of at most 2²².
    products = coarse_gradients.T @ integer_directions
    total += products.astype(np.int64).reshape(-1)


def add_factored(
    total: npt.NDArray[np.int64], inputs: Rows, gradients: Rows, grid: Grid
) -> None:
    """Adds factored gradients to a sum, each clipped as a whole.

    The gradient of a record is d_g ⊗ x_g for each group g. It is as long as all rows
    |x_g|·d_g together, which are clipped as one row to D; each direction x_g/|x_g|
    becomes U_g. Both have norms of at most `FACTOR_UNITS`, so all D_g ⊗ U_g together
    have at most its square (G-20).

    Args:
        total: Sum in grid units, (groups · outputs · inputs,), which is changed.
        inputs: Inputs of the groups, (records, groups, inputs).
        gradients: Gradients at their outputs, (records, groups, outputs).
        grid: The norm to clip to.
    """
    input_norms = row_norms(inputs)
    # What is not finite becomes zeros on the grid, and must not be warned of.
    with np.errstate(over="ignore", invalid="ignore"):
        weighted_gradients = gradients * input_norms
    directions = _directions(inputs, input_norms)
    # Each direction is bounded by itself, the gradients of all groups together.
    integer_directions = _coarse_integers(
        Grid(norm=1.0), directions.reshape(-1, inputs.shape[2]), FACTOR_UNITS
    ).reshape(inputs.shape)
    integer_gradients = _coarse_integers(
        grid, weighted_gradients.reshape(len(gradients), -1), FACTOR_UNITS
    ).reshape(gradients.shape)
    products = np.matmul(
        integer_gradients.transpose(1, 2, 0),  # (groups, outputs, records)
        integer_directions.transpose(1, 0, 2),  # (groups, records, inputs)
    )
    total += products.reshape(-1).astype(np.int64)


def _directions(inputs: Rows, input_norms: Float64s) -> Float64s:
    """Divides rows by their norms; a row of zeros stays one.

    Rows that are not finite give NaN, which the grid turns into zeros. NumPy must not
    warn of them, as a warning would tell of a record.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return inputs / np.where(input_norms > 0, input_norms, 1.0)


def _coarse_integers(grid: Grid, vectors: Float64s, units: int) -> Float64s:
    """Quantises vectors to a coarser grid, by rounding toward zero twice.

    Args:
        grid: The norm to clip to.
        vectors: One vector a row, (rows, numbers).
        units: Norm bound on the coarser grid; a power of two.

    Returns:
        Integers in units of the coarser grid, as float64, (rows, numbers).
    """
    return np.asarray(np.trunc(grid.quantise(vectors) * (units / UNITS)))


def _largest_magnitudes(rows: Rows) -> Factors:
    """Returns the largest magnitude of each row, (records,); NaN where there is one."""
    return np.asarray(
        np.maximum(rows.max(axis=1, initial=0), -rows.min(axis=1, initial=0))
    )


def _truncated_squares(rows: Rows, scales: Factors) -> Float64s:
    """Sums the squares of rows that are scaled and truncated to integers.

    Args:
        rows: The rows, or some of their columns, (records, numbers).
        scales: What each row is multiplied with, (records,).

    Returns:
        The sums, (records,), exact where a row is finite.
    """
    squares = np.zeros(len(rows))
    for _, scaled in _scaled_columns(rows, scales):
        truncated = np.trunc(scaled, out=scaled).astype(np.float64)
        squares += np.einsum("ij,ij->i", truncated, truncated)
    return squares


def _scaled_columns(rows: Rows, factors: Factors) -> Iterator[tuple[slice, Rows]]:
    """Multiplies rows with their factors, some columns at a time.

    Args:
        rows: The rows, or some of their columns, (records, numbers).
        factors: Factor of each row, (records,).

    Yields:
        Which columns, and these columns times the factors, (records, columns). The
        array is overwritten when the next columns are taken, so it must not be kept.
    """
    width = max(_BLOCK_SIZE // max(len(rows), 1), 1)
    buffer = np.empty((len(rows), width), dtype=np.float32)
    for start in range(0, rows.shape[1], width):
        columns = slice(start, min(start + width, rows.shape[1]))
        scaled = buffer[:, : columns.stop - start]
        yield columns, np.multiply(rows[:, columns], factors[:, None], out=scaled)
