"""The constant feature: its class-wise sum is the number of records of each label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisegate.schema import EncodedTable


@dataclass(frozen=True)
class Counts:
    """Maps every record to the number 1.

    Examples:
        >>> from noisegate import Schema
        >>> from noisegate.features.labels import Counts
        >>> from noisegate.schema import Boolean
        >>> from noisegate.testing import made_up
        >>> Counts()(made_up(Schema([Boolean(name="ill")]).layout, rows=2)).tolist()
        [[1.0], [1.0]]
    """

    dim: int = 1
    norm: float = 1.0
    nonnegative: bool = True

    def __call__(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Returns ones, (rows, 1)."""
        return np.ones((len(records), 1), dtype=np.float32)
