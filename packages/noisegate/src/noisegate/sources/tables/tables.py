"""Private records, read from the start in every round and passed on encoded.

A `Source` reads its origins, files or a table in memory, batch by batch in constant
memory, and encodes each batch by its schema::

    origins ──► RawBatch ──► which records are used ──► reader ──► encoded records
                (in order)   (units counted in order)   (in any thread)

For several threads or machines a source is divided, in one of two ways:

- *parts* are pieces of files: each reader opens its own piece;
- *shares* all walk through all files, and each takes every n-th batch, or every n-th
  record of each batch.

Whatever way is chosen, the same records are used, each once.

Messages name file and line. They show a value only where the caller allows it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from noisegate.atomic import shown_path
from noisegate.errors import DataError, OptionError, said
from noisegate.records import Rows
from noisegate.schema import Schema
from noisegate.schema.columns import Problem
from noisegate.schema.encode import encode
from noisegate.schema.file_form import UTF_8, FileForm
from noisegate.schema.parsing import Mask
from noisegate.sources.headers import check_header, check_same_columns
from noisegate.sources.stores import (
    Status,
    absolute_path,
    in_database,
    list_children,
    open_file,
    read_status,
    unreadable_error,
)
from noisegate.sources.tables.csv_file import NO_LAYOUT, CsvFile, TextLayout
from noisegate.sources.tables.memory import TableInMemory, table_in_memory
from noisegate.sources.tables.parts import (
    PARQUET,
    FilePart,
    ParquetFile,
    Part,
    Stamp,
    WholeFile,
    read_stamp,
    split_file,
)
from noisegate.sources.tables.text_stream import Packing, name_of_only_file
from noisegate.sources.units import UnitCounter, UnitLimit, check_unit_column

# The first bytes of files that are often given in place of a table.
_ARCHIVES = {
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"(\xb5/\xfd": "a Zstandard archive",
}
_MAGIC_BYTES = 8
# The first of these begins an archive with files, the other an empty one.
_ZIP_MARKS = (b"PK\x03\x04", b"PK\x05\x06")

JSON_LINES = (".jsonl", ".ndjson")
"""Endings of the names of files with a JSON object on each line."""
ARROW_FILES = (".arrow", ".feather", ".ipc")
"""Endings of the names of files of Arrow."""
SPREADSHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
"""Endings of the names of workbooks."""
STATISTICS_FILES = (".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt")
"""Endings of the names of files of SPSS, Stata and SAS."""
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")

ANY_TEXT = TextLayout(form=FileForm(encoding="latin-1"))
"""An encoding that takes all bytes, for files that are found and not yet read."""


class RecordOrigin(Protocol):
    """Something that holds records: a file, a folder, or a table in memory."""

    @property
    def name(self) -> str:
        """What messages call it: the name of a file, or `DataFrame`."""
        ...

    def locate(self, row: int) -> str:
        """Returns where a record stands, as `adult.csv, line 7`; the first is row 0."""
        ...


Origin: TypeAlias = CsvFile | ParquetFile | WholeFile | TableInMemory
"""One file, or one table in memory. What cannot be read is a `DataError`."""


def require_files(origins: Sequence[RecordOrigin]) -> Sequence[FilePart]:
    """Requires that all origins are files, and returns them.

    Raises:
        OptionError: if one is a table in memory, which another process cannot open, or
            of a server, which may hand out its records in another order there.
    """
    files: list[FilePart] = []
    for origin in origins:
        if not isinstance(origin, CsvFile | ParquetFile | WholeFile):
            raise OptionError(
                f"{origin.name}: only files are read in parts, and this is a table in "
                "memory or of a server; write it to Parquet and give the path, or leave "
                "the engine out"
            )
        files.append(origin)
    return files


def open_origins(
    source: str | Path | Any,
    names: Sequence[str] | None = None,
    layout: TextLayout = NO_LAYOUT,
) -> tuple[str, list[Origin]]:
    """Finds the origins of a table.

    Args:
        source: A path, or a table in memory; see `find_files` and `table_in_memory`.
        names: The columns that are expected.
        layout: What the schema says of text files.

    Returns:
        What messages call the table, and its origins.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        origins = find_files(path, layout)
        # An address may hold a password.
        name = origins[0].name if in_database(path) else path.name
        return name or str(source), origins
    table = table_in_memory(source, names)
    return table.name, [table]


