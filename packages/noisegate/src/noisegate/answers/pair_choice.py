"""Which pairs of columns are measured, by a coarse screening at all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from noisegate.answers.noisy_table import NoisyTable

Pair = tuple[int, ...]
"""Two columns by their numbers, ascending."""

# A pair whose table is so many standard deviations from independence stands out.
_MIN_DEPENDENCE = 2.0


def table_dependence(table: NoisyTable) -> float:
    """Computes how far a noisy table of two columns is from independence.

    The squared distance to the product of the table's own margins, in units of the
    noise, has a mean of about (rows − 1)·(columns − 1) when the columns are
    independent, and twice that as its variance.

    Args:
        table: Counts of two columns, with one variance in all cells.

    Returns:
        The distance above its mean, in standard deviations.
    """
    counts = table.counts
    noise_std = table.noise_std
    total = max(float(counts.sum()), noise_std)
    independent = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
    n_rows, n_columns = counts.shape
    freedom = float(max((n_rows - 1) * (n_columns - 1), 1))
    energy = float(np.square((counts - independent) / noise_std).sum())
    return (energy - freedom) / math.sqrt(2 * freedom)


def choose_pairs(
    tables: Mapping[Pair, NoisyTable], *, max_pairs: int
) -> tuple[Pair, ...]:
    """Chooses the pairs to measure.

    Those that stand out come first, the strongest before others; then a spanning forest
    of the rest, so that a column all of whose dependences are below the noise is still
    tied to its likeliest partner.

    Args:
        tables: Coarse tables of all pairs.
        max_pairs: How many are chosen at most.

    Returns:
        The pairs, ascending.
    """
    dependences = {pair: table_dependence(table) for pair, table in tables.items()}
    ranked = sorted(dependences, key=lambda pair: (-dependences[pair], pair))
    standing_out = [pair for pair in ranked if dependences[pair] > _MIN_DEPENDENCE]
    candidates = dict.fromkeys([*standing_out, *_spanning_forest(ranked)])
    return tuple(sorted(list(candidates)[:max_pairs]))


def _spanning_forest(ranked: Sequence[Pair]) -> list[Pair]:
    """Returns the pairs of a maximum spanning forest, by Kruskal's algorithm.

    Args:
        ranked: All pairs, the strongest first.
    """
    parent_of: dict[int, int] = {}

    def root_of(column: int) -> int:
        parent = parent_of.setdefault(column, column)
        while parent != column:
            # The way is halved for the next one (Tarjan and van Leeuwen, 1984).
            parent_of[column] = parent_of[parent]
            column = parent_of[column]
            parent = parent_of[column]
        return column

    forest = []
    for pair in ranked:
        first, second = pair
        first_root = root_of(first)
        second_root = root_of(second)
        if first_root != second_root:
            parent_of[first_root] = second_root
            forest.append(pair)
    return forest
