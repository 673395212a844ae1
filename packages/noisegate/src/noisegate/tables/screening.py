"""Which pairs of columns to measure, by a coarse noisy look at all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from noisegate.tables.released import Table

Columns = tuple[int, ...]


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


def choose_pairs(tables: Sequence[Table], *, most: int) -> tuple[Columns, ...]:
    """Returns at most `most` pairs to measure, in ascending order, by coarse tables of all.

    Those that stand out come first, the strongest before others, then a spanning forest of the rest.
    """
    scores = {table.columns: table_dependence(table) for table in tables}
    ranked = sorted(scores, key=lambda pair: (-scores[pair], pair))
    clear = [pair for pair in ranked if scores[pair] > 2]
    # A column whose every dependence drowns is still tied to its likeliest partner.
    return tuple(sorted(list(dict.fromkeys([*clear, *_forest(ranked)]))[:most]))


def _forest(ranked: Sequence[Columns]) -> list[Columns]:
    """Returns the pairs of a maximum spanning forest (Kruskal), given all pairs with the strongest first."""
    parent: dict[int, int] = {}

    def root(column: int) -> int:
        while (above := parent.setdefault(column, column)) != column:
            # The way is halved for the next one (Tarjan and van Leeuwen, 1984).
            parent[column] = parent[above]
            column = above
        return column

    chosen: list[Columns] = []
    for first, second in ranked:
        low, high = root(first), root(second)
        if low != high:
            parent[low] = high
            chosen.append((first, second))
    return chosen
