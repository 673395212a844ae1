"""From a table in a database to its pages, with a password in the address that stands nowhere afterwards."""

import csv
import io
import sqlite3
from contextlib import closing

import psycopg
import pytest
from tests.journeys.conftest import RECORDS, SCHEMA, survey

SECRET = "se/cr@et"
SPELLED = ("se/cr@et", "se%2Fcr%40et", "cr@et", "cr%40et")


@pytest.fixture
def rows():
    return list(csv.reader(io.StringIO(survey(RECORDS))))[1:]


@pytest.fixture
def server(postgres, rows):
    """An address with a password, of a user for whom the server asks for it in vain: it trusts everybody."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS survey, visits")
        connection.execute(
            "CREATE TABLE survey (age smallint, hours numeric(6, 1), job text, income varchar(3))"
        )
        copy = connection.cursor().copy("COPY survey FROM STDIN")
        with copy as stream:
            for row in rows:
                stream.write_row(row)
        connection.execute(
            "CREATE TABLE visits AS SELECT 5 AS age, '{}'::json AS notes"
        )
    yield postgres.replace("noisegate@", f"noisegate:{SECRET}@")
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE survey, visits")


def no_secret(person, *outcomes):
    """Nothing that was printed or written has the password."""
    texts = [text for outcome in outcomes for text in (outcome.out, outcome.err)]
    files = [
        path
        for folder in (person.folder, person.home)
        for path in folder.rglob("*")
        if path.is_file()
    ]
    assert files
    for spelled in SPELLED:
        assert not [text for text in texts if spelled in text]
        assert not [path for path in files if spelled.encode() in path.read_bytes()]


def test_a_fit_from_postgresql(person, server):
    data = f"'{server}&table=survey'"
    budget = "--epsilon 1 --dataset survey"
    outcomes = [
        person.types(f"noisegate schema init {data} -o draft.toml --label income"),
        person.types(f"noisegate schema init --names-of {data} -o columns.toml"),
        person.types(
            f"noisegate schema discover {data} --kinds age=integer,hours=continuous,"
            "job=categorical,income=categorical --epsilon 0.5 --records 10000 "
            "-o discovered.toml"
        ),
        person.types(f"noisegate split {data} --test 0.2"),
        person.types("noisegate ledger register survey --epsilon 4"),
        person.types(
            f"noisegate fit {data} --schema draft.toml {budget} --out model --log log.txt"
        ),
        person.types("noisegate sample model -n 1000 -o synthetic.csv"),
        person.types(
            f"noisegate evaluate --synthetic synthetic.csv --test {data} --schema "
            "draft.toml --json"
        ),
        person.types(f"noisegate report model -o pages --test {data}"),
        person.types("noisegate verify model"),
    ]
    assert "survey-train.parquet" in person.lies()
    draft = (person.folder / "draft.toml").read_text()
    assert 'kind = "decimal"' in draft
    assert 'kind = "categorical"' in draft
    assert "postgresql://noisegate@/postgres" in outcomes[0].err
    no_secret(person, *outcomes)


def test_start_from_postgresql(person, server):
    (person.folder / "schema.toml").write_text(SCHEMA)
    ended = person.types(
        f"noisegate start --data '{server}&table=survey' --schema schema.toml --records "
        "10000 --epsilon 1 --dataset survey --cap 2 --out model --test 0.2 --pages pages "
        "--yes"
    )
    assert "survey-test.parquet" in person.lies()
    assert "noisegate split 'postgresql://noisegate@/postgres?host=" in ended.err
    no_secret(person, ended)


def test_a_refused_fit_names_the_address_alone(person, server):
    (person.folder / "schema.toml").write_text(SCHEMA)
    with psycopg.connect(server.replace(f":{SECRET}", ""), autocommit=True) as database:
        database.execute("INSERT INTO survey VALUES (NULL, 0, 'nurse', 'yes')")
    refused = person.types(
        f"noisegate fit '{server}&table=survey' --schema schema.toml --epsilon 1 "
        "--out model",
        code=2,
    )
    assert f"table survey, record {RECORDS + 1}, column 'age': the" in refused.err
    no_secret(person, refused)


def test_a_fit_from_sqlite(person, rows):
    with closing(sqlite3.connect(person.folder / "clinic.sqlite")) as file, file:
        file.execute("CREATE TABLE survey (age INTEGER, hours REAL, job TEXT, income)")
        file.executemany("INSERT INTO survey VALUES (?, ?, ?, ?)", rows)
    data = "'sqlite:///clinic.sqlite?table=survey'"
    person.types(f"noisegate schema init {data} -o schema.toml --label income")
    person.types(f"noisegate split {data} --test 0.2")
    person.types(f"noisegate fit {data} --schema schema.toml --epsilon 1 --out model")
    person.types("noisegate report model -o pages --test survey-test.parquet")
    assert person.types("noisegate verify model --json").json["ok"]


def test_what_cannot_be_read_costs_nothing(person, server):
    (person.folder / "schema.toml").write_text(
        '[columns.age]\nkind = "integer"\nlower = 0\nupper = 99\n'
        '[columns.notes]\nkind = "integer"\nlower = 0\nupper = 9\n'
    )
    person.types("noisegate ledger register visits --epsilon 4")
    options = "--schema schema.toml --epsilon 1 --dataset visits --out model"
    wrong = {
        f"{server}&table=vists": "no table 'vists', but ",
        f"{server}&table=visits": "column 'notes': expected a whole number, found a "
        "column of values of type json",
        server.replace("/postgres?", "/nowhere?"): "/nowhere: cannot be reached; check",
        f"postgresql://me:{SECRET}@127.0.0.1:1/db": "me@127.0.0.1:1/db: cannot be",
        f"postgresql://me:{SECRET}@127.0.0.1": "is not the address of a table; write",
        f"oracle://me:{SECRET}@host/db?table=t": "oracle://me@host/db?table=t: records",
        "sqlite:///none.sqlite": "there is no such file",
    }
    fits = [f"noisegate fit '{address}' {options}" for address in wrong]
    refused = person.types_each(fits, code=2)
    for outcome, message in zip(refused, wrong.values(), strict=True):
        assert message in outcome.err.replace("\n", " ")
        assert outcome.err.count("\n") == 1
    misplaced = [
        f"noisegate split a.csv '{server}'",
        f"noisegate fit --table '{server}&table=a' {options}",
        f"noisegate fit --table 'a={server}' {options}",
        f"noisegate fit '{server}' '{server}' {options}",
        f"noisegate evaluate --synthetic '{server}' --test x.csv --schema schema.toml",
        f"noisegate sample '{server}' -n 1",
        f"noisegate fit schema.toml {options.replace('model', repr(server))}",
    ]
    outcomes = [*refused, *person.types_each(misplaced, code=2)]
    [account] = person.types("noisegate ledger show --json").json["accounts"]
    assert account["committed"] == account["reserved"] == 0
    no_secret(person, *outcomes)
