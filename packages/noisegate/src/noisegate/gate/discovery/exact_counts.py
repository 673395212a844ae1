"""Exact counts over records that have no schema yet: private until they have noise.

Numbers, days and times are counted in bins with public edges, in two looks: first in
bins between powers of two, or decades (`bin_edges`); then in cells of even width within
the bins that hold records (`BinEdges.divide_evenly`). Texts are counted by level. A
level is a distinct text.

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
from noisegate.schema.kinds import Continuous, Date, Integer

FINE = 32
"""Largest number of bins in the second look at a numeric column. That many counts of
each column are planned and get noise, whether they are used or not."""
LEVELS_HELD = 1_000_000
"""Largest number of levels in memory at a time, over all columns of text together."""
MAX_LEVEL_LENGTH = 200
"""Largest number of characters of a level. Longer text, or text with a character that a
schema refuses, is counted nowhere."""

# Integers beyond ±2⁵² are counted with those just inside, since bounds of a schema are
# at most 2⁵³ apart.
_INTEGER_BITS = 52
# Decimal numbers are counted by magnitude from 2⁻¹²⁸ to 2¹²⁸, about the range of
# float32. Smaller ones count as zero, larger ones with those just inside.
_MIN_EXPONENT = -128
_MAX_EXPONENT = 128
# Where the first look saw nothing but zeros, the second looks for decimal numbers of
# magnitudes from 2⁻²⁴ to 2³⁶, in bins between every fourth power of two: 15 bins for
# either sign and one for zero, within the `FINE` that are planned.
_MIN_EXPONENT_AROUND_ZERO = -24
_MAX_EXPONENT_AROUND_ZERO = 36
_EXPONENTS_PER_BIN = 4
_MICROSECONDS_PER_DAY = 86_400_000_000
# Years whose times are counted: times in a schema are at most 285 years apart.
_FIRST_YEAR = 1850
_LAST_YEAR = 2130
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, kw_only=True, eq=False)
class BinEdges:
    """Bins of a numeric column. Bin i is left-closed: [edges[i], edges[i + 1])."""

    edges: npt.NDArray[Any]
    """(bins + 1,), strictly increasing. Numbers are float64; integers, days since 1970
    and microseconds since 1970 are int64."""
    is_clamped: bool
    """Whether values below the first edge or above the last count in the outermost
    bins; else they count nowhere."""
    zero_bin: int | None = None
    """Index of the bin that holds zero; None for times, and in the second look. A
    search for bounds does not cross it without evidence."""

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
        """Divides a range of neighbouring bins into cells of even width.

        Args:
            first: Index of the first bin of the range.
            last: Index of the last bin of the range, included.
            cells: Number of cells, at most `FINE`. Integers may get fewer cells: edges
                are rounded down to integers, and each is taken once.

        Returns:
            The cells. Values outside of them count nowhere.

        Examples:
            >>> import numpy as np
            >>> from noisegate.gate.discovery.exact_counts import BinEdges
            >>> bins = BinEdges(edges=np.array([0, 1, 4, 16]), is_clamped=True)
            >>> bins.divide_evenly(1, 2, cells=5).edges
            array([ 1,  4,  7, 10, 13, 16])
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
        """Returns wide bins for a second look at a column that may hold only zeros.

        Their edges are every fourth power of two, with both signs, so that one bin in
        the middle holds zero, and other values are seen by their rough magnitude.
        Values beyond the outermost edges count in the outermost bins.

        Returns:
            For integers 27 bins with edges up to 2⁵², in int64; for decimal numbers 31
            bins with edges from 2⁻²⁴ to 2³⁶. Both are within the `FINE` that are
            planned.
        """
        if self.edges.dtype == np.int64:
            exponents = np.arange(
                0, _INTEGER_BITS + 1, _EXPONENTS_PER_BIN, dtype=np.int64
            )
            return BinEdges(edges=_integer_edges(2**exponents), is_clamped=True)
        powers = np.exp2(
            np.arange(
                _MIN_EXPONENT_AROUND_ZERO,
                _MAX_EXPONENT_AROUND_ZERO + 1,
                _EXPONENTS_PER_BIN,
            )
        )
        return BinEdges(edges=np.concatenate([-powers[::-1], powers]), is_clamped=True)


