"""Events survive JSON exactly, and what is not understood is refused, never skipped."""

import json
import math

import pytest
from tests.shared.stated import event_of

from noisegate.errors import OptionError
from noisegate.privacy import events

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
