"""Parts of the files of a source: described in a few bytes, and opened wherever they can be read; Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from noisegate.errors import DataError
from noisegate.records import Rows
from noisegate.schema.values import TEXT_PADDING
from noisegate.sources.stores import absolute, for_arrow, status, unreadable
from noisegate.sources.tables.csv_file import CsvFile

FilePart: TypeAlias = (
    "CsvFile | ParquetFile"  # some records of a file, all of them at most
)

Stamp: TypeAlias = tuple[
    int, int
]  # size of a file in bytes, and when it was last written, in nanoseconds


class Part:
    """A part of a source, `records`; it can be pickled. One that finds its files written to or others gives nothing."""

    def __init__(self, records: Any, stamps: Mapping[Path, Stamp]) -> None:
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


PARQUET = (".parquet", ".pq")
_BUFFER_BYTES = 1 << 16  # of one column, read ahead


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file, or some row groups of it; see `tables.Origin`."""

    path: Path  # of the file
    groups: tuple[int, int] | None = None
    """The first row group of the part, and the one behind its last; None for all of the file."""
    before: int = 0  # records of the file that stand before the part
    typed = True

    @property
    def name(self) -> str:
        """The file name."""
        return self.path.name

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Returns name and type of each column from the file's metadata."""
        with suppress(pa.ArrowException, OSError):
            return [
                (field.name.strip(TEXT_PADDING), field.type)
                for field in pq.read_schema(for_arrow(self.path))
            ]
        raise self._broken()

    def about(self) -> int:
        """Returns how many records there are."""
        return int(pq.read_metadata(for_arrow(self.path)).num_rows)

    def parts(self, size: int) -> Iterator[ParquetFile]:
        """Yields parts of whole row groups, of about ``size`` bytes in memory; reads the file's metadata alone."""
        try:
            found = pq.read_metadata(for_arrow(self.path))
            groups = [found.row_group(place) for place in range(found.num_row_groups)]
        except (pa.ArrowException, OSError):
            groups = None
        if groups is None:
            raise self._broken()
        first = before = rows = taken = 0
        for place, group in enumerate(groups):
            if place > first and taken + group.total_byte_size > size:
                yield replace(self, groups=(first, place), before=before)
                first, before, taken = place, rows, 0
            rows, taken = rows + group.num_rows, taken + group.total_byte_size
        yield replace(self, groups=(first, len(groups)), before=before)

    def batches(
        self, names: Sequence[str], rows: int
    ) -> Iterator[Mapping[str, pa.Array]]:
        """Yields the columns called ``names``, ``rows`` records at a time."""
        try:
            # Arrow keeps what it buffered ahead until the file is closed, so memory would grow with the file.
            with pq.ParquetFile(
                for_arrow(self.path), pre_buffer=False, buffer_size=_BUFFER_BYTES
            ) as file:
                raw = [
                    name
                    for name in file.schema_arrow.names
                    if name.strip(TEXT_PADDING) in names
                ]
                groups = None if self.groups is None else range(*self.groups)
                for batch in file.iter_batches(
                    batch_size=rows, row_groups=groups, columns=raw
                ):
                    yield {name.strip(TEXT_PADDING): batch.column(name) for name in raw}
            return
        except pa.lib.ArrowCancelled:
            raise KeyboardInterrupt from None
        except (pa.ArrowException, OSError):
            pass
        raise self._broken()  # outside the handler: Arrow's message may quote data

    def place(self, row: int) -> str:
        """Returns the file name and the number of the record, counted from 1."""
        return f"{self.name}, record {self.before + row + 1}"

    def _broken(self) -> DataError:
        return DataError(
            f"{self.name}: cannot be read as Parquet; it is empty, cut off or damaged: write or copy it again"
        )
