"""Files and tables as people have them: what is drafted of each column, and that a copy is spelt as the file is."""

import tomllib
from datetime import time
from pathlib import Path
from uuid import UUID

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from noisegate.app.drafts.draft import draft
from noisegate.schema import Schema
from noisegate.sources.frames import read_table
from noisegate.sources.sources import open_source

FILES = Path(__file__).with_name("files")
EXPECTED = tomllib.loads((FILES / "expected-drafts.toml").read_text("utf-8"))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_is_drafted_as_it_is_meant_and_written_as_it_is_spelt(name):
    file = FILES / f"{name}.csv"
    drafted = draft(file, label="class" if name == "plain" else None)
    assert {entry.name: dict(entry.form) for entry in drafted.entries} == EXPECTED[name]
    assert Schema.loads(drafted.toml()) == drafted.schema
    cells = read_table(file)
    copy = read_table(file, drafted.schema)
    for column in drafted.schema.columns:
        if getattr(column, "format", None) or getattr(column, "words", None):
            spelt = [cell.removesuffix(".0") for cell in cells[column.name].to_pylist()]
            expected = [
                None if cell in drafted.schema.missing_values else cell
                for cell in spelt
            ]
            assert copy[column.name].cast(pa.string()).to_pylist() == expected, (
                column.name
            )


ROWS = 40
MAP = pa.map_(pa.string(), pa.int64())
ODD = {
    "UUID": lambda age: pd.DataFrame({"age": age, "x": [UUID(int=row) for row in age]}),
    "int and str": lambda age: pd.DataFrame({"age": age, "x": [1, "a"] * (ROWS // 2)}),
    "period[M]": lambda age: pd.DataFrame(
        {"age": age, "x": pd.period_range("2020-01", periods=ROWS, freq="M")}
    ),
    "interval[int64, right]": lambda age: pd.DataFrame(
        {"age": age, "x": pd.cut(pd.Series(age), [-1, 9, 99])}
    ),
    "list<item: int64>": lambda age: pa.table({"age": age, "x": [[1]] * ROWS}),
    "struct<a: int64>": lambda age: pa.table({"age": age, "x": [{"a": 1}] * ROWS}),
    "map<string, int64>": lambda age: pa.table(
        {"age": age, "x": pa.array([[("a", 1)]] * ROWS, MAP)}
    ),
    "time64[ns]": lambda age: pl.DataFrame({"age": age, "x": [time(1)] * ROWS}),
}


@pytest.mark.parametrize("kind", ODD)
def test_no_type_stops_a_draft_nor_the_reading_of_other_columns(kind):
    table = ODD[kind]([row % 20 for row in range(ROWS)])
    drafted = draft(table)
    assert (
        drafted.ignored["x"]
        == f"x: ignored: values of type {kind} have no kind in a schema; convert them"
    )
    assert sum(map(len, open_source(table, drafted.schema).batches())) == ROWS
