"""What plays a page: the program in this process, and a PostgreSQL server."""

from tests.shared.cli_room import cli
from tests.shared.ledger_room import postgres

__all__ = ["cli", "postgres"]
