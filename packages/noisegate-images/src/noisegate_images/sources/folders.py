"""Images as files in a folder: one folder for each class, all in one folder, or with a table of their labels.

The table is `labels.csv` with a column `file`, or `metadata.csv` with `file_name`, as
Hugging Face has it; files that it does not list are not read. Without one, hidden files
and folders, what systems leave behind, and texts and tables are not read. Every other
file is an image, whatever it is called, so that none is left out without a word.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
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

LIST = "labels.csv"
"""The table in a folder of images, with a column `file`."""
METADATA = "metadata.csv"
"""The same as Hugging Face writes it, with a column `file_name`."""
UNIT_FOLDER = "folder"
"""What the unit column is called where images of one person lie in a folder of their own."""

_FILE_COLUMNS = {LIST: "file", METADATA: "file_name"}
_LEFT_BEHIND = ("thumbs.db", "desktop.ini", "__macosx", "license", "readme")
_TEXT_EXTENSIONS = (
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
    """Returns the files and folders directly in a folder, without those that are not read."""
    files: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if not _may_be_image(entry.name):
                    continue
                if entry.is_dir():
                    folders.append(entry.name)
                else:
                    files.append(entry.name)
    except OSError as error:
        reason = error.strerror
    else:
        return Listing(tuple(sorted(files)), tuple(sorted(folders)))
    # Raised outside the handler, as the system's message quotes the path.
    raise DataError(
        f"{path.name}: a folder of images cannot be read: {reason}; check its "
        "permissions"
    )


def _may_be_image(name: str) -> bool:
    """Returns whether a file of a name is read; all are that are not hidden, left behind by systems, or text."""
    lower = name.lower()
    is_hidden = lower.startswith(".")
    is_text = lower.endswith(_TEXT_EXTENSIONS)
    return not is_hidden and lower not in _LEFT_BEHIND and not is_text


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
        if self._by_unit:
            self._check_units()
        self._check_files()

    def _check_units(self) -> None:
        """Refuses images beside the folders of whose they are."""
        for folder in self._classes():
            if list_folder(folder).files:
                raise DataError(
                    f"{self._where(folder)}: holds images outside of folders, so nobody "
                    "knows whose they are; put each person's images into a folder of "
                    "their own"
                )

    def _check_files(self) -> None:
        """Refuses folders in the folders of images, and folders without any image."""
        has_images = False
        for folder, names in self._files():
            has_images = has_images or bool(names)
            if folder != self.path and list_folder(folder).folders:
                owner = "person" if self._by_unit else "class"
                raise DataError(
                    f"{self._where(folder)}: holds a folder, which would not be read; "
                    f"put the images of a {owner} into one folder"
                )
        if not has_images:
            raise DataError(
                f"{self.name}: its folders hold no images; expected at least one"
            )

    def _check_classes(self, top: Listing) -> None:
        labels = {str(label) for label in self.options.form.labels}
        if top.files:
            if top.folders:
                what = "images outside of class folders"
            else:
                what = "images and no class folders"
            raise DataError(
                f"{self.name}: the folder holds {what}, and the schema declares labels; put each image into a folder "
                "that is called as its label, write labels.csv with the columns file and "
                f"{self.options.form.label}, or describe images without labels"
            )
        unknown_names = [name for name in top.folders if name not in labels]
        if unknown_names:
            if self.options.show_values:
                folder = f"the folder {unknown_names[0]!r}"
            else:
                folder = f"another folder ({explain_hidden_value()})"
            raise DataError(
                f"{self.name}: expected folders that are called as one of the "
                f"{len(labels)} labels in the schema, found {folder}; declare it as a "
                "label, rename or remove it; labels must be public knowledge"
            )

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yields the files in the order of their folders and names, ``rows`` at a time."""
        all_files = (folder / name for folder, names in self._files() for name in names)
        while True:
            files = list(islice(all_files, rows))
            if not files:
                return
            labels = None
            if self.labelled:
                labels = pa.array([self._class_of(file) for file in files], pa.string())
            units = None
            if self._by_unit:
                units = pa.array([file.parent.name for file in files], pa.string())
            yield Pictures(
                pictures=[PictureFile(file, self._root) for file in files],
                labels=labels,
                units=units,
            )

    def _class_of(self, file: Path) -> str:
        """Returns the name of the folder that says the label of an image."""
        folder = file.parent.parent if self._by_unit else file.parent
        return folder.name

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
                where = self._where(folder)
                if self.options.show_values:
                    return f"{where}/{names[row]}"
                return f"{where}, image {row + 1} in the order of names"
            row -= len(names)
        return self.name

    @property
    def _by_unit(self) -> bool:
        return self.options.unit_column == UNIT_FOLDER

    def _where(self, folder: Path) -> str:
        """Returns a folder as it may be shown: other names than those of labels are as private as those of files."""
        parts = [self.name]
        parent = self.path
        for name in folder.relative_to(self.path).parts:
            is_label = self.labelled and parent == self.path
            if self.options.show_values or is_label:
                parts.append(name)
            else:
                number = list_folder(parent).folders.index(name) + 1
                parts.append(f"folder {number}")
            parent = parent / name
        return "/".join(parts)

    def _classes(self) -> Iterator[Path]:
        """Yields the folders right below which images lie, or the folders of whose they are."""
        if self._by_unit and not self.labelled:
            yield self.path
        else:
            yield from self._folders_in(self.path)

    def _files(self) -> Iterator[tuple[Path, tuple[str, ...]]]:
        """Yields each folder with the names of its files; one folder at a time is in memory."""
        top = list_folder(self.path)
        if top.files:
            yield self.path, top.files
        for class_folder in self._classes():
            if self._by_unit:
                folders: Iterable[Path] = self._folders_in(class_folder)
            else:
                folders = (class_folder,)
            for folder in folders:
                yield folder, list_folder(folder).files

    def _folders_in(self, parent: Path) -> Iterator[Path]:
        """Yields the folders right below another; refuses links that lead out of the folder of images."""
        for name in list_folder(parent).folders:
            folder = parent / name
            target = os.path.realpath(folder)
            if os.path.commonpath([target, self._root]) != self._root:
                raise DataError(
                    f"{self._where(folder)}: is a link that leads out of the folder, "
                    "which is not followed; copy its images"
                )
            yield folder


