"""Where the records of a table come from: CSV and Parquet files, and tables in memory, behind one protocol."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from noisegate.data.problems import Placed
from noisegate.data.tables.csv_file import CsvFile
from noisegate.data.tables.memory import MemoryTable
from noisegate.data.tables.parquet_file import PARQUET, ParquetFile
from noisegate.errors import DataError

_CSV = (".csv",)
_PACKED = {b"PK\x03\x04": "a ZIP archive or a spreadsheet", b"\x1f\x8b": "a gzip archive", b"BZh": "a bzip2 archive"}


class Origin(Placed, Protocol):
    """One file, or one table in memory."""

    @property
    def typed(self) -> bool:
        """Whether columns carry a type and certain names, as opposed to lines of text."""
        ...

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Return name and type of each column, without reading records.

        Raises:
            DataError: if the header cannot be read.
        """
        ...

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Mapping[str, pa.Array]]:
        """Yield the columns called ``names``, some records at a time.

        Raises:
            DataError: if the data cannot be read.
        """
        ...


def open_origins(source: str | Path | Any) -> tuple[str, list[Origin]]:
    """Return what messages call a path or a table in memory, and its origins.

    Raises:
        DataError: if there is no such file, or it is no kind of table that can be read.
    """
    if isinstance(source, str | Path):
        return Path(source).name or str(source), find_files(Path(source))
    return MemoryTable.name, [MemoryTable(source)]


def find_files(path: Path) -> list[Origin]:
    """Return the file at ``path``, or the CSV or Parquet files directly in the folder there, sorted by name.

    Raises:
        DataError: if there is none, a file cannot be opened, or a folder holds both kinds or another folder.
    """
    try:
        return _folder(path) if is_folder(path) else [_file(path)]
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; check the path and its permissions") from None


def is_folder(path: Path) -> bool:
    """Return whether data at ``path`` is a folder, and not a plain file.

    Raises:
        DataError: if the path is empty or the current folder, or what is there is neither.
        OSError: if there is nothing, or it cannot be looked at.
    """
    if not str(path).strip() or path == Path():  # Path("") is Path(".")
        raise DataError(
            f"{str(path)!r}: an empty path, or the current folder, whose tables may be of many kinds; give the name of "
            "the file or folder that holds the records"
        )
    try:
        mode = os.stat(path).st_mode
    except ValueError:  # a NUL in it
        mode = 0
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise DataError(
            f"{str(path)!r}: is no plain file and no folder; records are read several times, so a pipe, a device or a "
            "socket cannot be read: write the records to a file first"
        )
    return stat.S_ISDIR(mode)


def _folder(path: Path) -> list[Origin]:
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith((".", "_")))
    nested = next((entry for entry in entries if entry.is_dir()), None)
    if nested is not None:
        raise DataError(
            f"{path}: holds the folder {nested.name!r}, which would not be read; put all files in one folder"
        )
    csv, parquet = ([entry for entry in entries if entry.suffix.lower() in endings] for endings in (_CSV, PARQUET))
    if csv and parquet:
        raise DataError(f"{path}: holds both CSV and Parquet files, which may be the same records; keep one kind")
    if not csv and not parquet:
        raise DataError(f"{path}: the folder holds no file named *.csv or *.parquet; check the path")
    return [_file(entry) for entry in csv or parquet if not is_folder(entry)]  # none is, but one may be a pipe


def _file(path: Path) -> Origin:
    with path.open("rb") as stream:
        start = stream.read(4)
    if start == b"PAR1" or path.suffix.lower() in PARQUET:
        return ParquetFile(path)
    for magic, what in _PACKED.items():
        if start.startswith(magic):
            raise DataError(f"{path.name}: is {what}; expected CSV or Parquet: unpack it or save it as one of these")
    return CsvFile(path)
