"""What plays a page: the program in this process, and a PostgreSQL server."""

from tests.cli.conftest import cli
from tests.ledger.conftest import postgres

__all__ = ["cli", "postgres"]
