"""Real records for an evaluation, of which some have a level that the schema does not know."""

import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, integer, ordinal

from noisegate.errors import DataError
from noisegate.schema import Schema
from noisegate.sources.frames import read_known_records, read_table

SCHEMA = Schema(
    [
        categorical("ward", "ab", missing=True),
        ordinal("pain", (0, 1, 2)),
        integer("age", 0, 99),
        boolean("ill"),
    ]
)
KNOWN = {"ward": ["a", None], "pain": [0, 2], "age": [30, 40], "ill": [True, False]}


def test_records_with_known_levels_are_those_that_are_read_otherwise():
    table = pa.table(KNOWN)
    known_records, left_out = read_known_records(table, SCHEMA)
    assert known_records == read_table(table, SCHEMA)
    assert left_out == 0


def test_records_with_an_unknown_level_are_left_out_and_counted(tmp_path):
    path = tmp_path / "test.csv"
    path.write_text(
        "ward,pain,age,ill\na,0,30,true\nz,1,31,true\nb,7,32,true\n,2,40,false\n"
    )
    known_records, left_out = read_known_records(path, SCHEMA)
    assert known_records == pa.table(KNOWN, schema=known_records.schema)
    assert left_out == 2


def test_other_misfits_are_refused_as_ever(tmp_path):
    path = tmp_path / "test.csv"
    path.write_text("ward,pain,age,ill\na,0,old,true\n")
    with pytest.raises(DataError, match="line 2, column 'age'"):
        read_known_records(path, SCHEMA)


def test_a_file_without_any_known_level_is_refused():
    table = pa.table(KNOWN).set_column(0, "ward", pa.array(["x", "y"]))
    with pytest.raises(DataError, match="no record has levels of the schema alone"):
        read_known_records(table, SCHEMA)
