"""Exact counts over records that have no schema yet: private until they have noise.

Numbers, days and times are counted in bins with public edges: first in powers of two or
decades (`bin_edges`), then in even cells within those that hold records
`BinEdges.divide_evenly`. Texts are counted by level, the distinct text.

How many levels there are is private, and there may be as many as records. So they are
counted in partitions, chosen by a hash: when one outgrows the memory, half of it is
deferred to another pass over the data::

    all levels ──► hash ends in 0 ──► counted in this pass
               ╰─► hash ends in 1 ──► deferred

The number of passes shows in the time that a run takes alone, which is out of scope
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
from noisegate.privacy.grid import check_record_limit
from noisegate.schema.files import first_invisible
from noisegate.schema.numeric import Continuous, Date, Integer

FINE = 32
"""Cells of the second look at a numeric column, at most."""
LEVELS_HELD = 1_000_000
"""Levels in memory at a time, of all columns of text together."""
MAX_LEVEL_LENGTH = 200
"""Characters of a level. Longer text, or text with a character that a schema refuses,
is counted nowhere."""

# Integers beyond ±2⁵² are counted with those just inside, since bounds of a schema are
# at most 2⁵³ apart.
_INTEGER_BITS = 52
# Powers of two between which decimal numbers are counted, as those of float32; closer
# to zero they count as zero, beyond with those just inside.
_MIN_EXPONENT = -128
_MAX_EXPONENT = 128
# Powers of two between which values beside zero are looked for, where nothing but zero
# stood out in the first look.
_MIN_EXPONENT_BESIDE_ZERO = -24
_MAX_EXPONENT_BESIDE_ZERO = 36
# Each of these bins is so many powers of two wide.
_EXPONENTS_PER_BIN = 4
_MICROSECONDS_PER_DAY = 86_400_000_000
# Years whose times are counted: times in a schema are at most 285 years apart.
_FIRST_YEAR = 1850
_LAST_YEAR = 2130
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, kw_only=True, eq=False)
class BinEdges:
    """Bins of a numeric column, left-closed: [edges[i], edges[i + 1])."""

    edges: npt.NDArray[Any]
    """(bins + 1,), strictly increasing: float64 numbers, int64 integers, days or
    microseconds since 1970."""
    is_clamped: bool
    """Whether values beyond both ends count in the outermost bins; else they count
    nowhere."""
    zero_bin: int | None = None
    """Index of the bin of zero; None for times, and for the second look. No search for
    bounds crosses it without evidence."""

    @property
    def size(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    def count_values(self, values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Counts values by bin.

        Args:
            values: Numbers in the unit of the edges, none of them NaN.

        Returns:
            How many fall in each bin, (bins,).

        Examples:
            >>> import numpy as np
            >>> from noisegate.gate.discovery.exact_counts import BinEdges
            >>> edges = np.array([0, 2, 4])
            >>> values = np.array([-7, 2, 3, 9])
            >>> BinEdges(edges=edges, is_clamped=True).count_values(values)
            array([1, 3])
            >>> BinEdges(edges=edges, is_clamped=False).count_values(values)
            array([0, 2])
        """
        bins = np.searchsorted(self.edges, values, side="right") - 1
        if self.is_clamped:
            counted_bins = np.clip(bins, 0, self.size - 1)
        else:
            counted_bins = bins[(bins >= 0) & (bins < self.size)]
        return np.bincount(counted_bins, minlength=self.size).astype(np.int64)

    def divide_evenly(self, first: int, last: int, cells: int = FINE) -> BinEdges:
        """Divides some neighbouring bins into even cells.

        Args:
            first: Index of the first bin.
            last: Index of the last bin.
            cells: How many cells, at most `FINE`. Integers may have fewer, as cells
                have integer edges.

        Returns:
            The cells; values outside of them count nowhere.
        """
        low = self.edges[first]
        high = self.edges[last + 1]
        if self.edges.dtype != np.int64:
            return BinEdges(edges=np.linspace(low, high, cells + 1), is_clamped=False)
        # In Python's integers, which do not overflow.
        start = int(low)
        width = int(high) - start
        edges = sorted({start + width * index // cells for index in range(cells + 1)})
        return BinEdges(edges=np.array(edges, dtype=np.int64), is_clamped=False)

    def around_zero(self) -> BinEdges:
        """Returns at most `FINE` bins on both sides of zero.

        Each is four powers of two wide; the one in the middle has zero. Values beyond
        count in the outermost bins.
        """
        if self.edges.dtype == np.int64:
            exponents = np.arange(
                0, _INTEGER_BITS + 1, _EXPONENTS_PER_BIN, dtype=np.int64
            )
            return BinEdges(edges=_integer_edges(2**exponents), is_clamped=True)
        powers = np.exp2(
            np.arange(
                _MIN_EXPONENT_BESIDE_ZERO,
                _MAX_EXPONENT_BESIDE_ZERO + 1,
                _EXPONENTS_PER_BIN,
            )
        )
        return BinEdges(edges=np.concatenate([-powers[::-1], powers]), is_clamped=True)


def _integer_edges(powers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns edges that treat an integer and its negative alike.

    Args:
        powers: Positive edges, ascending, from 1 on.

    Returns:
        With each edge p also 1 − p: as bins are left-closed, [p, …) is then mirrored by
        […, 1 − p), whose largest integer is −p. Zero has the bin [0, 1).
    """
    return np.concatenate([1 - powers[::-1], powers])


@cache
def bin_edges(kind: str) -> BinEdges:
    """Returns the bins of the first look at a numeric column.

    Args:
        kind: Kind of the column, see `partial.KINDS`.

    Returns:
        Powers of two on both sides of zero; for days and times, decades.
    """
    if kind == Continuous.kind:
        powers = np.exp2(np.arange(_MIN_EXPONENT, _MAX_EXPONENT + 1))
        return BinEdges(
            edges=np.concatenate([-powers[::-1], powers]),
            is_clamped=True,
            zero_bin=len(powers) - 1,
        )
    if kind == Integer.kind:
        integer_powers = 2 ** np.arange(_INTEGER_BITS + 1, dtype=np.int64)
        return BinEdges(
            edges=_integer_edges(integer_powers),
            is_clamped=True,
            zero_bin=_INTEGER_BITS,
        )
    if kind == Date.kind:
        decades = [_first_day(year) for year in (1, *range(10, 10_000, 10))]
        end = date.max.toordinal() + 1 - _EPOCH
        return BinEdges(
            edges=np.array([*decades, end], dtype=np.int64), is_clamped=True
        )
    days = np.array(
        [_first_day(year) for year in range(_FIRST_YEAR, _LAST_YEAR + 1, 10)],
        dtype=np.int64,
    )
    return BinEdges(edges=days * _MICROSECONDS_PER_DAY, is_clamped=True)


def _first_day(year: int) -> int:
    """Returns the first day of a year, in days since 1970."""
    return date(year, 1, 1).toordinal() - _EPOCH


@dataclass(frozen=True)
class HashPartition:
    """The levels whose hash ends in the last `bits` bits of `ending`.

    All levels by default, as every hash ends in no bits.
    """

    bits: int = 0
    """How many bits of the hash decide."""
    ending: int = 0
    """These bits, as an integer."""

    def contains(self, level: str) -> bool:
        """Returns whether a level is in the partition.

        Python's hashes differ between processes, so all passes are of one process.
        """
        return hash(level) & ((1 << self.bits) - 1) == self.ending

    def halves(self) -> tuple[HashPartition, HashPartition]:
        """Splits the partition by one more bit.

        Returns:
            Two partitions without a level in common, which together are this one.
        """
        bits = self.bits + 1
        return (
            HashPartition(bits, self.ending),
            HashPartition(bits, self.ending | 1 << self.bits),
        )


class LevelCounter:
    """Counts the levels of one column in one pass over the data.

    Args:
        partition: The levels to be counted.
        limit: How many levels are held in memory; where there are more, partitions are
            deferred.

    Attributes:
        deferred: Partitions that are left to other passes.
    """

    def __init__(self, partition: HashPartition, limit: int = LEVELS_HELD) -> None:
        self._partition = partition
        self._limit = limit
        self._counts: Counter[str] = Counter()
        self.deferred: list[HashPartition] = []

    def count_texts(self, texts: pa.Array) -> None:
        """Counts the levels of some records, but for too long and invisible ones.

        Where there are more levels than are held, partitions are deferred at once.

        Args:
            texts: A text of each record, without nulls.
        """
        is_short = pc.less_equal(pc.utf8_length(texts), MAX_LEVEL_LENGTH)
        short_texts = texts if pc.all(is_short).as_py() else pc.filter(texts, is_short)
        value_counts = pc.value_counts(short_texts)
        levels = value_counts.field(0).to_pylist()
        counts = value_counts.field(1).to_pylist()
        for level, count in zip(levels, counts, strict=True):
            if self._partition.contains(level) and first_invisible(level) is None:
                self._counts[level] += count
        while len(self._counts) > self._limit:
            self._defer_half()

    def _defer_half(self) -> None:
        """Leaves half of the partition, with its counts so far, to another pass."""
        self._partition, other_half = self._partition.halves()
        self.deferred.append(other_half)
        self._counts = Counter(
            {
                level: count
                for level, count in self._counts.items()
                if self._partition.contains(level)
            }
        )

    def counted_levels(self) -> tuple[list[str], npt.NDArray[np.int64]]:
        """Returns the levels that were counted, in any order, with their counts.

        Returns:
            Levels of the partition less those deferred, and how many records have each,
            (levels,).
        """
        levels = list(self._counts)
        counts = np.fromiter(
            self._counts.values(), dtype=np.int64, count=len(self._counts)
        )
        return levels, counts


@dataclass(kw_only=True)
class ExactCounts:
    """Exact counts of one pass, by column; private.

    A record adds one to at most one bin, level or missing count of each column.
    """

    bins: dict[str, npt.NDArray[np.int64]]
    """Counts of the bins of each numeric column that was counted, (bins,)."""
    levels: dict[str, LevelCounter]
    """Levels of each column of text that was counted."""
    missing: dict[str, int]
    """Number of records without a value, of each column that was counted."""
    records: int = 0
    """Number of records."""


def read_counts(
    table: RawTable,
    partial_schema: PartialSchema,
    edges: Mapping[str, BinEdges],
    partitions: Mapping[str, HashPartition],
    progress: Progress | None = None,
) -> ExactCounts:
    """Counts bins and levels in one pass over the records.

    Args:
        table: The private records.
        partial_schema: What is public of the columns.
        edges: Bins of the numeric columns to be counted, by column.
        partitions: Levels of the columns of text to be counted, by column.
        progress: Called with the number of records read so far.

    Raises:
        DataError: if a cell is not of its column's kind, there are no records, or too
            many for 64 bits.
    """
    counted_gaps = tuple(
        gap
        for gap in partial_schema.gaps
        if gap.name in edges or gap.name in partitions
    )
    levels_per_column = max(LEVELS_HELD // max(len(partitions), 1), 1)
    counts = ExactCounts(
        bins={
            name: np.zeros(bins.size, dtype=np.int64) for name, bins in edges.items()
        },
        levels={
            name: LevelCounter(partition, levels_per_column)
            for name, partition in partitions.items()
        },
        missing={gap.name: 0 for gap in counted_gaps},
    )
    for batch in table.batches(counted_gaps, partial_schema.missing_values):
        for name, (values, missing_count) in batch.items():
            counts.missing[name] += missing_count
            if name in edges:
                counts.bins[name] += edges[name].count_values(values)
            else:
                counts.levels[name].count_texts(values)
        # Every column has the same number of records.
        first_values, first_missing_count = next(iter(batch.values()))
        counts.records += len(first_values) + first_missing_count
        if progress:
            progress(counts.records)
    check_record_limit(counts.records)
    return counts