def table_name(path: Path) -> str:
    """Returns what a table is called by its path, such as `visits` of visits.csv."""
    if in_database(path):
        from noisegate.sources.tables.addresses import table_of_address

        return table_of_address(path)
    return path.stem


def find_files(path: Path, layout: TextLayout = NO_LAYOUT) -> list[Origin]:
    """Returns the file at a path, or the tables directly in a folder, sorted by name.

    Args:
        path: A file or folder, or the address of a table in a database.
        layout: What the schema says of text files.

    Raises:
        DataError: if there is none, or it is of another kind.
    """
    try:
        if in_database(path):
            return [_open_database_table(path)]
        if is_folder(path):
            return _open_files_in_folder(path, layout)
        return [_open_file(path, layout)]
    except OSError as error:
        raise unreadable_error(path, error) from None


def _open_database_table(path: Path) -> Origin:
    """Opens the table in a database that an address names.

    Each kind has its file, which is imported where there is one of it.

    Raises:
        DataError: if there is no such table, or its database cannot be opened.
    """
    from noisegate.sources.tables.addresses import (
        parse_file_address,
        parse_server_address,
    )

    kind = path.parts[0]
    if kind == "duckdb:":
        from noisegate.sources.tables.duckdb_file import DuckDbTable

        file, table = parse_file_address(path)
        return DuckDbTable(file, table=table)
    if kind == "sqlite:":
        from noisegate.sources.tables.sqlite_file import SQLiteTable

        file, table = parse_file_address(path)
        return SQLiteTable(file, table=table)
    from noisegate.sources.tables.server_table import open_server_table

    return open_server_table(parse_server_address(path))


def is_folder(path: Path) -> bool:
    """Returns whether a path is a folder (True) or a regular file (False).

    Raises:
        DataError: if it is neither, or the path is empty.
        OSError: if there is nothing at the path.
    """
    return require_file_or_folder(path).is_folder


def require_file_or_folder(path: Path) -> Status:
    """Requires that a path leads to a regular file or a folder.

    Every round reads the records from the start again, which a pipe, a device or a
    socket does not allow.

    Returns:
        The status of the file or folder.

    Raises:
        DataError: if it is neither, or the path is empty or the current folder.
        OSError: if there is nothing at the path.
    """
    # Path("") equals Path("."), so an empty path would be the current folder.
    if not str(path).strip() or path == Path():
        raise DataError(
            f"{str(path)!r}: an empty path, or the current folder, whose tables may be "
            "of many kinds; give the name of the file or folder that holds the records"
        )
    path_status = None
    # The operating system refuses a path with a NUL character by a ValueError.
    with suppress(ValueError):
        path_status = read_status(path)
    if path_status is None or not (path_status.is_folder or path_status.is_file):
        raise DataError(
            f"{str(path)!r}: is not a regular file or folder; records are read several "
            "times, so a pipe, a device or a socket cannot be read: write the records "
            "to a file first"
        )
    return path_status


