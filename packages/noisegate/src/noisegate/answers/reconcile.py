"""Counts of some columns by least squares over all tables of a release.

`Measurements.best` uses the tables that hold all of the columns. The others say
something too: a table of one of them fixes its margin. A table is the sum of

- its total, spread evenly,
- the main effect of each column: by how much its cells differ from that,
- the interactions of its columns.

Every table that holds the columns of an effect measures it, and the noise on different
effects is independent. So each effect is averaged by itself, over all tables that have
it, and the counts are the sum of the effects (ResidualPlanner, Xiao and others, NeurIPS
2023, https://arxiv.org/abs/2305.08175, decoding). Counts of different columns then
agree on the columns that they share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from noisegate.answers.domain import Floats
from noisegate.answers.measurements import Measurements
from noisegate.answers.noisy_table import NoisyTable


def reconcile(measurements: Measurements, columns: Sequence[str]) -> NoisyTable:
    """Returns the least-squares counts of some columns.

    Args:
        measurements: All that a release states. Each table must have one variance for
            all of its cells.
        columns: The columns, in the order of the axes to be.

    Returns:
        The counts, whose noise is correlated between cells.

    Raises:
        LookupError: if no table holds all of the columns.
    """
    domain = measurements.domain.project(columns)
    counts = np.zeros(domain.shape)
    variance = 0.0
    for effect_columns in _subsets(columns):
        if effect_columns:
            table = measurements.best(effect_columns)
        else:
            table = NoisyTable.of_number(measurements.total)
        effect = _remove_means(table.counts)
        other_axes = tuple(
            axis for axis, name in enumerate(columns) if name not in effect_columns
        )
        # An effect on fewer columns is spread evenly over the cells of the others.
        spread = domain.size / table.domain.size
        counts += np.expand_dims(effect, other_axes) / spread
        # Taking off means leaves this part of the variance of each cell.
        remaining_part = math.prod(1 - 1 / size for size in table.domain.shape)
        variance += float(np.mean(table.variance)) * remaining_part / spread**2
    return NoisyTable(
        domain, counts, np.full(domain.shape, variance), is_independent=False
    )


def _remove_means(counts: Floats) -> Floats:
    """Returns the interaction of all columns of a table: no axis has a mean left.

    Examples:
        >>> import numpy as np
        >>> _remove_means(np.array([[5.0, 1.0], [3.0, 3.0]])).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
    """
    remaining = counts
    for axis in range(counts.ndim):
        remaining = remaining - remaining.mean(axis=axis, keepdims=True)
    return remaining


def _subsets(columns: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yields all subsets of some columns, from none to all."""
    for size in range(len(columns) + 1):
        yield from combinations(columns, size)
