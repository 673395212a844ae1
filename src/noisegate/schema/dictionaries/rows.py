"""Sheets of a data dictionary, CSV or Excel, as rows of text under their headings."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from noisegate.errors import MissingExtraError, SchemaError
from noisegate.schema.files import read_text

EXCEL = (".xlsx", ".xlsm")
_MARKS = (",", ";", "\t", "|")
_HEADINGS = 10


def read_sheets(path: Path) -> dict[str, list[list[str]]]:
    """Return the rows of each sheet by its name; a CSV file has one, called as the file."""
    if path.suffix.lower() in EXCEL:
        return _workbook(path)
    text = read_text(path, "dictionary")
    first = next((line for line in text.splitlines() if line.strip()), "")
    mark = max(_MARKS, key=first.count)
    try:
        return {path.stem: [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text), delimiter=mark)]}
    except csv.Error as error:
        raise SchemaError(f"dictionary {path} is no CSV file: {error}; correct it, or save it anew") from None


def _workbook(path: Path) -> dict[str, list[list[str]]]:
    try:
        from openpyxl import load_workbook
        from openpyxl.utils.exceptions import InvalidFileException
    except ModuleNotFoundError:
        raise MissingExtraError.of("openpyxl", f"dictionary {path}") from None
    from zipfile import BadZipFile

    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except OSError as error:
        raise SchemaError(f"dictionary {path} cannot be read: {error.strerror}; check the path") from None
    except (BadZipFile, InvalidFileException, KeyError, ValueError):
        raise SchemaError(f"dictionary {path} is no Excel workbook; save it anew as .xlsx, or as CSV") from None
    try:
        return {
            sheet.title: [[_text(cell) for cell in row] for row in sheet.iter_rows(values_only=True)] for sheet in book
        }
    finally:
        book.close()


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, datetime) and cell == datetime(cell.year, cell.month, cell.day):
        cell = cell.date()
    if isinstance(cell, date | datetime):
        return cell.isoformat()
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return str(int(cell)) if isinstance(cell, float) and cell == int(cell) else str(cell).strip()


def heading(text: str) -> str:
    """Return a heading without case, blanks and marks: "Variable / Field Name" is "variablefieldname"."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def headed_rows(
    rows: Sequence[Sequence[str]], wanted: Mapping[str, Iterable[str]], needed: str
) -> list[dict[str, str]] | None:
    """Return the rows below the headings, each by what `wanted` calls a heading; None without one for `needed`."""
    for place, row in enumerate(rows[:_HEADINGS]):
        found = [heading(cell) for cell in row]
        columns = {
            key: next((found.index(name) for name in names if name in found), None) for key, names in wanted.items()
        }
        if columns[needed] is not None and len([cell for cell in found if cell]) > 1:
            return [
                {key: row[at] if at is not None and at < len(row) else "" for key, at in columns.items()}
                for row in rows[place + 1 :]
                if any(row)
            ]
    return None


def split_codes(text: str) -> list[tuple[str, str]]:
    """Return the codes with their meanings of "1=Male | 2=Female", "1, Male | 2, Female" or "Male; Female"."""
    mark = next((mark for mark in ("|", "\n", ";") if mark in text), None)
    items = [item.strip() for item in (text.split(mark) if mark else text.split(","))]
    equals = r"\s*(?:=|:|\s-\s)\s*" if mark or "=" in text or ":" in text else r"$^"
    if mark and all(re.match(r"[^,=:]{1,20},", item) for item in items if item):
        equals = r"\s*,\s*"
    pairs = [re.split(equals, item, maxsplit=1) for item in items if item]
    return [(_bare(pair[0]), _bare(pair[1]) if len(pair) > 1 else "") for pair in pairs]


def _bare(text: str) -> str:
    return text.strip().strip("\"'").strip()
