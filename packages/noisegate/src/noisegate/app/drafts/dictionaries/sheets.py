"""Sheets of CSV and Excel files, as rows of text, and the rows below their headings."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

from noisegate.errors import MissingExtraError, SchemaError
from noisegate.schema.files import read_text

EXCEL = (".xlsx", ".xlsm")

Row: TypeAlias = Sequence[str]

_SEPARATORS = (",", ";", "\t", "|")
_MAX_ROWS_ABOVE = 10  # titles and notes above the headings


def read_sheets(path: Path) -> dict[str, list[list[str]]]:
    """Reads a CSV or Excel file.

    Args:
        path: The file. A CSV file has the separator that is most frequent in its first
            line.

    Returns:
        The rows of each sheet, by its name, their cells without blanks around them. A
        CSV file has one sheet, called like the file.

    Raises:
        SchemaError: if it cannot be read.
        MissingExtraError: for Excel without openpyxl.
    """
    if path.suffix.lower() in EXCEL:
        return _read_workbook(path)
    text = read_text(path, "dictionary")
    lines = [line for line in text.splitlines() if line.strip()]
    first_line = lines[0] if lines else ""
    separator = max(_SEPARATORS, key=first_line.count)
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=separator))
    except csv.Error as error:
        raise SchemaError(
            f"dictionary {path} is no CSV file: {error}; correct it, or save it again"
        ) from None
    return {path.stem: [[cell.strip() for cell in row] for row in rows]}


def _read_workbook(path: Path) -> dict[str, list[list[str]]]:
    """Reads the sheets of an Excel file; of formulas, the values that were saved."""
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ModuleNotFoundError:
        raise MissingExtraError.of("openpyxl", f"dictionary {path}") from None
    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except OSError as error:
        raise SchemaError(
            f"dictionary {path} cannot be read: {error.strerror}; check the path"
        ) from None
    except (BadZipFile, InvalidFileException, KeyError, ValueError):
        raise SchemaError(
            f"dictionary {path} is no Excel workbook; save it again as .xlsx, or as CSV"
        ) from None
    try:
        return {
            sheet.title: [
                [_cell_text(cell) for cell in row]
                for row in sheet.iter_rows(values_only=True)
            ]
            for sheet in book
        }
    finally:
        book.close()


def _cell_text(cell: Any) -> str:
    """Returns a cell of Excel as a CSV file would have it."""
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        is_date = cell == datetime(cell.year, cell.month, cell.day)
        return cell.date().isoformat() if is_date else cell.isoformat()
    if isinstance(cell, date):
        return cell.isoformat()
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float) and cell == int(cell):
        return str(int(cell))
    return str(cell).strip()


def rows_below_headings(
    rows: Sequence[Row], headings: Mapping[str, str], *, required: str
) -> list[dict[str, str]] | None:
    """Finds the headings among the first rows of a sheet, and reads the rows below.

    Headings are compared without case, blanks and marks.

    Args:
        rows: The rows of a sheet.
        headings: By each key, the headings that may stand above its column, separated
            by blanks, the likelier ones first.
        required: The key that must have a column.

    Returns:
        The cells of each row that is not empty, by key, "" for a key without a column;
        None if no row has a heading for the required key and another one beside it.

    Examples:
        >>> from noisegate.app.drafts.dictionaries.sheets import rows_below_headings
        >>> rows = [["Study 7", ""], ["Variable Name", "Type"], ["age", "integer"]]
        >>> headings = {"name": "variablename name", "type": "type"}
        >>> rows_below_headings(rows, headings, required="name")
        [{'name': 'age', 'type': 'integer'}]
    """
    for index, row in enumerate(rows[:_MAX_ROWS_ABOVE]):
        titles = [re.sub(r"[^a-z0-9]", "", cell.lower()) for cell in row]
        positions = {
            key: _first_position(titles, names.split())
            for key, names in headings.items()
        }
        title_count = sum(1 for title in titles if title)
        if positions[required] is not None and title_count > 1:
            return [
                {key: _cell_at(cells, position) for key, position in positions.items()}
                for cells in rows[index + 1 :]
                if any(cells)
            ]
    return None


def _first_position(titles: Sequence[str], names: Sequence[str]) -> int | None:
    """Returns where the first of some names stands among titles, or None."""
    for name in names:
        if name in titles:
            return titles.index(name)
    return None


def _cell_at(cells: Row, position: int | None) -> str:
    """Returns a cell of a row; "" if there is none."""
    if position is None or position >= len(cells):
        return ""
    return cells[position]
