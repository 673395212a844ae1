"""Cosine series: class-wise sums of cos(πkx) of each numeric column, and of one-hot codes, matched by a generator.

The coefficients of a density on [0, 1] in the cosine basis (Efromovich, Nonparametric Curve Estimation, Springer 1999,
section 2.4) are means over records; here they are released as one sum with noise. One-way only: two numeric columns are
told apart by the label alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.features.feature_map import Levels, RowForm
from noisegate.methods.embedding import Embedding
from noisegate.methods.registry import register
from noisegate.records import Rows
from noisegate.schema import Layout, Schema
from noisegate.schema.layout import numeric_cells
from noisegate.settings import Count, Share, settings
from noisegate_images.methods.matched import MatchedMethod

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Cosines:
    """Maps a record to cos(πkx)/√(columns · orders) for each numeric column x in [0, 1] and k = 1 … orders.

    No coordinate exceeds 1/√dim, so no vector is longer than 1. A missing value has zeros.

    Attributes:
        columns: Number of numeric columns.
        orders: Highest k.
    """

    columns: int
    orders: int
    norm: float = 1.0
    nonnegative: bool = False

    @property
    def dim(self) -> int:
        """Columns times orders."""
        return self.columns * self.orders

    @property
    def waves(self) -> npt.NDArray[np.float64]:
        """πk, (orders,)."""
        return np.pi * np.arange(1, self.orders + 1)

    def __call__(self, records: Rows) -> npt.NDArray[np.float32]:
        """Returns the vectors, (rows, columns · orders); each number of a record is computed from that record alone."""
        waves = np.cos(records.numeric[:, :, None] * self.waves)
        return np.nan_to_num(waves * self.dim**-0.5, nan=0.0).reshape(len(records), self.dim).astype(np.float32)

    def of_cells(self, layout: Layout) -> RowForm:
        """Returns the torch form: the mean of cos(πkx) over each cell, times the cell's probability."""
        tables = {f"table{j}": self._table(column) for j, column in enumerate(layout.numeric)}

        def features(constants: dict[str, Tensor], probabilities: list[Tensor]) -> Tensor:
            import torch

            return torch.cat([constants[name] @ probabilities[j] for j, name in enumerate(tables)])

        return RowForm(features, tables)

    def _table(self, column: object) -> npt.NDArray[np.float64]:
        cells = numeric_cells(column)
        low, high = np.outer(self.waves, cells.low), np.outer(self.waves, cells.high)
        width = np.where(high > low, high - low, 1.0)
        means = np.where(high > low, (np.sin(high) - np.sin(low)) / width, np.cos(low))
        return np.hstack([means, np.zeros((self.orders, int(cells.missing)))]) * self.dim**-0.5


@register("cosines")
@settings
class CosineSeries(MatchedMethod):
    """Settings of the cosine series; none of them depends on private data."""

    orders: Count = 20
    """Highest order; more show sharper peaks and get more noise."""
    cosines_share: Share = 1.0
    """Budget share of the cosines."""
    levels_share: Share = 0.5
    """Budget share of the one-hot codes."""

    def embeddings(self, schema: Schema) -> dict[str, Embedding]:
        """Returns what is asked; plan, calibration, query, certificate, fit and model follow from it."""
        layout, asked = schema.layout, {}
        if layout.numeric:
            asked["cosines"] = Embedding(Cosines(columns=len(layout.numeric), orders=self.orders), self.cosines_share)
        if coded := tuple(j for j in range(len(layout.coded)) if j != layout.label):
            levels = Levels(columns=coded, sizes=tuple(layout.coded[j].size for j in coded))
            asked["levels"] = Embedding(levels, self.levels_share)
        return asked
