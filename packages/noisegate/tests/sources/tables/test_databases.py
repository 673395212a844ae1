"""Tables in databases by their address: of a real server of PostgreSQL, and in files of SQLite."""

import datetime as dt
import importlib.util
import pickle
import sqlite3
import subprocess
import sys
import types
from contextlib import closing
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer, ordinal

from noisegate.app.cli.fit import ConsoleObserver
from noisegate.app.drafts.draft import draft
from noisegate.app.drafts.linked import table_names
from noisegate.app.runs.folder import RunFolder
from noisegate.errors import DataError, MissingExtraError, OptionError
from noisegate.schema import (
    Date,
    Datetime,
    Decimal,
    Duration,
    Schema,
    decode,
)
from noisegate.sources.overlap import check_apart
from noisegate.sources.sources import open_source
from noisegate.sources.split import part_paths, split_records
from noisegate.sources.tables.addresses import parse_server_address
from noisegate.sources.tables.tables import find_files
from noisegate.sources.units import UnitLimit

SCHEMA = Schema(
    [
        integer("age", 0, 99, missing=True),
        integer("small", 0, 9),
        continuous("pay", 0, 1e6, missing=True),
        continuous("weight", 0, 1e6),
        Decimal(name="price", lower=0, upper=999, step=0.01, missing=True),
        Date(name="day", lower="2020-01-01", upper="2021-12-31", missing=True),
        Datetime(name="seen", lower="2020-01-01T00:00", upper="2021-12-31T00:00"),
        Datetime(name="sent", lower="2020-01-01T00:00Z", upper="2021-12-31T00:00Z"),
        Duration(name="stay", lower="0 days", upper="9 days", missing=True),
        boolean("ill", missing=True),
        categorical("job", ("nurse", "bäcker"), missing=True),
        categorical("code", ("ab", "abc")),
        ordinal("grade", ("low", "high")),
        ordinal("level", (1, 2, 3)),
        categorical('we"ird; name', ("x'y", 'x"y')),
    ],
    ignore=("id", "papers"),
)
_POSTGRESQL_TYPES = {
    "age": "bigint",
    "small": "digit",
    "pay": "double precision",
    "weight": "numeric",
    "price": "numeric(10, 2)",
    "day": "date",
    "seen": "timestamp",
    "sent": "timestamptz",
    "stay": "interval",
    "ill": "boolean",
    "job": "varchar(9)",
    "code": "char(5)",
    "grade": "grade",
    "level": "smallint",
    'we"ird; name': "text",
    "id": "bigint",
    "papers": "json",
}


def records(count):
    """Records of all kinds, as texts by the names of their columns; None is missing."""
    start = dt.datetime(2020, 1, 1, 4, 5, 6, 789000)
    rows = []
    for row in range(count):
        moment = start + dt.timedelta(hours=row % 9000)
        rows.append(
            {
                "age": None if row % 10 == 0 else str(row % 90),
                "small": str(row % 10),
                "pay": None if row % 7 == 0 else repr(row / 3),
                "weight": f"{row}.12345678901234567890",
                "price": None if row % 11 == 0 else f"{row % 900}.50",
                "day": None if row % 5 == 0 else str(moment.date()),
                "seen": moment.isoformat(),
                "sent": f"{moment.isoformat()}Z",
                "stay": None if row % 6 == 0 else f"P{row % 9}DT{row % 24}H5M",
                "ill": (None, "true", "false")[row % 3],
                "job": ("nurse", "bäcker", None)[row % 3],
                "code": ("ab", "abc")[row % 2],
                "grade": ("low", "high")[row % 2],
                "level": str(1 + row % 3),
                'we"ird; name': ("x'y", 'x"y')[row % 2],
                "id": str(row),
                "papers": None if row % 2 else '{"a": 1}',
            }
        )
    return rows


