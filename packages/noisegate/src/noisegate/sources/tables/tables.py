"""Private records, read from the start in every round and handed on encoded.

A `Source` reads its origins, files or a table in memory, batch by batch in constant
memory, and encodes each batch by its schema. It can also be divided, for several
threads or machines: into parts of files, or into shares that each take every n-th batch
or record. Whatever way is chosen, the same records are used, each once.

Messages name file and line. They show a value only where the caller allows it.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from noisegate.errors import DataError, OptionError, said
from noisegate.records import Rows
from noisegate.schema import Schema
from noisegate.schema.columns import Problem
from noisegate.schema.encode import Mask, encode
from noisegate.sources.headers import check_header, check_same_columns
from noisegate.sources.stores import (
    absolute,
    children,
    open_file,
    shown_path,
    status,
    unreadable,
)
from noisegate.sources.tables.csv_file import CsvFile
from noisegate.sources.tables.memory import TableInMemory, table_in_memory
from noisegate.sources.tables.parts import (
    PARQUET,
    FilePart,
    ParquetFile,
    Part,
    Stamp,
    file_parts,
    stamp,
)
from noisegate.sources.units import UnitCounter, UnitLimit, check_unit_column

# The first bytes of files that are often given in place of a table.
_ARCHIVES = {
    b"PK\x03\x04": "a ZIP archive or a spreadsheet",
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
}
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class RecordOrigin(Protocol):
    """Something that holds records: a file, a folder, or a table in memory."""

    @property
    def name(self) -> str:
        """What messages call it: the name of a file, or `DataFrame`."""
        ...

    def locate(self, row: int) -> str:
        """Returns where a record stands, as `adult.csv, line 7`; the first is row 0."""
        ...


Origin: TypeAlias = CsvFile | ParquetFile | TableInMemory
"""One file, or one table in memory. What cannot be read is a `DataError`."""


def files_of(origins: Sequence[RecordOrigin]) -> Sequence[FilePart]:
    """Returns the files among origins, if all are files.

    Raises:
        OptionError: if one is a table in memory, of which no parts can be read apart.
    """
    files: list[FilePart] = []
    for origin in origins:
        if not isinstance(origin, CsvFile | ParquetFile):
            raise OptionError(
                f"{origin.name}: only CSV and Parquet files are read in parts, and this "
                "is a table in memory; write it to Parquet and give the path, or leave "
                "the engine out"
            )
        files.append(origin)
    return files


def open_origins(
    source: str | Path | Any, names: Sequence[str] | None = None
) -> tuple[str, list[Origin]]:
    """Finds the origins of a table.

    Args:
        source: A path, or a table in memory; see `find_files` and `table_in_memory`.
        names: The columns that are expected.

    Returns:
        What messages call the table, and its origins.
    """
    if isinstance(source, str | Path):
        return Path(source).name or str(source), find_files(Path(source))
    table = table_in_memory(source, names)
    return table.name, [table]


def find_files(path: Path) -> list[Origin]:
    """Returns the file at a path, or the tables directly in a folder, by name.

    Raises:
        DataError: if there is none, or it is of another kind.
    """
    try:
        if is_folder(path):
            return _files_in_folder(path)
        return [_file(path)]
    except OSError as error:
        raise unreadable(path, error) from None


def is_folder(path: Path) -> bool:
    """Returns whether data at a path is a folder, and not a plain file.

    Raises:
        DataError: if it is neither, or the path is empty.
        OSError: if there is nothing.
    """
    # Path("") is Path(".").
    if not str(path).strip() or path == Path():
        raise DataError(
            f"{str(path)!r}: an empty path, or the current folder, whose tables may be "
            "of many kinds; give the name of the file or folder that holds the records"
        )
    entry = None
    # A path with a NUL in it.
    with suppress(ValueError):
        entry = status(path)
    if entry is None or not (entry.is_folder or entry.is_file):
        raise DataError(
            f"{str(path)!r}: is not a regular file or folder; records are read several "
            "times, so a pipe, a device or a socket cannot be read: write the records "
            "to a file first"
        )
    return entry.is_folder


def _files_in_folder(path: Path) -> list[Origin]:
    """Returns the tables in a folder: all CSV, or all Parquet."""
    entries = [
        entry for entry in children(path) if not entry.name.startswith((".", "_"))
    ]
    for entry in entries:
        if status(entry).is_folder:
            raise DataError(
                f"{shown_path(path)}: holds the folder {entry.name!r}, which would not "
                "be read; put all files in one folder"
            )
    csv_files = [entry for entry in entries if entry.suffix.lower() == ".csv"]
    parquet_files = [entry for entry in entries if entry.suffix.lower() in PARQUET]
    if csv_files and parquet_files:
        raise DataError(
            f"{shown_path(path)}: holds both CSV and Parquet files, which may be the "
            "same records; keep one kind"
        )
    if not csv_files and not parquet_files:
        raise DataError(
            f"{shown_path(path)}: the folder holds no file named *.csv or *.parquet; "
            "check the path"
        )
    # None is a folder by now, but one may be a pipe, which `is_folder` refuses.
    return [_file(file) for file in csv_files or parquet_files if not is_folder(file)]


def _file(path: Path) -> Origin:
    """Recognises a CSV or Parquet file by its first bytes and its name."""
    with open_file(path) as stream:
        start = stream.read(4)
    if start == b"PAR1" or path.suffix.lower() in PARQUET:
        return ParquetFile(path)
    for first_bytes, what in _ARCHIVES.items():
        if start.startswith(first_bytes):
            raise DataError(
                f"{path.name}: is {what}; expected CSV or Parquet: unpack it or save it "
                "as one of these"
            )
    if start.startswith(_UTF_16_MARKS):
        raise DataError(
            f"{path.name}: the text is in UTF-16; save the file as CSV in UTF-8"
        )
    return CsvFile(path)


def not_shown() -> str:
    """Returns why a private value is not in a message, and how to see it."""
    return f"not shown; {said('show_values')} shows it"


_T = TypeVar("_T")


def with_location(
    read: Callable[[], _T],
    origin: RecordOrigin,
    rows_before: int = 0,
    *,
    show_values: bool,
) -> _T:
    """Calls a function on a batch; makes of its `Problem` an error with file and line.

    Args:
        read: The function. Its `Problem` counts records from the start of the batch.
        origin: Where the batch comes from.
        rows_before: Number of records of the origin before the batch.
        show_values: Whether the message may quote the cell.

    Raises:
        DataError: raised outside the handler, since the problem holds the cell and must
            not travel along as the context of the error.
    """
    try:
        return read()
    except Problem as problem:
        row = problem.row
        description = problem.message
        value = problem.value
    shown = repr(value) if show_values else f"another value ({not_shown()})"
    where = origin.name if row is None else origin.locate(rows_before + row)
    raise DataError(f"{where}, {description.replace('{found}', shown)}")


# Files that are asked for the number of their records; more would take long in a store.
_MAX_ASKED = 8

_Origin = TypeVar("_Origin", bound=RecordOrigin)


class Source(ABC, Generic[_Origin]):
    """Private records in some origins, read as often as the gate has rounds.

    Attributes:
        schema: What the records fit.
        name: What messages call them: a file or folder, or `DataFrame`.
        batch_rows: Number of records in each batch but the last.
        in_parts: Whether records are weighted, and count in parts.
        links: Of linked tables, the names of the children's tables; each is asked by
            itself.
    """

    in_parts: ClassVar[bool] = False
    links: ClassVar[tuple[str, ...]] = ()

    # What the error of a source without records says; empty where it may have none.
    _empty = "there are no records, only column names; expected at least one record"

    def __init__(
        self,
        schema: Schema,
        *,
        show_values: bool,
        batch_rows: int,
        units: UnitLimit | None,
    ) -> None:
        if batch_rows < 1:
            raise OptionError(f"batch_rows must be at least 1, found {batch_rows}")
        if units is not None and units.column in schema.names:
            raise OptionError(
                f"unit_column={units.column!r} is described in the schema, so synthetic "
                "records would copy it; take it out of the schema. The data may have "
                "it all the same."
            )
        self.schema = schema
        self.batch_rows = batch_rows
        self.name: str
        self._show_values = show_values
        self._units = units
        self._origins: Sequence[_Origin]
        # This source takes the batches whose number leaves the remainder `first` when
        # divided by `second`; and of each the records whose position does likewise.
        self._share = (0, 1)
        self._thinned = (0, 1)

    @abstractmethod
    def check(self) -> None:
        """Checks all that can be checked without reading a record.

        Raises:
            DataError: for what does not fit the schema.
        """

    @abstractmethod
    def _pieces(self, origin: _Origin) -> Iterator[tuple[Any, int, pa.Array | None]]:
        """Reads an origin.

        Yields:
            A piece of records as they are kept, how many they are, and the unit of
            each where units are limited.
        """

    @abstractmethod
    def _encoded(
        self, piece: Any, used: Mask | None, origin: _Origin, done: int
    ) -> Rows:
        """Encodes the records of a piece that are used.

        Args:
            piece: As `_pieces` yielded it.
            used: Which records, (rows,); None for all.
            origin: Where it comes from.
            done: Number of records of the origin before the piece.
        """

    @abstractmethod
    def parts(self, size: int, shares: int) -> Iterator[Part]:
        """Divides all records for several readers.

        Args:
            size: Of a part of a file, about, in bytes.
            shares: How many shares of batches there are, where files cannot be cut.
        """

    @abstractmethod
    def check_parts(self) -> None:
        """Refuses records of which no parts can be read apart, by an `OptionError`."""

    @abstractmethod
    def _anywhere(self) -> tuple[Self, Mapping[Path, Stamp]]:
        """Returns all records as another process can open them, with files' stamps."""

    def shares(self, shares: int, *, thinned: bool = False) -> Iterator[Part]:
        """Divides all records into shares that walk through all files.

        Args:
            shares: How many there are.
            thinned: Whether each takes every n-th record of a batch, and not every
                n-th batch.
        """
        whole, stamps = self._anywhere()
        for number in range(shares):
            records = copy(whole)
            # A share without records is not wrong.
            records._empty = ""
            if thinned:
                records._thinned = (number, shares)
            else:
                records._share = (number, shares)
            yield Part(records, stamps)

    def about(self) -> int | None:
        """Estimates the number of records, to two digits. It is private.

        Returns:
            None if the first files do not say.
        """
        first_origins = self._origins[:_MAX_ASKED]
        files = [
            origin
            for origin in first_origins
            if isinstance(origin, CsvFile | ParquetFile)
        ]
        if not files or len(files) < len(first_origins):
            return None
        with suppress(pa.ArrowException, OSError):
            counted = sum(file.about() for file in files)
            estimate = counted * len(self._origins) // len(files)
            return int(float(f"{estimate:.1e}"))
        return None

    def batches(self) -> Iterator[Rows]:
        """Yields the records in order, `batch_rows` at a time, in constant memory."""
        waiting: list[Rows] = []
        for read in self.unread():
            waiting.append(read().row_by_row())
            row_count = sum(map(len, waiting))
            if row_count < self.batch_rows:
                continue
            records = Rows.concatenate(waiting)
            full = row_count - row_count % self.batch_rows
            for start in range(0, full, self.batch_rows):
                yield records.rows(slice(start, start + self.batch_rows))
            waiting = [records.rows(slice(full, None))]
        if any(map(len, waiting)):
            yield Rows.concatenate(waiting)

    def unread(self) -> Iterator[Callable[[], Rows]]:
        """Yields functions that encode some records each, at most `batch_rows`.

        They may be called in any thread. Reading and the count of units stay here, in
        the order of the data.
        """
        self.check()
        counter = None
        if self._units is not None:
            counter = UnitCounter(self._units, self.schema.missing_values)
        row_count = 0
        batches = itertools.count()
        share, shares = self._share
        for origin in self._origins:
            done = 0
            for piece, rows, units in self._pieces(origin):
                within_limit = None
                if counter is not None:
                    count = partial(counter.used, units)
                    within_limit = with_location(count, origin, done, show_values=False)
                used = self._kept(within_limit, rows)
                if next(batches) % shares == share:
                    yield partial(self._encoded, piece, used, origin, done)
                done += rows
            row_count += done
        if not row_count and self._empty:
            raise self.no_records()

    def _kept(self, used: Mask | None, rows: int) -> Mask | None:
        """Returns which records of a batch this share uses.

        Args:
            used: Which are used by any share, (rows,); None for all.
            rows: Number of records in the batch.
        """
        first, step = self._thinned
        if step == 1:
            return used
        own: Mask = np.arange(rows) % step == first
        return own if used is None else own & used

    def allow_no_records(self) -> None:
        """Lets this source have no records, which is an error otherwise."""
        self._empty = ""

    def no_records(self) -> DataError:
        """Returns the error of a source that holds no record."""
        return DataError(f"{self.name}: {self._empty}")


