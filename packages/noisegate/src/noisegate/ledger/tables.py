"""How the rows of a ledger are stored. The only file that imports SQLAlchemy; imported when a ledger is first opened.

Two tables: `noisegate_entries`, to which rows are only ever added, and `noisegate_head`, one row that says how many
there are and what the last hash is. One writer at a time: SQLite by BEGIN IMMEDIATE, PostgreSQL by an advisory lock.
Should both ever fail, two writers would insert the same sequence number, and the primary key lets only one of them in.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from functools import cached_property
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from noisegate.atomic import second_name
from noisegate.errors import LedgerError, OptionError
from noisegate.ledger.chain import GENESIS, ChainHead, Row
from noisegate.ledger.location import LedgerLocation

LOCK_SECONDS = 30.0
_ADVISORY_LOCK = 0x6E6F697365676174  # "noisegat" in ASCII

_METADATA = sa.MetaData()
# INTEGER, not BIGINT: in SQLite it is then the row id itself, and no index exists that could disagree with the table.
ENTRIES = sa.Table(
    "noisegate_entries",
    _METADATA,
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
    *(
        sa.Column(name, sa.Text, nullable=name == "reservation")
        for name in ("time", "kind", "dataset", "reservation", "payload", "previous", "hash")
    ),
)
HEAD = sa.Table(
    "noisegate_head",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("rows", sa.Integer, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)


class Transaction:
    """An open transaction on the tables."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def rows(self) -> list[Row]:
        """Returns all rows in order, unchecked."""
        found = self._connection.execute(sa.select(ENTRIES).order_by(ENTRIES.c.sequence))
        return [Row(**row) for row in found.mappings()]

    def head(self) -> ChainHead:
        """Returns the stored head, unchecked."""
        found = self._connection.execute(sa.select(HEAD.c.rows, HEAD.c.hash)).all()
        if len(found) != 1:
            raise LedgerError(f"it is damaged: its head has {len(found)} rows instead of 1; restore a backup.")
        return ChainHead(rows=found[0].rows, hash=found[0].hash)

    def append(self, row: Row) -> None:
        """Adds one row and moves the head to it."""
        self._connection.execute(sa.insert(ENTRIES).values(**asdict(row)))
        self._connection.execute(sa.update(HEAD).values(rows=row.sequence, hash=row.hash))


