"""The benchmark of linked tables: its clinic and sets fit their schemas, and its page says what the runs say."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet
import pytest

from noisegate.data.linked import LinkedSource

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "linked"))

import linked_scores
from clinic import SHAPES, clinic, clinics, write
from flattened import _apart, flat
from independent import NUMBER, UNIT, children_of
from linked_scores import Judge
from linked_sets import load, schema_of

FOLDER = Path(linked_scores.__file__).parent
SCHEMA = schema_of("clinic")
VISITS = SCHEMA.links[0]


def loaded(name):
    spec = importlib.util.spec_from_file_location(f"linked_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("shape", SHAPES)
def test_a_clinic_fits_its_schema_and_keeps_its_rules(shape):
    tables = clinic(300, shape=shape)
    with LinkedSource(tables, SCHEMA) as source:
        # Read strictly: a value that the schema does not know, an orphan or a repeated key would be refused.
        source.check()
        assert sum(len(part.weights) for part in source.transitions(VISITS)) >= len(tables["visits"])
    patients = pc.index_in(tables["visits"]["id"], value_set=tables["patients"]["id"]).to_numpy()
    entered = tables["patients"]["entered"].to_numpy()[patients]
    assert (tables["visits"]["day"].to_numpy() >= entered).all()
    assert np.bincount(patients).max() <= SCHEMA.table("visits").most
    assert {"yes", "no"} == set(tables["patients"]["admitted"].to_pylist())


def test_a_clinic_has_what_is_to_be_kept():
    tables = clinic(3000)
    rows, schema = flat(tables, VISITS)
    keys = rows["id"].to_numpy(zero_copy_only=False)
    order = np.lexsort((rows["visits.day"].to_numpy(zero_copy_only=False).astype("M8[D]"), keys))
    same = keys[order][:-1] == keys[order][1:]
    pressure = rows["visits.pressure"].to_numpy(zero_copy_only=False)[order]
    known = same & np.isfinite(pressure[:-1])
    assert np.corrcoef(pressure[:-1][known], pressure[1:][known])[0, 1] > 0.8
    ill = np.asarray(rows["patients.chronic"]) != "none"
    number = rows[NUMBER.format("visits")].to_numpy()
    assert number[ill].mean() > 1.3 * number[~ill].mean()
    # Children, and one row for each patient without any.
    childless = 3000 - len(set(tables["visits"]["id"].to_pylist()))
    assert len(rows) == len(tables["visits"]) + childless and childless > 0
    assert schema.ignore == ("id",)


def test_streams_give_the_same_tables_and_go_into_files(tmp_path):
    write(tmp_path, clinics(50, seed=3), parquet=True)
    assert pyarrow.parquet.read_table(tmp_path / "visits.parquet").equals(clinic(50, seed=3)["visits"])
    assert not clinic(50, seed=4)["visits"].equals(clinic(50, seed=3)["visits"])


def test_sets_are_split_by_parents(data_dir):
    for name in ("pbcseq", "nlswork"):
        (train, test), schema = load(name, data_dir), schema_of(name)
        link = schema.links[0]
        keys = [set(tables[link.parent.name][link.parent.key].to_pylist()) for tables in (train, test)]
        assert not keys[0] & keys[1]
        assert set(train[link.name][link.child.parent_key].to_pylist()) <= keys[0]
        with LinkedSource(train, schema) as source:
            source.check()


def test_without_the_files_the_set_says_what_it_looked_for():
    with pytest.raises(RuntimeError, match="pbcseq needs --data DIR"):
        load("pbcseq", None)


def test_the_unit_of_grandchildren_is_the_patient():
    tables, described = children_of(clinic(200), SCHEMA)
    patients = dict(zip(*(tables["visits"][name].to_pylist() for name in ("visit", "id")), strict=True))
    found = tables["diagnoses"]
    assert [patients[visit] for visit in found["visit"].to_pylist()] == found[UNIT].to_pylist()
    assert pc.sum(tables["visits"][NUMBER.format("diagnoses")]).as_py() == len(found)
    assert described.table("patients").schema.names[-1] == NUMBER.format("visits")


def test_flat_rows_are_put_apart_with_the_numbers_that_are_asked():
    rows, _ = flat(clinic(500), VISITS)
    numbers = rows[NUMBER.format("visits")].to_numpy()
    families = np.zeros(31, dtype=int)
    families[[0, 2, 3]] = 4, 5, 2
    tables = _apart(rows, VISITS, numbers, families)
    assert [len(tables["patients"]), len(tables["visits"])] == [11, 16]
    counts = np.bincount(tables["visits"]["id"].to_numpy(), minlength=11)
    assert sorted(counts.tolist()) == [0] * 4 + [2] * 5 + [3] * 2


def test_the_judge_sees_broken_keys_and_dates_before_the_first_day(monkeypatch):
    monkeypatch.setattr(linked_scores, "roc_auc", lambda *_, seed=0: 0.5)
    tables = clinic(150)
    judge = Judge(tables, clinic(60, seed=1), SCHEMA)
    good = judge.floor()
    assert all(good["links"]["visits"][flaw] == 0 for flaw in ("orphans", "repeated_keys", "too_early"))
    early = clinic(150)["visits"]
    day = early["day"].to_numpy() - np.timedelta64(400, "D")
    early = early.set_column(2, "day", pyarrow.array(day)).slice(1)
    found = judge.score({"patients": tables["patients"], "visits": early})["links"]
    assert found["visits"]["too_early"] > 0 and list(found) == ["visits"]


def row(method, seed, transitions, **more):
    figures = {"child_counts": 0.02, "parent_child": 0.1, "transitions": transitions, "distinct_values": 0.1}
    links = {"visits": figures | {"gaps": 0.1, "orphans": 0, "repeated_keys": 0, "backwards": 0}}
    return {"set": "clinic", "method": method, "epsilon": 1.0, "seed": seed, "links": links, "roc_auc": 0.7} | more


def test_the_page_says_what_its_results_say():
    page = loaded("page")
    assert page.PAGE.read_text("utf-8") == page.written()


def test_the_page_names_who_wins_and_which_target_is_missed():
    page = loaded("page")
    results = [row("linked", 0, 0.1), row("linked", 1, 0.2), row("independent", 0, 0.25), row("flattened", 0, 0.05)]
    results.append(
        {"set": "clinic", "method": "par", "epsilon": None, "seed": 0, "failed": {"status": "timeout", "error": "x"}}
    )
    target = {"set": "clinic", "link": "visits", "epsilon": 1.0, "figure": "transitions", "value": 0.5}
    told = page.page(results, [{**target, "share_of": "independent"}, target, {**target, "epsilon": 9.0}])
    assert "| clinic, visits, 1 | linked | linked | flattened | linked | linked | linked |" in told
    assert "as a share of independent ≤ 0.5 | 0.600 | **missed** |" in told
    assert "child × next child ≤ 0.5 | 0.150 | met |" in told and "| – | not run |" in told
    assert "| clinic, visits | linked | 1 | 2 | 0.020 | 0.100 | 0.150 |" in told
    assert "timeout: x" in told
