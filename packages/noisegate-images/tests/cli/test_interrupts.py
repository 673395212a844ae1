"""A fit that is stopped: before the release nothing is spent, after it nothing is lost."""

import shutil
import signal
import threading

import pytest

from noisegate import Pairwise
from noisegate.app.runs.work import hold_signals
from noisegate_images.training.moment_matching import MomentMatching

from .conftest import rows, said, states

SLOW_FEATURES = ["--method", "dp-merf", "--set", "frequencies=500"]


def _partial(desk):
    return desk.folder / "model.partial"


def _release_is_kept(desk):
    """Whether the release is on disk, whole."""
    return (_partial(desk) / "certificate.json").exists() and not (
        _partial(desk) / "room"
    ).exists()


def _slow_to_read(desk):
    """Gives the gate some seconds of work, and returns what lies on the desk."""
    desk.write_rows(rows(2000) * 300)
    return desk.listing()


def _samples(desk, cli, model):
    out = desk.folder / f"{model}.csv"
    assert (
        cli("sample", desk.folder / model, "-n", 300, "--seed", 4, "-o", out).code == 0
    )
    return out.read_bytes()


def test_stopped_and_resumed_is_the_same_as_not_stopped(desk, cli, ctrl_c):
    ctrl_c(MomentMatching, "_descend", 8)
    stopped = cli(*desk.fit())
    assert stopped.code == 130 and "Stopped at step 8." in stopped.err
    assert "noisegate fit --resume --out" in stopped.err and states(desk.ledger) == (
        0,
        1,
        0,
    )
    assert not desk.out.exists()
    # The same release without a checkpoint: a fit that was never stopped.
    shutil.copytree(_partial(desk), desk.folder / "whole.partial")
    (desk.folder / "whole.partial" / "checkpoint.safetensors").unlink()
    desk.data.unlink()
    desk.schema.unlink()
    for model in ("model", "whole"):
        ended = cli("fit", "--resume", "--out", desk.folder / model)
        assert ended.code == 0 and "nothing is read or spent" in said(ended.err)
        assert (
            not (desk.folder / f"{model}.partial").exists()
            and cli("verify", desk.folder / model).code == 0
        )
    assert _samples(desk, cli, "model") == _samples(desk, cli, "whole") and states(
        desk.ledger
    ) == (0, 1, 0)


def test_a_signal_while_reading_spends_nothing(desk, stopped_fit):
    before = _slow_to_read(desk)
    ended = stopped_fit(lambda: desk.account().reserved == 1, more=SLOW_FEATURES)
    assert ended.code == 130 and "nothing was spent" in ended.err
    assert "stopped" in ended.err and "Traceback" not in ended.err
    assert states(desk.ledger) == (0, 0, 1) and desk.listing() == before


def test_a_kill_while_reading_is_reserved_and_goes_on_at_no_further_cost(
    desk, cli, stopped_fit
):
    _slow_to_read(desk)
    stopped_fit(
        lambda: desk.account().reserved == 1,
        signal.SIGKILL,
        more=SLOW_FEATURES,
        steps=5,
    )
    assert states(desk.ledger) == (1, 0, 0)
    again = cli(*desk.fit())
    assert again.code == 2
    assert "model.partial" in again.err
    assert states(desk.ledger) == (1, 0, 0)
    resumed = cli("fit", "--resume", "--out", desk.out)
    assert resumed.code == 0, resumed.err
    assert states(desk.ledger) == (0, 1, 0)
    assert cli("verify", desk.out).code == 0


@pytest.mark.parametrize(
    "file", ["certificate.json", "release.safetensors", "checkpoint.safetensors"]
)
def test_a_broken_unfinished_fit_is_named(desk, cli, ctrl_c, file):
    ctrl_c(MomentMatching, "_descend", 3)
    cli(*desk.fit())
    (_partial(desk) / file).write_bytes(b"broken")
    ended = cli("fit", "--resume", "--out", desk.out)
    assert ended.code == 2 and file in ended.err.partition("error: ")[2]
    assert not desk.out.exists()


@pytest.fixture
def handlers():
    """A handler of SIGTERM, which otherwise ends the process behind the block that held it back."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, before)


def test_signals_are_held_back_until_asked_for(handlers):
    before = signal.getsignal(signal.SIGINT)  # a shell's background job ignores it
    with pytest.raises(KeyboardInterrupt), hold_signals() as may_stop:
        may_stop()
        signal.raise_signal(signal.SIGINT)
        may_stop()
        pytest.fail("the signal was lost")
    with pytest.raises(KeyboardInterrupt), hold_signals():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("the second signal was held back too")
    assert signal.getsignal(signal.SIGINT) is before


def test_outside_the_main_thread_signals_are_left_alone():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with hold_signals() as may_stop:
            may_stop()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def with_any_seed(schema, settings):
    """Returns the method as a version that checked no seed did."""
    made = Pairwise(
        **{name: value for name, value in settings.items() if name != "seed"}
    )
    object.__setattr__(made, "seed", settings["seed"])
    return made


def test_a_release_that_waits_for_a_fit_may_be_given_another_seed(
    desk, cli, monkeypatch
):
    """As an earlier version left it: with a seed that no fit can draw from."""
    desk.fit()
    with monkeypatch.context() as earlier:
        earlier.setattr(Pairwise, "for_schema", with_any_seed)
        earlier.setattr(
            "noisegate.app.runs.work._Execution.fit_model", lambda *_: 1 / 0
        )
        settings = ["--method", "pairwise", "--set", f"seed={2**70}"]
        fit = [
            "fit",
            desk.data,
            "--schema",
            desk.schema,
            "--epsilon",
            "1",
            "--out",
            desk.out,
            *settings,
        ]
        assert cli(*fit, "--dataset", "clinic", "--ledger", desk.ledger).code == 1
    assert _release_is_kept(desk)
    stuck = cli("fit", "--resume", "--out", desk.out)
    assert (stuck.code, "seed=" in stuck.err) == (2, True)
    assert cli("fit", "--resume", "--out", desk.out, "--seed", 3).code == 0
    assert cli("sample", desk.out, "-n", 5, "-o", desk.folder / "made.csv").code == 0
    assert states(desk.ledger) == (0, 1, 0)


def test_a_release_whose_questions_were_drawn_keeps_its_seed(desk, cli, ctrl_c):
    ctrl_c(MomentMatching, "_descend", 3)
    cli(*desk.fit())
    refused = cli("fit", "--resume", "--out", desk.out, "--seed", 3)
    assert (refused.code, "release was made with seed 0" in said(refused.err)) == (
        2,
        True,
    )
    assert cli("fit", "--resume", "--out", desk.out, "--seed", 0).code == 0
