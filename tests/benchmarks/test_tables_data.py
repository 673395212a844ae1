"""The tables fit their schemas, and a peer reads them as the schema says."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
import simulated
from contract import read

from noisegate import Schema
from noisegate.data.frames import read_table

FLIGHTS = Path(__file__).parents[2] / "benchmarks" / "tables" / "flights.toml"


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
    schema = Schema.from_toml(FLIGHTS)
    assert schema.label == "late"
    assert not {"arr_delay", "arr_time", "dep_delay", "dep_time"} & set(schema.names)


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
