import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from noisegate.data import TableSource, read_table, to_native
from noisegate.errors import DataError
from noisegate.schema import EncodedTable, decode


def synthetic(people, schema):
    return decode(EncodedTable.concatenate(list(TableSource(people, schema).batches())), schema)


def test_pandas_gets_its_own_dtypes_back(people, schema):
    like = people.to_pandas().astype(
        {"work": "category", "grade": "int8", "seen": "datetime64[ns]", "member": "object"}
    )
    like["work"] = like["work"].cat.set_categories(["Private", "Self, own", "other"])
    like["born"] = pd.to_datetime(like["born"])
    found = to_native(synthetic(people, schema), like, schema)
    assert isinstance(found, pd.DataFrame)
    pd.testing.assert_series_equal(found.dtypes, like.dtypes)
    pd.testing.assert_series_equal(found["grade"], like["grade"])
    pd.testing.assert_series_equal(found["born"], like["born"])


def test_pandas_keeps_values_that_the_old_dtype_cannot_hold(schema):
    like = pd.DataFrame(
        {"n": pd.Series([1], dtype="int8"), "m": [1], "b": [True], "c": pd.Series(["x"], dtype="category")}
    )
    table = pa.table({"n": [300, 2], "m": [2**53 + 1, None], "b": [True, None], "c": ["x", "y"]})
    found = to_native(table, like, schema)
    assert found["n"].tolist() == [300, 2]
    assert (found["m"].dtype, found["m"][0], found["m"].isna().tolist()) == ("Int64", 2**53 + 1, [False, True])
    assert (found["b"].dtype, found["b"].isna().tolist()) == ("boolean", [False, True])
    assert found["c"].tolist() == ["x", "y"]


def test_polars_gets_its_own_dtypes_back(people, schema):
    like = pl.from_arrow(people).with_columns(
        pl.col("work").cast(pl.Categorical), pl.col("grade").cast(pl.Int8), pl.col("seen").cast(pl.Datetime("ns"))
    )
    found = to_native(synthetic(people, schema), like, schema)
    assert isinstance(found, pl.DataFrame)
    assert found.schema == like.schema
    wide = to_native(pa.table({"n": [300]}), pl.DataFrame({"n": [1]}, schema={"n": pl.Int8}), schema)
    assert wide["n"].to_list() == [300]


def test_arrow_gets_its_own_types_back(people, schema):
    like = people.set_column(2, "work", people["work"].dictionary_encode()).set_column(
        3, "grade", people["grade"].cast("int8")
    )
    found = to_native(synthetic(people, schema), like, schema)
    assert found.schema.types == like.schema.types
    assert to_native(pa.table({"n": [300]}), pa.table({"n": pa.array([1], pa.int8())}), schema)["n"].to_pylist() == [
        300
    ]
    with pytest.raises(DataError, match="found dict"):
        to_native(found, {}, schema)


def test_read_table_with_a_schema_is_typed_whatever_the_file(people, schema, tmp_path):
    pa.csv.write_csv(people, tmp_path / "x.csv")
    pa.parquet.write_table(people, tmp_path / "x.parquet")
    from_csv = read_table(tmp_path / "x.csv", schema)
    assert from_csv.equals(read_table(tmp_path / "x.parquet", schema))
    assert from_csv.schema.field("age").type == pa.int64()


def test_read_table_without_one_keeps_what_is_there(people, tmp_path):
    pa.parquet.write_table(people, tmp_path / "x.parquet")
    assert read_table(tmp_path / "x.parquet").equals(people)
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("a,b\n039,x\n")
    (tmp_path / "csv" / "b.csv").write_text("b,a\n")
    with pytest.raises(DataError, match="different columns"):
        read_table(tmp_path / "csv")
    (tmp_path / "csv" / "b.csv").write_text("a,b\n1,\n")
    assert read_table(tmp_path / "csv").to_pydict() == {"a": ["039", "1"], "b": ["x", ""]}
