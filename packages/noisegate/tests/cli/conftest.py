"""Fixtures of this room; see `tests.shared.cli_room`."""

from tests.shared.cli_room import *  # noqa: F403
