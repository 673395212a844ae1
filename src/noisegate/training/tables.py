"""Released contingency tables, arranged as what a mixture must match: for each class, the second moment of its records.

Columns are all but the label, their cells laid side by side: cell a of column i stands at place offsets[i] + a of D.
Post-processing of a release.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Table:
    """One released table.

    Attributes:
        columns: Its columns, ascending.
        counts: Noisy counts, shaped by the sizes of the columns.
        noise_std: Standard deviation of the noise on each count.
    """

    columns: tuple[int, ...]
    counts: Floats
    noise_std: float


@dataclass(frozen=True, kw_only=True)
class ClassTables:
    """Tables with the label as their first axis.

    Attributes:
        sizes: Cells of each column but the label.
        pairs: For each class, noisy counts of the pairs that were released, above the diagonal, (classes, D, D).
        precision: One over their noise, 0 where no pair was released, (D, D).
        triples: Tables of three columns: (columns, (classes, …) counts, noise).
        singles: Noisy counts of each column's cells, the best that all tables together say, (classes, D).
        singles_std: Their noise, (D,).
        counts: Noisy number of records of each class, at least one noise standard deviation, (classes,).
    """

    sizes: tuple[int, ...]
    pairs: npt.NDArray[np.float32]
    precision: npt.NDArray[np.float32]
    triples: tuple[tuple[tuple[int, int, int], Floats, float], ...]
    singles: Floats
    singles_std: Floats
    counts: Floats

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where the cells of each column begin, and the end of the last."""
        return tuple(np.cumsum([0, *self.sizes]).tolist())


def split(tables: Sequence[Table], random: np.random.Generator) -> tuple[list[Table], list[Table]]:
    """Returns each table twice, with independent noise: for a trial fit, and to judge it by.

    With fresh z of the table's own noise, counts + z/2 and counts − 2z are independent, because the noise is Gaussian
    (Rasines and Young 2023; Leiner et al. 2023): a fit to the one is judged without bias by the other. The noise of the
    first grows by the factor √(5/4), that of the second by √5.
    """
    trial, judge = [], []
    for table in tables:
        fresh = random.normal(scale=table.noise_std, size=table.counts.shape)
        trial.append(replace(table, counts=table.counts + fresh / 2, noise_std=table.noise_std * math.sqrt(5 / 4)))
        judge.append(replace(table, counts=table.counts - 2 * fresh, noise_std=table.noise_std * math.sqrt(5)))
    return trial, judge


def class_tables(tables: Sequence[Table], sizes: Sequence[int], label: int | None) -> ClassTables:
    """Returns the tables arranged by class.

    Args:
        tables: Released tables. Those without the label, where there is one, are not used.
        sizes: Cells of each column.
        label: The label's column; None makes one class of all records.
    """
    others = [column for column in range(len(sizes)) if column != label]
    place = {column: at for at, column in enumerate(others)}
    offsets = np.cumsum([0, *(sizes[column] for column in others)])
    classes, width = 1 if label is None else sizes[label], int(offsets[-1])
    pairs = np.zeros((classes, width, width), dtype=np.float32)
    precision = np.zeros((width, width), dtype=np.float32)
    triples = []
    pooled = _Pooled(classes, offsets)
    for table in tables:
        if label is None:
            columns, counts = tuple(place[column] for column in table.columns), table.counts[None]
        elif label in table.columns:
            axis = table.columns.index(label)
            columns = tuple(place[column] for column in table.columns if column != label)
            counts = np.moveaxis(table.counts, axis, 0)
        else:
            continue
        pooled.add(columns, counts, table.noise_std)
        if len(columns) == 2:
            rows, across = (slice(offsets[column], offsets[column + 1]) for column in columns)
            pairs[:, rows, across] = counts
            precision[rows, across] = 1 / table.noise_std
        elif len(columns) == 3:
            triples.append(((columns[0], columns[1], columns[2]), counts, table.noise_std))
    return ClassTables(
        sizes=tuple(sizes[column] for column in others),
        pairs=pairs,
        precision=precision,
        triples=tuple(triples),
        singles=pooled.singles / pooled.weights,
        singles_std=pooled.weights**-0.5,
        counts=np.maximum(pooled.counts / pooled.counts_weight, pooled.counts_weight**-0.5),
    )


