"""Private images, read once through in constant memory and handed on as encoded records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from noisegate.data.batches import full_batches
from noisegate.data.image_decode import decode_picture
from noisegate.data.image_labels import LabelProblem, label_codes, label_error
from noisegate.data.image_origins import Asked, ImageOrigin, PictureProblem, Pictures
from noisegate.data.image_paths import find_images
from noisegate.data.parse import Mask
from noisegate.data.unit_column import check_unit_name, unit_error, unit_type_error
from noisegate.data.units import UnitCounter, UnitLimit, UnitProblem, UnitTypeProblem
from noisegate.errors import DataError, OptionError, SchemaError
from noisegate.schema import EncodedTable, Schema

OnError: TypeAlias = Literal["refuse", "skip"]

_BATCH_BYTES = 1 << 26  # of encoded records in one batch
_BLOCK = 256  # the gate sums blocks of so many records and pads shorter ones, so smaller batches save no memory
_MOST_ROWS = 4096
_POSITIONS = np.arange(256) / np.float64(255)  # as an integer column between 0 and 255 is encoded


class ImageSource:
    """Private images: a folder, Parquet with an image column, arrays in ``.npz``, or a torchvision data set on disk.

    A record is one image with its label. Which files are read, and by which public rules they become pixels, is told in
    `image_folder`, `image_decode` and the schema's `ImageForm`.

    With ``on_error="skip"``, a picture that cannot be used (broken, animated, or of a mode or size that the schema does
    not say how to read) is left out, and `skipped` counts it. This keeps every guarantee: whether a picture is left
    out is a function of that picture alone, so adding or removing one record still changes one vector of the sum, or
    none. How many were left out depends on private records: it is for the operator who has them, and is part of no
    release and no certificate. Labels that are not declared are refused all the same,
    since a wrong set of labels would silently leave out whole classes.

    Attributes:
        schema: the schema that the records must fit.
        name: what messages call the source: a file or folder name.
        batch_rows: number of records in each batch but the last.
        skipped: how many pictures the latest pass has left out so far. Private.
    """

    def __init__(
        self,
        source: str | Path,
        schema: Schema,
        *,
        show_values: bool = False,
        on_error: OnError = "refuse",
        batch_rows: int | None = None,
        units: UnitLimit | None = None,
        origins: list[ImageOrigin] | None = None,
    ) -> None:
        """Find the images; none is read yet.

        Args:
            source: a path.
            schema: says the form of the images.
            show_values: whether messages may quote private values, such as the names of files.
            on_error: what is done with a picture that cannot be used: "refuse" the data, or "skip" the picture.
            batch_rows: number of records in each batch but the last; None for some 64 MB, and at least 256 records.
            units: whose image each one is, and how many of each are used; None to use all.
            origins: what `find_images` found at the path, if it was looked for already.

        Raises:
            DataError: if there are no images at the path.
            SchemaError: if the schema does not describe grey or colour images.
            OptionError: if another argument is unusable.
        """
        form = schema.images
        if form is None:
            raise SchemaError("the schema describes a table; describe images under [images], or with pixel_schema(...)")
        if form.shape.channels not in (1, 3):
            raise SchemaError(f"channels = {form.shape.channels}: images are read as grey (1) or colour (3)")
        check_on_error(on_error)
        if batch_rows is not None and batch_rows < 1:
            raise OptionError(f"batch_rows must be at least 1, found {batch_rows}")
        check_unit_name(units, schema)
        asked = Asked(form=form, unit_column=None if units is None else units.column, show_values=show_values)
        found = find_images(Path(source), asked) if origins is None else origins
        if not found:
            raise DataError(f"{source}: there are no images; check the path")
        self.schema, self.name, self.skipped = schema, Path(source).name or str(source), 0
        self.batch_rows = batch_rows or min(_MOST_ROWS, max(1, _BATCH_BYTES // (8 * form.shape.size * _BLOCK)) * _BLOCK)
        self._form, self._asked, self._units, self._skip = form, asked, units, on_error == "skip"
        self._origins, self._counting = found, threading.Lock()

    def check(self) -> None:
        """Check names, types and shapes, as far as they are told without reading an image.

        Raises:
            DataError: if they do not fit the schema.
        """
        for origin in self._origins:
            origin.check()

    def batches(self) -> Iterator[EncodedTable]:
        """Yield the records in order, ``batch_rows`` at a time, in constant memory.

        Raises:
            DataError: if an image does not fit the schema, the data cannot be read, or there are no records.
        """
        seen = False
        for records in full_batches((read() for read in self.unread()), self.batch_rows):
            seen = True
            yield records
        if not seen:
            raise DataError(f"{self.name}: every image was skipped, so there is nothing to copy")

    def unread(self) -> Iterator[Callable[[], EncodedTable]]:
        """Yield functions that decode at most ``batch_rows`` images each, to be called in any thread.

        Raises:
            DataError: by a function, if an image does not fit the schema; here, if the data cannot be read or there are
                no records.
        """
        self.check()
        self.skipped, seen = 0, 0
        counter = None if self._units is None else UnitCounter(self._units, self.schema.missing_values)
        for origin in self._origins:
            done = 0
            for pictures in origin.batches(self.batch_rows):
                used = None if counter is None else self._used(counter, pictures, origin, done)
                yield partial(self._encode, pictures, origin, done, used)
                done += len(pictures)
            seen += done
        if not seen:
            raise DataError(f"{self.name}: there are no images; expected at least one")

    def _used(self, counter: UnitCounter, pictures: Pictures, origin: ImageOrigin, done: int) -> Mask:
        """Return which images are used; called for one batch after the other, as units are counted."""
        assert self._units is not None and pictures.units is not None
        column = self._units.column
        try:
            return counter.used(pictures.units)
        except UnitProblem as problem:
            error = unit_error(column, origin.place(done + problem.row), missing=problem.missing)
        except UnitTypeProblem:
            error = unit_type_error(column, origin.name, pictures.units.type)
        raise error

    def _encode(self, pictures: Pictures, origin: ImageOrigin, done: int, used: Mask | None) -> EncodedTable:
        codes = self._codes(pictures, origin, done)
        rows = np.arange(len(pictures)) if used is None else np.flatnonzero(used)
        pixels = np.empty((len(rows), self._form.shape.size), dtype=np.uint8)
        kept = np.zeros(len(rows), dtype=np.bool_)
        for place, row in enumerate(rows):
            found = self._pixels(pictures, int(row), origin, done)
            if found is not None:
                pixels[place], kept[place] = found.reshape(-1), True
        if not kept.all():
            with self._counting:
                self.skipped += int(np.count_nonzero(~kept))
        return EncodedTable(_POSITIONS.take(pixels[kept]), codes[rows[kept]])

    def _pixels(self, pictures: Pictures, row: int, origin: ImageOrigin, done: int) -> npt.NDArray[np.uint8] | None:
        """Return the pixels of one picture, or None if it is to be skipped."""
        failed = False
        try:
            return decode_picture(pictures.pictures[row], self._form)
        except PictureProblem as problem:
            reason = f"{problem}; or skip such images with --on-error skip (in Python: on_error='skip')"
        except OSError as problem:  # of the disk: it says nothing about the picture, which may be readable later
            failed, reason = True, f"cannot be read: {problem.strerror}; check its permissions"
        if self._skip and not failed:
            return None
        raise DataError(f"{origin.place(done + row)}: the image {reason}")

    def _codes(self, pictures: Pictures, origin: ImageOrigin, done: int) -> npt.NDArray[np.int32]:
        """Return the labels of some images, (images, 1), or (images, 0) without labels."""
        if pictures.labels is None:
            return np.empty((len(pictures), 0), dtype=np.int32)
        try:
            return label_codes(pictures.labels, origin.label_names, self._form)[:, None]
        except LabelProblem as problem:
            place = origin.place(done + problem.row)
            error = label_error(problem, place, self._form, show_values=self._asked.show_values)
        raise error  # outside the handler: the problem, which holds the label, must not travel along as its context


def check_on_error(on_error: str) -> None:
    """Check what is to be done with images that cannot be used.

    Raises:
        OptionError: if it is neither "refuse" nor "skip".
    """
    if on_error not in get_args(OnError):
        raise OptionError(f"on_error={on_error!r}: choose one of {', '.join(get_args(OnError))}")
