"""Parts of the files of a source, described in a few bytes; and Parquet files.

Files of other kinds than CSV and Parquet derive from `WholeFile`.

A run on a cluster sends descriptions of parts to its workers, and every worker opens
the files itself. So a part remembers what its files looked like when they were cut: if
one was written to since, or is another file on a worker, records would be counted twice
or never, and the part refuses (G-29).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from noisegate.errors import DataError
from noisegate.records import Rows
from noisegate.schema.checks import TEXT_PADDING
from noisegate.sources.stores import (
    absolute_path,
    arrow_file,
    read_status,
    unreadable_error,
)
from noisegate.sources.tables.csv_file import NO_LAYOUT, CsvFile, TextLayout

FilePart: TypeAlias = "CsvFile | ParquetFile | WholeFile"
"""Some records of a file, or all of them."""

Stamp: TypeAlias = tuple[int, int]
"""Size of a file in bytes, and when it was last written in nanoseconds since 1970."""

PARQUET = (".parquet", ".pq")
"""Endings of the names of Parquet files."""

# Read ahead of one column.
_BUFFER_BYTES = 1 << 16


class Part:
    """Some records of a source. It can be pickled, and read in another process."""

    def __init__(self, source: Any, stamps: Mapping[Path, Stamp]) -> None:
        """Describes a part.

        Args:
            source: A source of the records of the part alone.
            stamps: What the files of the source looked like when they were cut.
        """
        self._source = source
        self._stamps = stamps

    def batch_readers(self) -> Iterator[Callable[[], Rows]]:
        """Reads all batches; yields for each a function that encodes it.

        Files are compared with their stamps before the first batch and again behind the
        last, so that one that is written to meanwhile is found too.

        Raises:
            DataError: before or after all batches, if a file is not the one that was
                cut.
        """
        self._check_files_unchanged()
        yield from self._source.batch_readers()
        self._check_files_unchanged()

    def _check_files_unchanged(self) -> None:
        """Requires that each file looks as it did when it was cut."""
        for path, expected_stamp in self._stamps.items():
            if read_stamp(path) != expected_stamp:
                raise DataError(
                    f"{path.name}: was written to after it was cut into parts, or is "
                    "another one on a worker; every worker must see the same "
                    f"{path}, and nothing may write to it during a run"
                )


def read_stamp(path: Path) -> Stamp:
    """Returns the size of a file or folder, and when it was last written.

    Raises:
        DataError: if it cannot be read.
    """
    try:
        file = read_status(path)
    except OSError as error:
        raise unreadable_error(path, error) from None
    return file.size, file.modified


def split_file(file: FilePart, part_bytes: int) -> Iterator[tuple[FilePart, Stamp]]:
    """Cuts a file into parts.

    Args:
        file: The file, or a part of it.
        part_bytes: About how many bytes a part has.

    Yields:
        The parts in the order of their records, by absolute paths, each with the stamp
        of the file.
    """
    whole = replace(file, path=absolute_path(file.path))
    # Taken before the file is cut: if it is written to meanwhile, readers of the parts
    # see another stamp and refuse.
    file_stamp = read_stamp(whole.path)
    for part in _cached_parts(whole, part_bytes, file_stamp):
        yield part, file_stamp


@lru_cache(maxsize=4096)
def _cached_parts(file: FilePart, part_bytes: int, _stamp: Stamp) -> Sequence[FilePart]:
    """Returns the parts of a file; remembered for the later rounds of a run.

    The stamp belongs to the key of the cache, so that a file that was written to is cut
    again.
    """
    return tuple(file.split_into_parts(part_bytes))


@dataclass(frozen=True)
class ParquetFile:
    """A Parquet file, or some row groups of it.

    Attributes:
        path: The file.
        row_groups: The first row group of the part and the one behind its last; None
            for all of the file.
        rows_before: Number of records of the file that stand before the part.
        has_types: True: columns have types, and names that somebody chose.
    """

    path: Path
    row_groups: tuple[int, int] | None = None
    rows_before: int = 0
    has_types = True

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Returns name and type of each column, from the metadata of the file."""
        with suppress(pa.ArrowException, OSError):
            schema = pq.read_schema(arrow_file(self.path))
            return [(field.name.strip(TEXT_PADDING), field.type) for field in schema]
        raise self._damaged_error()

    def estimate_record_count(self) -> int:
        """Returns the number of records, from the metadata of the file: it is exact."""
        return int(pq.read_metadata(arrow_file(self.path)).num_rows)

    def split_into_parts(self, part_bytes: int) -> Iterator[ParquetFile]:
        """Cuts the file into parts of whole row groups; reads its metadata alone.

        Row groups are added to a part until it would have more than `part_bytes`.

        Args:
            part_bytes: The most bytes of a part in memory. A larger row group is a
                part of its own.
        """
        groups: list[Any] | None = None
        with suppress(pa.ArrowException, OSError):
            metadata = pq.read_metadata(arrow_file(self.path))
            groups = [
                metadata.row_group(index) for index in range(metadata.num_row_groups)
            ]
        if groups is None:
            raise self._damaged_error()
        first_group = 0
        rows_before_part = 0
        rows_before_group = 0
        bytes_in_part = 0
        for index, group in enumerate(groups):
            is_full = bytes_in_part + group.total_byte_size > part_bytes
            if index > first_group and is_full:
                yield replace(
                    self,
                    row_groups=(first_group, index),
                    rows_before=rows_before_part,
                )
                first_group = index
                rows_before_part = rows_before_group
                bytes_in_part = 0
            rows_before_group += group.num_rows
            bytes_in_part += group.total_byte_size
        yield replace(
            self, row_groups=(first_group, len(groups)), rows_before=rows_before_part
        )

    def batches(
        self, names: Sequence[str], rows: int
    ) -> Iterator[Mapping[str, pa.Array]]:
        """Yields some columns, at most `rows` records at a time.

        Args:
            names: The columns.
            rows: The most records of a batch.

        Raises:
            DataError: if the file is damaged.
        """
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
                groups = None if self.row_groups is None else range(*self.row_groups)
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
        raise self._damaged_error()

    def locate(self, row: int) -> str:
        """Returns where a record stands, as `adult.parquet, record 7`, from 1."""
        return f"{self.name}, record {self.rows_before + row + 1}"

    def _damaged_error(self) -> DataError:
        """Returns the error of a file that Arrow cannot read; it quotes nothing."""
        return DataError(
            f"{self.name}: cannot be read as Parquet; it is empty, cut off or damaged: "
            "write or copy it again"
        )


