"""What comes back is what went in: kinds of tables, their types, orders of categories, and how text has a value."""

import re
import tomllib
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from noisegate import draft_schema, load, synthesize
from noisegate.data.frames import read_table
from noisegate.errors import SchemaError
from noisegate.models.output.sample_file import table_writer
from noisegate.schema import Schema
from noisegate.schema.columns import column_form

FILES = Path(__file__).parents[1] / "files"
EXPECTED = tomllib.loads((FILES / "expected-types.toml").read_text())
LEVELS = ["low", "mid", "high", "never seen"]
QUICK = {"epsilon": 50.0, "fit_options": {"steps": 3}}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("name", EXPECTED["files"])
def test_a_file_comes_back_as_it_is_written(name, tmp_path):
    schema, out = draft_schema(FILES / name), tmp_path / name
    with table_writer(out, schema) as write:
        for batch in synthesize(FILES / name, schema=schema, **QUICK).batches(100, seed=1):
            write(batch)
    made = read_table(out)
    for column, told in EXPECTED["files"][name].items():
        form, cells = column_form(schema.column(column)), made[column].to_pylist()
        assert form | {key: value for key, value in told.items() if key != "cells"} == form
        assert "cells" not in told or all(re.fullmatch(told["cells"], cell) for cell in cells), cells[:5]
    assert made.schema == read_table(FILES / name).schema
    assert Schema.loads(schema.dumps()) == schema


def column(kind, group, dtype, random, rows, *, gaps):
    start, several = datetime(2020, 3, 1), random.integers(0, random.choice([2, 60]), rows).tolist()
    plain = {
        "number": several if "nt" in str(dtype) else [cell / 2 for cell in several],
        "level": random.choice(LEVELS[:3], rows).tolist(),
        "truth": [cell % 2 == 1 for cell in several],
        "moment": [start + timedelta(days=cell) for cell in several],
        "zoned": [start + timedelta(hours=cell) for cell in several],
    }[group]
    cells = pa.array(plain, pa.timestamp("us", "UTC") if group == "zoned" else None)
    if gaps and str(dtype) not in ("bool", "category") and not re.match(r"u?int\d+$", str(dtype)):
        cells = pa.array([None, *cells.to_pylist()[1:]], cells.type)
    if kind == "polars":
        return pl.from_arrow(cells).cast(dtype)
    if kind == "pandas":
        return (pd.Series(cells.to_pylist()) if gaps else cells.to_pandas()).astype(dtype)
    if pa.types.is_dictionary(dtype):
        values = pa.array(LEVELS, dtype.value_type)
        codes = pa.compute.index_in(cells.cast(dtype.value_type), value_set=values).cast(dtype.index_type)
        return pa.DictionaryArray.from_arrays(codes, values, ordered=dtype.ordered)
    return cells.cast(dtype)


def types(table):
    schema = table.dtypes if isinstance(table, pd.DataFrame) else table.schema
    return {field.name: field.type for field in schema} if isinstance(table, pa.Table) else dict(schema.items())


@pytest.mark.parametrize("kind", EXPECTED["types"])
@settings(max_examples=6, deadline=None, phases=[Phase.generate])
@given(draw=st.data(), seed=st.integers(0, 2**20), rows=st.sampled_from([3, 60, 300]), gaps=st.booleans())
def test_every_type_comes_back(kind, draw, seed, rows, gaps, tmp_path_factory):
    every = [(group, one) for group, all_of_it in EXPECTED["types"][kind].items() for one in all_of_it]
    drawn = draw.draw(st.lists(st.sampled_from(every), min_size=2, max_size=6))
    make, random = (
        {"arrow": pa.table, "polars": pl.DataFrame, "pandas": pd.DataFrame}[kind],
        np.random.default_rng(seed),
    )
    frame = make({
        f"column {place}": column(kind, group, eval(dtype), random, rows, gaps=gaps and rows > 3)
        for place, (group, dtype) in enumerate(drawn)
    })  # fmt: skip
    schema = draft_schema(frame)
    model = synthesize(frame, schema=schema, **QUICK)
    again = load(model.save(tmp_path_factory.mktemp("types") / "model"))
    wanted = {name: one for name, one in types(frame).items() if name in schema.names}
    for found in (model.sample(5), again.sample(5), again.sample(5, like=frame)):
        assert type(found) is type(frame) and types(found) == wanted
    used = frame.select(schema.names) if kind == "arrow" else frame[list(schema.names)]
    concat = {"polars": pl.concat, "pandas": pd.concat, "arrow": pa.concat_tables}[kind]
    assert types(concat([used, found])) == wanted


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ('kind = "integer"\nlower = 0\nupper = 300\ntype = "uint8"', "type = 'uint8' is no type of Arrow that holds"),
        ('kind = "integer"\nlower = 0\nupper = 9\ntype = "int"', "type = 'int' is no type"),
        ('kind = "continuous"\nlower = 0\nupper = 70000\ntype = "halffloat"', "type = 'halffloat' is no type"),
        ('kind = "date"\nlower = 2020-01-01\nupper = 2021-01-01\ntype = "timestamp[s, tz=UTC]"', "is no type"),
        (
            'kind = "integer"\nlower = 0\nupper = 9\ntype = "dictionary<values=int64, indices=int8, ordered=0>"',
            "no type",
        ),
        ('kind = "boolean"\nspelling = "False/True"', "spelling = 'False/True' does not write what can be read"),
        ('kind = "boolean"\nspelling = 1', "spelling = 1 does not write"),
        ('kind = "date"\nlower = 2020-01-01\nupper = 2020-12-31\nspelling = "%Y-%d-%m"', "does not write"),
    ],
)
def test_a_type_or_spelling_that_cannot_be_is_refused_with_its_column(column, says):
    with pytest.raises(SchemaError, match=f"column 'x': .*{re.escape(says)}"):
        Schema.loads(f"[columns.x]\n{column}")
