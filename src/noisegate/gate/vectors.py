"""The vectors of one block of records, where what several maps share is computed once."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.features.feature_map import FeatureMap, SharingMap
from noisegate.schema import EncodedTable

Shared: TypeAlias = dict[int, tuple[Any, npt.NDArray[np.float32]]]
"""What was computed for a block so far, by the identity of the first half that gave it, which is kept alive with it."""


def vectors_of(feature_map: FeatureMap, block: EncodedTable, shared: Shared) -> npt.NDArray[np.float32]:
    """Returns the vectors of a block, (rows, dim), and keeps in `shared` what other maps of the block may use.

    The probe of a map and its sums both come here, so that what is summed is what was probed.

    Args:
        feature_map: Record to vector.
        block: Records, as many as every block has.
        shared: What was computed for the same block so far; empty at first. Changed.
    """
    if not isinstance(feature_map, SharingMap):
        return feature_map(block)
    first = feature_map.first_half
    if id(first) not in shared:
        values = first(block)
        # The next map takes it up: a second half that works in place would give that one other vectors.
        values.setflags(write=False)
        shared[id(first)] = first, values
    return feature_map.second_half(shared[id(first)][1])
