"""Real workers of Ray give the bits of one machine, also where one is killed."""

import gc
import os
import signal
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
from tests.shared.patience import PATIENCE

from noisegate import DPMERF, Gate
from noisegate.errors import DataError, OptionError
from noisegate.gate.engines.ray import RayEngine
from noisegate.gate.sums import Engine, LocalEngine, Totals
from noisegate.privacy.gradient_plan import plan_steps, steps_of
from noisegate.privacy.plan import Query
from noisegate.queries.feature_map import Counts
from noisegate_papers.methods.dp_llm import DPLLM

ROWS = 3000
# Ray leaves processes and sockets to be collected.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster(request):
    if request.config.getoption("--kernels-by-place"):
        pytest.skip("workers compute with the kernels of the machine")
    engine = RayEngine(workers=2, part_bytes=20_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES", str(2**27))
        patch.setenv(
            "RAY_worker_niceness", "0"
        )  # of 15 that Ray gives: on a busy machine they would start for minutes
        try:
            engine._join_cluster()
        except (
            OptionError
        ) as error:  # after 15 seconds, Ray's own processes give each other up
            gc.collect()
            pytest.skip(f"too much runs on this machine: {error}")
    yield engine
    import ray

    ray.shutdown()
    gc.collect()  # what it leaves behind is met here, and in no later test


class Both(Engine):
    """Asks both engines, and takes what both say."""

    def __init__(self, engine):
        self.engine, self.workers = engine, []

    @contextmanager
    def opened(self):
        with self.engine.opened() as self.run:
            yield self

    def hold(self, source, task, progress):
        here, there = (
            Engine.hold(self, source, task, None),
            self.run.hold(source, task, progress),
        )
        assert here.record_count == there.record_count == ROWS

        def total(step, parameters):
            found = there.total(step, parameters)
            assert found.tolist() == here.total(step, parameters).tolist()
            self.workers.append({process.pid for process in workers()})
            return found

        return SimpleNamespace(record_count=ROWS, total=total)

    def sum(self, source, tasks, progress):
        here, there = (
            LocalEngine(threads=2).sum(source, tasks, None),
            self.run.sum(source, tasks, progress),
        )
        assert here.records == there.records == ROWS
        assert {name: values.tolist() for name, values in here.sums.items()} == {
            name: values.tolist() for name, values in there.sums.items()
        }
        self.workers.append({process.pid for process in workers()})
        return there


def workers():
    """The processes of this cluster's workers that live; one that was killed stays in the list until Ray looks."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if (
                process.name().startswith("ray::Worker")
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
    return found


@pytest.fixture
def files(people, tmp_path):
    frame = people(ROWS)
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=500)
    return tmp_path


@pytest.fixture
def told(monkeypatch):
    """What comes back from workers."""
    import ray

    get, told = ray.get, []

    def heard(call):
        told.append(get(call))
        return told[-1]

    monkeypatch.setattr(ray, "get", heard)
    return lambda: {
        tuple(map(type, one)) if isinstance(one, tuple) else type(one) for one in told
    }


@pytest.mark.slow
def test_real_workers_give_the_bits_of_one_machine(cluster, files, mixed_schema, told):
    """One run of sums and of steps, as each start of workers takes seconds."""
    both, method = Both(cluster), DPLLM(maps=2, steps=3, sampling_probability=1.0)
    gate = Gate(
        files / "x.csv", schema=mixed_schema, epsilon=1.0, engine=both, records=ROWS
    )
    question = Query.of("counts", Counts(), columns=3, share=0.5)
    steps = replace(
        method.gradient_plan(mixed_schema, gate.budget), queries=(question,)
    )
    plan = plan_steps(gate.budget, steps)
    at = {"weight": torch.ones(steps_of(plan).query.parameters["weight"])}
    with gate.gradients(
        plan, method.loss(mixed_schema), method="test", public={}
    ) as session:
        session.ask({"counts": Counts()})
        session.step(at)
        os.kill(workers()[0].pid, signal.SIGKILL)
        session.step(at)
        session.step(at)
    asked, first, second, third = both.workers
    # One worker may have answered the question alone, before the other began; steps wait for both.
    assert (
        asked
        and asked <= first
        and len(first & second) == 1
        and len(second) == 2
        and second == third
    )
    assert not psutil.wait_procs(workers(), timeout=PATIENCE)[1]  # none is left behind
    assert told() == {str, int, (dict, Totals), (dict, np.ndarray)}


@pytest.mark.slow
def test_a_worker_that_is_killed_while_it_reads_changes_no_bit(
    cluster, files, mixed_schema, told
):
    killed = []

    def kill(done):
        if done and not killed:
            killed.append(workers()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    gate = Gate(
        files / "x.csv",
        schema=mixed_schema,
        epsilon=1.0,
        engine=Both(cluster),
        progress=kill,
    )
    DPMERF(frequencies=50).query(gate)
    assert killed  # and replaced
    assert told() == {str, int, (dict, Totals)}


@pytest.mark.slow
def test_an_error_in_a_worker_is_the_one_that_one_machine_tells(
    cluster, files, mixed_schema
):
    frame = pd.read_csv(files / "x.csv")
    frame["grade"] = frame["grade"].astype(object)
    frame.loc[2000, "grade"] = "SECRET"
    frame.to_csv(files / "x.csv", index=False)
    told = []
    for engine in (LocalEngine(), cluster):
        with pytest.raises(DataError, match="line 2002") as caught:
            DPMERF(frequencies=5).query(
                Gate(files / "x.csv", schema=mixed_schema, epsilon=1.0, engine=engine)
            )
        told.append(str(caught.value))
    assert told[0] == told[1] and "SECRET" not in told[1]
