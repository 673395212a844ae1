"""A test file may have a level that the schema, drafted before it, does not know."""

import pyarrow as pa
import pyarrow.csv
import pytest

from noisegate import evaluate
from noisegate.schema.schema import read_schema

SCHEMA = """
[columns.ward]
kind = "categorical"
levels = ["a", "b"]
[columns.age]
kind = "integer"
lower = 0
upper = 9
"""
NOTE = "10 test records have a level that is not in the schema, and are left out"


@pytest.fixture
def paths(tmp_path):
    ages = list(range(10)) * 10
    wards = {"synthetic": ["a", "b"] * 50, "test": ["a"] * 50 + ["b"] * 40 + ["z"] * 10}
    for name, levels in wards.items():
        table = pa.table({"ward": levels, "age": ages})
        pyarrow.csv.write_csv(table, tmp_path / f"{name}.csv")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    return {name: tmp_path / f"{name}.csv" for name in wards} | {
        "schema": tmp_path / "schema.toml"
    }


def test_the_command_line_leaves_such_records_out_and_says_so(paths, cli):
    options = [word for name, path in paths.items() for word in (f"--{name}", path)]
    ended = cli("evaluate", *options, "--json")
    assert ended.code == 0
    assert NOTE in ended.json["notes"]


def test_python_leaves_such_records_out_and_says_so(paths):
    report = evaluate(
        paths["synthetic"], paths["test"], schema=read_schema(paths["schema"])
    )
    assert NOTE in report.notes
