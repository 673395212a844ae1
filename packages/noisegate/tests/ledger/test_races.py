"""Many processes on one ledger, and processes that are killed. Nothing may ever be overspent or forgotten."""

import json
import math
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.shared.patience import PATIENCE

from noisegate.errors import BudgetRefusedError, LedgerError
from noisegate.ledger import tables as ledger_tables
from noisegate.ledger.ledger import Ledger
from noisegate.privacy.events import event_to_json

WORKER = Path(__file__).with_name("worker.py")
PROCESSES = 16
FIT = 20  # of PROCESSES · 3 attempts

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="SIGKILL does not exist on Windows"
)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """A ledger of each kind that does not exist yet."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.sqlite")
    return request.getfixturevalue("database")


def _run(count, job, location, events):
    """Runs a job in `count` processes at once; returns their exit codes and what those that ended well returned."""
    text = json.dumps([event_to_json(event) for event in events])
    command = [
        sys.executable,
        "-W",
        "error",
        str(WORKER),
        str(count),
        job,
        location,
        text,
    ]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as worker:
        assert worker.stdout.readline() == "ready\n"
        out, _ = worker.communicate("go\n", timeout=PATIENCE)
    assert worker.returncode == 0
    codes, answers = map(json.loads, out.splitlines())
    return codes, answers


def test_sixteen_processes_get_exactly_what_fits(place, event):
    ledger = Ledger(place)
    ledger.register("race", epsilon=1, delta=1e-5)
    events = [
        event(share=1 / (FIT + 0.5))
    ]  # twenty and a half fit: rounding decides nothing

    codes, answers = _run(PROCESSES, "race", place, events)

    assert codes == [0] * PROCESSES
    won = [reservation for answer in answers for reservation in answer]
    assert len(won) == len(set(won)) == FIT
    (account,) = ledger.show()
    assert account.reserved + account.committed == FIT
    assert (
        account.committed >= FIT / 3
    )  # each winner won at most three and committed one
    assert math.isclose(account.spent, 0.9868, abs_tol=2e-3)
    assert account.spent <= 1
    assert ledger.check() == 1 + FIT + account.committed
    with pytest.raises(BudgetRefusedError):
        ledger.reserve("race", events, adjacency="add-remove", purpose="one too many")


@pytest.mark.slow
def test_of_many_that_register_one_name_at_once_one_does(place, event):
    codes, answers = _run(PROCESSES, "register", place, [event()])
    assert codes == [0] * PROCESSES
    assert sum(answers) == 1
    assert Ledger(place).check() == 1


def test_of_a_run_that_confirms_and_somebody_who_voids_one_wins(place, event):
    ledger = Ledger(place)
    ledger.register("race", epsilon=1, delta=1e-5)
    events = [event(share=0.1)]
    held = [
        ledger.reserve("race", events, adjacency="add-remove", purpose=f"{i}")
        for i in range(6)
    ]

    codes, answers = _run(4, "confirm_or_void", place, events)

    assert codes == [0] * 4
    won = [
        {way for done in answers for closed, way in done if closed == reservation}
        for reservation in held
    ]
    assert all(len(ways) == 1 for ways in won)
    (account,) = ledger.show()
    assert account.reserved == won.count({"confirmed"})
    assert account.voided == won.count({"voided"})
    assert ledger.check() == 1 + 2 * len(held)


def test_a_process_killed_between_reserve_and_commit_has_spent(place, event):
    ledger = Ledger(place)
    ledger.register("race", epsilon=1, delta=1e-5)
    assert _run(1, "killed_after", place, [event(share=0.6)]) == ([-signal.SIGKILL], [])

    (account,) = ledger.show("race")
    assert account.reserved == 1
    assert account.committed == 0
    assert account.voided == 0
    assert 0.7 < account.spent < 0.8
    assert ledger.history("race")[-1].purpose == "killed after"
    with pytest.raises(BudgetRefusedError, match=r"spent so far: ε = 0\.7"):
        ledger.reserve(
            "race", [event(share=0.6)], adjacency="add-remove", purpose="again"
        )


def test_a_process_killed_inside_the_transaction_leaves_the_ledger_whole(place, event):
    ledger = Ledger(place)
    ledger.register("race", epsilon=1, delta=1e-5)
    assert _run(1, "killed_inside", place, [event()]) == ([-signal.SIGKILL], [])

    assert ledger.check() == 1
    assert ledger.reserve("race", [event()], adjacency="add-remove", purpose="after")


def test_a_ledger_that_stays_locked_is_reported(place, event, monkeypatch):
    monkeypatch.setattr(ledger_tables, "LOCK_SECONDS", 0.2)
    holder = Ledger(place)
    other = Ledger(place)
    holder.register("race", epsilon=1, delta=1e-5)
    with (
        holder._store.write(),
        pytest.raises(LedgerError, match=r"is locked: another process .* 0\.2 s"),
    ):
        other.reserve("race", [event()], adjacency="add-remove", purpose="blocked")
    assert holder.check() == 1


def test_readers_do_not_wait_for_a_writer(place, monkeypatch):
    monkeypatch.setattr(ledger_tables, "LOCK_SECONDS", 0.2)
    holder = Ledger(place)
    other = Ledger(place)
    holder.register("race", epsilon=1, delta=1e-5)
    with holder._store.write():
        assert other.check() == 1


def test_what_is_decided_under_the_lock_counts(place, event, monkeypatch):
    """Between the first look and the lock somebody else spends: the second look must refuse."""
    first = Ledger(place)
    second = Ledger(place)
    first.register("race", epsilon=1, delta=1e-5)
    write = ledger_tables.Store.write

    def late(store):
        monkeypatch.undo()
        second.reserve("race", [event()], adjacency="add-remove", purpose="quicker")
        return write(store)

    monkeypatch.setattr(ledger_tables.Store, "write", late)
    with pytest.raises(BudgetRefusedError, match="together"):
        first.reserve("race", [event()], adjacency="add-remove", purpose="slower")
    assert first.show()[0].reserved == 1
    assert first.check() == 2
