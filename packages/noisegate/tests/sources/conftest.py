from tests.shared.data_room import *  # noqa: F403
from tests.shared.ledger_room import database, postgres  # noqa: F401
