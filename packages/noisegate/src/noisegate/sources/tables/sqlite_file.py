"""A table in a file of SQLite, by its address.

As in::

    sqlite:///clinic.sqlite?table=visits

It is read through Python's own `sqlite3`, not through ADBC: that needs no package, and
the types of SQLite belong to cells, not to columns. The driver of ADBC takes the type
of a column from its first cells, so that one record would change how others are read.
Here each cell becomes text by itself, and the schema says what it means.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from noisegate.errors import DataError
from noisegate.schema.checks import TEXT_PADDING
from noisegate.sources.tables.addresses import choose_table
from noisegate.sources.tables.cells import value_text
from noisegate.sources.tables.parts import NumberedFile

_MISSING_TYPE = type(None)


@dataclass(frozen=True)
class SQLiteTable(NumberedFile):
    """A table or view in a file of SQLite, which is opened for reading alone.

    Attributes:
        path: The file.
        layout: Not used: the file says itself how it is written.
        table: Name of the table; empty for the only one.
        has_types: True: columns have names that somebody chose.
    """

    table: str = ""
    has_types = True
    declares_types = False

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Returns the name of each column, each with the type string.

        Raises:
            DataError: if the file cannot be read, or has no such table.
        """
        with suppress(sqlite3.Error), self._open() as (connection, table):
            names = _column_names(connection, table)
            return [(name.strip(TEXT_PADDING), pa.string()) for name in names]
        raise self._unreadable_error()

    def estimate_record_count(self) -> int | None:
        """Returns None: only the whole table tells."""
        return None

    def batches(
        self, names: Sequence[str], rows: int
    ) -> Iterator[Mapping[str, pa.Array]]:
        """Yields some columns as text, at most `rows` records at a time.

        All come from one statement, and so from one state of the table.

        Args:
            names: The columns.
            rows: The most records of a batch.

        Raises:
            DataError: if the file is damaged or locked, has no such table, or a cell
                holds bytes.
        """
        with suppress(sqlite3.Error), self._open() as (connection, table):
            stored_names = {
                name.strip(TEXT_PADDING): name
                for name in _column_names(connection, table)
            }
            selected = ", ".join(_quoted(stored_names[name]) for name in names)
            cursor = connection.execute(f"SELECT {selected} FROM {_quoted(table)}")
            while records := cursor.fetchmany(rows):
                columns = zip(names, zip(*records, strict=True), strict=True)
                yield {name: self._to_text(name, cells) for name, cells in columns}
            return
        # Raised outside the block: SQLite's message may quote a cell.
        raise self._unreadable_error()

    def _to_text(self, name: str, cells: Sequence[Any]) -> pa.Array:
        """Returns cells as text, each by itself.

        Args:
            name: The column, for messages.
            cells: Integers, floats, text and bytes as SQLite stores them, None where
                there is none, (records,).

        Raises:
            DataError: if a cell holds bytes, or text that is no Unicode; it is not
                shown.
        """
        types = set(map(type, cells))
        if types <= {int, _MISSING_TYPE}:
            # The same text as below, and faster.
            return pa.array(cells, pa.int64()).cast(pa.string())
        if bytes not in types:
            try:
                return pa.array(map(value_text, cells), pa.string())
            except UnicodeEncodeError:
                pass
        # Raised outside the handler: the error of Python quotes the text.
        raise DataError(
            f"{self.name}, column {name!r}: holds bytes, or text that is not UTF-8, "
            "which have no kind in a schema; put the column under `ignore`"
        )

    @contextmanager
    def _open(self) -> Iterator[tuple[sqlite3.Connection, str]]:
        """Opens the file for reading; yields the connection, and the table's name.

        Raises:
            DataError: if it has no such table.
            sqlite3.Error: if the file cannot be read.
        """
        uri = f"file:{quote(str(self.path))}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            # Text that is no UTF-8 is refused where its column is known.
            connection.text_factory = _decode
            table = choose_table(self.name, self.table, _table_names(connection))
            yield connection, table

    def _unreadable_error(self) -> DataError:
        """Returns the error of a file that SQLite cannot read; it quotes nothing."""
        return DataError(
            f"{self.name}: cannot be read as a file of SQLite; it is damaged, encrypted, "
            "or locked by a program that writes to it: close it there, and try again"
        )


def _decode(text: bytes) -> str:
    """Decodes a text; bytes that are no UTF-8 become characters that are no Unicode."""
    return text.decode("utf-8", "surrogateescape")


def _table_names(connection: sqlite3.Connection) -> list[str]:
    """Returns the names of the tables and views, sorted."""
    records = connection.execute(
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
        "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
    )
    return [name for (name,) in records]


def _column_names(connection: sqlite3.Connection, table: str) -> list[str]:
    """Returns the names of the columns of a table, as they are stored."""
    cursor = connection.execute(f"SELECT * FROM {_quoted(table)} LIMIT 0")
    return [column[0] for column in cursor.description]


def _quoted(name: str) -> str:
    """Returns a name as SQL writes it."""
    escaped_name = name.replace('"', '""')
    return f'"{escaped_name}"'
