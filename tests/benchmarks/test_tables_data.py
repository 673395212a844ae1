"""The tables fit their schemas, and a peer reads them as the schema says."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
import simulated
from contract import read
from documented import SOURCES, documented

from noisegate import Schema
from noisegate.data.frames import read_table

SCHEMAS = Path(__file__).parents[2] / "benchmarks" / "tables" / "schemas"


@pytest.mark.parametrize("make", [simulated.wide, simulated.million])
def test_a_simulated_table_fits_its_schema_and_is_the_same_each_time(
    make: Callable[[int], tuple[pa.Table, Schema]], tmp_path: Path
) -> None:
    table, schema = make(2_000)
    assert table.equals(make(2_000)[0])
    pyarrow.csv.write_csv(table, tmp_path / "table.csv")
    # Values that the schema does not hold are refused, or moved to a bound.
    found = read_table(tmp_path / "table.csv", schema)
    for column in schema.columns:
        expected = table[column.name].to_pylist()
        assert found[column.name].to_pylist() == (pytest.approx(expected) if column.numeric else expected)
    assert schema.label is not None
    assert 0.05 < table[schema.label].to_pylist().count(schema.label_column.levels[1]) / 2_000 < 0.95


def test_the_schema_of_flights_is_read_and_has_no_column_that_tells_the_label() -> None:
    schema = Schema.from_toml(SCHEMAS / "flights.toml")
    assert schema.label == "late"
    assert not {"arr_delay", "arr_time", "dep_delay", "dep_time"} & set(schema.names)


@pytest.mark.parametrize("name", SOURCES)
def test_a_documented_table_has_its_schema_and_one_label(name: str) -> None:
    schema = Schema.from_toml(SCHEMAS / f"{name}.toml")
    assert schema.label is not None
    # What makes the label is no feature.
    assert not {"affairs", "mdvis"} & set(schema.names)


def test_a_documented_table_is_read_whole_split_and_written_as_its_schema_says(tmp_path: Path) -> None:
    schema = Schema.from_toml(SCHEMAS / "fair.toml")
    header = ",".join([*(name for name in schema.names if name != "affair"), "affairs"])
    lines = [f"3,{'17.5' if row % 2 else '22'},9,{row % 3},3,17,2,5,{row % 4 / 9}" for row in range(100)]
    lines[7] = lines[7].replace("17.5", "", 1)  # a missing answer: the record is left out
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "fair.csv").write_text("\n".join([header, *lines]) + "\n")
    table, train = documented("fair", tmp_path, schema)
    assert (table.num_rows, train) == (99, 69)
    assert table["affair"].to_pylist().count("no") == 25
    assert set(table["age"].to_pylist()) == {"17.5", "22"}
    assert table.equals(documented("fair", tmp_path, schema)[0])
    path = tmp_path / "table.csv"
    pyarrow.csv.write_csv(table, path)
    assert read_table(path, schema).to_pydict() == table.to_pydict()
    with pytest.raises(RuntimeError, match=r"loans needs loans.csv or loans_full_schema.csv"):
        documented("loans", tmp_path, Schema.from_toml(SCHEMAS / "loans.toml"))


def test_a_peer_gets_the_public_domain_and_values_inside_it(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(
        'label = "y"\nmissing_values = ["?"]\n'
        '[columns.age]\nkind = "integer"\nlower = 17\nupper = 90\n'
        '[columns.work]\nkind = "categorical"\nlevels = ["NA", "b"]\nmissing = true\n'
        '[columns.grade]\nkind = "ordinal"\nlevels = [1, 2]\n'
        '[columns.y]\nkind = "boolean"\n'
    )
    (tmp_path / "train.csv").write_text("y,age,work,grade\ntrue,99,?,1\nfalse,20,NA,2\n")
    request = read(tmp_path / "train.csv", tmp_path / "schema.toml", 1.0, 1e-5, 0)
    assert request.bounds == {"age": (17, 90, True)}
    assert request.levels == {"work": ["NA", "b", "?"], "grade": ["1", "2"], "y": ["false", "true"]}
    assert request.train.to_dict("list") == {
        "age": [90, 20],
        "work": ["?", "NA"],
        "grade": ["1", "2"],
        "y": ["true", "false"],
    }
