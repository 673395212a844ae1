"""Fixtures of this room; see `tests.shared.training_room`."""

from tests.shared.training_room import *  # noqa: F403
