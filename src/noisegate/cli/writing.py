"""Writing files, whole or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa


@contextmanager
def new_file(out: Path, option: str = "--out") -> Iterator[Path]:
    """Yields a path to write to; the file appears at `out` when the block ends well, and leaves nothing if it fails.

    Raises:
        OptionError: if the file exists or cannot be written; found before the block is entered, where possible.
    """
    if out.exists():
        raise OptionError(f"{option} {out} exists; choose another name, or remove it first.")
    beside = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    try:
        beside.touch()
        yield beside
        beside.rename(out)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OptionError(f"{option} {out} cannot be written: {reason}; choose another place.") from None
    finally:
        if beside.exists():
            beside.unlink()


@contextmanager
def table_writer(out: Path) -> Iterator[Callable[[pa.Table], None]]:
    """Yields a function that appends a table to the file `out`, which appears only when all is written.

    Raises:
        OptionError: if the ending is neither .csv nor .parquet, the file exists, or it cannot be written.
    """
    if out.suffix not in (".csv", ".parquet"):
        raise OptionError(f"--out {out}: the ending must be .csv or .parquet, not {out.suffix!r}.")
    with new_file(out) as path, _Appender(path, out.suffix) as appender:
        yield appender.write


class _Appender:
    def __init__(self, path: Path, suffix: str) -> None:
        self._path, self._suffix = path, suffix
        self._writer: Any = None

    def __enter__(self) -> _Appender:
        return self

    def write(self, table: pa.Table) -> None:
        if self._writer is None:
            import pyarrow.csv as csv
            import pyarrow.parquet as parquet

            make = csv.CSVWriter if self._suffix == ".csv" else parquet.ParquetWriter
            self._writer = make(str(self._path), table.schema)
        self._writer.write_table(table)

    def __exit__(self, *_: object) -> None:
        if self._writer is not None:
            self._writer.close()
