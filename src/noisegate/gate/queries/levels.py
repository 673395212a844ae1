"""Counting levels that nobody listed, exactly and in bounded memory.

The number of distinct levels is private and may be as large as the number of records, so it can neither be refused nor
cut off: that would depend on records. Levels are counted in portions instead, chosen by a hash. When a portion
outgrows the limit, half of it is put off to another pass over the data. Counts are exact whatever the number of passes;
only time tells, which is out of scope (docs/threat-model.md).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisegate.schema.checks import unseen

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
