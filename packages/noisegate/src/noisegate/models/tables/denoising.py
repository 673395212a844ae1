"""Takes noise off released pairs before a mixture is fitted to them.

A pair's table is, in each class l, what independent columns would have, r_l c_l'/n_l of
the margins that all tables say together, and a residual. That is written in orthonormal
bases Q of the vectors that sum to zero, of either column, and in one of the classes: C
= Σ_l q_l Q_i' (T_l − r_l c_l'/n_l) Q_j. So the noise on the coefficients is as large as
that on the counts, and as independent but for what the margins have of it. The signal
is not spread so: of columns in an order it is in the coefficients of low orders, of
classes in what they have in common.

Coefficients are shrunk in groups, of one pair and product of orders, of what classes
have in common or of the rest, by the mean of f = τ²/(τ² + 1) over variances τ² of the
signal, in units of the noise: by how likely each makes the squares of the group, and
how frequent it is among all pairs (empirical Bayes on a grid, by EM: Stephens,
Biostatistics 2017, https://doi.org/10.1093/biostatistics/kxw041). What is left of the
noise of a pair is √f of it, in the mean.

Bases of residuals: ResidualPlanner, Xiao, He, Zhang and Kifer (NeurIPS 2023),
https://arxiv.org/abs/2305.08175.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from noisegate.models.tables.packed_tables import Floats, PackedTables

if TYPE_CHECKING:
    from jaxtyping import Float64

    Array = npt.NDArray[Any]

# Variances τ² of the signal that a group may have, in units of the noise, and how many pairs each is seen in before.
_SIGNALS = np.array([0.0, *np.geomspace(0.25, 2**20, 12)])
_BEFORE = np.array([1.0, *[1 / 12] * 12])
_ROUNDS = 30
# Tables are fitted to as if they had this part of their noise at least.
_LEAST_NOISE = 0.15
_TINY = 1e-9


def denoised_pairs(tables: PackedTables, ordered: Sequence[int]) -> PackedTables:
    """Returns tables whose pairs have less noise, and the precision that they have then.

    Args:
        tables: As they were released, arranged by class.
        ordered: How many cells of each column, the first ones, stand in an order; 0 for none.
    """
    counts = np.maximum(tables.counts, _TINY)
    singles = np.maximum(tables.singles, 0.0)
    margins = [singles[:, span] for span in tables.spans]
    margins = [
        each * (counts / np.maximum(each.sum(axis=1), _TINY))[:, None]
        for each in margins
    ]
    bases = [
        column_basis(each.sum(axis=0), few)
        for each, few in zip(margins, ordered, strict=True)
    ]
    # An orthonormal basis over the classes, in rows; in the first one they differ by their counts alone.
    classes = np.linalg.qr(
        np.column_stack([np.maximum(counts, 1.0), np.eye(len(counts))[:, :-1]])
    )[0].T
    most = max((int(orders.max(initial=1)) for _, orders in bases), default=1) ** 2 + 1
    found = []
    for first, second in combinations(range(len(margins)), 2):
        rows, columns = tables.spans[first], tables.spans[second]
        precision = float(tables.precision[rows.start, columns.start])
        (left, low), (right, high) = bases[first], bases[second]
        if precision <= 0 or not (low.size and high.size):
            continue
        independent = (
            margins[first][:, :, None]
            * margins[second][:, None]
            / counts[:, None, None]
        )
        residual = precision * (tables.pairs[:, rows, columns] - independent)
        coefficients = np.einsum("kl,lpq->kpq", classes, left.T @ residual @ right)
        # A number for each group: the product of orders, whether classes differ, which columns have an order.
        groups = np.broadcast_to(low[:, None] * high, coefficients.shape).copy()
        groups[1:] += most
        groups += 2 * most * ((ordered[first] > 1) + (ordered[second] > 1))
        found.append(
            (rows, columns, precision, independent, left, right, coefficients, groups)
        )
    pairs, precisions = tables.pairs.copy(), tables.precision.copy()
    shrunk = _kept([(coefficients, groups) for *_, coefficients, groups in found])
    for (
        rows,
        columns,
        precision,
        independent,
        left,
        right,
        coefficients,
        _,
    ), kept in zip(found, shrunk, strict=True):
        residual = (
            left @ np.einsum("kl,kpq->lpq", classes, kept * coefficients) @ right.T
        )
        pairs[:, rows, columns] = independent + residual / precision
        precisions[rows, columns] = precision / max(
            float(np.sqrt(kept.mean())), _LEAST_NOISE
        )
    return replace(tables, pairs=pairs, precision=precisions, ordered=tuple(ordered))


def _kept(found: Sequence[tuple[Array, Array]]) -> list[Array]:
    """Returns the part of each coefficient of each pair that is kept; given are coefficients and their groups."""
    if not found:
        return []
    names, places = np.unique(
        np.concatenate([groups.ravel() for _, groups in found]), return_inverse=True
    )
    parts = np.split(places, np.cumsum([groups.size for _, groups in found])[:-1])
    squares, numbers = np.empty((2, len(found), len(names)))
    for row, ((coefficients, _), part) in enumerate(zip(found, parts, strict=True)):
        squares[row] = np.bincount(part, coefficients.ravel() ** 2, len(names))
        numbers[row] = np.bincount(part, minlength=len(names))
    total = 1 + _SIGNALS
    likelihood = -0.5 * (
        numbers[..., None] * np.log(total) + squares[..., None] / total
    )
    likelihood = np.exp(likelihood - likelihood.max(axis=2, keepdims=True)) * (
        numbers[..., None] > 0
    )
    weights = np.broadcast_to(_BEFORE, (len(names), len(total)))
    for _ in range(_ROUNDS):
        posterior = likelihood * weights
        posterior /= np.maximum(posterior.sum(axis=2, keepdims=True), _TINY)
        weights = posterior.sum(axis=0) + _BEFORE
        weights = weights / weights.sum(axis=1, keepdims=True)
    part_kept = posterior @ (_SIGNALS / total)
    return [
        one[part].reshape(groups.shape)
        for one, part, (_, groups) in zip(part_kept, parts, found, strict=True)
    ]


def column_basis(
    shares: Floats, ordered: int
) -> tuple[Float64[Array, "cells orders"], npt.NDArray[np.int64]]:
    """Returns an orthonormal basis of the vectors over a column's cells that sum to zero, and the order of each.

    Cells in an order have Legendre polynomials of their ranks, weighted by their shares, each made orthogonal to those
    before; further cells, and those without an order, are all of order 1.

    Examples:
        >>> import numpy as np
        >>> basis, orders = column_basis(np.array([0.4, 0.3, 0.2, 0.1]), 4)
        >>> np.allclose(basis.T @ basis, np.eye(3)), np.allclose(basis.sum(axis=0), 0), orders.tolist()
        (True, True, [1, 2, 3])
    """
    size = len(shares)
    weights = np.maximum(shares, _TINY) / np.maximum(shares, _TINY).sum()
    few = ordered if ordered > 1 else 0
    alone = np.diag(weights)[:, few:] if few else np.diag(weights)[:, :-1]
    # After the constant vector the others sum to zero, also where cells are empty and vectors hardly differ.
    vectors, orders = [np.ones((size, 1)), alone], [1] * alone.shape[1]
    if few:
        inside = weights[:few] / weights[:few].sum()
        ranks = 2 * np.cumsum(inside) - inside - 1
        smooth = np.zeros((size, few - 1))
        smooth[:few] = (
            weights[:few, None]
            * np.polynomial.legendre.legvander(ranks, few - 1)[:, 1:]
        )
        vectors, orders = [*vectors, smooth], [*orders, *range(1, few)]
    return np.linalg.qr(np.concatenate(vectors, axis=1))[0][:, 1:], np.array(
        orders, dtype=np.int64
    )
