"""Tables of counts as they were released."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisegate.features.contingency import Contingency

Floats = npt.NDArray[np.float64]


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


def read_tables(tables: Contingency, values: Floats, noise_std: float) -> list[Table]:
    """Returns the tables of one query, from its answer and the noise on each number of it.

    Raises:
        ValueError: if the answer has another length.
    """
    if len(values) != tables.dim:
        raise ValueError(f"{len(values)} numbers for tables of {tables.dim} cells")
    return [
        Table(columns=columns, counts=counts, noise_std=noise_std / weight)
        for columns, counts, weight in zip(tables.tables, tables.counts(values), tables.weights, strict=True)
    ]