def _open_files_in_folder(path: Path, layout: TextLayout) -> list[Origin]:
    """Returns the tables in a folder, all of one kind: CSV, Parquet, or another.

    Raises:
        DataError: if the folder holds several kinds, none, or a folder.
        OSError: if a file cannot be read.
    """
    # Hidden files, and markers such as _SUCCESS, are no tables.
    entries = [
        entry for entry in list_children(path) if not entry.name.startswith((".", "_"))
    ]
    for entry in entries:
        if read_status(entry).is_folder:
            raise DataError(
                f"{shown_path(path)}: holds the folder {entry.name!r}, which would not "
                "be read; put all files in one folder"
            )
    files_by_kind: dict[str, list[Path]] = {}
    for entry in entries:
        kind = _kind_of_name(entry.name)
        if kind is not None:
            files_by_kind.setdefault(kind, []).append(entry)
    # Beside such files, those of other kinds are notes and code books.
    main_kinds: list[str] = [
        kind for kind in ("CSV", "Parquet") if kind in files_by_kind
    ]
    kinds = main_kinds or list(files_by_kind)
    if len(kinds) > 1:
        raise DataError(
            f"{shown_path(path)}: holds both {kinds[0]} and {kinds[1]} files, which may "
            "be the same records; keep one kind"
        )
    if not kinds:
        raise DataError(
            f"{shown_path(path)}: the folder holds no file named *.csv or *.parquet, "
            "nor of another kind that is read; check the path"
        )
    origins: list[Origin] = []
    for file in files_by_kind[kinds[0]]:
        # A pipe may have such a name.
        require_file_or_folder(file)
        origins.append(_open_file(file, layout))
    return origins


def _kind_of_name(name: str) -> str | None:
    """Returns the kind of a table in a folder by its name; None for no table."""
    ending = Path(name.lower().removesuffix(".gz")).suffix
    endings_of_kind = {
        "CSV": (".csv", ".tsv"),
        "Parquet": PARQUET,
        "JSON lines": JSON_LINES,
        "Arrow": ARROW_FILES,
        "workbook": SPREADSHEETS,
        "SPSS, Stata or SAS": STATISTICS_FILES,
    }
    return next(
        (kind for kind, endings in endings_of_kind.items() if ending in endings), None
    )


def _open_file(path: Path, layout: TextLayout) -> Origin:
    """Recognises a file by its first bytes and its name.

    Args:
        path: The file.
        layout: What the schema says of the table.

    Raises:
        DataError: for an archive that is not read, or text in UTF-16 where the schema
            does not say so.
        OSError: if the file cannot be read.
    """
    with open_file(path) as stream:
        first_bytes = stream.read(_MAGIC_BYTES)
    ending = path.suffix.lower()
    if first_bytes.startswith(b"PAR1") or ending in PARQUET:
        return ParquetFile(path)
    file = _open_other_file(path, ending, first_bytes, layout)
    return _open_text_file(path, first_bytes, layout) if file is None else file


def _open_other_file(
    path: Path, ending: str, first_bytes: bytes, layout: TextLayout
) -> WholeFile | None:
    """Recognises a file that is neither text nor Parquet.

    Each kind has its file, which is imported where there is one of it.

    Args:
        path: The file.
        ending: That of its name, in lower case.
        first_bytes: With which it begins.
        layout: What the schema says of the table.

    Returns:
        The file; None for another kind.
    """
    if first_bytes.startswith(b"ARROW1") or ending in ARROW_FILES:
        from noisegate.sources.tables.arrow_ipc import ArrowFile

        return ArrowFile(path, layout)
    if ending in SPREADSHEETS:
        from noisegate.sources.tables.spreadsheet import Spreadsheet

        return Spreadsheet(path, layout)
    if ending in STATISTICS_FILES:
        from noisegate.sources.tables.statistics_file import StatisticsFile

        return StatisticsFile(path, layout)
    return None


