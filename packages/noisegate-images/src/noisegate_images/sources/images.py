"""Private images, read once through in constant memory and handed on as bytes with their labels."""

import os
import threading
from collections.abc import Iterator, Mapping
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from noisegate.atomic import shown_path
from noisegate.errors import DataError, OptionError, SchemaError, said
from noisegate.records import Images
from noisegate.schema import ImageShape, Schema
from noisegate.schema.parsing import Mask
from noisegate.schema.pixels import check_machine_memory
from noisegate.sources.stores import (
    absolute_path,
    in_store,
    list_children,
    read_status,
    unreadable_error,
)
from noisegate.sources.tables.parts import (
    PARQUET,
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
    is_folder,
)
from noisegate.sources.units import UnitLimit
from noisegate_images.sources.arrays import IDX, IdxImages, ImageArrays
from noisegate_images.sources.decode import (
    ImageOrigin,
    ImageReadOptions,
    PictureProblem,
    Pictures,
    decode_picture,
)
from noisegate_images.sources.folders import (
    ImageFolder,
    ImageList,
    find_list,
    list_folder,
)
from noisegate_images.sources.memory import ImageParquet, image_columns, memory_images

_SINGLE = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")
_UNREAD = {
    "cifar-10-batches-py": "CIFAR10",
    "batches.meta": "CIFAR10",
    "cifar-100-python": "CIFAR100",
}
_UNREAD |= {"stl10_binary": "STL10", "train_X.bin": "STL10", "train_32x32.mat": "SVHN"}
OnError: TypeAlias = Literal["refuse", "skip"]
_BATCH_BYTES = 1 << 26  # of one batch, once it is read as numbers
_BLOCK = 256  # the gate sums blocks of so many records and pads shorter ones, so smaller batches save no memory
_WIDE = (
    _BLOCK * 256 * 256 * 3
)  # numbers of a batch; blocks of larger images have fewer records
_MOST_ROWS = 4096


