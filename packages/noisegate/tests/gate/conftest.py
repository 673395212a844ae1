"""Fixtures of this room; see `tests.shared.gate_room`."""

from tests.shared.gate_room import *  # noqa: F403


def squared(vector):
    """The exact square of the length of a vector of integers."""
    return sum(int(value) ** 2 for value in vector.ravel())
