"""JSON lines: a text file with one JSON object for each record.

A value becomes text, as a CSV file has it, and the schema says what it means: types of
JSON are chosen by whatever program wrote them, which may write 1 in one record and
"1" or 1.0 in the next.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from noisegate.errors import DataError
from noisegate.schema.checks import TEXT_PADDING
from noisegate.sources.stores import open_file, unreadable_error
from noisegate.sources.tables.cells import value_text
from noisegate.sources.tables.csv_file import MAX_RECORD_BYTES
from noisegate.sources.tables.parts import WholeFile
from noisegate.sources.tables.text_stream import (
    Packing,
    RecordProblem,
    estimate_line_count,
    read_text_of,
)

_CHUNK_BYTES = 1 << 20


class _Unreadable(Exception):  # noqa: N818 - its caller makes an error of it
    """A line that is no record.

    Attributes:
        reason: What is wrong and its cure, in words that quote nothing.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class JsonLinesFile(WholeFile):
    """A file of JSON lines.

    Attributes:
        path: The file.
        layout: What the schema says of the table.
        packing: How it is packed.
        has_types: True: names stand beside each value, so that none is a record's.
    """

    packing: Packing = ""
    has_types = True
    declares_types = False

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Returns the names in the first record and those of the schema.

        Without a schema, they are those of all records, which are read for it. Each has
        the type string.
        """
        names: dict[str, None] = {}
        for _, record in self._records():
            names.update(dict.fromkeys(record))
            if self.layout.names:
                # A record may lack what is missing in it.
                names.update(dict.fromkeys(self.layout.names))
                break
        if not names:
            raise DataError(
                f"{self.name}: the file is empty; expected a JSON object on each line"
            )
        return [(name, pa.string()) for name in names]

    def estimate_record_count(self) -> int | None:
        """Estimates the number of records by the length of lines at the start."""
        with self._open() as stream:
            return estimate_line_count(stream, self.path)

    def batches(
        self, names: Sequence[str], rows: int
    ) -> Iterator[Mapping[str, pa.Array]]:
        """Yields some columns as text, at most `rows` records at a time.

        Args:
            names: The columns. What a record lacks is missing.
            rows: The most records of a batch.

        Raises:
            DataError: that names file and line, for what is no JSON object, or one with
                a name that the schema does not know.
        """
        known_names: set[str] | None = None
        if self.layout.names:
            known_names = {*self.layout.names, *self.layout.ignored, *names}
        columns: dict[str, list[str | None]] = {name: [] for name in names}
        row_count = 0
        for line, record in self._records():
            if known_names is not None and not known_names.issuperset(record):
                raise DataError(
                    f"{self.name}, line {line}: the record has a name that is neither "
                    "in the schema nor under `ignore`, and not in the first record; "
                    "describe it there, or list it under `ignore`"
                )
            for name, cells in columns.items():
                cells.append(record.get(name))
            row_count += 1
            if row_count == rows:
                yield _to_arrow(columns)
                columns = {name: [] for name in names}
                row_count = 0
        if row_count:
            yield _to_arrow(columns)

    def locate(self, row: int) -> str:
        """Returns where a record stands, as `adult.jsonl, line 7`."""
        with suppress(DataError):
            for index, (line, _) in enumerate(self._records()):
                if index == row:
                    return f"{self.name}, line {line}"
        return self.record_number(row)

    @contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        """Opens the text of the file, as UTF-8."""
        with read_text_of(
            open_file(self.path),
            self.path,
            packing=self.packing,
            encoding=self.layout.form.encoding,
        ) as stream:
            yield stream

    def _records(self) -> Iterator[tuple[int, dict[str, str | None]]]:
        """Yields the number of each line that is not empty, and the texts in it.

        Raises:
            DataError: that names file and line.
        """
        line_number = 0
        try:
            for line_number, line in enumerate(self._lines(), start=1):
                if line.strip():
                    yield line_number, _parse_record(line)
            return
        except _Unreadable as problem:
            message = f"{self.name}, line {line_number}: {problem.reason}"
        except RecordProblem as problem:
            message = f"{self.name}, line {line_number + 1}: {problem.reason}"
        except OSError as error:
            raise unreadable_error(self.path, error) from None
        # Raised outside the handler, which knows the record.
        raise DataError(message)

    def _lines(self) -> Iterator[bytes]:
        """Yields the lines of the file, without their ends."""
        carried = b""
        with self._open() as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                *lines, carried = (carried + chunk).split(b"\n")
                yield from lines
                if len(carried) > MAX_RECORD_BYTES:
                    yield carried
                    raise _Unreadable(
                        f"the record is longer than {MAX_RECORD_BYTES:,} bytes; write "
                        "each on a line of its own"
                    )
        if carried:
            yield carried


def _to_arrow(columns: Mapping[str, Sequence[str | None]]) -> dict[str, pa.Array]:
    """Converts columns of text to Arrow."""
    return {name: pa.array(cells, pa.string()) for name, cells in columns.items()}


def _parse_record(line: bytes) -> dict[str, str | None]:
    """Returns the texts in a line, by their names; None for null.

    Raises:
        _Unreadable: if it is no JSON object of single values with distinct names.
    """
    try:
        record = _DECODER.decode(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise _Unreadable(
            "is no JSON object; expected one for each record, such as "
            '{"age": 41}, each on a line of its own, in UTF-8'
        )
    return {
        name.strip(TEXT_PADDING): _json_text(value) for name, value in record.items()
    }


def _distinct_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object of JSON.

    Raises:
        _Unreadable: if it has a name twice.
    """
    record = dict(pairs)
    if len(record) < len(pairs):
        raise _Unreadable("the record has a name twice; keep one")
    return record


# Numbers stay text, as they are written: the schema reads them.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_distinct_pairs,
    parse_int=str,
    parse_float=str,
    parse_constant=str,
)


def _json_text(value: Any) -> str | None:
    """Returns a value of JSON as text.

    Raises:
        _Unreadable: for a list or an object.
    """
    if type(value) is str:
        return value
    if isinstance(value, list | dict):
        raise _Unreadable(
            "a value is a list or an object; write its parts under names of their own"
        )
    return value_text(value)
