"""Tables of counts as they were released."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from noisegate.features.contingency import Contingency

Floats = npt.NDArray[np.float64]
Values = Mapping[str, Floats]


class Answered(Protocol):
    """What some queries gave: a release, or the answers of a session that is not over."""

    @property
    def values(self) -> Values:
        """The noisy sum of each query."""

    @property
    def noise_std(self) -> Mapping[str, float]:
        """The noise on each number of it."""


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
