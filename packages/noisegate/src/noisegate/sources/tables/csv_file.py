"""Reads the records of a CSV file, as text and in constant memory.

A cell must depend on its own record alone (G-06). Two things could break that, and are
why this file does not simply call Arrow's reader on the file:

- Arrow guesses types from many records. So cells are read as text, and the schema says
  what they mean.
- A quote that is never closed would make one cell of thousands of records. So quotes
  are checked before Arrow sees them, and the lengths of cells and records are limited.

A file is read in pieces of about a megabyte. A piece, or a part of a file that another
process reads, ends where a record ends for Arrow's parser: behind a line end with an
even number of quotes before it.

A file in another encoding than UTF-8, or that is packed, is read through `text_stream`,
as UTF-8; bytes are then counted in that. Such a file is not cut into parts.

Messages name file and line and never quote a cell. Arrow's own messages do, so they are
dropped.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from noisegate.errors import DataError
from noisegate.schema import Schema
from noisegate.schema.checks import TEXT_PADDING
from noisegate.schema.file_form import UTF_8, FileForm, number_columns
from noisegate.schema.schema import DEFAULT_MISSING_VALUES
from noisegate.sources.headers import SEPARATOR_NAMES, TITLE_CURE
from noisegate.sources.stores import open_file
from noisegate.sources.tables.text_stream import (
    Packing,
    RecordProblem,
    TextStream,
    estimate_line_count,
    read_text_of,
)

_PIECE_BYTES = 1 << 20

MAX_CELL_BYTES = 1 << 16
"""The longest cell that is read or passed over, in bytes."""

MAX_RECORD_BYTES = 1 << 24
"""The longest record in bytes: a file without line ends shall not fill the memory."""

BOM = b"\xef\xbb\xbf"
"""The byte order mark with which some programs begin a file in UTF-8."""

_LINE_ENDS = b"\r\n"
_QUOTE, _CR, _LF = b'"\r\n'
# Read at a time to skip lines, which are few and short.
_SKIPPED_BYTES = 1 << 12
_LINE_END = re.compile(rb"\r\n|\r|\n")
_CLOSE = "close it, or put the whole cell in double quotes and double those inside it"


@dataclass(frozen=True)
class TextLayout:
    """What a schema says of the files of its table.

    Attributes:
        form: How they are written.
        names: The columns of the schema, in its order.
        ignored: Columns that the data may have and that are never read.
        text_levels: The levels of each column that has levels of text, by its name.
        number_columns: Those whose numbers are written as `form` says.
        missing_values: Texts that stand for a missing value, which are no numbers.

    Examples:
        >>> from noisegate.schema import FileForm, Integer, Schema
        >>> from noisegate.sources.tables.csv_file import TextLayout
        >>> age = Integer(name="age", lower=0, upper=99)
        >>> layout = TextLayout.of(Schema([age], file=FileForm(separator=";")))
        >>> layout.form.separator, sorted(layout.number_columns)
        (';', ['age'])
    """

    form: FileForm = field(default_factory=FileForm)
    names: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    text_levels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    number_columns: frozenset[str] = frozenset()
    missing_values: tuple[str, ...] = DEFAULT_MISSING_VALUES

    @classmethod
    def of(cls, schema: Schema) -> TextLayout:
        """Returns what a schema says of text files."""
        if schema.images is not None:
            return cls(missing_values=schema.missing_values)
        return cls(
            form=schema.file,
            names=tuple(schema.names),
            ignored=schema.ignore,
            text_levels=tuple(
                (column.name, tuple(map(str, column.stated_texts)))
                for column in schema.file_layout.coded
            ),
            number_columns=number_columns(schema.columns),
            missing_values=schema.missing_values,
        )


NO_LAYOUT = TextLayout()
"""Where no schema says how files are written."""


@dataclass(frozen=True)
class CsvFile:
    """A text file with a record on each line, or a part of it.

    It has a header, is separated by commas and in UTF-8, unless the layout says
    otherwise.

    Attributes:
        path: The file.
        start: The byte with which the part begins, where a record begins.
        stop: The byte behind its last record; None for the end of the file.
        layout: What the schema says of it.
        packing: How it is packed.
        has_types: False: cells are text, and the first line may be a record.
    """

    path: Path
    start: int = 0
    stop: int | None = None
    layout: TextLayout = NO_LAYOUT
    packing: Packing = ""
    has_types = False

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Returns the names in the header, each with the type string.

        Nothing beyond the header is examined.
        """
        names = self.form.names_without_header(self.layout.names)
        if names is None:
            # Also a part that begins later is described by the header of the file.
            whole = replace(self, start=0, stop=None)
            _, first_piece = next(whole.read_pieces(), (0, b""))
            names = tuple(self._parse_header(first_piece))
        return [(name, pa.string()) for name in names]

    @property
    def form(self) -> FileForm:
        """How the file is written."""
        return self.layout.form

    @property
    def _is_plain(self) -> bool:
        """Whether a byte of the file is a byte of its text, so that it can be cut."""
        return not self.packing and self.form.encoding == UTF_8

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        """Opens the text of the file, as UTF-8.

        Raises:
            RecordProblem: if the file is damaged or in another encoding.
            OSError: if the file cannot be read.
        """
        file = open_file(self.path)
        if not self._is_plain:
            file = read_text_of(
                file, self.path, packing=self.packing, encoding=self.form.encoding
            )
        with file:
            yield file

    @contextmanager
    def _open_part(self) -> Iterator[BinaryIO]:
        """Opens the text where this part begins, behind lines that are to be skipped.

        Raises:
            RecordProblem: if the file is damaged or in another encoding.
            OSError: if the file cannot be read.
        """
        with self._open() as stream:
            if self.start:
                stream.seek(self.start)
            elif self.form.skip:
                _skip_lines(stream, self.form.skip)
            yield stream

    def read_skipped_lines(self) -> bytes:
        """Returns the lines above the header that the form skips, as UTF-8."""
        with self._open() as stream:
            return _skip_lines(stream, self.form.skip)

    def form_hint(self) -> str:
        """Returns the lines by which a schema reads the file as it is.

        Returns:
            Text for the end of a refusal; empty if the schema states the form already,
            or it cannot be found.
        """
        # Imported here: most files are read as they should.
        from noisegate.sources.tables.find_form import form_hint

        return form_hint(
            self.path,
            self.packing,
            self.form,
            names=self.layout.names,
            number_columns=self.layout.number_columns,
        )

    def estimate_record_count(self) -> int:
        """Estimates the number of records by the length of lines at the start."""
        with self._open() as stream:
            return estimate_line_count(stream, self.path)

    def split_into_parts(self, part_bytes: int) -> Iterator[CsvFile]:
        """Cuts the file into parts of whole records, in order.

        Reads the whole file, in constant memory, since only what stands before a line
        end says whether a record ends there. A file that is packed, or in another
        encoding, is one part.

        Args:
            part_bytes: The least number of bytes of each part but the last.
        """
        if not self._is_plain:
            yield self
            return
        part_start = 0
        pieces = self.read_pieces(min(_PIECE_BYTES, part_bytes))
        for index, (piece_start, piece) in enumerate(pieces):
            # The first part has the header. A piece that begins with LF may stand
            # behind the CR of one line end, and lines are counted from the start of a
            # part.
            may_cut_here = index > 0 and piece[0] != _LF
            if may_cut_here and piece_start - part_start >= part_bytes:
                yield replace(self, start=part_start, stop=piece_start)
                part_start = piece_start
        yield replace(self, start=part_start)

    def batches(
        self, names: Sequence[str], rows: int
    ) -> Iterator[Mapping[str, pa.Array]]:
        """Yields some columns as text, piece by piece.

        Args:
            names: The columns.
            rows: Not used: a batch is as long as a piece of the file.

        Raises:
            DataError: that names file and line.
        """
        names_without_header = self.form.names_without_header(self.layout.names)
        # The first record of the file is its header.
        begins_with_header = self.start == 0 and names_without_header is None
        pieces = self.read_pieces()
        if begins_with_header:
            first_start, first_piece = next(pieces, (0, b""))
            header = self._parse_header(first_piece)
            pieces = chain([(first_start, first_piece)], pieces)
        else:
            header = [name for name, _ in self.columns()]
        # Arrow calls the columns by their positions, since names may be repeated.
        name_of_position = {
            str(position): name for position, name in enumerate(header) if name in names
        }
        plain_columns: frozenset[str] = frozenset()
        if self.form.has_own_numbers:
            plain_columns = self.layout.number_columns
        missing_markers = pa.array(self.layout.missing_values, pa.string())
        rows_before = 0
        for _, piece in pieces:
            table = _parse_records(
                piece, len(header), list(name_of_position), self.form.separator
            )
            if table is None:
                raise self._malformed_record_error(len(header))
            if begins_with_header:
                table = table.slice(1)
                begins_with_header = False
            columns = {
                name: table.column(position).chunk(0)
                for position, name in name_of_position.items()
            }
            for name, cells in columns.items():
                self._check_cell_lengths(name, cells, rows_before)
                if name in plain_columns:
                    columns[name] = self.form.plain_numbers(cells, missing_markers)
            rows_before += table.num_rows
            yield columns

    def _check_cell_lengths(self, name: str, cells: pa.Array, rows_before: int) -> None:
        """Requires that no cell is longer than `MAX_CELL_BYTES`."""
        lengths = pc.binary_length(cells)
        if (pc.max(lengths).as_py() or 0) <= MAX_CELL_BYTES:
            return
        row = int(np.argmax(lengths.to_numpy() > MAX_CELL_BYTES))
        raise DataError(
            f"{self.locate(rows_before + row)}, column {name!r}: the cell is longer than "
            f"{MAX_CELL_BYTES:,} bytes; shorten it, or take the column out of the schema"
        )

    def locate(self, row: int) -> str:
        """Returns where a record stands, as `adult.csv, line 7`.

        The part is read again up to the record, by Python's csv module, which knows
        lines; if that fails, the number of the record is given in place of its line.

        Args:
            row: Number of the record in this part, from 0, without the header.
        """
        has_header = self.form.names_without_header(self.layout.names) is None
        record_index = row + 1 if self.start == 0 and has_header else row
        with contextlib.suppress(csv.Error, OSError, UnicodeDecodeError, RecordProblem):
            for index, record in enumerate(self._records_with_lines()):
                if index == record_index:
                    return f"{self.name}, line {record.line}"
        behind = f" behind byte {self.start:,}" if self.start else ""
        return f"{self.name}, record {row + 1}{behind}"

    def _records_with_lines(self, *, strict: bool = False) -> Iterator[_LocatedRecord]:
        """Yields the records of this part, the header too, read by Python's csv module.

        Args:
            strict: Whether the module shall refuse quotes within cells.

        Raises:
            csv.Error: for a record that the module refuses.
            UnicodeDecodeError: for bytes that are not UTF-8.
            RecordProblem: if the file is damaged or in another encoding.
            OSError: if the file cannot be read.
        """
        with self._open_part() as stream:
            first_byte = stream.tell()
            first_line = self._line_number(first_byte)
            line = first_line
            encoding = "utf-8" if first_byte else "utf-8-sig"
            text = io.TextIOWrapper(stream, encoding, newline="")
            reader = csv.reader(text, delimiter=self.form.separator, strict=strict)
            for fields in reader:
                next_line = first_line + reader.line_num
                # An empty line is no record.
                if fields:
                    yield _LocatedRecord(line, next_line, fields)
                line = next_line

    def read_pieces(
        self, piece_bytes: int | None = None
    ) -> Iterator[tuple[int, bytes]]:
        """Reads this part in pieces of whole records.

        Args:
            piece_bytes: About how many bytes a piece has; None for a megabyte.

        Yields:
            The byte of the file with which a piece begins, and the piece. The first
            piece of a file begins with its header.

        Raises:
            DataError: that names file and line.
        """
        try:
            with self._open_part() as stream:
                yield from read_whole_records(
                    stream,
                    piece_bytes or _PIECE_BYTES,
                    self.stop,
                    separator=self.form.separator,
                )
            return
        except RecordProblem as problem:
            line = self._line_number(problem.offset)
            message = f"{self.name}, line {line}: {problem.reason}"
        except OSError as error:
            message = (
                f"{self.name}: cannot be read: {error.strerror}; check its permissions"
            )
        raise DataError(message)

    def _parse_header(self, first_piece: bytes) -> list[str]:
        """Returns the names in the first line that is not empty.

        Args:
            first_piece: The first piece of the file; empty if the file is.

        Raises:
            DataError: if there is none, it is not UTF-8, or a name is too long.
        """
        text = first_piece.decode(errors="surrogateescape")
        header: list[str] = []
        try:
            lines = io.StringIO(text, newline="")
            for fields in csv.reader(lines, delimiter=self.form.separator):
                if fields:
                    header = fields
                    break
        except csv.Error:
            raise DataError(
                f"{self.name}: the first line cannot be read: a name may have "
                f"{csv.field_size_limit():,} characters at most; shorten it, or close "
                "the double quotes before it"
            ) from None
        if not header:
            raise DataError(
                f"{self.name}: the file is empty; expected a first line with the names "
                "of the columns"
            )
        if not all(_is_utf8(name.encode(errors="surrogateescape")) for name in header):
            raise self._encoding_error()
        return [name.strip(TEXT_PADDING) for name in header]

    def _line_number(self, offset: int) -> int:
        """Returns the number, from 1, of the line that a byte of the file stands in."""
        line = 1
        bytes_left = offset
        ends_with_cr = False
        with self._open() as stream:
            while bytes_left > 0:
                chunk = stream.read(min(_PIECE_BYTES, bytes_left))
                if not chunk:
                    break
                # CR, LF and CR LF end a line each.
                line += chunk.count(b"\n") + chunk.count(b"\r") - chunk.count(b"\r\n")
                # A CR LF that is cut between two chunks was counted twice.
                if ends_with_cr and chunk.startswith(b"\n"):
                    line -= 1
                ends_with_cr = chunk.endswith(b"\r")
                bytes_left -= len(chunk)
        return line

    def _malformed_record_error(self, field_count: int) -> DataError:
        """Finds the record that Arrow refuses; returns an error that quotes nothing.

        Args:
            field_count: Number of fields in the header.
        """
        names = self.form.names_without_header(self.layout.names)
        begins_with_header = names is None
        next_line = 1
        try:
            for record in self._records_with_lines(strict=True):
                next_line = record.next_line
                if len(record.fields) == field_count:
                    continue
                fields = "1 field" if field_count == 1 else f"{field_count} fields"
                if not begins_with_header:
                    expected = f"{fields}, as the schema has columns"
                    cure = "name those of the file in `header` under [file]"
                elif field_count > 1:
                    expected = f"{fields}, as the header has"
                    separator_name = SEPARATOR_NAMES.get(self.form.separator)
                    cure = (
                        f"put values that hold {separator_name or 'the separator'} in "
                        "double quotes"
                    )
                else:
                    expected = f"{fields}, as the header has"
                    cure = TITLE_CURE
                return DataError(
                    f"{self.name}, line {record.line}: expected {expected}, found "
                    f"{len(record.fields)}; {cure}"
                )
        except UnicodeDecodeError:
            return self._encoding_error()
        except (csv.Error, OSError, RecordProblem):
            pass
        # All records that Python's csv module can read have as many fields as they
        # should: what is wrong comes behind the last of them.
        return DataError(
            f"{self.name}, line {next_line} or later: the record cannot be read as CSV; "
            "save the table as CSV again"
        )

    def _encoding_error(self) -> DataError:
        """Returns the error that names the first line that is not UTF-8."""
        with self._open() as stream:
            wrong_line = 1
            for line, content in enumerate(stream, start=1):
                if not _is_utf8(content):
                    wrong_line = line
                    break
        return DataError(
            f"{self.name}, line {wrong_line}: the text is not UTF-8; save the file as "
            "CSV in UTF-8"
        )


