"""Released tables of counts by class, packed and denoised for the fit of a mixture.

**Packing.** The columns of packed tables are all but the label, numbered from 0. Their
cells are laid side by side: with D cells in all, cell a of column i has the index
offsets[i] + a from 0 to D - 1. Without a label, all records are one class.

To judge a fit by tables that it has not seen, `split` draws two sets of tables with
independent noise from one.

**Denoising.** Pairs of columns are shrunk as far as they are noise. In class l, with
n_l records, the table T_l of two columns is that of independent columns, of margins r_l
and c_l, and a residual::

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

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, combinations, pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from noisegate.answers.domain import Domain
from noisegate.answers.noisy_table import NoisyTable, posterior_shares

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64, Int64

Array = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# Weight of no information in a mean by inverse variance: a quotient of two such weights
# stays finite, and any measured number outweighs it.
_NO_WEIGHT = float(np.finfo(float).tiny)
# Normal scores end at this quantile, so that an empty first or last cell has a finite
# one.
_TAIL_PROBABILITY = 1e-9
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


@dataclass(frozen=True, kw_only=True)
class InitialMixture:
    """A mixture of products from which a fit starts, in place of independent columns.

    Attributes:
        weights: Share of each component, (components,).
        cells: Probabilities of the cells of all columns, (components, D).
    """

    weights: Float64[Floats, " components"]
    cells: Float64[Floats, "components D"]


@dataclass(frozen=True, kw_only=True)
class PackedTriple:
    """A table of three columns, by class.

    Attributes:
        columns: The columns as packed tables number them, ascending.
        counts: Noisy counts, (classes, cells, cells, cells).
        noise_std: Standard deviation of the noise on each count.
    """

    columns: tuple[int, int, int]
    counts: Floats
    noise_std: float


@dataclass(frozen=True, kw_only=True)
class PackedTables:
    """Released tables of counts by class, side by side in float32 blocks for the fit.

    Attributes:
        sizes: Number of cells of each column.
        pair_counts: Noisy counts of the pairs of columns that were released, in each
            class, above the diagonal, (classes, D, D).
        pair_inverse_std: One over the standard deviation of their noise, (D, D); 0
            where no pair was released.
        triples: Tables of three columns.
        one_way_counts: Noisy counts of the cells of each column, in each class: the
            mean of all tables, weighted by inverse variance, (classes, D).
        one_way_std: Standard deviation of their noise, (D,).
        class_counts: Estimated number of records of each class, (classes,). Their sum
            is at least one standard deviation of its noise.
        prior_shares: Shares of the cells of each column as they were known before,
            (D,).
        start: The mixture from which a fit starts. None for components that have the
            correlations of the pairs.
        n_ordered: How many cells of each column, the first ones, have an order. Empty
            if this was not stated.
    """

    sizes: tuple[int, ...]
    pair_counts: Float32[Array, "classes D D"]
    pair_inverse_std: Float32[Array, "D D"]
    triples: tuple[PackedTriple, ...]
    one_way_counts: Float64[Floats, "classes D"]
    one_way_std: Float64[Floats, " D"]
    class_counts: Float64[Floats, " classes"]
    prior_shares: Float64[Floats, " D"]
    start: InitialMixture | None = None
    n_ordered: tuple[int, ...] = ()

    @property
    def offsets(self) -> tuple[int, ...]:
        """Index of the first cell of each column, and D at the end, (columns + 1,)."""
        return tuple(accumulate(self.sizes, initial=0))

    @cached_property
    def column_slices(self) -> tuple[slice, ...]:
        """The cells of each column among the D."""
        return tuple(slice(start, stop) for start, stop in pairwise(self.offsets))

    @property
    def n_joint_cells(self) -> int:
        """Number of cells of all released pairs and triples, over all classes."""
        n_pair_cells = int((self.pair_inverse_std > 0).sum()) * len(self.class_counts)
        return n_pair_cells + sum(triple.counts.size for triple in self.triples)


def split(
    tables: Sequence[NoisyTable], random: np.random.Generator
) -> tuple[list[NoisyTable], list[NoisyTable]]:
    """Draws two tables with independent noise from each table.

    With z drawn like the noise of a table, counts + z/2 and counts - 2z are
    independent, because the noise is Gaussian (Rasines and Young 2023; Leiner et al.
    2023). So a fit to the first is judged without bias by the second.

    Args:
        tables: Released tables.
        random: Public randomness.

    Returns:
        Tables for a trial fit, whose noise is √(5/4) times as large, and tables to
        judge it by, whose noise is √5 times as large.
    """
    trial_tables = []
    judge_tables = []
    for table in tables:
        fresh_noise = random.normal(scale=table.noise_std, size=table.counts.shape)
        trial_tables.append(
            NoisyTable.of(
                table.domain,
                table.counts + fresh_noise / 2,
                noise_std=table.noise_std * math.sqrt(5 / 4),
            )
        )
        judge_tables.append(
            NoisyTable.of(
                table.domain,
                table.counts - 2 * fresh_noise,
                noise_std=table.noise_std * math.sqrt(5),
            )
        )
    return trial_tables, judge_tables


@dataclass(frozen=True, kw_only=True)
class _ClassTable:
    """A released table with the classes as its first axis.

    Attributes:
        columns: Its columns without the label, as packed tables number them.
        counts: Noisy counts, (classes, *cells of the columns).
        noise_std: Standard deviation of the noise on each count.
    """

    columns: tuple[int, ...]
    counts: Floats
    noise_std: float

    @property
    def class_variance(self) -> float:
        """Variance of the noise on the sum of all counts of a class."""
        n_cells: int = self.counts[0].size
        return n_cells * self.noise_std**2


def pack_tables(
    tables: Iterable[NoisyTable],
    domain: Domain,
    label: int | None,
    prior: Mapping[int, Floats] | None = None,
) -> PackedTables:
    """Arranges released tables by class.

    Args:
        tables: Tables of up to three columns besides the label. Those without the label
            are left out; larger ones count for single columns and classes alone.
        domain: All columns, with the label.
        label: Number of the column whose cells are the classes. None for one class of
            all records.
        prior: Shares of the cells of columns of which something is known, by the number
            of the column.
    """
    sizes = domain.shape
    label_name = None if label is None else domain.names[label]
    other_columns = [column for column in range(len(sizes)) if column != label]
    other_names = [domain.names[column] for column in other_columns]
    other_sizes = tuple(sizes[column] for column in other_columns)
    class_tables = [
        _with_classes_first(table, label_name, other_names)
        for table in tables
        if label_name is None or label_name in table.domain.names
    ]
    n_classes = 1 if label is None else sizes[label]
    offsets = accumulate(other_sizes, initial=0)
    slices = [slice(start, stop) for start, stop in pairwise(offsets)]
    pair_counts, pair_inverse_std = _pack_pairs(class_tables, slices, n_classes)
    one_way_counts, one_way_std = _combine_one_way(class_tables, slices, n_classes)
    shares_of_columns = [
        _prior_shares(column, sizes[column], prior or {}) for column in other_columns
    ]
    return PackedTables(
        sizes=other_sizes,
        pair_counts=pair_counts,
        pair_inverse_std=pair_inverse_std,
        triples=_pack_triples(class_tables),
        one_way_counts=one_way_counts,
        one_way_std=one_way_std,
        class_counts=_estimate_class_counts(class_tables, n_classes),
        prior_shares=np.concatenate([np.zeros(0), *shares_of_columns]),
    )


def _with_classes_first(
    table: NoisyTable, label_name: str | None, other_names: Sequence[str]
) -> _ClassTable:
    """Moves the label of a table to its first axis, of length 1 without a label."""
    names = table.domain.names
    columns = tuple(other_names.index(name) for name in names if name != label_name)
    if label_name is None:
        counts = table.counts[None]
    else:
        counts = np.moveaxis(table.counts, names.index(label_name), 0)
    return _ClassTable(columns=columns, counts=counts, noise_std=table.noise_std)


def _pack_pairs(
    tables: Iterable[_ClassTable], slices: Sequence[slice], n_classes: int
) -> tuple[Float32[Array, "classes D D"], Float32[Array, "D D"]]:
    """Lays the tables of two columns side by side.

    Returns:
        Their counts, and one over the standard deviation of their noise.
    """
    width = slices[-1].stop if slices else 0
    counts = np.zeros((n_classes, width, width), dtype=np.float32)
    inverse_std = np.zeros((width, width), dtype=np.float32)
    for table in tables:
        if len(table.columns) == 2:
            first, second = (slices[column] for column in table.columns)
            counts[:, first, second] = table.counts
            inverse_std[first, second] = 1 / table.noise_std
    return counts, inverse_std


def _pack_triples(tables: Iterable[_ClassTable]) -> tuple[PackedTriple, ...]:
    triples = []
    for table in tables:
        if len(table.columns) == 3:
            first, second, third = table.columns
            triple = PackedTriple(
                columns=(first, second, third),
                counts=table.counts,
                noise_std=table.noise_std,
            )
            triples.append(triple)
    return tuple(triples)


def _combine_one_way(
    tables: Iterable[_ClassTable], slices: Sequence[slice], n_classes: int
) -> tuple[Float64[Floats, "classes D"], Float64[Floats, " D"]]:
    """Estimates the counts of single columns from all tables, by inverse variance.

    A table of C cells a class, with noise of variance σ² on each, states the count of
    one of the m cells of a column as a sum of C / m of them, with noise of variance
    σ² C / m. So its weight is m / (C σ²).

    Args:
        tables: The tables, with the classes first.
        slices: The cells of each column among the D.
        n_classes: How many classes there are.

    Returns:
        The counts in each class, and the standard deviation of their noise.
    """
    width = slices[-1].stop if slices else 0
    weighted_sums = np.zeros((n_classes, width))
    weights = np.full(width, _NO_WEIGHT)
    for table in tables:
        axes = range(1, table.counts.ndim)
        for axis, column in zip(axes, table.columns, strict=True):
            summed_axes = tuple(other for other in axes if other != axis)
            weight = table.counts.shape[axis] / table.class_variance
            weighted_sums[:, slices[column]] += weight * table.counts.sum(
                axis=summed_axes
            )
            weights[slices[column]] += weight
    return weighted_sums / weights, weights**-0.5


def _estimate_class_counts(
    tables: Iterable[_ClassTable], n_classes: int
) -> Float64[Floats, " classes"]:
    """Estimates how many records each class has.

    The mean of all tables, weighted by inverse variance, is shrunk towards equally
    large classes as far as the differences are below the noise.

    Returns:
        Numbers of records, positive. Their sum is that of the mean, and at least the
        noise on it.
    """
    weighted_sums = np.zeros(n_classes)
    total_weight = _NO_WEIGHT
    for table in tables:
        axes = tuple(range(1, table.counts.ndim))
        weighted_sums += 1 / table.class_variance * table.counts.sum(axis=axes)
        total_weight += 1 / table.class_variance
    counts = weighted_sums / total_weight
    noise_std = total_weight**-0.5
    n_records = max(float(counts.sum()), math.sqrt(n_classes) * noise_std)
    equal_shares = np.full(n_classes, 1 / n_classes)
    shares = posterior_shares(counts, noise_std, equal_shares, n_records)
    return np.asarray(n_records * shares)


def _prior_shares(column: int, size: int, prior: Mapping[int, Floats]) -> Floats:
    """Returns what is known of the shares of a column's cells; equal ones if nothing.

    Args:
        column: The column.
        size: Number of its cells.
        prior: Shares of the columns of which something is known.
    """
    if column in prior:
        return prior[column]
    return np.full(size, 1 / size)


def estimate_shares(tables: PackedTables) -> Float64[Floats, "classes D"]:
    """Estimates the distribution of each column in each class.

    What all classes have together is shrunk towards the prior shares, and what a class
    has towards what all have, each as far as it is hidden by its noise. The noise on a
    sum over the classes is √classes times that on one count.

    Args:
        tables: Packed tables. All cells of a column have the same noise.

    Returns:
        Positive shares, which sum to 1 over the cells of each column.
    """
    shares = np.empty_like(tables.one_way_counts)
    n_classes = len(tables.class_counts)
    n_records = float(tables.class_counts.sum())
    for cells in tables.column_slices:
        class_cells = tables.one_way_counts[:, cells]
        noise_std = float(tables.one_way_std[cells.start])
        pooled_shares = posterior_shares(
            class_cells.sum(axis=0),
            math.sqrt(n_classes) * noise_std,
            tables.prior_shares[cells],
            n_records,
        )
        if n_classes == 1:
            shares[0, cells] = pooled_shares
            continue
        for class_index, n_class_records in enumerate(tables.class_counts.tolist()):
            shares[class_index, cells] = posterior_shares(
                class_cells[class_index], noise_std, pooled_shares, n_class_records
            )
    return shares


def orthonormal_scores(
    shares: Float64[Floats, " cells"], n_ordered: int
) -> Float64[Floats, "cells scores"]:
    """Computes scores of a column's cells with mean 0, variance 1 and no correlations.

    Raw scores are weighted with the root of the shares, so that a plain scalar product
    of two is their mean product under the shares. A QR decomposition then makes each
    orthogonal to the constant and to those before it.

    Args:
        shares: Share of each cell, positive and 1 in all.
        n_ordered: How many cells, the first ones, have an order.

    Returns:
        Scores under the shares. Of the ordered cells, if there are several, the first
        score is the normal quantile of their mean rank, and the others are those of the
        further cells. Else every cell but the most frequent one has a score.

    Examples:
        >>> import numpy as np
        >>> from noisegate.models.tables.packed_tables import orthonormal_scores
        >>> shares = np.array([0.2, 0.3, 0.5])
        >>> scores = orthonormal_scores(shares, 0)
        >>> np.allclose(shares @ scores, 0)
        True
        >>> np.allclose(scores.T @ (shares[:, None] * scores), np.eye(2))
        True
    """
    indicators = np.eye(len(shares))
    if n_ordered > 1:
        ordered_shares = shares[:n_ordered] / shares[:n_ordered].sum()
        mean_ranks = np.clip(
            np.cumsum(ordered_shares) - ordered_shares / 2,
            _TAIL_PROBABILITY,
            1 - _TAIL_PROBABILITY,
        )
        raw_scores = indicators[:, n_ordered - 1 :]
        raw_scores[:n_ordered, 0] = [
            NormalDist().inv_cdf(rank) for rank in mean_ranks.tolist()
        ]
    else:
        raw_scores = np.delete(indicators, int(shares.argmax()), axis=1)
    # The constant score comes first, so that the others have mean 0.
    roots = np.sqrt(shares)[:, None]
    weighted_scores = np.column_stack([roots, raw_scores * roots])
    return np.asarray(np.linalg.qr(weighted_scores)[0][:, 1:] / roots)


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

    The stages, for each pair of columns, are the residual of its table beside
    independent columns, as coefficients in orthonormal bases of the classes and of both
    columns (`_pair_coefficients`); a factor from 0 to 1 for each coefficient, estimated
    from all pairs (`_shrinkage_factors`); and the table of the shrunk coefficients.

    A coefficient with noise of variance 1 that is multiplied by its factor f has the
    posterior variance f. So the standard deviation of what is wrong with a pair becomes
    √(mean of f) of that of its noise, and `_MIN_NOISE_FACTOR` of it at least.

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
    """Computes an orthonormal basis over the classes, a vector in each row.

    The first vector is proportional to the numbers of records, at least 1 each: it is
    what classes have in common if their records are distributed alike. The others are
    unit vectors made orthogonal to it and to each other, (classes, classes).
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

    In class l, with n_l records, T_l is the table of two columns, r_l and c_l are its
    margins and σ is the standard deviation of the noise. With Q_i and Q_j the bases of
    the columns and q that of the classes, the coefficients of the class vector m are ::

        C_m = Σ_l q_ml Q_iᵀ (T_l - r_l c_lᵀ / n_l) Q_j / σ

    so that the noise on each of them has variance 1 and is independent, but for that of
    the margins. Coefficients are shrunk in groups, which have a number: the product of
    the polynomial orders of the two basis vectors, apart for the first class vector and
    the others, and apart for pairs of which none, one or both columns have an order.

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
        # The three parts of a number do not overlap, see `group_stride`.
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

    With a signal of variance τ² and noise of variance 1, the best linear estimate of a
    coefficient is τ² / (1 + τ²) times its noisy value. The coefficients of a pair are
    in groups, each of products of one polynomial order (`_pair_coefficients`), which
    are about as large as each other. In each pair, every group has a τ² of its own,
    which is not known: its factor is the posterior mean of τ² / (1 + τ²) over
    `_SIGNAL_VARIANCES`. The probabilities of these variances before a pair is seen are
    estimated from the groups of the same number in all pairs. A pair that has none of
    some number has a group of size 0 there, whose factor nobody reads.

    Args:
        pairs: Coefficients of each pair in units of their noise, and their groups.

    Returns:
        For each pair the factors, from 0 to 1, shaped as its coefficients.
    """
    if not pairs:
        return []
    numbers = np.unique(np.concatenate([pair.groups.ravel() for pair in pairs]))
    n_groups = len(numbers)
    # Of each pair, the index of the group of each coefficient.
    groups_of_coefficients = [np.searchsorted(numbers, pair.groups) for pair in pairs]
    sums_of_squares = np.empty((len(pairs), n_groups))
    sizes = np.empty((len(pairs), n_groups))
    for pair_index, pair in enumerate(pairs):
        groups = groups_of_coefficients[pair_index].ravel()
        squares = pair.coefficients.ravel() ** 2
        sums_of_squares[pair_index] = np.bincount(groups, squares, n_groups)
        sizes[pair_index] = np.bincount(groups, minlength=n_groups)

    # (pairs, groups, signal variances)
    posterior = _posterior_of_signals(sums_of_squares, sizes)
    factors = posterior @ (_SIGNAL_VARIANCES / (1 + _SIGNAL_VARIANCES))
    return [
        pair_factors[groups]
        for pair_factors, groups in zip(factors, groups_of_coefficients, strict=True)
    ]


def _posterior_of_signals(
    sums_of_squares: Float64[Floats, "pairs groups"],
    sizes: Float64[Floats, "pairs groups"],
) -> Float64[Floats, "pairs groups signals"]:
    """Estimates how likely each variance of the signal is in each group of each pair.

    A group has s coefficients whose squares sum to Q. With a signal of variance τ² and
    noise of variance 1 they are normal with variance t = 1 + τ², so that the likelihood
    is t^(-s/2) exp(-Q / 2t). Each group has a prior over the grid of τ²
    (`_SIGNAL_VARIANCES`), the same in all pairs. EM estimates it: the posterior of each
    pair, likelihood times prior, and then the prior, the mean posterior of all pairs
    and of the pseudo-counts `_PRIOR_PAIRS`.

    Args:
        sums_of_squares: Q, in units of the variance of the noise.
        sizes: Numbers s of coefficients; 0 if a pair does not have the group.

    Returns:
        Posterior probabilities over the grid; zeros if a pair does not have the group.
    """
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
    the shares. Each is made orthogonal to those before, in the plain scalar product, in
    which independent noise on the cells stays independent.

    Args:
        shares: Shares of the cells, or any numbers in their ratio.
        n_ordered: How many cells, the first ones, have an order.

    Returns:
        The basis, a vector in each column, and the polynomial order of each vector.

    Examples:
        >>> import numpy as np
        >>> from noisegate.models.tables.packed_tables import column_basis
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

    The rank of a cell is the middle of its interval, where cells follow each other on
    [-1, 1] with lengths as their weights.

    Args:
        weights: Weights of cells in an order, positive.

    Returns:
        Polynomials of the orders from 1 to cells - 1.
    """
    shares = weights / weights.sum()
    mean_ranks = 2 * np.cumsum(shares) - shares - 1
    polynomials = np.polynomial.legendre.legvander(mean_ranks, len(weights) - 1)
    return np.asarray(weights[:, None] * polynomials[:, 1:])
