"""The tables of Rdatasets that verdicts are judged on, in a random order that is always the same.

The order is that of the SHA-1 of their names, so that any prefix is a random sample. Its first digit says whose a table
is: 0 to 9 and a are for development; b is held out here, for final figures; c to f are reserved for somebody else, and
are refused.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

MIN_RECORDS = 300
MAX_RECORDS = 40_000
MIN_COLUMNS = 3
MAX_COLUMNS = 60

_DEVELOPMENT_DIGITS = "0123456789a"
_HELD_OUT_DIGITS = "b"
# Rdatasets numbers the rows of every table in its first column.
_ROW_NUMBER = "rownames"


class ReservedTableError(Exception):
    """A table is reserved for somebody else's final figures, and must not be read."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of Rdatasets.

    Attributes:
        name: "PACKAGE/NAME".
        path: Its CSV file.
        records: Number of records, as the list of Rdatasets says it.

    Raises:
        ReservedTableError: if the table is reserved.
    """

    name: str
    path: Path
    records: int

    def __post_init__(self) -> None:
        """Refuses a reserved table, so that there is no object to read it with."""
        if not (is_for_development(self.name) or is_held_out(self.name)):
            raise ReservedTableError(self.name)

    def column_names(self) -> list[str]:
        """Reads the names of the columns, without the row number."""
        with open_text(self.path) as file:
            header = next(csv.reader(file), [])
        return header[1:] if header[:1] == [_ROW_NUMBER] else header

    def rows(self) -> list[list[str]]:
        """Reads header and records as text, without the row number."""
        with open_text(self.path) as file:
            rows = list(csv.reader(file))
        if rows[0][0] != _ROW_NUMBER:
            return rows
        return [row[1:] for row in rows]


def open_text(path: Path, mode: str = "r") -> IO[str]:
    """Opens a CSV file so that bytes which are no UTF-8 are copied as they are."""
    return path.open(mode, newline="", encoding="utf-8", errors="surrogateescape")


def digest(name: str) -> str:
    """Returns the SHA-1 of a table's name, in hexadecimal digits."""
    return hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()


def is_for_development(name: str) -> bool:
    """Returns whether rules may be chosen on a table.

    Examples:
        >>> is_for_development("AER/Affairs"), digest("AER/Affairs")[0]
        (False, 'f')
    """
    return digest(name)[0] in _DEVELOPMENT_DIGITS


def is_held_out(name: str) -> bool:
    """Returns whether a table is for the final figures of this benchmark."""
    return digest(name)[0] in _HELD_OUT_DIGITS


def find_tables(folder: Path, *, held_out: bool) -> Iterator[Table]:
    """Yields the tables that are large enough, in the order of the SHA-1 of their names.

    Several packages have the same table. So one with the column names and the number of records of an earlier one is
    left out, and so is one whose file is missing. The tables for development come first in that order, so that no
    held-out table replaces one of them.

    Args:
        folder: A checkout of Rdatasets, or an export of its `datasets.csv` and its folder `csv`.
        held_out: Whether to yield the tables that are held out here, and no others.
    """
    seen_forms: set[tuple[int, tuple[str, ...]]] = set()
    for table in _listed_tables(folder):
        if not (MIN_RECORDS <= table.records <= MAX_RECORDS and table.path.exists()):
            continue
        names = table.column_names()
        form = (table.records, tuple(names))
        if not MIN_COLUMNS <= len(names) <= MAX_COLUMNS or form in seen_forms:
            continue
        seen_forms.add(form)
        if is_held_out(table.name) == held_out:
            yield table


def _listed_tables(folder: Path) -> list[Table]:
    """Returns all tables of the list of Rdatasets that are not reserved, by the SHA-1 of their names."""
    with (folder / "datasets.csv").open(newline="", encoding="utf-8") as file:
        entries = list(csv.DictReader(file))
    tables = []
    for entry in entries:
        name = f"{entry['Package']}/{entry['Item']}"
        if is_for_development(name) or is_held_out(name):
            path = folder / "csv" / f"{name}.csv"
            tables.append(Table(name=name, path=path, records=int(entry["Rows"])))
    return sorted(tables, key=lambda table: digest(table.name))