def _open_text_file(path: Path, first_bytes: bytes, layout: TextLayout) -> Origin:
    """Opens a file of text, which may be packed.

    Args:
        path: The file.
        first_bytes: With which it begins.
        layout: What the schema says of the table.

    Raises:
        DataError: for an archive that is not read, or text in UTF-16 where the schema
            does not say so.
    """
    packing: Packing = ""
    ending = path.suffix.lower()
    if first_bytes.startswith(b"\x1f\x8b"):
        packing = "gzip"
        ending = path.with_suffix("").suffix.lower()
    elif first_bytes.startswith(_ZIP_MARKS):
        packing = "zip"
        ending = Path(name_of_only_file(path)).suffix.lower()
    for archive_mark, archive_kind in _ARCHIVES.items():
        if first_bytes.startswith(archive_mark):
            raise DataError(
                f"{path.name}: is {archive_kind}; expected CSV or Parquet: unpack it or "
                "save it as one of these"
            )
    is_packed_other = ending in (
        *PARQUET,
        *ARROW_FILES,
        *SPREADSHEETS,
        *STATISTICS_FILES,
    )
    if packing and is_packed_other:
        raise DataError(
            f"{path.name}: holds a file {ending}, which is read only where it is not "
            "packed; unpack it"
        )
    if ending in JSON_LINES:
        from noisegate.sources.tables.json_lines import JsonLinesFile

        return JsonLinesFile(path, layout, packing)
    file = CsvFile(path, layout=layout, packing=packing)
    is_utf_16 = first_bytes.startswith(_UTF_16_MARKS)
    if is_utf_16 and layout.form.encoding == UTF_8:
        raise DataError(
            f"{path.name}: the text is in UTF-16; save the file as CSV in "
            f"UTF-8{file.form_hint()}"
        )
    return file


@contextmanager
def with_form_hint(origin: RecordOrigin) -> Iterator[None]:
    """Adds to errors of the block which form of file the schema should state.

    Args:
        origin: What is read in the block.

    Raises:
        DataError: that of the block, with the lines for the schema behind it if the
            origin is a text file of another form.
    """
    try:
        yield
        return
    except DataError as error:
        message = str(error)
        hint = origin.form_hint() if isinstance(origin, CsvFile) else ""
        if not hint or hint in message:
            raise
    # Outside the handler, so that no value travels along as the context of the error.
    raise DataError(f"{message}{hint}")


def explain_hidden_value() -> str:
    """Returns why a private value is not in a message, and how to see it."""
    return f"not shown; {said('show_values')} shows it"


_T = TypeVar("_T")


def call_with_location(
    function: Callable[[], _T],
    origin: RecordOrigin,
    rows_before: int = 0,
    *,
    show_values: bool,
) -> _T:
    """Calls a function on a batch; makes of its `Problem` an error with file and line.

    Args:
        function: The function, without arguments. Its `Problem` counts records from
            the start of the batch.
        origin: Where the batch comes from.
        rows_before: Number of records of the origin before the batch.
        show_values: Whether the message may quote the cell.

    Returns:
        What the function returns.

    Raises:
        DataError: in place of the `Problem`. It is raised outside the handler: the
            problem holds the cell, which must not travel along as the context of the
            error.
    """
    try:
        return function()
    except Problem as problem:
        row = problem.row
        description = problem.message
        value = problem.value
    if show_values:
        shown_value = repr(value)
    else:
        shown_value = f"another value ({explain_hidden_value()})"
    location = origin.name if row is None else origin.locate(rows_before + row)
    raise DataError(f"{location}, {description.replace('{found}', shown_value)}")


def check_column_types(
    columns: Sequence[tuple[str, pa.DataType]], schema: Schema, origin: RecordOrigin
) -> None:
    """Requires that the type of each column in the schema can be encoded by it.

    Args:
        columns: Name and type of each column of the data.
        schema: What is expected; all its columns are in the data.
        origin: Where the columns stand, for messages.

    Raises:
        DataError: for the first type that does not fit.
    """
    types = dict(columns)
    # Encoding no records tells whether each type fits its column.
    no_cells = {name: pa.array([], _decoded_type(types[name])) for name in schema.names}
    encode_no_records = partial(encode, no_cells, schema)
    call_with_location(encode_no_records, origin, show_values=False)


def _decoded_type(arrow_type: pa.DataType) -> pa.DataType:
    """Returns the type of a column's values, also where a dictionary holds them."""
    return arrow_type.value_type if pt.is_dictionary(arrow_type) else arrow_type


@dataclass(frozen=True)
class RawBatch:
    """Records as they were read, before they are encoded.

    Attributes:
        records: What the source's `_encode` takes, such as columns by name.
        row_count: How many records they are.
        units: The privacy unit of each record, (rows,); None where units are not
            limited.
    """

    records: Any
    row_count: int
    units: pa.Array | None


