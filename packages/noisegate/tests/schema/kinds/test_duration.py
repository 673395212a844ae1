"""Lengths of time: every notation is read, one is written, and all of it survives a file."""

import re
from datetime import timedelta

import frictionless
import mlcroissant
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisegate import Schema, synthesize
from noisegate.errors import DataError, SchemaError
from noisegate.schema import Boolean, Comparison, Duration, decode
from noisegate.schema.encode import encode
from noisegate.schema.kinds.duration import (
    clock_duration,
    iso_duration,
    parse_duration,
    units_duration,
)

DAY = 86_400
STAY = Duration(name="stay", lower="0 days", upper="P30D", missing=True)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5 days", 5 * DAY),
        ("5 Days", 5 * DAY),
        ("90 seconds", 90),
        ("1h 3m", 3780),
        ("1h3m", 3780),
        ("1 hour, 3 min", 3780),
        ("1.5h", 5400),
        ("-1h 3m", -3780),
        ("PT5M", 300),
        ("P1DT2H", DAY + 7200),
        ("P2W", 14 * DAY),
        ("pt1.5h", 5400),
        ("-P1D", -DAY),
        ("01:03:00", 3780),
        ("120:00:00", 5 * DAY),
        ("-00:00:01", -1),
        # As Python and pandas print them.
        (str(timedelta(days=2, hours=1)), 2 * DAY + 3600),
        (str(timedelta(seconds=-1)), -1),
        (str(pd.Timedelta(days=2, hours=1)), 2 * DAY + 3600),
        (str(pd.Timedelta(seconds=-1)), -1),
        # Half a second goes up.
        ("0.5s", 1),
        ("PT0.4S", 0),
        ("00:00:01.5", 2),
        ("-0.5s", 0),
    ],
)
def test_each_notation_is_read(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        *("", "5", "5.0", "P", "PT", "P1DT", "1 month", "P1M", "P1Y", "01:03", "1:2:3"),
        *("3m 1h", "1h 2h", "1h,", "1m s", "00:60:00", "1e3 s", "٣ days", "1 dayſ"),
        f"{'9' * 5000} days",
    ],
)
def test_other_text_is_no_length_of_time(text):
    assert parse_duration(text) is None


@given(st.integers(-(10**9), 10**9))
def test_what_is_written_is_read(seconds):
    for write in (iso_duration, units_duration, clock_duration):
        assert parse_duration(write(seconds)) == seconds


def read(column, cells):
    """Returns the cells as they come back from an encoded record."""
    schema = Schema([column])
    return decode(encode({column.name: cells}, schema), schema)[column.name]


@pytest.mark.parametrize(
    "cells",
    [
        pa.array(["PT1M", " 60 s ", "", "00:01:00", "400 days", "-1 day, 0:00:00"]),
        pa.array([60, 60, None, 60, 400 * DAY, -DAY], pa.duration("s")),
        pa.array(
            [59_500, 60_499, None, 60_000, 400 * DAY * 1000, -1], pa.duration("ms")
        ),
        pa.array(
            pd.Series([60, 60, None, 60, 400 * DAY, -1]).mul(pd.Timedelta(seconds=1))
        ),
    ],
    ids=["text", "s", "ms", "pandas"],
)
def test_cells_become_lengths_within_the_bounds(cells):
    minute = timedelta(minutes=1)
    expected = [minute, minute, None, minute, timedelta(days=30), timedelta(0)]
    decoded = read(STAY, cells)
    assert decoded.type == pa.duration("s")
    assert decoded.to_pylist() == expected


def test_a_cell_does_not_depend_on_the_others():
    texts = ["PT1M", "5 days", "1h 3m", "01:03:00", "29 days 23:59:59.5"]
    schema = Schema([STAY])
    together = encode({"stay": pa.array(texts)}, schema).numeric[:, 0]
    alone = [encode({"stay": pa.array([text])}, schema).numeric[0, 0] for text in texts]
    assert np.array_equal(together, alone)


@pytest.mark.parametrize(
    ("text_format", "expected"),
    [("iso", "P1DT3M"), ("units", "1d 3m"), ("clock", "24:03:00")],
)
def test_a_format_says_how_text_is_written(text_format, expected):
    column = Duration(name="stay", lower="0s", upper="9 days", format=text_format)
    assert read(column, pa.array(["1 day 00:03:00"])).to_pylist() == [expected]


def test_steps_and_atoms():
    column = Duration(
        name="stay", lower="0s", upper="1h", step=900, atoms=["-1s", "15 min"]
    )
    cells = pa.array(["-1s", "-2s", "7m 29s", "7m 30s", "2 days"])
    minutes = [timedelta(minutes=number) for number in (0, 0, 15, 60)]
    assert read(column, cells).to_pylist() == [timedelta(seconds=-1), *minutes]


