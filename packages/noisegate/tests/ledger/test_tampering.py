"""Whatever is done to the file of a ledger, it is detected, or changes nothing that the ledger says."""

import sqlite3
from contextlib import closing
from dataclasses import astuple, fields

import pytest

from noisegate.errors import LedgerError
from noisegate.ledger.hash_chain import ChainHead, Row, canonical, next_row
from noisegate.ledger.ledger import Ledger

COLUMNS = [field.name for field in fields(Row)]


@pytest.fixture
def written_ledger(ledger, event):
    """A ledger of six rows, with room left in its account."""
    ledger.register("patients", epsilon=1, delta=1e-5)
    first = ledger.reserve(
        "patients", [event(share=0.5)], adjacency="add-remove", purpose="first"
    )
    second = ledger.reserve(
        "patients", [event(share=0.3)], adjacency="add-remove", purpose="second"
    )
    ledger.commit(first, certificate="a" * 64)
    ledger.void(second, reason="crashed before the data was read")
    ledger.register("others", epsilon=1, delta=1e-5)
    assert ledger.check() == 6
    return ledger


def _sql(ledger, *statements):
    with closing(sqlite3.connect(ledger.location)) as connection, connection:
        for statement in statements:
            assert (
                connection.execute(
                    *([statement] if isinstance(statement, str) else statement)
                ).rowcount
                != 0
            )


def _detected(ledger, event, match):
    """No method believes the ledger any more, and none adds to it."""
    calls = {
        "check": ledger.check,
        "show": ledger.show,
        "history": lambda: ledger.history("patients"),
        "reserve": lambda: ledger.reserve(
            "patients", [event(0.01)], adjacency="add-remove", purpose="x"
        ),
        "register": lambda: ledger.register("third", epsilon=1, delta=1e-5),
        "void": lambda: ledger.void("x", reason="x"),
        "confirm": lambda: ledger.confirm("x"),
        "commit": lambda: ledger.commit("x", certificate="a" * 64),
    }
    for name, call in calls.items():
        with pytest.raises(LedgerError, match=match) as noticed:
            call()
            pytest.fail(f"{name} did not notice")
        assert ledger.location in str(noticed.value)


@pytest.mark.parametrize("column", COLUMNS[1:])
@pytest.mark.parametrize("row", [1, 2, 6])
def test_a_changed_column_is_detected_and_the_row_named(
    written_ledger, event, column, row
):
    _sql(
        written_ledger,
        f"UPDATE noisegate_entries SET {column} = coalesce({column}, '') || ' ' WHERE sequence = {row}",
    )
    _detected(written_ledger, event, f"at row {row}: ")


