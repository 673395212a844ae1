"""Levels are counted exactly, however many there are, in memory that is bounded."""

from collections import Counter

import pyarrow as pa
import pytest

from noisegate.gate.discovery import exact_counts
from noisegate.gate.discovery.exact_counts import (
    MAX_LEVEL_LENGTH,
    HashPartition,
    LevelCounter,
)
from noisegate.gate.discovery.partial import Gap, PartialSchema
from noisegate.gate.discovery.raw import RawTable


def count(texts, limit, batch=97):
    """Counts in as many passes as it takes; returns all counts, the number of passes and the most that was held."""
    discovered = Counter()
    waiting = [HashPartition()]
    passes = 0
    most = 0
    while waiting:
        counter = LevelCounter(waiting.pop(), limit)
        for start in range(0, len(texts), batch):
            counter.count_texts(pa.array(texts[start : start + batch], pa.string()))
            most = max(most, len(counter.counted_levels()[0]))
        names, counts = counter.counted_levels()
        assert not set(names) & set(discovered)
        discovered.update(dict(zip(names, counts.tolist(), strict=True)))
        waiting += counter.deferred
        passes += 1
    return discovered, passes, most


@pytest.mark.parametrize("limit", [10, 64, 1000, 10**6])
def test_counts_are_exact_in_any_number_of_passes(limit):
    texts = (
        [f"id {i}" for i in range(1500)] + ["often"] * 500 + ["", "é", "c", "a,b"] * 3
    )
    counts, passes, most = count(texts, limit)
    assert counts == Counter(texts)
    assert most <= limit
    assert (passes == 1) == (limit > 1504)


@pytest.mark.parametrize("columns", [1, 3])
def test_the_columns_of_one_pass_share_the_memory(columns, monkeypatch):
    monkeypatch.setattr(exact_counts, "LEVELS_HELD", 30)
    table = pa.table(
        {name: [f"{name} {i}" for i in range(200)] for name in "abc"[:columns]}
    )
    partial = PartialSchema(
        columns={
            name: Gap(name=name, kind="categorical") for name in table.column_names
        }
    )
    counts = exact_counts.read_counts(
        RawTable(table), partial, {}, dict.fromkeys(table.column_names, HashPartition())
    )
    held = [len(counter.counted_levels()[0]) for counter in counts.levels.values()]
    assert 0 < sum(held) <= 30
    assert all(counter.deferred for counter in counts.levels.values())


def test_long_text_is_no_level():
    texts = [
        "x" * MAX_LEVEL_LENGTH,
        "x" * (MAX_LEVEL_LENGTH + 1),
        "short",
        "é" * MAX_LEVEL_LENGTH,
    ]
    assert set(count(texts, 10)[0]) == {
        "x" * MAX_LEVEL_LENGTH,
        "short",
        "é" * MAX_LEVEL_LENGTH,
    }