def test_bounds_are_one_in_every_notation_and_survive_files():
    columns = [
        Duration(name="stay", lower=lower, upper=upper, atoms=[atom])
        for lower, upper, atom in [
            ("0 days", "30 days", "90 min"),
            ("PT0S", "P30D", "01:30:00"),
            (timedelta(0), pd.Timedelta(days=30), timedelta(minutes=90)),
        ]
    ]
    assert len(set(columns)) == 1
    schema = Schema(columns[:1])
    assert 'upper = "P30D"' in schema.dumps()
    assert Schema.loads(schema.dumps()) == schema
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lower": 5}, "lower must be a length of time in whole seconds"),
        ({"lower": "0.5s"}, "whole seconds, in quotes such as"),
        ({"upper": "P1M"}, "found 'P1M'"),
        ({"format": "%H:%M"}, "'iso' (PT1H3M), 'units' (1h 3m) or 'clock'"),
        ({"upper": "-1s"}, "swap them"),
        ({"step": 7}, "not a whole number of steps of 7"),
        ({"upper": f"{10**12 - 1} weeks"}, "upper must be a length of time"),
    ],
)
def test_a_wrong_field_is_refused(fields, message):
    with pytest.raises(SchemaError, match=re.escape(message)):
        Duration(**{"name": "stay", "lower": "0s", "upper": "1h", **fields})


def test_a_bad_cell_is_named_and_not_shown(tmp_path):
    path = tmp_path / "stays.csv"
    path.write_text("stay\nPT1M\n4711\n")
    expected = r"line 3, column 'stay': expected a length of time such as \"5 days\""
    with pytest.raises(DataError, match=expected) as refusal:
        synthesize(path, schema=Schema([STAY]), epsilon=1.0, records=2)
    assert "4711" not in str(refusal.value)
    assert "correct the data" in str(refusal.value)


def test_whole_numbers_without_a_unit_are_refused():
    cells = pa.table({"stay": [1, 2]})
    with pytest.raises(DataError, match="found a column of values of type int64"):
        synthesize(cells, schema=Schema([STAY]), epsilon=1.0, records=2)


def test_regions_and_rules_speak_of_lengths():
    wait = Duration(name="wait", lower="0s", upper="1h")
    rule = Comparison(left="wait", relation="<=", right="stay")
    schema = Schema([STAY, wait], constraints=[rule])
    records = encode(
        {"stay": pa.array(["1 day", "PT1M"]), "wait": pa.array(["1m", "1h"])}, schema
    )
    assert schema.broken(records).tolist() == [False, True]
    for day in ("1 day", "P1D..", ("23:59:59", None), timedelta(days=1)):
        assert schema.region({"stay": day}).contains(records).tolist() == [True, False]
    with pytest.raises(SchemaError, match="numbers cannot be compared with durations"):
        Schema.loads(
            '[columns.stay]\nkind = "duration"\nlower = "0s"\nupper = "1h"\n'
            '[columns.age]\nkind = "integer"\nlower = 0\nupper = 99\n'
            '[[constraints]]\nrule = "age <= stay"\n'
        )


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_pandas_comes_in_and_goes_out(unit):
    stays = pd.to_timedelta(np.arange(300) % 40, unit="h").astype(
        f"timedelta64[{unit}]"
    )
    frame = pd.DataFrame({"stay": stays, "ill": [True, False] * 150})
    columns = [Duration(name="stay", lower="0s", upper="2 days"), Boolean(name="ill")]
    model = synthesize(frame, schema=Schema(columns), epsilon=5.0, records=300)
    sample = model.sample(50, seed=0)
    assert sample["stay"].dtype.kind == "m"
    assert sample["stay"].between(pd.Timedelta(0), pd.Timedelta(days=2)).all()
    like = model.sample(50, seed=0, like=frame)
    assert like["stay"].dtype == frame["stay"].dtype


def test_objects_of_python_are_read():
    cells = [timedelta(hours=1), None, pd.Timedelta(hours=2)]
    frame = pd.DataFrame({"stay": pd.Series(cells * 50, dtype=object)})
    model = synthesize(frame, schema=Schema([STAY]), epsilon=5.0, records=150)
    assert len(model.sample(5)) == 5


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_package_is_read_by_the_libraries_of_its_descriptions(tmp_path):
    stays = ["PT1M", "5 days", "", "01:03:00"]
    cells = pa.table({"stay": stays * 50, "ill": [True, False] * 100})
    schema = Schema([STAY, Boolean(name="ill")])
    model = synthesize(cells, schema=schema, epsilon=5.0, records=200)
    folder = model.package(tmp_path / "handout", 30, seed=1)
    description = str(folder / "datapackage.json")
    report = frictionless.validate(description)
    assert report.valid, report.flatten(["rowNumber", "fieldName", "note"])[:5]
    expected = model.sample(30, seed=1)["stay"].to_pylist()
    (resource,) = frictionless.Package(description).resources
    assert [row["stay"] for row in resource.read_rows()] == expected
    records = mlcroissant.Dataset(str(folder / "croissant.json")).records("records")
    texts = [record["records/stay"] for record in records]
    present = [text for text in texts if isinstance(text, bytes)]
    assert present
    assert all(parse_duration(text.decode()) is not None for text in present)
