"""Real workers of Ray give the bits of one machine, also where one is killed."""

import os
import signal

import pandas as pd
import psutil
import pytest

from noisegate import DPMERF, Gate, Pairwise, PrivBayes
from noisegate.errors import DataError
from noisegate.gate.engines.ray import RayEngine
from noisegate.gate.sums import Engine, LocalEngine

ROWS = 3000
# Ray leaves processes and sockets to be collected.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray")
    engine = RayEngine(workers=2, part_bytes=20_000)
    engine._join()
    yield engine
    ray.shutdown()


class Both(Engine):
    """Asks both engines, and takes what both say."""

    def __init__(self, engine):
        self.engine, self.rounds = engine, 0

    def sum(self, source, tasks, progress):
        here, there = LocalEngine(threads=2).sum(source, tasks, None), self.engine.sum(source, tasks, progress)
        assert here.records == there.records == ROWS
        assert {name: values.tolist() for name, values in here.sums.items()} == {
            name: values.tolist() for name, values in there.sums.items()
        }
        self.rounds += 1
        return there


@pytest.fixture
def files(people, tmp_path):
    frame = people(ROWS)
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=500)
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "method", "rounds"),
    [("csv", DPMERF(frequencies=50), 1), ("csv", Pairwise(), 2), ("parquet", PrivBayes(), 3)],
    ids=["merf", "pairwise", "privbayes"],
)
def test_methods_get_the_same_bits(kind, method, rounds, cluster, files, mixed_schema):
    both = Both(cluster)
    method.query(Gate(files / f"x.{kind}", schema=mixed_schema, epsilon=1.0, engine=both))
    assert both.rounds == rounds


def test_a_killed_worker_is_replaced(cluster, files, mixed_schema):
    killed = []

    def kill(_):
        found = [
            one
            for one in psutil.process_iter(["cmdline"])
            if (one.info["cmdline"] or [""])[0].startswith("ray::Worker")
        ]
        if found and not killed:
            killed.append(found[0].pid)
            os.kill(found[0].pid, signal.SIGKILL)

    gate = Gate(files / "x.csv", schema=mixed_schema, epsilon=1.0, engine=Both(cluster), progress=kill)
    DPMERF(frequencies=50).query(gate)
    assert killed


def test_an_error_in_a_worker_is_the_one_that_one_machine_tells(cluster, files, mixed_schema):
    frame = pd.read_csv(files / "x.csv")
    frame["grade"] = frame["grade"].astype(object)
    frame.loc[2000, "grade"] = "SECRET"
    frame.to_csv(files / "x.csv", index=False)
    told = []
    for engine in (LocalEngine(), cluster):
        with pytest.raises(DataError, match="line 2002") as caught:
            DPMERF(frequencies=5).query(Gate(files / "x.csv", schema=mixed_schema, epsilon=1.0, engine=engine))
        told.append(str(caught.value))
    assert told[0] == told[1] and "SECRET" not in told[1]