def quoted(name):
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def fill_postgresql(url, rows):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TYPE grade AS ENUM ('low', 'high')")
        connection.execute("CREATE DOMAIN digit AS integer CHECK (value < 10)")
        columns = ", ".join(f"{quoted(n)} {t}" for n, t in _POSTGRESQL_TYPES.items())
        connection.execute(f"CREATE TABLE {quoted('The staff')} ({columns})")
        copy = connection.cursor().copy(f"COPY {quoted('The staff')} FROM STDIN")
        with copy as stream:
            for row in rows:
                stream.write_row([row[name] for name in _POSTGRESQL_TYPES])


def fill_sqlite(path, rows):
    """SQLite's own types: whole numbers, floats and text, also where a column says otherwise."""
    numbers = {"age": int, "small": int, "pay": float, "level": int, "id": int}
    with closing(sqlite3.connect(path)) as connection, connection:
        columns = ", ".join(f"{quoted(n)} BLOB" for n in rows[0])
        connection.execute(f"CREATE TABLE {quoted('The staff')} ({columns})")
        marks = ", ".join("?" for _ in rows[0])
        connection.executemany(
            f"INSERT INTO {quoted('The staff')} VALUES ({marks})",
            [
                [
                    cell if cell is None else numbers.get(name, str)(cell)
                    for name, cell in row.items()
                ]
                for row in rows
            ],
        )


@pytest.fixture
def address_of(request, tmp_path):
    """Fills one table in a database of a kind; returns its address, without the table."""

    @cache
    def fill(kind):
        if kind == "sqlite":
            fill_sqlite(tmp_path / "clinic.sqlite", records(500))
            return f"sqlite://{tmp_path}/clinic.sqlite"
        url = request.getfixturevalue("database")
        fill_postgresql(url, records(500))
        return url

    return fill


def named(address, table):
    """The address of a table."""
    return f"{address}{'&' if '?' in address else '?'}table={table}"


def read(data, schema=SCHEMA, **options):
    return [
        row
        for rows in open_source(data, schema, **options).batches()
        for row in decode(rows, schema).to_pylist()
    ]


def sql(url, *statements):
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


AGES = Schema([integer("age", 0, 99)])


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_each_kind_of_column_reads_as_from_csv(address_of, kind, tmp_path):
    texts = pa.table(
        {name: [row[name] for row in records(500)] for name in _POSTGRESQL_TYPES}
    )
    pacsv.write_csv(texts, tmp_path / "staff.csv")
    address = named(address_of(kind), "The%20staff")
    from_csv = list(open_source(tmp_path / "staff.csv", SCHEMA).batches())
    from_database = list(open_source(address, SCHEMA).batches())
    for expected, found in zip(from_csv, from_database, strict=True):
        assert np.array_equal(expected.numeric, found.numeric, equal_nan=True)
        assert np.array_equal(expected.codes, found.codes)
    # The only table need not be named.
    assert read(address_of(kind)) == read(tmp_path / "staff.csv")


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_a_table_is_read_in_batches_and_anew_in_each_pass(address_of, kind):
    source = open_source(address_of(kind), SCHEMA)
    source.batch_rows = 64
    passes = [[rows.numeric for rows in source.batches()] for _ in range(2)]
    assert [len(batch) for batch in passes[0]] == [64] * 7 + [52]
    for first, second in zip(*passes, strict=True):
        assert np.array_equal(first, second, equal_nan=True)
    stopped = source.batches()
    next(stopped)
    stopped.close()
    limited = open_source(
        address_of(kind), SCHEMA, units=UnitLimit(column="id", contributions=1)
    )
    assert sum(map(len, limited.batches())) == 500


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_a_table_in_a_database_is_drafted(address_of, kind):
    drafted = draft(address_of(kind))
    kinds = {column.name: column.kind for column in drafted.schema.columns}
    assert kinds["price"] == "decimal"
    assert kinds["day"] == "date"
    assert kinds["level"] in ("integer", "ordinal")
    assert kinds["job"] == "categorical"
    assert "id" in drafted.ignored
    # JSON is text in SQLite.
    assert ("papers" in drafted.ignored) == (kind == "postgresql")


