"""Private images, read once through in constant memory and passed on as bytes with their labels."""

import threading
from collections.abc import Iterator, Mapping
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from noisegate.errors import DataError, OptionError, SchemaError, said
from noisegate.records import Images
from noisegate.schema import ImageShape, Schema
from noisegate.schema.parsing import Mask
from noisegate.schema.pixels import check_machine_memory
from noisegate.sources.stores import (
    absolute_path,
)
from noisegate.sources.tables.parts import (
    ParquetFile,
    Part,
    Stamp,
    read_stamp,
    split_file,
)
from noisegate.sources.tables.tables import (
    RawBatch,
    Source,
    call_with_location,
)
from noisegate.sources.units import UnitLimit
from noisegate_images.sources.decode import (
    ImageOrigin,
    ImageReadOptions,
    PictureProblem,
    Pictures,
    decode_picture,
)
from noisegate_images.sources.find import find_images
from noisegate_images.sources.memory import ImageParquet, memory_images

OnError: TypeAlias = Literal["refuse", "skip"]
_BATCH_BYTES = 1 << 26
"""Of one batch, once it is read as numbers."""
_BLOCK = 256
"""The gate sums blocks of so many records and pads shorter ones, so that smaller batches save no memory."""
_MAX_BLOCK_NUMBERS = _BLOCK * 256 * 256 * 3
"""Numbers of a block; blocks of larger images have fewer records."""
_MAX_BATCH_ROWS = 4096
_THREAD_BYTES_A_NUMBER = 18
"""What a thread takes, about: a batch as bytes and as float64, each twice."""


