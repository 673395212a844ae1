"""Refuses feature maps that mix records: one record's vector must not depend on its neighbours or its position."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.gate.vectors import vectors_of
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


def check_row_independence(
    name: str,
    feature_map: FeatureMap,
    layout: Layout,
    block_rows: int,
    *,
    made_up: Callable[[Layout, int, np.random.Generator], EncodedTable] = made_up_records,
) -> None:
    """Probes `feature_map` with made-up records in two orders and beside other neighbours, and compares bits.

    A probe is no proof: maps that are exact by construction carry their proof; for the others, this catches layers that
    normalise over the batch and kernels that round by position on this machine.

    Args:
        name: What messages call the map.
        feature_map: Record to vector.
        layout: What the schema allows.
        block_rows: Rows of every block.
        made_up: Makes the records, of a layout, so many, with this randomness.

    Raises:
        OptionError: if a record's vector changed.
    """
    random = np.random.Generator(np.random.Philox(20240229))
    records = made_up(layout, block_rows, random)
    others = made_up(layout, block_rows, random)
    order, half = random.permutation(block_rows), block_rows // 2
    behind = EncodedTable.concatenate([others.rows(slice(half, None)), records.rows(slice(None, half))])
    before = EncodedTable.concatenate([records.rows(slice(half, None)), others.rows(slice(None, half))])

    def vectors(block: EncodedTable) -> npt.NDArray[np.float32]:
        return vectors_of(feature_map, block, {})

    with np.errstate(all="ignore"):  # a map that divides by what it mixes in may divide by zero here
        plain = vectors(records)
        if plain.shape != (block_rows, feature_map.dim):
            raise OptionError(
                f"feature map {name!r} returned shape {plain.shape}, not {(block_rows, feature_map.dim)}."
            )
        pairs = [
            (plain[order], vectors(records.rows(order))),
            (plain[:half], vectors(behind)[len(behind) - half :]),
            (plain[half:], vectors(before)[: block_rows - half]),
            # Blocks of one repeated record: nothing of the others is left that could be mixed in.
            *(
                (plain[row], vectors(records.rows([row] * block_rows))[row])
                for row in range(0, block_rows, max(block_rows // 8, 1))
            ),
        ]
    if not all(_same_bits(found, expected) for found, expected in pairs):
        raise OptionError(
            f"feature map {name!r} gives a record another vector when its neighbours or its position change, so no "
            "sensitivity can be stated for it. Use evaluation mode and no layer that normalises over the batch."
        )


def _same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return left.dtype == right.dtype and left.tobytes() == right.tobytes()
