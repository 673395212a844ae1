"""Single columns of two tables, cell by cell: what a person looks at first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from noisegate.evaluation.metrics.marginals import total_variation
from noisegate.evaluation.reading import cells
from noisegate.schema import Column, Schema


@dataclass(frozen=True, kw_only=True)
class ColumnShares:
    """The share of rows in each cell of one column, whose last two are missing and outside, in two tables.

    Attributes:
        column: The column.
        real: Shares of the real table.
        synthetic: Shares of the synthetic one.
        distance: Total variation distance between the two.
    """

    column: Column
    real: np.ndarray
    synthetic: np.ndarray
    distance: float


def column_shares(synthetic: pa.Table, real: pa.Table, column: Column, schema: Schema, *, bins: int) -> ColumnShares:
    """Compare one column of two tables that are not empty; numbers and dates in equal-width bins of the bounds."""
    both = (cells(table, column, schema, bins=bins) for table in (synthetic, real))
    ours, theirs = (np.bincount(found.codes, minlength=found.size) for found in both)
    shares, real_shares = ours / ours.sum(), theirs / theirs.sum()
    return ColumnShares(column=column, real=real_shares, synthetic=shares, distance=total_variation(ours, theirs))
