"""Guarantee G-11: ε follows from the certificate alone, and one that states too little is refused."""

import json
import math
from dataclasses import replace

import dp_accounting
import pytest
from tests.shared.stated import event_of, sampled, summed

from noisegate import __version__
from noisegate.errors import ModelError, OptionError
from noisegate.privacy import accounting, events
from noisegate.privacy.certificate import (
    Certificate,
    canonical_json,
    markdown_row,
    render,
)
from noisegate.privacy.events import (
    Adjacency,
    Batched,
    Gaussian,
    Sampled,
    Sampler,
    Sharded,
)
from noisegate.privacy.release import read_certificate
from noisegate.privacy.silos import Silo, Silos
from noisegate_evaluate.reporting.promise import tradeoff

EVENTS = (
    Gaussian(
        name="a",
        sensitivity=1000,
        noise_std=4000.0,
        coordinates=5,
        sampler=Sampler.DISCRETE_GAUSSIAN,
    ),
    Gaussian(
        name="b",
        sensitivity=10,
        noise_std=1e3 / 3,
        coordinates=9,
        sampler=Sampler.ROUNDED_GAUSSIAN,
    ),
)
COST = accounting.epsilon(EVENTS, 1e-5)


def certificate(**changes):
    fields = {
        "epsilon": COST,
        "delta": 1e-5,
        "adjacency": Adjacency.ADD_REMOVE,
        "unit": "patient",
        "events": EVENTS,
        "method": "dp-merf",
        "public": {"records": 100, "note": "schön"},
        "hashes": {"a": "0" * 64},
        "ledger": {"dataset": "clinic", "reservation": "x"},
    }
    return Certificate(**{**fields, **changes})


def test_epsilon_follows_from_the_file_alone():
    read = Certificate.from_json(json.loads(json.dumps(certificate().to_json())))
    assert read == certificate()
    assert read.check() == COST
    multiplier = (
        accounting.effective_multiplier(EVENTS[0]) ** -2 + (10 / (1e3 / 3)) ** 2
    ) ** -0.5
    assert read.check() == pytest.approx(
        dp_accounting.get_epsilon_gaussian(multiplier, 1e-5), rel=1e-4
    )


@pytest.mark.parametrize("factor", [1 - 1e-6, 0.5, 0.0, -1.0])
def test_a_certificate_that_states_too_little_is_refused(factor):
    with pytest.raises(ModelError, match=r"do not rely on it|means nothing"):
        certificate(epsilon=COST * factor).check()
    assert certificate(epsilon=COST * 1.01).check() == COST


@pytest.mark.parametrize(
    "changes",
    [
        {"delta": 1e-6},
        {"events": (*EVENTS, EVENTS[0])},
        {"events": (replace(EVENTS[0], noise_std=3900.0), EVENTS[1])},
        {"events": (replace(EVENTS[0], sensitivity=1010), EVENTS[1])},
        {"events": ()},
    ],
)
def test_events_that_cost_more_than_is_stated_are_refused(changes):
    with pytest.raises(ModelError, match="do not rely on it"):
        certificate(**changes).check()


@pytest.mark.parametrize(
    "changes",
    [
        *({"delta": bad} for bad in (0.0, -1e-5, 1.0, 5.0, math.nan)),
        {"epsilon": math.nan},
        {"unit": "all records of one patient"},
        {"unit": "patient\nand all the others"},
        {
            "unit": "all records of one patient",
            "contributions": 3,
            "adjacency": Adjacency.REPLACE_ONE,
        },
    ],
)
def test_figures_that_mean_nothing_and_a_unit_that_no_run_can_have_are_refused(changes):
    assert (
        certificate(unit="all records of one patient", contributions=3).check() == COST
    )
    with pytest.raises(ModelError, match=r"means? nothing|there is no proof"):
        certificate(**changes).check()


