"""Records in a CSV file, read as text in constant memory, so that a cell depends on its own record alone (G-06).

A piece, or a part of a file, ends where a record ends for Arrow's parser: behind a line
end with an even number of quotes before it (G-06).
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
from noisegate.sources.headers import A_TITLE
from noisegate.sources.stores import opened, status

_PIECE_BYTES = 1 << 20  # read at a time

MAX_CELL_BYTES = 1 << 16
"""No longer cell is read or passed over: a quote that is never closed would make one cell of thousands of records."""

MAX_RECORD_BYTES = (
    1 << 24
)  # no longer record is read: a file without line ends would be taken into memory as a whole

BOM = b"\xef\xbb\xbf"
_LINE_ENDS = b"\r\n"
_COMMA, _QUOTE, _CR, _LF = b',"\r\n'
_CLOSE = "close it, or put the whole cell in double quotes and double those inside it"


@dataclass(frozen=True)
class CsvFile:
    """A CSV file with a header line, separated by commas, in UTF-8, or a part of it; see `tables.Origin`."""

    path: Path  # of the file
    start: int = 0  # the byte that the part begins with, where a record begins
    stop: int | None = (
        None  # the byte behind its last record; None for the end of the file
    )
    typed = False

    @property
    def name(self) -> str:
        """The file name."""
        return self.path.name

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Returns the names in the header, all of type string; nothing beyond the header is looked at."""
        return [(name.strip(TEXT_PADDING), pa.string()) for name in self._header()]

    def about(self) -> int:
        """Returns about how many records there are, by the length of the first ones."""
        with opened(self.path) as stream:
            start = stream.read(_PIECE_BYTES)
        return status(self.path).size * start.count(b"\n") // max(1, len(start))

    def parts(self, size: int) -> Iterator[CsvFile]:
        """Yields parts of about ``size`` bytes, all records in order; reads the whole file, in constant memory."""
        start = 0
        for number, (here, piece) in enumerate(self.pieces(min(_PIECE_BYTES, size))):
            # The first part has the header. What begins with LF may stand behind the CR of one line end, and lines
            # are counted from where a part begins.
            if number and here - start >= size and piece[0] != _LF:
                yield replace(self, start=start, stop=here)
                start = here
        yield replace(self, start=start)

    def batches(
        self, names: Sequence[str], rows: int
    ) -> Iterator[Mapping[str, pa.Array]]:
        """Yields the columns called ``names`` as text, about a megabyte of the file at a time."""
        found = self.columns()
        wanted = {
            str(place): name for place, (name, _) in enumerate(found) if name in names
        }
        header, done = self.start == 0, 0
        for _, piece in self.pieces():
            table = _parsed(piece, len(found), list(wanted))
            if table is None:
                raise self._broken(len(found))
            if header:
                table, header = table.slice(1), False  # the first record of the file
            arrays = {
                name: table.column(place).chunk(0) for place, name in wanted.items()
            }
            for name, array in arrays.items():
                lengths = pc.binary_length(array)
                if (pc.max(lengths).as_py() or 0) > MAX_CELL_BYTES:
                    row = int(np.argmax(lengths.to_numpy() > MAX_CELL_BYTES))
                    raise DataError(
                        f"{self.place(done + row)}, column {name!r}: the cell is longer than {MAX_CELL_BYTES:,} bytes; "
                        f"shorten it, or take the column out of the schema"
                    )
            done += table.num_rows
            yield arrays

    def place(self, row: int) -> str:
        """Returns the file name and the line on which record ``row`` begins."""
        with contextlib.suppress(csv.Error, OSError, UnicodeDecodeError):
            for number, (line, _, _) in enumerate(self._records()):
                if number == row + (self.start == 0):  # behind the header
                    return f"{self.name}, line {line}"
        return f"{self.name}, record {row + 1}" + (
            f" behind byte {self.start:,}" if self.start else ""
        )

    def _records(self, *, strict: bool = False) -> Iterator[tuple[int, int, list[str]]]:
        """Yields the line on which each record begins, the one behind it, and its fields, as Python reads them."""
        first = line = self._line(self.start)
        with opened(self.path) as stream:
            stream.seek(self.start)
            text = io.TextIOWrapper(
                stream, "utf-8" if self.start else "utf-8-sig", newline=""
            )
            reader = csv.reader(text, strict=strict)
            for fields in reader:
                if fields:
                    yield line, first + reader.line_num, fields
                line = first + reader.line_num

    def pieces(self, size: int | None = None) -> Iterator[tuple[int, bytes]]:
        """Yields the part in pieces of whole records, and where each stands; a file's first one has the header."""
        try:
            with opened(self.path) as stream:
                stream.seek(self.start)
                yield from whole_records(stream, size or _PIECE_BYTES, self.stop)
            return
        except RecordProblem as problem:
            reason = f"{self.name}, line {self._line(problem.offset)}: {problem.reason}"
        except OSError as error:
            reason = (
                f"{self.name}: cannot be read: {error.strerror}; check its permissions"
            )
        raise DataError(reason)

    def _header(self) -> list[str]:
        _, piece = next(CsvFile(self.path).pieces(), (0, b""))
        start = piece.decode(errors="surrogateescape")
        try:
            header = next(
                (
                    fields
                    for fields in csv.reader(io.StringIO(start, newline=""))
                    if fields
                ),
                None,
            )
        except csv.Error:
            raise DataError(
                f"{self.name}: the first line cannot be read: a name may have {csv.field_size_limit():,} characters at "
                "most; shorten it, or close the double quotes before it"
            ) from None
        if header is None:
            raise DataError(
                f"{self.name}: the file is empty; expected a first line with the names of the columns"
            )
        if not all(_is_utf8(name.encode(errors="surrogateescape")) for name in header):
            raise self._not_utf8()
        return header

    def _line(self, offset: int) -> int:
        number, last = 1, b""
        with opened(self.path) as stream:
            while offset > 0 and (piece := stream.read(min(_PIECE_BYTES, offset))):
                number += piece.count(b"\n") + piece.count(b"\r") - piece.count(b"\r\n")
                number -= last == b"\r" and piece.startswith(b"\n")
                last, offset = piece[-1:], offset - len(piece)
        return number

    def _broken(self, width: int) -> DataError:
        """Looks for what Arrow stumbled over, without quoting it."""
        following = 1
        try:
            for line, following, fields in self._records(strict=True):  # noqa: B007 - told below
                if len(fields) != width:
                    cure = (
                        "put values that hold a comma in double quotes"
                        if width > 1
                        else A_TITLE
                    )
                    fits = f"{width} field{'s' * (width > 1)}, as the header has"
                    return DataError(
                        f"{self.name}, line {line}: expected {fits}, found {len(fields)}; {cure}"
                    )
        except UnicodeDecodeError:
            return self._not_utf8()
        except (csv.Error, OSError):
            pass
        return DataError(
            f"{self.name}, line {following} or later: the record cannot be read as CSV; save the table as CSV again"
        )

    def _not_utf8(self) -> DataError:
        with opened(self.path) as stream:
            line = next(
                (
                    number
                    for number, content in enumerate(stream, start=1)
                    if not _is_utf8(content)
                ),
                1,
            )
        return DataError(
            f"{self.name}, line {line}: the text is not UTF-8; save the file as CSV in UTF-8"
        )


