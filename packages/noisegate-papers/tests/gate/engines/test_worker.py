"""A worker counts each part once, and a round counts each part once whichever workers are lost; Ray is played here."""

import json
import re
import stat
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.shared.played import Played, dying

from noisegate import DPMERF
from noisegate.errors import DataError, MissingExtraError, OptionError
from noisegate.gate.engines import ray as engines
from noisegate.gate.engines import ray_round as workers
from noisegate.gate.engines.ray import RayEngine
from noisegate.gate.engines.ray_round import (
    MAX_LOSSES,
    Pass,
    Pool,
    SumJob,
    Worker,
    fingerprint,
)
from noisegate.gate.execution import Encoded
from noisegate.gate.gate import Gate
from noisegate.gate.sums import LocalEngine, SumTask, sum_records
from noisegate.privacy.grid import Grid
from noisegate.progress import reading
from noisegate.sources import TableSource


@pytest.fixture
def layout(lookup_schema):
    return lookup_schema(4).layout


@pytest.fixture
def tasks(chosen):
    return {
        "q": SumTask(
            feature_map=chosen(np.eye(4, dtype=np.float32)),
            grid=Grid(norm=1.0),
            columns=2,
            label=1,
        )
    }


@pytest.fixture
def parts(encoded, layout):
    return [Encoded([encoded(layout, 20 + seed, seed)]) for seed in range(6)]


class Stopped:
    """A part that an error stops half-way."""

    def __init__(self, records, error):
        self.records, self.error = records, error

    def batch_readers(self):
        yield from self.records.batch_readers()
        raise self.error


def same(totals, parts, tasks):
    whole = LocalEngine(threads=1).sum(
        Encoded([read() for part in parts for read in part.batch_readers()]),
        tasks,
        None,
    )
    assert totals.records == whole.records
    assert totals.sums["q"].tolist() == whole.sums["q"].tolist()


def begun(tasks, layout):
    worker = Worker()
    worker.begin(SumJob(tasks), layout)
    return worker


def test_a_repeated_part_counts_once(tasks, layout, parts):
    worker = begun(tasks, layout)
    assert [worker.add(number, parts[number]) for number in (0, 1, 0, 2, 1)] == [
        20,
        21,
        20,
        22,
        21,
    ]
    held, totals = worker.totals()
    assert held == {0: 20, 1: 21, 2: 22}
    same(totals, parts[:3], tasks)


def test_a_round_begins_with_nothing(tasks, layout, parts):
    worker = begun(tasks, layout)
    worker.add(0, parts[0])
    worker.begin(SumJob(tasks), layout)
    assert worker.totals()[0] == {} and worker.totals()[1].records == 0
    worker.add(0, parts[1])
    same(worker.totals()[1], parts[1:2], tasks)


@pytest.mark.parametrize(
    "error", [DataError("x.csv, line 7"), ZeroDivisionError("SECRET")]
)
def test_a_part_that_fails_adds_nothing_and_its_error_is_a_value(
    error, tasks, layout, parts
):
    worker = begun(tasks, layout)
    worker.add(0, parts[0])
    found = worker.add(1, Stopped(parts[1], error))
    assert (str(found) == "x.csv, line 7") is isinstance(error, DataError)
    assert "SECRET" not in str(found) and (
        isinstance(error, DataError) or "ZeroDivisionError" in str(found)
    )
    same(worker.totals()[1], parts[:1], tasks)
    assert worker.add(1, parts[1]) == 21  # it is not taken for counted


def test_fingerprints_tell_processors_versions_settings_and_integers_apart(
    tasks, layout, chosen, monkeypatch
):
    here = fingerprint(SumJob(tasks), layout)
    assert fingerprint(SumJob(tasks), layout) == here
    other = chosen(
        np.nextafter(np.eye(4, dtype=np.float32), 0, dtype=np.float32)
        * np.float32(0.99)
    )
    assert (
        fingerprint(
            SumJob(
                {
                    "q": SumTask(
                        feature_map=other, grid=Grid(norm=1.0), columns=2, label=1
                    )
                }
            ),
            layout,
        )
        != here
    )
    with monkeypatch.context() as patched:
        patched.setenv("MKL_CBWR", "AVX2,STRICT")
        assert fingerprint(SumJob(tasks), layout) != here
    for name, found in (("_processor", ("another",)), ("_version", "0")):
        with monkeypatch.context() as patched:
            patched.setattr(workers, name, lambda *_, found=found: found)
            assert fingerprint(SumJob(tasks), layout) != here


