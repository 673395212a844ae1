"""Engines sum every batch once, hold few in memory, and stop at the first error."""

import threading
from dataclasses import dataclass, field

import numpy as np
import pytest
from tests.shared.columns import continuous

from noisegate.errors import DataError, OptionError
from noisegate.gate.execution import (
    BLOCK_ROWS,
    Encoded,
    block_rows,
    compute_vectors,
    map_execution,
)
from noisegate.gate.sums import LocalEngine, SumTask, sum_records
from noisegate.privacy.grid import Grid
from noisegate.queries.feature_map import SharingMap
from noisegate.schema import EncodedTable, Layout


@pytest.fixture
def task(chosen):
    return {
        "q": SumTask(
            feature_map=chosen(np.eye(4, dtype=np.float32)),
            grid=Grid(norm=1.0),
            columns=2,
            label=1,
        )
    }


@pytest.fixture
def batches(encoded, lookup_schema):
    return [encoded(lookup_schema(4).layout, 100 + seed, seed) for seed in range(40)]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_batch_is_summed_once(threads, task, batches):
    totals = LocalEngine(threads=threads).sum(Encoded(iter(batches)), task, None)
    parts = [sum_records(batch, task) for batch in batches]
    assert totals.records == sum(part.records for part in parts)
    assert totals.sums["q"].tolist() == sum(part.sums["q"] for part in parts).tolist()


@pytest.mark.parametrize("threads", [1, 3])
def test_only_a_few_batches_are_in_memory(threads, task, batches):
    taken = 0
    seen = []

    def counting():
        nonlocal taken
        for batch in batches:
            taken += 1
            yield batch

    def merged(records):
        seen.append(
            taken
            - (np.cumsum([len(batch) for batch in batches]).tolist().index(records) + 1)
        )

    LocalEngine(threads=threads).sum(Encoded(counting()), task, merged)
    assert max(seen) <= 2 * threads + 1


def test_an_error_while_reading_is_the_one_that_is_told(task, batches):
    def broken():
        yield from batches[:20]
        raise DataError("row 7")

    before = threading.active_count()
    with pytest.raises(DataError, match="row 7"):
        LocalEngine(threads=3).sum(Encoded(broken()), task, None)
    assert threading.active_count() == before


@pytest.mark.parametrize("threads", [1, 3])
def test_one_thread_is_this_one_and_whoever_is_told_of_progress_may_stop_all(
    threads, task, batches
):
    before = threading.active_count()
    readers = set()

    class Reading(Encoded):
        def batch_readers(self):
            for read in super().batch_readers():
                yield lambda read=read: (readers.add(threading.get_ident()), read())[1]

    def stop(records):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LocalEngine(threads=threads).sum(Reading(iter(batches)), task, stop)
    assert (readers == {threading.get_ident()}) == (threads == 1)
    assert threading.active_count() == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_error_while_summing_is_told(error, task, batches, chosen):
    class Broken(chosen):
        def __call__(self, records):
            raise error

    broken = SumTask(
        feature_map=Broken(np.eye(4, dtype=np.float32)),
        grid=Grid(norm=1.0),
        columns=1,
        label=None,
    )
    with pytest.raises(error):
        LocalEngine(threads=2).sum(Encoded(iter(batches)), {"q": broken}, None)


# Maps that share a first half, and blocks of long vectors: the sums are those that each map has on its own.

LAYOUT = Layout(numeric=(continuous("x"),), coded=())


@dataclass
class First:
    """Counts how often it is called, and with how many rows."""

    rows: list = field(default_factory=list)

    def __call__(self, records):
        self.rows.append(len(records))
        return np.repeat(records.numeric, 3, axis=1).astype(np.float32)


@dataclass
class Power:
    first_half: First
    power: int
    norm: float = 2.0
    nonnegative: bool = True
    dim: int = 3
    in_place: bool = False

    def second_half(self, values):
        if self.in_place:
            values **= self.power
            return values
        return values**self.power

    def __call__(self, records):
        return self.second_half(self.first_half(records))


@dataclass
class Long:
    dim: int
    norm: float = 1.0
    nonnegative: bool = True
    rows: list = field(default_factory=list)

    def __call__(self, records):
        self.rows.append(len(records))
        vectors = np.zeros((len(records), self.dim), np.float32)
        vectors[:, 0] = records.numeric[:, 0]
        return vectors


def sharing_task(feature_map, label=None):
    return SumTask(
        feature_map=feature_map,
        grid=Grid(norm=2.0),
        columns=1 if label is None else 2,
        label=label,
    )


def table(rows, seed=0):
    random = np.random.default_rng(seed)
    return EncodedTable(
        numeric=random.uniform(size=(rows, 1)),
        codes=random.integers(0, 2, (rows, 1)).astype(np.int32),
    )


@pytest.mark.parametrize("label", [None, 0])
def test_a_first_half_is_computed_once_for_all_that_share_it(label):
    records = table(2 * BLOCK_ROWS + 7)
    first = First()
    other = First()
    maps = {"one": Power(first, 1), "two": Power(first, 2), "else": Power(other, 3)}
    together = sum_records(
        records,
        {name: sharing_task(feature_map, label) for name, feature_map in maps.items()},
    ).sums
    assert first.rows == other.rows == [BLOCK_ROWS] * 3
    for name, feature_map in maps.items():
        alone = sum_records(
            records, {name: sharing_task(Power(First(), feature_map.power), label)}
        ).sums[name]
        assert np.array_equal(together[name], alone), name


def test_a_second_half_that_works_in_place_fails_instead_of_changing_what_others_see():
    first = First()
    assert isinstance(Power(first, 1), SharingMap)
    tasks = {
        "one": sharing_task(Power(first, 2, in_place=True)),
        "two": sharing_task(Power(first, 1)),
    }
    with pytest.raises(ValueError, match="read-only"):
        sum_records(table(5), tasks)


def test_the_probe_looks_at_what_is_summed():
    """Calling this map is honest; its halves, which the gate uses, are not."""

    class TwoFaced(Power):
        def second_half(self, values):
            return values / values.mean()

        def __call__(self, records):
            return np.repeat(records.numeric, 3, axis=1).astype(np.float32)

    two_faced = TwoFaced(First(), 1)
    with pytest.raises(OptionError, match="another vector"):
        map_execution("f", two_faced, LAYOUT, BLOCK_ROWS)
    records = table(BLOCK_ROWS)
    assert not np.array_equal(
        compute_vectors(two_faced, records, {}), two_faced(records)
    )


@pytest.mark.parametrize("dim", [2**19, 2**23])
def test_every_block_of_a_map_has_the_rows_that_were_probed(dim):
    long = Long(dim)
    rows = block_rows(Long(dim))
    map_execution("f", long, LAYOUT, rows)
    records = table(2 * rows + 1)
    summed = sum_records(records, {"q": sharing_task(long)}).sums["q"][0]
    assert set(long.rows) == {rows}
    one_by_one = sum(
        int(sharing_task(long).grid.quantise(np.array([[x]], np.float32))[0, 0])
        for x in records.numeric[:, 0]
    )
    assert summed[0] == one_by_one
    assert np.abs(summed[1:]).max() == 0
