"""Fixtures of this room; see `tests.shared.gate_room`."""

from tests.shared.gate_room import *  # noqa: F403
