"""The exact sum of quantised vectors over records, block by block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisegate.features.feature_map import FeatureMap
from noisegate.privacy.grid import BLOCK_LIMIT, RECORD_LIMIT, Grid
from noisegate.schema import EncodedTable

# Features run in blocks of exactly this many rows (the last one padded): their bits may depend on the shape of a batch.
BLOCK_ROWS = 256
assert BLOCK_ROWS <= BLOCK_LIMIT


@dataclass(frozen=True, kw_only=True)
class SumTask:
    """One question, ready to be summed.

    Attributes:
        feature_map: Record to vector.
        grid: Where vectors are clipped and rounded.
        columns: Number of columns of the answer.
        label: Which coded column chooses a record's column; None when there is one column.
    """

    feature_map: FeatureMap
    grid: Grid
    columns: int
    label: int | None


class Totals:
    """Exact int64 sums, one matrix (columns, dim) a question, and the number of records seen. Merging is addition."""

    def __init__(self, tasks: Mapping[str, SumTask]) -> None:
        self.records = 0
        self.sums = {
            name: np.zeros((task.columns, task.feature_map.dim), dtype=np.int64) for name, task in tasks.items()
        }

    def merge(self, other: Totals) -> None:
        """Adds `other`; exact, so the order of merging does not matter."""
        self.records += other.records
        if self.records > RECORD_LIMIT:
            raise OverflowError(f"more than {RECORD_LIMIT} records: the sum could leave 64 bits.")
        for name, values in other.sums.items():
            self.sums[name] += values


def sum_records(records: EncodedTable, tasks: Mapping[str, SumTask]) -> Totals:
    """Returns the exact sums over `records`, any number of rows."""
    totals = Totals(tasks)
    totals.records = len(records)
    for task_name, task in tasks.items():
        order = None if task.label is None else np.argsort(records.codes[:, task.label], kind="stable")
        ordered = records if order is None else records.rows(order)
        for start in range(0, len(ordered), BLOCK_ROWS):
            block = ordered.rows(slice(start, start + BLOCK_ROWS))
            _add_block(totals.sums[task_name], block, task)
    return totals


def _add_block(sums: npt.NDArray[np.int64], block: EncodedTable, task: SumTask) -> None:
    rows = len(block)
    if rows < BLOCK_ROWS:
        block = block.rows(np.minimum(np.arange(BLOCK_ROWS), rows - 1))
    quantised = task.grid.quantise(task.feature_map(block))[:rows]
    if task.label is None:
        sums[0] += quantised.sum(axis=0, dtype=np.int32)
        return
    labels = block.codes[:rows, task.label]
    starts = np.flatnonzero(np.diff(labels, prepend=-1))
    for start, end in zip(starts, [*starts[1:], rows], strict=True):
        sums[labels[start]] += quantised[start:end].sum(axis=0, dtype=np.int32)