def batch_rows_of(shape: ImageShape) -> int:
    """Returns how many images are read at a time: some 64 MB as numbers, and 256 unless they are very large."""
    if _BLOCK * shape.size > _MAX_BLOCK_NUMBERS:
        return max(1, _MAX_BLOCK_NUMBERS // shape.size)
    block_count = max(1, _BATCH_BYTES // (8 * shape.size * _BLOCK))
    return min(_MAX_BATCH_ROWS, block_count * _BLOCK)


class ImageSource(Source[ImageOrigin]):
    """Private images: a folder, Parquet with an image column, arrays in ``.npz``, or MNIST's idx files; or in memory.

    A record is one image with its label. Which files are read is told in `folders`, by which public rules they become
    pixels in `decode` and the schema's `ImageForm`. The arguments are those of `TableSource`; names of files are
    private values, too. ``batch_rows`` is None for what `batch_rows_of` says; ``origins`` were found there already.

    With ``on_error="skip"``, a picture that cannot be used is left out: a function of that picture alone, so that one
    record still changes one vector of the sum, or none. Labels that are not declared are refused all the same. How many
    the latest pass has left out so far, ``skipped``, is private, and part of no release.

    Raises:
        DataError: if there are no images at the path.
        SchemaError: if the schema describes no grey or colour images, or larger ones than this memory can read.
        OptionError: if another argument is unusable.
    """

    _NO_RECORDS = "there are no images; expected at least one"
    _NONE_USED = "every image was skipped, so there is nothing to copy"

    def __init__(
        self,
        source: Any,
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
            raise SchemaError(
                "the schema describes a table; describe images under [images], or with "
                "pixel_schema(...)"
            )
        if form.shape.channels not in (1, 3):
            raise SchemaError(
                f"channels = {form.shape.channels}: images are read as grey (1) or "
                "colour (3)"
            )
        check_on_error(on_error)
        default_rows = batch_rows_of(form.shape)
        thread_bytes = _THREAD_BYTES_A_NUMBER * default_rows * form.shape.size
        check_machine_memory(form.shape, thread_bytes, "reading them")
        super().__init__(
            schema,
            show_values=show_values,
            batch_rows=default_rows if batch_rows is None else batch_rows,
            units=units,
        )
        self._options = ImageReadOptions(
            form=form,
            unit_column=None if units is None else units.column,
            show_values=show_values,
        )
        if origins is None:
            origins = _origins_of(source, self._options)
        self._path = Path(source) if isinstance(source, str | Path) else None
        if not origins:
            what = type(source).__name__ if self._path is None else source
            cure = "data" if self._path is None else "path"
            raise DataError(f"{what}: there are no images; check the {cure}")
        if self._path is None:
            self.name = origins[0].name
        else:
            self.name = self._path.name or str(source)
        self._form = form
        self._skip = on_error == "skip"
        self._origins = origins
        self._counting = threading.Lock()

    def check_against_schema(self) -> None:
        """Checks names, types and shapes, as far as they are told without reading an image."""
        for origin in self._origins:
            origin.check()

    def __getstate__(self) -> dict[str, Any]:
        """Pickled without the lock."""
        return {
            name: value for name, value in vars(self).items() if name != "_counting"
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _counting=threading.Lock())

    def check_can_be_split(self) -> None:
        """Refuses images in memory, and to skip some, which is counted here for the operator."""
        if self._path is None:
            cure = "write them to Parquet or to a folder and give the path, or leave the engine out"
            raise OptionError(
                f"{self.name}: only images in files are read in parts, and these are in memory; {cure}"
            )
        if self._skip:
            cure = "take out what cannot be used, or leave the engine out"
            raise OptionError(
                f"on_error='skip': how many images are left out is counted on one machine; {cure}"
            )

    def split_into_parts(self, part_bytes: int, share_count: int = 1) -> Iterator[Part]:
        """Yields row groups of Parquet, and shares of all else; a folder's files are opened by one part each."""
        origins = self._checked_origins()
        is_parquet = all(isinstance(origin, ImageParquet) for origin in origins)
        if self._units is not None or not is_parquet:
            yield from self.split_into_shares(share_count)
            return
        for path in (origin.path for origin in origins):
            for file_part, file_stamp in split_file(ParquetFile(path), part_bytes):
                row_groups = ImageParquet(path, self._options, file_part)
                yield Part(self._restricted_to([row_groups]), {path: file_stamp})

    def _checked_origins(self) -> list[ImageOrigin]:
        self.check_can_be_split()
        self.check_against_schema()
        assert self._path is not None
        return find_images(absolute_path(self._path), self._options) or []

    def _copy_for_other_processes(self) -> tuple[Self, Mapping[Path, Stamp]]:
        whole = copy(self)
        whole._origins = self._checked_origins()
        stamps = {
            path: read_stamp(path)
            for origin in whole._origins
            for path in origin.kept_in()
        }
        return whole, stamps

    def _read_origin(self, origin: ImageOrigin) -> Iterator[RawBatch]:
        for pictures in origin.batches(self.batch_rows):
            yield RawBatch(pictures, len(pictures), pictures.units)

    def _encode(
        self,
        records: Pictures,
        is_used: Mask | None,
        origin: ImageOrigin,
        rows_before: int,
    ) -> Images:
        codes = None
        if records.labels is not None:
            codes = call_with_location(
                partial(origin.codes, records.labels),
                origin,
                rows_before,
                show_values=self._show_values,
            )
        rows = np.arange(len(records)) if is_used is None else np.flatnonzero(is_used)
        pixels = np.empty((len(rows), *self._form.shape.axes), dtype=np.uint8)
        is_usable = np.zeros(len(rows), dtype=np.bool_)
        for index, row in enumerate(rows):
            picture = self._pixels(records, int(row), origin, rows_before)
            if picture is not None:
                pixels[index] = picture
                is_usable[index] = True
        if not is_usable.all():
            with self._counting:
                self.skipped += int(np.count_nonzero(~is_usable))
        usable_codes = None if codes is None else codes[rows[is_usable]]
        return Images(pixels[is_usable], usable_codes)

    def _pixels(
        self, pictures: Pictures, row: int, origin: ImageOrigin, rows_before: int
    ) -> npt.NDArray[np.uint8] | None:
        """Returns the pixels of a picture; None for one that is skipped.

        Raises:
            DataError: if it cannot be used, or its file cannot be read.
        """
        try:
            return decode_picture(pictures.pictures[row], self._form)
        except PictureProblem as problem:
            if self._skip:
                return None
            reason = f"{problem}; or skip such images with {said('on_error', 'skip')}"
        except OSError as problem:
            # Of the disk: it says nothing about the picture, which may be readable later.
            reason = f"cannot be read: {problem.strerror}; check its permissions"
        raise DataError(f"{origin.locate(rows_before + row)}: the image {reason}")


def _origins_of(source: Any, options: ImageReadOptions) -> list[ImageOrigin] | None:
    """Returns where images are: at a path, or in memory; None where that is a table."""
    if isinstance(source, str | Path):
        return find_images(Path(source), options)
    return memory_images(source, options)


def check_on_error(on_error: str) -> None:
    """Checks what is to be done with images that cannot be used."""
    if on_error not in get_args(OnError):
        raise OptionError(
            f"on_error={on_error!r}: choose one of {', '.join(get_args(OnError))}"
        )


def open_images(
    data: Any,
    schema: Schema,
    *,
    show_values: bool,
    units: UnitLimit | None,
    on_error: str,
) -> ImageSource | None:
    """Opens images for the gate.

    Args:
        data: A path, or images in memory.
        schema: Public schema of the images.
        show_values: Whether messages may quote values of records.
        units: Whose image each one is, and how many of each are used; None for one
            person an image.
        on_error: What is done with a picture that cannot be used: "refuse" or "skip".

    Returns:
        The images; None where that is a table, such as one with a column for each pixel.
    """
    assert schema.images is not None
    options = ImageReadOptions(
        form=schema.images,
        unit_column=None if units is None else units.column,
        show_values=show_values,
    )
    origins = _origins_of(data, options)
    if origins is None:
        return None
    return ImageSource(
        data,
        schema,
        show_values=show_values,
        units=units,
        on_error=on_error,
        origins=origins,
    )