@dataclass(frozen=True)
class WholeFile(ABC):
    """A file of another kind, which cannot be cut into parts.

    Attributes:
        path: The file.
        layout: What the schema says of the table.
        has_types: Whether columns have types or names that somebody chose, so that a
            message may quote these; else the first record may be in place of names.
        declares_types: Whether the file says which Arrow types its columns have.
    """

    path: Path
    layout: TextLayout = NO_LAYOUT
    has_types: ClassVar[bool]
    declares_types: ClassVar[bool]

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    @abstractmethod
    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Returns name and type of each column.

        Raises:
            DataError: if the file cannot be read.
        """

    @abstractmethod
    def batches(
        self, names: Sequence[str], rows: int
    ) -> Iterator[Mapping[str, pa.Array]]:
        """Yields some columns, at most `rows` records at a time, from the start.

        Raises:
            DataError: if the file cannot be read.
        """

    @abstractmethod
    def estimate_record_count(self) -> int | None:
        """Estimates the number of records; None if that takes reading all of them."""

    @abstractmethod
    def locate(self, row: int) -> str:
        """Returns where a record stands, for a message.

        Args:
            row: Number of the record, counted from 0.
        """

    def record_number(self, row: int) -> str:
        """Returns the name and the number of a record, as `a.feather, record 7`."""
        return f"{self.name}, record {row + 1}"

    def split_into_parts(self, part_bytes: int) -> Iterator[Self]:
        """Yields the file as its only part, however large it is."""
        yield self


class NumberedFile(WholeFile):
    """A file whose records are found by their number, since it has no lines."""

    def locate(self, row: int) -> str:
        """Returns the file name and the number of the record, counted from 1."""
        return self.record_number(row)
