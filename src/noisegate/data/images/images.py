"""Private images, read once through in constant memory and handed on as bytes with their labels."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisegate.data.images.decode import decode_picture
from noisegate.data.images.origins import ImageOrigin, ImageReadOptions, PictureProblem, Pictures, label_codes
from noisegate.data.images.paths import find_images
from noisegate.data.problems import told
from noisegate.data.reading import Source, full_batches
from noisegate.data.units import UnitLimit
from noisegate.errors import DataError, OptionError, SchemaError
from noisegate.records import Images, Rows
from noisegate.schema import ImageShape, Schema
from noisegate.schema.encode import Mask
from noisegate.schema.pixels import require_memory

OnError: TypeAlias = Literal["refuse", "skip"]

_BATCH_BYTES = 1 << 26  # of one batch, once it is read as numbers
_BLOCK = 256  # the gate sums blocks of so many records and pads shorter ones, so smaller batches save no memory
_WIDE = _BLOCK * 256 * 256 * 3  # numbers of a batch; blocks of larger images have fewer records
_MOST_ROWS = 4096


def batch_rows_of(shape: ImageShape) -> int:
    """Return how many images are read at a time: some 64 MB as numbers, and 256 unless they are very large."""
    blocks = max(1, _BATCH_BYTES // (8 * shape.size * _BLOCK))
    return min(_MOST_ROWS, blocks * _BLOCK) if _BLOCK * shape.size <= _WIDE else max(1, _WIDE // shape.size)


def reading_bytes(shape: ImageShape) -> int:
    """Return about how much memory a thread takes to read images: a batch as bytes and as float64, each twice."""
    return 18 * batch_rows_of(shape) * shape.size


class ImageSource(Source[ImageOrigin]):
    """Private images: a folder, Parquet with an image column, arrays in ``.npz``, or a torchvision data set on disk.

    A record is one image with its label. Which files are read is told in `images.folders`, by which public rules they
    become pixels in `images.decode` and the schema's `ImageForm`.

    With ``on_error="skip"``, a picture that cannot be used (broken, animated, or of a mode or size that the schema does
    not say how to read) is left out, and `skipped` counts it. This keeps every guarantee: whether a picture is left
    out is a function of that picture alone, so adding or removing one record still changes one vector of the sum, or
    none. How many were left out depends on private records: it is for the operator who has them, and is part of no
    release and no certificate. Labels that are not declared are refused all the same,
    since a wrong set of labels would silently leave out whole classes.

    Args:
        source: a path. Nothing of it is read yet.
        schema: says the form of the images.
        show_values: whether messages may quote private values, such as the names of files.
        on_error: what is done with a picture that cannot be used: "refuse" the data, or "skip" the picture.
        batch_rows: number of records in each batch but the last; None for what `batch_rows_of` says.
        units: whose image each one is, and how many of each are used; None to use all.
        origins: what `find_images` found at the path, if it was looked for already.

    Attributes:
        skipped: how many pictures the latest pass has left out so far. Private.

    Raises:
        DataError: if there are no images at the path.
        SchemaError: if the schema describes no grey or colour images, or larger ones than this memory can read.
        OptionError: if another argument is unusable.
    """

    _empty = "there are no images; expected at least one"

    def __init__(
        self,
        source: str | Path,
        schema: Schema,
        *,
        show_values: bool = False,
        on_error: str = "refuse",
        batch_rows: int | None = None,
        units: UnitLimit | None = None,
        origins: list[ImageOrigin] | None = None,
    ) -> None:
        form = schema.images
        if form is None:
            raise SchemaError("the schema describes a table; describe images under [images], or with pixel_schema(...)")
        if form.shape.channels not in (1, 3):
            raise SchemaError(f"channels = {form.shape.channels}: images are read as grey (1) or colour (3)")
        check_on_error(on_error)
        require_memory(form.shape, reading_bytes(form.shape), "reading them")
        rows = batch_rows_of(form.shape) if batch_rows is None else batch_rows
        super().__init__(schema, show_values=show_values, batch_rows=rows, units=units)
        unit = None if units is None else units.column
        options = ImageReadOptions(form=form, unit_column=unit, show_values=show_values)
        found = find_images(Path(source), options) if origins is None else origins
        if not found:
            raise DataError(f"{source}: there are no images; check the path")
        self.name, self.skipped = Path(source).name or str(source), 0
        self._form, self._skip, self._origins, self._counting = form, on_error == "skip", found, threading.Lock()

    def check(self) -> None:
        """Check names, types and shapes, as far as they are told without reading an image.

        Raises:
            DataError: if they do not fit the schema.
        """
        for origin in self._origins:
            origin.check()

    def unread(self) -> Iterator[Callable[[], Rows]]:
        """Yield functions that decode at most ``batch_rows`` images each, to be called in any thread."""
        self.skipped = 0
        yield from super().unread()

    def batches(self) -> Iterator[Rows]:
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

    def _pieces(self, origin: ImageOrigin) -> Iterator[tuple[Pictures, int, pa.Array | None]]:
        for pictures in origin.batches(self.batch_rows):
            yield pictures, len(pictures), pictures.units

    def _encoded(self, piece: Pictures, used: Mask | None, origin: ImageOrigin, done: int) -> Images:
        codes: npt.NDArray[np.int32] | None = None
        if piece.labels is not None:
            read = partial(label_codes, piece.labels, origin.label_names, self._form)
            codes = told(read, origin, done, show_values=self._show_values)
        rows = np.arange(len(piece)) if used is None else np.flatnonzero(used)
        pixels = np.empty((len(rows), *self._form.shape.axes), dtype=np.uint8)
        kept = np.zeros(len(rows), dtype=np.bool_)
        for place, row in enumerate(rows):
            found = self._pixels(piece, int(row), origin, done)
            if found is not None:
                pixels[place], kept[place] = found, True
        if not kept.all():
            with self._counting:
                self.skipped += int(np.count_nonzero(~kept))
        return Images(pixels[kept], None if codes is None else codes[rows[kept]])

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


def check_on_error(on_error: str) -> None:
    """Check what is to be done with images that cannot be used.

    Raises:
        OptionError: if it is neither "refuse" nor "skip".
    """
    if on_error not in get_args(OnError):
        raise OptionError(f"on_error={on_error!r}: choose one of {', '.join(get_args(OnError))}")