class _Pooled:
    """Counts of single columns and of classes, from every table that says something, weighted by inverse variance."""

    def __init__(self, classes: int, offsets: npt.NDArray[np.int64]) -> None:
        self._offsets = offsets
        self.singles = np.zeros((classes, offsets[-1]))
        self.weights = np.full(offsets[-1], np.finfo(float).tiny)
        self.counts = np.zeros(classes)
        self.counts_weight = float(np.finfo(float).tiny)

    def add(self, columns: tuple[int, ...], counts: Floats, noise_std: float) -> None:
        """Adds a table, (classes, …)."""
        axes = range(1, counts.ndim)
        cells = counts[0].size
        for axis, column in zip(axes, columns, strict=True):
            weight = counts.shape[axis] / (cells * noise_std**2)
            span = slice(self._offsets[column], self._offsets[column + 1])
            self.singles[:, span] += weight * counts.sum(axis=tuple(other for other in axes if other != axis))
            self.weights[span] += weight
        weight = 1 / (cells * noise_std**2)
        self.counts += weight * counts.sum(axis=tuple(axes))
        self.counts_weight += weight


def likely_shares(tables: ClassTables) -> Floats:
    """Returns an estimate of each column's distribution in each class, positive, (classes, D).

    What a class says of its own is shrunk towards what all classes say together, by how far it stands out of its noise
    (James and Stein 1961), and brought back to the simplex.
    """
    shares = np.empty_like(tables.singles)
    for start, end in pairwise(tables.offsets):
        noisy, noise = tables.singles[:, start:end], float(tables.singles_std[start])
        together = _nonnegative(noisy.sum(axis=0)) + 1e-9
        together /= together.sum()
        for row, count in enumerate(tables.counts):
            apart = noisy[row] - count * together
            kept = max(0.0, 1 - (end - start) * noise**2 / max(float(apart @ apart), np.finfo(float).tiny))
            mixed = _nonnegative(count * together + kept * apart)
            mixed = mixed / mixed.sum() if mixed.sum() > 0 else together
            # Nothing is ruled out: a tenth of the noise is left in every cell.
            mixed = np.maximum(mixed, min(0.1 * noise / count, 0.5 / (end - start)))
            shares[row, start:end] = mixed / mixed.sum()
    return shares


def _nonnegative(values: Floats) -> Floats:
    """Returns the nearest vector without negative entries that has the same sum, or zeros where that is negative."""
    total = float(values.sum())
    if total <= 0:
        return np.zeros_like(values)
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(values) + 1)
    return np.asarray(np.maximum(values - excess[np.flatnonzero(falling > excess)[-1]], 0))


def table_dependence(table: Table) -> float:
    """Returns how far a noisy table of two columns is from independence, in standard deviations of its noise.

    The squared distance to the product of the table's own margins, in units of the noise, has a mean of about
    (rows − 1)·(columns − 1) when the columns are independent, and twice that as its variance.
    """
    counts = table.counts
    total = max(float(counts.sum()), table.noise_std)
    apart = counts - np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
    free = float(max((counts.shape[0] - 1) * (counts.shape[1] - 1), 1))
    energy = float(np.square(apart / table.noise_std).sum())
    return (energy - free) / math.sqrt(2 * free)


def choose_pairs(tables: Sequence[Table], *, most: int) -> tuple[Pair, ...]:
    """Returns the pairs to measure: those that stand out, strongest first, then a spanning forest of the rest.

    Args:
        tables: Coarse tables of pairs.
        most: Number of pairs to choose at most, at least 1.

    Returns:
        Pairs in ascending order.
    """
    scores = {(table.columns[0], table.columns[1]): table_dependence(table) for table in tables}
    ranked = sorted(scores, key=lambda pair: (-scores[pair], pair))
    clear = [pair for pair in ranked if scores[pair] > 2]
    # A column whose every dependence drowns is still tied to its likeliest partner.
    return tuple(sorted(list(dict.fromkeys([*clear, *_forest(ranked)]))[:most]))


def _forest(ranked: Sequence[Pair]) -> list[Pair]:
    """Returns the pairs of a maximum spanning forest (Kruskal), given all pairs with the strongest first."""
    parent: dict[int, int] = {}

    def root(column: int) -> int:
        while parent.setdefault(column, column) != column:
            column = parent[column]
        return column

    chosen = []
    for first, second in ranked:
        low, high = root(first), root(second)
        if low != high:
            parent[low] = high
            chosen.append((first, second))
    return chosen
