"""Fixtures of this room; see `tests.shared.gate_engines_room`."""

from tests.shared.gate_engines_room import *  # noqa: F403
