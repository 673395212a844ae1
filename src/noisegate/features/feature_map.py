"""The protocol of feature maps: what the gate asks of them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from noisegate.schema import EncodedTable


class FeatureMap(Protocol):
    """Maps each record to a vector. Public knowledge: it is built without looking at any private record.

    The row of a record must be a function of that record alone, bit for bit, whatever the other rows and its position.
    The gate calls it with blocks of one fixed number of rows, probes it for that on made-up records, and clips what it
    returns; so a map that breaks its promise on the norm costs accuracy, never privacy.
    """

    @property
    def dim(self) -> int:
        """Length of the vector."""
        ...

    @property
    def norm(self) -> float:
        """L2 norm that no vector exceeds."""
        ...

    @property
    def nonnegative(self) -> bool:
        """Whether every coordinate of every vector is at least zero."""
        ...

    def __call__(self, records: EncodedTable) -> npt.NDArray[np.float32]:
        """Returns the vectors of `records`, float32 (rows, dim)."""
        ...
