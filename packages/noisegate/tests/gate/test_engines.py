"""Engines sum every batch once, hold few in memory, and stop at the first error."""

import threading

import numpy as np
import pytest

from noisegate.errors import DataError
from noisegate.gate.execution import Encoded
from noisegate.gate.sums import LocalEngine, SumTask, sum_records
from noisegate.privacy.grid import Grid


@pytest.fixture
def task(chosen):
    return {"q": SumTask(feature_map=chosen(np.eye(4, dtype=np.float32)), grid=Grid(norm=1.0), columns=2, label=1)}


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
    taken, seen = 0, []

    def counting():
        nonlocal taken
        for batch in batches:
            taken += 1
            yield batch

    def merged(records):
        seen.append(taken - (np.cumsum([len(batch) for batch in batches]).tolist().index(records) + 1))

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
def test_one_thread_is_this_one_and_whoever_is_told_of_progress_may_stop_all(threads, task, batches):
    before, readers = threading.active_count(), set()

    class Reading(Encoded):
        def unread(self):
            for read in super().unread():
                yield lambda read=read: (readers.add(threading.get_ident()), read())[1]

    def stop(records):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LocalEngine(threads=threads).sum(Reading(iter(batches)), task, stop)
    assert (readers == {threading.get_ident()}) == (threads == 1) and threading.active_count() == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_an_error_while_summing_is_told(error, task, batches, chosen):
    class Broken(chosen):
        def __call__(self, records):
            raise error

    broken = SumTask(feature_map=Broken(np.eye(4, dtype=np.float32)), grid=Grid(norm=1.0), columns=1, label=None)
    with pytest.raises(error):
        LocalEngine(threads=2).sum(Encoded(iter(batches)), {"q": broken}, None)