def test_sampled_events_are_checked_for_the_stated_adjacency():
    event = sampled(
        rate=0.1,
        steps=5,
        sensitivity=1e3,
        noise_std=2e3,
        coordinates=4,
        sampler=Sampler.DISCRETE_GAUSSIAN,
    )
    costs = {
        adjacency: accounting.epsilon([event], 1e-5, adjacency)
        for adjacency in Adjacency
    }
    assert costs[Adjacency.ADD_REMOVE] != pytest.approx(
        costs[Adjacency.REPLACE_ONE], rel=1e-3
    )
    for adjacency, epsilon in costs.items():
        stated = certificate(events=(event,), adjacency=adjacency, epsilon=epsilon)
        assert stated.check() == epsilon
        with pytest.raises(ModelError):
            replace(stated, epsilon=epsilon * 0.999).check()


LACKING = [
    {name: value for name, value in certificate().to_json().items() if name != field}
    for field in (
        "guarantee",
        "events",
        "method",
        "public",
        "hashes",
        "format",
        "noisegate",
    )
]


@pytest.mark.parametrize(
    "stored", [[], {}, {"format": 2}, {"format": 1}, None, *LACKING]
)
def test_what_is_no_certificate_or_lacks_a_field_is_refused(stored):
    with pytest.raises(ModelError):
        Certificate.from_json(stored)


def test_a_file_is_read_or_refused_by_name(tmp_path):
    path = tmp_path / "certificate.json"
    with pytest.raises(ModelError, match=r"certificate\.json does not exist"):
        read_certificate(path)
    for broken in (b"{", b"\xff\xfe\x00", b""):
        path.write_bytes(broken)
        with pytest.raises(ModelError, match="is not valid JSON"):
            read_certificate(path)
    path.write_text(json.dumps(certificate().to_json()), encoding="utf-8")
    assert read_certificate(path) == certificate()


def test_the_digest_is_that_of_everything_in_the_certificate():
    digests = {certificate().digest(), certificate().digest()}
    assert len(digests) == 1
    changes = [
        {"epsilon": math.nextafter(COST, math.inf)},
        {"delta": 2e-5},
        {"adjacency": Adjacency.REPLACE_ONE},
        {"unit": "visit"},
        {"events": EVENTS[::-1]},
        {"method": "other"},
        {"public": {"records": 101}},
        {"hashes": {"a": "1" * 64}},
        {"ledger": None},
        {"version": "0"},
    ]
    digests |= {certificate(**change).digest() for change in changes}
    assert len(digests) == 1 + len(changes)


def test_canonical_json_is_one_form_and_refuses_nan():
    assert canonical_json({"b": 1, "a": [1.5, "ü"]}) == canonical_json(
        {"a": [1.5, "ü"], "b": 1}
    )
    assert canonical_json({"a": "ü"}) == '{"a":"ü"}'.encode()
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(math.nan)


def test_the_page_tells_a_person_what_the_file_tells_a_program():
    schema = {"columns": [{"name": "weight"}, {"name": "ill"}]}
    page = render(certificate(epsilon=1.25, public={"records": 4711, "schema": schema}))
    e_to_epsilon = "3.49"
    for part in (
        "(1.25, 1e-05)",
        "one patient",
        "4711",
        "weight, ill",
        e_to_epsilon,
        "'clinic'",
        __version__,
    ):
        assert part in page
    for event in EVENTS:
        assert (
            f"| {event.name} | {event.coordinates} | {event.sensitivity:g} | {event.noise_std:.1f} |"
            in page
        )
    assert certificate().to_json()["noise_source"] == "operating system, unseeded"


@pytest.mark.parametrize("field", ["unit", "method", "noisegate"])
@pytest.mark.parametrize("text", [" ", "two\nlines", "x" * 1001])
def test_what_is_no_line_of_text_is_named(field, text):
    changed = certificate(**{"version" if field == "noisegate" else field: text})
    with pytest.raises(ModelError, match=f"the certificate's {field} is not a line"):
        Certificate.from_json(changed.to_json())


