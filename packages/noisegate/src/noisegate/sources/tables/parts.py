"""Parts of the files of a source, described in a few bytes; and Parquet files.

A run on a cluster sends descriptions of parts to its workers, and every worker opens
the files itself. So a part remembers what its files looked like when they were cut: if
one was written to since, or is another file on a worker, records would be counted twice
or never, and the part refuses (G-29).
"""

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
from noisegate.sources.stores import absolute, arrow_file, status, unreadable
from noisegate.sources.tables.csv_file import CsvFile

FilePart: TypeAlias = "CsvFile | ParquetFile"
"""Some records of a file, or all of them."""

Stamp: TypeAlias = tuple[int, int]
"""Size of a file in bytes, and when it was last written in nanoseconds since 1970."""

PARQUET = (".parquet", ".pq")
"""Endings of the names of Parquet files."""

# Read ahead of one column.
_BUFFER_BYTES = 1 << 16


class Part:
    """Some records of a source. It can be pickled, and read in another process."""

    def __init__(self, records: Any, stamps: Mapping[Path, Stamp]) -> None:
        """Describes a part.

        Args:
            records: A source of these records alone.
            stamps: What its files looked like when they were cut.
        """
        self._records = records
        self._stamps = stamps

    def unread(self) -> Iterator[Callable[[], Rows]]:
        """Yields functions that encode some records each.

        Raises:
            DataError: before or after all, if a file is not the one that was cut.
        """
        self._check()
        yield from self._records.unread()
        self._check()

    def _check(self) -> None:
        for path, expected in self._stamps.items():
            if stamp(path) != expected:
                raise DataError(
                    f"{path.name}: was written to after it was cut into parts, or is "
                    "another one on a worker; every worker must see the same "
                    f"{path}, and nothing may write to it during a run"
                )


def stamp(path: Path) -> Stamp:
    """Returns what a file or folder looks like from outside.

    Raises:
        DataError: if it cannot be read.
    """
    try:
        file = status(path)
    except OSError as error:
        raise unreadable(path, error) from None
    return file.size, file.modified


def file_parts(origin: FilePart, size: int) -> Iterator[tuple[FilePart, Stamp]]:
    """Cuts a file into parts.

    Args:
        origin: The file.
        size: Of a part, about, in bytes.

    Yields:
        The parts in the order of their records, each with the stamp of the file.
    """
    whole = replace(origin, path=absolute(origin.path))
    file_stamp = stamp(whole.path)
    for part in _cut(whole, size, file_stamp):
        yield part, file_stamp


@lru_cache(maxsize=4096)
def _cut(origin: FilePart, size: int, _stamp: Stamp) -> Sequence[FilePart]:
    """Returns the parts of a file; remembered for the later rounds of a run.

    The stamp is part of the key, so that a file that was written to is cut anew.
    """
    return tuple(origin.parts(size))


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file, or some row groups of it.

    Attributes:
        path: The file.
        groups: The first row group of the part and the one behind its last; None for
            all of the file.
        before: Number of records of the file that stand before the part.
    """

    path: Path
    groups: tuple[int, int] | None = None
    before: int = 0
    typed = True

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Returns name and type of each column, from the metadata of the file."""
        with suppress(pa.ArrowException, OSError):
            schema = pq.read_schema(arrow_file(self.path))
            return [(field.name.strip(TEXT_PADDING), field.type) for field in schema]
        raise self._damaged()

    def about(self) -> int:
        """Returns the number of records, from the metadata of the file."""
        return int(pq.read_metadata(arrow_file(self.path)).num_rows)

    def parts(self, size: int) -> Iterator[ParquetFile]:
        """Cuts the file into parts of whole row groups; reads its metadata alone.

        Args:
            size: Of a part, about, in bytes in memory. A larger row group is a part of
                its own.
        """
        groups: list[Any] | None = None
        with suppress(pa.ArrowException, OSError):
            metadata = pq.read_metadata(arrow_file(self.path))
            groups = [
                metadata.row_group(index) for index in range(metadata.num_row_groups)
            ]
        if groups is None:
            raise self._damaged()
        first_group = 0
        rows_before_part = 0
        row_count = 0
        part_bytes = 0
        for index, group in enumerate(groups):
            is_full = part_bytes + group.total_byte_size > size
            if index > first_group and is_full:
                yield replace(
                    self, groups=(first_group, index), before=rows_before_part
                )
                first_group = index
                rows_before_part = row_count
                part_bytes = 0
            row_count += group.num_rows
            part_bytes += group.total_byte_size
        yield replace(self, groups=(first_group, len(groups)), before=rows_before_part)

    def batches(
        self, names: Sequence[str], rows: int
    ) -> Iterator[Mapping[str, pa.Array]]:
        """Yields some columns, `rows` records at a time."""
        try:
            # Arrow keeps what it buffered ahead until the file is closed, so memory
            # would grow with the file.
            with pq.ParquetFile(
                arrow_file(self.path), pre_buffer=False, buffer_size=_BUFFER_BYTES
            ) as file:
                file_names = [
                    name
                    for name in file.schema_arrow.names
                    if name.strip(TEXT_PADDING) in names
                ]
                groups = None if self.groups is None else range(*self.groups)
                for batch in file.iter_batches(
                    batch_size=rows, row_groups=groups, columns=file_names
                ):
                    yield {
                        name.strip(TEXT_PADDING): batch.column(name)
                        for name in file_names
                    }
            return
        except pa.lib.ArrowCancelled:
            # A signal came while Arrow was at work.
            raise KeyboardInterrupt from None
        except (pa.ArrowException, OSError):
            pass
        # Raised outside the handler: Arrow's message may quote records.
        raise self._damaged()

    def locate(self, row: int) -> str:
        """Returns where a record stands, as `adult.parquet, record 7`, from 1."""
        return f"{self.name}, record {self.before + row + 1}"

    def _damaged(self) -> DataError:
        return DataError(
            f"{self.name}: cannot be read as Parquet; it is empty, cut off or damaged: "
            "write or copy it again"
        )
