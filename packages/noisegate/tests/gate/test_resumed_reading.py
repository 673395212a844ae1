"""A run that is killed while records are read goes on under its reservation, and no noise is drawn twice (G-10).

A kill is played: what lies on the disk at that moment is set aside, an error ends the run, and then that is put back.
"""

import errno
import json
import os
import shutil
import sqlite3
import stat
import sys
from contextlib import contextmanager, suppress

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from tests.golden.names import program
from tests.shared import linked_tables
from tests.shared.columns import categorical, integer

import noisegate
from noisegate.app.runs.folder import Run, RunFolder
from noisegate.errors import ModelError, OptionError
from noisegate.gate import journal as journals
from noisegate.gate.journal import AnswerJournal
from noisegate.gate.sums import LocalEngine
from noisegate.ledger.ledger import Ledger
from noisegate.ledger.tables import TableTransaction
from noisegate.models import folder as models
from noisegate.privacy import noise
from noisegate.privacy.release import Release
from noisegate.schema import Schema

SCHEMA = Schema(
    (
        integer("age", 0, 90),
        categorical("job", "ab"),
    ),
    label="job",
)
TWO_ROUNDS = {
    "method": "pairwise",
    "cells": 8,
    "fit_options": {"steps": 2, "components": 3},
}
TRAINING = {
    "method": "dp-llm",
    "records": 300,
    "steps": 2,
    "maps": 2,
    "sampling_probability": 0.25,
    "device": "cpu",
}
SHARDS = {
    "method": "pate-gan",
    "records": 300,
    "steps": 3,
    "teachers": 5,
    "device": "cpu",
}
KINDS = ["reserve", "confirm", "commit"]


class KilledError(BaseException):
    """Plays SIGKILL."""


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder with a file of records and a ledger; what a process would find after a kill is all in it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "desk" / "state"))
    folder = tmp_path / "desk"
    folder.mkdir()
    write_records(folder / "private.csv")
    Ledger(folder / "ledger.db").register("clinic", epsilon=1.5, delta=1e-5)
    return folder


@pytest.fixture
def draws(monkeypatch):
    """One entry for each time that noise is drawn: how many numbers."""
    drawn = []
    original = noise.add_noise

    def counted(sums, **options):
        drawn.append(sums.size)
        return original(sums, **options)

    monkeypatch.setattr(noise, "add_noise", counted)
    return drawn


def write_records(path, rows=300):
    records = pa.table(
        {
            "age": [i % 90 for i in range(rows)],
            "job": ["ab"[i % 2] for i in range(rows)],
        }
    )
    pyarrow.csv.write_csv(records, path)


def fit_method(desk, *, booked=False, **settings):
    book = {"dataset": "clinic", "ledger": desk / "ledger.db"} if booked else {}
    data = desk / "private.csv"
    out = desk / "model"
    return noisegate.fit(data, schema=SCHEMA, epsilon=1.0, out=out, **book, **settings)


def fitted(desk, *, booked=True):
    return fit_method(desk, booked=booked, **TWO_ROUNDS)


def resumed(desk, data=None, **options):
    return noisegate.fit(data, out=desk / "model", resume=True, **options)


@contextmanager
def kill(monkeypatch, desk, function, when, call=1):
    """Makes a run end at the `call`-th call of a function, before or after it, as SIGKILL would end it."""
    owner, name = function
    original = getattr(owner, name)
    aside = desk.with_name("aside")
    calls = []

    def hit(*args, **kwargs):
        calls.append(name)
        if len(calls) == call and when == "before":
            shutil.copytree(desk, aside)
            raise KilledError
        result = original(*args, **kwargs)
        if len(calls) == call:
            shutil.copytree(desk, aside)
            raise KilledError
        return result

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, hit)
        with pytest.raises(KilledError):
            yield
    shutil.rmtree(desk)
    aside.rename(desk)


