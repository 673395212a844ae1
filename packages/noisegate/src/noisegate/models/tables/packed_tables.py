"""Released tables, arranged by the classes of the label: for a fit, and twice with independent noise, to judge one.

Columns are all but the label, their cells laid side by side: cell a of column i stands
at place offsets[i] + a of D.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from noisegate.answers.released import Table, posterior_shares

Floats = npt.NDArray[np.float64]

_TINY = float(np.finfo(float).tiny)
_TAIL = 1e-9  # scores of cells are no further out than this quantile


@dataclass(frozen=True, kw_only=True)
class Start:
    """Where a fit sets out, if not from independent columns: kinds of records, in each of which columns are so.

    Attributes:
        weights: Shares of the kinds, (kinds,).
        cells: Shares of the cells of all columns in each, (kinds, D).
    """

    weights: Floats
    cells: Floats


@dataclass(frozen=True, kw_only=True)
class PackedTables:
    """Released tables of counts by class of the label, side by side in float32 blocks, as the fit needs them.

    Attributes:
        sizes: Cells of each column but the label.
        pairs: For each class, noisy counts of the pairs that were released, above the diagonal, (classes, D, D).
        precision: One over their noise, 0 where no pair was released, (D, D).
        triples: Tables of three columns: (columns, (classes, …) counts, noise).
        singles: Noisy counts of each column's cells, the best that all tables together say, (classes, D).
        singles_std: Their noise, (D,).
        counts: Number of records of each class, as well as it is known, (classes,); in all of them together at least
            one standard deviation of its noise.
        prior: Shares of each column's cells as they were known before, (D,).
        start: Where a fit sets out; None to follow what its pairs say of each class.
        ordered: How many cells of each column, the first ones, stand in an order.
    """

    sizes: tuple[int, ...]
    pairs: npt.NDArray[np.float32]
    precision: npt.NDArray[np.float32]
    triples: tuple[tuple[tuple[int, int, int], Floats, float], ...]
    singles: Floats
    singles_std: Floats
    counts: Floats
    prior: Floats
    start: Start | None = None
    ordered: tuple[int, ...] = ()

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each column's cells begin among the D, and their end, (columns + 1,)."""
        return (0, *accumulate(self.sizes))

    @cached_property
    def spans(self) -> tuple[slice, ...]:
        """Where each column's cells stand among the D."""
        return tuple(slice(start, end) for start, end in pairwise(self.offsets))

    @property
    def larger(self) -> int:
        """Number of cells of pairs and triples, over all classes."""
        pairs = int((self.precision > 0).sum()) * len(self.counts)
        return pairs + sum(counts.size for _, counts, _ in self.triples)


def split(
    tables: Sequence[Table], random: np.random.Generator
) -> tuple[list[Table], list[Table]]:
    """Returns each table twice, with independent noise: for a trial fit, and to judge it by.

    With fresh z of the table's own noise, counts + z/2 and counts − 2z are independent, because the noise is Gaussian
    (Rasines and Young 2023; Leiner et al. 2023): a fit to the one is judged without bias by the other. The noise of the
    first grows by the factor √(5/4), that of the second by √5.
    """
    trial, judge = [], []
    for table in tables:
        fresh = random.normal(scale=table.noise_std, size=table.counts.shape)
        trial.append(
            replace(
                table,
                counts=table.counts + fresh / 2,
                noise_std=table.noise_std * math.sqrt(5 / 4),
            )
        )
        judge.append(
            replace(
                table,
                counts=table.counts - 2 * fresh,
                noise_std=table.noise_std * math.sqrt(5),
            )
        )
    return trial, judge


