"""One period after the other: what is refused, what a run that was stopped gives again, and what is booked."""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
from functools import partial
from importlib import import_module
from itertools import product

import numpy as np
import pytest
from tests import randomness

from noisegate import Ledger, fit_period, plan_stream, verify
from noisegate.errors import BudgetRefusedError, ModelError, OptionError
from noisegate.ledger.accounts import ClosedError
from noisegate.privacy import noise
from noisegate.privacy.release import Release

from .conftest import AGES, EMPTY, FEBRUARY, JANUARY


def test_periods_add_up_under_the_cells_of_the_first(stream, tmp_path):
    told = {"schema": AGES, "periods": 4, "epsilon": 50.0, "corrections": True}
    models = stream(JANUARY, (FEBRUARY, JANUARY.slice(0, 100)), EMPTY, EMPTY, **told)
    counts = [float(model.release.values["counts"].sum()) for model in models]
    assert np.allclose(counts, [300, 500, 500, 500], atol=25)
    fixed = [model.certificate.public["fixed"] for model in models]
    assert fixed[0]["cuts"]
    assert fixed == fixed[:1] * 4
    assert models[-1].certificate.stream.period == 4
    told = models[-1].release
    assert told.by_period["counts"].shape == (2, 4)
    assert np.allclose(
        told.by_period["counts"].sum(axis=1, keepdims=True), told.values["counts"]
    )
    loaded = Release.load(tmp_path / "s4")
    assert (
        set(loaded.values)
        == set(told.values)
        == {event.name for event in loaded.certificate.events}
    )
    assert np.array_equal(loaded.by_period["counts"], told.by_period["counts"])
    assert loaded.by_period_std == told.by_period_std
    assert verify(tmp_path / "s4").recomputed_epsilon <= 50
    assert len(models[-1].sample(5)) == 5
    held = (tmp_path / "s.private").glob("*.npz")
    assert not any(
        "noise" in np.load(path) for path in held
    )  # after the last period nothing takes noise back


def test_noise_that_no_later_period_takes_back_is_erased(stream, tmp_path, monkeypatch):
    monkeypatch.setattr("noisegate.privacy.continual_plan.BAND", 2)
    stream(JANUARY, FEBRUARY, EMPTY, schema=AGES, periods=9)
    held = sorted((tmp_path / "s.private").glob("*.counts.npz"))
    assert ["noise" in np.load(path) for path in held] == [False, False, True]


def test_a_period_has_one_answer_and_its_records_no_second_one(
    stream, tmp_path, monkeypatch
):
    first, second = stream(JANUARY, FEBRUARY, schema=AGES, periods=5)
    monkeypatch.setattr(
        noise, "add_noise", lambda *_, **__: pytest.fail("noise was drawn again")
    )
    shutil.rmtree(tmp_path / "s2")
    (again,) = stream(FEBRUARY.take(list(range(300))[::-1]), start=2)
    assert all(
        np.array_equal(again.release.values[name], value)
        for name, value in second.release.values.items()
    )
    for data, start, why in (
        (JANUARY, 3, "these are the records of period 1"),
        (FEBRUARY.slice(1), 2, "period 2 was released with other records"),
        (EMPTY, 1, "2 periods are released, and this would be period 1"),
        ((EMPTY, JANUARY), 3, "does not pay for corrections"),
    ):
        shutil.rmtree(tmp_path / f"s{start}", ignore_errors=True)
        with pytest.raises(OptionError, match=why):
            stream(data, start=start)
        again.save(tmp_path / "s2") if start == 2 else None
        first.save(tmp_path / "s1") if start == 1 else None
    shutil.rmtree(tmp_path / "s.private")
    with pytest.raises(
        OptionError, match="missing or empty: it belongs beside the plan"
    ):
        stream(EMPTY, start=3)


def test_what_a_stream_cannot_be_is_said(tmp_path, stream):
    plan = {"path": tmp_path / "p.json", "schema": AGES, "epsilon": 1.0}
    with pytest.raises(OptionError, match="does not ask in rounds of sums"):
        plan_stream(**plan, method="privbayes", periods=3)
    for wrong in (
        {"periods": 0},
        {"periods": 1001},
        {"periods": 3, "window": 4},
        {"window": True},
    ):
        with pytest.raises(OptionError, match="must be a whole number from 1 to"):
            plan_stream(**plan, **wrong)
    with pytest.raises(OptionError, match="exists; choose another name"):
        plan_stream(**plan, periods=3), plan_stream(**plan, periods=3)
    stream(JANUARY, periods=1, schema=AGES)
    with pytest.raises(
        OptionError, match="planned for 1 periods, and all of them are released"
    ):
        stream(FEBRUARY, start=2)
    with pytest.raises(OptionError, match="is not a period of the stream"):
        fit_period(FEBRUARY, stream=plan["path"], after=tmp_path / "s1")
    (tmp_path / "p.json").replace(tmp_path / "s.json")
    with pytest.raises(OptionError, match="is of another plan"):
        fit_period(JANUARY, stream=tmp_path / "s.json")
    (tmp_path / "s.json").write_text("{}")
    with pytest.raises(ModelError, match="not a published plan"):
        fit_period(FEBRUARY, stream=tmp_path / "s.json")


