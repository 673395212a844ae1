"""A table on a server of PostgreSQL or Snowflake, by its address, read through ADBC.

As in::

    postgresql://user@host:5432/clinic?table=visits

Each pass over the records is one statement in a transaction that can only read::

    open_server_table     finds the table, and the declared types of its columns
      │
    read_tables           connects, selects columns, passes on batches, hangs up

A column is selected by an expression for its declared type alone, so a cell depends on
no other cell (G-06). PostgreSQL has values that Arrow lacks: an infinite date would
become some day long ago, and an amount of money a hundred times as much.

What libpq reads besides (`PGPASSWORD`, ``~/.pgpass``, options such as `sslmode`) counts
here as well. Its messages are not passed on: they may quote cells, or the password.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import pyarrow as pa

from noisegate.errors import DataError, MissingExtraError, installed, require
from noisegate.sources.tables.addresses import ServerAddress, choose_table
from noisegate.sources.tables.memory import TableInMemory, wrap_batches

# A wrong address shall say so while somebody waits for it.
_CONNECT_SECONDS = 10


# A value in a column of dates or times beyond these years becomes the nearest within,
# as it would be moved to the bounds of its column anyway: those lie within, too.
_FIRST_MOMENT = "0001-01-01 00:00:00"
_LAST_MOMENT = "9999-12-31 23:59:59.999999"


def open_server_table(address: ServerAddress) -> TableInMemory:
    """Opens a table on a server; it is read again in each pass, and never held.

    Args:
        address: Where it is.

    Raises:
        MissingExtraError: if the driver is not installed.
        DataError: if the server cannot be reached, or has no such table.
    """
    server: _Server
    if address.scheme == "snowflake":
        server = _Snowflake(address)
    else:
        server = _PostgreSQL(address)
    columns: list[_ServerColumn] = []
    with server.open() as (cursor, error_type), suppress(error_type):
        tables = server.list_tables(cursor)
        table = choose_table(address.shown, address.table, list(tables))
        quoted_table = tables[table]
        columns = server.describe_columns(cursor, quoted_table)
    if not columns:
        raise DataError(
            f"{address.shown}: the server does not say which tables and columns there "
            "are; check whether this user may read them"
        )
    name = f"{address.shown}, table {table}"
    columns_by_name = {column.name: column for column in columns}

    def read_tables(names: list[str], _rows: int) -> Iterator[pa.Table]:
        """Yields columns of the table, as many records at a time as the driver does."""
        selected = ", ".join(
            f"{columns_by_name[column].expression} AS {_quoted(column)}"
            for column in names
        )
        with server.open() as (cursor, _):
            cursor.execute(f"SELECT {selected} FROM {quoted_table}")
            with cursor.fetch_record_batch() as reader:
                for batch in reader:
                    yield _with_unreadable_columns(batch, columns_by_name)

    schema = pa.schema([(column.name, column.arrow_type) for column in columns])
    cure = (
        "it was changed or dropped meanwhile, or the connection broke: nothing may "
        "change a table during a run; try again"
    )
    return wrap_batches(name, schema, read_tables, cure=cure)


class _UnreadableType(pa.ExtensionType):  # type: ignore[misc] # pyarrow has no types
    """A type whose values no kind of column holds, such as `json`; all read as null."""

    def __init__(self, declared_type: str) -> None:
        self._declared_type = declared_type
        super().__init__(pa.null(), "noisegate.unreadable")

    def __arrow_ext_serialize__(self) -> bytes:
        return self._declared_type.encode()

    @classmethod
    def __arrow_ext_deserialize__(
        cls, _storage_type: pa.DataType, serialized: bytes
    ) -> _UnreadableType:
        return cls(serialized.decode())

    def __str__(self) -> str:
        return self._declared_type


@dataclass(frozen=True)
class _ServerColumn:
    """A column of a table on a server.

    Attributes:
        name: Its name.
        arrow_type: What its cells become.
        expression: What is selected for it, in SQL.
    """

    name: str
    arrow_type: pa.DataType
    expression: str


def _with_unreadable_columns(
    batch: pa.RecordBatch, columns: Mapping[str, _ServerColumn]
) -> pa.Table:
    """Returns a batch as a table, in which columns that cannot be read are null."""
    arrays = {}
    for name in batch.schema.names:
        arrow_type = columns[name].arrow_type
        arrays[name] = batch.column(name)
        if isinstance(arrow_type, _UnreadableType):
            nulls = pa.nulls(batch.num_rows)
            arrays[name] = pa.ExtensionArray.from_storage(arrow_type, nulls)
    return pa.table(arrays)


class _Server(ABC):
    """A kind of server: how it is reached, and what its columns are.

    Attributes:
        package: The driver.
        setup: What is executed when a connection is made.
    """

    package: ClassVar[str]
    setup: ClassVar[tuple[str, ...]] = ()

    def __init__(self, address: ServerAddress) -> None:
        self.address = address

    @abstractmethod
    def require_driver(self) -> None:
        """Requires that the driver is installed, by a `MissingExtraError`."""

    @abstractmethod
    def uri(self) -> str:
        """Returns what the driver connects to. It may hold a password."""

    @abstractmethod
    def list_tables(self, cursor: Any) -> dict[str, str]:
        """Returns the tables that may be read: names, and how SQL writes them."""

    @abstractmethod
    def describe_columns(self, cursor: Any, quoted_table: str) -> list[_ServerColumn]:
        """Returns the columns of a table in their order; no record is read."""

    @contextmanager
    def open(self) -> Iterator[tuple[Any, type[Exception]]]:
        """Connects; yields a cursor, and the class of the driver's errors.

        Raises:
            MissingExtraError: if the driver is not installed.
            DataError: if the server cannot be reached, or lets the user not in.
        """
        self.require_driver()
        driver = import_module(f"{self.package}.dbapi")
        connection: Any = None
        is_locked_out = False
        try:
            connection = driver.connect(self.uri())
        except driver.Error as error:
            is_locked_out = "password" in str(error) or "authentication" in str(error)
        if is_locked_out:
            raise DataError(
                f"{self.address.shown}: the server does not let this user in; check the "
                "name of the user, and the password in PGPASSWORD or ~/.pgpass"
            )
        if connection is None:
            raise DataError(
                f"{self.address.shown}: cannot be reached; check host, port, user and "
                "the name of the database, and that the server runs"
            )
        try:
            with connection.cursor() as cursor:
                for statement in self.setup:
                    cursor.execute(statement)
                yield cursor, driver.Error
        finally:
            # Where the connection broke, this fails too, and the first error counts.
            with suppress(driver.Error):
                connection.close()


class _PostgreSQL(_Server):
    """A server of PostgreSQL."""

    package = "adbc_driver_postgresql"
    # Large scans may begin in the middle of a table, and parallel ones hand out records
    # as they come: then a record would have another number in each pass.
    setup = (
        "SET TRANSACTION READ ONLY",
        "SET LOCAL synchronize_seqscans = off",
        "SET LOCAL max_parallel_workers_per_gather = 0",
        "SET LOCAL intervalstyle = iso_8601",
    )

    def require_driver(self) -> None:
        """Requires that the driver is installed, by a `MissingExtraError`."""
        require(self.package, f"{self.address.shown}, a table of PostgreSQL,")

    def uri(self) -> str:
        """Returns what libpq connects to. It may hold a password."""
        has_limit = "PGCONNECT_TIMEOUT" in os.environ or any(
            option.startswith("connect_timeout=") for option in self.address.options
        )
        limit = () if has_limit else (f"connect_timeout={_CONNECT_SECONDS}",)
        return self.address.uri(*limit)

    def list_tables(self, cursor: Any) -> dict[str, str]:
        """Returns the tables and views that may be read, and how SQL writes them.

        Those on the search path come first, and are called by their name alone unless
        the address names the schema too.
        """
        cursor.execute(
            """
            SELECT CASE WHEN is_visible THEN relname ELSE full_name END AS name,
                   full_name, quoted_name
            FROM (
                SELECT relname, nspname || '.' || relname AS full_name,
                       quote_ident(nspname) || '.' || quote_ident(relname)
                       AS quoted_name,
                       pg_table_is_visible(c.oid) AS is_visible
                FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
                WHERE relkind IN ('r', 'p', 'v', 'm', 'f')
                AND nspname NOT IN ('pg_catalog', 'information_schema')
                AND nspname NOT LIKE 'pg\\_%'
                AND has_any_column_privilege(c.oid, 'SELECT')
            ) AS tables
            ORDER BY NOT is_visible, full_name
            """
        )
        tables: dict[str, str] = {}
        for name, full_name, quoted_name in cursor.fetchall():
            is_named_in_full = full_name == self.address.table
            tables[full_name if is_named_in_full else name] = quoted_name
        return tables

    def describe_columns(self, cursor: Any, quoted_table: str) -> list[_ServerColumn]:
        """Returns the columns of a table in their order; no record is read.

        The type of a domain is the one that it is made of.
        """
        table_literal = quoted_table.replace("'", "''")
        cursor.execute(
            f"""
            WITH RECURSIVE columns AS (
                SELECT attnum, attname, atttypid AS type_id
                FROM pg_attribute
                WHERE attrelid = '{table_literal}'::regclass
                AND attnum > 0 AND NOT attisdropped
                UNION ALL
                SELECT attnum, attname, typbasetype
                FROM columns JOIN pg_type ON pg_type.oid = type_id
                WHERE typtype = 'd'
            )
            SELECT attname, typname, typtype = 'e', format_type(type_id, NULL)
            FROM columns JOIN pg_type ON pg_type.oid = type_id
            WHERE typtype <> 'd'
            ORDER BY attnum
            """
        )
        return [_postgresql_column(*column) for column in cursor.fetchall()]


_POSTGRESQL_TYPES: dict[str, tuple[pa.DataType, str]] = {
    "bool": (pa.bool_(), "{}"),
    "int2": (pa.int16(), "{}"),
    "int4": (pa.int32(), "{}"),
    "int8": (pa.int64(), "{}"),
    "float4": (pa.float32(), "{}"),
    "float8": (pa.float64(), "{}"),
    "text": (pa.string(), "{}"),
    "varchar": (pa.string(), "{}"),
    # Exact, however many digits there are.
    "numeric": (pa.string(), "{}::text"),
    # The driver would hand out cents.
    "money": (pa.string(), "{}::numeric::text"),
    "oid": (pa.int64(), "{}::int8"),
    "date": (pa.date32(), ""),
    "timestamp": (pa.timestamp("us"), ""),
    "timestamptz": (pa.timestamp("us", tz="UTC"), ""),
    **{
        name: (pa.string(), "{}::text")
        for name in (
            "bpchar",
            "char",
            "citext",
            "interval",
            "name",
            "time",
            "timetz",
            "uuid",
        )
    },
}
"""For each type of PostgreSQL the type of Arrow, and what is selected for a column; an
empty text where values are to be brought within the years that Arrow and Python have.
"""


def _postgresql_column(
    name: str, type_name: str, is_enum: bool, declared_type: str
) -> _ServerColumn:
    """Returns how a column of PostgreSQL is read.

    Args:
        name: Its name.
        type_name: Its type, as the server calls it inside: `int4`.
        is_enum: Whether that is a list of words.
        declared_type: The type as its owner wrote it: `integer`.
    """
    quoted_name = _quoted(name)
    if is_enum:
        return _ServerColumn(name, pa.string(), f"{quoted_name}::text")
    if type_name not in _POSTGRESQL_TYPES:
        return _ServerColumn(name, _UnreadableType(declared_type), "NULL::text")
    arrow_type, template = _POSTGRESQL_TYPES[type_name]
    expression = template.format(quoted_name)
    if not template:
        first = f"{type_name} '{_FIRST_MOMENT}'"
        last = f"{type_name} '{_LAST_MOMENT}'"
        expression = (
            f"CASE WHEN {quoted_name} < {first} THEN {first} "
            f"WHEN {quoted_name} > {last} THEN {last} ELSE {quoted_name} END"
        )
    return _ServerColumn(name, arrow_type, expression)


class _Snowflake(_Server):
    """A server of Snowflake, whose address names the database and the schema."""

    package = "adbc_driver_snowflake"

    def require_driver(self) -> None:
        """Requires that the driver is installed, by a `MissingExtraError`."""
        if not installed(self.package):
            raise MissingExtraError(
                f"{self.address.shown} needs adbc_driver_snowflake; install it with: "
                "pip install adbc-driver-snowflake"
            )

    def uri(self) -> str:
        """Returns what the driver connects to, without a scheme."""
        return self.address.uri().removeprefix("snowflake://")

    def list_tables(self, cursor: Any) -> dict[str, str]:
        """Returns the tables and views of the schema, and how SQL writes them."""
        cursor.execute(
            "SELECT table_name FROM information_schema.tables "
            "WHERE table_schema = current_schema() ORDER BY table_name"
        )
        return {name: _quoted(name) for (name,) in cursor.fetchall()}

    def describe_columns(self, cursor: Any, quoted_table: str) -> list[_ServerColumn]:
        """Returns the columns of a table in their order; no record is read."""
        cursor.execute(f"SELECT * FROM {quoted_table} LIMIT 0")
        with cursor.fetch_record_batch() as reader:
            return [
                _ServerColumn(field.name, field.type, _quoted(field.name))
                for field in reader.schema
            ]


def _quoted(name: str) -> str:
    """Returns a name as SQL writes it."""
    escaped_name = name.replace('"', '""')
    return f'"{escaped_name}"'
