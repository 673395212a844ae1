"""A CSV file cut into pieces of whole records, so that what a cell says depends on its own record alone.

Guarantee G-06. A piece ends where a record ends for Arrow's parser, whatever the size of the pieces. The parser is
*inside quotes* from a quote at the start of a cell to the next one that is not doubled; elsewhere a quote is a letter,
and a line end ends the record. Number the quotes of a file from 0. A file is refused unless

(a) before each even quote stands a comma, a line end, a quote, or nothing, and
(b) behind each odd quote stands a comma, a line end, a quote, or nothing.

Then the parser is inside quotes at byte i exactly if an odd number of quotes stand before i. It is outside at the first
byte. Outside, the next quote is even, and by (a) it starts a cell (one that follows a quote belongs to a doubled one,
see below): the parser goes inside. Inside, the next quote is odd. By (b) a quote follows, and the parser takes both for
a doubled one and stays inside, as parity says behind the second; or the cell is over, and the parser is outside.

So a line end with an even number of quotes before it ends a record, and there the parser is as at the first byte. It
makes of each record a function of that record's bytes, and no piece ends elsewhere. Where a piece ends between CR and
LF, the next one begins with an empty line, which is no record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

MAX_CELL_BYTES = 1 << 16
"""No cell that is longer is read, and none in double quotes is passed over: a quote that is never closed would make one
cell of thousands of records."""

MAX_RECORD_BYTES = 1 << 24
"""No longer record is read: a file without line ends would be taken into memory as a whole."""

BOM = b"\xef\xbb\xbf"
_LINE_ENDS = b"\r\n"
_COMMA, _QUOTE, _CR, _LF = b',"\r\n'
_CLOSE = "close it, or put the whole cell in double quotes and double those inside it"


class RecordProblem(Exception):  # noqa: N818 - not an error for users; the caller adds file and line, and makes it one
    """Bytes that are no whole records.

    Attributes:
        offset: Where in the file.
        reason: What is wrong there and its cure, in public words.
    """

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset, self.reason = offset, reason


def whole_records(stream: BinaryIO, piece_bytes: int = 1 << 20) -> Iterator[bytes]:
    """Yields a file in order, in pieces of whole records and some ``piece_bytes``; empty lines may be left out.

    Args:
        stream: A plain file, from its start. A byte order mark is passed over.
        piece_bytes: How much is read at a time.

    Raises:
        RecordProblem: where a quote neither begins nor ends a cell, a cell in quotes or a record is too long, or the
            file ends inside quotes.
    """
    rest = stream.read(len(BOM)).removeprefix(BOM)
    start, ended = stream.tell() - len(rest), False
    while not ended:
        more = stream.read(min(piece_bytes, MAX_RECORD_BYTES - len(rest)))
        ended = not more
        piece = rest + more
        if ended and piece and piece[-1] not in _LINE_ENDS:
            piece += b"\n"
        quotes = np.flatnonzero(np.frombuffer(piece, np.uint8) == _QUOTE)
        _check_quotes(piece, quotes, start, ended=ended)
        end = _last_end(piece, quotes)
        if end == 0 and len(piece) >= MAX_RECORD_BYTES:
            raise RecordProblem(
                start, f"the record is longer than {MAX_RECORD_BYTES:,} bytes; save the table as CSV again"
            )
        if piece[:end].strip(_LINE_ENDS):
            yield piece[:end]
        rest, start = piece[end:], start + end


def _check_quotes(piece: bytes, quotes: npt.NDArray[np.intp], start: int, *, ended: bool) -> None:
    """Checks (a) and (b) for ``quotes``, and the lengths of the cells in quotes."""
    around = np.frombuffer(b"\n" + piece + b"\n", np.uint8)
    opening, closing = quotes[0::2], quotes[1::2]
    before, behind = around.take(opening), around.take(closing + 2)
    astray = [*opening[~_beside(before)][:1], *closing[~_beside(behind)][:1]]
    if astray:
        raise RecordProblem(start + int(min(astray)), f"a double quote neither begins nor ends a cell; {_CLOSE}")
    # A cell begins with a quote that no quote stands before, and ends with one that none stands behind.
    first = opening[before != _QUOTE]
    last = np.append(closing[behind != _QUOTE], len(piece))[: len(first)]
    long = first[last - first > MAX_CELL_BYTES]
    if len(long) or (ended and len(quotes) % 2):
        where, within = (
            (long[0], f"within {MAX_CELL_BYTES:,} bytes") if len(long) else (first[-1], "before the file ends")
        )
        raise RecordProblem(start + int(where), f"the double quote that opens here is not closed {within}; {_CLOSE}")


def _beside(letters: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Returns which letters may stand before a quote that opens, and behind one that closes."""
    beside: npt.NDArray[np.bool_] = (letters == _COMMA) | (letters == _QUOTE) | (letters == _CR) | (letters == _LF)
    return beside


def _last_end(piece: bytes, quotes: npt.NDArray[np.intp]) -> int:
    """Returns the position behind the last line end outside of quotes, or 0."""
    stop = len(piece)
    while True:
        newline = piece.rfind(b"\n", 0, stop)
        end = max(newline, piece.rfind(b"\r", newline + 1, stop)) + 1
        before = int(np.searchsorted(quotes, end))
        if before % 2 == 0:
            return end
        stop = int(quotes[before - 1])
