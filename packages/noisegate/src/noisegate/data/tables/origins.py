"""Where tables are: files, folders of them, and tables in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from noisegate.data.stores import children, opened, place_of, status, unreadable
from noisegate.data.tables.csv_file import CsvFile
from noisegate.data.tables.memory import table_in_memory
from noisegate.data.tables.parquet_file import PARQUET, ParquetFile
from noisegate.data.tables.parts import FilePart
from noisegate.errors import DataError, OptionError

_PACKED = {b"PK\x03\x04": "a ZIP archive or a spreadsheet", b"\x1f\x8b": "a gzip archive", b"BZh": "a bzip2 archive"}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class Placed(Protocol):
    """Something that holds records: a file, a folder, or a table in memory."""

    @property
    def name(self) -> str:
        """What messages call it: a file name or ``DataFrame``."""
        ...

    def place(self, row: int) -> str:
        """Returns where the record at position ``row`` stands, such as ``adult.csv, line 7``."""
        ...


class Origin(Placed, Protocol):
    """One file, or one table in memory; what cannot be read is a `DataError`."""

    @property
    def typed(self) -> bool:
        """Whether columns carry a type and certain names, as opposed to lines of text."""
        ...

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Returns name and type of each column, without reading records."""
        ...

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Mapping[str, pa.Array]]:
        """Yields the columns called ``names``, some records at a time."""
        ...


def files_of(origins: Sequence[Placed]) -> Sequence[FilePart]:
    """Returns files, of which parts can be read apart; `OptionError` if one is a table in memory."""
    files = [origin for origin in origins if isinstance(origin, CsvFile | ParquetFile)]
    if len(files) < len(origins):
        other = next(origin for origin in origins if origin not in files)
        raise OptionError(
            f"{other.name}: only CSV and Parquet files are read in parts, and this is a table in memory; write it to "
            "Parquet and give the path, or leave the engine out"
        )
    return files


def open_origins(source: str | Path | Any, names: Sequence[str] | None = None) -> tuple[str, list[Origin]]:
    """Returns what messages call a path or a table in memory, and its origins; see `find_files`, `table_in_memory`."""
    if isinstance(source, str | Path):
        return Path(source).name or str(source), find_files(Path(source))
    table = table_in_memory(source, names)
    return table.name, [table]


def find_files(path: Path) -> list[Origin]:
    """Returns the file at ``path``, or the CSV or Parquet files directly in the folder there, sorted by name."""
    try:
        return _folder(path) if is_folder(path) else [_file(path)]
    except OSError as error:
        raise unreadable(path, error) from None


def is_folder(path: Path) -> bool:
    """Returns whether data at ``path`` is a folder, and not a plain file."""
    if not str(path).strip() or path == Path():  # Path("") is Path(".")
        raise DataError(
            f"{str(path)!r}: an empty path, or the current folder, whose tables may be of many kinds; give the name of "
            "the file or folder that holds the records"
        )
    try:
        found = status(path)
    except ValueError:  # a NUL in it
        found = None
    if found is None or not (found.folder or found.plain):
        raise DataError(
            f"{str(path)!r}: is no plain file and no folder; records are read several times, so a pipe, a device or a "
            "socket cannot be read: write the records to a file first"
        )
    return found.folder


def _folder(path: Path) -> list[Origin]:
    entries = [entry for entry in children(path) if not entry.name.startswith((".", "_"))]
    nested = next((entry for entry in entries if status(entry).folder), None)
    if nested is not None:
        raise DataError(
            f"{place_of(path)}: holds the folder {nested.name!r}, which would not be read; put all files in one folder"
        )
    csv, parquet = ([entry for entry in entries if entry.suffix.lower() in endings] for endings in ((".csv",), PARQUET))
    if csv and parquet:
        raise DataError(
            f"{place_of(path)}: holds both CSV and Parquet files, which may be the same records; keep one kind"
        )
    if not csv and not parquet:
        raise DataError(f"{place_of(path)}: the folder holds no file named *.csv or *.parquet; check the path")
    return [_file(entry) for entry in csv or parquet if not is_folder(entry)]  # none is, but one may be a pipe


def _file(path: Path) -> Origin:
    with opened(path) as stream:
        start = stream.read(4)
    if start == b"PAR1" or path.suffix.lower() in PARQUET:
        return ParquetFile(path)
    for magic, what in _PACKED.items():
        if start.startswith(magic):
            raise DataError(f"{path.name}: is {what}; expected CSV or Parquet: unpack it or save it as one of these")
    if start.startswith(_UTF_16):
        raise DataError(f"{path.name}: the text is in UTF-16; save the file as CSV in UTF-8")
    return CsvFile(path)