class _LocatedRecord(NamedTuple):
    """A record of a CSV file and its lines.

    Attributes:
        line: The line of the file on which it begins, from 1.
        next_line: The line behind its last one.
        fields: Its cells.
    """

    line: int
    next_line: int
    fields: list[str]


def _skip_lines(stream: BinaryIO, line_count: int) -> bytes:
    """Moves a stream from its start behind some lines, or to its end if it has fewer.

    CR, LF and CR LF end a line each.

    Returns:
        The lines, with their ends.
    """
    content = b""
    end = 0
    for _ in range(line_count):
        line_end = _LINE_END.search(content, end)
        # A CR at the end of what was read may be half of a line end.
        while line_end is None or line_end.end() == len(content):
            bytes_read = stream.read(_SKIPPED_BYTES)
            if not bytes_read:
                break
            content += bytes_read
            line_end = _LINE_END.search(content, end)
        end = len(content) if line_end is None else line_end.end()
    if isinstance(stream, TextStream):
        stream.unread(content[end:])
    else:
        stream.seek(end)
    return content[:end]


def _parse_records(
    records: bytes, field_count: int, positions: list[str], separator: str = ","
) -> pa.Table | None:
    """Parses whole records.

    Args:
        records: The bytes of the records.
        field_count: Number of fields of each record.
        positions: The columns that are wanted, by their positions in decimal.
        separator: What stands between two fields.

    Returns:
        A table of text, with a column for each position; None if Arrow refuses the
        records. Its message quotes one, which is private.
    """
    try:
        return pa_csv.read_csv(
            # Arrow drops what looks like a byte order mark at the start of what it
            # reads; the empty line in front it passes over.
            pa.BufferReader(b"\n" + records),
            read_options=pa_csv.ReadOptions(
                # One block for all: Arrow cannot cut a record in two.
                block_size=len(records) + 2,
                use_threads=False,
                column_names=[str(position) for position in range(field_count)],
            ),
            parse_options=pa_csv.ParseOptions(
                delimiter=separator, newlines_in_values=True
            ),
            convert_options=pa_csv.ConvertOptions(
                include_columns=positions,
                column_types=dict.fromkeys(positions, pa.string()),
                strings_can_be_null=False,
            ),
        )
    except pa.lib.ArrowCancelled:
        # A signal came while Arrow was at work.
        raise KeyboardInterrupt from None
    except pa.ArrowException:
        return None


