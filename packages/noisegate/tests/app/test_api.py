import gc
import io
import pickle
from datetime import date
from functools import partial

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

import noisegate
import noisegate.errors
import noisegate.schema
from noisegate import Schema, synthesize
from noisegate.errors import OptionError
from noisegate.gate.sums import Engine, LocalEngine
from noisegate.models.linked import fit as linked_fit
from noisegate.models.linked.model import LinkedModel
from noisegate.schema import Date
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable

SCHEMA = Schema(
    (
        integer("age", 0, 100),
        continuous("rate"),
        categorical("work", "ab", other="b"),
        boolean("member"),
        Date(name="born", lower=date(1950, 1, 1), upper=date(2020, 1, 1)),
    ),
    label="member",
)
TINY = {"cells": 4, "fit_options": {"components": 8, "steps": 20}}
SECRET = "Ms Q. Zebra, 1 Private Lane"


def columns(rows=60):
    return {
        "age": [i % 90 for i in range(rows)],
        "rate": [i / rows for i in range(rows)],
        "work": [("a", "b", SECRET)[i % 3] for i in range(rows)],
        "member": [i % 2 == 0 for i in range(rows)],
        "born": [date(1960 + i % 40, 1, 1) for i in range(rows)],
    }


def synthetic_of(table, rows=200, **options):
    """What a model draws, which holds nothing of the table that it was made from."""
    fitted = synthesize(
        table, schema=SCHEMA, epsilon=5.0, device="cpu", **TINY, **options
    )
    assert SECRET.encode() not in pickle.dumps(fitted)
    return fitted.sample(rows, seed=0)


@pytest.mark.parametrize(
    ("frame", "types"),
    [
        (
            pd.DataFrame(columns()).astype({"age": "int16", "rate": "float32"}),
            ("int64", "float64"),
        ),
        (
            pl.DataFrame(columns()).cast({"age": pl.Int8, "rate": pl.Float32}),
            (pl.Int64, pl.Float64),
        ),
    ],
)
def test_a_frame_gives_one_of_its_kind_with_the_types_of_the_schema(frame, types):
    synthetic = synthetic_of(frame)
    assert type(synthetic) is type(frame)
    assert list(synthetic.columns) == list(frame.columns)
    assert (synthetic["age"].dtype, synthetic["rate"].dtype) == types


def test_a_path_gives_arrow(tmp_path):
    pd.DataFrame(columns()).to_csv(tmp_path / "people.csv", index=False)
    SCHEMA.to_toml(tmp_path / "schema.toml")
    for path in (tmp_path / "people.csv", str(tmp_path / "people.csv")):
        made_table = synthesize(
            path, schema=tmp_path / "schema.toml", epsilon=5.0, device="cpu", **TINY
        ).sample(5)
        assert isinstance(made_table, pa.Table)


@pytest.mark.parametrize("kind", ["categorical", "ordered", "index", "attributes"])
def test_nothing_private_rides_along_in_a_pandas_frame(kind):
    frame = pd.DataFrame(columns())
    if kind in ("categorical", "ordered"):
        frame["work"] = pd.Categorical(
            frame["work"], categories=[SECRET, "b", "a"], ordered=kind == "ordered"
        )
    if kind == "index":
        frame.index = pd.Index([SECRET] * len(frame), name=SECRET)
    if kind == "attributes":
        frame.attrs["patient"] = SECRET
    synthetic = synthetic_of(frame)
    assert isinstance(synthetic["work"].dtype, pd.CategoricalDtype) == (
        kind in ("categorical", "ordered")
    )
    if isinstance(synthetic["work"].dtype, pd.CategoricalDtype):
        assert set(synthetic["work"].cat.categories) <= {"a", "b"}
    assert SECRET not in repr(
        (
            synthetic.attrs,
            synthetic.index,
            synthetic.index.names,
            synthetic.dtypes.to_dict(),
            synthetic.to_csv(),
        )
    )
    assert (
        SECRET.encode()
        not in pa.Table.from_pandas(synthetic).schema.to_string().encode()
    )