def killed(monkeypatch, desk, function, when, call=1, **options):
    with kill(monkeypatch, desk, function, when, call):
        fitted(desk, **options)


def history(desk):
    return [entry.kind.value for entry in Ledger(desk / "ledger.db").history("clinic")][
        1:
    ]


def spent(desk):
    return Ledger(desk / "ledger.db").show("clinic")[0].spent


GOES_ON = [
    pytest.param((Ledger, "reserve"), "before", 1, id="before the reservation"),
    pytest.param((Ledger, "reserve"), "after", 1, id="reserved"),
    pytest.param((LocalEngine, "sum"), "before", 1, id="reading"),
    pytest.param((LocalEngine, "sum"), "after", 1, id="read"),
    pytest.param((AnswerJournal, "begin_query"), "after", 1, id="begun"),
    pytest.param((Ledger, "confirm"), "before", 1, id="before the confirmation"),
    pytest.param((AnswerJournal, "write_answer"), "after", 1, id="first answer"),
    pytest.param((LocalEngine, "sum"), "before", 2, id="reading again"),
    pytest.param((LocalEngine, "sum"), "after", 2, id="read again"),
    pytest.param((AnswerJournal, "write_answer"), "after", 2, id="last answer"),
    pytest.param((Ledger, "commit"), "before", 1, id="before the commit"),
    pytest.param((Ledger, "commit"), "after", 1, id="committed"),
    pytest.param((Release, "save"), "before", 1, id="before the release is written"),
    pytest.param((Release, "save"), "after", 1, id="release written"),
]
LOST = [
    pytest.param((Ledger, "confirm"), "after", 1, id="confirmed"),
    pytest.param((noise, "add_noise"), "before", 1, id="before the first noise"),
    pytest.param((noise, "add_noise"), "after", 1, id="first noise"),
    pytest.param(
        (AnswerJournal, "write_answer"),
        "before",
        1,
        id="before the first answer is written",
    ),
    pytest.param((noise, "add_noise"), "before", 2, id="before another noise"),
    pytest.param((noise, "add_noise"), "after", 2, id="another noise"),
    pytest.param(
        (AnswerJournal, "write_answer"),
        "before",
        2,
        id="before another answer is written",
    ),
]


@pytest.mark.parametrize(("function", "when", "call"), GOES_ON)
def test_a_run_that_is_killed_goes_on_at_no_further_cost(
    function, when, call, desk, draws, monkeypatch
):
    killed(monkeypatch, desk, function, when, call)
    journal = AnswerJournal(desk / "model.partial" / "answers.journal")
    journal.load()
    model = resumed(desk)
    queries = [event.name for event in model.certificate.events]
    assert len(draws) == len(queries)
    assert history(desk) == KINDS
    assert spent(desk) <= 1.0
    for name, values in journal.answers.items():  # what was drawn is what is released
        assert np.array_equal(model.release.values[name], values)
    assert noisegate.Synthesizer.load(desk / "model").certificate.check() <= 1.0
    assert not (desk / "model.partial").exists()


@pytest.mark.parametrize(("function", "when", "call"), LOST)
def test_a_run_whose_noise_may_have_been_drawn_and_lost_draws_no_more(
    function, when, call, desk, draws, monkeypatch
):
    killed(monkeypatch, desk, function, when, call)
    before = len(draws)
    assert history(desk) == ["reserve", "confirm"]
    assert spent(desk) > 0.9
    for _ in range(2):
        with pytest.raises(
            OptionError,
            match=r"noise may have been drawn for .* answer is lost.* Remove .*partial",
        ):
            resumed(desk)
    assert len(draws) == before
    assert history(desk) == ["reserve", "confirm"]
    assert not (desk / "model").exists()


@pytest.mark.parametrize(
    ("function", "when", "call"), [GOES_ON[3], GOES_ON[7], GOES_ON[9]]
)
def test_a_run_without_a_ledger_goes_on_by_its_journal(
    function, when, call, desk, draws, monkeypatch
):
    killed(monkeypatch, desk, function, when, call, booked=False)
    model = resumed(desk)
    assert len(draws) == len(model.certificate.events)