def test_a_row_says_which_records_a_step_asks():
    steps = {
        "name": "b",
        "rate": 0.05,
        "steps": 40,
        "sensitivity": 2**23,
        "noise_std": 2.0**23,
        "coordinates": 9,
    }
    steps["sampler"] = Sampler.DISCRETE_GAUSSIAN
    assert " x 40 steps at rate 0.05 |" in markdown_row(event_of(Sampled, **steps))
    assert "at rate 0.05, each of a sample as a whole" in markdown_row(
        event_of(Batched, **steps, shards=1)
    )
    assert "3 disjoint shards in turn" in markdown_row(
        event_of(Batched, **{**steps, "rate": 1.0}, shards=3)
    )
    assert "3 disjoint shards, each independently at rate 0.05 queried" in markdown_row(
        event_of(Sharded, **steps, shards=3)
    )
    assert "all queried" in markdown_row(
        event_of(Sharded, **{**steps, "rate": 1.0}, shards=3)
    )


# The silos in a certificate: which events one unit can be in, and what a false claim meets.


def silo(name, noise_std):
    event = summed(sensitivity=32, noise_std=noise_std, coordinates=4)
    epsilon = accounting.epsilon([event], 1e-5)
    return Silo(
        name=name,
        certificates=(f"digest of {name}",),
        epsilon=epsilon,
        delta=1e-5,
        events=(event,),
    )


NORTH, SOUTH = silo("north", 120.0), silo("south", 240.0)


def certified(members=(NORTH, SOUTH), *, overlapping=False, **changes):
    silos = Silos(
        members=members,
        overlapping=overlapping,
        stated_by=None if overlapping else "the registry",
    )
    events = (
        tuple(event for one in members for event in one.events)
        if overlapping
        else NORTH.events
    )
    stated = {
        "epsilon": accounting.epsilon(events, 1e-5),
        "delta": 1e-5,
        "unit": "record",
        "method": "pairwise",
    }
    stated |= {
        "adjacency": Adjacency.ADD_REMOVE,
        "events": NORTH.events,
        "silos": silos,
    }
    return Certificate(**{**stated, **changes})


def test_a_record_of_disjoint_silos_pays_in_its_own_alone():
    one = certified()
    assert one.check() == NORTH.epsilon == one.epsilon > SOUTH.epsilon
    assert one.composed == NORTH.events


def test_a_record_of_overlapping_silos_pays_in_all():
    both = certified(overlapping=True)
    assert (
        both.check()
        == accounting.epsilon([*NORTH.events, *SOUTH.events], 1e-5)
        > NORTH.epsilon
    )
    assert tradeoff(both).catches(0.05) > tradeoff(certified()).catches(0.05)


@pytest.mark.parametrize("overlapping", [False, True])
def test_it_is_read_as_it_was_written(overlapping):
    one = certified(overlapping=overlapping)
    assert Certificate.from_json(one.to_json()) == one
    assert one.silos.sentence in render(one)


def test_an_epsilon_below_that_of_the_costliest_silo_is_refused():
    with pytest.raises(ModelError, match="do not rely on it"):
        certified(epsilon=SOUTH.epsilon, events=SOUTH.events).check()
    with pytest.raises(ModelError, match="do not rely on it"):
        certified(overlapping=True, epsilon=NORTH.epsilon).check()


def test_events_of_no_silo_are_refused():
    with pytest.raises(ModelError, match="those of none of its silos"):
        certified(events=silo("other", 999.0).events).check()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"silos": []}, "mean nothing"),
        ({"stated_by": None}, "does not say who states"),
        ({"overlapping": True}, "does not say who states"),
        ({"overlapping": "no"}, "does not say who states"),
        ({"stated_by": " "}, "broken"),
        ({"silos": [NORTH.to_json(), NORTH.to_json()]}, "mean nothing"),
        (
            {"silos": [NORTH.to_json(), SOUTH.to_json() | {"events": []}]},
            "mean nothing",
        ),
        ({"silos": [NORTH.to_json() | {"more": 1}]}, "does not know"),
        ({"silos": [{"name": "north"}]}, "broken"),
        ({"silos": [NORTH.to_json() | {"name": 3}]}, "broken"),
        ({"more": 1}, "does not know"),
        *[
            ({"colluding": bad}, f"states colluding={bad!r} of 2 silos")
            for bad in (-1, 2, True, "1")
        ],
        ({"colluding": 1}, "other events for some of its silos"),
    ],
)
def test_a_false_list_of_silos_is_refused(change, message):
    data = certified().to_json()
    with pytest.raises(ModelError, match=message):
        Certificate.from_json({**data, "silos": {**data["silos"], **change}})


