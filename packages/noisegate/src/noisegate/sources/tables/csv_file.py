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

Messages name file and line and never quote a cell. Arrow's own messages do, so they are
dropped.
"""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from noisegate.errors import DataError
from noisegate.schema.values import TEXT_PADDING
from noisegate.sources.headers import TITLE_CURE
from noisegate.sources.stores import open_file, status

_PIECE_BYTES = 1 << 20

MAX_CELL_BYTES = 1 << 16
"""The longest cell that is read or passed over, in bytes."""

MAX_RECORD_BYTES = 1 << 24
"""The longest record in bytes: a file without line ends shall not fill the memory."""

BOM = b"\xef\xbb\xbf"
"""The byte order mark with which some programs begin a file in UTF-8."""

_LINE_ENDS = b"\r\n"
_COMMA, _QUOTE, _CR, _LF = b',"\r\n'
_CLOSE = "close it, or put the whole cell in double quotes and double those inside it"


@dataclass(frozen=True)
class CsvFile:
    """A CSV file with a header, separated by commas, in UTF-8, or a part of it.

    Attributes:
        path: The file.
        start: The byte with which the part begins, where a record begins.
        stop: The byte behind its last record; None for the end of the file.
    """

    path: Path
    start: int = 0
    stop: int | None = None
    typed = False

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Returns the names in the header, each with the type string.

        Nothing beyond the header is looked at.
        """
        return [(name.strip(TEXT_PADDING), pa.string()) for name in self._header()]

    def about(self) -> int:
        """Estimates the number of records, from the lines of the first piece."""
        with open_file(self.path) as stream:
            piece = stream.read(_PIECE_BYTES)
        return status(self.path).size * piece.count(b"\n") // max(1, len(piece))

    def parts(self, size: int) -> Iterator[CsvFile]:
        """Cuts the file into parts of about `size` bytes, in order.

        Reads the whole file, in constant memory, since only what stands before a line
        end says whether a record ends there.
        """
        part_start = 0
        for number, (start, piece) in enumerate(self.pieces(min(_PIECE_BYTES, size))):
            # The first part has the header. A piece that begins with LF may stand
            # behind the CR of one line end, and lines are counted from the start of a
            # part.
            may_cut = number > 0 and piece[0] != _LF
            if may_cut and start - part_start >= size:
                yield replace(self, start=part_start, stop=start)
                part_start = start
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
        header = self.columns()
        name_of_position = {
            str(position): name
            for position, (name, _) in enumerate(header)
            if name in names
        }
        # The first record of the file is its header.
        skips_header = self.start == 0
        row_count = 0
        for _, piece in self.pieces():
            table = _parsed(piece, len(header), list(name_of_position))
            if table is None:
                raise self._malformed(len(header))
            if skips_header:
                table = table.slice(1)
                skips_header = False
            columns = {
                name: table.column(position).chunk(0)
                for position, name in name_of_position.items()
            }
            for name, cells in columns.items():
                self._check_lengths(name, cells, row_count)
            row_count += table.num_rows
            yield columns

    def _check_lengths(self, name: str, cells: pa.Array, rows_before: int) -> None:
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

        Args:
            row: Number of the record in this part, from 0.
        """
        number = row + 1 if self.start == 0 else row
        with contextlib.suppress(csv.Error, OSError, UnicodeDecodeError):
            for index, (line, _, _) in enumerate(self._records()):
                if index == number:
                    return f"{self.name}, line {line}"
        behind = f" behind byte {self.start:,}" if self.start else ""
        return f"{self.name}, record {row + 1}{behind}"

    def _records(self, *, strict: bool = False) -> Iterator[tuple[int, int, list[str]]]:
        """Reads the records of this part as Python's csv module does.

        Yields:
            The line on which a record begins, the line behind it, and its fields.
        """
        first_line = self._line(self.start)
        line = first_line
        with open_file(self.path) as stream:
            stream.seek(self.start)
            encoding = "utf-8" if self.start else "utf-8-sig"
            text = io.TextIOWrapper(stream, encoding, newline="")
            reader = csv.reader(text, strict=strict)
            for fields in reader:
                if fields:
                    yield line, first_line + reader.line_num, fields
                line = first_line + reader.line_num

    def pieces(self, size: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Cuts this part into pieces of whole records.

        Args:
            size: Of a piece, about, in bytes; None for a megabyte.

        Yields:
            The byte of the file with which a piece begins, and the piece. The first
            piece of a file begins with its header.

        Raises:
            DataError: that names file and line.
        """
        try:
            with open_file(self.path) as stream:
                stream.seek(self.start)
                yield from whole_records(stream, size or _PIECE_BYTES, self.stop)
            return
        except RecordProblem as problem:
            line = self._line(problem.offset)
            message = f"{self.name}, line {line}: {problem.reason}"
        except OSError as error:
            message = (
                f"{self.name}: cannot be read: {error.strerror}; check its permissions"
            )
        raise DataError(message)

    def _header(self) -> list[str]:
        """Returns the fields of the first line that is not empty."""
        _, piece = next(CsvFile(self.path).pieces(), (0, b""))
        text = piece.decode(errors="surrogateescape")
        header: list[str] = []
        try:
            for fields in csv.reader(io.StringIO(text, newline="")):
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
            raise self._not_utf8()
        return header

    def _line(self, offset: int) -> int:
        """Returns the number of the line, from 1, in which a byte of the file stands."""
        line = 1
        last = b""
        with open_file(self.path) as stream:
            while offset > 0 and (piece := stream.read(min(_PIECE_BYTES, offset))):
                # CR, LF and CR LF end a line; the last may be cut between two pieces.
                line += piece.count(b"\n") + piece.count(b"\r") - piece.count(b"\r\n")
                line -= last == b"\r" and piece.startswith(b"\n")
                last = piece[-1:]
                offset -= len(piece)
        return line

    def _malformed(self, width: int) -> DataError:
        """Finds what Arrow stumbled over; returns the error, which quotes nothing.

        Args:
            width: Number of fields in the header.
        """
        next_line = 1
        try:
            for line, next_line, fields in self._records(strict=True):  # noqa: B007
                if len(fields) == width:
                    continue
                if width > 1:
                    expected = f"{width} fields, as the header has"
                    cure = "put values that hold a comma in double quotes"
                else:
                    expected = "1 field, as the header has"
                    cure = TITLE_CURE
                return DataError(
                    f"{self.name}, line {line}: expected {expected}, found "
                    f"{len(fields)}; {cure}"
                )
        except UnicodeDecodeError:
            return self._not_utf8()
        except (csv.Error, OSError):
            pass
        return DataError(
            f"{self.name}, line {next_line} or later: the record cannot be read as CSV; "
            "save the table as CSV again"
        )

    def _not_utf8(self) -> DataError:
        """Returns the error that names the first line that is not UTF-8."""
        with open_file(self.path) as stream:
            line = 1
            for number, content in enumerate(stream, start=1):
                if not _is_utf8(content):
                    line = number
                    break
        return DataError(
            f"{self.name}, line {line}: the text is not UTF-8; save the file as CSV in "
            "UTF-8"
        )


