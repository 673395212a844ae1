"""Queries that are computed at each reading: DuckDB's, and those of whoever speaks Arrow's stream."""

import pickle
import subprocess
import sys

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import categorical, continuous, integer

from noisegate import fit
from noisegate.errors import DataError
from noisegate.schema import Schema, decode
from noisegate.sources.sources import open_source
from noisegate.sources.tables import memory
from noisegate.sources.units import UnitLimit

SCHEMA = Schema(
    [
        integer("age", 0, 99),
        continuous("The pay", 0, 1e8),
        categorical("job", ("nurse", "baker")),
    ],
    ignore=("id",),
)
QUERY = """
    SELECT range % 90 AS age, range // 2 AS id,
           CAST(range AS DOUBLE) AS "The pay",
           CASE WHEN range % 2 = 0 THEN 'nurse' ELSE 'baker' END AS job
    FROM range({rows})
"""


def relation(rows, connection=None):
    return (connection or duckdb.connect()).sql(QUERY.format(rows=rows))


def read(data, schema=SCHEMA, **options):
    return [
        row
        for rows in open_source(data, schema, **options).batches()
        for row in decode(rows, schema).to_pylist()
    ]


def test_a_relation_of_duckdb_is_read_anew_in_each_pass():
    source = open_source(relation(100_000), SCHEMA)
    first, second = ([rows.numeric for rows in source.batches()] for _ in range(2))
    assert sum(map(len, first)) == 100_000
    assert all(map(np.array_equal, first, second))
    assert max(map(len, first)) <= source.batch_rows


def test_a_reading_that_stops_early_leaves_the_connection_free():
    connection = duckdb.connect()
    data = relation(1_000_000, connection)
    batches = open_source(data, SCHEMA).batches()
    next(batches)
    batches.close()
    assert connection.sql("SELECT 1").fetchall() == [(1,)]
    assert len(read(connection.sql(QUERY.format(rows=9)))) == 9


def test_only_the_columns_of_the_schema_are_computed():
    data = duckdb.sql("SELECT 5 AS age, error('computed') AS id")
    schema = Schema(SCHEMA.columns[:1], ignore=("id",))
    assert read(data, schema) == [{"age": 5}]


def test_records_of_a_relation_have_units():
    rows = read(relation(100), units=UnitLimit(column="id", contributions=1))
    assert len(rows) == 50


def test_a_relation_that_fails_is_refused_without_its_values():
    data = duckdb.sql("SELECT 5 AS age UNION ALL SELECT error('canary')::INT")
    with pytest.raises(DataError, match="cannot be read to its end") as refusal:
        read(data, Schema(SCHEMA.columns[:1]))
    assert "canary" not in str(refusal.value)
    assert refusal.value.__context__ is None


def test_a_wrong_record_of_a_relation_is_named():
    data = duckdb.sql("SELECT 5 AS age UNION ALL SELECT NULL")
    with pytest.raises(DataError, match="DuckDBPyRelation, record 2, column 'age'"):
        read(data, Schema(SCHEMA.columns[:1]))


def test_a_fit_to_a_relation_makes_tables_of_arrow():
    model = fit(relation(3000), schema=SCHEMA, epsilon=1.0)
    sample = model.sample(10)
    assert isinstance(sample, pa.Table)
    assert sample.column_names == list(SCHEMA.names)


class OneShot:
    """Something that hands out its records once."""

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.table({"age": [5]}).__arrow_c_stream__(requested_schema)


def test_another_stream_is_refused_with_the_line_that_keeps_it():
    with pytest.raises(DataError, match=r"data = pyarrow\.table\(data\)"):
        read(OneShot(), Schema(SCHEMA.columns[:1]))
    assert read(pa.table(OneShot()), Schema(SCHEMA.columns[:1])) == [{"age": 5}]


@pytest.mark.parametrize("package", ["ibis", "datafusion"])
def test_queries_of_other_libraries_are_read_in_batches(package, monkeypatch):
    """Neither library is installed for the tests: what is used of them is played."""

    class Query:
        def limit(self, rows):
            assert rows == 0
            return Played(rows)

        def select(self, names):
            return self

        def to_pyarrow_batches(self):
            return pa.table({"age": [5, 6]}).to_reader(1)

        def __arrow_c_stream__(self, requested_schema=None):
            assert package == "datafusion"
            reader = pa.table({"age": [5, 6]}).to_reader(1)
            return reader.__arrow_c_stream__(requested_schema)

    class Played(Query):
        def __init__(self, rows=2):
            self.rows = rows

    module = type(sys)(package)
    module.Table = module.DataFrame = Query
    monkeypatch.setitem(sys.modules, package, module)
    assert [row["age"] for row in read(Played(), Schema(SCHEMA.columns[:1]))] == [5, 6]
    assert memory.query_package(Played()) == package


PEAK = """
import importlib.util
import resource
import sys

from noisegate.sources.sources import open_source

spec = importlib.util.spec_from_file_location("queries", sys.argv[2])
queries = importlib.util.module_from_spec(spec)
spec.loader.exec_module(queries)
source = open_source(queries.relation(int(sys.argv[1])), queries.SCHEMA)
for _ in range(2):
    rows = sum(len(batch) for batch in source.batches())
print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def peak_of(rows):
    """Returns the peak of memory of a process that reads a relation twice, in MB."""
    outcome = subprocess.run(
        [sys.executable, "-c", PEAK, str(rows), __file__],
        capture_output=True,
        text=True,
        check=True,
    )
    count, megabytes = map(int, outcome.stdout.split())
    assert count == rows
    print(rows, megabytes)
    return megabytes


def test_memory_does_not_grow_with_a_relation():
    assert peak_of(3_000_000) < peak_of(300_000) + 60


@pytest.mark.slow
def test_memory_does_not_grow_with_twenty_million_records():
    assert peak_of(20_000_000) < peak_of(300_000) + 60


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.sql(f'CREATE TABLE "The staff" AS {QUERY.format(rows=5000)}')
    return path


def test_a_table_in_a_file_of_duckdb_is_read_by_its_address(database, monkeypatch):
    addresses = [
        f"duckdb://{database}?table=The%20staff",
        f"duckdb:///{database}",
        f"duckdb:///{database.name}",
    ]
    monkeypatch.chdir(database.parent)
    for address in addresses:
        source = open_source(address, SCHEMA)
        assert sum(map(len, source.batches())) == 5000
        [part] = source.split_into_parts(100)
        monkeypatch.chdir("/")
        part = pickle.loads(pickle.dumps(part))
        assert sum(len(rows()) for rows in part.batch_readers()) == 5000
        monkeypatch.chdir(database.parent)


def test_the_table_of_a_file_of_duckdb_is_named(database, tmp_path):
    with pytest.raises(DataError, match="has no table 'visits', but The staff; name"):
        read(f"duckdb://{database}?table=visits")
    with duckdb.connect(str(database)) as connection:
        connection.sql("CREATE TABLE visits AS SELECT 5 AS age")
    with pytest.raises(DataError, match="has not one table, but The staff, visits;"):
        read(f"duckdb://{database}")
    schema = Schema(SCHEMA.columns[:1])
    assert read(f"duckdb://{database}?table=visits", schema) == [{"age": 5}]
    with pytest.raises(DataError, match="there is no such file; check the path"):
        read(f"duckdb://{tmp_path}/none.duckdb")
    (tmp_path / "x.duckdb").write_text("x" * 9999)
    with pytest.raises(DataError, match=r"x\.duckdb: cannot be opened by DuckDB"):
        read(f"duckdb://{tmp_path}/x.duckdb")
