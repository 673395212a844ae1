"""Fixtures of this room; see `tests.shared.data_room`."""

from tests.shared.data_room import *  # noqa: F403
