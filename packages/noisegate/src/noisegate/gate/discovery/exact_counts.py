"""Exact counts over records that have no schema yet: private, and only noise makes them public.

The number of levels of text is private and may be as large as that of the records. So
they are counted in partitions, chosen by a hash: when one outgrows the limit, half of
it is deferred to another pass over the data. Only time tells, which is out of scope
(docs/threat-model.md).
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

from noisegate.gate.discovery.partial import PartialSchema
from noisegate.gate.discovery.raw import RawTable
from noisegate.gate.sums import Progress
from noisegate.privacy.grid import check_room
from noisegate.schema.files import first_invisible
from noisegate.schema.numeric import Continuous, Date, Integer

FINE = 32  # bins of the second histogram

LEVELS_HELD = 1_000_000  # distinct levels in memory at a time, of one column

MAX_LEVEL_LENGTH = 200
"""Characters; longer text, or text with a character that a schema refuses, is no level: it counts for none."""

# Whole numbers beyond ±2⁵² are counted with those just inside: bounds of a schema are at most 2⁵³ apart.
_INTEGER_BITS = 52
# Decimal numbers below 2⁻¹²⁸ count as zero, beyond 2¹²⁸ with those just inside: the magnitudes that float32 can hold.
_SMALLEST, _LARGEST = -128, 128
# What lies beside zero where nothing but zero stands out is looked for between these powers of two.
_SMALL, _LARGE = -24, 36
_MICROSECONDS = 86_400_000_000
_MOMENTS = (1850, 2130)  # moments in a schema are at most 285 years apart
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, kw_only=True, eq=False)
class BinEdges:
    """Bins [edges[i], edges[i + 1]) of a numeric column, in ascending order."""

    edges: npt.NDArray[Any]
    """(bins + 1,), float64 or int64, strictly increasing: numbers, days or microseconds since 1970."""
    clamped: bool  # whether values beyond both ends count in the outermost bins; else they count nowhere
    zero: int | None = (
        None  # the bin of zero, which no search for bounds crosses without evidence; None for times
    )

    @property
    def size(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    def counts(self, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Returns how many of `values`, none of them NaN, fall in each bin, int64 (bins,)."""
        bins = np.searchsorted(self.edges, values, side="right") - 1
        bins = (
            np.clip(bins, 0, self.size - 1)
            if self.clamped
            else bins[(bins >= 0) & (bins < self.size)]
        )
        return np.bincount(bins, minlength=self.size).astype(np.int64)

    def within(self, first: int, last: int, cells: int = FINE) -> BinEdges:
        """Returns at most so many even bins, `FINE` or fewer, from the bin `first` to the bin `last`, both included."""
        low, high = self.edges[first], self.edges[last + 1]
        if self.edges.dtype != np.int64:
            return BinEdges(edges=np.linspace(low, high, cells + 1), clamped=False)
        steps = sorted(
            {int(low) + (int(high) - int(low)) * i // cells for i in range(cells + 1)}
        )
        return BinEdges(edges=np.array(steps, dtype=np.int64), clamped=False)

    def around_zero(self) -> BinEdges:
        """Returns at most `FINE` bins of four powers of two each on both sides of zero."""
        if self.edges.dtype == np.int64:
            whole = 2 ** np.arange(0, _INTEGER_BITS + 1, 4, dtype=np.int64)
            return BinEdges(
                edges=np.concatenate([1 - whole[::-1], whole]), clamped=True
            )
        powers = np.exp2(np.arange(_SMALL, _LARGE + 1, 4))
        return BinEdges(edges=np.concatenate([-powers[::-1], powers]), clamped=True)


@cache
def bin_edges(kind: str) -> BinEdges:
    """Returns the first bins of a numeric column of this kind: powers of two on both sides of zero, or decades."""
    if kind == Continuous.kind:
        powers = np.exp2(np.arange(_SMALLEST, _LARGEST + 1))
        return BinEdges(
            edges=np.concatenate([-powers[::-1], powers]),
            clamped=True,
            zero=len(powers) - 1,
        )
    if kind == Integer.kind:
        whole = 2 ** np.arange(_INTEGER_BITS + 1, dtype=np.int64)
        return BinEdges(
            edges=np.concatenate([1 - whole[::-1], whole]),
            clamped=True,
            zero=_INTEGER_BITS,
        )
    if kind == Date.kind:
        days = [_day(year) for year in (1, *range(10, 10_000, 10))] + [
            date.max.toordinal() + 1 - _EPOCH
        ]
        return BinEdges(edges=np.array(days, dtype=np.int64), clamped=True)
    first, last = _MOMENTS
    decades = np.array(
        [_day(year) for year in range(first, last + 1, 10)], dtype=np.int64
    )
    return BinEdges(edges=decades * _MICROSECONDS, clamped=True)


def _day(year: int) -> int:
    return date(year, 1, 1).toordinal() - _EPOCH


@dataclass(frozen=True)
class HashPartition:
    """The levels whose hash ends in the last `bits` bits of `ending`."""

    bits: int = 0
    ending: int = 0

    def has(self, level: str) -> bool:
        """Returns whether the level belongs to this partition. Hashes hold for one process."""
        return hash(level) & ((1 << self.bits) - 1) == self.ending

    def halves(self) -> tuple[HashPartition, HashPartition]:
        """Returns two partitions that have no level in common and all of this one together."""
        return HashPartition(self.bits + 1, self.ending), HashPartition(
            self.bits + 1, self.ending | 1 << self.bits
        )


class LevelCounter:
    """Counts the levels of one column that are in `partition`, in one pass over the data; holds `limit` of them."""

    def __init__(self, partition: HashPartition, limit: int = LEVELS_HELD) -> None:
        self._partition, self._limit = partition, limit
        self._counts: Counter[str] = Counter()
        self.deferred: list[HashPartition] = []

    def add(self, texts: pa.Array) -> None:
        """Counts the levels in `texts`, an array of text without nulls: one for each record."""
        short = pc.less_equal(pc.utf8_length(texts), MAX_LEVEL_LENGTH)
        found = pc.value_counts(
            texts if pc.all(short).as_py() else pc.filter(texts, short)
        )
        for level, count in zip(
            found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True
        ):
            if self._partition.has(level) and first_invisible(level) is None:
                self._counts[level] += count
        while len(self._counts) > self._limit:
            self._partition, other = self._partition.halves()
            self.deferred.append(other)
            self._counts = Counter(
                {
                    level: n
                    for level, n in self._counts.items()
                    if self._partition.has(level)
                }
            )

    def counts(self) -> tuple[list[str], npt.NDArray[np.int64]]:
        """Returns the levels of the partition that was counted, in any order, and how many records have each."""
        return list(self._counts), np.fromiter(
            self._counts.values(), dtype=np.int64, count=len(self._counts)
        )


@dataclass(kw_only=True)
class ExactCounts:
    """Counts by column. A record adds one to at most one bin, level or missing count of each column."""

    bins: dict[
        str, npt.NDArray[np.int64]
    ]  # for each numeric column that was asked for, (bins,)
    levels: dict[str, LevelCounter]  # for each column of text that was asked for
    missing: dict[str, int]  # for each of both, the number of records without a value
    records: int = 0


def read_counts(
    table: RawTable,
    partial: PartialSchema,
    edges: Mapping[str, BinEdges],
    partitions: Mapping[str, HashPartition],
    progress: Progress | None = None,
) -> ExactCounts:
    """Returns exact counts, of the bins in `edges` and the levels in `partitions` by column, in one pass."""
    wanted = tuple(
        gap for gap in partial.gaps if gap.name in edges or gap.name in partitions
    )
    limit = max(LEVELS_HELD // max(len(partitions), 1), 1)
    counted = ExactCounts(
        bins={
            name: np.zeros(each.size, dtype=np.int64) for name, each in edges.items()
        },
        levels={
            name: LevelCounter(partition, limit)
            for name, partition in partitions.items()
        },
        missing={gap.name: 0 for gap in wanted},
    )
    for batch in table.batches(wanted, partial.missing_values):
        for name, (values, missing) in batch.items():
            counted.missing[name] += missing
            if name in edges:
                counted.bins[name] += edges[name].counts(values)
            else:
                counted.levels[name].add(values)
        values, missing = next(iter(batch.values()))
        counted.records += len(values) + missing
        if progress:
            progress(counted.records)
    check_room(counted.records)
    return counted
