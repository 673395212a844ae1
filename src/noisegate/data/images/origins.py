"""Where private images come from: the protocol that folders, Parquet files and arrays share, and their labels."""

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
import pyarrow.compute as pc
import pyarrow.types as pt

from noisegate.data.problems import Placed, Problem
from noisegate.errors import DataError
from noisegate.schema import ImageForm
from noisegate.schema.columns import TEXT_PADDING
from noisegate.schema.encode import in_words, is_text

MAX_FILE_BYTES = 1 << 28
"""No file of one image is read that is larger."""


class PictureProblem(Exception):  # noqa: N818 - not an error for users; the caller adds the place, and makes it one
    """A picture that cannot be used. Its text says why, in public words: nothing of what the picture shows."""


@dataclass(frozen=True, kw_only=True)
class ImageReadOptions:
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
    """A file of one image, which must lie in the folder ``root``, whose links are resolved."""

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


class ImageOrigin(Placed, Protocol):
    """A folder, a file or some files that hold images."""

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


def check_labels(kind: pa.DataType, names: tuple[str, ...] | None, form: ImageForm, name: str) -> None:
    """Require that labels of an Arrow type can be found among the declared ones, in the data called ``name``.

    Whole numbers are the declared ones by value; where text is declared, they are positions among the ``names`` that
    the data gives its classes. Text is compared as text.

    Raises:
        DataError: if not.
    """
    kind = kind.value_type if pt.is_dictionary(kind) else kind
    place, declared = f"{name}, label {form.label!r}", form.labels
    if is_text(kind) or pt.is_null(kind):
        return
    if not pt.is_integer(kind):
        raise DataError(f"{place}: expected whole numbers or text, found a column of {in_words(kind)}; convert it")
    if isinstance(declared[0], int):
        return
    if names is None:
        raise DataError(
            f"{place}: holds whole numbers, and the schema declares text; declare the numbers as labels instead, or "
            "write the labels of the data as text"
        )
    if not set(names) <= set(declared):
        raise DataError(
            f"{place}: the data gives names to its classes that are not all declared; declare the same names as labels "
            "in the schema, or whole numbers"
        )


def label_codes(labels: pa.Array, names: tuple[str, ...] | None, form: ImageForm) -> npt.NDArray[np.int32]:
    """Return the position of each label, of a type that `check_labels` let pass, among the declared ones, (images,).

    Raises:
        Problem: for the first label that is not declared.
    """
    found = labels.dictionary_decode() if pt.is_dictionary(labels.type) else labels
    if pt.is_integer(found.type) and isinstance(form.labels[0], str):
        places = pc.index_in(found.cast(pa.int64()), value_set=pa.array(range(len(names or ())), pa.int64()))
        texts = pa.array(names or (), pa.string()).take(places)
    elif is_text(found.type):
        texts = pc.utf8_trim(found.cast(pa.string()), characters=TEXT_PADDING)
    else:
        texts = found.cast(pa.string())
    codes = pc.index_in(texts, value_set=pa.array([str(label) for label in form.labels], pa.string()))
    if not codes.null_count:
        positions: npt.NDArray[np.int32] = codes.to_numpy(zero_copy_only=False).astype(np.int32)
        return positions
    row = int(np.argmax(codes.is_null().to_numpy(zero_copy_only=False)))
    value = labels[row].as_py()
    says = (
        f"expected one of the {len(form.labels)} labels in the schema, found {{found}}; declare it as a label; labels "
        "must be public knowledge"
    )
    missing = "it is missing; fill it in, or describe images without labels"
    raise Problem(row, f"label {form.label!r}: {missing if value is None else says}", value)
