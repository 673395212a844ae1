"""What is sampled is of the kind that was given, with types that follow from the schema and not from the records."""

from dataclasses import replace

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.shared import data_room
from tests.shared.columns import ordinal

from noisegate.errors import DataError
from noisegate.models.output.native_table import native_form
from noisegate.schema import EncodedTable, decode
from noisegate.sources import TableSource

people = data_room.people
schema = data_room.schema


def synthetic(people, schema):
    return decode(
        EncodedTable.concatenate(list(TableSource(people, schema).batches())), schema
    )


def test_dtypes_do_not_depend_on_the_records(people, schema):
    """Pandas chooses dtypes by the values it meets; what is given back must not tell which it met."""
    table = synthetic(people, schema)
    whole = people.to_pandas()
    odd = whole.astype({"age": "float64", "grade": "int8", "member": "object"})
    others = (
        whole.convert_dtypes(),
        whole.convert_dtypes(dtype_backend="pyarrow"),
        whole.astype("string[python]"),
    )
    for like in (whole.iloc[:1], whole.iloc[:0], odd, *others):
        assert (
            native_form(like, schema).to_json() == native_form(whole, schema).to_json()
        )
        pd.testing.assert_frame_equal(
            native_form(like, schema)(table), native_form(whole, schema)(table)
        )
    categories = native_form(whole.astype({"work": "category"}), schema)(table)[
        "work"
    ].cat.categories
    assert list(categories) == ["Private", "Self, own", "other"]
    one, other = (
        native_form(frame, schema)(table)
        for frame in (pl.from_arrow(people), pl.from_arrow(people[:1]))
    )
    assert one.equals(other)
    assert one.schema == other.schema


def test_polars_categories_become_the_levels_of_the_schema(people, schema):
    """An Enum claims an order: only where the schema has one; and what is not the schema's comes back from nowhere."""
    work = schema.column("work")
    order = ordinal("work", work.levels, missing=True)
    ordered = replace(
        schema,
        columns=[order if column is work else column for column in schema.columns],
    )
    table = synthetic(people, schema)
    enum = pl.Enum(["nobody knows", "other", "Self, own", "Private"])
    for kind in (pl.Categorical, enum):
        like = pl.from_arrow(people).with_columns(
            pl.col("work").cast(kind, strict=False)
        )
        assert native_form(like, schema)(table)["work"].dtype == pl.String
        assert native_form(like, ordered)(table)["work"].dtype == pl.Enum(work.levels)
        exact = native_form(like, schema, exact=True)(table)["work"].dtype
        assert exact == (pl.String if kind is enum else pl.Categorical)
    like = people.to_pandas().astype(
        {"work": pd.CategoricalDtype(enum.categories.to_list(), ordered=True)}
    )
    assert native_form(like, schema, exact=True)(table)[
        "work"
    ].dtype == pd.CategoricalDtype(work.levels)


def test_arrow_has_dictionaries_where_the_schema_says_so_with_every_level_of_it(
    people, schema
):
    """A reader of Arrow chooses dictionaries by the number of values that it meets."""
    like = people.set_column(
        people.column_names.index("work"), "work", people["work"].dictionary_encode()
    )
    assert native_form(like, schema) == native_form(people, schema)
    dictionary_column = replace(
        schema.column("work"),
        type="dictionary<values=string, indices=int32, ordered=0>",
    )
    schema = replace(
        schema,
        columns=[
            dictionary_column if column.name == "work" else column
            for column in schema.columns
        ],
    )
    records = EncodedTable.concatenate(list(TableSource(people, schema).batches()))
    table = decode(records, schema, stored=True)
    converted = native_form(people, schema)(
        pa.concat_tables([table[:1], table[1:], table[:0]])
    )
    assert pa.types.is_dictionary(converted.schema.field("work").type)
    assert converted["work"].to_pylist() == decode(records, schema)["work"].to_pylist()
    for chunk in converted["work"].chunks:
        assert chunk.dictionary.to_pylist() == ["Private", "Self, own", "other"]
    assert native_form(people, schema)(table[:0]).schema == converted.schema
    with pytest.raises(DataError, match="found dict"):
        native_form({}, schema)
