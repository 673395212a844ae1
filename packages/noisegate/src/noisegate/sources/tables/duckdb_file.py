"""A table in a file of DuckDB, by its address.

As in::

    duckdb:///clinic.duckdb?table=visits

A path is relative to the current folder, or else to the root. Without a table, the file
must have only one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from noisegate.errors import DataError, require
from noisegate.sources.tables.addresses import choose_table
from noisegate.sources.tables.memory import TableInMemory, table_in_memory
from noisegate.sources.tables.parts import NumberedFile


@dataclass(frozen=True)
class DuckDbTable(NumberedFile):
    """A table or view in a file of DuckDB, which is opened for reading alone.

    Attributes:
        path: The file.
        layout: Not used: the file says itself how it is written.
        table: Name of the table; empty for the only one.
        has_types: True: columns have types, and names that somebody chose.
    """

    table: str = ""
    has_types = True
    declares_types = True

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Returns name and type of each column."""
        with self._open() as relation:
            return relation.columns()

    def estimate_record_count(self) -> int | None:
        """Returns None: only the whole table tells."""
        return None

    def batches(
        self, names: Sequence[str], rows: int
    ) -> Iterator[Mapping[str, pa.Array]]:
        """Yields some columns, at most `rows` records at a time.

        Args:
            names: The columns.
            rows: The most records of a batch.

        Raises:
            DataError: if the file is damaged or open elsewhere, or has no such table.
        """
        with self._open() as relation:
            yield from relation.batches(names, rows)

    @contextmanager
    def _open(self) -> Iterator[TableInMemory]:
        """Opens the table, and closes the file behind the block."""
        require("duckdb", f"{self.name}, a file of DuckDB,")
        import duckdb

        connection: Any = None
        with suppress(duckdb.Error):
            connection = duckdb.connect(str(self.path), read_only=True)
        if connection is None:
            raise DataError(
                f"{self.name}: cannot be opened by DuckDB; it is damaged, of a newer "
                "version, or open for writing elsewhere: close it there, and try again"
            )
        try:
            table = self._choose_table(connection)
            quoted_table = table.replace('"', '""')
            relation = table_in_memory(connection.sql(f'FROM "{quoted_table}"'))
            relation.name = f"{self.name}, table {table!r}"
            yield relation
        finally:
            connection.close()

    def _choose_table(self, connection: Any) -> str:
        """Returns the name of the table.

        Raises:
            DataError: if there is no such table, or several, none of which is named.
        """
        rows = connection.sql(
            "SELECT table_name FROM information_schema.tables "
            "WHERE table_schema = 'main' ORDER BY table_name"
        ).fetchall()
        return choose_table(self.name, self.table, [name for (name,) in rows])