ENTRIES = "noisegate_entries"
DELETED = f"DELETE FROM {ENTRIES} WHERE sequence = "
MOVED = f"UPDATE {ENTRIES} SET sequence = "
HEAD = "UPDATE noisegate_head SET "
FEWER = "UPDATE noisegate_head SET rows = 5"
CHANGES = {
    "bytes": (
        [f"UPDATE {ENTRIES} SET reservation = x'00ff' WHERE sequence = 3"],
        "at row 3: ",
    ),
    "a number": (
        [f"UPDATE {ENTRIES} SET reservation = 17 WHERE sequence = 3"],
        "at row 3: ",
    ),
    "nothing": (
        [f"UPDATE {ENTRIES} SET reservation = NULL WHERE sequence = 3"],
        "at row 3: ",
    ),
    "another place": ([f"{MOVED}60 WHERE sequence = 6"], "at row 6: it is missing"),
    "a smaller cost": (
        [
            f"UPDATE {ENTRIES} SET payload = replace(payload, '10000.0', '10.0') WHERE sequence = 2"
        ],
        "at row 2: its contents",
    ),
    **{
        f"row {row} deleted": ([f"{DELETED}{row}"], f"at row {row}: ")
        for row in (1, 2, 5, 6)
    },
    "others renumbered": (
        [
            f"{DELETED}3",
            *(f"{MOVED}{row - 1} WHERE sequence = {row}" for row in (4, 5, 6)),
        ],
        "at row 3: ",
    ),
    "all deleted": (
        [f"DELETE FROM {ENTRIES}"],
        "at row 1: the ledger should have 6 rows and has 0",
    ),
    "two swapped": (
        [
            f"{MOVED}{new} WHERE sequence = {old}"
            for old, new in ((2, 99), (3, 2), (99, 3))
        ],
        "at row 2: its contents",
    ),
    "the last cut off": (
        [f"{DELETED}6", FEWER],
        "at row 5: it is not the row that was written last",
    ),
    "fewer in the head": ([FEWER], "at row 6: the ledger should have 5 rows and has 6"),
    "a word in the head": ([f"{HEAD}rows = 'six'"], "at row 6: "),
    "another hash": (
        [f"{HEAD}hash = replace(hash, substr(hash, 1, 1), 'x')"],
        "at row 6: it is not the row",
    ),
    "no head": (["DELETE FROM noisegate_head"], "its head has 0 rows instead of 1"),
    "two heads": (
        ["INSERT INTO noisegate_head VALUES (2, 0, 'x')"],
        "its head has 2 rows instead of 1",
    ),
    "no table of the head": (
        ["DROP TABLE noisegate_head"],
        "one of its two tables is gone",
    ),
    "no table of rows": ([f"DROP TABLE {ENTRIES}"], "one of its two tables is gone"),
    "a column less": ([f"ALTER TABLE {ENTRIES} DROP COLUMN payload"], "is damaged"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_detected_and_its_row_named(written_ledger, event, change):
    statements, match = CHANGES[change]
    _sql(written_ledger, *statements)
    _detected(written_ledger, event, match)


def test_a_row_replaced_by_one_with_a_right_hash_is_detected(written_ledger, event):
    with closing(sqlite3.connect(written_ledger.location)) as connection:
        before = Row(
            **dict(
                zip(
                    COLUMNS,
                    connection.execute("SELECT * FROM noisegate_entries").fetchall()[0],
                    strict=True,
                )
            )
        )
    forged = next_row(
        ChainHead(rows=1, hash=before.hash),
        kind="register",
        dataset="patients",
        reservation=None,
        payload={"epsilon": 1000},
    )
    marks = ", ".join("?" * len(COLUMNS))
    _sql(
        written_ledger,
        "DELETE FROM noisegate_entries WHERE sequence = 2",
        (f"INSERT INTO noisegate_entries VALUES ({marks})", astuple(forged)),
    )
    _detected(written_ledger, event, "at row 3: it does not continue the row before it")


def test_every_byte_of_every_row_counts(written_ledger):
    """Flips each byte of each stored text in the file itself; one bit in turn."""
    with closing(sqlite3.connect(written_ledger.location)) as connection:
        rows = connection.execute("SELECT * FROM noisegate_entries").fetchall()
    with open(written_ledger.location, "rb") as file:
        image = file.read()
    stored = [
        b"".join(str(value).encode() for value in row[1:] if value is not None)
        for row in rows
    ]
    positions = [
        (image.index(text) + offset, number)
        for number, text in enumerate(stored, 1)
        for offset in range(len(text))
    ]
    assert len(positions) > 1500
    with open(written_ledger.location, "r+b") as file:
        # Each payload byte of the second row, and every seventeenth byte of all.
        for position, number in [
            place for place in positions if place[1] == 2
        ] + positions[::17]:
            _flip(file, image, position)
            with pytest.raises(LedgerError, match=f"at row {number}: "):
                written_ledger.check()
            _flip(file, image, position, restore=True)
    assert written_ledger.check() == 6


def test_a_flipped_byte_anywhere_is_detected_or_changes_nothing(written_ledger):
    with open(written_ledger.location, "rb") as file:
        image = file.read()
    truth = (written_ledger.show(), written_ledger.history("patients"))
    detected = 0
    used = [index for index in range(len(image)) if image[index] or index < 100]
    with open(written_ledger.location, "r+b") as file:
        for position in used[::11] + list(range(100, len(image), 97)):
            _flip(file, image, position)
            try:
                assert (
                    written_ledger.show(),
                    written_ledger.history("patients"),
                ) == truth, position
            except LedgerError:
                detected += 1
            _flip(file, image, position, restore=True)
    assert detected > 100
    assert written_ledger.check() == 6


def _flip(file, image, position, *, restore=False):
    file.seek(position)
    file.write(bytes([image[position] ^ (0 if restore else 1 << position % 8)]))
    file.flush()


def test_a_truncated_file_is_detected(written_ledger, event):
    with open(written_ledger.location, "r+b") as file:
        file.truncate(6000)
    _detected(written_ledger, event, "ledger .* is damaged|is not an SQLite database")


def _append(ledger, *, kind, payload, reservation="r", dataset="patients"):
    """Adds a row with right hashes past the rules, as a thief with time would."""
    with ledger._store.write() as transaction:
        row = next_row(
            transaction.head(),
            kind=kind,
            dataset=dataset,
            reservation=reservation,
            payload=payload,
        )
        transaction.append(row)


CAP = {"epsilon": 9, "delta": 1e-5, "adjacency": "add-remove", "unit": "record"}


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ({"kind": "refund", "payload": {}}, "is invalid"),
        ({"kind": "register", "reservation": None, "payload": CAP}, "twice"),
        ({"kind": "register", "reservation": None, "dataset": "new", "payload": {**CAP, "epsilon": -1}}, "epsilon=-1"),
        ({"kind": "reserve", "payload": {"events": [], "purpose": "x"}}, "no event"),
        ({"kind": "reserve", "payload": {"events": [{"kind": "laplace"}], "purpose": "x"}}, "laplace"),
        ({"kind": "reserve", "dataset": "unknown", "payload": {"events": [], "purpose": "x"}}, "not registered"),
        ({"kind": "commit", "payload": {"certificate": "x"}}, "not in the ledger"),
        ({"kind": "confirm", "payload": {}}, "not in the ledger"),
        ({"kind": "void", "payload": {"reason": "x"}}, "not in the ledger"),
        ({"kind": "void", "reservation": None, "payload": {"reason": "x"}}, "names no reservation"),
        ({"kind": "commit", "payload": {}}, "certificate"),
        ({"kind": "commit", "payload": [1]}, "is invalid"),
    ],
)  # fmt: skip
def test_rows_with_right_hashes_that_break_the_rules_are_refused(
    written_ledger, event, row, match
):
    _append(written_ledger, **row)
    _detected(written_ledger, event, f"row 7 of the ledger .*{match}")