def _parsed(piece: bytes, width: int, wanted: list[str]) -> pa.Table | None:
    """Returns the columns ``wanted`` (positions) of whole records of ``width`` cells, or None if Arrow refuses them."""
    try:
        return pa_csv.read_csv(
            # Arrow drops what looks like a byte order mark at the start of what it reads; an empty line it passes over.
            pa.BufferReader(b"\n" + piece),
            read_options=pa_csv.ReadOptions(
                block_size=len(piece) + 2,
                use_threads=False,
                column_names=[str(place) for place in range(width)],
            ),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.string()),
                strings_can_be_null=False,
            ),
        )
    except pa.lib.ArrowCancelled:
        raise KeyboardInterrupt from None  # a signal came while Arrow was at work
    except pa.ArrowException:
        return None  # Arrow's message quotes the record, which is private


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


class RecordProblem(Exception):  # noqa: N818 - not an error for users; the caller adds file and line, and makes it one
    """Bytes that are no whole records: where in the file, and what is wrong there and its cure, in public words."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset, self.reason = offset, reason


def whole_records(
    stream: BinaryIO, piece_bytes: int = 1 << 20, stop: int | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yields where each piece of whole records stands, and the piece, without the file's byte order mark."""
    # The stream stands where a record begins, and is read up to the byte `stop`; None for its end. A RecordProblem is
    # raised where a quote neither begins nor ends a cell, a cell in quotes or a record is too long, or the file ends
    # inside quotes.
    rest = b"" if stream.tell() else stream.read(len(BOM)).removeprefix(BOM)
    start, ended = stream.tell() - len(rest), False
    while not ended:
        left = piece_bytes if stop is None else stop - stream.tell()
        more = stream.read(min(piece_bytes, MAX_RECORD_BYTES - len(rest), left))
        ended = not more
        piece = rest + more
        if ended and piece and piece[-1] not in _LINE_ENDS:
            piece += b"\n"
        quotes = np.flatnonzero(
            np.frombuffer(piece if _QUOTE in piece else b"", np.uint8) == _QUOTE
        )
        if len(quotes):
            _check_quotes(piece, quotes, start, ended=ended)
        end = _last_end(piece, quotes)
        if end == 0 and len(piece) >= MAX_RECORD_BYTES:
            raise RecordProblem(
                start,
                f"the record is longer than {MAX_RECORD_BYTES:,} bytes; save the table as CSV again",
            )
        if piece[:end].strip(_LINE_ENDS):
            yield start, piece[:end]
        rest, start = piece[end:], start + end


