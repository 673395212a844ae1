"""Records in a CSV file, read as text in constant memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from noisegate.data.tables.csv_records import MAX_CELL_BYTES, RecordProblem, whole_records
from noisegate.errors import DataError
from noisegate.schema.columns import TEXT_PADDING

_PIECE_BYTES = 1 << 20  # read at a time


@dataclass(frozen=True)
class CsvFile:
    """A CSV file with a header line, separated by commas, in UTF-8; see `files.Origin`."""

    path: Path
    typed = False

    @property
    def name(self) -> str:
        """The file name."""
        return self.path.name

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Return the names in the header, all of type string; nothing beyond the header is looked at."""
        return [(name.strip(TEXT_PADDING), pa.string()) for name in self._header()]

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Mapping[str, pa.Array]]:
        """Yield the columns called ``names`` as text, about a megabyte of the file at a time."""
        found = self.columns()
        wanted = {str(place): name for place, (name, _) in enumerate(found) if name in names}
        done = 0
        for piece in self._pieces():
            table = _parsed(piece, len(found), list(wanted))
            if table is None:
                raise self._broken(len(found))
            if not done:
                table, done = table.slice(1), 1  # the header is the first record of the file
            arrays = {name: table.column(place).chunk(0) for place, name in wanted.items()}
            for name, array in arrays.items():
                self._check_lengths(name, array, done - 1)
            done += table.num_rows
            yield arrays

    def place(self, row: int) -> str:
        """Return the file name and the line on which record ``row`` begins."""
        last = 0
        try:
            with self._open() as stream:
                reader = csv.reader(stream)
                seen = -1  # the header
                for fields in reader:
                    if fields and seen == row:
                        return f"{self.name}, line {last + 1}"
                    seen += bool(fields)
                    last = reader.line_num
        except (csv.Error, OSError, UnicodeDecodeError):
            pass
        return f"{self.name}, record {row + 1}"

    def _open(self) -> TextIO:
        return open(self.path, encoding="utf-8-sig", newline="")

    def _pieces(self) -> Iterator[bytes]:
        """Yield the file in pieces of whole records, the first of which begins with the header."""
        try:
            with open(self.path, "rb") as stream:
                yield from whole_records(stream, _PIECE_BYTES)
            return
        except RecordProblem as problem:
            reason = f"{self.name}, line {self._line(problem.offset)}: {problem.reason}"
        except OSError as error:
            reason = f"{self.name}: cannot be read: {error.strerror}; check its permissions"
        raise DataError(reason)

    def _header(self) -> list[str]:
        start = next(self._pieces(), b"").decode(errors="surrogateescape")
        try:
            header = next((fields for fields in csv.reader(io.StringIO(start, newline="")) if fields), None)
        except csv.Error as error:
            raise DataError(
                f"{self.name}: the first line cannot be read ({type(error).__name__}); save it as CSV"
            ) from None
        if header is None:
            raise DataError(f"{self.name}: the file is empty; expected a first line with the names of the columns")
        if not all(_is_utf8(name.encode(errors="surrogateescape")) for name in header):
            raise self._not_utf8()
        return header

    def _check_lengths(self, name: str, array: pa.Array, done: int) -> None:
        lengths = pc.binary_length(array)
        if (pc.max(lengths).as_py() or 0) > MAX_CELL_BYTES:
            row = int(np.argmax(lengths.to_numpy() > MAX_CELL_BYTES))
            raise DataError(
                f"{self.place(done + row)}, column {name!r}: the cell is longer than {MAX_CELL_BYTES:,} bytes; shorten "
                f"it, or take the column out of the schema"
            )

    def _line(self, offset: int) -> int:
        """Return the number of the line of the byte at ``offset``."""
        number, last = 1, b""
        with open(self.path, "rb") as stream:
            while offset > 0 and (piece := stream.read(min(_PIECE_BYTES, offset))):
                number += piece.count(b"\n") + piece.count(b"\r") - piece.count(b"\r\n")
                number -= last == b"\r" and piece.startswith(b"\n")
                last, offset = piece[-1:], offset - len(piece)
        return number

    def _broken(self, width: int) -> DataError:
        """Look for what Arrow stumbled over, without quoting it."""
        last = 0
        try:
            with self._open() as stream:
                reader = csv.reader(stream, strict=True)
                for fields in reader:
                    if fields and len(fields) != width:
                        return DataError(
                            f"{self.name}, line {last + 1}: expected {width} fields, as the header has, found "
                            f"{len(fields)}; put values that hold a comma in double quotes"
                        )
                    last = reader.line_num
        except UnicodeDecodeError:
            return self._not_utf8()
        except (csv.Error, OSError):
            pass
        return DataError(
            f"{self.name}, line {last + 1} or later: the record cannot be read as CSV; save the table as CSV again"
        )

    def _not_utf8(self) -> DataError:
        with open(self.path, "rb") as stream:
            line = next((number for number, content in enumerate(stream, start=1) if not _is_utf8(content)), 1)
        return DataError(f"{self.name}, line {line}: the text is not UTF-8; save the file as CSV in UTF-8")


def _parsed(piece: bytes, width: int, wanted: list[str]) -> pa.Table | None:
    """Return the columns ``wanted`` (positions) of whole records of ``width`` cells, or None if Arrow refuses them."""
    try:
        return pa_csv.read_csv(
            # Arrow drops what looks like a byte order mark at the start of what it reads; an empty line it passes over.
            pa.BufferReader(b"\n" + piece),
            read_options=pa_csv.ReadOptions(
                block_size=len(piece) + 2, use_threads=False, column_names=[str(place) for place in range(width)]
            ),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True),
            convert_options=pa_csv.ConvertOptions(
                include_columns=wanted, column_types=dict.fromkeys(wanted, pa.string()), strings_can_be_null=False
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