def test_views_schemas_and_quoted_names_of_postgresql(database):
    sql(
        database,
        "CREATE TABLE visits AS SELECT 5 AS age",
        "CREATE VIEW seen AS SELECT age + 1 AS age FROM visits",
        "CREATE MATERIALIZED VIEW stored AS SELECT age + 2 AS age FROM visits",
        "CREATE SCHEMA lab",
        "CREATE TABLE lab.visits AS SELECT 8 AS age",
        """CREATE TABLE "we'ird"".name" AS SELECT 9 AS age""",
    )
    ages = {
        "visits": 5,
        "public.visits": 5,
        "seen": 6,
        "stored": 7,
        "lab.visits": 8,
        "we%27ird%22.name": 9,
    }
    for table, age in ages.items():
        assert read(named(database, table), AGES) == [{"age": age}]
    with pytest.raises(
        DataError, match=r"has not one table, but seen, stored, visits,"
    ):
        read(database, AGES)
    with pytest.raises(
        DataError, match=r"no table 'vsits', but .*lab.visits \(did you"
    ):
        read(named(database, "vsits"), AGES)


def test_what_arrow_lacks_of_postgresql_is_moved_or_refused(database):
    sql(
        database,
        "CREATE TABLE t AS SELECT 'infinity'::date AS day, '-infinity'::date AS first, "
        "'infinity'::timestamp AS seen, '-infinity'::timestamptz AS sent, "
        "'99999-01-01'::date AS late, '$1,234.50'::money AS price",
        "CREATE TABLE n AS SELECT 'NaN'::numeric AS age",
    )
    schema = Schema(
        [
            *[
                Date(name=name, lower="2020-01-01", upper="2021-12-31")
                for name in ("day", "first", "late")
            ],
            Datetime(name="seen", lower="2020-01-01T00:00", upper="2021-12-31T00:00"),
            Datetime(name="sent", lower="2020-01-01T00:00Z", upper="2021-12-31T00:00Z"),
            Decimal(name="price", lower=0, upper=9999, step=0.01),
        ]
    )
    [row] = read(named(database, "t"), schema)
    assert row["day"] == row["late"] == dt.date(2021, 12, 31)
    assert row["first"] == dt.date(2020, 1, 1)
    assert row["seen"] == dt.datetime(2021, 12, 31)
    assert row["sent"] == dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    assert float(row["price"]) == 1234.5
    with pytest.raises(
        DataError, match="n, record 1, column 'age': the value is missing"
    ):
        read(named(database, "n"), AGES)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("'{}'::json", "json"),
        ("'x'::bytea", "bytea"),
        ("ARRAY[1, 2]", r"integer\[\]"),
        ("ROW(1, 2)", "record"),
    ],
)
def test_a_type_without_a_kind_is_named_and_can_be_ignored(database, value, shown):
    if shown == "record":
        sql(database, "CREATE TYPE record2 AS (a int, b int)")
        value = f"{value}::record2"
        shown = "record2"
    sql(database, f"CREATE TABLE t AS SELECT 5 AS age, {value} AS x")
    for column in (
        integer("x", 0, 9),
        boolean("x", missing=True),
    ):
        schema = Schema([*AGES.columns, column])
        with pytest.raises(
            DataError,
            match=f"t, column 'x': expected .* found a column of values of type {shown}; "
            ".* or put it under `ignore`",
        ):
            read(database, schema)
    assert read(database, Schema(AGES.columns, ignore=("x",))) == [{"age": 5}]


