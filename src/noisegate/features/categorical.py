"""One-hot codes of all coded columns, scaled so that the block's norm is exactly bounded.

For DP-MERF, Harder, Adamczewski and Park (AISTATS 2021), https://arxiv.org/abs/2002.11603, section 4.3. Its code feeds
integer codes divided by √(number of columns), whose norm has no bound. Here a record has exactly one level in each of
the q columns, so its one-hot vector has norm √q; divided by √q it has norm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from noisegate.features.torch_form import Constants, Made, RowForm
from noisegate.schema import EncodedTable, Layout

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Levels:
    """The polynomial kernel of order 1 on coded columns (DP-MERF, section 4.3), with missing as a level of its own.

    Attributes:
        columns: Positions of the columns among the coded columns of the layout.
        sizes: Number of codes of each, missing included.
    """

    columns: tuple[int, ...]
    sizes: tuple[int, ...]
    norm: float = 1.0
    nonnegative: bool = True

    @property
    def dim(self) -> int:
        """Total number of levels."""
        return sum(self.sizes)

    @property
    def amplitude(self) -> float:
        """Value of a hot coordinate, 1/√q."""
        return float(len(self.columns) ** -0.5)

    def __call__(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Returns scaled one-hot codes, (rows, dim)."""
        result = np.zeros((len(records), self.dim), dtype=np.float32)
        rows = np.arange(len(records))
        offset = 0
        for column, size in zip(self.columns, self.sizes, strict=True):
            result[rows, offset + records.codes[:, column]] = self.amplitude
            offset += size
        return result

    def of_cells(self, layout: Layout) -> RowForm:
        """Returns the expected features over the levels of each column."""
        import torch

        def features(constants: Constants, probabilities: Made) -> Tensor:
            chosen = [probabilities[len(layout.numeric) + column] for column in self.columns]
            return torch.cat(chosen) * self.amplitude

        return RowForm(features)
