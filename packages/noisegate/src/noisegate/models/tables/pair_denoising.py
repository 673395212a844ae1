"""Takes noise off released pairs before a mixture is fitted to them.

In class l, with n_l records, the table T_l of two columns is that of independent
columns, of margins r_l and c_l, and a residual::

    T_l = r_l c_lᵀ / n_l + residual

The margins are estimated from all tables. The residual is written in orthonormal bases
Q_i and Q_j of the vectors over the cells of each column that sum to zero, and in an
orthonormal basis q over the classes::

    C_m = Σ_l q_ml Q_iᵀ (T_l - r_l c_lᵀ / n_l) Q_j

So the noise on the coefficients is as large as that on the counts and as independent,
but for the noise of the margins. The signal is not spread over all coefficients: if the
cells have an order, it is in those of low polynomial orders, and of classes it is in
what they have in common.

Coefficients are shrunk in groups. A group of a pair holds the coefficients of one
product of polynomial orders, either of what classes have in common or of the rest. With
a signal of variance τ², in units of the noise, the best linear factor is f = τ²/(τ² +
1). A group is multiplied by the posterior mean of f over a grid of τ², whose
probabilities are estimated over all pairs by EM (empirical Bayes: Stephens,
Biostatistics 2017, https://doi.org/10.1093/biostatistics/kxw041). The noise that is
left of a pair is about √f of what it was.

Bases of residuals: ResidualPlanner, Xiao, He, Zhang and Kifer (NeurIPS 2023),
https://arxiv.org/abs/2305.08175.

All of it is post-processing, which costs no privacy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from noisegate.models.tables.packed_tables import PackedTables

if TYPE_CHECKING:
    from jaxtyping import Float64, Int64

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# The grid of variances τ² that the signal of a group may have, in units of the noise:
# none, or from hidden in the noise to far above it.
_SIGNAL_VARIANCES = np.array([0.0, *np.geomspace(0.25, 2**20, 12)])
# Pairs that each τ² counts as seen in before any pair is: as many for no signal as for
# all signals together.
_PRIOR_PAIRS = np.array([1.0, *[1 / 12] * 12])
# Rounds of EM for the probabilities of these variances.
_EM_ROUNDS = 30
# Even of a pair that is shrunk to nothing, this part of the noise counts as left.
_MIN_NOISE_FACTOR = 0.15
# Keeps quotients finite where counts are zero.
_TINY = 1e-9


class ColumnBasis(NamedTuple):
    """An orthonormal basis of the vectors over a column's cells that sum to zero.

    Attributes:
        vectors: The basis, (cells, cells - 1).
        orders: The polynomial order of each vector, from 1, (cells - 1,).
    """

    vectors: Float64[Floats, "cells cells-1"]
    orders: Int64[Integers, " cells-1"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Margin:
    """One column of the tables.

    Attributes:
        cells: Its cells among the D.
        counts: Estimated counts of its cells in each class, (classes, cells).
        basis: Basis of the vectors over its cells that sum to zero.
        is_ordered: Whether its cells have an order.
    """

    cells: slice
    counts: Float64[Floats, "classes cells"]
    basis: ColumnBasis
    is_ordered: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class _PairCoefficients:
    """The residual of a released pair in bases of its columns and of the classes.

    Attributes:
        first_cells: Cells of the first column among the D.
        second_cells: Cells of the second column.
        inverse_std: One over the standard deviation of the noise on its counts.
        independent_counts: What independent columns would have in each class, (classes,
            cells, cells).
        left: Basis vectors of the first column, (cells, left vectors).
        right: Basis vectors of the second column, (cells, right vectors).
        coefficients: The residual in these bases, in units of its noise, (classes, left
            vectors, right vectors).
        groups: A number for the group of each coefficient, shaped alike.
    """

    first_cells: slice
    second_cells: slice
    inverse_std: float
    independent_counts: Float64[Floats, "classes _ _"]
    left: Float64[Floats, "_ left"]
    right: Float64[Floats, "_ right"]
    coefficients: Float64[Floats, "classes left right"]
    groups: Int64[Integers, "classes left right"]


def denoise_pairs(tables: PackedTables, n_ordered: Sequence[int]) -> PackedTables:
    """Shrinks pairs towards independent columns, as far as they are noise.

    Args:
        tables: Tables as they were released.
        n_ordered: How many cells of each column, the first ones, have an order; 0 for
            none.

    Returns:
        Tables with these pairs, the noise that is left of them, and `n_ordered`.
    """
    class_basis = _class_basis(tables.class_counts)
    pairs = list(_pair_coefficients(tables, n_ordered, class_basis))
    pair_counts = tables.pair_counts.copy()
    pair_inverse_std = tables.pair_inverse_std.copy()
    for pair, factors in zip(pairs, _shrinkage_factors(pairs), strict=True):
        coefficients = np.einsum(
            "kl,kpq->lpq", class_basis, factors * pair.coefficients
        )
        residual = pair.left @ coefficients @ pair.right.T
        pair_counts[:, pair.first_cells, pair.second_cells] = (
            pair.independent_counts + residual / pair.inverse_std
        )
        noise_factor = max(float(np.sqrt(factors.mean())), _MIN_NOISE_FACTOR)
        pair_inverse_std[pair.first_cells, pair.second_cells] = (
            pair.inverse_std / noise_factor
        )
    return replace(
        tables,
        pair_counts=pair_counts,
        pair_inverse_std=pair_inverse_std,
        n_ordered=tuple(n_ordered),
    )


def _class_basis(
    class_counts: Float64[Floats, " classes"],
) -> Float64[Floats, "classes classes"]:
    """Returns an orthonormal basis over the classes, a vector in each row.

    The first vector is as the numbers of records: what classes have in common.
    """
    unit_vectors = np.eye(len(class_counts))[:, :-1]
    vectors = np.column_stack([np.maximum(class_counts, 1.0), unit_vectors])
    return np.asarray(np.linalg.qr(vectors)[0].T)


def _pair_coefficients(
    tables: PackedTables,
    n_ordered: Sequence[int],
    class_basis: Float64[Floats, "classes classes"],
) -> Iterator[_PairCoefficients]:
    """Yields the residual of each released pair in the bases of its columns.

    Args:
        tables: Tables as they were released.
        n_ordered: How many cells of each column have an order.
        class_basis: Basis over the classes, a vector in each row.
    """
    class_counts = np.maximum(tables.class_counts, _TINY)
    margins = _margins(tables, n_ordered, class_counts)
    max_orders = [int(margin.basis.orders.max(initial=1)) for margin in margins]
    # Larger than any product of orders, so that groups have numbers of their own.
    group_stride = max(max_orders, default=1) ** 2 + 1
    for first, second in combinations(margins, 2):
        inverse_std = float(
            tables.pair_inverse_std[first.cells.start, second.cells.start]
        )
        left_orders = first.basis.orders
        right_orders = second.basis.orders
        if inverse_std <= 0 or not (left_orders.size and right_orders.size):
            continue
        left = first.basis.vectors
        right = second.basis.vectors
        independent_counts = (
            first.counts[:, :, None]
            * second.counts[:, None]
            / class_counts[:, None, None]
        )
        residual = inverse_std * (
            tables.pair_counts[:, first.cells, second.cells] - independent_counts
        )
        coefficients = np.einsum("kl,lpq->kpq", class_basis, left.T @ residual @ right)
        # A group is a product of orders, of the first vector over the classes or of the
        # others, in a pair of which none, one or both columns have an order.
        groups = np.broadcast_to(
            left_orders[:, None] * right_orders, coefficients.shape
        ).copy()
        groups[1:] += group_stride
        groups += 2 * group_stride * (first.is_ordered + second.is_ordered)
        yield _PairCoefficients(
            first_cells=first.cells,
            second_cells=second.cells,
            inverse_std=inverse_std,
            independent_counts=independent_counts,
            left=left,
            right=right,
            coefficients=coefficients,
            groups=groups,
        )


def _margins(
    tables: PackedTables,
    n_ordered: Sequence[int],
    class_counts: Float64[Floats, " classes"],
) -> list[_Margin]:
    """Returns the margins of all columns: their counts, scaled to those of the classes.

    Args:
        tables: Tables as they were released.
        n_ordered: How many cells of each column have an order.
        class_counts: Number of records of each class, positive.
    """
    margins = []
    for cells, column_n_ordered in zip(tables.column_slices, n_ordered, strict=True):
        released = np.maximum(tables.one_way_counts[:, cells], 0.0)
        factors = class_counts / np.maximum(released.sum(axis=1), _TINY)
        counts = released * factors[:, None]
        margins.append(
            _Margin(
                cells=cells,
                counts=counts,
                basis=column_basis(counts.sum(axis=0), column_n_ordered),
                is_ordered=column_n_ordered > 1,
            )
        )
    return margins


def _shrinkage_factors(
    pairs: Sequence[_PairCoefficients],
) -> list[Float64[Floats, "classes left right"]]:
    """Estimates by which factor the coefficients of each pair are to be multiplied.

    In each pair, every group has its own variance of the signal. The probabilities of
    these variances are estimated for the groups of the same number in all pairs.

    Returns:
        For each pair the factors, from 0 to 1, shaped as its coefficients.
    """
    if not pairs:
        return []
    numbers, group_index = np.unique(
        np.concatenate([pair.groups.ravel() for pair in pairs]), return_inverse=True
    )
    n_groups = len(numbers)
    ends = np.cumsum([pair.groups.size for pair in pairs])
    group_index_of_pairs = np.split(group_index, ends[:-1])
    # Of each group in each pair, (pairs, groups).
    sums_of_squares = np.empty((len(pairs), n_groups))
    sizes = np.empty((len(pairs), n_groups))
    for pair_index, (pair, index) in enumerate(
        zip(pairs, group_index_of_pairs, strict=True)
    ):
        squares = pair.coefficients.ravel() ** 2
        sums_of_squares[pair_index] = np.bincount(index, squares, n_groups)
        sizes[pair_index] = np.bincount(index, minlength=n_groups)

    posterior = _posterior_of_signals(sums_of_squares, sizes)
    factors = posterior @ (_SIGNAL_VARIANCES / (1 + _SIGNAL_VARIANCES))
    return [
        pair_factors[index].reshape(pair.groups.shape)
        for pair_factors, index, pair in zip(
            factors, group_index_of_pairs, pairs, strict=True
        )
    ]


def _posterior_of_signals(
    sums_of_squares: Float64[Floats, "pairs groups"],
    sizes: Float64[Floats, "pairs groups"],
) -> Float64[Floats, "pairs groups signals"]:
    """Estimates how likely each variance of the signal is in each group of each pair.

    The probabilities before a pair is seen are estimated by EM for each group.

    Args:
        sums_of_squares: Sums of the squares of coefficients, in units of the noise.
        sizes: Numbers of coefficients; 0 if a pair does not have the group.

    Returns:
        Probabilities over the grid; zeros if a pair does not have the group.
    """
    # Of coefficients with noise of variance 1.
    total_variances = 1 + _SIGNAL_VARIANCES
    log_likelihood = -0.5 * (
        sizes[..., None] * np.log(total_variances)
        + sums_of_squares[..., None] / total_variances
    )
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=2, keepdims=True))
    likelihood = likelihood * (sizes[..., None] > 0)
    n_groups = sizes.shape[1]
    prior = np.broadcast_to(_PRIOR_PAIRS, (n_groups, len(total_variances)))
    for _ in range(_EM_ROUNDS):
        posterior = likelihood * prior
        posterior /= np.maximum(posterior.sum(axis=2, keepdims=True), _TINY)
        pairs_of_signal = posterior.sum(axis=0) + _PRIOR_PAIRS
        prior = pairs_of_signal / pairs_of_signal.sum(axis=1, keepdims=True)
    return np.asarray(posterior)


def column_basis(shares: Float64[Floats, " cells"], n_ordered: int) -> ColumnBasis:
    """Computes an orthonormal basis of the vectors over cells that sum to zero.

    The first vectors are those of cells without an order, all of polynomial order 1.
    They are followed by Legendre polynomials of the ranks of ordered cells, weighted by
    the shares. Each is made orthogonal to those before.

    Args:
        shares: Shares of the cells, or any numbers in their ratio.
        n_ordered: How many cells, the first ones, have an order.

    Examples:
        >>> import numpy as np
        >>> from noisegate.models.tables.pair_denoising import column_basis
        >>> basis = column_basis(np.array([0.4, 0.3, 0.2, 0.1]), 4)
        >>> np.allclose(basis.vectors.T @ basis.vectors, np.eye(3))
        True
        >>> np.allclose(basis.vectors.sum(axis=0), 0)
        True
        >>> basis.orders.tolist()
        [1, 2, 3]
    """
    n_cells = len(shares)
    weights = np.maximum(shares, _TINY) / np.maximum(shares, _TINY).sum()
    # The constant vector comes first: so the others sum to zero, also where cells are
    # empty and vectors hardly differ.
    constant = np.ones((n_cells, 1))
    if n_ordered > 1:
        indicators = np.diag(weights)[:, n_ordered:]
        polynomials = np.zeros((n_cells, n_ordered - 1))
        polynomials[:n_ordered] = _weighted_legendre(weights[:n_ordered])
        vectors = [constant, indicators, polynomials]
        orders = [1] * indicators.shape[1] + list(range(1, n_ordered))
    else:
        # The indicator of the last cell is what the others leave of the constant.
        indicators = np.diag(weights)[:, :-1]
        vectors = [constant, indicators]
        orders = [1] * indicators.shape[1]
    basis = np.linalg.qr(np.concatenate(vectors, axis=1))[0][:, 1:]
    return ColumnBasis(vectors=basis, orders=np.array(orders, dtype=np.int64))


def _weighted_legendre(
    weights: Float64[Floats, " cells"],
) -> Float64[Floats, "cells cells-1"]:
    """Computes Legendre polynomials of ranks from -1 to 1, times weights.

    Args:
        weights: Weights of cells in an order, positive.

    Returns:
        Polynomials of the orders from 1 to cells - 1.
    """
    shares = weights / weights.sum()
    mean_ranks = 2 * np.cumsum(shares) - shares - 1
    polynomials = np.polynomial.legendre.legvander(mean_ranks, len(weights) - 1)
    return np.asarray(weights[:, None] * polynomials[:, 1:])
