"""Releases of several silos, added up: what comes out, what it costs, and what is refused."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, integer
from tests.shared.stated import ledger_of

from noisegate import Certificate, Pairwise, Schema, merge, release, synthesize, verify
from noisegate.app.request import Request
from noisegate.app.runs.folder import Run
from noisegate.app.silos.merging import add_up
from noisegate.app.silos.shared_plan import (
    calibrated_plan,
    plan_id,
    read_plan,
    settle_run,
    write_plan,
)
from noisegate.errors import BudgetRefusedError, ModelError, OptionError
from noisegate.models.folder import _check_events
from noisegate.privacy import accounting
from noisegate.privacy.release import Release

from .conftest import ONE_ROUND, SCHEMA, SIZES, TABLES


def test_sums_and_variances_add_up(answers):
    released = answers(
        epsilon={"north": 1000.0, "south": 1000.0, "west": 500.0}, **ONE_ROUND
    )
    merged = add_up(released)
    for name, values in merged.values.items():
        assert np.allclose(values, sum(one.values[name] for one in released))
        assert merged.noise_std[name] == pytest.approx(
            np.hypot.reduce([one.noise_std[name] for one in released])
        )
    # Each record counts once, whatever silo it is in.
    assert merged.values["counts"].sum() == pytest.approx(sum(SIZES.values()), abs=5)


def test_merged_silos_are_as_good_as_the_pooled_table_but_for_the_noise(answers):
    first = add_up(answers(epsilon=1000.0))
    model = merge(answers(epsilon=1000.0, after=first), after=first)
    pooled = pa.concat_tables(TABLES.values())
    ages = np.array(model.sample(20_000, seed=0)["age"].to_pylist())
    assert abs(ages.mean() - np.mean(pooled["age"].to_pylist())) < 2
    assert model.certificate.silos is not None


def test_disjoint_silos_cost_the_largest_epsilon(answers):
    each = {"north": 1.0, "south": 0.5, "west": 2.0}
    released = answers(epsilon=each, **ONE_ROUND)
    disjoint = add_up(released, stated_by="the registry").certificate
    assert disjoint.epsilon == 2.0
    assert disjoint.check() == accounting.epsilon(released[2].certificate.events, 1e-5)
    overlapping = add_up(released, overlapping=True).certificate
    every = [event for one in released for event in one.certificate.events]
    assert overlapping.check() == accounting.epsilon(every, 1e-5) > 2.0
    assert "the registry states" in str(disjoint.card().facts["silos"])
    assert "composed" in overlapping.card().facts["silos"]


def test_the_largest_delta_is_that_of_all(answers):
    released = [
        release(TABLES[name], silo=name, epsilon=1.0, delta=delta, **ONE_ROUND)
        for name, delta in (("north", 1e-6), ("south", 1e-5))
    ]
    certificate = add_up(released).certificate
    assert certificate.epsilon == 1.0
    assert certificate.delta == 1e-5
    assert certificate.check() <= 1.0


def test_a_model_folder_lists_the_silos_and_can_be_recomputed(answers, tmp_path):
    released = answers(**ONE_ROUND)
    merge(released, stated_by="the registry", out=tmp_path / "model")
    verified = verify(tmp_path / "model")
    members = verified.certificate.silos.members
    assert [silo.certificates for silo in members] == [
        (one.certificate.digest(),) for one in released
    ]
    page = (tmp_path / "model" / "certificate.md").read_text()
    assert "3 silos were added up: north, south, west. the registry states" in page
    assert Certificate.from_json(verified.certificate.to_json()) == verified.certificate


def test_both_rounds_are_in_the_certificate(answers):
    first = add_up(answers())
    done = add_up(answers(after=first), after=first)
    for silo in done.certificate.silos.members:
        assert len(silo.certificates) == 2
        assert {event.name for event in silo.events} == {
            "fine",
            "coarse",
            "counts",
            "one-way",
            "pairs",
        }
    assert 0.999 < done.certificate.check() <= 1


def test_a_round_before_the_last_is_a_release(answers, tmp_path):
    merged = merge(answers(), out=tmp_path / "first")
    assert verify(tmp_path / "first").certificate == merged.certificate
    assert set(merged.values) == {"fine", "coarse"}


def test_one_folder_and_one_silo_twice_are_refused(answers):
    north, south, _ = answers(**ONE_ROUND)
    with pytest.raises(OptionError, match="1 given; give those of two silos"):
        merge([north])
    with pytest.raises(
        OptionError, match="silo 'north' is there twice, with the same release"
    ):
        merge([north, north])
    again = release(TABLES["north"], silo="north", epsilon=1.0, **ONE_ROUND)
    with pytest.raises(
        OptionError, match="silo 'north' is there twice, with two releases"
    ):
        merge([north, south, again])
    with pytest.raises(OptionError, match="merged already"):
        merge([add_up([north, south]), south])


def test_other_plans_are_refused_and_it_is_said_in_what_they_differ(answers):
    (north,) = answers(silos=("north",), **ONE_ROUND)
    (south,) = answers(
        silos=("south",), schema=SCHEMA, method=Pairwise(cells=128, pairs="none")
    )
    with pytest.raises(OptionError, match="pairs is 'auto' and 'none'"):
        merge([north, south])
    public = {**south.certificate.public, "plan": "of dp-hp"}
    other = replace(
        south, certificate=replace(south.certificate, method="dp-hp", public=public)
    )
    with pytest.raises(OptionError, match="method is 'pairwise' and 'dp-hp'"):
        merge([north, other])
    small = Schema([boolean("ill")])
    foreign = release(
        TABLES["south"].select(["ill"]), silo="south", epsilon=1.0, schema=small
    )
    with pytest.raises(OptionError, match="their schemas differ"):
        merge([north, foreign])


def test_releases_of_a_fit_are_not_of_a_silo(answers):
    (north,) = answers(silos=("north",), **ONE_ROUND)
    fitted = synthesize(TABLES["south"], epsilon=1.0, **ONE_ROUND)
    with pytest.raises(OptionError, match="names no silo and no plan"):
        merge([north, fitted.release])


def test_rounds_are_not_mixed(answers):
    first, other = add_up(answers()), add_up(answers())
    second = answers(after=first)
    with pytest.raises(OptionError, match="none is given"):
        merge(second)
    with pytest.raises(
        OptionError, match="silo 'north' went on from the merged release"
    ):
        merge(second, after=other)
    with pytest.raises(OptionError, match="answered the first round"):
        merge(answers(), after=first)
    with pytest.raises(
        OptionError, match="the round before is of the silos north, south, west"
    ):
        merge(second[:2], after=first)


def test_who_states_that_silos_are_disjoint_goes_with_that(answers):
    with pytest.raises(OptionError, match="stated_by='me'"):
        merge(answers(**ONE_ROUND), overlapping=True, stated_by="me")


def test_a_plan_that_is_not_that_of_its_settings_is_refused(answers):
    false = []
    for one in answers(**ONE_ROUND):
        public = {**one.certificate.public, "plan": "0" * 64}
        false.append(replace(one, certificate=replace(one.certificate, public=public)))
    with pytest.raises(
        ModelError,
        match="states the plan 0000000000000000, and its settings are those of",
    ):
        merge(false)


def test_tampered_values_and_certificates_are_refused(answers, tmp_path):
    folders = []
    for name in ("north", "south"):
        release(TABLES[name], silo=name, epsilon=1.0, out=tmp_path / name, **ONE_ROUND)
        folders.append(tmp_path / name)
    path = folders[0] / "release.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(ModelError, match="hashes differ"):
        merge(folders)
    path.write_bytes(whole)
    certificate_file = folders[0] / "certificate.json"
    content = json.loads(certificate_file.read_text())
    content["guarantee"]["epsilon"] = 0.5
    certificate_file.write_text(json.dumps(content))
    with pytest.raises(ModelError, match="do not rely on it"):
        merge(folders)


# What one silo releases: rounds that all silos ask alike, and what they cost.


def test_both_rounds_of_a_silo_cost_what_one_fit_does(tmp_path):
    book = ledger_of(tmp_path, "ward", epsilon=1)
    request = {"schema": SCHEMA, "method": Pairwise(cells=6), "epsilon": 1.0}
    booked = {"ledger": book, "dataset": "ward"}
    first = [
        release(
            TABLES[name], silo=name, **request, **(booked if name == "north" else {})
        )
        for name in SIZES
    ]
    merged = add_up(first)
    north = release(TABLES["north"], silo="north", after=merged, **request, **booked)
    events = (*first[0].certificate.events, *north.certificate.events)
    assert {event.name for event in events} == {
        "fine",
        "coarse",
        "counts",
        "one-way",
        "pairs",
    }
    assert 0.999 < accounting.epsilon(events, 1e-5) <= 1
    assert 0.999 < book.show("ward")[0].spent <= 1
    with pytest.raises(BudgetRefusedError):
        release(TABLES["north"], silo="north", after=merged, **request, **booked)


def test_the_second_round_follows_from_the_merged_first_one_in_all_silos_alike(
    answers, monkeypatch
):
    requests = []
    ask = Pairwise.next_round
    monkeypatch.setattr(
        Pairwise, "next_round", lambda *all: requests.append(ask(*all)) or requests[-1]
    )
    merged = add_up(answers(epsilon={"north": 1.0, "south": 0.5, "west": 3.0}))
    requests.clear()
    answers(epsilon={"north": 1.0, "south": 0.5, "west": 3.0}, after=merged)
    maps = [one for one in requests if "pairs" in one]
    assert len(maps) >= len(SIZES)
    assert all(one["pairs"].tables == maps[0]["pairs"].tables for one in maps)
    assert all(
        np.array_equal(mine.cuts, first.cuts)
        for one in maps
        for mine, first in zip(one["pairs"].bins, maps[0]["pairs"].bins, strict=True)
    )


def test_a_release_is_a_folder_that_anyone_can_check(tmp_path):
    out = tmp_path / "north"
    released = release(TABLES["north"], silo="north", epsilon=1.0, out=out, **ONE_ROUND)
    assert sorted(path.name for path in out.iterdir()) == [
        "certificate.json",
        "certificate.md",
        "release.safetensors",
    ]
    verified = verify(out)
    assert verified.recomputed_epsilon <= 1
    assert verified.certificate == released.certificate
    assert verified.certificate.public["silo"] == "north"


@pytest.mark.parametrize("silo", ["", " ", "a\nb", None])
def test_a_silo_needs_a_name(silo):
    with pytest.raises(OptionError, match="must be the name of this silo"):
        release(TABLES["north"], silo=silo, epsilon=1.0, **ONE_ROUND)


def test_a_round_of_another_plan_silo_or_price_is_refused(answers):
    merged = add_up(answers())
    request = {"schema": SCHEMA, "epsilon": 1.0}
    with pytest.raises(OptionError, match="after: its plan is"):
        release(
            TABLES["north"],
            silo="north",
            after=merged,
            method=Pairwise(cells=7),
            **request,
        )
    with pytest.raises(
        OptionError,
        match="has no part in the round before, which is of north, south, west",
    ):
        release(
            TABLES["north"],
            silo="east",
            after=merged,
            method=Pairwise(cells=6),
            **request,
        )
    with pytest.raises(OptionError, match="'north' began with 1 at 1e-05"):
        release(
            TABLES["north"],
            silo="north",
            after=merged,
            method=Pairwise(cells=6),
            **{**request, "epsilon": 2.0},
        )
    with pytest.raises(OptionError, match="after: its plan is"):
        release(
            TABLES["north"],
            silo="north",
            after=answers()[0],
            method=Pairwise(cells=7),
            **request,
        )


def test_there_is_no_round_after_the_last(answers):
    done = add_up(answers(**ONE_ROUND))
    with pytest.raises(OptionError, match="every round of this plan is answered"):
        release(TABLES["north"], silo="north", after=done, epsilon=1.0, **ONE_ROUND)


def test_a_plan_says_what_is_asked(tmp_path):
    with pytest.raises(OptionError, match="the published plan says what is queried"):
        release(
            TABLES["north"], silo="north", plan=tmp_path / "plan.json", schema=SCHEMA
        )
    with pytest.raises(OptionError, match="method='dp-merf'"):
        release(
            TABLES["north"], silo="north", plan=tmp_path / "plan.json", method="dp-merf"
        )
    with pytest.raises(OptionError, match="schema and epsilon are missing"):
        release(TABLES["north"], silo="north", schema=SCHEMA)


# The identifier of a plan: the same wherever the same is asked, and another with anything that is asked.

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
    one = settle_run(run(**changes))
    return plan_id(
        one.method, one.schema, calibrated_plan(one.method, one.schema, one.budget)
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
    one = settle_run(run())
    assert write_plan(one, path) == identity()
    read = read_plan(path)
    assert read.method == one.method
    assert read.schema.digest() == one.schema.digest()
    assert read.budget == one.budget
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
            "states epsilon=10 at delta=1e-05, and its noise is that of another price",
        ),
        ({"epsilon": 0.999}, "another price"),
        ({"delta": 1e-4}, "another price"),
        ({"noise": {}}, "another price"),
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