class Store:
    """The tables at one place. Holds no open connection between transactions, so it survives fork and spawn."""

    def __init__(self, location: LedgerLocation) -> None:
        self._location = location
        self._opened = threading.local()

    def read(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one consistent state."""
        return self._transaction(write=False, create=False)

    def write(self, *, create: bool = False) -> AbstractContextManager[Transaction]:
        """A transaction that no other writer overlaps; written to disk when it ends, undone on an exception."""
        return self._transaction(write=True, create=create)

    @contextmanager
    def _transaction(self, *, write: bool, create: bool) -> Iterator[Transaction]:
        self._require_file(create=create)
        # Every name of a table carries its schema, whatever the search path of server, database or role is.
        options: dict[str, Any] = {"noisegate_write": write, "schema_translate_map": {None: self._location.schema}}
        if self._location.url and not write:
            options["isolation_level"] = "REPEATABLE READ"
        try:
            with (self._creating if create else self._existing).connect() as connection:
                connection = connection.execution_options(**options)
                with connection.begin():
                    if self._location.url:
                        # First, so that no function or operator of another schema stands in for one of PostgreSQL.
                        connection.exec_driver_sql("SET LOCAL search_path = pg_catalog, pg_temp")
                        if write:
                            self._lock_postgresql(connection)
                    self._require_tables(connection, create=create)
                    yield Transaction(connection)
        except SQLAlchemyError as error:
            raise _explained(error, self._location.shown) from error
        except UnicodeDecodeError as error:  # from the driver, of the message about a damaged table definition
            raise LedgerError(f"ledger {self._location.shown} is damaged; restore it from a backup.") from error
        finally:
            # SQLAlchemy forgets a connection whose first query fails; closing one twice does nothing.
            if (left := getattr(self._opened, "connection", None)) is not None:
                left.close()

    @cached_property
    def _creating(self) -> sa.Engine:
        if self._location.url is None:
            return _sqlite(self._location, self._opened, mode="rwc")
        try:
            return sa.create_engine(
                self._location.url,
                poolclass=NullPool,
                hide_parameters=True,
                isolation_level="READ COMMITTED",
                connect_args={"connect_timeout": 10, "prepare_threshold": None},
            )
        except (SQLAlchemyError, ValueError, ImportError) as error:
            raise OptionError(
                f"ledger={self._location.shown!r} is not a usable URL ({type(error).__name__}); expected "
                "postgresql://user:password@host:port/database with special characters percent-encoded."
            ) from None

    @cached_property
    def _existing(self) -> sa.Engine:
        return self._creating if self._location.url else _sqlite(self._location, self._opened, mode="rw")

    def _require_file(self, *, create: bool) -> None:
        path = self._location.path
        if path is None:
            return
        try:
            if path.is_dir():
                raise LedgerError(f"ledger {path} is a folder; give the path of a file in it.")
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            elif not path.exists():
                raise self._absent()
            if (why := second_name(path)) is not None:
                raise LedgerError(
                    f"ledger {path} {why}. A crash leaves NAME-journal beside one name, which is the one to keep: "
                    "whoever goes on under another would lose what is spent meanwhile."
                )
        except OSError as error:
            raise LedgerError(f"ledger {path} cannot be opened: {error.strerror}; give another path.") from error

    def _require_tables(self, connection: sa.Connection, *, create: bool) -> None:
        inspector = sa.inspect(connection)
        schema = self._location.schema
        present = [inspector.has_table(table.name, schema=schema) for table in (ENTRIES, HEAD)]
        if all(present):
            return
        if any(present):
            raise LedgerError(
                f"ledger {self._location.shown} is damaged: one of its two tables is gone; restore a backup."
            )
        if self._location.path and inspector.get_table_names():
            raise LedgerError(f"{self._location.shown} is a database of something else; give a ledger its own file.")
        if not create:
            raise self._absent(inspector)
        _METADATA.create_all(connection)
        connection.execute(sa.insert(HEAD).values(id=1, rows=GENESIS.rows, hash=GENESIS.hash))

    def _lock_postgresql(self, connection: sa.Connection) -> None:
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{int(LOCK_SECONDS * 1000)}ms'")
        # A reservation must be on disk before records are read, whatever the server's default is.
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
        # Before the first read: under READ COMMITTED every later statement sees what the last writer left.
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")

    def _absent(self, inspector: sa.Inspector | None = None) -> LedgerError:
        where, elsewhere = self._location.shown, list[str]()
        if inspector is not None and self._location.url is not None:
            schemas = (name for name in inspector.get_schema_names() if name != self._location.schema)
            elsewhere = [name for name in schemas if inspector.has_table(ENTRIES.name, schema=name)]
        if elsewhere:
            return LedgerError(
                f"there is no ledger in the schema {self._location.schema!r} of {where}, but there is one in "
                f"{', '.join(map(repr, elsewhere))}. A search path is not followed, since others may change what it "
                f"finds. If that one is yours, name it in the URL: ?options=-csearch_path%3D{elsewhere[0]}"
            )
        return LedgerError(
            f"there is no ledger at {where}; the owner of the data makes it by registering a data set: "
            f"noisegate ledger register NAME --epsilon E --delta D --ledger {where}"
        )


def _sqlite(location: LedgerLocation, opened: threading.local, *, mode: str) -> sa.Engine:
    uri = f"file:{quote(str(location.path))}?mode={mode}"

    def connect() -> sqlite3.Connection:
        """Returns a connection whose transactions are begun by `begin` alone."""
        connection = sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS, isolation_level=None)
        opened.connection = connection
        # Bytes that are not UTF-8 come back as something that gives another hash, so the broken row can be named.
        connection.text_factory = lambda value: value.decode("utf-8", "surrogateescape")
        try:
            # EXTRA also syncs the folder: a reservation must survive a power cut right after it.
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA cell_size_check = ON")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    engine = sa.create_engine("sqlite+pysqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)

    def begin(connection: sa.Connection) -> None:
        """Locks the file before the first read of whoever will write, so that two never pay from one balance."""
        write = connection.get_execution_options().get("noisegate_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    sa.event.listen(engine, "begin", begin)
    return engine


# Codes: sqlite.org/rescode.html, PostgreSQL appendix A.
_CAUSES = (
    (
        ("SQLITE_BUSY", "SQLITE_LOCKED", "55P03", "40"),
        "is locked: another process has held it for {seconds:g} s; wait for it or end it, then try again.",
    ),
    ("SQLITE_NOTADB", "is not an SQLite database; give another path, or restore it from a backup."),
    (
        ("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH", "42501"),
        "may not be opened for writing; check its permissions and those of its folder.",
    ),
    (("SQLITE_FULL", "SQLITE_IOERR", "53"), "cannot be written ({error}); check the disk, then try again."),
    (("SQLITE_CONSTRAINT", "23"), "was written by two processes at once, and this one gave way; try again."),
    (("SQLITE", "42"), "is damaged or not a ledger ({detail}); restore it from a backup."),
    ("", "cannot be reached ({detail}); check the URL, the server and your rights."),
)


def _explained(error: SQLAlchemyError, where: str) -> LedgerError:
    """Returns a driver's error as one that says what to do."""
    original = error.orig if isinstance(error, DBAPIError) else error
    code = str(getattr(original, "sqlite_errorname", None) or getattr(original, "sqlstate", None) or "")
    cause = next(text for codes, text in _CAUSES if code.startswith(codes))
    detail = "".join(str(original).strip().splitlines()[:1])
    return LedgerError(f"ledger {where} " + cause.format(seconds=LOCK_SECONDS, error=original, detail=detail))