def test_cells_of_sqlite_become_text_each_by_itself(tmp_path):
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE t (n INTEGER, b, u)")
        cells = [(1,), ("2",), (3.0,), (0.1,), (None,), (2**62,), ("-1e-7",), (-1e-7,)]
        connection.executemany("INSERT INTO t (n) VALUES (?)", cells)
        connection.execute("UPDATE t SET b = x'00ff', u = CAST(x'ff41' AS TEXT)")
    [origin] = find_files(Path(f"sqlite://{path}"))
    expected = ["1", "2", "3", "0.1", None, str(2**62), "-1e-07", "-1e-07"]
    for rows in (1, 2, 3, 99):
        batches = [batch["n"] for batch in origin.batches(["n"], rows)]
        assert pa.chunked_array(batches).to_pylist() == expected
    for column in "bu":
        message = f"column '{column}': holds bytes"
        with pytest.raises(DataError, match=message) as refusal:
            list(origin.batches([column], 9))
        assert refusal.value.__context__ is None


def test_a_file_of_sqlite_can_be_read_in_another_process(address_of, monkeypatch):
    source = open_source(address_of("sqlite"), SCHEMA)
    [part] = source.split_into_parts(100)
    monkeypatch.chdir("/")
    part = pickle.loads(pickle.dumps(part))
    assert sum(len(rows()) for rows in part.batch_readers()) == 500


def test_a_table_of_a_server_is_not_divided_among_workers(address_of):
    source = open_source(address_of("postgresql"), SCHEMA)
    with pytest.raises(OptionError, match="in memory or of a server; write it to Parq"):
        source.check_can_be_split()


def test_reading_cannot_write(database):
    sql(
        database,
        "CREATE TABLE log (age int)",
        "CREATE FUNCTION spy() RETURNS int LANGUAGE sql AS "
        "'INSERT INTO log VALUES (1) RETURNING age'",
        "CREATE VIEW t AS SELECT spy() AS age",
    )
    with pytest.raises(DataError, match="table t: cannot be read to its end"):
        read(named(database, "t"), AGES)


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE t",
        "ALTER TABLE t DROP COLUMN age",
        "UPDATE t SET d = 0",
    ],
)
def test_a_pass_that_fails_quotes_nothing(database, change):
    sql(
        database,
        "CREATE TABLE t AS SELECT 5 AS age, 1 AS d, 'canary' AS word",
        "CREATE VIEW v AS SELECT age / d AS age FROM t" if "UPDATE" in change else "",
    )
    table = "v" if "UPDATE" in change else "t"
    schema = Schema(AGES.columns, ignore=("d", "word"))
    source = open_source(named(database, table), schema)
    assert sum(map(len, source.batches())) == 1
    sql(database, change)
    message = f"table {table}: cannot be read to its end; it was changed or dropped"
    with pytest.raises(DataError, match=message) as refusal:
        list(source.batches())
    assert refusal.value.__context__ is None


def test_a_server_that_is_not_there_or_is_asked_wrongly(database, monkeypatch):
    for url, message in {
        "postgresql://me:secret@127.0.0.1:1/db?table=t": "postgresql://me@127.0.0.1:1/db: cannot be reached",
        "postgres://me:se/cr@et@127.0.0.1:1/db": "postgres://me@127.0.0.1:1/db: cannot be reached",
        database.replace("/fresh", "/nowhere"): "/nowhere: cannot be reached",
        "postgresql://me:secret@host": "postgresql: this is not the address of a table",
        "postgresql://me:secret/db": "postgresql: this is not the address of a table",
        "postgresql://h/db?password=secret&port=x": "postgresql://h/db: cannot be reached",
        named(database, "t"): "has no table 't', but none",
        "snowflake://me:secret@account/db/lab?table=t": "snowflake://me@account/db/lab needs adbc_driver_snow",
        "mysql://me:secret@host/db?table=t&password=secret": "mysql://me@host/db",
    }.items():  # fmt: skip
        with pytest.raises((DataError, OptionError, MissingExtraError)) as refusal:
            read(url, AGES)
        assert message in str(refusal.value)
        assert "secret" not in str(refusal.value)
        assert "cr@" not in str(refusal.value)
        assert refusal.value.__context__ is None
    monkeypatch.setattr("noisegate.errors.find_spec", lambda _: None)
    with pytest.raises(
        MissingExtraError, match=r"pip install 'noisegate\[databases\]'"
    ):
        read(database, AGES)


