"""Which files a path stands for."""

from __future__ import annotations

from pathlib import Path

from noisegate.data.csv_file import CsvFile
from noisegate.data.origins import Origin
from noisegate.data.parquet_file import ParquetFile
from noisegate.errors import DataError

_CSV = (".csv",)
_PARQUET = (".parquet", ".pq")
_PACKED = {b"PK\x03\x04": "a ZIP archive or a spreadsheet", b"\x1f\x8b": "a gzip archive", b"BZh": "a bzip2 archive"}


def find_files(path: Path) -> list[Origin]:
    """Return the file at ``path``, or the CSV or Parquet files directly in the folder there, sorted by name.

    Raises:
        DataError: if there is none, a file cannot be opened, or a folder holds both kinds or another folder.
    """
    try:
        if path.is_dir():
            return _folder(path)
        return [_file(path)]
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; check the path and its permissions") from None


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
    return [_file(entry) for entry in chosen]


def _file(path: Path) -> Origin:
    with path.open("rb") as stream:
        start = stream.read(4)
    if start == b"PAR1" or path.suffix.lower() in _PARQUET:
        return ParquetFile(path)
    for magic, what in _PACKED.items():
        if start.startswith(magic):
            raise DataError(f"{path.name}: is {what}; expected CSV or Parquet: unpack it or save it as one of these")
    return CsvFile(path)
