"""Certificates and events of which a test says only what it is about."""

from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import Adjacency, SampledGaussianEvent, Sampler


def certificate(**said):
    """Of a run that asked nothing, at an ε of 1, unless it is said."""
    budget = {"epsilon": 1.0, "delta": 1e-5, "adjacency": Adjacency.ADD_REMOVE, "unit": "record"}
    return Certificate(**{**budget, "events": (), "method": "test", **said})


def sampled(**said):
    """Steps on samples: of one coordinate, with the noise that steps draw, unless it is said."""
    return SampledGaussianEvent(**{"name": "g", "coordinates": 1, "sampler": Sampler.CONVOLVED_GAUSSIAN, **said})
