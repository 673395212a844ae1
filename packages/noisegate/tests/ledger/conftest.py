"""Fixtures of this room; see `tests.shared.ledger_room`."""

from tests.shared.ledger_room import *  # noqa: F403
