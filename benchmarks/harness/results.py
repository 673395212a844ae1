"""Figures on disk: JSON files, and rows that are made once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def read_json(path: Path | None, default: Any = None) -> Any:
    """Reads a JSON file; returns the default where there is none."""
    if path is None or not path.exists():
        return default
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path | None, content: Any, *, indent: int = 2) -> None:
    """Writes a JSON file whole or not at all, so that a run that is stopped leaves no half of one.

    Without a path nothing is written.
    """
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(content, indent=indent) + "\n", encoding="utf-8")
    part.replace(path)


def kept(path: Path, compute: Callable[[], Any]) -> Any:
    """Reads a JSON file, which is computed and written first where it is not there."""
    if not path.exists():
        write_json(path, compute())
    return read_json(path)


class Rows:
    """Rows in a JSON file, one for each run: a run that has a row is not made again.

    Attributes:
        rows: All of them, in the order in which they were made.
    """

    def __init__(self, path: Path | None, *, indent: int = 1) -> None:
        self._path = path
        self._indent = indent
        self.rows: list[Row] = read_json(path, [])

    def find(self, key: Mapping[str, Any]) -> Row | None:
        """Returns the first row with these values; None where there is none."""
        for row in self.rows:
            if all(name in row and row[name] == value for name, value in key.items()):
                return row
        return None

    def add(self, row: Row) -> Row:
        """Adds a row, and writes the file."""
        self.rows.append(row)
        write_json(self._path, self.rows, indent=self._indent)
        return row

    def make(self, key: Mapping[str, Any], compute: Callable[[], Row]) -> Row:
        """Returns the row of a run, which is computed where there is none: its key, and the figures."""
        return self.find(key) or self.add({**key, **compute()})


class Lines:
    """Rows in a file of JSON lines, to which each is appended at once.

    Attributes:
        rows: All of them, in the order in which they were made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: list[Row] = list(read_lines(path))

    def keys(self, *names: str) -> set[tuple[Any, ...]]:
        """Returns what the rows have under some names, by which runs are told from each other."""
        return {tuple(row[name] for name in names) for row in self.rows}

    def add(self, row: Any) -> None:
        """Appends a row."""
        self.rows.append(row)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def read_lines(path: Path) -> Iterator[Any]:
    """Yields the rows of a file of JSON lines; none where there is no file."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)
