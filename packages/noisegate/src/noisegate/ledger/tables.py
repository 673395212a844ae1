"""How rows of a ledger are stored: `noisegate_entries` and `noisegate_head`. The only file that speaks to databases.

One writer at a time: SQLite by BEGIN IMMEDIATE, PostgreSQL by an advisory lock.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import astuple, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from noisegate.atomic import second_name
from noisegate.errors import LedgerError, OptionError, require
from noisegate.ledger.accounts import GENESIS, ChainHead, Row

LOCK_SECONDS = 30.0
_ADVISORY_LOCK = 0x6E6F697365676174  # "noisegat" in ASCII

_ENTRIES, _HEAD = "noisegate_entries", "noisegate_head"
_COLUMNS = ", ".join(field.name for field in fields(Row))
# INTEGER, not BIGINT: in SQLite it is then the row id itself, and no index exists that could disagree with the table.
_ENTRIES_FORM = (
    "sequence INTEGER NOT NULL, time TEXT NOT NULL, kind TEXT NOT NULL, dataset TEXT NOT NULL, reservation TEXT, "
    "payload TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (sequence)"
)
_HEAD_FORM = "id INTEGER NOT NULL, rows INTEGER NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (id)"
# Every schema with the tables in it, those of others too; of SQLite, which has one, all tables.
_FOUND_SQLITE = (
    "SELECT NULL, name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
)
_FOUND_POSTGRESQL = (
    "SELECT nspname, relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace "
    f"WHERE relname IN ('{_ENTRIES}', '{_HEAD}') AND relkind IN ('r', 'p', 'f', 'v', 'm') ORDER BY nspname"
)


class Transaction:
    """An open transaction on the tables, of a connection as sqlite3 and psycopg have it."""

    def __init__(self, connection: Any, schema: str | None) -> None:
        self._connection = connection
        # Every name of a table carries its schema, whatever the search path of server, database or role is.
        within, self._mark = ("", "?") if schema is None else (f'"{schema}".', "%s")
        self._entries, self._head = f"{within}{_ENTRIES}", f"{within}{_HEAD}"

    def run(self, statement: str, *values: Any) -> list[Any]:
        """Returns the rows that a statement finds, whose values stand where it has a question mark."""
        found = self._connection.execute(statement.replace("?", self._mark), values)
        return found.fetchall() if found.description else []

    def make(self) -> None:
        """Makes the tables, of a ledger without rows."""
        self.run(f"CREATE TABLE {self._entries} ({_ENTRIES_FORM})")
        self.run(f"CREATE TABLE {self._head} ({_HEAD_FORM})")
        self.run(f"INSERT INTO {self._head} VALUES (1, ?, ?)", *astuple(GENESIS))

    def rows(self) -> list[Row]:
        """Returns all rows in order, unchecked."""
        return [Row(*row) for row in self.run(f"SELECT {_COLUMNS} FROM {self._entries} ORDER BY sequence")]

    def head(self) -> ChainHead:
        """Returns the stored head, unchecked."""
        found = self.run(f"SELECT rows, hash FROM {self._head}")
        if len(found) != 1:
            raise LedgerError(f"it is damaged: its head has {len(found)} rows instead of 1; restore a backup.")
        return ChainHead(rows=found[0][0], hash=found[0][1])

    def append(self, row: Row) -> None:
        """Adds one row and moves the head to it."""
        values = astuple(row)
        marks = ", ".join("?" * len(values))
        self.run(f"INSERT INTO {self._entries} ({_COLUMNS}) VALUES ({marks})", *values)
        self.run(f"UPDATE {self._head} SET rows = ?, hash = ?", row.sequence, row.hash)


class Store:
    """The tables at one place. Holds no open connection between transactions, so it survives fork and spawn."""

    def __init__(self, location: LedgerLocation) -> None:
        self._location = location

    def read(self) -> AbstractContextManager[Transaction]:
        """A transaction that sees one consistent state."""
        return self._transaction(write=False, create=False)

    def write(self, *, create: bool = False) -> AbstractContextManager[Transaction]:
        """A transaction that no other writer overlaps; written to disk when it ends, undone on an exception."""
        return self._transaction(write=True, create=create)

    @contextmanager
    def _transaction(self, *, write: bool, create: bool) -> Iterator[Transaction]:
        self._require_file(create=create)
        connect, failures = _driver(self._location, create=create)
        try:
            with closing(connect()) as connection:
                transaction = Transaction(connection, self._location.schema)
                try:
                    self._begin(transaction, write=write)
                    self._require_tables(transaction, create=create)
                    yield transaction
                    connection.commit()
                except BaseException:
                    with suppress(failures):
                        connection.rollback()
                    raise
        except UnicodeDecodeError as error:  # from the driver, of the message about a damaged table definition
            raise LedgerError(f"ledger {self._location.shown} is damaged; restore it from a backup.") from error
        except failures as error:
            raise _explained(error, self._location.shown) from error

    def _begin(self, transaction: Transaction, *, write: bool) -> None:
        """Locks the ledger before the first read of whoever will write, so that two never pay from one balance."""
        if self._location.url is None:
            transaction.run("BEGIN IMMEDIATE" if write else "BEGIN")
            return
        transaction.run(f"BEGIN ISOLATION LEVEL {'READ COMMITTED' if write else 'REPEATABLE READ'}")
        # First, so that no function or operator of another schema stands in for one of PostgreSQL.
        transaction.run("SET LOCAL search_path = pg_catalog, pg_temp")
        if write:
            transaction.run(f"SET LOCAL lock_timeout = '{int(LOCK_SECONDS * 1000)}ms'")
            # A reservation must be on disk before records are read, whatever the server's default is.
            transaction.run("SET LOCAL synchronous_commit = on")
            # Before the first read: under READ COMMITTED every later statement sees what the last writer left.
            transaction.run(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")

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
                says = f"ledger {path} {why}. A crash leaves NAME-journal beside one name, which is the one to keep"
                raise LedgerError(f"{says}: whoever goes on under another would lose what is spent meanwhile.")
        except OSError as error:
            raise LedgerError(f"ledger {path} cannot be opened: {error.strerror}; give another path.") from error

    def _require_tables(self, transaction: Transaction, *, create: bool) -> None:
        found = transaction.run(_FOUND_SQLITE if self._location.url is None else _FOUND_POSTGRESQL)
        names = [name for schema, name in found if schema == self._location.schema]
        if _ENTRIES in names and _HEAD in names:
            return
        if _ENTRIES in names or _HEAD in names:
            note = "restore a backup."
            raise LedgerError(f"ledger {self._location.shown} is damaged: one of its two tables is gone; {note}")
        if names:
            raise LedgerError(f"{self._location.shown} is a database of something else; give a ledger its own file.")
        if not create:
            raise self._absent([schema for schema, name in found if name == _ENTRIES and not schema.startswith("pg_")])
        transaction.make()

    def _absent(self, elsewhere: Sequence[str] = ()) -> LedgerError:
        where = self._location.shown
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


def _driver(location: LedgerLocation, *, create: bool) -> tuple[Callable[[], Any], type[Exception]]:
    """Returns what connects to a place, in which transactions are begun by `Store` alone, and what it raises."""
    if location.url is None:
        return partial(_sqlite, location, mode="rwc" if create else "rw"), sqlite3.Error
    try:
        import psycopg

        told = _options(location.url)
    except (ValueError, ImportError) as error:
        raise OptionError(
            f"ledger={location.shown!r} is not a usable URL ({type(error).__name__}); expected "
            "postgresql://user:password@host:port/database with special characters percent-encoded."
        ) from None
    told |= {"autocommit": True, "connect_timeout": 10, "prepare_threshold": None}
    return partial(psycopg.connect, **told), psycopg.Error


def _sqlite(location: LedgerLocation, *, mode: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(location.path))}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=LOCK_SECONDS, isolation_level=None)
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


# As SQLAlchemy reads it, which earlier versions left it to: a password need not be percent-encoded but for its "@".
_URL = re.compile(
    r"[^:]+://(?:(?P<user>[^:/]*)(?::(?P<password>[^@]*))?@)?(?:\[(?P<ipv6>[^/?]+)\]|(?P<host>[^/:?]+))?"
    r"(?::(?P<port>[^/?]*))?(?:/(?P<dbname>[^?]*))?(?:\?(?P<query>.*))?"
)


def _options(url: str) -> dict[str, Any]:
    """Returns what libpq is told by a URL, whose query may name several servers: host=HOST:PORT&host=HOST:PORT."""
    found = _URL.match(url)
    told = {name: value for name, value in (found.groupdict() if found else {}).items() if value}
    told |= {name: unquote(told[name]) for name in ("user", "password", "dbname") if name in told}
    told |= {"host": told.pop("ipv6")} if "ipv6" in told else {}
    told |= {"port": str(int(told["port"]))} if "port" in told else {}
    told |= {name: ",".join(values) for name, values in parse_qs(told.pop("query", "")).items()}
    hosts = [re.fullmatch(r"([\w.-]*)(?::([0-9]*))?", host) for host in told.get("host", "").split(",")]
    if any(host and host[2] is not None for host in hosts):
        places = [host.groups("") for host in hosts if host]
        told |= {"host": ",".join(host for host, _ in places), "port": ",".join(port for _, port in places)}
    return told


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


def _explained(error: Exception, where: str) -> LedgerError:
    code = str(getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None) or "")
    cause = next(text for codes, text in _CAUSES if code.startswith(codes))
    detail = "".join(str(error).strip().splitlines()[:1])
    return LedgerError(f"ledger {where} " + cause.format(seconds=LOCK_SECONDS, error=error, detail=detail))


VARIABLE = "NOISEGATE_LEDGER"
_DRIVER = "postgresql+psycopg"


@dataclass(frozen=True, kw_only=True)
class LedgerLocation:
    """Exactly one of `path` and `url` is set, the latter with `schema`."""

    path: Path | None  # an SQLite file
    url: str | None  # a PostgreSQL URL with its driver, password included: never print it
    shown: str  # the same place for messages, with any password masked
    # Of the database. The server's search path is not followed: whoever may make a schema in it could slip in a ledger.
    schema: str | None = None


def locate(location: str | Path | None) -> LedgerLocation:
    """Returns the place that a path, a URL, or None for the default means, without opening it."""
    if location is None:
        import platformdirs

        default = Path(platformdirs.user_data_dir("noisegate", appauthor=False)) / "ledger.sqlite"
        location = os.environ.get(VARIABLE) or default
    text = str(location)
    if not text.strip() or "\0" in text:
        raise OptionError(f"ledger={text!r} is not a place; give the path of a file or a postgresql:// URL.")
    if "://" not in text:
        return _file(text)
    scheme, _, rest = text.partition("://")
    if scheme in ("sqlite", "sqlite+pysqlite"):
        return _file(rest.removeprefix("/"))
    if scheme in ("postgresql", "postgres", _DRIVER):
        url, shown = f"{_DRIVER}://{rest}", _masked(text)
        require("psycopg", f"ledger={shown!r}")
        return LedgerLocation(path=None, url=url, shown=shown, schema=_schema(url, shown))
    cure = "give the path of a file (SQLite) or a postgresql:// URL."
    raise OptionError(f"ledger={_masked(text)!r}: databases of kind {scheme!r} are not supported; {cure}")


def _file(text: str) -> LedgerLocation:
    if text in ("", ":memory:") or text.startswith("file:"):
        raise OptionError(f"ledger={text!r}: a ledger must outlive the process; give the path of a file.")
    path = Path(text).expanduser().absolute()
    return LedgerLocation(path=path, url=None, shown=str(path))


def _schema(url: str, shown: str) -> str:
    """Returns the schema that a URL names by ``?options=-csearch_path=NAME``; public where it names none."""
    options = " ".join(parse_qs(urlsplit(url).query).get("options", []))
    named = re.findall(r"(?:-c\s*|--)search_path=(\"[^\"]*\"|[^\s,]+)", options)
    name = named[-1].strip("\"'") if named else "public"
    if not re.fullmatch(r"[\w.-]{1,63}", name) or name.startswith("pg_"):
        raise OptionError(
            f"ledger={shown!r}: the tables of a ledger lie in a schema that is named in full, not {name!r}; for "
            "instance ?options=-csearch_path%3Dledgers, or leave it out for the schema public."
        )
    return name


def _masked(url: str) -> str:
    # Greedy up to the last "@", so that a password that should have been percent-encoded is masked as well.
    hidden = re.sub(r"://([^:/@?#]*):.*@", r"://\1:***@", url, flags=re.DOTALL)
    return re.sub(r"(?i)(password=)[^&]*", r"\1***", hidden)
