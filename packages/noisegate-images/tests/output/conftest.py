"""Fixtures of this room; see `tests.shared.models_output_room`."""

from tests.shared.models_output_room import *  # noqa: F403
