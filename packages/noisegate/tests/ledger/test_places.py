"""Where a ledger may be kept, and what is said about places where none is or can be."""

import sqlite3
import sys

import pytest

from noisegate.errors import BudgetRefusedError, LedgerError, OptionError
from noisegate.ledger import tables as ledger_tables
from noisegate.ledger.ledger import Ledger
from noisegate.ledger.location import connection_options

from .test_ledger import CAP, DIGEST, reserve


def test_the_default_is_the_variable_then_the_users_data_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("NOISEGATE_LEDGER", str(tmp_path / "here.sqlite"))
    assert Ledger().location == str(tmp_path / "here.sqlite")
    monkeypatch.setenv("NOISEGATE_LEDGER", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    if sys.platform == "linux":
        assert Ledger().location == str(
            tmp_path / "home" / "noisegate" / "ledger.sqlite"
        )


def test_a_path_with_any_characters_and_an_sqlite_url_are_the_same_file(
    tmp_path, event
):
    path = tmp_path / "new folder" / "ledger #1?mode=memory&ü%20.sqlite"
    Ledger(path).register("patients", **CAP)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert Ledger(f"sqlite:///{path}").show() == Ledger(path).show() != []


@pytest.mark.parametrize(
    "location",
    ["", "sqlite://", "sqlite:///:memory:", ":memory:", "mysql://me:secret@host/db"],
)
def test_places_that_cannot_hold_a_ledger_are_refused(location):
    with pytest.raises(OptionError, match=r"^ledger=") as refused:
        Ledger(location)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("password", ["secret", "sec:ret", "sec#ret", "sec/ret@"])
def test_passwords_are_never_shown(password):
    ledger = Ledger(f"postgresql://me:{password}@127.0.0.1:1/db?password=secret")
    assert ledger.location == "postgresql://me:***@127.0.0.1:1/db?password=***"
    with pytest.raises((LedgerError, OptionError)) as failed:
        ledger.show()
    assert "sec" not in str(failed.value).replace("seconds", "")


@pytest.mark.parametrize(
    ("url", "connection"),
    [
        ("", {}),
        (
            "me:s#e/c:r?t@h:5433/db",
            {
                "user": "me",
                "password": "s#e/c:r?t",
                "host": "h",
                "port": "5433",
                "dbname": "db",
            },
        ),
        (
            "m%40e:%25@[::1]/a%20b",
            {"user": "m@e", "password": "%", "host": "::1", "dbname": "a b"},
        ),
        (
            "/db?host=/tmp/x&options=-c+search_path%3Dx",
            {"dbname": "db", "host": "/tmp/x", "options": "-c search_path=x"},
        ),
        (
            "me@/db?host=a:1&host=b",
            {"user": "me", "dbname": "db", "host": "a,b", "port": "1,"},
        ),
    ],
)
def test_a_url_tells_the_driver_what_it_says(url, connection):
    assert connection_options(f"postgresql+psycopg://{url}") == connection


def test_a_url_without_a_port_where_one_should_be_is_refused():
    pytest.importorskip("psycopg")
    with pytest.raises(
        OptionError, match=r"not a usable URL \(ValueError\); expected postgresql://"
    ):
        Ledger("postgresql://me@host:port/db").show()


def test_postgresql_holds_the_same_ledger(database, event):
    ledger = Ledger(database)
    with pytest.raises(LedgerError, match=r"there is no ledger at .*ledger register"):
        ledger.show()
    ledger.register("patients", **CAP)
    first, second = (reserve(ledger, [event(share=0.4)]) for _ in range(2))
    with pytest.raises(BudgetRefusedError):
        reserve(ledger, [event(share=0.4)])
    ledger.void(first, reason="ü, \\ and ' survive")
    ledger.commit(second, certificate=DIGEST)
    assert [entry.reason for entry in ledger.history("patients")][
        3
    ] == "ü, \\ and ' survive"
    assert ledger.check() == 5


def test_a_missing_file_is_made_by_register_only(ledger, tmp_path, event):
    for call in (
        ledger.show,
        ledger.check,
        lambda: ledger.history("patients"),
        lambda: reserve(ledger, [event()]),
        lambda: ledger.commit("x", certificate=DIGEST),
        lambda: ledger.void("x", reason="x"),
    ):
        with pytest.raises(
            LedgerError, match=r"there is no ledger at .*noisegate ledger register NAME"
        ):
            call()
    assert list(tmp_path.iterdir()) == []


def _both(ledger, event):
    return (
        lambda: reserve(ledger, [event()]),
        lambda: ledger.register("patients", **CAP),
    )


def test_a_database_of_something_else_is_left_alone(ledger, tmp_path, event):
    connection = sqlite3.connect(tmp_path / "ledger.sqlite")
    connection.execute("CREATE TABLE patients (name TEXT)")
    connection.close()
    for call in _both(ledger, event):
        with pytest.raises(LedgerError, match="is a database of something else"):
            call()


def test_a_place_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match=r"cannot be opened: .*give another path"):
        Ledger(tmp_path / "file" / "ledger.sqlite").register("patients", **CAP)


def test_a_file_without_write_permission_can_be_shown_and_not_changed(
    ledger, event, monkeypatch
):
    """SQLite's own read-only mode stands for the permission, which would not bind an administrator."""
    ledger.register("patients", **CAP)
    reader = Ledger(ledger.location)
    real = ledger_tables._connect_sqlite
    monkeypatch.setattr(
        ledger_tables, "_connect_sqlite", lambda path, mode: real(path, mode="ro")
    )
    assert reader.show()[0].epsilon == 1
    with pytest.raises(
        LedgerError, match="may not be opened for writing; check its permissions"
    ):
        reserve(reader, [event()])
    assert ledger.check() == 1
