from tests.shared.ledger_room import *  # noqa: F403
