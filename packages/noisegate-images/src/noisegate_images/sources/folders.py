"""Images as files in a folder: one folder for each class, all in one folder, or with a table of their labels.

The table is `labels.csv` with a column `file`, or `metadata.csv` with `file_name`, as
Hugging Face has it; files that it does not list are not read. Without one, hidden files
and folders, what systems leave behind, and texts and tables are not read. Every other
file is an image, whatever it is called, so that none is left out without a word.
"""

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import pyarrow as pa

from noisegate.errors import DataError
from noisegate.sources.tables.csv_file import CsvFile
from noisegate.sources.tables.tables import explain_hidden_value
from noisegate.sources.units import check_unit_column
from noisegate_images.sources.decode import (
    ImageOrigin,
    ImageReadOptions,
    PictureFile,
    Pictures,
)

LIST, METADATA = (
    "labels.csv",
    "metadata.csv",
)  # the names that the table in the folder of the images may have
UNIT_FOLDER = "folder"  # what the unit column is called where images of one person lie in a folder of their own

_FILES = {LIST: "file", METADATA: "file_name"}
_LEFT_BEHIND = ("thumbs.db", "desktop.ini", "__macosx", "license", "readme")
_TEXTS = (
    ".txt",
    ".md",
    ".rst",
    ".csv",
    ".tsv",
    ".json",
    ".jsonl",
    ".xml",
    ".html",
    ".yaml",
    ".yml",
    ".toml",
    ".log",
)


class Listing(NamedTuple):
    """What a folder holds: names in order, without those that are not read."""

    files: tuple[str, ...]
    folders: tuple[str, ...]


def list_folder(path: Path) -> Listing:
    """Returns the files and folders directly in ``path``."""
    files, folders = list[str](), list[str]()
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                lower = entry.name.lower()
                if (
                    not lower.startswith(".")
                    and lower not in _LEFT_BEHIND
                    and not lower.endswith(_TEXTS)
                ):
                    (folders if entry.is_dir() else files).append(entry.name)
    except OSError as error:
        reason = error.strerror
    else:
        return Listing(tuple(sorted(files)), tuple(sorted(folders)))
    raise DataError(
        f"{path.name}: a folder of images cannot be read: {reason}; check its permissions"
    )


