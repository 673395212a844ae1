from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from noisegate.data import TableSource, read_table
from noisegate.data.frames import records_table, with_labels
from noisegate.discovery.forms import native_form
from noisegate.errors import DataError
from noisegate.schema import EncodedTable, Ordinal, decode


def synthetic(people, schema):
    return decode(EncodedTable.concatenate(list(TableSource(people, schema).batches())), schema)


def test_dtypes_do_not_depend_on_the_records(people, schema):
    """Pandas chooses dtypes by the values it meets; what is given back must not tell which it met."""
    table = synthetic(people, schema)
    whole = people.to_pandas()
    odd = whole.astype({"age": "float64", "grade": "int8", "member": "object"})
    others = (whole.convert_dtypes(), whole.convert_dtypes(dtype_backend="pyarrow"), whole.astype("string[python]"))
    for like in (whole.iloc[:1], whole.iloc[:0], odd, *others):
        assert native_form(like, schema).to_json() == native_form(whole, schema).to_json()
        pd.testing.assert_frame_equal(native_form(like, schema)(table), native_form(whole, schema)(table))
    categories = native_form(whole.astype({"work": "category"}), schema)(table)["work"].cat.categories
    assert list(categories) == ["Private", "Self, own", "other"]
    one, other = (native_form(frame, schema)(table) for frame in (pl.from_arrow(people), pl.from_arrow(people[:1])))
    assert one.equals(other) and one.schema == other.schema


def test_polars_categories_become_the_levels_of_the_schema(people, schema):
    """An Enum claims an order: only where the schema has one; and what is not the schema's comes back from nowhere."""
    work = schema.column("work")
    order = Ordinal(name="work", levels=work.levels, missing=True)
    ordered = replace(schema, columns=[order if one is work else one for one in schema.columns])
    table, enum = synthetic(people, schema), pl.Enum(["nobody knows", "other", "Self, own", "Private"])
    for kind in (pl.Categorical, enum):
        like = pl.from_arrow(people).with_columns(pl.col("work").cast(kind, strict=False))
        assert native_form(like, schema)(table)["work"].dtype == pl.String
        assert native_form(like, ordered)(table)["work"].dtype == pl.Enum(work.levels)
        exact = native_form(like, schema, exact=True)(table)["work"].dtype
        assert exact == (pl.String if kind is enum else pl.Categorical)
    like = people.to_pandas().astype({"work": pd.CategoricalDtype(enum.categories.to_list(), ordered=True)})
    assert native_form(like, schema, exact=True)(table)["work"].dtype == pd.CategoricalDtype(work.levels)


def test_arrow_has_dictionaries_where_the_schema_says_so_with_every_level_of_it(people, schema):
    """A reader of Arrow chooses dictionaries by the number of values that it meets."""
    like = people.set_column(people.column_names.index("work"), "work", people["work"].dictionary_encode())
    assert native_form(like, schema) == native_form(people, schema)
    said = replace(schema.column("work"), type="dictionary<values=string, indices=int32, ordered=0>")
    schema = replace(schema, columns=[said if one.name == "work" else one for one in schema.columns])
    records = EncodedTable.concatenate(list(TableSource(people, schema).batches()))
    table = decode(records, schema, stored=True)
    found = native_form(people, schema)(pa.concat_tables([table[:1], table[1:], table[:0]]))
    assert pa.types.is_dictionary(found.schema.field("work").type)
    assert found["work"].to_pylist() == decode(records, schema)["work"].to_pylist()
    for chunk in found["work"].chunks:
        assert chunk.dictionary.to_pylist() == ["Private", "Self, own", "other"]
    assert native_form(people, schema)(table[:0]).schema == found.schema
    with pytest.raises(DataError, match="found dict"):
        native_form({}, schema)


def test_read_table_without_one_keeps_what_is_there(people, tmp_path):
    pa.parquet.write_table(people, tmp_path / "x.parquet")
    assert read_table(tmp_path / "x.parquet").equals(people)
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text("a,b\n039,x\n")
    (tmp_path / "csv" / "b.csv").write_text("b,a\ny,040\n")
    assert read_table(tmp_path / "csv").to_pydict() == {"a": ["039", "040"], "b": ["x", "y"]}
    (tmp_path / "csv" / "b.csv").write_text("a,b\n1,\n")
    assert read_table(tmp_path / "csv").to_pydict() == {"a": ["039", "1"], "b": ["x", ""]}


COLUMNS = {"a": [1, 2, 3], "b": ["x", "y", "z"], "unused": [0, 0, 0]}


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_table_gives_the_columns_that_are_asked_for(kind):
    found = records_table(kind(COLUMNS), ["b", "a"])
    assert found.to_pydict() == {"b": ["x", "y", "z"], "a": [1, 2, 3]}
    assert records_table(kind(COLUMNS)[:0], ["a"]).num_rows == 0


def test_an_array_gives_its_columns_in_order():
    array = np.array([[1.5, 2.0], [3.0, 4.0]])
    assert records_table(array, ["a", "b"]).to_pydict() == {"a": [1.5, 3.0], "b": [2.0, 4.0]}
    assert records_table(array.tolist(), ["a", "b"]).column_names == ["a", "b"]


def test_what_does_not_fit_is_refused():
    with pytest.raises(DataError, match="no column 'c'"):
        records_table(pd.DataFrame(COLUMNS), ["a", "c"])
    with pytest.raises(DataError, match=r"an array of shape \(2, 3\), expected \(records, 2\)"):
        records_table(np.zeros((2, 3)), ["a", "b"])


@pytest.mark.parametrize("labels", [[1, 0, 1], np.array([1, 0, 1]), pd.Series([1, 0, 1]), pl.Series([1, 0, 1])])
def test_labels_become_a_column(labels):
    table = with_labels(pa.table({"a": [1, 2, 3]}), labels, "y")
    assert table["y"].to_pylist() == [1, 0, 1] and table["y"].type == pa.int64()


def test_labels_that_do_not_fit_are_refused_without_a_word_of_them():
    table = pa.table({"a": [1, 2]})
    with pytest.raises(DataError, match="y has 3 labels for 2 records"):
        with_labels(table, [1, 0, 1], "y")
    with pytest.raises(DataError, match="expected one for each"):
        with_labels(table, np.zeros((2, 1)), "y")
    with pytest.raises(DataError, match="mixed or unknown types") as caught:
        with_labels(table, ["secret", 1], "y")
    assert "secret" not in str(caught.value)