@dataclass(frozen=True)
class _Share:
    """One of several equal shares: of numbered things, those n with n % count == index.

    Attributes:
        index: Which share, from 0.
        count: How many shares there are; 1 if one share has everything.
    """

    index: int = 0
    count: int = 1


# Only so many files are opened to estimate the number of records: more would take long
# in a store.
_MAX_ESTIMATED_FILES = 8

_Origin = TypeVar("_Origin", bound=RecordOrigin)


class Source(ABC, Generic[_Origin]):
    """Private records in some origins, read as often as the gate has rounds.

    A subclass sets `name` and `_origins`, and says how an origin is read
    (`_read_origin`) and how what was read is encoded (`_encode`).

    Attributes:
        schema: What the records fit.
        name: What messages call them: a file or folder, or `DataFrame`.
        batch_rows: Number of records in each batch but the last.
        is_weighted: Whether records have weights, as those of linked tables have: one
            record of a unit with several counts less.
        links: Of linked tables, the names of the children's tables; each is summed by
            itself.
        skipped: Number of records that the latest pass has left out so far, since they
            could not be used; private.
    """

    is_weighted: ClassVar[bool] = False
    links: ClassVar[tuple[str, ...]] = ()
    _NO_RECORDS: ClassVar[str] = (
        "there are no records, only column names; expected at least one record"
    )
    # The error of `batches` where no record was used; None to yield no batch then.
    _NONE_USED: ClassVar[str | None] = None

    name: str
    _origins: Sequence[_Origin]

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
        self._show_values = show_values
        self._units = units
        self._may_be_empty = False
        self.skipped = 0
        # The batches that are read, and of each batch the records that are used; all
        # of them until the source is split into shares.
        self._batch_share = _Share()
        self._record_share = _Share()

    @abstractmethod
    def check_against_schema(self) -> None:
        """Checks all that can be checked without reading a record.

        Raises:
            DataError: for what does not fit the schema.
        """

    @abstractmethod
    def _read_origin(self, origin: _Origin) -> Iterator[RawBatch]:
        """Yields the records of an origin in order, some at a time, not yet encoded."""

    @abstractmethod
    def _encode(
        self, records: Any, is_used: Mask | None, origin: _Origin, rows_before: int
    ) -> Rows:
        """Encodes the records of a batch that are used.

        Args:
            records: Those of a `RawBatch`.
            is_used: Which of them are used, (rows,); None for all.
            origin: Where they come from.
            rows_before: Number of records of the origin before the batch.

        Raises:
            DataError: for a record that does not fit the schema, used or not.
        """

    @abstractmethod
    def split_into_parts(self, part_bytes: int, share_count: int) -> Iterator[Part]:
        """Divides all records into parts of files, for readers in other processes.

        Args:
            part_bytes: About how many bytes of a file a part has.
            share_count: Number of shares, where files cannot be cut: then each part is
                a share of the batches.

        Raises:
            OptionError: if `check_can_be_split` refuses.
        """

    @abstractmethod
    def check_can_be_split(self) -> None:
        """Requires that other processes can read the records.

        Raises:
            OptionError: if they cannot, since the records are in memory.
        """

    @abstractmethod
    def _copy_for_other_processes(self) -> tuple[Self, Mapping[Path, Stamp]]:
        """Returns a copy that another process can open, and the stamps of its files.

        Raises:
            OptionError: if `check_can_be_split` refuses.
        """

    def split_into_shares(
        self, share_count: int, *, splits_batches: bool = False
    ) -> Iterator[Part]:
        """Divides all records into shares, each of which walks through all files.

        Args:
            share_count: Number of shares, n.
            splits_batches: Whether a share takes every n-th record of each batch, so
                that all have the same number up to one a batch; else it takes every
                n-th batch.
        """
        template, stamps = self._copy_for_other_processes()
        for index in range(share_count):
            source = copy(template)
            # There may be fewer batches than shares.
            source.allow_no_records()
            share = _Share(index, share_count)
            if splits_batches:
                source._record_share = share
            else:
                source._batch_share = share
            yield Part(source, stamps)

    def _restricted_to(self, origins: Sequence[_Origin]) -> Self:
        """Returns a copy that reads these origins alone, which may hold no record."""
        source = copy(self)
        source._origins = origins
        source.allow_no_records()
        return source

    def allow_no_records(self) -> None:
        """Lets the source hold no record, as a part or a period of a stream may."""
        self._may_be_empty = True

    def estimate_record_count(self) -> int | None:
        """Estimates the number of records, to two digits. It is private.

        The first files are taken for typical of all.

        Returns:
            None if the first files do not say.
        """
        first_origins = self._origins[:_MAX_ESTIMATED_FILES]
        files = [
            origin
            for origin in first_origins
            if isinstance(origin, CsvFile | ParquetFile | WholeFile)
        ]
        if not files or len(files) < len(first_origins):
            return None
        with suppress(pa.ArrowException, OSError):
            counts = [file.estimate_record_count() for file in files]
            known_counts = [count for count in counts if count is not None]
            if len(known_counts) < len(counts):
                return None
            records_in_files = sum(known_counts)
            estimate = records_in_files * len(self._origins) // len(files)
            return int(float(f"{estimate:.1e}"))
        return None

    def batches(self) -> Iterator[Rows]:
        """Yields the records in order, `batch_rows` at a time, in constant memory.

        Only the last batch may have fewer.

        Raises:
            DataError: for what does not fit the schema; where all records were left
                out, if the source refuses that.
        """
        pending: list[Rows] = []
        has_records = False
        for read_batch in self.batch_readers():
            pending.append(read_batch().row_by_row())
            pending_count = sum(map(len, pending))
            if pending_count < self.batch_rows:
                continue
            records = Rows.concatenate(pending)
            has_records = True
            full_batches_end = pending_count - pending_count % self.batch_rows
            for start in range(0, full_batches_end, self.batch_rows):
                yield records.rows(slice(start, start + self.batch_rows))
            pending = [records.rows(slice(full_batches_end, None))]
        if any(map(len, pending)):
            yield Rows.concatenate(pending)
        elif not has_records and self._NONE_USED is not None:
            raise DataError(f"{self.name}: {self._NONE_USED}")

    def batch_readers(self) -> Iterator[Callable[[], Rows]]:
        """Reads all batches; yields for each of this share a function that encodes it.

        Reading a file and counting units happen here, in the order of the data. What
        takes longest, encoding, happens where a yielded function is called: in any
        thread and any order.

        Yields:
            Functions that return the encoded records of a batch, those that are used,
            `batch_rows` at most.

        Raises:
            DataError: for what does not fit the schema; after the last batch, if there
                was no record at all and none is not allowed.
        """
        self.skipped = 0
        self.check_against_schema()
        counter = None
        if self._units is not None:
            counter = UnitCounter(self._units, self.schema.missing_values)
        share = self._batch_share
        total_rows = 0
        batch_index = 0
        for origin in self._origins:
            rows_before = 0
            for batch in self._read_origin(origin):
                # Units are counted in the batches of all shares, in order: which
                # records are the first ones of their unit depends on all before them.
                is_within_limit = None
                if counter is not None:
                    count_units = partial(counter.count_and_select, batch.units)
                    is_within_limit = call_with_location(
                        count_units, origin, rows_before, show_values=False
                    )
                if batch_index % share.count == share.index:
                    is_used = self._select_record_share(
                        is_within_limit, batch.row_count
                    )
                    yield partial(
                        self._encode, batch.records, is_used, origin, rows_before
                    )
                batch_index += 1
                rows_before += batch.row_count
            total_rows += rows_before
        if not total_rows and not self._may_be_empty:
            raise self.no_records_error()

    def _select_record_share(
        self, is_within_limit: Mask | None, row_count: int
    ) -> Mask | None:
        """Returns which records of a batch are used by this source.

        Args:
            is_within_limit: Which records are among the first ones of their unit,
                (rows,); None for all.
            row_count: Number of records in the batch.

        Returns:
            Those of them that are in this source's share of each batch, (rows,); None
            for all.
        """
        share = self._record_share
        if share.count == 1:
            return is_within_limit
        is_in_share: Mask = np.arange(row_count) % share.count == share.index
        return is_in_share if is_within_limit is None else is_in_share & is_within_limit

    def no_records_error(self) -> DataError:
        """Returns the error of a source that holds no record."""
        return DataError(f"{self.name}: {self._NO_RECORDS}")


