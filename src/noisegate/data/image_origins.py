"""Where private images come from: the protocol that folders, Parquet files and arrays share."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisegate.schema import ImageForm

MAX_FILE_BYTES = 1 << 28
"""No file of one image is read that is larger."""

NOT_SHOWN = "not shown; use --show-values (in Python: show_values=True) to see it"


class PictureProblem(Exception):  # noqa: N818 - not an error for users; the caller adds the place, and makes it one
    """A picture that cannot be used. Its text says why, in public words: nothing of what the picture shows."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is asked of the origins of images.

    Attributes:
        form: of the images.
        unit_column: name of the column that says whose image each one is, or None.
        show_values: whether messages may quote private values, such as the names of files.
    """

    form: ImageForm
    unit_column: str | None = None
    show_values: bool = False


@dataclass(frozen=True)
class PictureFile:
    """A file of one image.

    Attributes:
        path: the file.
        root: the folder that it must lie in, with all links resolved.
    """

    path: Path
    root: str

    def read(self) -> bytes:
        """Return the content of the file.

        Raises:
            PictureProblem: if it is no plain file, too large, or a link that leads out of the folder.
            OSError: if it cannot be read.
        """
        real = os.path.realpath(self.path)
        if os.path.commonpath([real, self.root]) != self.root:
            raise PictureProblem("is a link to a file outside of the folder, which is not followed; copy the file")
        state = os.stat(real)
        if not stat.S_ISREG(state.st_mode):
            raise PictureProblem("is no plain file; remove it")
        if state.st_size > MAX_FILE_BYTES:
            raise PictureProblem(f"is larger than {MAX_FILE_BYTES >> 20} MiB; make it smaller")
        with open(real, "rb") as stream:
            return stream.read()


Picture: TypeAlias = bytes | PictureFile | npt.NDArray[np.uint8] | None
"""An image as it is kept: a file in memory or on disk, (height, width) or (height, width, channels) pixels, or none."""


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """Some images, not yet decoded.

    Attributes:
        pictures: the images; an array is (images, height, width) or (images, height, width, channels).
        labels: the label of each, whole numbers or text, or None.
        units: whose image each one is, or None.
    """

    pictures: Sequence[Picture] | npt.NDArray[np.uint8]
    labels: pa.Array | None
    units: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.pictures)


class ImageOrigin(Protocol):
    """A folder, a file or some files that hold images."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """What labels that are whole numbers stand for, by position, where the data says so."""
        ...

    def check(self) -> None:
        """Check all that can be checked without reading an image.

        Raises:
            DataError: if it does not fit what is asked.
        """
        ...

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yield the images, at most ``rows`` at a time.

        Raises:
            DataError: if the data cannot be read.
        """
        ...

    def place(self, row: int) -> str:
        """Return where the image at position ``row`` stands, such as ``train.parquet, record 7``."""
        ...


@dataclass(frozen=True)
class OneFile:
    """What origins share whose images are all in one file.

    Attributes:
        path: the file.
        asked: what is asked of it.
    """

    path: Path
    asked: Asked
    label_names = None

    @property
    def name(self) -> str:
        """The file name."""
        return self.path.name

    def place(self, row: int) -> str:
        """Return the file name and the number of the image, counted from 1."""
        return f"{self.name}, image {row + 1}"