def test_a_database_on_this_machine_needs_no_server_in_its_address():
    for path in ("postgresql:///clinic?table=t", "postgresql://clinic?table=t"):
        address = parse_server_address(Path(path))
        assert address.shown == "postgresql:///clinic"
        assert address.table == "t"
        assert address.uri("a=1") == "postgresql:///clinic?a=1"
    several = parse_server_address(Path("postgres://u@[::1]:5432,b:1/db?sslmode=off"))
    assert several.uri() == "postgres://u@[::1]:5432,b:1/db?sslmode=off"
    assert "secret" not in repr(parse_server_address(Path("postgresql://u:secret@h/d")))


def test_the_command_that_resumes_a_fit_has_no_password(tmp_path):
    folder = RunFolder(tmp_path / "model")
    observer = ConsoleObserver("auto", as_json=False)
    address = "postgresql://me:se/cr@et@host/db?table=t&password=secret"
    shown = "'postgresql://me@host/db?table=t&password=***' --out"
    for data in (address, Path(address), {"visits": address}):
        assert shown in observer.call(folder, data)


@pytest.fixture
def locked(database):
    """The address of a user who needs a password, for whom the fixture's server asks."""
    home = database.partition("host=")[2]
    rules = Path(home) / "data" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local all locked scram-sha-256\n{before}")
    sql(
        database,
        "DROP ROLE IF EXISTS locked",
        "CREATE ROLE locked LOGIN PASSWORD 's#e/c:r@t'",
        "CREATE TABLE visits AS SELECT 5 AS age",
        "CREATE TABLE hidden AS SELECT 5 AS age",
        "GRANT SELECT ON visits TO locked",
        "SELECT pg_reload_conf()",
    )
    yield database.replace("noisegate@", "locked@")
    rules.write_text(before)
    sql(database, "SELECT pg_reload_conf()", "DROP OWNED BY locked")


def test_a_password_comes_from_the_environment_or_the_address(locked, monkeypatch):
    with pytest.raises(DataError, match="the server does not let this user in; check"):
        read(locked, AGES)
    with pytest.raises(
        DataError, match="the server does not let this user in"
    ) as wrong:
        read(locked.replace("locked@", "locked:canary@"), AGES)
    assert "canary" not in str(wrong.value)
    # Tables that the user may not read are none.
    for password in ("s#e/c:r@t", "s%23e%2Fc%3Ar%40t"):
        assert read(locked.replace("@", f":{password}@"), AGES) == [{"age": 5}]
    monkeypatch.setenv("PGPASSWORD", "s#e/c:r@t")
    assert read(locked, AGES) == [{"age": 5}]


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_a_table_in_a_database_is_split_into_files_of_its_name(
    address_of, kind, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    address = named(address_of(kind), "The%20staff")
    parts = split_records(address, 0.5, unit_column="id")
    assert (
        parts
        == part_paths(address)
        == (
            Path("The_staff-train.parquet"),
            Path("The_staff-test.parquet"),
        )
    )
    split = sorted([row for part in parts for row in read(part)], key=str)
    assert split == sorted(read(address), key=str)
    assert all(part.stat().st_mode & 0o77 == 0 for part in parts)
    assert pq.read_metadata(parts[0]).num_rows > 150


def test_a_table_of_duckdb_is_split_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("clinic.duckdb") as connection:
        connection.sql("CREATE TABLE visits AS SELECT range AS age FROM range(90)")
    parts = split_records("duckdb:///clinic.duckdb?table=visits", 0.5)
    assert [part.name for part in parts] == [
        "visits-train.parquet",
        "visits-test.parquet",
    ]
    assert sum(len(read(part, AGES)) for part in parts) == 90


def test_tables_in_databases_have_names_and_are_apart(address_of, tmp_path):
    staff = Path(named(address_of("postgresql"), "The%20staff"))
    visits = Path(named(address_of("sqlite"), "visits"))
    assert list(table_names([staff, visits])) == ["The_staff", "visits"]
    check_apart(str(staff), str(visits))
    check_apart(str(staff), str(tmp_path / "clinic.sqlite"))
    with pytest.raises(DataError, match="is the table of the private data"):
        check_apart(str(staff), str(staff))


def test_the_table_of_a_file_of_sqlite_is_named(tmp_path):
    path = tmp_path / "clinic.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE visits (age INTEGER PRIMARY KEY AUTOINCREMENT)"
        )
        connection.execute("CREATE VIEW seen AS SELECT age + 1 AS age FROM visits")
        connection.execute("INSERT INTO visits VALUES (5)")
    assert read(f"sqlite://{path}?table=seen", AGES) == [{"age": 6}]
    with pytest.raises(
        DataError, match=r"clinic\.sqlite: has not one table, but seen, v"
    ):
        read(f"sqlite://{path}", AGES)
    with pytest.raises(DataError, match="there is no such file; check the path"):
        read(f"sqlite://{tmp_path}/none.sqlite", AGES)
    path.write_text("x" * 9999)
    with pytest.raises(
        DataError, match="cannot be read as a file of SQLite"
    ) as refusal:
        read(f"sqlite://{path}", AGES)
    assert refusal.value.__context__ is None


