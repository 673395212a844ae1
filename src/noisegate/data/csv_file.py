"""Records in a CSV file, read as text in constant memory."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pyarrow as pa
import pyarrow.csv as pa_csv

from noisegate.errors import DataError
from noisegate.schema.checks import TEXT_PADDING

_BLOCK = 1 << 20  # bytes in memory at a time


@dataclass(frozen=True)
class CsvFile:
    """A CSV file with a header line, separated by commas, in UTF-8.

    Attributes:
        path: the file.
    """

    path: Path
    typed = False

    @property
    def name(self) -> str:
        """The file name."""
        return self.path.name

    def columns(self) -> Mapping[int, tuple[str, pa.DataType]]:
        """Return the names in the header, all of type string; nothing beyond the header is looked at.

        Raises:
            DataError: if the file is empty, unreadable or not UTF-8.
        """
        return {i: (name.strip(TEXT_PADDING), pa.string()) for i, name in enumerate(self._header())}

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Mapping[str, pa.Array]]:
        """Yield the columns called ``names`` as text, about a megabyte of the file at a time.

        Raises:
            DataError: naming the line that cannot be read.
        """
        header = self._header()
        wanted = {raw: raw.strip(TEXT_PADDING) for raw in header if raw.strip(TEXT_PADDING) in names}
        failed = False
        try:
            reader = pa_csv.open_csv(
                self.path,
                read_options=pa_csv.ReadOptions(block_size=_BLOCK, use_threads=False),
                parse_options=pa_csv.ParseOptions(newlines_in_values=True),
                convert_options=pa_csv.ConvertOptions(
                    include_columns=list(wanted),
                    column_types=dict.fromkeys(wanted, pa.string()),
                    strings_can_be_null=False,
                ),
            )
            for batch in reader:
                yield {wanted[raw]: batch.column(raw) for raw in wanted}
        except (pa.ArrowException, OSError):
            failed = True  # raised below: Arrow's message quotes the record, which is private
        if failed:
            raise self._broken(len(header))

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

    def _header(self) -> list[str]:
        try:
            with self._open() as stream:
                header = next((fields for fields in csv.reader(stream) if fields), None)
        except UnicodeDecodeError:
            raise self._not_utf8() from None
        except (csv.Error, OSError) as error:
            raise DataError(
                f"{self.name}: the first line cannot be read ({type(error).__name__}); save it as CSV"
            ) from None
        if header is None:
            raise DataError(f"{self.name}: the file is empty; expected a first line with the names of the columns")
        return header

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
            f"{self.name}, line {last + 1} or later: the record cannot be read as CSV; look for a double quote that is "
            "never closed, or a record longer than a megabyte"
        )

    def _not_utf8(self) -> DataError:
        with open(self.path, "rb") as stream:
            line = next((number for number, content in enumerate(stream, start=1) if not _is_utf8(content)), 1)
        return DataError(f"{self.name}, line {line}: the text is not UTF-8; save the file as CSV in UTF-8")


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True
