"""Private records, read once through in constant memory and handed on encoded; and tables in files and in memory."""

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
from noisegate.sources.headers import check_alike, check_header
from noisegate.sources.stores import (
    absolute,
    children,
    opened,
    place_of,
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

_PACKED = {
    b"PK\x03\x04": "a ZIP archive or a spreadsheet",
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
}
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


Origin: TypeAlias = CsvFile | ParquetFile | TableInMemory
"""One file, or one table in memory; what cannot be read is a `DataError`."""


def files_of(origins: Sequence[Placed]) -> Sequence[FilePart]:
    """Returns files, of which parts can be read apart; `OptionError` if one is a table in memory."""
    files = [origin for origin in origins if isinstance(origin, CsvFile | ParquetFile)]
    if len(files) < len(origins):
        other = next(origin for origin in origins if origin not in files)
        says = f"{other.name}: only CSV and Parquet files are read in parts, and this is a table in memory"
        raise OptionError(
            f"{says}; write it to Parquet and give the path, or leave the engine out"
        )
    return files


def open_origins(
    source: str | Path | Any, names: Sequence[str] | None = None
) -> tuple[str, list[Origin]]:
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
        says = f"{str(path)!r}: an empty path, or the current folder, whose tables may be of many kinds"
        raise DataError(
            f"{says}; give the name of the file or folder that holds the records"
        )
    try:
        found = status(path)
    except ValueError:  # a NUL in it
        found = None
    if found is None or not (found.folder or found.plain):
        raise DataError(
            f"{str(path)!r}: is not a regular file or folder; records are read several times, so a pipe, a device or a "
            "socket cannot be read: write the records to a file first"
        )
    return found.folder


def _folder(path: Path) -> list[Origin]:
    entries = [
        entry for entry in children(path) if not entry.name.startswith((".", "_"))
    ]
    nested = next((entry for entry in entries if status(entry).folder), None)
    if nested is not None:
        cure = "put all files in one folder"
        raise DataError(
            f"{place_of(path)}: holds the folder {nested.name!r}, which would not be read; {cure}"
        )
    csv, parquet = (
        [entry for entry in entries if entry.suffix.lower() in endings]
        for endings in ((".csv",), PARQUET)
    )
    if csv and parquet:
        cure = "keep one kind"
        raise DataError(
            f"{place_of(path)}: holds both CSV and Parquet files, which may be the same records; {cure}"
        )
    if not csv and not parquet:
        raise DataError(
            f"{place_of(path)}: the folder holds no file named *.csv or *.parquet; check the path"
        )
    return [
        _file(entry) for entry in csv or parquet if not is_folder(entry)
    ]  # none is, but one may be a pipe


def _file(path: Path) -> Origin:
    with opened(path) as stream:
        start = stream.read(4)
    if start == b"PAR1" or path.suffix.lower() in PARQUET:
        return ParquetFile(path)
    for magic, what in _PACKED.items():
        if start.startswith(magic):
            raise DataError(
                f"{path.name}: is {what}; expected CSV or Parquet: unpack it or save it as one of these"
            )
    if start.startswith(_UTF_16):
        raise DataError(
            f"{path.name}: the text is in UTF-16; save the file as CSV in UTF-8"
        )
    return CsvFile(path)


def not_shown() -> str:
    """Returns why a private value is not in a message, and how to see it."""
    return f"not shown; {said('show_values')} shows it"


_ASKED = 8  # files, for how many records they hold; more would take long in a store
_T = TypeVar("_T")


def told(
    read: Callable[[], _T], origin: Placed, done: int = 0, *, show_values: bool
) -> _T:
    """Returns what ``read`` does; ``done`` records of the origin stand before its batch."""
    try:
        return read()
    except Problem as problem:
        row, says, value = problem.row, problem.says, problem.value
    found = repr(value) if show_values else f"another value ({not_shown()})"
    # Outside the handlers: a problem, which holds the cell, must not travel along as the context of the error.
    raise DataError(
        f"{origin.name if row is None else origin.place(done + row)}, {says.replace('{found}', found)}"
    )


_Origin = TypeVar("_Origin", bound=Placed)


class Source(ABC, Generic[_Origin]):
    """Private records in some origins, read as often as the gate has rounds.

    They fit the ``schema``. Messages call them by ``name``, that of a file or folder, or ``DataFrame``. There are
    ``batch_rows`` records in each batch but the last. Records may be weighted and count ``in_parts``; ``links`` are
    those of linked tables, by the names of their children's tables, and each is asked by itself.
    """

    in_parts: ClassVar[bool] = False
    links: ClassVar[tuple[str, ...]] = ()

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
            says = f"unit_column={units.column!r} is described in the schema, so synthetic records would copy it"
            raise OptionError(
                f"{says}; take it out of the schema. The data may have it all the same."
            )
        self.schema, self.batch_rows, self._show_values, self._units = (
            schema,
            batch_rows,
            show_values,
            units,
        )
        self.name: str
        self._origins: Sequence[_Origin]
        self._share = (
            0,
            1,
        )  # which of how many parts this is, of which each has every n-th batch
        self._thinned = (0, 1)  # or every n-th record of each batch

    @abstractmethod
    def check(self) -> None:
        """Checks all that can be checked without reading a record; what does not fit the schema is a `DataError`."""

    @abstractmethod
    def _pieces(self, origin: _Origin) -> Iterator[tuple[Any, int, pa.Array | None]]:
        """Yields records as they are kept, how many they are, and their units where these are asked for."""

    @abstractmethod
    def _encoded(
        self, piece: Any, used: Mask | None, origin: _Origin, done: int
    ) -> Rows:
        """Returns the records of a piece that are used; ``done`` records of the origin stand before it."""

    @abstractmethod
    def parts(self, size: int, shares: int) -> Iterator[Part]:
        """Yields parts that hold all records once: files cut at about ``size`` bytes, or ``shares`` of batches."""

    @abstractmethod
    def check_parts(self) -> None:
        """Refuses records of which no parts can be read apart, by an `OptionError`."""

    @abstractmethod
    def _anywhere(self) -> tuple[Self, Mapping[Path, Stamp]]:
        """Returns all records as another process can open them, and what their files look like."""

    def shares(self, shares: int, *, thinned: bool = False) -> Iterator[Part]:
        """Yields parts that walk through all files: each every n-th batch, or, ``thinned``, record of each batch."""
        whole, stamps = self._anywhere()
        for number in range(shares):
            records = copy(whole)
            records._empty = ""
            if thinned:
                records._thinned = (number, shares)
            else:
                records._share = (number, shares)
            yield Part(records, stamps)

    def about(self) -> int | None:
        """Returns about how many records files hold, to two digits; private; None if the first files do not say."""
        files = [
            origin
            for origin in self._origins[:_ASKED]
            if isinstance(origin, CsvFile | ParquetFile)
        ]
        if not files or len(files) < len(self._origins[:_ASKED]):
            return None
        with suppress(pa.ArrowException, OSError):
            number = (
                sum(file.about() for file in files) * len(self._origins) // len(files)
            )
            return int(float(f"{number:.1e}"))
        return None

    def batches(self) -> Iterator[Rows]:
        """Yields the records in order, ``batch_rows`` at a time, in constant memory."""
        waiting: list[Rows] = []
        for read in self.unread():
            waiting.append(read().row_by_row())
            rows = sum(map(len, waiting))
            if rows >= self.batch_rows:
                table, cut = Rows.concatenate(waiting), rows - rows % self.batch_rows
                for start in range(0, cut, self.batch_rows):
                    yield table.rows(slice(start, start + self.batch_rows))
                waiting = [table.rows(slice(cut, None))]
        if any(map(len, waiting)):
            yield Rows.concatenate(waiting)

    def unread(self) -> Iterator[Callable[[], Rows]]:
        """Yields functions that encode at most ``batch_rows`` records each, to be called in any thread."""
        self.check()
        counter = (
            None
            if self._units is None
            else UnitCounter(self._units, self.schema.missing_values)
        )
        seen, batches = 0, itertools.count()
        share, shares = self._share
        for origin in self._origins:
            done = 0
            for piece, rows, units in self._pieces(origin):
                # Units are counted here, one batch after the other.
                count = None if counter is None else partial(counter.used, units)
                used = self._kept(
                    None
                    if count is None
                    else told(count, origin, done, show_values=False),
                    rows,
                )
                if next(batches) % shares == share:
                    yield partial(self._encoded, piece, used, origin, done)
                done += rows
            seen += done
        if not seen and self._empty:
            raise self.no_records()

    def _kept(self, used: Mask | None, rows: int) -> Mask | None:
        """Returns which records of a batch are used here, of those that are used anywhere; None for all."""
        first, step = self._thinned
        if step == 1:
            return used
        own: Mask = np.arange(rows) % step == first
        return own if used is None else own & used

    def no_records(self) -> DataError:
        """Returns the error of a source that holds no record."""
        return DataError(f"{self.name}: {self._empty}")


class TableSource(Source[Origin]):
    """Private records in a CSV or Parquet file, a folder of either, or in memory; nothing of it is read yet.

    Messages may quote private values where `show_values` says so; ``units`` says whose record each one is, and how many
    of each are used, None to use all. A DataError if there is no such table, an OptionError for options that do not
    fit.
    """

    def __init__(
        self,
        source: str | Path | Any,
        schema: Schema,
        *,
        show_values: bool = False,
        batch_rows: int = 32768,
        units: UnitLimit | None = None,
    ) -> None:
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
                check_header(
                    names,
                    self.schema,
                    origin.name,
                    show_names=origin.typed or self._show_values,
                )
            kinds = {
                name: kind.value_type if pt.is_dictionary(kind) else kind
                for name, kind in columns
            }
            empty = {name: pa.array([], kinds[name]) for name in self.schema.names}
            told(partial(encode, empty, self.schema), origin, show_values=False)
        if len(headers) > 1:
            check_alike(
                headers, show_names=True
            )  # each is in the schema by now: described, ignored, or the unit

    def check_parts(self) -> None:
        """Refuses a table in memory."""
        files_of(self._origins)

    def parts(self, size: int, shares: int = 1) -> Iterator[Part]:
        """Yields parts of the files, in order, for which all bytes of CSV files are read; of units, shares."""
        files = files_of(self._origins)
        self.check()
        if self._units is not None:
            yield from self.shares(shares)
            return
        for file in files:
            for part, known in file_parts(file, size):
                records = copy(self)
                records._origins, records._empty = (
                    [part],
                    "",
                )  # a part without records is none of its own business
                yield Part(records, {part.path: known})

    def _anywhere(self) -> tuple[Self, Mapping[Path, Stamp]]:
        whole = copy(self)
        whole._origins = files = [
            replace(file, path=absolute(file.path)) for file in files_of(self._origins)
        ]
        return whole, {file.path: stamp(file.path) for file in files}

    def _pieces(
        self, origin: Origin
    ) -> Iterator[tuple[Mapping[str, pa.Array], int, pa.Array | None]]:
        unit = () if self._units is None else (self._units.column,)
        for arrays in origin.batches((*self.schema.names, *unit), self.batch_rows):
            yield (
                arrays,
                len(next(iter(arrays.values()))),
                arrays[unit[0]] if unit else None,
            )

    def _encoded(
        self,
        piece: Mapping[str, pa.Array],
        used: Mask | None,
        origin: Origin,
        done: int,
    ) -> Rows:
        records = told(
            partial(encode, piece, self.schema),
            origin,
            done,
            show_values=self._show_values,
        )
        return records if used is None or used.all() else records.rows(used)