def test_a_stream_is_one_entry_of_the_ledger(stream, tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.register("registry", epsilon=1.0, delta=1e-5)
    booked = {"ledger": ledger, "dataset": "registry"}
    stream(JANUARY, schema=AGES, periods=2, booked=booked)
    assert ledger.show("registry")[0].reserved == 1
    (last,) = stream(FEBRUARY, start=2)  # finds its reservation by itself
    account = ledger.show("registry")[0]
    history = ledger.history("registry")
    assert account.reserved == 0
    assert account.committed == 1
    assert account.spent <= 1
    assert [entry.kind.value for entry in history] == [
        "register",
        "reserve",
        "confirm",
        "commit",
    ]
    assert history[1].purpose == "pairwise, 2 periods"
    assert history[-1].certificate == last.certificate.digest()
    with pytest.raises(BudgetRefusedError):
        stream(JANUARY, name="another", schema=AGES, periods=2, booked=booked)


ALONE = "NOISEGATE_TEST_ALONE"
STAGES = (
    *(
        f"noisegate.ledger.ledger:Ledger.{name}"
        for name in ("reserve", "confirm", "commit")
    ),
    *(f"os:{name}" for name in ("fsync", "link", "replace", "mkdir")),
    *(
        f"noisegate.gate.streams.state:StreamState.{name}"
        for name in ("write_answer", "write_ledger_entry", "erase_secrets_until")
    ),
    *(f"noisegate.app.runs.folder:RunFolder.{name}" for name in ("keep", "remove")),
    *(
        "noisegate.privacy.noise:add_noise",
        "noisegate.models.synthesizer:Synthesizer.save",
    ),
)


def killed(work, at, after):
    """Runs `work` in a process of its own, which kills itself at call number `at`; returns whether it came so far."""
    if pid := os.fork():
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    try:
        secrets.token_bytes = randomness._TOKEN_BYTES
        noise._discrete_gaussian = randomness._DISCRETE
        calls = iter(range(at))
        for module, _, name in (stage.partition(":") for stage in STAGES):
            owner, _, last = name.rpartition(".")
            holder = (
                getattr(import_module(module), owner)
                if owner
                else import_module(module)
            )
            setattr(holder, last, counting(getattr(holder, last), calls, after=after))
        work()
    finally:
        os._exit(0)


def counting(right, calls, *, after):
    def counted(*arguments, **options):
        done = right(*arguments, **options) if after else None
        if next(calls, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return done if after else right(*arguments, **options)

    return counted


def plays(stream, tmp_path, stages):
    """Kills each period at every stage, before and after it, and plays it again; returns how often that was."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    count = 0
    for at, after in product(stages, (False, True)):
        name = f"run {at} {after} "
        ledger.register(name, epsilon=1.0, delta=1e-5)
        booked = {"ledger": ledger.path, "dataset": name}
        state = tmp_path / f"{name}.private"
        for period, data in enumerate((JANUARY, FEBRUARY, EMPTY), 1):
            options = {
                "start": period,
                "name": name,
                "schema": AGES,
                "periods": 3,
                "booked": booked,
            }
            play = partial(stream, data, **options)
            if not killed(play, at, after):
                continue
            count += 1
            answered = {path: np.load(path)["noisy"] for path in state.glob("*.npz")}
            for left in tmp_path.glob(f"{name}{period}*"):
                shutil.rmtree(left)
            known_entry = (
                (state / "booked.json").read_text()
                if (state / "booked.json").exists()
                else ""
            )
            # Killed before the stream knew its reservation: a person gives that back.
            for lost in {
                entry.reservation or known_entry for entry in ledger.history(name)
            } - {known_entry}:
                with contextlib.suppress(ClosedError):
                    _ = lost in known_entry or ledger.void(lost, reason="killed")
            play()
            assert ledger.show(name)[0].spent <= 1
            assert all(
                np.array_equal(np.load(path)["noisy"], noisy)
                for path, noisy in answered.items()
            )
        total = Release.load(tmp_path / f"{name}3").values["one-way"].ravel()
        noisy_sums = [
            np.load(state / f"{period:04}.one-way.npz")["noisy"].ravel()
            for period in (1, 2, 3)
        ]
        assert np.allclose(
            sum(noisy_sums) * total[0], sum(noisy_sums)[0] * total, rtol=1e-12
        )
    return count


@pytest.mark.skipif(
    not hasattr(os, "fork"), reason="processes are killed by the ways of POSIX"
)
@pytest.mark.parametrize(
    ("stages", "least"),
    [((6, 17), 4), pytest.param(range(60), 200, marks=pytest.mark.slow)],
)
def test_killed_at_any_stage_a_period_has_one_answer(
    stream, tmp_path, stages, least, request
):
    if ALONE in os.environ:
        assert plays(stream, tmp_path, stages) >= least
        return
    # In a process of its own: what is forked from one with many threads may hang.
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTEST_")
    } | {ALONE: "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        request.node.nodeid,
    ]
    done = subprocess.run(
        command,
        cwd=request.config.rootpath,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