def test_snowflake_is_read_by_its_driver(database, monkeypatch):
    """Its driver is not installed for the tests: PostgreSQL's plays it, with the SQL for Snowflake."""
    import adbc_driver_postgresql.dbapi as driver

    sql(database, """CREATE TABLE "THE visits" AS SELECT 5 AS "age" """)
    statements = []
    played = types.ModuleType("adbc_driver_snowflake")
    played.__spec__ = importlib.util.spec_from_loader("adbc_driver_snowflake", None)
    dbapi = types.ModuleType("adbc_driver_snowflake.dbapi")
    dbapi.Error = driver.Error
    dbapi.connect = lambda uri: statements.append(uri) or driver.connect(database)
    monkeypatch.setitem(sys.modules, "adbc_driver_snowflake", played)
    monkeypatch.setitem(sys.modules, "adbc_driver_snowflake.dbapi", dbapi)
    address = "snowflake://me:pw@account/db/lab?warehouse=w&table=THE%20visits"
    assert read(address, AGES) == [{"age": 5}]
    assert statements == ["me:pw@account/db/lab?warehouse=w"] * 2


PEAK = """
import resource, sys
from noisegate.schema import Continuous, Integer, Schema
from noisegate.sources.sources import open_source
schema = Schema([Integer(name="age", lower=0, upper=99), Continuous(name="pay", lower=0, upper=1e9)])
source = open_source(sys.argv[1], schema)
for _ in range(2):
    rows = sum(len(batch) for batch in source.batches())
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def peak_of(address):
    """Returns how many records a process has read twice, and its peak of memory in MB."""
    outcome = subprocess.run(
        [sys.executable, "-c", PEAK, address],
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(map(int, outcome.stdout.split()))


@pytest.mark.parametrize("kind", ["postgresql", "sqlite"])
def test_memory_does_not_grow_with_a_table(request, kind, tmp_path):
    peaks = []
    for rows in (100_000, 600_000):
        if kind == "postgresql":
            database = request.getfixturevalue("database")
            table = f"t{rows}"
            sql(
                database,
                f"CREATE TABLE {table} AS SELECT (n % 90)::int AS age, n / 7.0 AS pay "
                f"FROM generate_series(1, {rows}) AS n",
            )
            address = named(database, table)
        else:
            path = tmp_path / f"{rows}.sqlite"
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute(
                    "CREATE TABLE t AS WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT"
                    f" n + 1 FROM s WHERE n < {rows}) SELECT n % 90 AS age, n / 7.0 AS pay FROM s"
                )
            address = f"sqlite://{path}"
        count, megabytes = peak_of(address)
        assert count == rows
        peaks.append(megabytes)
    # All records of the larger table at once would take 48 MB more, or twice that.
    assert peaks[1] < peaks[0] + 40
