"""Workers live as long as the run that they work for; Ray is played here."""

import pytest

from noisegate import Pairwise, PrivBayes
from noisegate.errors import DataError, OptionError
from noisegate.gate.engines.ray import RayEngine
from noisegate.gate.gate import Gate
from noisegate.gate.sums import LocalEngine, SumTask
from noisegate.privacy.grid import Grid
from noisegate.privacy.plan import Query, plan_sums
from noisegate.queries.feature_map import Counts
from noisegate.sources import TableSource


@pytest.fixture
def files(people, tmp_path):
    people(400).to_csv(tmp_path / "x.csv", index=False)
    return tmp_path / "x.csv"


def test_workers_live_through_all_rounds_of_a_run_and_no_longer(
    joined, files, mixed_schema
):
    engine = RayEngine(part_bytes=2000)
    for runs in (1, 2):
        PrivBayes().query(Gate(files, schema=mixed_schema, epsilon=1.0, engine=engine))
        assert joined.hired == 3 * runs and not joined.alive
    assert joined.called.count("begin") == 2 * 3 * 3  # three rounds of three workers


@pytest.mark.parametrize("stop", [KeyboardInterrupt, DataError("x.csv, line 7")])
@pytest.mark.parametrize("round_", [1, 2])
def test_a_run_that_is_stopped_leaves_no_worker_behind(
    round_, stop, joined, files, mixed_schema
):
    def tell(_):
        if joined.called.count("begin") > 3 * (round_ - 1):
            raise stop

    gate = Gate(
        files,
        schema=mixed_schema,
        epsilon=1.0,
        engine=RayEngine(part_bytes=2000),
        progress=tell,
    )
    with pytest.raises(stop if isinstance(stop, type) else type(stop)):
        PrivBayes().query(gate)
    assert joined.hired == 3 and not joined.alive


def test_a_session_that_is_left_alone_keeps_no_worker(joined, files, mixed_schema):
    gate = Gate(
        files, schema=mixed_schema, epsilon=1.0, engine=RayEngine(part_bytes=2000)
    )
    queries = [
        Query.of(name, Counts(), columns=3, share=0.5) for name in ("one", "other")
    ]
    with gate.open(
        plan_sums(gate.budget, tuple(queries)), method="counts", public={}
    ) as session:
        session.ask({"one": Counts()})
        assert len(joined.alive) == 3
    assert not joined.alive


def test_a_cluster_that_is_busy_is_waited_for_and_no_longer_than_stated(
    joined, files, mixed_schema
):
    told, joined.wait = [], lambda calls, num_returns, timeout: ([], calls)
    engine = RayEngine(wait_seconds=0.05)
    with pytest.raises(
        OptionError, match=r"no worker could begin within 0\.05 seconds: every core"
    ):
        Pairwise().query(
            Gate(
                files,
                schema=mixed_schema,
                epsilon=1.0,
                engine=engine,
                progress=told.append,
            )
        )
    assert told and not any(told) and not joined.alive  # who waits may stop it


def test_a_run_over_a_cluster_that_is_played_has_the_bits_of_one_machine(
    joined, files, mixed_schema
):
    source = TableSource(files, mixed_schema)
    task = SumTask(
        feature_map=Counts(),
        grid=Grid(norm=1.0),
        columns=3,
        label=source.schema.layout.label,
    )
    here = LocalEngine(threads=1).sum(source, {"counts": task}, None)
    with RayEngine(part_bytes=2000).opened() as run:
        for _ in range(2):
            there = run.sum(source, {"counts": task}, None)
            assert there.records == here.records == 400
            assert there.sums["counts"].tolist() == here.sums["counts"].tolist()