@pytest.mark.parametrize(
    ("function", "when", "call"), [GOES_ON[4], LOST[1], LOST[2], LOST[5]]
)
def test_without_a_ledger_a_query_that_was_begun_is_not_drawn_again(
    function, when, call, desk, draws, monkeypatch
):
    killed(monkeypatch, desk, function, when, call, booked=False)
    before = len(draws)
    with pytest.raises(OptionError, match="answer is lost"):
        resumed(desk)
    assert len(draws) == before


def test_it_may_be_killed_again_and_again(desk, draws, monkeypatch):
    killed(monkeypatch, desk, (LocalEngine, "sum"), "after")
    for function, call in (
        ((LocalEngine, "sum"), 1),
        ((LocalEngine, "sum"), 2),
        ((Ledger, "commit"), 1),
    ):
        with kill(monkeypatch, desk, function, "after", call):
            resumed(desk)
    assert len(draws) == len(resumed(desk).certificate.events)
    assert history(desk) == KINDS


def test_of_two_copies_of_a_folder_one_draws_noise(desk, draws, monkeypatch):
    killed(monkeypatch, desk, (LocalEngine, "sum"), "before")
    shutil.copytree(desk / "model.partial", desk / "copy.partial")
    model = resumed(desk)
    queries = len(draws)
    with pytest.raises(OptionError, match=r"noise may have been drawn|does not fit"):
        noisegate.fit(out=desk / "copy", resume=True)
    assert len(draws) == queries == len(model.certificate.events)
    assert not (desk / "copy").exists()


@pytest.mark.parametrize("rounds", [1, 2], ids=["first round", "all"])
def test_a_process_that_still_reads_draws_nothing_when_another_has_gone_on(
    rounds, desk, draws, monkeypatch
):
    """Where a file system has no locks: both read at once, and the other one draws the noise of some rounds."""
    monkeypatch.setattr("noisegate.app.runs.folder.hold_folder", lambda _: None)
    original = LocalEngine.sum
    calls = []

    def sum_meanwhile(self, *arguments):
        calls.append(1)
        if len(calls) == 2 + rounds:
            raise KilledError
        totals = original(self, *arguments)
        if len(calls) == 1:
            with suppress(KilledError):
                resumed(desk)
        return totals

    monkeypatch.setattr(LocalEngine, "sum", sum_meanwhile)
    with pytest.raises((OptionError, ModelError)):
        fitted(desk)
    assert len(draws) == 2 * rounds
    assert history(desk) == KINDS[: 1 + rounds]


def test_a_run_that_is_voided_meanwhile_draws_nothing(desk, draws, monkeypatch):
    killed(monkeypatch, desk, (LocalEngine, "sum"), "before")
    ledger = Ledger(desk / "ledger.db")
    ledger.void(ledger.history("clinic")[-1].reservation, reason="looks stale")
    with pytest.raises(
        OptionError, match="was given back: nothing was drawn, and nothing is spent"
    ):
        resumed(desk)
    assert not draws
    assert spent(desk) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="no locks of folders")
def test_a_run_that_is_at_work_is_let_alone(desk, draws, monkeypatch):
    seen = []
    original = LocalEngine.sum

    def sum_meanwhile(self, *arguments):
        with pytest.raises(ModelError, match="another fit is at work"):
            resumed(desk)
        seen.append(True)
        return original(self, *arguments)

    monkeypatch.setattr(LocalEngine, "sum", sum_meanwhile)
    model = fitted(desk)
    assert seen
    assert len(draws) == len(model.certificate.events)
    assert history(desk) == KINDS


# What must be the same.


