"""Cells are read as they stand, each by itself, and kinds are never guessed from values."""

import re
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.shared.columns import categorical

from noisegate.errors import DataError, OptionError
from noisegate.gate.discovery.partial import Gap
from noisegate.gate.discovery.raw import RawTable, columns_file
from noisegate.schema import Schema
from noisegate.sources.tables.tables import TableSource

TABLE = pa.table(
    {
        "rate": [0.5, None, -2.0],
        "age": pa.array([1, None, 2**40], pa.int64()),
        "born": [date(1970, 1, 2), None, date(1969, 12, 31)],
        "seen": pa.array([1_000_000, None, -1], pa.timestamp("us")),
        "met": pa.array([1_000_000, None, -1], pa.timestamp("us", tz="UTC")),
        "job": ["nurse", None, " nurse "],
        "code": pa.array([7, None, 8], pa.int32()),
        "ok": [True, None, False],
    }
)
KINDS = {
    "rate": "continuous",
    "age": "integer",
    "born": "date",
    "seen": "datetime",
    "met": "datetime-utc",
    "job": "categorical",
    "code": "categorical",
}
GAPS = tuple(Gap(name=name, kind=kind) for name, kind in KINDS.items())
EXPECTED = {
    "rate": [0.5, -2.0],
    "age": [1, 2**40],
    "born": [1, -1],
    "seen": [1_000_000, -1],
    "met": [1_000_000, -1],
    "job": ["nurse", "nurse"],
    "code": ["7", "8"],
}


def write(folder, form):
    if form == "parquet":
        pq.write_table(TABLE, folder / "t.parquet")
        return folder / "t.parquet"
    if form == "csv":
        (folder / "t.csv").write_text(
            "rate,age,born,seen,met,job,code,ok\n0.5,1,1970-01-02,1970-01-01T00:00:01,1970-01-01T00:00:01Z,nurse,7,yes\n"
            "NA,?,,NA,NA,null,,\n-2.0,1099511627776,1969-12-31,1969-12-31 23:59:59.999999,"
            "1970-01-01T00:59:59.999999+01:00,  nurse ,8,no\n"
        )
        return folder / "t.csv"
    if form == "polars":
        return pl.from_arrow(TABLE)
    return (
        TABLE
        if form == "arrow"
        else TABLE.to_pandas().astype({"age": "Int64", "code": "Int64"})
    )


@pytest.mark.parametrize("form", ["parquet", "csv", "arrow", "polars", "pandas"])
def test_every_source_gives_the_same_cells(tmp_path, form):
    gaps = tuple(gap for gap in GAPS if form != "pandas" or gap.name != "met")
    cells = list(RawTable(write(tmp_path, form)).batches(gaps, ("", "?", "NA", "null")))
    for gap in gaps:
        values = [value for batch in cells for value in batch[gap.name][0].tolist()]
        assert values == EXPECTED[gap.name]
        assert sum(batch[gap.name][1] for batch in cells) == 1


FORMS = ("parquet", "csv", "arrow", "polars", "pandas")


@pytest.mark.parametrize("form", FORMS)
def test_types_of_the_data_are_not_taken_for_kinds(tmp_path, form):
    """A program chooses them by the values; the message names the option for all columns at once."""
    source = write(tmp_path, form)
    kinds_to_add = ",".join(f"{name}=..." for name in TABLE.column_names[1:])
    with pytest.raises(
        OptionError, match=rf'add kinds "{re.escape(kinds_to_add)}" with one of'
    ) as caught:
        RawTable(source).describe_columns({TABLE.column_names[0]: "ignore"}, None, None)
    assert TABLE.column_names[0] not in str(caught.value)


def test_the_names_of_a_parquet_file_are_listed_without_kinds(tmp_path):
    text, names = columns_file(write(tmp_path, "parquet"))
    assert list(names) == TABLE.column_names
    assert text.count('kind = "?"') == len(names)