class ImageFolder(ImageOrigin):
    """A folder with a folder of images for each class, called as its label; or, without labels, images in either."""

    @cached_property
    def _root(self) -> str:
        return os.path.realpath(self.path)

    def check(self) -> None:
        """Checks the names of the folders; files are listed and not opened."""
        if self.options.unit_column not in (None, UNIT_FOLDER):
            raise DataError(
                f"{self.name}: a folder has no column {self.options.unit_column!r} that says whose image each one is; "
                f"put each person's images into a folder of their own, below that of the class, and call the column "
                f"{UNIT_FOLDER!r}; or write labels.csv, with the columns file, label and {self.options.unit_column}"
            )
        top = list_folder(self.path)
        if not top.files and not top.folders:
            raise DataError(f"{self.name}: the folder holds no images; check the path")
        if self.labelled:
            self._check_classes(top)
        found = False
        for folder in self._classes() if self._by_unit else ():
            if list_folder(folder).files:
                says = f"{self._where(folder)}: holds images outside of folders, so nobody knows whose they are"
                raise DataError(
                    f"{says}; put each person's images into a folder of their own"
                )
        for folder, names in self._files():
            found = found or bool(names)
            if folder != self.path and list_folder(folder).folders:
                cure = f"put the images of a {'person' if self._by_unit else 'class'} into one folder"
                raise DataError(
                    f"{self._where(folder)}: holds a folder, which would not be read; {cure}"
                )
        if not found:
            raise DataError(
                f"{self.name}: its folders hold no images; expected at least one"
            )

    def _check_classes(self, top: Listing) -> None:
        labels = {str(label) for label in self.options.form.labels}
        if top.files:
            what = (
                "images outside of class folders"
                if top.folders
                else "images and no class folders"
            )
            raise DataError(
                f"{self.name}: the folder holds {what}, and the schema declares labels; put each image into a folder "
                "that is called as its label, write labels.csv with the columns file and "
                f"{self.options.form.label}, or describe images without labels"
            )
        if unknown := [name for name in top.folders if name not in labels]:
            found = (
                f"the folder {unknown[0]!r}"
                if self.options.show_values
                else f"another folder ({explain_hidden_value()})"
            )
            raise DataError(
                f"{self.name}: expected folders that are called as one of the {len(labels)} labels in the schema, "
                f"found {found}; declare it as a label, rename or remove it; labels must be public knowledge"
            )

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yields the files in the order of their folders and names, ``rows`` at a time."""
        every = (folder / name for folder, names in self._files() for name in names)
        while files := list(islice(every, rows)):
            classes = [
                file.parent.parent if self._by_unit else file.parent for file in files
            ]
            yield Pictures(
                pictures=[PictureFile(file, self._root) for file in files],
                labels=pa.array([one.name for one in classes], pa.string())
                if self.labelled
                else None,
                units=pa.array([file.parent.name for file in files], pa.string())
                if self._by_unit
                else None,
            )

    def kept_in(self) -> Iterator[Path]:
        """Yields the folder and those in it."""
        yield from {
            self.path,
            *self._classes(),
            *(folder for folder, _ in self._files()),
        }

    def locate(self, row: int) -> str:
        """Returns the folder and the number of the image in the order of names; its name only where it may be shown."""
        for folder, names in self._files():
            if row < len(names):
                shown = (
                    f"/{names[row]}"
                    if self.options.show_values
                    else f", image {row + 1} in the order of names"
                )
                return f"{self._where(folder)}{shown}"
            row -= len(names)
        return self.name

    @property
    def _by_unit(self) -> bool:
        return self.options.unit_column == UNIT_FOLDER

    def _where(self, folder: Path) -> str:
        """Returns a folder as it may be shown: other names than those of labels are as private as those of files."""
        parts, at = [self.name], self.path
        for name in folder.relative_to(self.path).parts:
            public = self.options.show_values or (self.labelled and at == self.path)
            parts.append(
                name if public else f"folder {list_folder(at).folders.index(name) + 1}"
            )
            at = at / name
        return "/".join(parts)

    def _classes(self) -> Iterator[Path]:
        """Yields the folders right below which images lie, or the folders of whose they are."""
        yield from (
            self._within(self.path)
            if self.labelled or not self._by_unit
            else (self.path,)
        )

    def _files(self) -> Iterator[tuple[Path, tuple[str, ...]]]:
        """Yields each folder with the names of its files; one folder at a time is in memory."""
        top = list_folder(self.path)
        if top.files:
            yield self.path, top.files
        for one in self._classes():
            for folder in self._within(one) if self._by_unit else (one,):
                yield folder, list_folder(folder).files

    def _within(self, place: Path) -> Iterator[Path]:
        for name in list_folder(place).folders:
            folder = place / name
            real = os.path.realpath(folder)
            if os.path.commonpath([real, self._root]) != self._root:
                where = f"{self._where(folder)}: is a link that leads out of the folder"
                raise DataError(f"{where}, which is not followed; copy its images")
            yield folder


def find_list(path: Path, options: ImageReadOptions) -> str | None:
    """Returns the name of the table in a folder of images, or None if there is none."""
    # ``metadata.csv`` may hold anything, captions for instance, beside class folders: it is a table of images if it has
    # the column ``file_name``, and the label where one is asked for.
    listed, described = (path / LIST).is_file(), (path / METADATA).is_file()
    if described:
        names = {name for name, _ in CsvFile(path / METADATA).columns()}
        described = {_FILES[METADATA], options.form.label or _FILES[METADATA]} <= names
    if listed and described:
        raise DataError(
            f"{path.name}: holds {LIST} and {METADATA}, which both list its images; keep one of them"
        )
    return LIST if listed else METADATA if described else None


class ImageList(ImageOrigin):
    """A table in the folder of the images: a line for each, with the path of its file and its label."""

    @cached_property
    def _root(self) -> str:
        return os.path.realpath(self.path.parent)

    @cached_property
    def _table(self) -> CsvFile:
        return CsvFile(self.path)

    def kept_in(self) -> Iterator[Path]:
        """Yields the table."""
        yield self.path

    def check(self) -> None:
        """Checks the columns of the table; its other columns are not read."""
        columns, unit = self._table.columns(), self.options.unit_column
        names, wanted = [name for name, _ in columns], self._wanted()
        for name in wanted:
            if names.count(name) != 1 and name != unit:
                what = (
                    "is not there"
                    if name not in names
                    else "stands there more than once"
                )
                expected = f"expected a first line with the names {', '.join(wanted)}"
                raise DataError(f"{self.name}: the column {name!r} {what}; {expected}")
        if unit is not None:
            check_unit_column(unit, columns, self.name)

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yields the listed files in order, at most ``rows`` at a time."""
        seen: set[str] = set()
        done = 0
        for arrays in self._table.batches(self._wanted(), rows):
            length = len(arrays[_FILES[self.name]])
            for start in range(0, length, rows):
                yield self._pictures(
                    {name: array.slice(start, rows) for name, array in arrays.items()},
                    seen,
                    done,
                )
                done += min(rows, length - start)

    def locate(self, row: int) -> str:
        """Returns the name of the table and the line."""
        return self._table.locate(row)

    def _wanted(self) -> list[str]:
        optional = (self.options.form.label, self.options.unit_column)
        return [_FILES[self.name], *(name for name in optional if name is not None)]

    def _pictures(
        self, part: Mapping[str, pa.Array], seen: set[str], done: int
    ) -> Pictures:
        files, column = [], _FILES[self.name]
        for row, text in enumerate(part[column].to_pylist()):
            file = os.path.normpath(text.strip().replace("\\", "/"))
            problem = self._problem(file, seen) if text.strip() else _UNUSABLE
            if problem is not None:
                raise DataError(
                    f"{self.locate(done + row)}, column {column!r}: {problem}"
                )
            seen.add(file)
            files.append(PictureFile(self.path.parent / file, self._root))
        label, unit = self.options.form.label, self.options.unit_column
        # Nothing where the cell is empty.
        texts = (
            []
            if label is None
            else [text.strip() or None for text in part[label].to_pylist()]
        )
        labels = None if label is None else pa.array(texts, pa.string())
        return Pictures(
            pictures=files, labels=labels, units=None if unit is None else part[unit]
        )

    def _problem(self, file: str, seen: set[str]) -> str | None:
        """Returns what is wrong with the path of a file, without quoting it."""
        if (
            PurePosixPath(file).is_absolute()
            or file.startswith("..")
            or ":" in file[:2]
        ):
            return _UNUSABLE
        if file in seen:
            return "the file is listed for the second time; an image is one record: keep one line"
        if not (self.path.parent / file).is_file():
            return "there is no such file in this folder; correct the line, or add the file"
        return None


_UNUSABLE = (
    "expected the path of a file in this folder, relative to it; correct the line"
)