class TableSource(Source[Origin]):
    """Private records in a CSV or Parquet file, a folder of either, or in memory."""

    def __init__(
        self,
        source: str | Path | Any,
        schema: Schema,
        *,
        show_values: bool = False,
        batch_rows: int = 32768,
        units: UnitLimit | None = None,
    ) -> None:
        """Opens a table; nothing of it is read yet.

        Args:
            source: A path, or a table in memory.
            schema: What is public of the records.
            show_values: Whether messages may quote private values.
            batch_rows: Number of records in a batch.
            units: Whose record each one is, and how many of each are used; None to use
                all.

        Raises:
            DataError: if there is no such table.
            OptionError: for options that do not fit.
        """
        super().__init__(
            schema, show_values=show_values, batch_rows=batch_rows, units=units
        )
        self.name, self._origins = open_origins(source, schema.names)

    def check(self) -> None:
        """Checks names and types of the columns; no record is read."""
        headers = []
        for origin in self._origins:
            columns = origin.columns()
            names = [name for name, _ in columns]
            headers.append((origin.name, names))
            if self._units is not None:
                check_unit_column(self._units.column, columns, origin.name)
                names = [name for name in names if name != self._units.column]
            if names != list(self.schema.names):
                # The names of a table with types were chosen by somebody; the first
                # line of a CSV file may be a record.
                show_names = origin.typed or self._show_values
                check_header(names, self.schema, origin.name, show_names=show_names)
            # Encoding no records tells whether each type fits its column.
            types = {
                name: arrow_type.value_type
                if pt.is_dictionary(arrow_type)
                else arrow_type
                for name, arrow_type in columns
            }
            empty = {name: pa.array([], types[name]) for name in self.schema.names}
            encode_none = partial(encode, empty, self.schema)
            with_location(encode_none, origin, show_values=False)
        if len(headers) > 1:
            # Each name is public by now: described, ignored, or the unit's.
            check_same_columns(headers, show_names=True)

    def check_parts(self) -> None:
        """Refuses a table in memory."""
        files_of(self._origins)

    def parts(self, size: int, shares: int = 1) -> Iterator[Part]:
        """Cuts the files into parts, in order; with limited units, into shares.

        All bytes of CSV files are read for it. The records of a unit may stand in
        several files, so whoever counts them must see all.
        """
        files = files_of(self._origins)
        self.check()
        if self._units is not None:
            yield from self.shares(shares)
            return
        for file in files:
            for part, file_stamp in file_parts(file, size):
                records = copy(self)
                records._origins = [part]
                # A part without records is not wrong.
                records._empty = ""
                yield Part(records, {part.path: file_stamp})

    def _anywhere(self) -> tuple[Self, Mapping[Path, Stamp]]:
        """Returns all records by absolute paths, with the stamp of each file."""
        files = [
            replace(file, path=absolute(file.path)) for file in files_of(self._origins)
        ]
        whole = copy(self)
        whole._origins = files
        return whole, {file.path: stamp(file.path) for file in files}

    def _pieces(
        self, origin: Origin
    ) -> Iterator[tuple[Mapping[str, pa.Array], int, pa.Array | None]]:
        names = list(self.schema.names)
        if self._units is not None:
            names.append(self._units.column)
        for columns in origin.batches(names, self.batch_rows):
            rows = len(next(iter(columns.values())))
            units = None if self._units is None else columns[self._units.column]
            yield columns, rows, units

    def _encoded(
        self,
        piece: Mapping[str, pa.Array],
        used: Mask | None,
        origin: Origin,
        done: int,
    ) -> Rows:
        encode_piece = partial(encode, piece, self.schema)
        records = with_location(
            encode_piece, origin, done, show_values=self._show_values
        )
        if used is None or used.all():
            return records
        return records.rows(used)
