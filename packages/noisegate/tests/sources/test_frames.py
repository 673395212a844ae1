"""Frames and folders as Arrow tables: the columns that are asked for, and labels beside them."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from noisegate.errors import DataError
from noisegate.sources import read_table
from noisegate.sources.frames import records_table, with_labels


def test_read_table_without_one_keeps_what_is_there(people, tmp_path):
    pa.parquet.write_table(people, tmp_path / "x.parquet")
    assert read_table(tmp_path / "x.parquet").equals(people)
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("a,b\n039,x\n")
    (tmp_path / "csv" / "b.csv").write_text("b,a\ny,040\n")
    assert read_table(tmp_path / "csv").to_pydict() == {
        "a": ["039", "040"],
        "b": ["x", "y"],
    }
    (tmp_path / "csv" / "b.csv").write_text("a,b\n1,\n")
    assert read_table(tmp_path / "csv").to_pydict() == {
        "a": ["039", "1"],
        "b": ["x", ""],
    }


COLUMNS = {"a": [1, 2, 3], "b": ["x", "y", "z"], "unused": [0, 0, 0]}


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_table_gives_the_columns_that_are_asked_for(kind):
    table = records_table(kind(COLUMNS), ["b", "a"])
    assert table.to_pydict() == {"b": ["x", "y", "z"], "a": [1, 2, 3]}
    assert records_table(kind(COLUMNS)[:0], ["a"]).num_rows == 0


def test_an_array_gives_its_columns_in_order():
    array = np.array([[1.5, 2.0], [3.0, 4.0]])
    assert records_table(array, ["a", "b"]).to_pydict() == {
        "a": [1.5, 3.0],
        "b": [2.0, 4.0],
    }
    assert records_table(array.tolist(), ["a", "b"]).column_names == ["a", "b"]


def test_what_does_not_fit_is_refused():
    with pytest.raises(DataError, match="no column 'c'"):
        records_table(pd.DataFrame(COLUMNS), ["a", "c"])
    with pytest.raises(
        DataError, match=r"an array of shape \(2, 3\), expected \(records, 2\)"
    ):
        records_table(np.zeros((2, 3)), ["a", "b"])


@pytest.mark.parametrize(
    "labels",
    [[1, 0, 1], np.array([1, 0, 1]), pd.Series([1, 0, 1]), pl.Series([1, 0, 1])],
)
def test_labels_become_a_column(labels):
    table = with_labels(pa.table({"a": [1, 2, 3]}), labels, "y")
    assert table["y"].to_pylist() == [1, 0, 1]
    assert table["y"].type == pa.int64()


def test_labels_that_do_not_fit_are_refused_without_a_word_of_them():
    table = pa.table({"a": [1, 2]})
    with pytest.raises(DataError, match="y has 3 labels for 2 records"):
        with_labels(table, [1, 0, 1], "y")
    with pytest.raises(DataError, match="expected one for each"):
        with_labels(table, np.zeros((2, 1)), "y")
    with pytest.raises(DataError, match="mixed or unknown types") as caught:
        with_labels(table, ["secret", 1], "y")
    assert "secret" not in str(caught.value)