def find_list(path: Path, options: ImageReadOptions) -> str | None:
    """Returns the name of the table in a folder of images, or None if there is none."""
    has_list = (path / LIST).is_file()
    has_metadata = _lists_images(path / METADATA, options.form.label)
    if has_list and has_metadata:
        raise DataError(
            f"{path.name}: holds {LIST} and {METADATA}, which both list its images; "
            "keep one of them"
        )
    if has_list:
        return LIST
    return METADATA if has_metadata else None


def _lists_images(metadata: Path, label: str | None) -> bool:
    """Returns whether `metadata.csv` is there, and is a table of images.

    It may hold anything, captions for instance, beside class folders: it is a table of
    images if it has the column `file_name`, and the label where one is asked for.
    """
    if not metadata.is_file():
        return False
    names = {name for name, _ in CsvFile(metadata).columns()}
    return _FILE_COLUMNS[METADATA] in names and (label is None or label in names)


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
        columns = self._table.columns()
        names = [name for name, _ in columns]
        unit_column = self.options.unit_column
        expected_names = self._read_columns()
        for name in expected_names:
            if name == unit_column or names.count(name) == 1:
                continue
            problem = "stands there more than once" if name in names else "is not there"
            raise DataError(
                f"{self.name}: the column {name!r} {problem}; expected a first line with "
                f"the names {', '.join(expected_names)}"
            )
        if unit_column is not None:
            check_unit_column(unit_column, columns, self.name)

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yields the listed files in order, at most ``rows`` at a time."""
        seen_files: set[str] = set()
        rows_before = 0
        for arrays in self._table.batches(self._read_columns(), rows):
            row_count = len(arrays[self._file_column])
            for start in range(0, row_count, rows):
                part = {
                    name: array.slice(start, rows) for name, array in arrays.items()
                }
                yield self._pictures(part, seen_files, rows_before)
                rows_before += min(rows, row_count - start)

    def locate(self, row: int) -> str:
        """Returns the name of the table and the line."""
        return self._table.locate(row)

    @property
    def _file_column(self) -> str:
        """The name of the column with the paths of the files."""
        return _FILE_COLUMNS[self.name]

    def _read_columns(self) -> list[str]:
        """Returns the names of the columns that are read."""
        names = [self._file_column]
        for name in (self.options.form.label, self.options.unit_column):
            if name is not None:
                names.append(name)
        return names

    def _pictures(
        self, part: Mapping[str, pa.Array], seen_files: set[str], rows_before: int
    ) -> Pictures:
        """Returns the images of some lines of the table.

        Args:
            part: The columns of these lines, by name.
            seen_files: The files of all lines before, to which these are added.
            rows_before: Number of the lines before.
        """
        pictures = []
        for row, text in enumerate(part[self._file_column].to_pylist()):
            file = os.path.normpath(text.strip().replace("\\", "/"))
            problem = _UNUSABLE
            if text.strip():
                problem = self._problem(file, seen_files)
            if problem:
                where = self.locate(rows_before + row)
                raise DataError(f"{where}, column {self._file_column!r}: {problem}")
            seen_files.add(file)
            pictures.append(PictureFile(self.path.parent / file, self._root))
        labels = None
        label = self.options.form.label
        if label is not None:
            # Nothing where the cell is empty.
            texts = [text.strip() or None for text in part[label].to_pylist()]
            labels = pa.array(texts, pa.string())
        unit_column = self.options.unit_column
        units = None if unit_column is None else part[unit_column]
        return Pictures(pictures=pictures, labels=labels, units=units)

    def _problem(self, file: str, seen_files: set[str]) -> str:
        """Returns what is wrong with the path of a file, without quoting it; "" for nothing."""
        has_drive = ":" in file[:2]
        leads_out = PurePosixPath(file).is_absolute() or file.startswith("..")
        if leads_out or has_drive:
            return _UNUSABLE
        if file in seen_files:
            return "the file is listed for the second time; an image is one record: keep one line"
        if not (self.path.parent / file).is_file():
            return "there is no such file in this folder; correct the line, or add the file"
        return ""


_UNUSABLE = (
    "expected the path of a file in this folder, relative to it; correct the line"
)
