import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.shared.linked_tables import SCHEMA, tables

from noisegate.errors import DataError
from noisegate.schema.linked.schema import linked_paths
from noisegate.sources.frames import read_linked


@pytest.fixture
def folder(tmp_path):
    written = tables()
    pa.csv.write_csv(written["people"], tmp_path / "people.csv")
    pa.parquet.write_table(written["visits"], tmp_path / "visits.parquet")
    (tmp_path / "finds").mkdir()
    for part in (0, 1):
        pa.csv.write_csv(
            written["finds"].slice(3 * part, 3), tmp_path / "finds" / f"{part}.csv"
        )
    return tmp_path


def test_a_table_is_a_file_of_its_name_or_a_folder(folder):
    read = read_linked(folder, SCHEMA)
    assert {name: len(table) for name, table in read.items()} == {
        "people": 3,
        "visits": 5,
        "finds": 5,
    }
    assert read["visits"]["id"].to_pylist() == tables()["visits"]["id"].to_pylist()


def test_what_is_not_there_or_there_twice_is_named(folder):
    pa.csv.write_csv(tables()["visits"], folder / "visits.csv")
    with pytest.raises(
        DataError, match=r"one of visits.csv.*found visits.csv and visits.parquet"
    ):
        linked_paths(folder, SCHEMA)
    (folder / "people.csv").unlink()
    with pytest.raises(DataError, match=r"one of people.csv.*found no such file"):
        linked_paths(folder, SCHEMA)
    with pytest.raises(
        DataError,
        match="expected a folder with a file for each of the tables people, visits, finds",
    ):
        linked_paths(folder / "visits.csv", SCHEMA)
    with pytest.raises(DataError, match="no data for table 'visits' of the schema"):
        read_linked({"people": tables()["people"]}, SCHEMA)
    with pytest.raises(
        DataError, match=r"a mapping from the tables people, visits, finds.*found int"
    ):
        read_linked(3, SCHEMA)
