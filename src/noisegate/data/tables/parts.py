"""Parts of the files of a source: described in a few bytes, and opened wherever the files can be read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol, TypeAlias

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
        """Yield functions that encode some records each, to be called in any thread."""
        ...


class Part:
    """A part of a source; it can be pickled. Parts of one file share no record as long as nobody writes to the file.

    So one that finds its file written to, or another file in its place, does not read it.
    """

    def __init__(self, records: Unread, origin: FilePart, stamp: Stamp) -> None:
        self._records, self._origin, self._stamp = records, origin, stamp

    def unread(self) -> Iterator[Callable[[], Rows]]:
        """Yield functions that encode some records each; `DataError` if the file is not the one that was cut."""
        if stamp(self._origin) != self._stamp:
            raise DataError(
                f"{self._origin.name}: the file was written to after it was cut into parts, or is another one on a "
                f"worker; every worker must see the same {self._origin.path}, and nothing may write to it during a run"
            )
        yield from self._records.unread()


def stamp(origin: FilePart) -> Stamp:
    """Return what the file of an origin looks like from outside; `DataError` if it cannot be read."""
    try:
        found = os.stat(origin.path)
    except OSError as error:
        reason = error.strerror
    else:
        return found.st_size, found.st_mtime_ns
    raise DataError(f"{origin.path}: cannot be read: {reason}; check the path and its permissions")


def parts_of(origin: FilePart, size: int) -> Iterator[tuple[FilePart, Stamp]]:
    """Yield the parts of a file, of about ``size`` bytes, in the order of their records, and the file's stamp."""
    whole = replace(origin, path=origin.path.absolute())
    found = stamp(whole)
    for part in _cut(whole, size, found):
        yield part, found


@lru_cache(maxsize=4096)
def _cut(origin: FilePart, size: int, _stamp: Stamp) -> Sequence[FilePart]:
    """Return the parts of a file as it was stamped; kept for the later rounds of a run."""
    return tuple(origin.parts(size))
