"""Exact counts of one pass over records that have no schema yet. They are private: only noise makes them public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from noisegate.data.tables.raw import RawTable
from noisegate.gate.engines.engine import Progress
from noisegate.gate.queries.ladders import Ladder
from noisegate.gate.queries.levels import LEVELS_HELD, LevelCounter, Portion
from noisegate.privacy.grid import RECORD_LIMIT
from noisegate.schema.partial import PartialSchema


@dataclass(kw_only=True)
class ExactCounts:
    """Counts by column. A record adds one to at most one cell, level or missing count of each column.

    Attributes:
        cells: For each numeric column that was looked at, int64 (cells,).
        levels: For each column of text that was looked at, the counter of its levels.
        missing: For each of both, the number of records without a value.
        records: The number of records.
    """

    cells: dict[str, npt.NDArray[np.int64]]
    levels: dict[str, LevelCounter]
    missing: dict[str, int]
    records: int = 0


def read_counts(
    table: RawTable,
    partial: PartialSchema,
    looks: Mapping[str, Ladder],
    portions: Mapping[str, Portion],
    progress: Progress | None = None,
) -> ExactCounts:
    """Returns exact counts, in one pass and in memory that does not grow with the records.

    Args:
        table: The private records.
        partial: What is public about them.
        looks: Numeric columns to look at, and along which cells.
        portions: Columns of text to look at, and which of their levels to count.
        progress: Called with the number of records read so far.

    Raises:
        DataError: if the data cannot be read, has no records, or a cell is not of its kind.
    """
    wanted = tuple(gap for gap in partial.gaps if gap.name in looks or gap.name in portions)
    limit = max(LEVELS_HELD // max(len(portions), 1), 1)
    counted = ExactCounts(
        cells={name: np.zeros(look.size, dtype=np.int64) for name, look in looks.items()},
        levels={name: LevelCounter(portion, limit) for name, portion in portions.items()},
        missing={gap.name: 0 for gap in wanted},
    )
    for batch in table.batches(wanted, partial.missing_values):
        for name, found in batch.items():
            counted.missing[name] += found.missing
            if name in looks:
                counted.cells[name] += looks[name].counts(found.values)
            else:
                counted.levels[name].add(found.values)
        column = next(iter(batch.values()))
        counted.records += len(column.values) + column.missing
        if progress:
            progress(counted.records)
    if counted.records > RECORD_LIMIT:
        raise OverflowError(f"more than {RECORD_LIMIT} records: the sum could leave 64 bits.")
    return counted