@pytest.mark.parametrize("kind", [pl.Enum([SECRET, "b", "a"]), pl.Categorical])
def test_nothing_private_rides_along_in_a_polars_frame(kind):
    # A Categorical carries every text that the process ever saw in one, into each file that is written of it.
    frame = pl.DataFrame(columns()).cast({"work": kind})
    seen = pl.Series([SECRET, "patient 7"], dtype=pl.Categorical)
    synthetic = synthetic_of(frame)
    assert synthetic["work"].dtype == pl.String
    assert SECRET.encode() not in b"".join(_written(synthetic))
    assert len(seen) == 2


def _written(frame):
    """Yields a Polars frame in every form in which it may be handed on."""
    yield pickle.dumps(frame)
    yield repr((frame.schema, frame.write_csv())).encode()
    writers = (
        frame.serialize,
        partial(frame.write_ipc, compression="uncompressed"),
        partial(frame.write_ipc_stream, compression="uncompressed"),
        partial(frame.write_parquet, compression="uncompressed"),
    )
    for write in writers:
        file = io.BytesIO()
        write(file)
        yield file.getvalue()


def test_nothing_private_rides_along_in_an_arrow_table():
    table = pa.table(columns())
    work = table["work"].cast(pa.dictionary(pa.int32(), pa.string()))
    field = pa.field("work", work.type, metadata={"example": SECRET})
    table = table.set_column(2, field, work).replace_schema_metadata(
        {"first record": SECRET}
    )
    synthetic = synthetic_of(table)
    assert synthetic.schema.metadata is None
    assert all(field.metadata is None for field in synthetic.schema)
    assert set(synthetic["work"].to_pylist()) <= {"a", "b"}
    assert synthetic.schema.field("work").type == pa.string()


def test_the_synthesizer_holds_no_record():
    """Not by another path either: nothing that can be reached from it is the table that was given."""
    frame = pl.DataFrame(columns())
    fitted = synthesize(frame, schema=SCHEMA, epsilon=5.0, device="cpu", **TINY)
    seen = set()
    waiting = [fitted]
    while waiting:
        thing = waiting.pop()
        if (
            id(thing) in seen
            or isinstance(thing, type)
            or type(thing).__name__ in ("module", "function")
        ):
            continue
        seen.add(id(thing))
        assert not (isinstance(thing, pl.DataFrame) and len(thing))
        waiting += gc.get_referents(thing)
    assert len(seen) > 100


def test_sums_run_on_the_engine_that_is_given_and_a_run_that_goes_on_sums_nothing(
    tmp_path,
):
    class Counting(Engine):
        opens = sums = 0

        def opened(self):
            self.opens += 1
            return super().opened()

        def sum(self, *arguments):
            self.sums += 1
            return LocalEngine(threads=1).sum(*arguments)

    engine = Counting()
    synthetic_of(columns(), engine=engine)
    assert engine.opens == 1
    assert engine.sums == 2
    with pytest.raises(
        OptionError,
        match=r"^engine: a resumed fit reads no records; leave it out with resume",
    ):
        noisegate.fit(resume=tmp_path, engine=engine)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_units_are_protected_and_never_copied(kind):
    table = kind(columns() | {"who": [f"{SECRET} {i % 20}" for i in range(60)]})
    synthesizer = synthesize(
        table,
        schema=SCHEMA,
        epsilon=5.0,
        device="cpu",
        unit_column="who",
        contributions=2,
        **TINY,
    )
    assert synthesizer.certificate.unit == "all records of one who"
    assert synthesizer.certificate.contributions == 2
    sample = synthesizer.sample(10, seed=0)
    assert list(getattr(sample, "column_names", None) or sample.columns) == list(
        SCHEMA.names
    )
    assert SECRET.encode() not in pickle.dumps(synthesizer)