def test_a_committed_run_cannot_be_voided_behind_the_ledgers_back(
    written_ledger, event
):
    first = written_ledger.history("patients")[1].reservation
    _append(written_ledger, kind="void", reservation=first, payload={"reason": "x"})
    _detected(written_ledger, event, "row 7 .*committed already")


def test_a_confirmed_run_cannot_be_voided_behind_the_ledgers_back(
    written_ledger, event
):
    held = written_ledger.reserve(
        "patients", [event(0.01)], adjacency="add-remove", purpose="x"
    )
    written_ledger.confirm(held)
    _append(written_ledger, kind="void", reservation=held, payload={"reason": "x"})
    _detected(
        written_ledger,
        event,
        "row 9 .*cannot be given back: its run confirmed it just before it drew noise .row 8.",
    )


@pytest.mark.parametrize(("number", "state"), [(1, "committed"), (2, "void")])
def test_a_closed_run_cannot_be_confirmed_behind_the_ledgers_back(
    written_ledger, event, number, state
):
    held = [
        entry.reservation
        for entry in written_ledger.history("patients")
        if entry.kind == "reserve"
    ][number - 1]
    _append(written_ledger, kind="confirm", reservation=held, payload={})
    _detected(written_ledger, event, f"row 7 .*{state} already")


def test_a_reservation_cannot_be_closed_for_another_data_set(written_ledger, event):
    reservation = written_ledger.reserve(
        "patients", [event(0.01)], adjacency="add-remove", purpose="x"
    )
    _append(
        written_ledger,
        kind="void",
        reservation=reservation,
        dataset="others",
        payload={"reason": "x"},
    )
    _detected(written_ledger, event, "row 8 .*is one of data set 'patients'")


def test_check_finds_an_account_over_its_cap(written_ledger, event):
    from noisegate.privacy.events import event_to_json

    _append(
        written_ledger,
        kind="reserve",
        payload={"events": [event_to_json(event(share=0.6))], "purpose": "x"},
    )
    with pytest.raises(
        LedgerError, match=r"'patients' is over its cap by row 7: ε = 1\.0\d+ of 1"
    ):
        written_ledger.check()


def test_equal_values_have_one_canonical_text():
    values = [{"b": 1.0, "a": [True, None, "ü"]}, {"a": [True, None, "ü"], "b": 1.0}]
    assert {canonical(value) for value in values} == {
        '{"a":[true,null,"\\u00fc"],"b":1.0}'
    }
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(float("nan"))


def test_postgresql_detects_a_changed_and_a_missing_row(database, event):
    import psycopg

    ledger = Ledger(database)
    ledger.register("patients", epsilon=1, delta=1e-5)
    ledger.reserve("patients", [event(0.5)], adjacency="add-remove", purpose="first")
    with psycopg.connect(database) as connection:
        connection.execute(
            "UPDATE noisegate_entries SET payload = replace(payload, '10000.0', '10.0')"
        )
    _detected(ledger, event, "at row 2: its contents")
    with psycopg.connect(database) as connection:
        connection.execute("DELETE FROM noisegate_entries WHERE sequence = 2")
    _detected(ledger, event, "at row 2: the ledger should have 2 rows and has 1")