class TableSource(Source[Origin]):
    """Private records in a file, a folder of files of one kind, or in memory."""

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
        self.name, self._origins = open_origins(
            source, schema.names, TextLayout.of(schema)
        )

    def check_against_schema(self) -> None:
        """Checks names and types of the columns; no record is read.

        Raises:
            DataError: for a column that is missing, unknown, repeated, or of a type
                that does not fit.
        """
        headers = []
        for origin in self._origins:
            with with_form_hint(origin):
                columns = origin.columns()
                headers.append((origin.name, [name for name, _ in columns]))
                self._check_names(origin, columns)
                check_column_types(columns, self.schema, origin)
        if len(headers) > 1:
            # Each name is public by now: described, ignored, or the unit's.
            check_same_columns(headers, show_names=True)

    def _check_names(
        self, origin: Origin, columns: Sequence[tuple[str, pa.DataType]]
    ) -> None:
        """Requires the columns of the schema, and that of the unit if there is one."""
        names = [name for name, _ in columns]
        if self._units is not None:
            check_unit_column(self._units.column, columns, origin.name)
            names = [name for name in names if name != self._units.column]
        if names == list(self.schema.names):
            return
        # The names of a table with types were chosen by somebody; the first line of a
        # CSV file may be a record.
        show_names = origin.has_types or self._show_values
        check_header(names, self.schema, origin.name, show_names=show_names)

    def check_can_be_split(self) -> None:
        """Refuses a table in memory, by an `OptionError`."""
        require_files(self._origins)

    def split_into_parts(self, part_bytes: int, share_count: int = 1) -> Iterator[Part]:
        """Cuts the files into parts, in order; with limited units, into shares.

        The records of a unit may stand in several files, so whoever counts them must
        read all. All bytes of a CSV file are read to cut it.

        Args:
            part_bytes: About how many bytes of a file a part has.
            share_count: Number of shares, where units are limited.

        Raises:
            OptionError: for a table in memory.
        """
        files = require_files(self._origins)
        self.check_against_schema()
        if self._units is not None:
            yield from self.split_into_shares(share_count)
            return
        for file in files:
            for file_part, file_stamp in split_file(file, part_bytes):
                source = self._restricted_to([file_part])
                yield Part(source, {file_part.path: file_stamp})

    def _copy_for_other_processes(self) -> tuple[Self, Mapping[Path, Stamp]]:
        files = [
            replace(file, path=absolute_path(file.path))
            for file in require_files(self._origins)
        ]
        source = copy(self)
        source._origins = files
        return source, {file.path: read_stamp(file.path) for file in files}

    def _read_origin(self, origin: Origin) -> Iterator[RawBatch]:
        names = list(self.schema.names)
        if self._units is not None:
            names.append(self._units.column)
        with with_form_hint(origin):
            for columns in origin.batches(names, self.batch_rows):
                row_count = len(next(iter(columns.values())))
                units = None if self._units is None else columns[self._units.column]
                yield RawBatch(columns, row_count, units)

    def _encode(
        self,
        records: Mapping[str, pa.Array],
        is_used: Mask | None,
        origin: Origin,
        rows_before: int,
    ) -> Rows:
        # All records are encoded, since one that does not fit the schema is an error
        # whether it is used or not.
        encode_all = partial(encode, records, self.schema)
        with with_form_hint(origin):
            encoded = call_with_location(
                encode_all, origin, rows_before, show_values=self._show_values
            )
        if is_used is None or is_used.all():
            return encoded
        return encoded.rows(is_used)