def test_the_seed_is_public_and_the_noise_has_none():
    one, two = (
        synthesize(
            pa.table(columns()),
            schema=SCHEMA,
            epsilon=5.0,
            device="cpu",
            seed=4,
            **TINY,
        )
        for _ in range(2)
    )
    assert one.certificate.public["settings"]["seed"] == 4
    # The later maps follow from noisy answers, so only the first ones are of the same shape.
    assert (one.release.values["counts"] != two.release.values["counts"]).all()


# Linked tables in one call: a mapping of frames in, a model that draws frames of the same kinds out.

API_LINKED_SCHEMA = LinkedSchema(
    [
        LinkedTable(
            name="people",
            key="id",
            schema=Schema([boolean("ill"), categorical("sex", "fm")]),
        ),
        LinkedTable(
            name="visits",
            parent="people",
            order="day",
            most=5,
            schema=Schema(
                [integer("day", 0, 99), integer("pain", 0, 10, missing=True)]
            ),
        ),
    ]
)
FAST = {"epsilon": 1.0, "fit_options": {"steps": 3}}


def tables(people=300):
    first = pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(people)],
            "ill": [i % 4 == 0 for i in range(people)],
        }
    )
    first["sex"] = pd.Categorical(["f" if i % 2 else "m" for i in range(people)])
    of = [i * 11 % people for i in range(2 * people)]
    visits = {
        "id": [f"p{i}" for i in of],
        "day": [i % 89 for i in range(2 * people)],
        "pain": [i % 11 for i in of],
    }
    return {"people": first, "visits": pa.table(visits)}


def test_frames_of_the_kinds_that_were_given_come_out(tmp_path):
    model = noisegate.fit(
        tables(), schema=API_LINKED_SCHEMA, **FAST, out=tmp_path / "model"
    )
    synthetic = noisegate.load(tmp_path / "model").sample(40, seed=1)
    people = synthetic["people"]
    visits = synthetic["visits"]
    assert isinstance(people, pd.DataFrame)
    assert isinstance(visits, pa.Table)
    assert list(people) == ["id", "ill", "sex"]
    assert visits.column_names == ["id", "day", "pain"]
    assert isinstance(people["sex"].dtype, pd.CategoricalDtype)
    assert people["id"].tolist() == list(range(1, 41))
    assert set(visits["id"].to_pylist()) <= set(range(1, 41))
    assert (
        noisegate.evaluate(model, tables(50)).links["visits"].parent_child is not None
    )


def test_a_schema_file_and_files_in_a_folder_do_too(tmp_path):
    for name, table in tables().items():
        frame = table if isinstance(table, pd.DataFrame) else table.to_pandas()
        (tmp_path / "data").mkdir(exist_ok=True)
        frame.to_csv(tmp_path / "data" / f"{name}.csv", index=False)
    API_LINKED_SCHEMA.to_toml(tmp_path / "linked.toml")
    model = noisegate.fit(
        tmp_path / "data",
        schema=tmp_path / "linked.toml",
        out=tmp_path / "model",
        **FAST,
    )
    assert isinstance(model.sample(3)["people"], pa.Table)
    loaded = LinkedModel.load(tmp_path / "model")
    assert loaded.sample(3, seed=0)["visits"].equals(model.sample(3, seed=0)["visits"])
    with pytest.raises(OptionError, match=r"lies in .*, among the records"):
        noisegate.fit(
            tmp_path / "data",
            schema=API_LINKED_SCHEMA,
            out=tmp_path / "data" / "model",
            **FAST,
        )


def test_an_interrupted_fit_goes_on_without_records(tmp_path, monkeypatch):
    def stop(*_arguments, **_options):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(linked_fit.LinkedFit, "run", stop)
        with pytest.raises(KeyboardInterrupt):
            noisegate.fit(
                tables(), schema=API_LINKED_SCHEMA, out=tmp_path / "model", **FAST
            )
    model = noisegate.fit(schema=API_LINKED_SCHEMA, out=tmp_path / "model", resume=True)
    assert len(model.sample(5)["people"]) == 5
