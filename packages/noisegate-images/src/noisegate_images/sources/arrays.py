"""Images as arrays of bytes in one file: NumPy's ``.npz``, and the idx files of MNIST and its kin."""

import gzip
import re
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisegate.errors import DataError
from noisegate.sources.tables.tables import is_folder
from noisegate_images.sources.decode import ImageOrigin, Pictures

Labels: TypeAlias = npt.NDArray[Any] | None
Parts: TypeAlias = Iterator[tuple[npt.NDArray[np.uint8], Labels]]
"""Images, (images, height, width) and maybe channels, with their labels."""
IMAGES, LABELS = "images", "labels"
IDX = re.compile(r".*-images-idx3-ubyte(\.gz)?")
_MAX_LABEL_BYTES = 1 << 16
_BATCH_BYTES = 1 << 25  # of images as they are kept, in one batch
_CUT_OFF = (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error)


class OneFile(ImageOrigin):
    """What origins share whose images are all in one file, with labels that are whole numbers or text."""

    def check(self) -> None:
        """Checks headers and sizes; no image is read."""
        self.check_no_units()
        self.check_labels(self._label_type())

    def locate(self, row: int) -> str:
        """Returns the file name and the number of the image, counted from 1."""
        return self.image_number(row)

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yields the images, ``rows`` at a time, and fewer where they are large."""
        for images, labels in self._parts(
            lambda size: max(1, min(rows, _BATCH_BYTES // max(1, size)))
        ):
            values = (
                labels.tolist()
                if labels is not None and labels.dtype.kind == "U"
                else labels
            )
            yield Pictures(
                pictures=images, labels=None if values is None else pa.array(values)
            )

    @abstractmethod
    def _label_type(self) -> pa.DataType:
        """Checks headers and sizes, and returns the type of the labels."""

    @abstractmethod
    def _parts(self, rows_of: Callable[[int], int]) -> Parts:
        """Yields the images; ``rows_of`` says how many of a size at a time."""


def _exactly(stream: IO[bytes], size: int, broken: DataError) -> bytes:
    """Returns the next ``size`` bytes; raises what is ``broken`` if the file is cut off or damaged."""
    content = None
    with suppress(*_CUT_OFF):  # what is raised there would carry the message
        content = stream.read(size)
    if content is None or len(content) != size:
        raise broken
    return content


class _Header(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]


class ImageArrays(OneFile):
    """A file of ``numpy.savez``: ``images``, uint8 with the channels last, and ``labels``, whole numbers or text.

    Nothing in it is unpickled, and neither array is in memory as a whole.
    """

    def kept_in(self) -> Iterator[Path]:
        """Yields the file."""
        yield self.path

    def _label_type(self) -> pa.DataType:
        with self._opened() as file:
            images = self._header(file, IMAGES)
            if (
                images.dtype != np.uint8
                or len(images.shape) not in (3, 4)
                or not prod(images.shape[1:])
            ):
                says = f"{self.name}: `images` is of {images.dtype} with {len(images.shape)} dimensions"
                raise DataError(
                    f"{says}; expected uint8, (images, height, width) or (images, height, width, channels)"
                )
            if not self.labelled:
                return pa.null()
            labels = self._header(file, LABELS)
        if (
            labels.shape != images.shape[:1]
            or not 0 < labels.dtype.itemsize <= _MAX_LABEL_BYTES
        ):
            raise DataError(
                f"{self.name}: `labels` must be one label for each of `images`, in their order"
            )
        return {"i": pa.int64(), "u": pa.int64(), "U": pa.string()}.get(
            labels.dtype.kind, pa.float64()
        )

    def _parts(self, rows_of: Callable[[int], int]) -> Parts:
        with self._opened() as file:
            rows = rows_of(prod(self._header(file, IMAGES).shape[1:]))
            labels = self._read(file, LABELS, rows) if self.labelled else None
            for images in self._read(file, IMAGES, rows):
                yield (
                    images.astype(np.uint8, copy=False),
                    None if labels is None else next(labels),
                )

    def _read(
        self, file: zipfile.ZipFile, name: str, rows: int
    ) -> Iterator[npt.NDArray[Any]]:
        """Yields an array some rows at a time, ended by an error where it is cut off."""
        (number, *shape), dtype = self._header(file, name)
        with self._member(file, name) as stream:
            _read_header(stream)
            for start in range(0, number, rows):
                count = min(rows, number - start)
                content = _exactly(
                    stream, count * prod(shape) * dtype.itemsize, self._broken()
                )
                yield np.frombuffer(content, dtype).reshape(count, *shape)

    def _header(self, file: zipfile.ZipFile, name: str) -> _Header:
        with self._member(file, name) as stream:
            header = _read_header(stream)
        if header is None:
            expected = "expected an array in the order of C, without Python objects"
            raise DataError(f"{self.name}: `{name}` cannot be read; {expected}")
        return header

    def _member(self, file: zipfile.ZipFile, name: str) -> IO[bytes]:
        if f"{name}.npy" not in file.namelist():
            raise DataError(
                f"{self.name}: there is no array `{name}`, expected {IMAGES}{f' and {LABELS}' if self.labelled else ''}"
                "; write the file as numpy.savez(path, images=..., labels=...)"
            )
        with suppress(
            OSError, RuntimeError, zipfile.BadZipFile
        ):  # RuntimeError: it is encrypted
            return file.open(f"{name}.npy")
        raise self._broken()

    def _opened(self) -> zipfile.ZipFile:
        with suppress(OSError, zipfile.BadZipFile):
            return zipfile.ZipFile(self.path)
        raise self._broken()

    def _broken(self) -> DataError:
        return DataError(
            f"{self.name}: cannot be read as .npz; it is cut off or damaged: write or copy it again"
        )


def _read_header(stream: IO[bytes]) -> _Header | None:
    try:
        version = np.lib.format.read_magic(stream)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read(stream)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile):
        return None
    if dtype.hasobject or (fortran and len(shape) > 1) or not shape:
        return None
    return _Header(shape, dtype)


class IdxImages(OneFile):
    """A file ``…-images-idx3-ubyte``, maybe with ``.gz``, and its labels in ``…-labels-idx1-ubyte`` beside it."""

    @property
    def _labels(self) -> Path:
        plain = self.path.with_name(
            self.name.replace("images-idx3", "labels-idx1").removesuffix(".gz")
        )
        return plain if plain.exists() else plain.with_name(f"{plain.name}.gz")

    def kept_in(self) -> Iterator[Path]:
        """Yields the file, and that of the labels."""
        yield from (self.path, self._labels) if self.labelled else (self.path,)

    def _label_type(self) -> pa.DataType:
        images = _shape(self.path, 3)
        if self.labelled and _shape(self._labels, 1)[0] != images[0]:
            raise DataError(
                f"{self.name}: {self._labels.name} has another number of labels than there are images"
            )
        return pa.int64()

    def _parts(self, rows_of: Callable[[int], int]) -> Parts:
        rows = rows_of(prod(_shape(self.path, 3)[1:]))
        labels = _read_idx(self._labels, 1, rows) if self.labelled else None
        for images in _read_idx(self.path, 3, rows):
            yield images, None if labels is None else next(labels).astype(np.int64)


def _read_idx(
    path: Path, dimensions: int, rows: int
) -> Iterator[npt.NDArray[np.uint8]]:
    with _opened(path) as stream:
        number, *shape = _dimensions(stream, dimensions, path)
        for start in range(0, number, rows):
            count = min(rows, number - start)
            yield np.frombuffer(
                _exactly(stream, count * prod(shape), _cut_off(path)), np.uint8
            ).reshape(count, *shape)


def _shape(path: Path, dimensions: int) -> list[int]:
    with _opened(path) as stream:
        return _dimensions(stream, dimensions, path)


def _opened(path: Path) -> IO[bytes]:
    try:
        packed = (
            not is_folder(path) and path.suffix == ".gz"
        )  # it refuses a pipe, whose end would be waited for
        return cast(IO[bytes], gzip.open(path)) if packed else path.open("rb")
    except OSError as error:
        reason = error.strerror
    raise DataError(
        f"{path.name}: cannot be read: {reason}; expected it beside the images, under this name"
    )


def _cut_off(path: Path) -> DataError:
    return DataError(f"{path.name}: is cut off or damaged; download or copy it again")


def _dimensions(stream: IO[bytes], dimensions: int, path: Path) -> list[int]:
    if _exactly(stream, 4, _cut_off(path)) != bytes([0, 0, 8, dimensions]):
        raise DataError(
            f"{path.name}: is no idx file of bytes with {dimensions} dimension(s); download it again"
        )
    lengths: list[int] = (
        np.frombuffer(_exactly(stream, 4 * dimensions, _cut_off(path)), ">u4")
        .astype(int)
        .tolist()
    )
    return lengths