def batch_rows_of(shape: ImageShape) -> int:
    """Returns how many images are read at a time: some 64 MB as numbers, and 256 unless they are very large."""
    blocks = max(1, _BATCH_BYTES // (8 * shape.size * _BLOCK))
    return (
        min(_MOST_ROWS, blocks * _BLOCK)
        if _BLOCK * shape.size <= _WIDE
        else max(1, _WIDE // shape.size)
    )


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
                "the schema describes a table; describe images under [images], or with pixel_schema(...)"
            )
        if form.shape.channels not in (1, 3):
            raise SchemaError(
                f"channels = {form.shape.channels}: images are read as grey (1) or colour (3)"
            )
        check_on_error(on_error)
        rows = batch_rows_of(form.shape)
        # What a thread takes, about: a batch as bytes and as float64, each twice.
        check_machine_memory(form.shape, 18 * rows * form.shape.size, "reading them")
        rows = rows if batch_rows is None else batch_rows
        super().__init__(schema, show_values=show_values, batch_rows=rows, units=units)
        unit = None if units is None else units.column
        options = self._options = ImageReadOptions(
            form=form, unit_column=unit, show_values=show_values
        )
        in_file = isinstance(source, str | Path)
        if origins is None:
            origins = (
                find_images(Path(source), options)
                if in_file
                else memory_images(source, options)
            )
        if not origins:
            what = source if in_file else type(source).__name__
            raise DataError(
                f"{what}: there are no images; check the {'path' if in_file else 'data'}"
            )
        self.name = (Path(source).name or str(source)) if in_file else origins[0].name
        self._path = Path(source) if in_file else None
        self._form, self._skip, self._origins, self._counting = (
            form,
            on_error == "skip",
            origins,
            threading.Lock(),
        )

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
        origins = self._found()
        if self._units is None and all(
            isinstance(origin, ImageParquet) for origin in origins
        ):
            for path in (origin.path for origin in origins):
                for file_part, file_stamp in split_file(ParquetFile(path), part_bytes):
                    origin = ImageParquet(path, self._options, file_part)
                    yield Part(self._restricted_to([origin]), {path: file_stamp})
            return
        yield from self.split_into_shares(share_count)

    def _found(self) -> list[ImageOrigin]:
        self.check_can_be_split()
        self.check_against_schema()
        assert self._path is not None
        return find_images(absolute_path(self._path), self._options) or []

    def _copy_for_other_processes(self) -> tuple[Self, Mapping[Path, Stamp]]:
        whole = copy(self)
        whole._origins = origins = self._found()
        return whole, {
            path: read_stamp(path) for origin in origins for path in origin.kept_in()
        }

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
        kept = np.zeros(len(rows), dtype=np.bool_)
        for place, row in enumerate(rows):
            found = self._pixels(records, int(row), origin, rows_before)
            if found is not None:
                pixels[place], kept[place] = found, True
        if not kept.all():
            with self._counting:
                self.skipped += int(np.count_nonzero(~kept))
        return Images(pixels[kept], None if codes is None else codes[rows[kept]])

    def _pixels(
        self, pictures: Pictures, row: int, origin: ImageOrigin, done: int
    ) -> npt.NDArray[np.uint8] | None:
        failed = False
        try:
            return decode_picture(pictures.pictures[row], self._form)
        except PictureProblem as problem:
            reason = f"{problem}; or skip such images with {said('on_error', 'skip')}"
        except OSError as problem:  # of the disk: it says nothing about the picture, which may be readable later
            failed, reason = (
                True,
                f"cannot be read: {problem.strerror}; check its permissions",
            )
        if self._skip and not failed:
            return None
        raise DataError(f"{origin.locate(done + row)}: the image {reason}")


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
    """Return the images in ``data``; None where that is a table, such as one with a column for each pixel."""
    assert schema.images is not None
    unit = None if units is None else units.column
    options = ImageReadOptions(
        form=schema.images, unit_column=unit, show_values=show_values
    )
    found = (
        find_images(Path(data), options)
        if isinstance(data, str | Path)
        else memory_images(data, options)
    )
    how: Any = {
        "show_values": show_values,
        "units": units,
        "on_error": on_error,
        "origins": found,
    }
    return None if found is None else ImageSource(data, schema, **how)


def find_images(path: Path, options: ImageReadOptions) -> list[ImageOrigin] | None:
    """Returns the images at ``path``, or None if it may be a table, such as one with a column for each pixel."""
    # A folder of idx files stands for its training set, as in torchvision; another part is chosen by giving its file.
    try:
        if in_store(path):
            return _stored(path, options)
        return _folder(path, options) if is_folder(path) else _file(path, options)
    except FileNotFoundError:
        return None  # a table, then, whose reader says so
    except OSError as error:
        raise unreadable_error(path, error) from None


def _stored(path: Path, options: ImageReadOptions) -> list[ImageOrigin] | None:
    """Returns images in Parquet, the one form that is read from a store: it hands on whole columns at a time."""
    within = list_children(path) if read_status(path).is_folder else [path]
    files = [file for file in within if not file.name.startswith((".", "_"))]
    tables = [file for file in files if file.suffix.lower() in PARQUET]
    if any(file.suffix.lower() == ".csv" for file in files):
        return None
    if len(tables) < len(files):
        raise DataError(
            f"{shown_path(path)}: images are read from a store as Parquet with a "
            "column of images, and nothing else may lie beside it; write them so, or "
            "mount the store as a disk"
        )
    found = any(image_columns(ParquetFile(table).columns()) for table in tables)
    return [ImageParquet(table, options) for table in tables] if found else None


def _file(path: Path, options: ImageReadOptions) -> list[ImageOrigin] | None:
    with path.open("rb") as stream:
        start = stream.read(4)
    if start == b"PAR1" or path.suffix.lower() in PARQUET:
        return (
            [ImageParquet(path, options)]
            if image_columns(ParquetFile(path).columns())
            else None
        )
    if path.suffix.lower() == ".npz":
        return [ImageArrays(path, options)]
    if IDX.fullmatch(path.name):
        return [IdxImages(path, options)]
    if path.suffix.lower() in _SINGLE:
        raise DataError(
            f"{path.name}: is one image; give the folder of all images, with a folder for each class"
        )
    return None


def _folder(path: Path, options: ImageReadOptions) -> list[ImageOrigin] | None:
    if known := _training_set(path, options):
        return known
    entries = sorted(
        entry for entry in path.iterdir() if not entry.name.startswith((".", "_"))
    )
    tables = [entry for entry in entries if entry.suffix.lower() in PARQUET]
    listing = list_folder(path)
    if tables:
        if not any(image_columns(ParquetFile(table).columns()) for table in tables):
            return None
        if len(listing.files) + len(listing.folders) > len(tables):
            raise DataError(
                f"{path}: holds Parquet and other files or folders, which would not be read; keep one kind"
            )
        return [ImageParquet(table, options) for table in tables]
    if (table := find_list(path, options)) is not None:
        return [ImageList(path / table, options)]
    csv = any(entry.suffix.lower() == ".csv" for entry in entries)
    return (
        None
        if csv and not listing.files and not listing.folders
        else [ImageFolder(path, options)]
    )


def _training_set(path: Path, options: ImageReadOptions) -> list[ImageOrigin]:
    """Returns the training set in idx files that torchvision keeps in ``path``, the root or the folder of the data."""
    found: list[ImageOrigin] = []
    for place in (path, path / "raw", *sorted(path.glob("*/raw"))):
        names = set(_names(place)) if place.is_dir() else set()
        if (
            unread := next((name for name in _UNREAD if name in names), None)
        ) is not None:
            raise DataError(
                f"{path}: holds {unread}, as torchvision keeps {_UNREAD[unread]}, which is not read; give the data set "
                f"torchvision.datasets.{_UNREAD[unread]}(...) to noisegate.fit, or write it as .npz (see the page on "
                "images)"
            )
        idx = sorted(
            {name.removesuffix(".gz") for name in names if IDX.fullmatch(name)}
        )
        parts = [name for name in idx if "train-" in name] or idx
        if len(parts) > 1:
            raise DataError(
                f"{place}: holds several sets of images, such as {parts[0]}; give the file of one of them"
            )
        for part in parts:  # torchvision leaves the packed file beside the unpacked one
            found.append(
                IdxImages(place / (part if part in names else f"{part}.gz"), options)
            )
    if len(found) > 1:
        raise DataError(
            f"{path}: holds several data sets; give the folder of one of them"
        )
    return found


def _names(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not (entry.is_file() or entry.is_dir()) and os.path.exists(entry.path):
                raise DataError(
                    f"{folder}: holds a pipe, a device or a socket, which is not an image; remove it"
                )
            yield entry.name
