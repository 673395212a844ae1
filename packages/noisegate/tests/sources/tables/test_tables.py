import tracemalloc
from datetime import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pyarrow.parquet as pq
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer, ordinal

from noisegate.errors import DataError, OptionError
from noisegate.gate.discovery.partial import Gap
from noisegate.gate.discovery.raw import RawTable
from noisegate.schema import EncodedTable, Schema, decode
from noisegate.sources import TableSource
from noisegate.sources.units import UnitLimit


def encode(source, schema, **options):
    return EncodedTable.concatenate(
        list(TableSource(source, schema, **options).batches())
    )


def same_bits(one, two):
    return (
        one.numeric.tobytes() == two.numeric.tobytes()
        and one.codes.tobytes() == two.codes.tobytes()
    )


def csv_folder(folder, table):
    folder.mkdir()
    pa.csv.write_csv(table.slice(0, 100), folder / "part-1.csv")
    pa.csv.write_csv(table.slice(100, 0), folder / "part-2.csv")
    pa.csv.write_csv(table.slice(100), folder / "part-3.csv")
    (folder / "_SUCCESS").touch()
    return folder


def parquet_folder(folder, table):
    folder.mkdir()
    pa.parquet.write_table(table.slice(0, 7), folder / "a.parquet")
    pa.parquet.write_table(table.slice(7), folder / "b.parquet", row_group_size=50)
    return folder


def parquet(path, table):
    pa.parquet.write_table(table, path)
    return path


def csv(path, table):
    pa.csv.write_csv(table, path)
    return path


def other_types(table):
    """The same values in other Arrow types."""
    work = table["work"].cast(pa.large_string()).dictionary_encode()
    age = table["age"].cast(pa.decimal128(30, 2))
    grade = table["grade"].cast(pa.uint8())
    seen = table["seen"].cast(pa.timestamp("ns"))
    new = {
        "work": work,
        "age": age,
        "grade": grade,
        "seen": seen,
        "member": table["member"].cast(pa.int8()),
    }
    return pa.table({name: new.get(name, table[name]) for name in table.column_names})


FORMS = {
    "csv": lambda folder, table: csv(folder / "x.csv", table),
    "csv by pandas": lambda folder, table: (
        table.to_pandas().to_csv(folder / "p.csv", index=False) or folder / "p.csv"
    ),
    "folder of csv": lambda folder, table: csv_folder(folder / "many", table),
    "parquet": lambda folder, table: str(parquet(folder / "x.parquet", table)),
    "parquet without suffix": lambda folder, table: parquet(folder / "x", table),
    "folder of parquet": lambda folder, table: parquet_folder(folder / "pq", table),
    "other types": lambda folder, table: parquet(folder / "o.pq", other_types(table)),
    "pandas": lambda folder, table: table.to_pandas(),
    "pandas of Arrow": lambda folder, table: table.to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "polars": lambda folder, table: pl.from_arrow(table),
    "polars categories": lambda folder, table: pl.from_arrow(table).with_columns(
        pl.col("work").cast(pl.Categorical)
    ),
    "arrow text": lambda folder, table: pa.table(
        {name: table[name].cast(pa.string()) for name in table.column_names}
    ),
    "columns in another order": lambda folder, table: table.select(
        table.column_names[::-1]
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_data_gives_the_same_bits_however_it_is_kept(
    form, people, schema, tmp_path
):
    assert same_bits(
        encode(FORMS[form](tmp_path, people), schema), encode(people, schema)
    )


@pytest.mark.parametrize("form", ["csv", "parquet", "pandas", "folder of csv"])
def test_batches_are_full_and_a_record_does_not_feel_its_neighbours(
    form, people, schema, tmp_path
):
    order = np.random.default_rng(1).permutation(300)
    source = FORMS[form](tmp_path, people.take(pa.array(order)))
    batches = list(TableSource(source, schema, batch_rows=64).batches())
    assert [len(batch) for batch in batches] == [64, 64, 64, 64, 44]
    assert same_bits(
        EncodedTable.concatenate(batches), encode(people, schema).rows(order)
    )


SMALL = Schema(
    (
        integer("age", 0, 99),
        ordinal("grade", ("low", "high")),
        boolean("ok", missing=True),
    ),
    ignore=["row"],
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n", "x.csv: the file is empty"),
        (
            "39;SECRET;no\n40;low;no\n",
            "none of the 1 field of the first line.*separated by commas",
        ),
        (
            "Age,grade,ok\n1,low,no\n",
            "column 'age' of the schema is not in the data .is it the one called 'Age'",
        ),
        (",age,grade,ok\n0,1,low,no\n", "column 1 has no name.*index=False"),
        (
            "age,grade,ok\n0x1A,low,no\n",
            "line 2, column 'age': expected a whole number",
        ),
        (
            'age,grade,ok\n1,"low",no\n\n\n1,"\n\n low",no\n1,SECRET,no\n',
            "line 8, column 'grade': expected one of the 2 levels",
        ),
        ("age,grade,ok\n1,low,SECRET\n", "line 2, column 'ok': expected true or false"),
        (
            "age,grade,ok\n1,low,?\n,low,no\n",
            "line 3, column 'age': the value is missing.*missing = true",
        ),
        (
            'age,grade,ok\n1,"low,no\n2,SECRET,no\n',
            "x.csv, line 2: the double quote that opens here is not closed before the file ends",
        ),
    ],
)
def test_a_wrong_csv_is_refused_without_quoting_it(text, message, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        encode(path, SMALL)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_broken_parquet_is_named(tmp_path, people, schema):
    path = parquet(tmp_path / "x.parquet", people)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"x\.parquet: cannot be read as Parquet"):
        TableSource(path, schema).check_against_schema()
    path.write_bytes(content[:100] + bytes(200) + content[300:])
    with pytest.raises(DataError, match=r"x\.parquet: cannot be read as Parquet"):
        encode(path, schema)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="cannot be read as Parquet; it is empty"):
        encode(path, schema)


