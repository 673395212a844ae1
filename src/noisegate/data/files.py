"""Which files a path stands for."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from noisegate.data.csv_file import CsvFile
from noisegate.data.origins import Origin
from noisegate.data.parquet_file import ParquetFile
from noisegate.errors import DataError

_CSV = (".csv",)
_PARQUET = (".parquet", ".pq")
_PACKED = {b"PK\x03\x04": "a ZIP archive or a spreadsheet", b"\x1f\x8b": "a gzip archive", b"BZh": "a bzip2 archive"}


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


def find_files(path: Path) -> list[Origin]:
    """Return the file at ``path``, or the CSV or Parquet files directly in the folder there, sorted by name.

    Raises:
        DataError: if there is none, a file cannot be opened, or a folder holds both kinds or another folder.
    """
    try:
        if is_folder(path):
            return _folder(path)
        return [_file(path)]
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; check the path and its permissions") from None


def check_alike(headers: Sequence[tuple[str, Sequence[str]]], *, show_names: bool) -> None:
    """Require the same columns in all files of a folder, in any order.

    Args:
        headers: name and columns of each file.
        show_names: whether names of columns may be quoted; the first line of a text without a header is a record.

    Raises:
        DataError: naming the file and the column that another one has not.
    """
    first, expected = headers[0]
    for name, found in headers[1:]:
        for here, columns, there, others in ((name, found, first, expected), (first, expected, name, found)):
            known = set(others)
            place = next((place for place, column in enumerate(columns) if column not in known), None)
            if place is not None:
                shown = repr(columns[place]) if show_names else f"number {place + 1}"
                raise DataError(
                    f"{name}: the files of a folder are read as one table, and column {shown} of {here} is not in "
                    f"{there}; make the files alike, or move away the one that does not belong there"
                )


def _folder(path: Path) -> list[Origin]:
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith((".", "_")))
    nested = next((entry for entry in entries if entry.is_dir()), None)
    if nested is not None:
        raise DataError(
            f"{path}: holds the folder {nested.name!r}, which would not be read; put all files in one folder"
        )
    tables = {
        suffixes: [entry for entry in entries if entry.suffix.lower() in suffixes] for suffixes in (_CSV, _PARQUET)
    }
    if tables[_CSV] and tables[_PARQUET]:
        raise DataError(f"{path}: holds both CSV and Parquet files, which may be the same records; keep one kind")
    chosen = tables[_CSV] or tables[_PARQUET]
    if not chosen:
        raise DataError(f"{path}: the folder holds no file named *.csv or *.parquet; check the path")
    return [_file(entry) for entry in chosen if not is_folder(entry)]  # none is, but one may be a pipe


def _file(path: Path) -> Origin:
    with path.open("rb") as stream:
        start = stream.read(4)
    if start == b"PAR1" or path.suffix.lower() in _PARQUET:
        return ParquetFile(path)
    for magic, what in _PACKED.items():
        if start.startswith(magic):
            raise DataError(f"{path.name}: is {what}; expected CSV or Parquet: unpack it or save it as one of these")
    return CsvFile(path)
