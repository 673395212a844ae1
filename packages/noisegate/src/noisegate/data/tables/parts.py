"""Parts of the files of a source: described in a few bytes, and opened wherever the files can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypeAlias

from noisegate.data.stores import absolute, status, unreadable
from noisegate.data.tables.csv_file import CsvFile
from noisegate.data.tables.parquet_file import ParquetFile
from noisegate.errors import DataError
from noisegate.records import Rows

FilePart: TypeAlias = CsvFile | ParquetFile
"""Some records of a file, all of them at most."""

Stamp: TypeAlias = tuple[int, int]
"""Size of a file in bytes, and when it was last written, in nanoseconds."""


class Unread(Protocol):
    """Records that can be read: a source, or a part of one."""

    def unread(self) -> Iterator[Callable[[], Rows]]:
        """Yields functions that encode some records each, to be called in any thread."""
        ...


class Part:
    """A part of a source; it can be pickled. One that finds its files written to, or other ones, gives nothing."""

    def __init__(self, records: Unread, stamps: Mapping[Path, Stamp]) -> None:
        self._records, self._stamps = records, stamps

    def unread(self) -> Iterator[Callable[[], Rows]]:
        """Yields functions that encode some records each; `DataError` if a file is not the one that was cut."""
        self._check()
        yield from self._records.unread()
        self._check()

    def _check(self) -> None:
        for path, known in self._stamps.items():
            if stamp(path) != known:
                raise DataError(
                    f"{path.name}: was written to after it was cut into parts, or is another one on a worker; every "
                    f"worker must see the same {path}, and nothing may write to it during a run"
                )


def stamp(path: Path) -> Stamp:
    """Returns what a file or folder looks like from outside; `DataError` if it cannot be read."""
    try:
        found = status(path)
    except OSError as error:
        raise unreadable(path, error) from None
    return found.size, found.written


def file_parts(origin: FilePart, size: int) -> Iterator[tuple[FilePart, Stamp]]:
    """Yields the parts of a file, of about ``size`` bytes, in the order of their records, and the file's stamp."""
    whole = replace(origin, path=absolute(origin.path))
    found = stamp(whole.path)
    for part in _cut(whole, size, found):
        yield part, found


@lru_cache(maxsize=4096)
def _cut(origin: FilePart, size: int, _stamp: Stamp) -> Sequence[FilePart]:
    """Returns the parts of a file as it was stamped; kept for the later rounds of a run."""
    return tuple(origin.parts(size))
