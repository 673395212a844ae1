"""Runs in Python: an interruption keeps what was paid for, and says how to go on. For signals see cli/test_kills."""

import signal
from pathlib import Path

import pandas as pd
import pytest
from tests.shared import cli_room
from tests.shared.columns import categorical, integer

import noisegate
from noisegate.app.runs.folder import RunFolder
from noisegate.errors import ModelError, OptionError
from noisegate.gate.session import Session
from noisegate.gate.sums import LocalEngine
from noisegate.ledger.ledger import Ledger
from noisegate.schema import Schema
from noisegate_images.training.moment_matching import MomentMatching

SCHEMA = Schema(
    (
        integer("age", 0, 90),
        categorical("job", "ab"),
    ),
    label="job",
)
TINY = {
    "method": "dp-merf",
    "frequencies": 10,
    "hidden": [8],
    "fit_options": {"steps": 6, "batch": 8},
}
LLM = {
    "method": "dp-llm",
    "records": 60,
    "steps": 6,
    "maps": 2,
    "sampling_probability": 0.25,
}

ctrl_c = cli_room.ctrl_c


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background job ignores it
    Ledger(tmp_path / "ledger.db").register("clinic", epsilon=3, delta=1e-5)
    yield tmp_path
    signal.signal(signal.SIGINT, before)


def table():
    return pd.DataFrame(
        {"age": [i % 90 for i in range(60)], "job": ["ab"[i % 2] for i in range(60)]}
    )


def fitted(desk, data=None, **options):
    booked = {"dataset": "clinic", "ledger": desk / "ledger.db"}
    return noisegate.fit(
        table() if data is None else data,
        schema=SCHEMA,
        epsilon=1.0,
        **booked,
        **options,
    )


def spent(desk):
    return cli_room.states(desk / "ledger.db")


def kept(desk):
    """The folders of runs that have no model folder."""
    return list((desk / "state" / "noisegate" / "runs").iterdir())


def test_a_fit_that_is_stopped_goes_on_from_its_folder(desk, ctrl_c):
    ctrl_c(MomentMatching, "_descend", 3)
    out = desk / "model"
    with pytest.raises(KeyboardInterrupt) as stopped:
        fitted(desk, out=out, **TINY)
    call = f"noisegate.fit(out={str(out)!r}, resume=True)"
    assert "the release is kept" in stopped.value.__notes__[0]
    assert call in stopped.value.__notes__[0]
    assert spent(desk) == (0, 1, 0)
    assert not out.exists()
    with pytest.raises(
        ModelError, match="holds an unfinished fit whose budget is spent"
    ):
        fitted(desk, out=out, **TINY)
    synthesizer = noisegate.fit(table(), out=out, resume=True)
    assert isinstance(synthesizer.sample(5), pd.DataFrame)
    assert noisegate.Synthesizer.load(out).certificate == synthesizer.certificate
    assert spent(desk) == (0, 1, 0)
    assert not out.with_name("model.partial").exists()


def test_a_fit_without_a_folder_is_kept_in_the_state_directory(desk, ctrl_c):
    ctrl_c(MomentMatching, "_descend", 3)
    with pytest.raises(KeyboardInterrupt) as stopped:
        fitted(desk, **TINY)
    (folder,) = kept(desk)
    assert f"noisegate.fit(resume={str(folder)!r})" in stopped.value.__notes__[0]
    assert spent(desk) == (0, 1, 0)
    assert noisegate.fit(resume=folder).sample(3).num_rows == 3
    assert kept(desk) == []
    assert spent(desk) == (0, 1, 0)
    fitted(desk, **TINY)
    assert kept(desk) == []


@pytest.mark.parametrize("error", [MemoryError("no room"), OptionError("a fault")])
def test_whatever_stops_a_fit_keeps_its_release(desk, monkeypatch, error):
    with monkeypatch.context() as broken:
        broken.setattr(MomentMatching, "run", lambda *_: (_ for _ in ()).throw(error))
        with pytest.raises(type(error)) as stopped:
            fitted(desk, **TINY)
    (folder,) = kept(desk)
    assert str(folder) in stopped.value.__notes__[0]
    assert noisegate.fit(resume=str(folder)).certificate.epsilon == 1


