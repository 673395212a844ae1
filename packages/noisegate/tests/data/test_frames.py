import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from noisegate.data import TableSource, native_form, read_table
from noisegate.errors import DataError
from noisegate.schema import EncodedTable, decode


def synthetic(people, schema):
    return decode(EncodedTable.concatenate(list(TableSource(people, schema).batches())), schema)


def test_pandas_gets_dtypes_of_the_schema_and_its_categories(people, schema):
    like = people.to_pandas().astype({"work": "category"})
    found = native_form(like, schema)(synthetic(people, schema))
    assert isinstance(found, pd.DataFrame) and list(found["work"].cat.categories) == ["Private", "Self, own", "other"]
    assert found["grade"].dtype == "int64" and str(found["born"].dtype).startswith("datetime64")
    plain = native_form(people.to_pandas(), schema)(synthetic(people, schema))
    assert not isinstance(plain["work"].dtype, pd.CategoricalDtype)


def test_dtypes_do_not_depend_on_the_records(people, schema):
    """Pandas chooses dtypes by the values it meets; what is given back must not tell which it met."""
    table = synthetic(people, schema)
    whole = people.to_pandas()
    odd = whole.astype({"age": "float64", "grade": "int8", "member": "object"})
    for like in (whole.iloc[:1], whole.iloc[:0], odd):
        pd.testing.assert_frame_equal(native_form(like, schema)(table), native_form(whole, schema)(table))
    one, other = (native_form(frame, schema)(table) for frame in (pl.from_arrow(people), pl.from_arrow(people[:1])))
    assert one.equals(other) and one.schema == other.schema


def test_polars_categories_become_the_levels_of_the_schema(people, schema):
    for kind in (pl.Categorical, pl.Enum(["nobody knows", "other", "Self, own", "Private"])):
        like = pl.from_arrow(people).with_columns(pl.col("work").cast(kind, strict=False))
        found = native_form(like, schema)(synthetic(people, schema))
        assert isinstance(found, pl.DataFrame) and found["work"].dtype == pl.Enum(["Private", "Self, own", "other"])
    assert native_form(pl.from_arrow(people), schema)(synthetic(people, schema))["work"].dtype == pl.String


def test_arrow_keeps_its_dictionaries_with_every_level_of_the_schema(people, schema):
    like = people.set_column(people.column_names.index("work"), "work", people["work"].dictionary_encode())
    table = synthetic(people, schema)
    found = native_form(like, schema)(pa.concat_tables([table[:1], table[1:], table[:0]]))
    assert pa.types.is_dictionary(found.schema.field("work").type)
    assert found["work"].to_pylist() == table["work"].to_pylist()
    for chunk in found["work"].chunks:
        assert chunk.dictionary.to_pylist() == ["Private", "Self, own", "other"]
    none = native_form(like, schema)(table[:0])
    assert none.schema == found.schema
    assert not pa.types.is_dictionary(native_form(people, schema)(table).schema.field("work").type)
    with pytest.raises(DataError, match="found dict"):
        native_form({}, schema)


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
