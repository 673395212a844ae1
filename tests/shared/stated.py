"""Certificates, events, plans and ledgers of which a test says only what it is about."""

import dataclasses

from noisegate.ledger.ledger import Ledger
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import (
    Adjacency,
    Gaussian,
    Sampled,
    Sampler,
)
from noisegate.privacy.gradient_plan import GradientQuery


def certificate(**fields):
    """Of a run that asked nothing, at an ε of 1, unless it is said."""
    budget = {
        "epsilon": 1.0,
        "delta": 1e-5,
        "adjacency": Adjacency.ADD_REMOVE,
        "unit": "record",
    }
    return Certificate(**{**budget, "events": (), "method": "test", **fields})


def event_of(event_class, **fields):
    """An event, of its own fields and those of its noisy sum."""
    of_sum = {field.name for field in dataclasses.fields(Gaussian)} & set(fields)
    step = Gaussian(**{name: fields.pop(name) for name in of_sum})
    return event_class(event=step, **fields)


def sampled(**fields):
    """Steps on samples: of one coordinate, with the noise that steps draw, unless it is said."""
    return event_of(
        Sampled,
        **{
            "name": "g",
            "coordinates": 1,
            "sampler": Sampler.CONVOLVED_GAUSSIAN,
            **fields,
        },
    )


def summed(**fields):
    """One sum, of one coordinate and with discrete noise, unless it is said."""
    return Gaussian(
        **{
            "name": "q",
            "coordinates": 1,
            "sampler": Sampler.DISCRETE_GAUSSIAN,
            **fields,
        }
    )


def step_query(size=1, **fields):
    """The plan of three steps on half of the records, of so many weights, unless it is said."""
    taken = {"name": "g", "steps": 3, "sampling_probability": 0.5, "clip_norm": 1.0}
    return GradientQuery(**{**taken, "parameters": {"w": (size,)}, **fields})


def ledger_of(folder, dataset="clinic", **cap):
    """A ledger in which a data set has this cap."""
    ledger = Ledger(folder / "ledger.db")
    ledger.register(dataset, **{"delta": 1e-5, **cap})
    return ledger


def kinds(ledger, dataset="clinic"):
    """What was written into it since."""
    return [entry.kind for entry in ledger.history(dataset)][1:]
