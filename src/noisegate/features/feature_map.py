"""The protocol of feature maps: what the gate asks of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

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


@runtime_checkable
class SharingMap(FeatureMap, Protocol):
    """A map that is its second half after its first one, where other maps may have the same first half.

    It gives the same vectors as calling it does, bit for bit. The gate computes a first half once for a block of
    records and all the maps whose `first_half` is the same object.
    """

    @property
    def first_half(self) -> Callable[[EncodedTable], npt.NDArray[np.float32]]:
        """From records to whatever numbers, float32 (rows, any)."""
        ...

    def second_half(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Returns the vectors, float32 (rows, dim), of what `first_half` gave, which must not be changed."""
        ...
