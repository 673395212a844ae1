"""The silos in a certificate: which events one unit can be in, and what a false claim meets."""

from dataclasses import replace

import pytest
from tests.shared.stated import summed

from noisegate.errors import ModelError
from noisegate.privacy import accounting
from noisegate.privacy.certificate import (
    Certificate,
    render,
)
from noisegate.privacy.events import (
    Adjacency,
)
from noisegate.privacy.silos import Silo, Silos
from noisegate_evaluate.reporting.promise import tradeoff


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


NORTH = silo("north", 120.0)
SOUTH = silo("south", 240.0)


def certified(members=(NORTH, SOUTH), *, overlapping=False, **changes):
    silos = Silos(
        members=members,
        overlapping=overlapping,
        stated_by=None if overlapping else "the registry",
    )
    events = (
        tuple(event for member in members for event in member.events)
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
    certificate = certified()
    assert certificate.check() == NORTH.epsilon == certificate.epsilon > SOUTH.epsilon
    assert certificate.composed == NORTH.events


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
    certificate = certified(overlapping=overlapping)
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert certificate.silos.sentence in render(certificate)


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
