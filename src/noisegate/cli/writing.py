"""Writing tables, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.atomic import new_file
from noisegate.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

    from noisegate.schema import Schema

__all__ = ["new_file", "table_writer"]


@contextmanager
def table_writer(out: Path, schema: Schema) -> Iterator[Callable[[pa.Table], None]]:
    """Yields a function that appends a table to the file `out`, which appears only when all is written.

    In a CSV file, missing cells are empty where the schema reads these as missing, else its first missing value.

    Args:
        out: The file, .csv or .parquet.
        schema: Of the tables.

    Raises:
        OptionError: if the ending is neither .csv nor .parquet, the file exists, or it cannot be written.
    """
    if out.suffix not in (".csv", ".parquet"):
        raise OptionError(f"--out {out}: the ending must be .csv or .parquet, not {out.suffix!r}.")
    with new_file(out) as path, _Appender(path, out.suffix, schema) as appender:
        yield appender.write


class _Appender:
    def __init__(self, path: Path, suffix: str, schema: Schema) -> None:
        self._path, self._suffix, self._schema = path, suffix, schema
        self._writer: Any = None

    def __enter__(self) -> _Appender:
        return self

    def write(self, table: pa.Table) -> None:
        if self._suffix == ".csv":
            table = _spelled(table, self._schema)
        if self._writer is None:
            import pyarrow.csv as csv
            import pyarrow.parquet as parquet

            make = csv.CSVWriter if self._suffix == ".csv" else parquet.ParquetWriter
            self._writer = make(str(self._path), table.schema)
        self._writer.write_table(table)

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()


def _spelled(table: pa.Table, schema: Schema) -> pa.Table:
    """Returns the table with its missing cells as text, where an empty cell would not be read as missing."""
    import pyarrow as pa

    if not schema.missing_values or "" in schema.missing_values:
        return table
    for column in schema.columns:
        if column.missing:
            # The text that the CSV writer would make of the cells.
            cells = table[column.name].cast(pa.string()).fill_null(schema.missing_values[0])
            table = table.set_column(table.column_names.index(column.name), column.name, cells)
    return table