def played(
    monkeypatch, parts, tasks, layout, dies=lambda *_: None, progress=None, hands=2
):
    ray = Played(dies)
    monkeypatch.setitem(sys.modules, "ray", ray)
    pool = Pool(worker_count=hands, wait_seconds=60)
    try:
        return Pass(pool, parts, SumJob(tasks), layout, progress).totals()
    finally:
        assert (
            len(pool.actors) == len(ray.alive) <= hands
        )  # each that was dismissed is gone
        pool.close()
        assert not ray.alive


@pytest.mark.parametrize("hands", [1, 2, 9])
def test_all_parts_are_summed(hands, monkeypatch, tasks, layout, parts):
    seen = []
    same(
        played(monkeypatch, parts, tasks, layout, progress=seen.append, hands=hands),
        parts,
        tasks,
    )
    assert seen == sorted(seen) and seen[-1] == sum(range(20, 26))


@pytest.mark.parametrize(
    "when", ["before", "after"]
)  # it was counted, or the answer alone was lost
@pytest.mark.parametrize("name", ["add", "totals", "begin"])
@pytest.mark.parametrize("which", [0, 1, 2, 5])
def test_a_lost_worker_changes_no_total(
    which, name, when, monkeypatch, tasks, layout, parts
):
    same(
        played(monkeypatch, parts, tasks, layout, dying(name, which, when)),
        parts,
        tasks,
    )


def test_the_log_of_a_round_is_the_same_however_many_parts_there_are(
    monkeypatch, tasks, layout, parts, caplog
):
    caplog.set_level("DEBUG", "noisegate")
    logged = []
    for some in (parts[:1], parts):
        caplog.clear()
        lost = iter(["before"])
        played(
            monkeypatch,
            some,
            tasks,
            layout,
            lambda called, *_, lost=lost: next(lost, None) if called == "add" else None,
        )
        logged.append(caplog.messages)
    assert logged[0] == logged[1] == [json.dumps({"event": "worker lost"})]


@pytest.mark.parametrize(
    "engine", [RayEngine(part_bytes=300), LocalEngine()], ids=["ray", "local"]
)
def test_the_log_of_a_fit_is_the_same_whatever_the_size_of_the_file(
    engine, joined, tmp_path, lookup_schema, caplog
):
    caplog.set_level("DEBUG", "noisegate")
    logged = []
    for records in (10, 400):
        caplog.clear()
        frame = pd.DataFrame(
            {"which": np.arange(records) % 4, "label": np.arange(records) % 3 == 0}
        )
        frame.to_csv(tmp_path / "x.csv", index=False)
        with reading() as progress:
            gate = Gate(
                tmp_path / "x.csv",
                schema=lookup_schema(4),
                epsilon=1.0,
                engine=engine,
                progress=progress,
            )
            DPMERF(frequencies=5).query(gate)
        logged.append([re.sub(r"[0-9.]+ s\b", "T s", line) for line in caplog.messages])
    assert logged[0] == logged[1] and "Reading records: done in T s" in logged[0]


def test_a_part_that_ends_every_worker_is_given_up(monkeypatch, tasks, layout, parts):
    tried = []

    def dies(called, number=None, *_):
        tried.append(number)
        return "before" if number == 3 else None

    with pytest.raises(DataError, match="over the same part"):
        played(monkeypatch, parts, tasks, layout, dies)
    assert tried.count(3) == MAX_LOSSES + 1
    with pytest.raises(DataError, match="before they began"):
        played(
            monkeypatch,
            parts,
            tasks,
            layout,
            lambda called, *_: "before" if called == "begin" else None,
        )


def test_the_error_of_the_first_part_is_told(monkeypatch, tasks, layout, parts):
    for number in (1, 2, 4):
        parts[number] = Stopped(parts[number], DataError(f"part {number}"))
    for hands in (1, 2, 6):
        with pytest.raises(DataError, match="part 1"):
            played(monkeypatch, parts, tasks, layout, hands=hands)