def _integer_edges(powers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns edges of integer bins that treat a number and its negative alike.

    Bins are left-closed. So the mirror image of the bin [p, q), whose integers are p to
    q − 1, has the integers 1 − q to −p, and is [1 − q, 1 − p).

    Args:
        powers: Positive edges, ascending; the first one is 1.

    Returns:
        The edges p, and before them 1 − p for each. The bin in the middle is [0, 1),
        which holds zero alone.

    Examples:
        >>> import numpy as np
        >>> from noisegate.gate.discovery.exact_counts import _integer_edges
        >>> _integer_edges(np.array([1, 2, 4]))
        array([-3, -1,  0,  1,  2,  4])
    """
    return np.concatenate([1 - powers[::-1], powers])


@cache
def bin_edges(kind: str) -> BinEdges:
    """Returns the bins of the first look at a numeric column.

    Args:
        kind: Kind of the column, see `partial.KINDS`.

    Returns:
        For numbers, bins between powers of two on both sides of zero: of integers up
        to 2⁵², of decimal numbers from 2⁻¹²⁸ to 2¹²⁸. For days and times, decades.
        Values beyond count in the outermost bins.
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
    """The levels of a column whose hash has certain last bits.

    A level is a distinct text. Where a column has more levels than fit into memory,
    each pass over the records counts those of one partition.

    Attributes:
        bits: How many of the last bits of the hash decide; 0 for all levels.
        ending: The value of these bits.
    """

    bits: int = 0
    ending: int = 0

    def contains(self, level: str) -> bool:
        """Returns whether a level is in the partition.

        Python's hash of a text differs between processes. So all passes over the
        records must be made by one process.

        Args:
            level: The text.
        """
        return hash(level) & ((1 << self.bits) - 1) == self.ending

    def halves(self) -> tuple[HashPartition, HashPartition]:
        """Splits the partition by one more bit of the hash.

        Returns:
            Two partitions without a level in common, which together have all levels of
            this one.
        """
        bits = self.bits + 1
        return (
            HashPartition(bits, self.ending),
            HashPartition(bits, self.ending | 1 << self.bits),
        )


class LevelCounter:
    """Counts the levels of one column of text in one pass over the records.

    A level is a distinct text. There may be as many as records, so only a limited
    number is held in memory: whenever there are more, half of the partition that is
    counted is deferred, which means that it is left to another pass.

    Args:
        partition: The levels to be counted in this pass.
        limit: How many levels are held in memory at most.

    Attributes:
        deferred: Partitions whose levels this pass has not counted.
    """

    def __init__(self, partition: HashPartition, limit: int = LEVELS_HELD) -> None:
        self._partition = partition
        self._limit = limit
        self._counts: Counter[str] = Counter()
        self.deferred: list[HashPartition] = []

    def count_texts(self, texts: pa.Array) -> None:
        """Adds the texts of some records to the counts of their levels.

        Texts that no schema could list are left out: those of more than
        `MAX_LEVEL_LENGTH` characters, or with an invisible character. If there are more
        levels than the limit then, halves of the partition are deferred.

        Args:
            texts: The text of each record that has one, without nulls.
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
        """Leaves half of the partition to another pass, and drops its counts so far."""
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
        """Returns the levels that this pass has counted, in any order; private.

        Returns:
            The levels of the partition, without those deferred; and the number of
            records with each, (levels,).
        """
        levels = list(self._counts)
        counts = np.fromiter(
            self._counts.values(), dtype=np.int64, count=len(self._counts)
        )
        return levels, counts


@dataclass(kw_only=True)
class ExactCounts:
    """Exact counts of one pass over the records, by column; private.

    In each column, a record adds 1 to at most one count: a bin, a level, or the number
    of records without a value. The sensitivity relies on this.
    """

    bins: dict[str, npt.NDArray[np.int64]]
    """Counts of each numeric column, (bins,)."""
    levels: dict[str, LevelCounter]
    """Counts of the levels of each column of text."""
    missing: dict[str, int]
    """Number of records without a value in each column."""
    records: int = 0
    """Number of records."""


def read_counts(
    table: RawTable,
    partial_schema: PartialSchema,
    edges: Mapping[str, BinEdges],
    partitions: Mapping[str, HashPartition],
    progress: Progress | None = None,
) -> ExactCounts:
    """Counts records by bin and level, in one pass over them.

    Args:
        table: The private records.
        partial_schema: Public facts about the columns: names and kinds.
        edges: Bins of each numeric column that is counted in this pass, by column.
        partitions: Levels to count of each column of text that is counted in this pass,
            by column.
        progress: Called with the number of records read so far.

    Returns:
        The exact counts of these columns; private.

    Raises:
        DataError: if a cell is not of its column's kind, there are no records, or too
            many for 64 bits.
    """
    counted_columns = tuple(
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
        missing={gap.name: 0 for gap in counted_columns},
    )
    for batch in table.batches(counted_columns, partial_schema.missing_values):
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