def _is_utf8(content: bytes) -> bool:
    """Returns whether bytes are text in UTF-8."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def read_whole_records(
    stream: BinaryIO,
    piece_bytes: int = 1 << 20,
    stop: int | None = None,
    *,
    separator: str = ",",
) -> Iterator[tuple[int, bytes]]:
    """Reads a stream in pieces of whole records, without a byte order mark.

    What was read behind the last end of a record is carried over to the next piece::

        read            piece           carried over
        a,b↵3,"x        a,b↵            3,"x
        ↵y"↵5,          3,"x↵y"↵        5,

    Args:
        stream: It stands where a record begins.
        piece_bytes: The most bytes that are read at a time.
        stop: The byte at which reading ends, which is the end of a record; None for
            the end of the stream.
        separator: What stands between two cells.

    Yields:
        The byte of the stream with which a piece begins, and the piece. Pieces of line
        ends alone are left out.

    Raises:
        RecordProblem: if a quote neither begins nor ends a cell, a cell in quotes or a
            record is too long, or the file ends inside quotes.
    """
    carried = b""
    if stream.tell() == 0:
        first_bytes = len(BOM) if stop is None else min(len(BOM), stop)
        carried = stream.read(first_bytes).removeprefix(BOM)
    # What is carried, and what is read next, form a buffer; it begins at this byte.
    buffer_start = stream.tell() - len(carried)
    is_last = False
    while not is_last:
        # Positive: a record that is too long was refused before all of it is carried.
        max_bytes = min(piece_bytes, MAX_RECORD_BYTES - len(carried))
        if stop is not None:
            max_bytes = min(max_bytes, stop - stream.tell())
        bytes_read = stream.read(max_bytes)
        is_last = not bytes_read
        buffer = carried + bytes_read
        if is_last and buffer and buffer[-1] not in _LINE_ENDS:
            # The last record of a file may lack its line end.
            buffer += b"\n"
        # Whether a quote opens or closes follows from the number of quotes before it,
        # counted from the start of a record. So those of the bytes that were carried
        # are examined again.
        quotes = _find_quotes(buffer)
        if len(quotes):
            _check_quotes(buffer, quotes, buffer_start, ord(separator), is_last=is_last)
        records_end = _find_records_end(buffer, quotes)
        if records_end == 0 and len(buffer) >= MAX_RECORD_BYTES:
            raise RecordProblem(
                buffer_start,
                f"the record is longer than {MAX_RECORD_BYTES:,} bytes; save the table "
                "as CSV again",
            )
        piece = buffer[:records_end]
        if piece.strip(_LINE_ENDS):
            yield buffer_start, piece
        carried = buffer[records_end:]
        buffer_start += records_end


def _find_quotes(buffer: bytes) -> npt.NDArray[np.intp]:
    """Returns the positions of double quotes, ascending."""
    # Most buffers have none, which `in` finds much faster.
    if _QUOTE not in buffer:
        return np.zeros(0, dtype=np.intp)
    return np.flatnonzero(np.frombuffer(buffer, np.uint8) == _QUOTE)


def _check_quotes(
    buffer: bytes,
    quotes: npt.NDArray[np.intp],
    buffer_start: int,
    separator: int,
    *,
    is_last: bool,
) -> None:
    """Requires that quotes begin or end cells, and that no cell in quotes is too long.

    A buffer begins outside quotes. So its first, third, fifth quote opens, and what
    stands before it must be a separator, a line end or, inside a cell, a quote; the
    others close, and what stands behind them must be one of these. Otherwise one quote
    could make a cell of the records of others, and a cell must depend on its own record
    alone (G-06).

    Args:
        buffer: The bytes.
        quotes: The positions of its quotes, ascending; at least one.
        buffer_start: Where the buffer stands in the file.
        separator: The byte between two cells.
        is_last: Whether the file ends with this buffer.

    Raises:
        RecordProblem: at the first quote that is wrong.
    """
    # With a line end at either end, what stands before byte i of the buffer is at i
    # here, and what stands behind it at i + 2.
    padded = np.frombuffer(b"\n" + buffer + b"\n", np.uint8)
    opening = quotes[0::2]
    closing = quotes[1::2]
    byte_before = padded.take(opening)
    byte_behind = padded.take(closing + 2)
    stray_opening = opening[~_may_touch_quoted_cell(byte_before, separator)]
    stray_closing = closing[~_may_touch_quoted_cell(byte_behind, separator)]
    first_stray = [*stray_opening[:1], *stray_closing[:1]]
    if first_stray:
        raise RecordProblem(
            buffer_start + int(min(first_stray)),
            f"a double quote neither begins nor ends a cell; {_CLOSE}",
        )
    # Doubled quotes stand inside a cell. A cell begins with a quote that no quote
    # stands before, and ends with one that no quote stands behind; the last cell may
    # continue behind the buffer.
    cell_starts = opening[byte_before != _QUOTE]
    cell_ends = np.append(closing[byte_behind != _QUOTE], len(buffer))
    cell_lengths = cell_ends[: len(cell_starts)] - cell_starts
    too_long = cell_starts[cell_lengths > MAX_CELL_BYTES]
    if len(too_long):
        position = int(too_long[0])
        limit = f"within {MAX_CELL_BYTES:,} bytes"
    elif is_last and len(quotes) % 2:
        position = int(cell_starts[-1])
        limit = "before the file ends"
    else:
        return
    raise RecordProblem(
        buffer_start + position,
        f"the double quote that opens here is not closed {limit}; {_CLOSE}",
    )


def _may_touch_quoted_cell(
    letters: npt.NDArray[np.uint8], separator: int
) -> npt.NDArray[np.bool_]:
    """Returns which bytes may stand before an opening or behind a closing quote."""
    is_separator = (letters == separator) | (letters == _CR) | (letters == _LF)
    return np.asarray(is_separator | (letters == _QUOTE))


def _find_records_end(buffer: bytes, quotes: npt.NDArray[np.intp]) -> int:
    r"""Returns the number of bytes of whole records with which a buffer begins.

    It is the position behind the last line end with an even number of quotes before
    it; 0 if there is none, so that the buffer holds no whole record.

    Args:
        buffer: The bytes; they begin outside quotes.
        quotes: The positions of its quotes, ascending.

    Examples:
        >>> import numpy as np
        >>> _find_records_end(b'1,2\n3,"x\n', np.array([6]))
        4
    """
    search_end = len(buffer)
    while True:
        newline = buffer.rfind(b"\n", 0, search_end)
        carriage_return = buffer.rfind(b"\r", newline + 1, search_end)
        records_end = max(newline, carriage_return) + 1
        quotes_before = int(np.searchsorted(quotes, records_end))
        if quotes_before % 2 == 0:
            return records_end
        # This line end stands inside quotes: look before the quote that opens there.
        search_end = int(quotes[quotes_before - 1])