def pack_tables(
    tables: Sequence[Table],
    sizes: Sequence[int],
    label: int | None,
    prior: Mapping[int, Floats] | None = None,
) -> PackedTables:
    """Returns the tables arranged by class, those without the label left out; None makes one class of all records.

    `sizes` are the cells of each column, `prior` the shares of these cells in columns of which something is known.
    """
    others = [column for column in range(len(sizes)) if column != label]
    place = {column: at for at, column in enumerate(others)}
    offsets = np.cumsum([0, *(sizes[column] for column in others)])
    classes, width = 1 if label is None else sizes[label], int(offsets[-1])
    pairs = np.zeros((classes, width, width), dtype=np.float32)
    precision = np.zeros((width, width), dtype=np.float32)
    triples = []
    # Of single columns and of classes, every table that says something, weighted by inverse variance.
    singles, singles_weight = np.zeros((classes, width)), np.full(width, _TINY)
    totals, totals_weight = np.zeros(classes), _TINY
    for table in tables:
        if label is not None and label not in table.columns:
            continue
        columns = tuple(place[column] for column in table.columns if column != label)
        counts = (
            table.counts[None]
            if label is None
            else np.moveaxis(table.counts, table.columns.index(label), 0)
        )
        axes, variance = range(1, counts.ndim), counts[0].size * table.noise_std**2
        spans = [slice(offsets[column], offsets[column + 1]) for column in columns]
        for axis, span in zip(axes, spans, strict=True):
            weight = counts.shape[axis] / variance
            singles[:, span] += weight * counts.sum(
                axis=tuple(other for other in axes if other != axis)
            )
            singles_weight[span] += weight
        totals += 1 / variance * counts.sum(axis=tuple(axes))
        totals_weight += 1 / variance
        if len(columns) == 2:
            pairs[:, spans[0], spans[1]] = counts
            precision[spans[0], spans[1]] = 1 / table.noise_std
        elif len(columns) == 3:
            triples.append(
                ((columns[0], columns[1], columns[2]), counts, table.noise_std)
            )
    even = {column: np.full(sizes[column], 1 / sizes[column]) for column in others}
    # Shrunk towards equal ones as far as they drown.
    counts, noise_std = totals / totals_weight, totals_weight**-0.5
    records = max(float(counts.sum()), math.sqrt(classes) * noise_std)
    shares = posterior_shares(counts, noise_std, np.full(classes, 1 / classes), records)
    return PackedTables(
        sizes=tuple(sizes[column] for column in others),
        pairs=pairs,
        precision=precision,
        triples=tuple(triples),
        singles=singles / singles_weight,
        singles_std=singles_weight**-0.5,
        counts=records * shares,
        prior=np.concatenate([{**even, **(prior or {})}[column] for column in others])
        if others
        else np.zeros(0),
    )


def likely_shares(tables: PackedTables) -> Floats:
    """Returns an estimate of each column's distribution in each class, positive, (classes, D).

    What all classes say together is shrunk towards what was known before, and what a class says of its own towards
    what all say together, each as far as it drowns in its noise.
    """
    shares, classes, records = (
        np.empty_like(tables.singles),
        len(tables.counts),
        float(tables.counts.sum()),
    )
    for span in tables.spans:
        noisy, noise = tables.singles[:, span], float(tables.singles_std[span.start])
        together = posterior_shares(
            noisy.sum(axis=0), math.sqrt(classes) * noise, tables.prior[span], records
        )
        for row, count in enumerate(tables.counts.tolist()):
            own = (
                posterior_shares(noisy[row], noise, together, count)
                if classes > 1
                else together
            )
            shares[row, span] = own
    return shares


def scores_of(shares: Floats, ordered: int) -> Floats:
    """Returns scores of a column's cells, (cells, scores), of mean 0 and variance 1 under its shares."""
    terms = np.delete(np.eye(len(shares)), int(shares.argmax()), axis=1)
    if ordered > 1:
        inside = shares[:ordered] / shares[:ordered].sum()
        middles = np.clip(np.cumsum(inside) - inside / 2, _TAIL, 1 - _TAIL)
        terms = np.eye(len(shares))[:, ordered - 1 :]
        terms[:ordered, 0] = [
            NormalDist().inv_cdf(middle) for middle in middles.tolist()
        ]
    roots = np.sqrt(shares)[:, None]
    return np.asarray(
        np.linalg.qr(np.column_stack([roots, terms * roots]))[0][:, 1:] / roots
    )
