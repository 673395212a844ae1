"""Probes gradients before the first private record is read: what each made-up record adds to a sum, wherever it stands.

What is compared are the integers that are really added, for a block with one record, with two and full; and the numbers
that these come from, as what rounds by place does not always show in the integers. It is done at parameters near those
of the first step: at the first ones much may be zero, and zeros round nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from noisegate.errors import OptionError
from noisegate.features.feature_map import FeatureMap
from noisegate.gate.execution import Execution, block_rows, embedded_records
from noisegate.gate.independence import Probed, made_up_records, map_execution, sound_execution
from noisegate.gate.per_example.gradients import Arrays, GradientSource, block_gradients
from noisegate.schema import EncodedTable, Layout

if TYPE_CHECKING:
    from torch import Tensor


def represent_execution(represent: FeatureMap, layout: Layout) -> Execution:
    """Returns how to compute the map that represents records; see `map_execution`."""
    return map_execution(type(represent).__name__, represent, layout, block_rows(represent, len(layout.numeric)))


def choose_execution(
    source: GradientSource,
    parameters: Mapping[str, Tensor],
    layout: Layout,
    device: str,
    name: str,
    represent: tuple[FeatureMap, Execution] | None = None,
) -> None:
    """Sets `source.execution` to the fastest one in which what a record adds is a function of that record alone.

    Args:
        source: Computes gradients; its execution says how many records a block may have at most.
        parameters: Those of the first step.
        layout: What the schema allows.
        device: Where gradients are computed.
        name: What messages call them.
        represent: The map whose vectors stand for records and how it is computed, or None.

    Raises:
        OptionError: if what a record adds changes with its neighbours or its place in every way.
        DataError: if the map is not finite at a made-up record.
    """
    nearby, count = _nearby(parameters), sum(value.numel() for value in parameters.values())

    def made_up(rows: int, random: np.random.Generator) -> EncodedTable:
        records = made_up_records(layout, rows, random)
        return records if represent is None else embedded_records(records, *represent)

    def compute(way: Execution, records: EncodedTable, places: range) -> Probed:
        source.execution = way
        vectors = block_gradients(source, nearby, records.numeric, records.codes, device)
        chosen = tuple(part[places.start : places.stop] for part in vectors)
        values = np.concatenate([part.reshape(len(places), math.prod(part.shape[1:])) for part in chosen], axis=1)
        added = _added(source, chosen, count)
        return Probed(bits=[row.tobytes() + sums for row, sums in zip(values, added, strict=True)], values=values)

    refusal = OptionError(
        f"the gradient of {name!r} at a record changes with the record's neighbours or its place in a block, or from "
        "one time to the next, so no sensitivity can be stated. Use layers that treat each record alone, and a loss "
        "without memory or randomness of its own."
    )
    most = source.execution.rows
    source.execution = sound_execution(most, compute, made_up, name=f"gradients of {name!r}", refusal=refusal)


def _nearby(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    import torch

    generator = torch.Generator().manual_seed(20240229)
    noise = {name: torch.randn(value.shape, generator=generator) for name, value in parameters.items()}
    return {name: value + 0.02 * noise[name].to(value) for name, value in parameters.items()}


def _added(source: GradientSource, vectors: Arrays, count: int) -> list[bytes]:
    """Returns a digest of the integers that each record adds by itself.

    Raises:
        OptionError: if two of them, or all, add something else together.
    """
    digests, together = [], np.zeros(count, dtype=np.int64)
    rows = len(vectors[0])
    for row in range(rows):
        alone = np.zeros(count, dtype=np.int64)
        source.add(alone, tuple(part[row : row + 1] for part in vectors))
        digests.append(hashlib.blake2b(alone.tobytes(), digest_size=16).digest())
        together += alone
        if row + 1 in (2, rows):
            filled = np.zeros(count, dtype=np.int64)
            source.add(filled, tuple(part[: row + 1] for part in vectors))
            if not np.array_equal(filled, together):
                raise OptionError(f"{row + 1} records of a block add something else than each of them alone.")
    return digests
