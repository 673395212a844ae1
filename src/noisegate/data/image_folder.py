"""Images as files in a folder: one folder for each class, all in one folder, or with a table of labels beside them.

Hidden files and folders (their names begin with a dot, as in ``.DS_Store``), what systems leave behind (``Thumbs.db``,
``desktop.ini``, ``__MACOSX``), and texts and tables (``README.md``, ``*.txt``, ``*.csv`` …) are not read. Every other
file is an image, whatever it is called, so that none is left out without a word.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from noisegate.data.image_origins import NOT_SHOWN, Asked, PictureFile, Pictures
from noisegate.errors import DataError

_LEFT_BEHIND = ("thumbs.db", "desktop.ini", "__macosx", "license", "readme")
_TEXTS = (".txt", ".md", ".rst", ".csv", ".tsv", ".json", ".jsonl", ".xml", ".html", ".yaml", ".yml", ".toml", ".log")


@dataclass(frozen=True)
class Listing:
    """What a folder holds: names in order, without those that are not read."""

    files: tuple[str, ...]
    folders: tuple[str, ...]


def list_folder(path: Path) -> Listing:
    """Return the files and folders directly in ``path``.

    Raises:
        DataError: if it cannot be read.
    """
    files: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if _read(entry.name):
                    (folders if entry.is_dir() else files).append(entry.name)
    except OSError as error:
        reason = error.strerror
    else:
        return Listing(tuple(sorted(files)), tuple(sorted(folders)))
    raise DataError(f"{path.name}: a folder of images cannot be read: {reason}; check its permissions")


def _read(name: str) -> bool:
    lower = name.lower()
    return not lower.startswith(".") and lower not in _LEFT_BEHIND and not lower.endswith(_TEXTS)


@dataclass(frozen=True)
class ImageFolder:
    """A folder with a folder of images for each class, called as its label; or, without labels, images in either.

    Attributes:
        path: the folder.
        asked: what is asked of it.
    """

    path: Path
    asked: Asked
    label_names = None

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.name or self.path.resolve().name

    @cached_property
    def _root(self) -> str:
        return os.path.realpath(self.path)

    def check(self) -> None:
        """Check the names of the folders; files are listed and not opened.

        Raises:
            DataError: if there is no image, a class is not declared, or a folder stands where files should.
        """
        if self.asked.unit_column is not None:
            raise DataError(
                f"{self.name}: a folder does not say whose image each one is; write labels.csv into it, with the "
                f"columns file, label and {self.asked.unit_column}"
            )
        top = list_folder(self.path)
        if not top.files and not top.folders:
            raise DataError(f"{self.name}: the folder holds no images; check the path")
        if self.asked.form.label is not None:
            self._check_classes(top)
        found = False
        for folder, names in self._files():
            found = found or bool(names)
            self._check_nested(folder)
        if not found:
            raise DataError(f"{self.name}: its folders hold no images; expected at least one")

    def _check_classes(self, top: Listing) -> None:
        labels = {str(label) for label in self.asked.form.labels}
        if top.files:
            what = "images outside of class folders" if top.folders else "images and no class folders"
            raise DataError(
                f"{self.name}: the folder holds {what}, and the schema declares labels; put each image into a folder "
                "that is called as its label, write labels.csv with the columns file and "
                f"{self.asked.form.label}, or describe images without labels"
            )
        unknown = [name for name in top.folders if name not in labels]
        if unknown:
            found = f"the folder {unknown[0]!r}" if self.asked.show_values else f"another folder ({NOT_SHOWN})"
            raise DataError(
                f"{self.name}: expected folders that are called as one of the {len(labels)} labels in the schema, "
                f"found {found}; declare it as a label, rename or remove it; labels must be public knowledge"
            )

    def _check_nested(self, folder: Path) -> None:
        if folder != self.path and list_folder(folder).folders:
            raise DataError(
                f"{self.name}/{self._shown(folder)}: holds a folder, which would not be read; put the images of a "
                "class into one folder"
            )

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yield the files in the order of their folders and names, ``rows`` at a time.

        Raises:
            DataError: if a folder cannot be read, or is a link that leads out of this one.
        """
        waiting: list[PictureFile] = []
        labels: list[str] = []
        for folder, names in self._files():
            for name in names:
                waiting.append(PictureFile(folder / name, self._root))
                labels.append(folder.name)
                if len(waiting) == rows:
                    yield self._pictures(waiting, labels)
                    waiting, labels = [], []
        if waiting:
            yield self._pictures(waiting, labels)

    def place(self, row: int) -> str:
        """Return the folder and the number of the image in the order of names; its name only where it may be shown."""
        for folder, names in self._files():
            if row < len(names):
                where = self.name if folder == self.path else f"{self.name}/{self._shown(folder)}"
                if self.asked.show_values:
                    return f"{where}/{names[row]}"
                return f"{where}, image {row + 1} in the order of names"
            row -= len(names)
        return self.name

    def _shown(self, folder: Path) -> str:
        """Return the name of a class folder; without labels, it is as private as that of a file."""
        if self.asked.show_values or self.asked.form.label is not None:
            return folder.name
        return f"folder {list_folder(self.path).folders.index(folder.name) + 1}"

    def _pictures(self, files: list[PictureFile], labels: list[str]) -> Pictures:
        return Pictures(pictures=files, labels=None if self.asked.form.label is None else pa.array(labels, pa.string()))

    def _files(self) -> Iterator[tuple[Path, tuple[str, ...]]]:
        """Yield each folder with the names of its files; one folder at a time is in memory."""
        top = list_folder(self.path)
        if top.files:
            yield self.path, top.files
        for name in top.folders:
            folder = self.path / name
            real = os.path.realpath(folder)
            if os.path.commonpath([real, self._root]) != self._root:
                raise DataError(
                    f"{self.name}/{self._shown(folder)}: is a link that leads out of the folder, which is not "
                    "followed; copy its images"
                )
            yield folder, list_folder(folder).files
