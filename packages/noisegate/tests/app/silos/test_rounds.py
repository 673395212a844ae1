"""What one silo releases: rounds that all silos ask alike, and what they cost."""

import numpy as np
import pytest
from tests.shared.stated import ledger_of

from noisegate import Pairwise, release, verify
from noisegate.app.silos.merging import add_up
from noisegate.errors import BudgetRefusedError, OptionError
from noisegate.privacy import accounting

from .conftest import ONE_ROUND, SCHEMA, SIZES, TABLES


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
    maps = [request for request in requests if "pairs" in request]
    assert len(maps) >= len(SIZES)
    assert all(
        feature_maps["pairs"].tables == maps[0]["pairs"].tables for feature_maps in maps
    )
    assert all(
        np.array_equal(mine.cuts, first.cuts)
        for feature_maps in maps
        for mine, first in zip(
            feature_maps["pairs"].bins, maps[0]["pairs"].bins, strict=True
        )
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
        match="took no part in the previous round, which had north, south, west",
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
    with pytest.raises(OptionError, match="every round of this plan is complete"):
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
