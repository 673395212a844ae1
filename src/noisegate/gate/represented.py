"""Records of which a frozen public map has taken the numeric columns' place, so that it is not run at every step.

The map is called as it is for sums: with blocks of one fixed number of rows, the last one padded, after it was probed
on made-up records. So what stands for a record is a function of that record alone, bit for bit (G-06), and so is the
gradient of any loss of it, which is clipped after all this, to the same norm (G-20).
"""

from __future__ import annotations

import numpy as np

from noisegate.errors import DataError, OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.gate.execution import Execution
from noisegate.gate.sums import block_rows
from noisegate.gate.vectors import vectors_of
from noisegate.schema import EncodedTable


def represented(records: EncodedTable, feature_map: FeatureMap, execution: Execution | None = None) -> EncodedTable:
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
