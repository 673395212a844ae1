"""Refuses feature maps that mix records: one record's vector must not depend on its neighbours or its position."""

from __future__ import annotations

import numpy as np

from noisegate.errors import OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.schema import EncodedTable, Layout


def made_up_records(layout: Layout, rows: int, random: np.random.Generator) -> EncodedTable:
    """Returns records drawn uniformly from what the schema allows; they are public."""
    numeric = random.uniform(size=(rows, len(layout.numeric)))
    for place, column in enumerate(layout.numeric):
        if column.missing:
            numeric[random.uniform(size=rows) < 0.1, place] = np.nan
    codes = (
        np.stack([random.integers(0, column.size, rows) for column in layout.coded], axis=1) if layout.coded else None
    )
    return EncodedTable(
        numeric=numeric,
        codes=np.zeros((rows, 0), np.int32) if codes is None else codes.astype(np.int32),
    )


def check_row_independence(name: str, feature_map: FeatureMap, layout: Layout, block_rows: int) -> None:
    """Probes `feature_map` with made-up records in two orders and beside other neighbours, and compares bits.

    A probe is no proof: maps that are exact by construction carry their proof; for the others, this catches layers that
    normalise over the batch and kernels that round by position on this machine.

    Raises:
        OptionError: if a record's vector changed.
    """
    random = np.random.Generator(np.random.Philox(20240229))
    records = made_up_records(layout, block_rows, random)
    others = made_up_records(layout, block_rows, random)
    order = random.permutation(block_rows)
    plain = feature_map(records)
    shuffled = feature_map(records.rows(order))
    half = block_rows // 2
    mixed = feature_map(
        EncodedTable.concatenate([others.rows(slice(0, block_rows - half)), records.rows(slice(0, half))])
    )
    if plain.shape != (block_rows, feature_map.dim):
        raise OptionError(f"feature map {name!r} returned shape {plain.shape}, not {(block_rows, feature_map.dim)}.")
    if not (_same_bits(plain[order], shuffled) and _same_bits(plain[:half], mixed[block_rows - half :])):
        raise OptionError(
            f"feature map {name!r} gives a record another vector when its neighbours or its position change, so no "
            "sensitivity can be stated for it. Use evaluation mode and no layer that normalises over the batch."
        )


def _same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return np.array_equal(left.view(np.uint8), np.ascontiguousarray(right).view(np.uint8)) if left.size else True
