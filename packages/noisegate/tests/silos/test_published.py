"""The identifier of a plan: the same wherever the same is asked, and another with anything that is asked."""

import json

import pytest

from noisegate import Pairwise, Schema
from noisegate.errors import ModelError, OptionError
from noisegate.runs.folder import Run
from noisegate.schema import Boolean, Integer
from noisegate.silos.rounds import plan_id, plan_of, read_plan, settled, write_plan

from .conftest import SCHEMA

GUARANTEE = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "add-remove", "records": None, "unit": "record"}
REST = {"unit_column": None, "contributions": None, "dataset": None, "ledger": None, "settings": {}}


def run(**changes):
    return Run.of(**{"method": "pairwise", "schema": SCHEMA, **GUARANTEE, **REST, **changes})


def identity(**changes):
    one = settled(run(**changes))
    return plan_id(one.method, one.schema, plan_of(one.method, one.schema, one.budget))


def test_the_same_inputs_have_the_same_identifier():
    again = Schema.from_json(json.loads(json.dumps(SCHEMA.to_json())))
    assert identity() == identity(method=Pairwise(), schema=again, epsilon=1, dataset=None)


def test_what_changes_what_is_asked_changes_the_identifier():
    other = Schema((Integer(name="age", lower=0, upper=98), *SCHEMA.columns[1:]), label="ill")
    changed = [
        identity(),
        identity(settings={"cells": 5}),
        identity(settings={"pairs": "none"}),
        identity(settings={"pairs_share": 0.8}),
        identity(settings={"seed": 1}),
        identity(schema=other),
        identity(method="dp-merf"),
        identity(method="dp-merf", settings={"seed": 1}),
        identity(unit="patient"),
        identity(unit_column="id", contributions=2),
        identity(unit_column="id", contributions=3),
    ]
    assert len(set(changed)) == len(changed)


def test_another_epsilon_asks_the_same_once_settled_and_another_number_of_cells_where_not():
    cells = settled(run()).method
    assert identity(method=cells, epsilon=5.0) == identity()
    assert identity(epsilon=5.0) != identity()  # more cells


@pytest.mark.parametrize("method", ["mst", "tab-pe"])
def test_methods_that_do_not_ask_in_rounds_of_sums_are_refused(method):
    with pytest.raises(OptionError, match=f"method='{method}' does not ask in rounds of sums"):
        settled(run(method=method))


def test_replaced_records_and_bought_schemas_are_refused():
    with pytest.raises(OptionError, match="adjacency='replace-one'"):
        settled(run(adjacency="replace-one", records=10))
    with pytest.raises(OptionError, match="bought from the records of one silo"):
        settled(Run(**{**vars(run()), "discovery": {}}))


def test_a_published_plan_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "plan.json"
    one = settled(run())
    assert write_plan(one, path) == identity()
    read = read_plan(path)
    assert (read.method, read.schema.digest(), read.budget) == (one.method, one.schema.digest(), one.budget)
    assert read_plan(path, epsilon=3.0).budget.epsilon == 3.0 and read.method.cells == 24


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"settings": {"cells": 5}}, "it was changed"),
        ({"contributions": 2, "unit_column": "id"}, "it was changed"),
        ({"schema": Schema([Boolean(name="ill")]).to_json()}, "it was changed"),
        ({"plan": "0"}, "states the plan 0"),
        ({"format": 2}, "format 2"),
        ({"method": None}, "method=None"),
        ({"epsilon": "much"}, "epsilon='much'"),
        ({"epsilon": 10.0}, "states epsilon=10 at delta=1e-05, and its noise is that of another price"),
        ({"epsilon": 0.999}, "another price"),
        ({"delta": 1e-4}, "another price"),
        ({"noise": {}}, "another price"),
        ({"noise": None}, "no published plan"),
    ],
)
def test_a_plan_that_was_changed_is_refused(tmp_path, change, says):
    path = tmp_path / "plan.json"
    write_plan(settled(run()), path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises((ModelError, OptionError), match=says):
        read_plan(path)


def test_files_that_are_no_plans(tmp_path):
    with pytest.raises(ModelError, match="noisegate plan --save"):
        read_plan(tmp_path / "none.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(ModelError, match="no published plan"):
        read_plan(tmp_path / "list.json")