def test_it_goes_on_as_it_began_or_not_at_all(desk, draws, monkeypatch):
    killed(monkeypatch, desk, (LocalEngine, "sum"), "before")
    write_records(desk / "other.csv", 20)
    for data, options, words in (
        (
            desk / "other.csv",
            {},
            r"data is not what the run began with, .*private\.csv",
        ),
        (None, {"epsilon": 0.5}, "epsilon=0.5: the run began with 1.0"),
        (None, {"cells": 4}, "cells=4: the run began with 8"),
        (None, {"seed": 3}, "seed=3: the run began with 0"),
        (
            None,
            {"schema": Schema(SCHEMA.columns[:1])},
            "differs from the schema that the run began with",
        ),
    ):
        with pytest.raises(OptionError, match=words):
            resumed(desk, data, **options)
    assert not draws
    assert history(desk) == ["reserve"]
    monkeypatch.chdir(desk)
    resumed(desk, "private.csv")
    assert history(desk) == KINDS


def test_records_in_memory_are_given_again(desk, draws, monkeypatch):
    table = pa.table({"age": [1, 2, 3] * 50, "job": ["a", "b", "a"] * 50})
    with kill(monkeypatch, desk, (LocalEngine, "sum"), "before"):
        noisegate.fit(
            table, schema=SCHEMA, epsilon=1.0, out=desk / "model", **TWO_ROUNDS
        )
    with pytest.raises(
        OptionError, match=r"data is missing: .* continues it at no further cost"
    ):
        resumed(desk)
    assert resumed(desk, table).sample(3).num_rows == 3


def test_an_answer_to_another_map_is_not_taken(desk, draws, monkeypatch):
    killed(monkeypatch, desk, (LocalEngine, "sum"), "before", 2)
    monkeypatch.setattr("noisegate.gate.session.map_digest", lambda *_: "0" * 64)
    with pytest.raises(OptionError, match="was run with another map"):
        resumed(desk)
    assert len(draws) == 2


def test_a_new_fit_says_how_to_go_on(desk, monkeypatch):
    killed(monkeypatch, desk, (LocalEngine, "sum"), "before")
    with pytest.raises(
        ModelError,
        match=r"unfinished fit whose budget is spent; continue with `noisegate\.fit\(out=",
    ):
        fitted(desk)


