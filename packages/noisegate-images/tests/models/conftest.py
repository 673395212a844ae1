"""Fixtures of this room; see `tests.shared.models_room`."""

from tests.shared.models_room import *  # noqa: F403
