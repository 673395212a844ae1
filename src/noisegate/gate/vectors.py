"""The vectors of one block of records, where what several maps share is computed once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.features.feature_map import FeatureMap, SharingMap
from noisegate.schema import EncodedTable

Shared: TypeAlias = dict[int, tuple[Any, npt.NDArray[np.float32]]]
"""What was computed for a block so far, by the identity of the first half that gave it, which is kept alive with it."""


PART_NUMBERS = 2**17
"""Numbers of a part of a block, on which second halves work: what they make on the way stays in the cache of a core."""


def vectors_of(feature_map: FeatureMap, block: EncodedTable, shared: Shared) -> npt.NDArray[np.float32]:
    """Returns the vectors of a block, (rows, dim), and keeps in `shared` what other maps of the block may use.

    The probe of a map and its sums both come here or to `parts_of`, so that what is summed is what was probed.

    Args:
        feature_map: Record to vector.
        block: Records, as many as every block has.
        shared: What was computed for the same block so far; empty at first. Changed.
    """
    parts = [vectors for _, vectors in parts_of(feature_map, block, shared)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def parts_of(
    feature_map: FeatureMap, block: EncodedTable, shared: Shared
) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """Yields the vectors of a block in parts of equal size, each with the place of its first row; see `vectors_of`."""
    if not isinstance(feature_map, SharingMap):
        yield 0, feature_map(block)
        return
    first = feature_map.first_half
    if id(first) not in shared:
        values = first(block)
        # The next map takes it up: a second half that works in place would give that one other vectors.
        values.setflags(write=False)
        shared[id(first)] = first, values
    values, rows = shared[id(first)][1], _part_rows(len(block), feature_map.dim)
    for start in range(0, len(block), rows):
        yield start, feature_map.second_half(values[start : start + rows])


def _part_rows(rows: int, dim: int) -> int:
    """Returns how many rows every part of a block of so many has: a divisor, as bits may depend on the shape."""
    while rows % 2 == 0 and rows * dim > PART_NUMBERS:
        rows //= 2
    return rows