def test_ctrl_c_while_noise_is_drawn_waits_for_the_release(desk, ctrl_c):
    ctrl_c(LocalEngine, "sum")
    with pytest.raises(KeyboardInterrupt):
        fitted(desk, **TINY)
    assert spent(desk) == (0, 1, 0)
    assert noisegate.fit(resume=kept(desk)[0]).certificate.epsilon == 1


def test_ctrl_c_before_anything_has_left_the_gate_spends_nothing(desk, ctrl_c):
    ctrl_c(Ledger, "reserve")
    with pytest.raises(KeyboardInterrupt) as stopped:
        fitted(desk, **TINY)
    assert stopped.value.__notes__ == ["No noise was drawn, so nothing was spent."]
    assert spent(desk) == (0, 0, 1)
    assert kept(desk) == []


def test_a_training_goes_on_with_the_records_and_as_it_began(desk, ctrl_c):
    ctrl_c(Session, "step", 3)
    with pytest.raises(KeyboardInterrupt) as stopped:
        fitted(desk, **LLM)
    (folder,) = kept(desk)
    assert (
        "Stopped after 3 of 6 steps, which cost epsilon = 0."
        in stopped.value.__notes__[0]
    )
    assert f"noisegate.fit(data, resume={str(folder)!r})" in stopped.value.__notes__[0]
    assert spent(desk) == (1, 0, 0)
    for options, words in (
        ({"epsilon": 2.0}, "epsilon=2.0: the run began with 1.0"),
        ({"maps": 3}, "maps=3: the run began with 2"),
        ({"seed": 1}, "seed=1: the run began with 0"),
        ({"method": "pairwise"}, "method='pairwise': the run began with dp-llm"),
        (
            {"schema": Schema(SCHEMA.columns[:1])},
            "differs from the schema that the run began with",
        ),
    ):
        with pytest.raises(OptionError, match=words):
            noisegate.fit(table(), resume=folder, **options)
    with pytest.raises(OptionError, match="data is missing"):
        noisegate.fit(resume=folder)
    # The whole call once more, which is what a script does.
    classifier = fitted(desk, resume=folder, **LLM)
    assert classifier.certificate.epsilon == 1
    assert spent(desk) == (0, 1, 0)
    assert kept(desk) == []


def test_there_must_be_something_to_resume(desk):
    with pytest.raises(
        ModelError,
        match=r"does not exist: there is no unfinished fit to resume for out ",
    ):
        noisegate.fit(out=desk / "model", resume=True)
    with pytest.raises(
        ModelError, match="does not exist: there is no unfinished fit to resume"
    ):
        noisegate.fit(resume=desk / "nothing")


def test_a_model_does_not_come_to_lie_among_the_records(desk):
    (desk / "records").mkdir()
    table().to_csv(desk / "records" / "part.csv", index=False)
    with pytest.raises(OptionError, match=r"out=.*: lies in .*records"):
        fitted(desk, data=desk / "records", out=desk / "records" / "model", **TINY)


def test_where_no_state_directory_can_be_made_a_temporary_one_is(desk, monkeypatch):
    (desk / "state").write_text("in the way")
    monkeypatch.setattr("tempfile.tempdir", str(desk))
    folder = RunFolder(None)
    assert Path(desk) in folder.path.parents
    assert folder.path.parent.name.startswith("noisegate-runs.")


# Sums, and steps on gradients, on batches and on shards. The command line fits every method to as many: see journeys/.
LARGE = {
    "pairwise": {"cells": 4},
    "dp-llm": LLM | {"records": 10_000},
    "dp-sinkhorn": {"records": 10_000, "steps": 2},
    "pate-gan": {"records": 10_000, "steps": 2, "teachers": 10},
}


@pytest.mark.parametrize("method", LARGE)
def test_ten_thousand_records_are_fitted_and_spent_once(desk, method):
    fitted(
        desk,
        pd.concat([table()] * 167),
        **{"method": method, "device": "cpu"} | LARGE[method],
    )
    assert spent(desk) == (0, 1, 0)
