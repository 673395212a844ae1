from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from noisegate.data import TableSource, draft_schema
from noisegate.errors import DataError, SchemaError
from noisegate.schema import Boolean, Categorical, Continuous, Date, Datetime, Integer

PUBLIC = {
    "age": ([18, 47, 89], Integer(name="age", lower=10, upper=90)),
    "gain": (["0", "?", "99999"], Integer(name="gain", lower=0, upper=100000, missing=True)),
    "rate": ([0.1234, -0.5, 1.75], Continuous(name="rate", lower=-1, upper=2)),
    "one": ([5, 5, 5], Integer(name="one", lower=2, upper=8)),
    "zip": (["02139", "02139", "90210"], Categorical(name="zip", levels=("02139", "90210"))),
    "work": (["b", " a", "NA"], Categorical(name="work", levels=("a", "b"), missing=True)),
    "ok": (["true", "False", "true"], Boolean(name="ok")),
    "hit": ([0, 1, 1], Categorical(name="hit", levels=(0, 1))),
    "class": ([1, 2, 4], Categorical(name="class", levels=(1, 2, 4))),
    "born": (
        ["1950-03-04", "2001-12-31", "1970-01-01"],
        Date(name="born", lower=date(1950, 1, 1), upper=date(2001, 12, 31)),
    ),
    "seen": (
        ["2020-05-06T07:08:09Z", "2021-01-01T00:00:00+02:00", "2020-01-01T00:00:00Z"],
        Datetime(
            name="seen",
            lower=datetime(2020, 1, 1, tzinfo=UTC),
            upper=datetime(2020, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        ),
    ),
}


def test_a_draft_from_csv_has_the_expected_columns_and_reads_its_own_file(tmp_path):
    path = tmp_path / "public.csv"
    pa.csv.write_csv(pa.table({name: values for name, (values, _) in PUBLIC.items()}), path)
    schema = draft_schema(path, label="class")
    assert schema.columns == tuple(column for _, column in PUBLIC.values())
    assert schema.label == "class"
    assert sum(len(batch) for batch in TableSource(path, schema).batches()) == 3


def test_a_draft_from_parquet_uses_the_types(people, tmp_path):
    path = tmp_path / "public.parquet"
    pa.parquet.write_table(people, path)
    schema = draft_schema(path)
    assert [column.kind for column in schema.columns] == [
        "integer",
        "continuous",
        "categorical",
        "integer",
        "boolean",
        "date",
        "datetime",
    ]
    assert [column.missing for column in schema.columns] == [True, True, True, False, True, False, False]
    assert sum(len(batch) for batch in TableSource(path, schema).batches()) == 300


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"note": [f"text {i}" for i in range(201)]}, "column 'note': 201 distinct texts, more than 200.*ignore"),
        ({"gone": ["?", ""]}, "column 'gone': every value is missing"),
        ({"far": ["inf", "-inf"]}, "column 'far': no finite number"),
    ],
)
def test_columns_without_a_draft_are_named(table, says, tmp_path):
    path = tmp_path / "public.csv"
    pa.csv.write_csv(pa.table(table), path)
    with pytest.raises(SchemaError, match=says):
        draft_schema(path)


def test_no_label_no_records(tmp_path):
    path = tmp_path / "public.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(SchemaError, match=r"label 'c' is not a column of public\.csv: a, b"):
        draft_schema(path, label="c")
    path.write_text("a,b\n")
    with pytest.raises(DataError, match="no records"):
        draft_schema(path)
