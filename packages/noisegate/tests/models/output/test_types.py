"""What comes back is what went in: kinds of tables, their types, orders of categories, and how text has a value."""

import re
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from noisegate import draft_schema, load, synthesize
from noisegate.errors import SchemaError
from noisegate.models.output.sample_file import table_writer
from noisegate.schema import Schema
from noisegate.schema.columns import column_form
from noisegate.sources.frames import read_table

FILES = Path(__file__).with_name("files")
EXPECTED = tomllib.loads((FILES / "expected-types.toml").read_text())
LEVELS = ["low", "mid", "high", "never seen"]
TABLES = {
    "arrow": (
        pa.table,
        pa.concat_tables,
        lambda table: dict(zip(table.column_names, table.schema.types, strict=True)),
    ),
    "polars": (pl.DataFrame, pl.concat, lambda table: dict(table.schema)),
    "pandas": (pd.DataFrame, pd.concat, lambda table: dict(table.dtypes)),
}
QUICK = {"epsilon": 50.0, "fit_options": {"steps": 3}}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("name", EXPECTED["files"])
def test_a_file_comes_back_as_it_is_written(name, tmp_path):
    schema = draft_schema(FILES / name)
    out = tmp_path / name
    with table_writer(out, schema) as write:
        for batch in synthesize(FILES / name, schema=schema, **QUICK).batches(
            100, seed=1
        ):
            write(batch)
    written = read_table(out)
    for column, fields in EXPECTED["files"][name].items():
        form = {"cells": ".*"} | column_form(schema.column(column))
        cells = fields.get("cells", ".*")
        assert form | fields | {"cells": ".*"} == form
        assert all(
            re.fullmatch(cells, str(cell)) for cell in written[column].to_pylist()
        ), column
    assert written.schema == read_table(FILES / name).schema
    assert Schema.loads(schema.dumps()) == schema


def column(kind, group, dtype, random, rows, *, gaps):
    start = datetime(2020, 3, 1)
    several = random.integers(0, random.choice([2, 60]), rows).tolist()
    cells = {
        "number": several if "nt" in str(dtype) else [cell / 2 for cell in several],
        "level": random.choice(LEVELS[:3], rows).tolist(),
        "truth": [cell % 2 == 1 for cell in several],
        "moment": [start + timedelta(days=cell) for cell in several],
        "zoned": [
            (start + timedelta(hours=cell)).replace(tzinfo=UTC) for cell in several
        ],
    }[group]
    if gaps and not re.match(r"u?int\d+$|bool$", str(dtype)):
        cells[0] = None
    if kind == "pandas":
        return pd.Series(cells).astype(dtype)
    plain = pa.array(cells, dtype if isinstance(dtype, pa.DictionaryType) else None)
    return pl.from_arrow(plain).cast(dtype) if kind == "polars" else plain.cast(dtype)


@pytest.mark.parametrize("kind", TABLES)
@settings(max_examples=6, phases=[Phase.generate])
@given(
    draw=st.data(),
    seed=st.integers(0, 2**20),
    rows=st.sampled_from([3, 60, 300]),
    gaps=st.booleans(),
)
def test_every_type_comes_back(kind, draw, seed, rows, gaps, tmp_path_factory):
    (make, concat, types) = TABLES[kind]
    random = np.random.default_rng(seed)
    every = [
        (group, eval(table))
        for group, named in EXPECTED["types"][kind].items()
        for table in named
    ]
    drawn = draw.draw(st.lists(st.sampled_from(every), min_size=2, max_size=6))
    columns = {
        f"c{i}": column(kind, *table, random, rows, gaps=gaps and rows > 3)
        for i, table in enumerate(drawn)
    }
    schema = draft_schema(make(columns))
    frame = make({name: columns[name] for name in schema.names})
    model = synthesize(frame, schema=schema, **QUICK)
    loaded = load(model.save(tmp_path_factory.mktemp("types") / "model"))
    like = loaded.sample(5, like=frame)
    dtypes = {name: dtype for name, dtype in types(frame).items() if stated(dtype)}
    assert type(like) is type(frame)
    assert types(like) == types(frame) == types(concat([frame, like]))
    for sample in (model.sample(5), loaded.sample(5)):
        assert type(sample) is type(frame)
        assert dtypes.items() <= types(sample).items()


def stated(dtype):
    """Whether a schema, or categories, say so much of a type: not of which family of pandas it is."""
    return getattr(dtype, "na_value", None) is not pd.NA


@pytest.mark.parametrize(
    "refused", EXPECTED["refused"], ids=lambda refused: refused["says"]
)
def test_a_type_or_spelling_that_cannot_be_is_refused_with_its_column(refused):
    fields = {key: value for key, value in refused.items() if key != "says"}
    with pytest.raises(SchemaError, match=f"column 'x': {re.escape(refused['says'])}"):
        Schema.from_form({"columns": {"x": fields}}).usable()