def test_an_error_in_a_later_round_keeps_what_was_answered(desk, draws, monkeypatch):
    original = LocalEngine.sum
    calls = []

    def stopped(self, *arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(LocalEngine, "sum", stopped)
        with pytest.raises(KeyboardInterrupt) as stop:
            fitted(desk)
    assert "the remaining queries cost nothing more" in stop.value.__notes__[-1]
    model = resumed(desk)
    assert len(draws) == len(model.certificate.events)
    assert history(desk) == KINDS


def test_an_error_before_noise_in_a_run_that_goes_on_gives_the_cost_back(
    desk, draws, monkeypatch
):
    killed(monkeypatch, desk, (LocalEngine, "sum"), "before")
    (desk / "private.csv").write_text("age,job\nx,a\n")
    with pytest.raises(noisegate.UserError):
        resumed(desk)
    assert history(desk) == ["reserve", "void"]
    assert spent(desk) == 0
    assert not (desk / "model.partial").exists()


# What lies on the disk.


def test_what_is_written_down_is_the_same_for_neighbours(desk, monkeypatch):
    left = []
    for rows in (300, 5000):
        write_records(desk / "private.csv", rows)
        killed(monkeypatch, desk, (LocalEngine, "sum"), "after", booked=False)
        folder = desk / "model.partial"
        for path in (folder, folder / "answers.journal"):
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        journal = [
            json.loads(line)
            for line in files.pop("answers.journal").splitlines()
            if line
        ]
        left.append(
            (
                files,
                [
                    {key: entry[key] for key in entry if key not in ("owner", "by")}
                    for entry in journal
                ],
            )
        )
        shutil.rmtree(folder)
    assert left[0] == left[1]


def test_a_line_that_was_cut_off_counts_for_nothing(tmp_path):
    path = tmp_path / "journal"
    first = AnswerJournal(path)
    first.create("run", None)
    first.begin_query("a", "map")
    first.write_answer("a", np.array([[1.5, -2.0]]))
    first.begin_query("b")
    whole = path.read_bytes()
    last = whole.rindex(b'{"begun"')
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        again = AnswerJournal(path)
        assert again.become_owner("run") is None
        assert again.lost_queries == (["b"] if end >= len(whole) - 1 else [])
        assert again.answers["a"].tolist() == [[1.5, -2.0]]
        again.begin_query("c")
        last_one = AnswerJournal(path)
        last_one.load()
        assert "c" in last_one.lost_queries
    path.write_bytes(whole)
    with pytest.raises(OptionError, match="another run"):
        AnswerJournal(path).become_owner("other")


def test_the_owner_before_begins_nothing_more(tmp_path):
    first = AnswerJournal(tmp_path / "journal")
    second = AnswerJournal(tmp_path / "journal")
    first.create("run", "r")
    assert second.become_owner("run") == "r"
    with pytest.raises(OptionError, match="another process continues this run"):
        first.begin_query("a")
    second.begin_query("a")
    third = AnswerJournal(tmp_path / "journal")
    third.become_owner("run")
    assert third.lost_queries == ["a"]
    assert not first.is_own


def test_a_state_folder_that_lay_there_open_to_others_is_closed(desk, monkeypatch):
    runs = desk / "state" / "noisegate" / "runs"
    runs.mkdir(parents=True)
    runs.chmod(0o777)
    assert RunFolder(None).path.parent == runs
    assert stat.S_IMODE(runs.stat().st_mode) == 0o700
    monkeypatch.setattr(os, "geteuid", lambda: 12345, raising=False)
    assert RunFolder(None).path.parent != runs


# Other kinds of query.


@pytest.mark.parametrize("call", [1, 4])
def test_linked_tables_go_on_too(call, desk, draws, monkeypatch):
    for name, table in linked_tables.tables().items():
        kept_rows = {
            "visits": [0, 1, 2, 4],
            "finds": [0, 1, 2, 3],
        }  # those that have parents
        table = table.take(kept_rows.get(name, list(range(len(table)))))
        pyarrow.csv.write_csv(table, desk / f"{name}.csv")
    paths = {name: desk / f"{name}.csv" for name in linked_tables.SCHEMA.names}
    options = {
        "schema": linked_tables.SCHEMA,
        "epsilon": 5.0,
        "out": desk / "model",
        "method": "linked",
    }
    with kill(monkeypatch, desk, (LocalEngine, "sum"), "before", call):
        noisegate.fit(paths, **options)
    model = resumed(desk)
    assert len(draws) == len(model.certificate.events)


def test_a_training_that_is_killed_while_it_reads_goes_on(desk, draws, monkeypatch):
    pytest.importorskip("torch")
    from noisegate.gate.sessions.gradients import GradientVectors

    with kill(monkeypatch, desk, (GradientVectors, "read"), "after"):
        fit_method(desk, booked=True, **TRAINING)
    assert history(desk) == ["reserve"]
    model = resumed(desk)
    assert len(draws) == 2
    assert history(desk) == KINDS
    assert model.certificate.epsilon == 1.0


def test_steps_on_shards_that_were_begun_do_not_go_on(desk, draws, monkeypatch):
    pytest.importorskip("torch")
    with kill(monkeypatch, desk, (noise, "add_noise"), "after", 2):
        fit_method(desk, **SHARDS)
    before = len(draws)
    with pytest.raises(OptionError, match="answer is lost"):
        resumed(desk)
    assert len(draws) == before


def test_a_training_that_has_released_does_not_begin_anew(desk, draws, monkeypatch):
    """Its journal of steps is gone, and its release is not kept yet."""
    pytest.importorskip("torch")
    with kill(monkeypatch, desk, (RunFolder, "keep"), "before"):
        fit_method(desk, **TRAINING)
    with pytest.raises(OptionError, match="answer is lost"):
        resumed(desk)
    assert len(draws) == 2


# A disk that is full.


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def full_database(*_, **__):
    raise sqlite3.OperationalError("database or disk is full")


APPEND = AnswerJournal._append


def no_room_for_answers(journal, line):
    if "answered" in line:
        full()
    APPEND(journal, line)


def fit_with(desk, monkeypatch, function, replacement):
    """Fits at the command line while a function is replaced; returns the code and what was said."""
    SCHEMA.to_toml(desk / "schema.toml")
    line = (
        f"fit {desk}/private.csv --schema {desk}/schema.toml --epsilon 1 "
        '--method pairwise --set cells=8 --set fit_options={"steps":2,"components":3} '
        f"--out {desk}/model --dataset clinic --ledger {desk}/ledger.db"
    )
    with monkeypatch.context() as patched:
        patched.setattr(*function, replacement)
        code, _, message = program(*line.split())
    assert "Traceback" not in message
    assert "fault in noisegate" not in message
    return code, message


def assert_was_paid_once(desk, draws):
    assert len(draws) == 4
    assert history(desk)[-3:] == KINDS
    assert spent(desk) <= 1
    assert (desk / "model" / "certificate.json").exists()
    assert not (desk / "model.partial").exists()


@pytest.mark.parametrize(
    ("function", "replacement"),
    [
        pytest.param((Run, "write"), full, id="what is asked"),
        pytest.param((journals, "_write_all"), full, id="lines of the journal"),
        pytest.param((TableTransaction, "append"), full_database, id="ledger"),
        pytest.param((AnswerJournal, "_append"), full, id="begun queries"),
    ],
)
def test_a_disk_that_is_full_before_the_noise_costs_nothing(
    function, replacement, desk, draws, monkeypatch
):
    code, message = fit_with(desk, monkeypatch, function, replacement)
    assert code == 2
    assert "No space left" in message or "is full" in message
    assert not draws
    assert spent(desk) == 0
    assert history(desk) in ([], ["reserve", "void"])
    assert not (desk / "model.partial").exists()
    fitted(desk)
    assert_was_paid_once(desk, draws)


def test_answers_that_cannot_be_written_down_end_no_fit(desk, draws, monkeypatch):
    append = (AnswerJournal, "_append")
    code, message = fit_with(desk, monkeypatch, append, no_room_for_answers)
    assert code == 0, message
    assert_was_paid_once(desk, draws)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param((Release, "save"), id="release"),
        pytest.param((models, "hidden_beside"), id="model"),
    ],
)
def test_a_disk_that_is_full_after_the_noise_lets_the_run_go_on(
    function, desk, draws, monkeypatch
):
    code, _ = fit_with(desk, monkeypatch, function, full)
    assert code == 2
    resumed(desk)
    assert_was_paid_once(desk, draws)


@pytest.mark.skipif(sys.platform == "win32", reason="no users of files")
def test_a_folder_of_somebody_else_is_not_gone_on_with(desk, draws, monkeypatch):
    killed(monkeypatch, desk, (LocalEngine, "sum"), "before")
    (desk / "model.partial").chmod(0o777)
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: 12345)
        with pytest.raises(
            ModelError,
            match=r"belongs to another user.* Continue as the user who began the fit",
        ):
            resumed(desk)
    assert not draws
    (desk / "state" / "noisegate" / "ledgers").chmod(0o777)
    Ledger(desk / "ledger.db").register("school", epsilon=1.0, delta=1e-5)
    assert (
        stat.S_IMODE((desk / "state" / "noisegate" / "ledgers").stat().st_mode) == 0o700
    )
    resumed(desk)
    assert history(desk) == KINDS
