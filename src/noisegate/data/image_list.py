"""Images as files in a folder with a table: a line for each image, with the path of its file and its label.

The table is ``labels.csv`` with a column ``file``, or ``metadata.csv`` with ``file_name``, as Hugging Face has it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

import pyarrow as pa

from noisegate.data.csv_file import CsvFile
from noisegate.data.image_labels import check_labels
from noisegate.data.image_origins import Asked, PictureFile, Pictures
from noisegate.data.unit_column import check_unit_column
from noisegate.errors import DataError

LIST, METADATA = "labels.csv", "metadata.csv"
"""The names that the table in the folder of the images may have."""

_FILES = {LIST: "file", METADATA: "file_name"}


def find_list(path: Path, asked: Asked) -> str | None:
    """Return the name of the table in a folder of images, or None if there is none.

    ``metadata.csv`` may hold anything, captions for instance, beside class folders: it is a table of images if it has
    the column ``file_name``, and the label where one is asked for.

    Raises:
        DataError: if there are two tables, or one cannot be read.
    """
    listed, described = (path / LIST).is_file(), (path / METADATA).is_file()
    if described:
        names = {name for name, _ in CsvFile(path / METADATA).columns().values()}
        described = {_FILES[METADATA], asked.form.label or _FILES[METADATA]} <= names
    if listed and described:
        raise DataError(f"{path.name}: holds {LIST} and {METADATA}, which both list its images; keep one of them")
    return LIST if listed else METADATA if described else None


@dataclass(frozen=True)
class ImageList:
    """A folder with a table of its images; files that it does not list are not read.

    Attributes:
        path: the folder.
        asked: what is asked of it.
        name: of the table.
    """

    path: Path
    asked: Asked
    name: str = LIST
    label_names = None

    @property
    def _file(self) -> str:
        """The column of paths, relative to the folder."""
        return _FILES[self.name]

    @cached_property
    def _table(self) -> CsvFile:
        return CsvFile(self.path / self.name)

    def check(self) -> None:
        """Check the columns of the table; its other columns are not read.

        Raises:
            DataError: if one that is needed is not there, or stands there twice.
        """
        columns = list(self._table.columns().values())
        names = [name for name, _ in columns]
        for name in self._wanted(with_unit=False):
            if names.count(name) != 1:
                what = "is not there" if name not in names else "stands there more than once"
                raise DataError(
                    f"{self.name}: the column {name!r} {what}; expected a first line with the names "
                    f"{', '.join(self._wanted())}"
                )
        if self.asked.unit_column is not None:
            check_unit_column(self.asked.unit_column, columns, self.name)
        if self.asked.form.label is not None:
            check_labels(pa.string(), None, self.asked.form, self.name)

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yield the listed files in order, at most ``rows`` at a time.

        Raises:
            DataError: naming the line, if a path is unusable, there is no such file, or a file is listed twice.
        """
        seen: set[str] = set()
        done = 0
        for arrays in self._table.batches(self._wanted(), rows):
            for start in range(0, len(arrays[self._file]), rows):
                part = {name: array.slice(start, rows) for name, array in arrays.items()}
                yield self._pictures(part, seen, done)
                done += len(part[self._file])

    def place(self, row: int) -> str:
        """Return the name of the table and the line."""
        return self._table.place(row)

    def _wanted(self, *, with_unit: bool = True) -> list[str]:
        optional = (self.asked.form.label, self.asked.unit_column if with_unit else None)
        return [self._file, *(name for name in optional if name is not None)]

    def _pictures(self, part: Mapping[str, pa.Array], seen: set[str], done: int) -> Pictures:
        files = []
        for row, text in enumerate(part[self._file].to_pylist()):
            problem = self._problem(text.strip(), seen)
            if problem is not None:
                raise DataError(f"{self.place(done + row)}, column {self._file!r}: {problem}")
            seen.add(_plain(text))
            files.append(PictureFile(self.path / _plain(text), self._root))
        label, unit = self.asked.form.label, self.asked.unit_column
        return Pictures(
            pictures=files,
            labels=None if label is None else _labels(part[label]),
            units=None if unit is None else part[unit],
        )

    def _problem(self, text: str, seen: set[str]) -> str | None:
        """Return what is wrong with the path of a file, without quoting it."""
        plain = _plain(text)
        if not text or PurePosixPath(plain).is_absolute() or plain.startswith("..") or ":" in plain[:2]:
            return "expected the path of a file in this folder, relative to it; correct the line"
        if plain in seen:
            return "the file is listed for the second time; an image is one record: keep one line"
        if not (self.path / plain).is_file():
            return "there is no such file in this folder; correct the line, or add the file"
        return None

    @cached_property
    def _root(self) -> str:
        return os.path.realpath(self.path)


def _plain(text: str) -> str:
    return os.path.normpath(text.strip().replace("\\", "/"))


def _labels(texts: pa.Array) -> pa.Array:
    """Return labels with nothing where the cell is empty."""
    return pa.array([text.strip() or None for text in texts.to_pylist()], pa.string())
