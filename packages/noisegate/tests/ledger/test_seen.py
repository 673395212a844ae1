"""A ledger that was restored from an earlier state is noticed by what this account saw of it, and has one name only."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from noisegate.errors import LedgerError
from noisegate.ledger import ledger as module
from noisegate.ledger.ledger import Ledger, RewoundError


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    """The user's state folder of this test alone."""
    folder = tmp_path / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder / "noisegate" / "ledgers"


def _run(ledger, event):
    """Reserves and confirms the cost of a run, and dies."""
    ledger.confirm(
        ledger.reserve(
            "patients", [event(share=0.5)], adjacency="add-remove", purpose="run"
        )
    )


@pytest.fixture
def registered(ledger):
    ledger.register("patients", epsilon=1, delta=1e-5)
    return ledger


def test_a_ledger_under_a_second_name_is_refused(registered, tmp_path):
    other = tmp_path / "other.sqlite"
    os.link(registered.path, other)
    for name in (registered.path, other):
        for use in (
            Ledger(name).check,
            lambda name=name: Ledger(name).register("others", epsilon=1, delta=1e-5),
        ):
            with pytest.raises(LedgerError, match=r"has 2 names .*remove the others"):
                use()
    other.unlink()
    other.symlink_to(registered.path)  # SQLite follows it, and so does the journal
    assert Ledger(other).check() == registered.check() == 1


def test_a_ledger_that_is_mounted_by_itself_is_refused(registered, monkeypatch):
    monkeypatch.setattr(
        os.path, "ismount", lambda path: Path(path) == registered.path.resolve()
    )
    with pytest.raises(LedgerError, match="mount the folder"):
        registered.check()


def test_a_journal_that_was_left_under_another_name_does_not_take_spending_back(
    registered, event, tmp_path
):
    journal = Path(f"{registered.path}-journal")
    with closing(sqlite3.connect(registered.path, isolation_level=None)) as crashed:
        crashed.execute("PRAGMA cache_size = 1")
        for statement in (
            "BEGIN IMMEDIATE",
            "UPDATE noisegate_head SET rows = 9",
            "CREATE TABLE large (x)",
        ):
            crashed.execute(statement)
        crashed.execute("UPDATE noisegate_entries SET kind = 'x'")
        for _ in range(9):
            crashed.execute("INSERT INTO large VALUES (zeroblob(100000))")
        left = journal.read_bytes()
        crashed.execute("ROLLBACK")
    other = Ledger(registered.path.rename(tmp_path / "other.sqlite"))
    _run(other, event)
    assert other.show("patients")[0].spent > 0
    other.path.rename(registered.path)
    journal.write_bytes(left)
    with pytest.raises(RewoundError, match=r"row 2, .*restored"):
        registered.show()
    assert not journal.exists()  # SQLite has rolled the ledger back


def test_a_ledger_that_was_put_back_is_refused_by_all_until_what_was_seen_is_removed(
    registered, event, state, tmp_path
):
    before = shutil.copy(registered.path, tmp_path / "before.sqlite")
    _run(registered, event)
    for use in (
        Ledger(before).check,
        lambda: Ledger(before).register("others", epsilon=1, delta=1e-5),
        lambda: Ledger(before).void("x", reason="x"),
    ):
        with pytest.raises(RewoundError, match=r"Use the newest copy.*threat-model"):
            use()
    assert registered.check() == 3
    [seen] = state.iterdir()
    seen.unlink()
    assert Ledger(before).check() == 1


def test_two_copies_that_both_went_on_are_not_both_believed(
    registered, event, tmp_path
):
    copy = Ledger(shutil.copy(registered.path, tmp_path / "copy.sqlite"))
    copy.register("others", epsilon=1, delta=1e-5)
    assert copy.check() == 2
    for use in (
        registered.check,
        lambda: registered.register("third", epsilon=1, delta=1e-5),
    ):
        with pytest.raises(
            RewoundError, match="row 2, which was seen before, is not in it"
        ):
            use()


def test_a_new_ledger_at_an_old_place_is_another_one(registered, event):
    _run(registered, event)
    registered.path.unlink()
    registered.register("patients", epsilon=1, delta=1e-5)
    assert registered.check() == 1


@pytest.mark.parametrize(
    "text", ["", "1", "12 ab", "nonsense\n", "\n3 " + "a" * 63, "\xff"]
)
def test_lines_that_say_nothing_are_left_alone_and_others_are_added(
    registered, event, state, text
):
    registered.check()
    [seen] = state.iterdir()
    seen.write_bytes(text.encode("latin-1"))
    assert registered.check() == 1
    assert seen.read_bytes().decode("latin-1").split("\n")[-2].startswith("1 ")
    _run(registered, event)
    assert registered.check() == 3


def test_where_nothing_can_be_remembered_nothing_is_compared(registered, event, state):
    shutil.rmtree(state, ignore_errors=True)
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_bytes(b"a file")
    _run(registered, event)
    assert registered.check() == 3


def test_a_reader_that_others_overtook_reads_once_more(registered, monkeypatch):
    calls = []

    def overtaken(rows):
        calls.append(rows)
        if len(calls) == 1:
            raise RewoundError("row 2 is not in it")

    monkeypatch.setattr(module, "check_seen", overtaken)
    assert registered.check() == 1
    assert len(calls) == 2
