"""Files that cannot be: ledgers, models, tables and places to write to, each spoiled in a way of its own."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from .conftest import CANARY, HEADER, argv, refused

GOOD = "30,50.0,nurse,no"


def _statement(text):
    def change(path):
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(text)

    return change


def _cut(share):
    return lambda path: path.write_bytes(
        path.read_bytes()[: int(path.stat().st_size * share)]
    )


def _bytes(content):
    return lambda path: path.write_bytes(content)


def _folder(path):
    path.unlink()
    path.mkdir()


def _loop(path):
    path.unlink()
    path.symlink_to(path.name)


LEDGERS = {
    "text": _bytes(b"no database\n" * 300),
    "the header alone": _bytes(b"SQLite format 3\x00"),
    "half": _cut(0.5),
    "a folder": _folder,
    "a loop": _loop,
    "no entries": _statement("DROP TABLE noisegate_entries"),
    "another cap": _statement(
        "UPDATE noisegate_entries SET payload = replace(payload, '3', '9')"
    ),
}
BOOKS = [
    ["show"],
    ["history", "clinic"],
    ["check"],
    argv("register other --epsilon 1"),
]


@pytest.mark.parametrize("words", BOOKS, ids=" ".join)
@pytest.mark.parametrize("case", LEDGERS)
def test_a_ledger_that_cannot_be(desk, cli, case, words):
    LEDGERS[case](desk.ledger)
    refused(desk, cli, "ledger", arguments=["ledger", *words, "--ledger", desk.ledger])


def _text(old, new):
    return lambda path: path.write_text(path.read_text().replace(old, new))


def _rows(*lines, header=HEADER):
    return lambda path: path.write_text("\n".join([header, *lines]) + "\n")


TABLES = {
    "missing": (Path.unlink, "check the path"),
    "nothing": (_bytes(b""), "empty"),
    "a NUL": (_bytes(b"\x00"),),
    "an archive": (_bytes(b"PK\x03\x04" + bytes(300)),),
    "UTF-16": (lambda path: path.write_bytes(path.read_text().encode("utf-16")),),
    "not UTF-8": (
        _bytes(HEADER.encode() + b"\n30,50.0,\xff\xfe" + CANARY.encode() + b",no\n"),
        "UTF-8",
    ),
    "the header alone": (_rows(), "at least one record"),
    "no header": (
        _rows(GOOD, header=f"30,50.0,{CANARY},no"),
        "age, income, job, answer",
    ),
    "a column more": (
        _rows(f"{GOOD},{CANARY}", header=f"{HEADER},email"),
        "'email'",
        "ignore = ",
    ),
    "a name twice": (_text(HEADER, HEADER + ",age"), "are all called 'age'; rename"),
    "a name too long": (
        _rows(GOOD, header=f"age,{'y' * 200_000},job,answer"),
        "a name may have 131,072 characters",
    ),
    "semicolons": (_text(",", ";"), "semicolons between its fields", "commas"),
    "a field too few": (
        _rows(GOOD, f"30,{CANARY},no"),
        "line 3: expected 4 fields, as the header has, found 3",
    ),
    "words for numbers": (
        _rows(GOOD, f"{CANARY},5,nurse,no"),
        "line 3",
        "'age'",
        "whole number",
        "--show-values",
    ),
    "all missing where none may be": (
        _rows(*[",50.0,nurse,no"] * 20),
        "line 2",
        "'age'",
        "missing = true",
    ),
    "an unknown level": (
        _rows(GOOD, GOOD, f"30,5,{CANARY},no"),
        "line 4",
        "'job'",
        "3 levels",
        "--show-values",
    ),
    "a folder without tables": (_folder, "*.csv"),
    "a loop": (_loop,),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_table_that_cannot_be(desk, cli, case):
    spoil, *messages = TABLES[case]
    spoil(desk.data)
    refused(desk, cli, *(messages or ["data.csv"]))
    desk.unspent()


@pytest.mark.parametrize("case", ["words for numbers", "an unknown level"])
def test_a_private_value_is_told_on_request(desk, cli, case):
    TABLES[case][0](desk.data)
    ended = cli(*desk.fit("--show-values"))
    assert ended.code == 2
    assert CANARY in ended.err
    assert desk.account().spent == 0


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("count", [10**12, 10**15, 10**30])
def test_more_records_than_a_disk_holds(desk, fitted, cli, count, ending, monkeypatch):
    import noisegate.app.cli.sample_files as sample_files

    monkeypatch.setattr(
        sample_files, "disk_usage", lambda _: shutil._ntuple_diskusage(10**12, 0, 10**9)
    )
    messages = ("GB free", "synthetic") if count < 2**53 else ("at most",)
    refused(
        desk,
        cli,
        f"-n {count:,}",
        *messages,
        arguments=argv(f"sample {fitted.out} -n {count} -o synthetic{ending}"),
    )