def test_nothing_but_counts_and_totals_comes_back(
    joined, tmp_path, lookup_schema, tasks
):
    frame = pd.DataFrame(
        {"which": np.arange(200) % 4, "label": np.arange(200) % 3 == 0}
    )
    frame.to_csv(tmp_path / "x.csv", index=False)
    source = TableSource(tmp_path / "x.csv", lookup_schema(4))
    totals = RayEngine(part_bytes=300).sum(source, tasks, None)
    assert (
        totals.sums["q"].tolist()
        == sum_records(next(source.batches()), tasks).sums["q"].tolist()
    )
    kinds = {
        tuple(map(type, one)) if isinstance(one, tuple) else type(one)
        for one in joined.answers
    }
    assert kinds == {str, int, (dict, type(totals))}


def test_what_cannot_be_read_in_parts_is_refused_before_anything_is_spent(
    joined, tmp_path, lookup_schema, monkeypatch
):
    schema, frame = (
        lookup_schema(4),
        pd.DataFrame({"which": [1, 2], "label": [True, False], "who": ["a", "b"]}),
    )
    frame.to_csv(tmp_path / "x.csv", index=False)
    (tmp_path / "empty.csv").write_text("which,label\n")

    def ask(data, **options):
        from noisegate import DPMERF

        gate = Gate(data, schema=schema, epsilon=1.0, engine=RayEngine(), **options)
        DPMERF(frequencies=5).query(gate)

    with pytest.raises(OptionError, match="table in memory"):
        ask(frame[["which", "label"]])
    frame[["which", "label"]].to_csv(tmp_path / "x.csv", index=False)
    with pytest.raises(DataError, match="there are no records"):
        ask(tmp_path / "empty.csv")
    with pytest.raises(OptionError, match="more than sums"):
        RayEngine().check(TableSource(tmp_path / "x.csv", schema), sums=False)
    monkeypatch.undo()
    monkeypatch.setattr("noisegate.errors.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"noisegate\[ray\]"):
        ask(tmp_path / "x.csv")


@pytest.mark.parametrize(
    "address", ["127.0.0.1:1", "nowhere", "ray://", "127.0.0.1:99999", ":6379"]
)
def test_an_address_that_does_not_answer_is_named(address, joined):
    joined.is_initialized = lambda: False
    with pytest.raises(
        OptionError, match=r"^address='.*no Ray cluster could be joined"
    ):
        RayEngine(address=address)._join_cluster()


@pytest.fixture
def starting(joined, monkeypatch, tmp_path):
    """An engine whose process is in no cluster, in a home of its own; and how often Ray was started."""
    started = []
    joined.is_initialized, joined.init = (
        (lambda: False),
        (lambda *_, **options: started.append(options)),
    )
    joined.cluster_resources = lambda: {"CPU": 2}
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(engines, "version", lambda _: "2.59.0")
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    return started


def test_a_cluster_of_this_machine_has_a_token_for_one_user_alone(starting, tmp_path):
    token = tmp_path / ".ray" / "auth_token"
    RayEngine()._join_cluster()
    first = token.read_text()
    assert len(first) == 64 and stat.S_IMODE(token.stat().st_mode) == 0o600
    token.chmod(0o644)
    RayEngine()._join_cluster()
    assert (
        token.read_text() == first
        and stat.S_IMODE(token.stat().st_mode) == 0o600
        and len(starting) == 2
    )


def test_a_token_of_the_environment_is_taken_as_it_is(starting, monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    RayEngine()._join_cluster()
    assert starting and not (tmp_path / ".ray").exists()


@pytest.mark.parametrize("old", ["2.40.0", "2.58.1", "1.13"])
def test_a_ray_that_would_start_without_a_token_is_refused(old, starting, monkeypatch):
    monkeypatch.setattr(engines, "version", lambda _: old)
    with pytest.raises(
        OptionError,
        match=re.escape(f"Ray {old} starts a cluster that asks for no token"),
    ):
        RayEngine()._join_cluster()
    monkeypatch.setattr(engines, "version", lambda _: "3.0.0.dev0")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(
        OptionError, match=r"RAY_AUTH_MODE=disabled .* remove the variable"
    ):
        RayEngine()._join_cluster()
    assert not starting
    monkeypatch.setenv("RAY_AUTH_MODE", "TOKEN")
    RayEngine()._join_cluster()
    assert starting
