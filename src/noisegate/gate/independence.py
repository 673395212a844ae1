"""Probes whether a record's vector depends on its neighbours or its place in a block, and finds a way in which not.

A probe is no proof: what is exact by construction carries its proof; for all else, this catches layers that normalise
over the batch and kernels that round by place on this machine. Maps that mix records are refused; where it is only the
rounding, `executions` are tried one after the other.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError, SlowKernelsWarning
from noisegate.features.feature_map import FeatureMap
from noisegate.gate.execution import Execution, executions, vectors_of
from noisegate.schema import EncodedTable, Layout

# Rounding moves a vector by less than this part of its largest entry, but for single ones at a kink of a network.
_ROUNDING = 2.0**-8
# Records that are tried at least: in small blocks, what rounds by place does not show in each.
_TRIED = 32


class Dependence(Enum):
    """What a record's vector was seen to depend on, beside the record."""

    NONE = "nothing"
    ROUNDING = "its place or neighbours, by as much as a sum rounds"
    MIXING = "its place or neighbours, by more"


@dataclass(frozen=True, kw_only=True, eq=False)
class Probed:
    """What was computed for some records of a block.

    Attributes:
        bits: For each of these records, bytes that are equal where all its bits are.
        values: The numbers that these bits are of, (records, numbers).
    """

    bits: list[bytes]
    values: npt.NDArray[np.float32]


Compute = Callable[[Execution, EncodedTable, range], Probed]
"""Computes a block in a way, and returns what came of the records at some places of it."""


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


def map_execution(name: str, feature_map: FeatureMap, layout: Layout, rows: int) -> Execution:
    """Returns the fastest way to compute a map in which no record's vector depends on another record.

    Args:
        name: What messages call the map.
        feature_map: Record to vector.
        layout: What the schema allows.
        rows: Records in a block, at most.

    Raises:
        OptionError: if the map mixes records, or returns another shape than it says.
    """

    def compute(way: Execution, block: EncodedTable, places: range) -> Probed:
        with way.kernels():
            vectors = vectors_of(feature_map, block, {})
        if vectors.shape != (way.rows, feature_map.dim):
            raise OptionError(
                f"feature map {name!r} returned shape {vectors.shape}, not {(way.rows, feature_map.dim)}."
            )
        return Probed(
            bits=[row.tobytes() for row in vectors[places.start : places.stop]],
            values=vectors[places.start : places.stop],
        )

    refusal = OptionError(
        f"feature map {name!r} gives a record another vector when its neighbours or its position change, so no "
        "sensitivity can be stated for it. Use evaluation mode and no layer that normalises over the batch."
    )
    return sound_execution(rows, compute, lambda *given: made_up_records(layout, *given), name=name, refusal=refusal)


def sound_execution(
    rows: int,
    compute: Compute,
    made_up: Callable[[int, np.random.Generator], EncodedTable],
    *,
    name: str,
    refusal: OptionError,
) -> Execution:
    """Returns the fastest way to compute in which no record depends on another, and warns where it is slow.

    Args:
        rows: Records in a block, at most.
        compute: Computes.
        made_up: Makes so many records.
        name: What messages call what is computed.
        refusal: Raised where records are mixed, or a record by itself has not the same bits each time.
    """
    for way in executions(rows):
        random = np.random.Generator(np.random.Philox(20240229))
        found = dependence(partial(compute, way), partial(made_up, way.rows, random))
        if found is Dependence.NONE:
            if way.rows == 1 < rows:
                _warn(name, rows, compute, made_up(rows, random))
            return way
        if found is Dependence.MIXING:
            break
    raise refusal


def dependence(compute: Callable[[EncodedTable, range], Probed], made_up: Callable[[], EncodedTable]) -> Dependence:
    """Computes records in another order, beside other neighbours and among copies of themselves, and compares bits.

    Args:
        compute: For records at some places of a block.
        made_up: Makes a block of records, others at each call.
    """
    seen, found = 0, Dependence.NONE
    with np.errstate(all="ignore"):  # a map that divides by what it mixes in may divide by zero here
        while seen < _TRIED:
            records = made_up()
            seen += len(records)
            plain = compute(records, range(len(records)))
            for block, here, there in _arrangements(records, made_up()):
                again = compute(block, there)
                moved = [
                    _distance(plain.values[row], again.values[place])
                    for place, row in enumerate(here)
                    if plain.bits[row] != again.bits[place]
                ]
                if moved and np.median(moved) > _ROUNDING:
                    return Dependence.MIXING
                found = Dependence.ROUNDING if moved else found
    return found


def _arrangements(records: EncodedTable, others: EncodedTable) -> Iterator[tuple[EncodedTable, Sequence[int], range]]:
    """Yields blocks, which of the records stand in them, and where."""
    rows = len(records)
    half = rows // 2
    order = np.random.Generator(np.random.Philox(20240301)).permutation(rows).tolist()
    yield records.rows(order), order, range(rows)
    yield (
        EncodedTable.concatenate([others.rows(slice(half, None)), records.rows(slice(None, half))]),
        range(half),
        range(rows - half, rows),
    )
    yield (
        EncodedTable.concatenate([records.rows(slice(half, None)), others.rows(slice(None, half))]),
        range(half, rows),
        range(rows - half),
    )
    # Blocks of one repeated record: nothing of the others is left that could be mixed in.
    for row in range(0, rows, max(rows // 8, 1)):
        yield records.rows([row] * rows), range(row, row + 1), range(row, row + 1)


def _distance(left: npt.NDArray[np.float32], right: npt.NDArray[np.float32]) -> float:
    """Returns by which part of its largest entry a vector moved; infinite where a number became none."""
    if not np.array_equal(np.isfinite(left), np.isfinite(right)):
        return np.inf
    left, right = np.nan_to_num(left.astype(np.float64)), np.nan_to_num(right.astype(np.float64))
    return float(np.abs(left - right).max(initial=0) / max(np.abs(left).max(initial=0), 1e-30))


def _warn(name: str, rows: int, compute: Compute, records: EncodedTable) -> None:
    def seconds(way: Execution, block: EncodedTable) -> float:
        start = time.perf_counter()
        compute(way, block, range(0))
        return (time.perf_counter() - start) / way.rows

    times = seconds(Execution(rows=1), records.rows([0])) / seconds(Execution(rows=rows), records)
    warnings.warn(
        f"{name}: this machine's kernels round by place in every block of 2 to {rows} records, so records are computed "
        f"one at a time, about {max(times, 1):.0f} times slower. The guarantee is the same; another processor, or "
        "another build of torch, is faster.",
        SlowKernelsWarning,
        stacklevel=3,
    )
