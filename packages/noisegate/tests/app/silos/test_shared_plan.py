"""The identifier of a plan: the same wherever the same is asked, and another with anything that is asked."""

import json
from dataclasses import replace

import pytest
from tests.shared.columns import boolean, integer

from noisegate import Certificate, Pairwise, Schema, merge
from noisegate.app.request import Request
from noisegate.app.runs.folder import Run
from noisegate.app.silos.shared_plan import (
    calibrated_plan,
    plan_id,
    read_plan,
    settle_run,
    write_plan,
)
from noisegate.errors import ModelError, OptionError
from noisegate.models.folder import _check_events
from noisegate.privacy.release import Release

from .conftest import ONE_ROUND, SCHEMA

GUARANTEE = {
    "epsilon": 1.0,
    "delta": 1e-5,
    "adjacency": "add-remove",
    "records": None,
    "unit": "record",
}


def run(**changes):
    return Run.of(
        Request(**{"method": "pairwise", "schema": SCHEMA, **GUARANTEE, **changes})
    )


def identity(**changes):
    settled = settle_run(run(**changes))
    return plan_id(
        settled.method,
        settled.schema,
        calibrated_plan(settled.method, settled.schema, settled.budget),
    )


def test_the_same_inputs_have_the_same_identifier():
    reread = Schema.from_json(json.loads(json.dumps(SCHEMA.to_json())))
    assert identity() == identity(
        method=Pairwise(), schema=reread, epsilon=1, dataset=None
    )


def test_what_changes_what_is_asked_changes_the_identifier():
    other = Schema((integer("age", 0, 98), *SCHEMA.columns[1:]), label="ill")
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
    cells = settle_run(run()).method
    assert identity(method=cells, epsilon=5.0) == identity()
    assert identity(epsilon=5.0) != identity()  # more cells


@pytest.mark.parametrize("method", ["mst", "tab-pe"])
def test_methods_that_do_not_ask_in_rounds_of_sums_are_refused(method):
    with pytest.raises(
        OptionError, match=f"method='{method}' does not ask in rounds of sums"
    ):
        settle_run(run(method=method))


def test_replaced_records_and_bought_schemas_are_refused():
    with pytest.raises(OptionError, match="adjacency='replace-one'"):
        settle_run(run(adjacency="replace-one", records=10))
    with pytest.raises(OptionError, match="estimated from records of one silo"):
        settle_run(replace(run(), discovery={}))


def test_a_published_plan_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "plan.json"
    settled = settle_run(run())
    assert write_plan(settled, path) == identity()
    read = read_plan(path)
    assert read.method == settled.method
    assert read.schema.digest() == settled.schema.digest()
    assert read.budget == settled.budget
    assert read_plan(path, epsilon=3.0).budget.epsilon == 3.0
    assert read.method.cells == 24


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": {"cells": 5}}, "it was changed"),
        ({"contributions": 2, "unit_column": "id"}, "it was changed"),
        ({"schema": Schema([boolean("ill")]).to_json()}, "it was changed"),
        ({"plan": "0"}, "states the plan 0"),
        ({"format": 2}, "format 2"),
        ({"method": None}, "method=None"),
        ({"epsilon": "much"}, "epsilon='much'"),
        (
            {"epsilon": 10.0},
            "states epsilon=10 at delta=1e-05, and its noise does not match",
        ),
        ({"epsilon": 0.999}, "its noise does not match"),
        ({"delta": 1e-4}, "its noise does not match"),
        ({"noise": {}}, "its noise does not match"),
        ({"noise": None}, "not a published plan"),
    ],
)
def test_a_plan_that_was_changed_is_refused(tmp_path, change, message):
    path = tmp_path / "plan.json"
    write_plan(settle_run(run()), path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises((ModelError, OptionError), match=message):
        read_plan(path)


def test_files_that_are_no_plans(tmp_path):
    with pytest.raises(ModelError, match="noisegate plan --save"):
        read_plan(tmp_path / "none.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(ModelError, match="not a published plan"):
        read_plan(tmp_path / "list.json")


@pytest.mark.parametrize(
    "edit", [lambda own: own[0].update(sensitivity=1.0), lambda own: own.pop()]
)
def test_every_silo_states_what_all_released(answers, tmp_path, edit):
    merge(answers(**ONE_ROUND), stated_by="the registry", out=tmp_path / "round")
    certificate = json.loads(
        (tmp_path / "round" / "certificate.json").read_text("utf-8")
    )
    edit(certificate["silos"]["silos"][1]["events"])
    reread = Certificate.from_json(certificate)
    with pytest.raises(ModelError, match=r"sensitivity=1, below|other releases"):
        _check_events(
            replace(Release.load(tmp_path / "round"), certificate=reread),
            tmp_path / "round",
        )
