"""Linked tables in one call: a mapping of frames in, a model that draws frames of the same kinds out."""

import pandas as pd
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, integer

import noisegate
from noisegate.errors import OptionError
from noisegate.linked.model import LinkedModel
from noisegate.linked.schema import LinkedSchema, LinkedTable
from noisegate.schema import Schema

SCHEMA = LinkedSchema(
    [
        LinkedTable(name="people", key="id", schema=Schema([boolean("ill"), categorical("sex", "fm")])),
        LinkedTable(
            name="visits",
            parent="people",
            order="day",
            most=5,
            schema=Schema([integer("day", 0, 99), integer("pain", 0, 10, missing=True)]),
        ),
    ]
)
FAST = {"epsilon": 1.0, "fit_options": {"steps": 3}}


def tables(people=300):
    first = pd.DataFrame({"id": [f"p{i}" for i in range(people)], "ill": [i % 4 == 0 for i in range(people)]})
    first["sex"] = pd.Categorical(["f" if i % 2 else "m" for i in range(people)])
    of = [i * 11 % people for i in range(2 * people)]
    visits = {"id": [f"p{i}" for i in of], "day": [i % 89 for i in range(2 * people)], "pain": [i % 11 for i in of]}
    return {"people": first, "visits": pa.table(visits)}


def test_frames_of_the_kinds_that_were_given_come_out(tmp_path):
    model = noisegate.fit(tables(), schema=SCHEMA, **FAST, out=tmp_path / "model")
    made = noisegate.load(tmp_path / "model").sample(40, seed=1)
    people, visits = made["people"], made["visits"]
    assert isinstance(people, pd.DataFrame) and isinstance(visits, pa.Table)
    assert (list(people), visits.column_names) == (["id", "ill", "sex"], ["id", "day", "pain"])
    assert isinstance(people["sex"].dtype, pd.CategoricalDtype) and people["id"].tolist() == list(range(1, 41))
    assert set(visits["id"].to_pylist()) <= set(range(1, 41))
    assert noisegate.evaluate(model, tables(50)).links["visits"].parent_child is not None


def test_a_schema_file_and_files_in_a_folder_do_too(tmp_path):
    for name, table in tables().items():
        frame = table if isinstance(table, pd.DataFrame) else table.to_pandas()
        (tmp_path / "data").mkdir(exist_ok=True)
        frame.to_csv(tmp_path / "data" / f"{name}.csv", index=False)
    SCHEMA.to_toml(tmp_path / "linked.toml")
    model = noisegate.fit(tmp_path / "data", schema=tmp_path / "linked.toml", out=tmp_path / "model", **FAST)
    assert isinstance(model.sample(3)["people"], pa.Table)
    loaded = LinkedModel.load(tmp_path / "model")
    assert loaded.sample(3, seed=0)["visits"].equals(model.sample(3, seed=0)["visits"])
    with pytest.raises(OptionError, match=r"lies in .*, among the records"):
        noisegate.fit(tmp_path / "data", schema=SCHEMA, out=tmp_path / "data" / "model", **FAST)


def test_an_interrupted_fit_goes_on_without_records(tmp_path, monkeypatch):
    from noisegate.linked import fit as linked_fit

    def stop(*_arguments, **_options):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(linked_fit.LinkedFit, "run", stop)
        with pytest.raises(KeyboardInterrupt):
            noisegate.fit(tables(), schema=SCHEMA, out=tmp_path / "model", **FAST)
    model = noisegate.fit(schema=SCHEMA, out=tmp_path / "model", resume=True)
    assert len(model.sample(5)["people"]) == 5