def _parsed(piece: bytes, width: int, positions: list[str]) -> pa.Table | None:
    """Parses whole records.

    Args:
        piece: The records.
        width: Number of fields of each.
        positions: The columns that are wanted, by their position in decimal.

    Returns:
        A table of text, with a column for each position; None if Arrow refuses the
        records. Its message quotes one, which is private.
    """
    try:
        return pa_csv.read_csv(
            # Arrow drops what looks like a byte order mark at the start of what it
            # reads; the empty line in front it passes over.
            pa.BufferReader(b"\n" + piece),
            read_options=pa_csv.ReadOptions(
                block_size=len(piece) + 2,
                use_threads=False,
                column_names=[str(position) for position in range(width)],
            ),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True),
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


class RecordProblem(Exception):  # noqa: N818 - its caller makes an error of it
    """Bytes that are not whole records.

    Attributes:
        offset: The byte of the file at which something is wrong.
        reason: What is wrong and its cure, in words that quote nothing.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset = offset
        self.reason = reason


def whole_records(
    stream: BinaryIO, piece_bytes: int = 1 << 20, stop: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """Cuts a stream into pieces of whole records, without a byte order mark.

    Args:
        stream: It stands where a record begins.
        piece_bytes: Read at a time.
        stop: The byte at which reading ends; None for the end of the stream.

    Yields:
        The byte with which a piece begins, and the piece.

    Raises:
        RecordProblem: if a quote neither begins nor ends a cell, a cell in quotes or a
            record is too long, or the file ends inside quotes.
    """
    rest = b"" if stream.tell() else stream.read(len(BOM)).removeprefix(BOM)
    start = stream.tell() - len(rest)
    is_last = False
    while not is_last:
        remaining = piece_bytes if stop is None else stop - stream.tell()
        room = MAX_RECORD_BYTES - len(rest)
        read = stream.read(min(piece_bytes, room, remaining))
        is_last = not read
        piece = rest + read
        if is_last and piece and piece[-1] not in _LINE_ENDS:
            piece += b"\n"
        quotes = _quote_positions(piece)
        if len(quotes):
            _check_quotes(piece, quotes, start, ended=is_last)
        end = _last_end(piece, quotes)
        if end == 0 and len(piece) >= MAX_RECORD_BYTES:
            raise RecordProblem(
                start,
                f"the record is longer than {MAX_RECORD_BYTES:,} bytes; save the table "
                "as CSV again",
            )
        if piece[:end].strip(_LINE_ENDS):
            yield start, piece[:end]
        rest = piece[end:]
        start += end


def _quote_positions(piece: bytes) -> npt.NDArray[np.intp]:
    """Returns where double quotes stand, ascending."""
    # Most pieces have none, which `in` finds much faster.
    content = piece if _QUOTE in piece else b""
    return np.flatnonzero(np.frombuffer(content, np.uint8) == _QUOTE)


def _check_quotes(
    piece: bytes, quotes: npt.NDArray[np.intp], start: int, *, ended: bool
) -> None:
    """Requires that quotes begin or end cells, and that no cell in quotes is too long.

    A piece begins outside quotes. So the first, third, fifth quote opens, and what
    stands before it must be a comma, a line end or, inside a cell, a quote; the others
    close, and what stands behind them must be one of these (G-06).

    Args:
        piece: The bytes.
        quotes: Where its quotes stand, ascending.
        start: Where the piece stands in the file.
        ended: Whether the file ends with this piece.

    Raises:
        RecordProblem: at the first quote that is wrong.
    """
    # What stands before byte i is at i, what stands behind it at i + 2.
    around = np.frombuffer(b"\n" + piece + b"\n", np.uint8)
    opening = quotes[0::2]
    closing = quotes[1::2]
    before = around.take(opening)
    behind = around.take(closing + 2)
    stray = [*opening[~_beside(before)][:1], *closing[~_beside(behind)][:1]]
    if stray:
        raise RecordProblem(
            start + int(min(stray)),
            f"a double quote neither begins nor ends a cell; {_CLOSE}",
        )
    # Doubled quotes stand inside a cell. A cell begins with a quote that no quote
    # stands before, and ends with one that no quote stands behind.
    begins = opening[before != _QUOTE]
    ends = np.append(closing[behind != _QUOTE], len(piece))[: len(begins)]
    too_long = begins[ends - begins > MAX_CELL_BYTES]
    if len(too_long):
        position = int(too_long[0])
        limit = f"within {MAX_CELL_BYTES:,} bytes"
    elif ended and len(quotes) % 2:
        position = int(begins[-1])
        limit = "before the file ends"
    else:
        return
    raise RecordProblem(
        start + position,
        f"the double quote that opens here is not closed {limit}; {_CLOSE}",
    )


def _beside(letters: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Returns which bytes may stand before an opening or behind a closing quote."""
    is_separator = (letters == _COMMA) | (letters == _CR) | (letters == _LF)
    return np.asarray(is_separator | (letters == _QUOTE))


def _last_end(piece: bytes, quotes: npt.NDArray[np.intp]) -> int:
    """Returns the number of bytes of whole records with which a piece begins.

    It is the position behind the last line end with an even number of quotes before
    it, 0 if there is none.
    """
    stop = len(piece)
    while True:
        newline = piece.rfind(b"\n", 0, stop)
        end = max(newline, piece.rfind(b"\r", newline + 1, stop)) + 1
        quotes_before = int(np.searchsorted(quotes, end))
        if quotes_before % 2 == 0:
            return end
        # This line end stands inside quotes: look before the quote that opens there.
        stop = int(quotes[quotes_before - 1])