def test_check_reads_names_and_types_but_no_record(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("age,row,grade,ok\nSECRET,1,2\n")
    TableSource(path, SMALL).check_against_schema()
    table = pa.table({"age": [datetime(2020, 1, 1)], "grade": ["?"], "ok": [None]})
    with pytest.raises(
        DataError,
        match=r"'age': expected a whole number, found a column of moments without a time zone",
    ):
        TableSource(
            parquet(tmp_path / "x.parquet", table), SMALL
        ).check_against_schema()


def test_tables_in_memory_are_checked_too():
    with pytest.raises(DataError, match="columns 1 and 2 are all called 'age'"):
        TableSource(pd.DataFrame([[1, 2]], columns=["age", "age"]), SMALL)
    mixed = pd.DataFrame({"age": [1, "SECRET"], "grade": "low", "ok": True})
    with pytest.raises(DataError, match="no records"):
        encode(mixed[:0], SMALL)
    with pytest.raises(OptionError, match="batch_rows"):
        TableSource(mixed, SMALL, batch_rows=0)


def test_decimals_and_huge_numbers_keep_their_value():
    schema = Schema((integer("n", -(2**52), 2**52), continuous("r")))
    numbers = [2**52 - 1, -(2**52) + 1, 7]
    table = pa.table(
        {"n": numbers, "r": [Decimal("0.1"), Decimal("0.2"), Decimal("0.7")]}
    )
    text = pa.table(
        {"n": [f"{number}.0" for number in numbers], "r": ["0.1", "0.2", "7e-1"]}
    )
    assert decode(encode(table, schema), schema)["n"].to_pylist() == numbers
    assert same_bits(encode(text, schema), encode(table, schema))
    beyond = pa.table(
        {"n": ["1" + "0" * 30, "-" + "9" * 400, "1e300"], "r": ["0", "1", "inf"]}
    )
    assert encode(beyond, schema).numeric[:, 0].tolist() == [1.0, 0.0, 1.0]
    unsigned = pa.table({"n": pa.array([2**64 - 1], pa.uint64()), "r": [0]})
    assert encode(unsigned, schema).numeric[0, 0] == 1.0


def test_memory_does_not_grow_with_the_file(tmp_path):
    schema = Schema((continuous("x"), categorical("c", "ab")), ignore=["note"])
    path = tmp_path / "x.csv"

    def peak(megabytes):
        line = "0.123456789,a," + "n" * 985 + "\n"
        path.write_text("x,c,note\n" + line * (1000 * megabytes))
        before = pa.total_allocated_bytes()
        most = 0
        tracemalloc.start()
        for _ in TableSource(path, schema).batches():
            most = max(most, pa.total_allocated_bytes() - before)
        python = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most + python

    assert peak(120) < max(
        peak(60) * 1.2, 50e6
    )  # Arrow reads some tens of megabytes ahead


# What a cell of a Parquet file says does not depend on the row groups, pages or dictionaries that it is kept in.


def as_dictionary(table):
    """The same records with text in dictionaries, another one in each chunk."""
    names = ("work", "unit")
    pieces = []
    for start in range(0, table.num_rows, 37):
        piece = table.slice(start, 37).combine_chunks()
        encoded = {name: piece[name].dictionary_encode() for name in names}
        pieces.append(
            pa.table(
                {name: encoded.get(name, piece[name]) for name in piece.column_names}
            )
        )
    return pa.concat_tables(pieces)


LAYOUTS = [
    {"row_group_size": size, "data_page_size": page, "use_dictionary": dictionary}
    for size in (7, 64)
    for page in (1, 1 << 20)
    for dictionary in (True, False)
]


@pytest.mark.parametrize("form", ["plain", "dictionaries"])
def test_no_layout_of_a_file_changes_a_record(form, people, schema, tmp_path):
    people = people.append_column(
        "unit", pa.array([f"person {i % 90}" for i in range(300)])
    )
    table = people if form == "plain" else as_dictionary(people)
    gap = Gap(name="work", kind="categorical")
    schema = Schema(schema.columns, label=schema.label, ignore=("unit",))

    def seen(source, rows):
        units = UnitLimit(column="unit", contributions=2)
        encoded_records = EncodedTable.concatenate(
            list(TableSource(source, schema, batch_rows=rows).batches())
        )
        used = EncodedTable.concatenate(
            list(TableSource(source, schema, batch_rows=rows, units=units).batches())
        )
        texts = [
            text
            for batch in RawTable(source).batches((gap,), ())
            for text in batch["work"][0].to_pylist()
        ]
        return [
            part.tobytes()
            for encoded in (encoded_records, used)
            for part in (encoded.numeric, encoded.codes)
        ], texts

    expected = seen(people, 300)
    assert seen(table, 30) == expected  # in memory
    for layout in LAYOUTS:
        pq.write_table(table, tmp_path / "x.parquet", **layout)
        assert seen(tmp_path / "x.parquet", 30) == expected, layout
