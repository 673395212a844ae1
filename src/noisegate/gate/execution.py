"""How vectors and gradients are computed on a machine: in blocks of how many records, and with which kernels.

A record's vector must be a function of that record alone, bit for bit (G-06, G-20). Kernels of matrix products may
round a sum by the place of a row in its block; which do, and at which sizes, differs between processors. So before the
first private record is read, made-up ones are tried (`gate.independence`) in these ways, until one passes:

1. the block that was asked for, with torch's own kernels;
2. the same block, then smaller ones, with matrix products that round no sum (`gate.exact_products`). Not smaller blocks
   with torch's own: kernels that were seen to round by place once are not trusted on the word of another probe;
3. one record at a time, which has no neighbours.

Where kernels are good the first one passes, and nothing is slower. What is found may differ between machines, and with
it the last bits of results; that a record's vector depends on that record alone may not.

A frozen public map may also stand for a record's numeric columns before any loss sees it (`embedded_records`): it is
called in blocks of one shape, after the same probe, so that what stands for a record is a function of it alone, bit for
bit (G-06), and so is the gradient of any loss of it, which is clipped after all this (G-20).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from noisegate.errors import DataError, OptionError
from noisegate.features.feature_map import FeatureMap, SharingMap
from noisegate.gate.exact_products import exact_products
from noisegate.privacy.grid import BLOCK_LIMIT
from noisegate.schema import EncodedTable

# Features run in blocks of exactly this many rows (the last one padded): their bits may depend on the shape of a batch.
BLOCK_ROWS = 256
assert BLOCK_ROWS <= BLOCK_LIMIT
# Blocks of long vectors have fewer rows, so that they have no more numbers than this: 28 MB as float32,
# which is less than what the C library takes from the system anew, page by page, each time.
BLOCK_NUMBERS = 7 * 2**20
# And a block of large images has no more intensities than this: 400 MB as float64.
BLOCK_INTENSITIES = BLOCK_ROWS * 256 * 256 * 3
_SMALLER = (128, 32, 8)


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One way to compute.

    Attributes:
        rows: Records in a block; the last one is padded.
        exact: Whether torch's matrix products round no sum.
    """

    rows: int
    exact: bool = False

    def kernels(self) -> AbstractContextManager[Any]:
        """Returns the context in which this thread is to compute."""
        return exact_products() if self.exact else nullcontext()


def executions(rows: int) -> Iterator[Execution]:
    """Yields ways to compute, from the fastest to the surest.

    Args:
        rows: Records in a block, at most.

    Examples:
        >>> from noisegate.gate.execution import executions
        >>> [(way.rows, way.exact) for way in executions(1)]
        [(1, False)]
    """
    if rows > 1:
        yield Execution(rows=rows)
        # What was computed without torch has no products of torch.
        exact = "torch" in sys.modules
        yield from (Execution(rows=block, exact=exact) for block in (rows, *_SMALLER) if block <= rows)
    yield Execution(rows=1)


def block_rows(feature_map: FeatureMap, columns: int = 0) -> int:
    """Returns how many rows a block has at most that a map is called with.

    256, or fewer where its vectors are long, or its records have more numeric ``columns`` than images of 256 x 256 x 3.
    """
    rows = BLOCK_ROWS
    while rows > 1 and (rows * feature_map.dim > BLOCK_NUMBERS or rows * columns > BLOCK_INTENSITIES):
        rows //= 2
    return rows


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


def embedded_records(
    records: EncodedTable, feature_map: FeatureMap, execution: Execution | None = None
) -> EncodedTable:
    """Returns records, any number of rows, with the map's vectors as their numeric columns and the codes as they were.

    Args:
        records: As they were read.
        feature_map: Record to vector; it sees the codes too.
        execution: How it is computed; None for blocks of `block_rows`.

    Raises:
        OptionError: if the map returns another shape than it says.
        DataError: if it returns numbers that are not finite; the map is named.
    """
    way, name = execution or Execution(rows=block_rows(feature_map)), type(feature_map).__name__
    rows = way.rows
    vectors = np.empty((len(records), feature_map.dim), dtype=np.float32)
    for start in range(0, len(records), rows):
        block = records.rows(slice(start, start + rows))
        padded = block.rows(np.minimum(np.arange(rows), len(block) - 1)) if len(block) < rows else block
        with way.kernels():
            found = vectors_of(feature_map, padded, {})
        if found.shape != (rows, feature_map.dim):
            raise OptionError(f"{name}: a feature map returned shape {found.shape}, not {(rows, feature_map.dim)}.")
        vectors[start : start + rows] = found[: len(block)]
    if not np.isfinite(vectors).all():
        raise DataError(
            f"{name}: a feature map gave numbers that are not finite for a record that the schema allows, for instance "
            "one with a missing value. Use a map that is finite for every record, or a schema that allows no such one."
        )
    return EncodedTable(vectors.astype(np.float64), records.codes)
