"""Guarantee G-11: ε follows from the certificate alone, and one that states too little is refused."""

import json
import math
from dataclasses import replace

import dp_accounting
import pytest
from tests.shared.stated import event_of, sampled

from noisegate import __version__
from noisegate.errors import ModelError
from noisegate.privacy import accounting
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