def _check_quotes(
    piece: bytes, quotes: npt.NDArray[np.intp], start: int, *, ended: bool
) -> None:
    """Checks what stands before even ``quotes`` and behind odd ones (G-06), and the lengths of the cells in quotes."""
    around = np.frombuffer(b"\n" + piece + b"\n", np.uint8)
    opening, closing = quotes[0::2], quotes[1::2]
    before, behind = around.take(opening), around.take(closing + 2)
    astray = [*opening[~_beside(before)][:1], *closing[~_beside(behind)][:1]]
    if astray:
        raise RecordProblem(
            start + int(min(astray)),
            f"a double quote neither begins nor ends a cell; {_CLOSE}",
        )
    # A cell begins with a quote that no quote stands before, and ends with one that none stands behind.
    first = opening[before != _QUOTE]
    last = np.append(closing[behind != _QUOTE], len(piece))[: len(first)]
    long = first[last - first > MAX_CELL_BYTES]
    if len(long) or (ended and len(quotes) % 2):
        where, within = (
            (long[0], f"within {MAX_CELL_BYTES:,} bytes")
            if len(long)
            else (first[-1], "before the file ends")
        )
        raise RecordProblem(
            start + int(where),
            f"the double quote that opens here is not closed {within}; {_CLOSE}",
        )


def _beside(letters: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Returns which letters may stand before a quote that opens, and behind one that closes."""
    return np.asarray(
        (letters == _COMMA) | (letters == _QUOTE) | (letters == _CR) | (letters == _LF)
    )


def _last_end(piece: bytes, quotes: npt.NDArray[np.intp]) -> int:
    stop = len(piece)
    while True:
        newline = piece.rfind(b"\n", 0, stop)
        end = max(newline, piece.rfind(b"\r", newline + 1, stop)) + 1
        before = int(np.searchsorted(quotes, end))
        if before % 2 == 0:
            return end
        stop = int(quotes[before - 1])
