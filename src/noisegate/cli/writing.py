"""Writing tables to files, whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisegate.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa


@contextmanager
def table_writer(out: Path) -> Iterator[Callable[[pa.Table], None]]:
    """Yields a function that appends a table to the file `out`, which appears only when all is written.

    Raises:
        OptionError: if the ending is neither .csv nor .parquet, the file exists, or it cannot be written.
    """
    if out.suffix not in (".csv", ".parquet"):
        raise OptionError(f"--out {out}: the ending must be .csv or .parquet, not {out.suffix!r}.")
    if out.exists():
        raise OptionError(f"--out {out} exists; choose another name, or remove it first.")
    beside: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{out.name}.", dir=out.absolute().parent)
        os.close(handle)
        beside = Path(name)
        with _Appender(beside, out.suffix) as appender:
            yield appender.write
        beside.chmod(0o644)
        beside.rename(out)
    except OSError as error:
        raise OptionError(f"--out {out} cannot be written: {error.strerror or error}.") from None
    finally:
        if beside is not None:
            beside.unlink(missing_ok=True)


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