def test_a_secure_sum_is_of_the_same_events_in_all_silos():
    data = certified(
        members=(NORTH, replace(NORTH, name="south", certificates=("another",)))
    ).to_json()
    read = Certificate.from_json({**data, "silos": {**data["silos"], "colluding": 1}})
    assert read.silos.colluding == 1
    assert "together with 1 of the silos" in read.silos.sentence


# Events survive JSON exactly, and what is not understood is refused, never skipped.

GAUSSIAN = events.Gaussian(
    name="fourier",
    sensitivity=2**22,
    noise_std=1e7 / 3,
    coordinates=12,
    sampler=events.Sampler.DISCRETE_GAUSSIAN,
)
SAMPLED = event_of(
    events.Sampled,
    name="gradients",
    rate=0.1,
    steps=7,
    sensitivity=0.1 + 0.2,
    noise_std=math.pi,
    coordinates=5,
    sampler=events.Sampler.ROUNDED_GAUSSIAN,
)


BATCH = events.Batched(event=SAMPLED.event, rate=1.0, steps=7, shards=3)


@pytest.mark.parametrize("name", ["add_remove", "ADD-REMOVE", None])
def test_another_relation_is_refused_with_the_choices(name):
    with pytest.raises(OptionError, match=r"adjacency=.*'add-remove', 'replace-one'"):
        events.Adjacency.parse(name)


@pytest.mark.parametrize("event", [GAUSSIAN, SAMPLED, BATCH])
def test_an_event_survives_json_exactly(event):
    assert (
        events.event_from_json(json.loads(json.dumps(events.event_to_json(event))))
        == event
    )


def test_stored_events_are_understood_for_ever():
    # The stored form is fixed: ledgers and certificates hold it.
    stored = {
        "kind": "gaussian",
        "name": "q",
        "sensitivity": 3,
        "noise_std": 48.0,
        "coordinates": 2,
    }
    assert events.event_from_json(
        {**stored, "sampler": "discrete-gaussian"}
    ) == events.Gaussian(
        name="q",
        sensitivity=3,
        noise_std=48.0,
        coordinates=2,
        sampler=events.Sampler.DISCRETE_GAUSSIAN,
    )
    assert events.event_to_json(SAMPLED) == {
        "kind": "sampled-gaussian",
        "name": "gradients",
        "rate": 0.1,
        "steps": 7,
        "sensitivity": 0.1 + 0.2,
        "noise_std": math.pi,
        "coordinates": 5,
        "sampler": "rounded-gaussian",
    }
    changed = {"kind": "batch-gaussian", "rate": 1.0, "shards": 3}
    assert events.event_to_json(BATCH) == events.event_to_json(SAMPLED) | changed


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "laplace"},
        {"kind": None},
        {"sampler": "fixed"},
        {"sampler": None},
        {"more": 1},
        *[
            {field: bad}
            for field in ("sensitivity", "noise_std")
            for bad in (0, -1.0, math.nan, math.inf, True, "3")
        ],
        *[{"coordinates": bad} for bad in (0, -5, None)],
    ],
)
@pytest.mark.parametrize("event", [GAUSSIAN, SAMPLED])
def test_a_broken_event_is_refused(event, change):
    with pytest.raises(events.EventError):
        events.event_from_json({**events.event_to_json(event), **change})


@pytest.mark.parametrize(
    "field", ["kind", "name", "sensitivity", "noise_std", "coordinates", "sampler"]
)
@pytest.mark.parametrize("event", [GAUSSIAN, SAMPLED])
def test_a_missing_field_is_refused(event, field):
    stored = events.event_to_json(event)
    del stored[field]
    with pytest.raises(events.EventError):
        events.event_from_json(stored)


@pytest.mark.parametrize(
    "change",
    [{"rate": 1.0001}, {"rate": 0.0}, {"rate": math.nan}, {"steps": 0}, {"steps": -1}],
)
def test_a_sample_that_cannot_be_is_refused(change):
    with pytest.raises(events.EventError, match="'gradients'"):
        events.event_from_json({**events.event_to_json(SAMPLED), **change})