def test_levels_that_are_numbers_are_the_same_with_and_without_a_missing_one(tmp_path):
    """pandas writes them as 1.0 and 2.0 as soon as one record has none."""
    read = []
    for codes in ([1, 2, 2], [1, 2, 2, None]):
        pd.DataFrame({"code": codes}).to_parquet(tmp_path / "t.parquet")
        cells = RawTable(tmp_path / "t.parquet").batches(
            (Gap(name="code", kind="categorical"),), ()
        )
        read.append(
            [(batch["code"][0].to_pylist(), batch["code"][1]) for batch in cells]
        )
        levels = categorical("code", "12", missing=True)
        source = TableSource(tmp_path / "t.parquet", Schema([levels]))
        read[-1].append([batch.codes[:3, 0].tolist() for batch in source.batches()])
    assert read == [
        [(["1", "2", "2"], 0), [[0, 1, 1]]],
        [(["1", "2", "2"], 1), [[0, 1, 1]]],
    ]
    pd.DataFrame({"code": [1.0, 1.5]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(
        DataError,
        match=r"record 2, column 'code': .*number with a fraction; give it the kind",
    ):
        list(
            RawTable(tmp_path / "t.parquet").batches(
                (Gap(name="code", kind="categorical"),), ()
            )
        )


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "x\n1\ncanary\n",
            "integer",
            r"line 3, column 'x': expected a whole number, found another value",
        ),
        ("x\n1\ncanary\n", "continuous", "expected a number"),
        ("x\n2020-01-01\n2020-13-01\n", "date", "line 3, column 'x': expected a date"),
        ("x\n2020-01-01T00:00:00Z\n", "datetime", "expected a moment such as"),
        (
            "x\n2020-01-01T00:00:00\n",
            "datetime-utc",
            "expected a moment with a time zone",
        ),
        ("x\n", "integer", "there are no records"),
    ],
)
def test_a_cell_of_another_kind_is_refused_without_quoting_it(
    tmp_path, text, kind, message
):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        list(RawTable(tmp_path / "t.csv").batches((Gap(name="x", kind=kind),), ("",)))
    assert "canary" not in str(caught.value)
    assert caught.value.__context__ is None


def test_files_of_a_folder_must_be_alike(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("y,x\n3,4\n")
    cells = list(RawTable(tmp_path).batches((Gap(name="x", kind="integer"),), ()))
    assert np.concatenate([batch["x"][0] for batch in cells]).tolist() == [1, 4]
    (tmp_path / "b.csv").write_text("y,z\n3,4\n")
    with pytest.raises(DataError, match=r"column 'z' of b\.csv is not in a\.csv"):
        RawTable(tmp_path, show_values=True)
    (tmp_path / "b.csv").write_text("y\n3\n")
    with pytest.raises(
        DataError, match=r"^b\.csv: .* column number 1 of a\.csv is not in b\.csv"
    ):
        RawTable(tmp_path)


def test_a_column_without_a_kind_is_asked_for(tmp_path):
    (tmp_path / "a.csv").write_text("x,canary,z\n1,2,3\n")
    with pytest.raises(
        OptionError,
        match=r"no kind is given for 'canary', 'z'\. .*\"canary=\.\.\.,z=\.\.\.\"",
    ):
        RawTable(tmp_path / "a.csv").describe_columns({"x": "integer"}, None, None)
    with pytest.raises(OptionError, match="none of the 3 fields") as caught:
        RawTable(tmp_path / "a.csv").describe_columns({}, None, None)
    assert "canary" not in str(caught.value)
    with pytest.raises(OptionError, match="'canary'"):
        RawTable(tmp_path / "a.csv", show_values=True).describe_columns({}, None, None)
    with pytest.raises(OptionError, match="'rate', 'age'"):
        RawTable(TABLE.to_pandas()).describe_columns({}, None, None)


def test_columns_stand_in_the_order_of_the_data(tmp_path):
    kinds = {"ok": "boolean", **dict(reversed(KINDS.items())), "age": "ignore"}
    partial = RawTable(write(tmp_path, "parquet")).describe_columns(kinds, None, "job")
    assert list(partial.columns) == TABLE.column_names
    assert [gap.name for gap in partial.gaps] == [
        name for name in KINDS if name != "age"
    ]
    assert partial.columns["code"].kind == "categorical"
    assert partial.columns["age"] is None
    assert partial.label == "job"
