"""Released tables of counts, arranged by class as the fit of a mixture needs them.

The columns of packed tables are all but the label, numbered from 0. Their cells are
laid side by side: with D cells in all, cell a of column i has the index offsets[i] + a
from 0 to D - 1. Without a label, all records are one class.

To judge a fit by tables that it has not seen, `split` draws two sets of tables with
independent noise from one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.answers.domain import Domain
from noisegate.answers.noisy_table import NoisyTable
from noisegate.answers.posterior import posterior_shares

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64

Array = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]

# Weight of no information in a mean by inverse variance: a quotient of two such weights
# stays finite, and any measured number outweighs it.
_NO_WEIGHT = float(np.finfo(float).tiny)
# Normal scores end at this quantile, so that an empty first or last cell has a finite
# one.
_TAIL_PROBABILITY = 1e-9


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
    large classes as far as the noise hides the differences.
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
    has towards what all have, each as far as it is hidden by its noise.

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
    # The constant score comes first, weighted with √shares as all are, so that the
    # others are orthogonal to it and have mean 0.
    roots = np.sqrt(shares)[:, None]
    weighted_scores = np.column_stack([roots, raw_scores * roots])
    return np.asarray(np.linalg.qr(weighted_scores)[0][:, 1:] / roots)
