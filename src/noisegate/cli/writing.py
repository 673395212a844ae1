"""Writing files, whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

    from noisegate.schema import Schema


@contextmanager
def new_file(out: Path, option: str = "--out", *, force: bool = False, room: int = 0) -> Iterator[Path]:
    """Yields a path to write to; the file appears at `out` when the block ends well, and leaves nothing if it fails.

    With `force`, it takes the place of a file that is there. With `room`, the disk is known to have so many bytes for
    it when the block is entered: for what is paid for inside and must not be lost.

    Raises:
        OptionError: if the file exists or cannot be written; found before the block is entered, where possible.
    """
    if out.exists() and not (force and out.is_file()):
        raise OptionError(f"{option} {out} exists; choose another name, or remove it first.")
    beside = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("wb") as file:
            file.write(bytes(room))
            file.flush()
            os.fsync(file.fileno())
        yield beside
        beside.rename(out)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OptionError(f"{option} {out} cannot be written: {reason}; choose another place.") from None
    finally:
        if beside.exists():
            beside.unlink()


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
