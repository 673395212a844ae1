"""Workbooks of Excel and LibreOffice, one sheet of which is a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from noisegate.errors import DataError, choices, require
from noisegate.schema.checks import TEXT_PADDING
from noisegate.sources.stores import open_file, unreadable_error
from noisegate.sources.tables.cells import value_text
from noisegate.sources.tables.parts import WholeFile


@dataclass(frozen=True)
class Spreadsheet(WholeFile):
    """A sheet of a workbook. Its cells become text, which the schema reads.

    A sheet is held in memory while it is read; it has a million records at most.

    Attributes:
        path: The file.
        layout: What the schema says of the table: its sheet, the rows before the
            header, and whether there is one.
        has_types: False: the first row may be a record.
    """

    has_types = False
    declares_types = False

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """Returns the names in the header, each with the type string."""
        return [(name, pa.string()) for name in self._names(self._rows())]

    def estimate_record_count(self) -> int | None:
        """Returns None: only the whole sheet tells."""
        return None

    def batches(
        self, names: Sequence[str], rows: int
    ) -> Iterator[Mapping[str, pa.Array]]:
        """Yields some columns as text, at most `rows` records at a time.

        Rows without any cell are no records.

        Args:
            names: The columns.
            rows: The most records of a batch.

        Raises:
            DataError: if the file is damaged, or it is not clear which sheet is meant.
        """
        sheet_rows = self._rows()
        header = self._names(sheet_rows)
        positions = {name: position for position, name in enumerate(header)}
        records = (row for row in sheet_rows if any(cell != "" for cell in row))
        while batch := list(islice(records, rows)):
            yield {
                name: pa.array(
                    [_cell(row, positions[name]) for row in batch], pa.string()
                )
                for name in names
            }

    def locate(self, row: int) -> str:
        """Returns where a record stands, as `adult.xlsx, row 7`."""
        form = self.layout.form
        has_header = form.names_without_header(self.layout.names) is None
        record_index = 0
        for index, cells in enumerate(self._rows(), start=form.skip + 1):
            is_header = has_header and index == form.skip + 1
            if is_header or not any(cell != "" for cell in cells):
                continue
            if record_index == row:
                return f"{self.name}, row {index}"
            record_index += 1
        return self.record_number(row)

    def _names(self, rows: Iterator[list[Any]]) -> list[str]:
        """Returns the names of the columns, and takes the header off the rows.

        Raises:
            DataError: if the sheet is empty.
        """
        names = self.layout.form.names_without_header(self.layout.names)
        if names is not None:
            return list(names)
        header = next(rows, None)
        if header is None:
            raise DataError(
                f"{self.name}: the sheet is empty; expected a row with the names of the "
                "columns"
            )
        return [(value_text(cell) or "").strip(TEXT_PADDING) for cell in header]

    def _rows(self) -> Iterator[list[Any]]:
        """Returns the rows of the sheet, behind those that are to be skipped.

        Raises:
            MissingExtraError: if the package that reads workbooks is not installed.
            DataError: if the file is damaged or has several sheets.
        """
        require("python_calamine", f"{self.name}, a workbook,")
        from python_calamine import CalamineError, CalamineWorkbook, ZipError

        try:
            with open_file(self.path) as file:
                workbook = CalamineWorkbook.from_filelike(file)
                sheet = self._choose_sheet(workbook)
                rows: Iterator[list[Any]] = sheet.iter_rows()
            return islice(rows, self.layout.form.skip, None)
        except (CalamineError, ZipError, ValueError):
            pass
        except OSError as error:
            raise unreadable_error(self.path, error) from None
        # Raised outside the handler: the library's message may quote cells.
        raise DataError(
            f"{self.name}: cannot be read as a workbook; it is encrypted, cut off or "
            "damaged: save it again, without a password"
        )

    def _choose_sheet(self, workbook: Any) -> Any:
        """Returns the sheet that the schema names, or the only one that is not empty.

        Raises:
            DataError: if there is no such sheet.
        """
        sheet_name = self.layout.form.sheet
        if sheet_name:
            if sheet_name not in workbook.sheet_names:
                known_names = choices(sheet_name, workbook.sheet_names)
                raise DataError(
                    f"{self.name}: there is no sheet {sheet_name!r}, which the schema "
                    f"names under [file]; it has {known_names}"
                )
            return workbook.get_sheet_by_name(sheet_name)
        sheets = [
            workbook.get_sheet_by_index(index)
            for index in range(len(workbook.sheet_names))
        ]
        filled_sheets = [sheet for sheet in sheets if sheet.height]
        if len(filled_sheets) > 1:
            names = ", ".join(repr(sheet.name) for sheet in filled_sheets)
            raise DataError(
                f"{self.name}: has the sheets {names}; name one in the schema, as "
                f'sheet = "{filled_sheets[0].name}" under [file]'
            )
        return filled_sheets[0] if filled_sheets else sheets[0]


def _cell(row: Sequence[Any], position: int) -> str | None:
    """Returns a cell as text; None if it is empty."""
    value = row[position] if position < len(row) else ""
    return None if value == "" else value_text(value)
