"""Exact counts over records that have no schema yet: private, and only noise makes them public.

A value of a numeric column falls in one cell of a ladder, or in none. Levels of text are counted though nobody listed
them, in bounded memory: their number is private and may be as large as that of the records, so it can neither be
refused nor cut off, as that would depend on records. They are counted in portions instead, chosen by a hash. When a
portion outgrows the limit, half of it is put off to another pass over the data. Counts are exact whatever the number of
passes; only time tells, which is out of scope (docs/threat-model.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.data.tables.raw import RawTable
from noisegate.gate.sums import Progress
from noisegate.privacy.grid import RECORD_LIMIT
from noisegate.schema.columns import Continuous, Date, Integer
from noisegate.schema.partial import PartialSchema
from noisegate.schema.schema import unseen


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


FINE = 32
"""Cells of the second look."""

# Whole numbers beyond ±2⁵² are counted with those just inside: bounds of a schema are at most 2⁵³ apart.
_INTEGER_BITS = 52
# Decimal numbers below 2⁻¹²⁸ count as zero, beyond 2¹²⁸ with those just inside: the magnitudes that float32 can hold.
_SMALLEST, _LARGEST = -128, 128
_MICROSECONDS = 86_400_000_000
# Moments in a schema are at most 285 years apart.
_MOMENTS = (1850, 2130)
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, kw_only=True, eq=False)
class Ladder:
    """Cells [edges[i], edges[i + 1]) in ascending order.

    Attributes:
        edges: float64 or int64 (cells + 1,), strictly increasing, in the units of the column: numbers, days or
            microseconds since 1970.
        clamped: whether values beyond both ends count in the outermost cells; else they count nowhere.
        zero: the cell of zero, which no search for bounds crosses without evidence; None for times.
    """

    edges: npt.NDArray[Any]
    clamped: bool
    zero: int | None = None

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.edges) - 1

    def counts(self, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Returns how many of `values`, none of them NaN, fall in each cell, int64 (cells,)."""
        cells = np.searchsorted(self.edges, values, side="right") - 1
        inside = (cells >= 0) & (cells < self.size)
        cells = np.clip(cells, 0, self.size - 1) if self.clamped else cells[inside]
        return np.bincount(cells, minlength=self.size).astype(np.int64)

    def within(self, first: int, last: int) -> Ladder:
        """Returns at most `FINE` even cells from the cell `first` to the cell `last`, both included."""
        low, high = self.edges[first], self.edges[last + 1]
        if self.edges.dtype == np.int64:
            width = int(high) - int(low)
            edges = np.array(sorted({int(low) + width * i // FINE for i in range(FINE + 1)}), dtype=np.int64)
        else:
            edges = np.linspace(low, high, FINE + 1)
        return Ladder(edges=edges, clamped=False)


@cache
def ladder(kind: str) -> Ladder:
    """Returns the first look at a numeric column of this kind: powers of two on both sides of zero, or decades."""
    if kind == Continuous.kind:
        powers = np.exp2(np.arange(_SMALLEST, _LARGEST + 1))
        return Ladder(edges=np.concatenate([-powers[::-1], powers]), clamped=True, zero=len(powers) - 1)
    if kind == Integer.kind:
        powers = 2 ** np.arange(_INTEGER_BITS + 1, dtype=np.int64)
        return Ladder(edges=np.concatenate([1 - powers[::-1], powers]), clamped=True, zero=_INTEGER_BITS)
    if kind == Date.kind:
        years = [1, *range(10, 10_000, 10)]
        days = [date(year, 1, 1).toordinal() - _EPOCH for year in years] + [date.max.toordinal() + 1 - _EPOCH]
        return Ladder(edges=np.array(days, dtype=np.int64), clamped=True)
    first, last = _MOMENTS
    days = [date(year, 1, 1).toordinal() - _EPOCH for year in range(first, last + 1, 10)]
    return Ladder(edges=np.array(days, dtype=np.int64) * _MICROSECONDS, clamped=True)


LEVELS_HELD = 1_000_000
"""Distinct levels in memory at a time, of one column."""

LONGEST = 200
"""Characters; longer text is no level, so a record that has it counts for none. A rule on one record alone.

Nor is text that holds a character which a schema refuses, such as a line break."""


@dataclass(frozen=True)
class Portion:
    """The levels whose hash ends in the last `bits` bits of `ending`."""

    bits: int = 0
    ending: int = 0

    def has(self, level: str) -> bool:
        """Returns whether the level belongs to this portion. Hashes hold for one process."""
        return hash(level) & ((1 << self.bits) - 1) == self.ending

    def halves(self) -> tuple[Portion, Portion]:
        """Returns two portions that have no level in common and all of this one together."""
        return Portion(self.bits + 1, self.ending), Portion(self.bits + 1, self.ending | 1 << self.bits)


class LevelCounter:
    """Counts the levels of one column in one pass over the data.

    Args:
        portion: Which levels to count.
        limit: How many distinct levels to hold.
    """

    def __init__(self, portion: Portion, limit: int = LEVELS_HELD) -> None:
        self._portion, self._limit = portion, limit
        self._counts: Counter[str] = Counter()
        self.put_off: list[Portion] = []

    def add(self, texts: pa.Array) -> None:
        """Counts the levels in `texts`, an array of text without nulls: one for each record."""
        short = pc.less_equal(pc.utf8_length(texts), LONGEST)
        found = pc.value_counts(texts if pc.all(short).as_py() else pc.filter(texts, short))
        for level, count in zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True):
            if self._portion.has(level) and unseen(level) is None:
                self._counts[level] += count
        while len(self._counts) > self._limit:
            self._portion, other = self._portion.halves()
            self.put_off.append(other)
            self._counts = Counter({level: n for level, n in self._counts.items() if self._portion.has(level)})

    def counts(self) -> tuple[list[str], np.ndarray[tuple[int], np.dtype[np.int64]]]:
        """Returns the levels of the portion that was counted, in any order, and how many records have each."""
        return list(self._counts), np.fromiter(self._counts.values(), dtype=np.int64, count=len(self._counts))
