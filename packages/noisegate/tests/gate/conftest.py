"""Fixtures of this room; see `tests.shared.gate_room`."""

import pytest
from tests.shared.gate_room import *  # noqa: F403
from tests.shared.stated import ledger_of

from noisegate.gate.queries.gradients import GradientSession, StepSession
from noisegate.privacy import noise


@pytest.fixture
def ledger(tmp_path, request):
    """A ledger in which the data set "clinic" has the cap that the file of the test states."""
    return ledger_of(tmp_path, epsilon=request.module.CAP)


@pytest.fixture
def exactly(monkeypatch):
    """Steps hand out their integers, without noise and in grid units."""
    monkeypatch.setattr(noise, "add_noise", lambda sums, **_: sums)
    for session in (StepSession, GradientSession):
        monkeypatch.setattr(session, "_unpacked", lambda self, noisy: noisy)


def squared(vector):
    """The exact square of the length of a vector of integers."""
    return sum(int(value) ** 2 for value in vector.ravel())
