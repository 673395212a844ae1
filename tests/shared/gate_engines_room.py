"""A cluster that is played."""

import sys

import pytest
from tests.shared.played import Played


@pytest.fixture
def joined(monkeypatch):
    monkeypatch.setattr("noisegate.engines.ray.require", lambda *_: None)
    ray = Played()
    ray.is_initialized, ray.cluster_resources = lambda: True, lambda: {"CPU": 3.0}
    monkeypatch.setitem(sys.modules, "ray", ray)
    return ray
