"""Images as arrays of bytes in one file: NumPy's ``.npz``, and STL-10 and SVHN as torchvision keeps them on disk."""

from __future__ import annotations

import re
import warnings
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisegate.data.images.decode import ImageReadOptions, Pictures, check_labels
from noisegate.errors import DataError

Labels: TypeAlias = npt.NDArray[Any] | None

IMAGES, LABELS = "images", "labels"
STL = re.compile(r"(?P<part>train|test|unlabeled)_X\.bin")
SVHN = re.compile(r"(?P<part>train|test|extra)_32x32\.mat")

_MAX_LABEL_BYTES = 1 << 16
_BATCH_BYTES = 1 << 25  # of images as they are kept, in one batch
_STL_SHAPE, _STL_BYTES = (3, 96, 96), 3 * 96 * 96  # channels, columns, rows
_CUT_OFF = (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class OneFile(ABC):
    """What origins share whose images are all in one file, with labels that are whole numbers or text."""

    path: Path
    options: ImageReadOptions
    label_names = None

    @property
    def name(self) -> str:
        """The file name."""
        return self.path.name

    @property
    def labelled(self) -> bool:
        """Whether labels are asked for."""
        return self.options.form.label is not None

    def place(self, row: int) -> str:
        """Return the file name and the number of the image, counted from 1."""
        return f"{self.name}, image {row + 1}"

    def check(self) -> None:
        """Check headers and sizes; no image is read."""
        if self.options.unit_column is not None:
            raise DataError(
                f"{self.name}: arrays do not say whose image each one is; keep the images in Parquet with a column "
                f"{self.options.unit_column!r}"
            )
        kind = self._check()
        if self.labelled:
            check_labels(kind, None, self.options.form, self.name)

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yield the images, ``rows`` at a time, and fewer where they are large."""
        for images, labels in self._parts(lambda size: max(1, min(rows, _BATCH_BYTES // max(1, size)))):
            yield Pictures(pictures=images, labels=None if labels is None else _array(labels))

    @abstractmethod
    def _check(self) -> pa.DataType:
        """Check what is in the file beside the labels, and return the type of these."""

    @abstractmethod
    def _parts(self, rows_of: Any) -> Iterator[tuple[npt.NDArray[np.uint8], Labels]]:
        """Yield images, (images, height, width) and maybe channels, and labels; `rows_of` says how many of a size."""


def _array(labels: npt.NDArray[Any]) -> pa.Array:
    return pa.array(labels.tolist() if labels.dtype.kind == "U" else labels)


def exactly(stream: IO[bytes], size: int) -> bytes | None:
    """Return the next ``size`` bytes, or None if the file is cut off or damaged."""
    try:
        content = stream.read(size)
    except _CUT_OFF:
        return None
    return content if len(content) == size else None


@dataclass(frozen=True)
class _Header:
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]


class ImageArrays(OneFile):
    """A file of ``numpy.savez``: ``images``, uint8 with the channels last, and ``labels``, whole numbers or text.

    Nothing in it is unpickled, and neither array is in memory as a whole.
    """

    def _check(self) -> pa.DataType:
        with self._opened() as file:
            images = self._header(file, IMAGES)
            if images.dtype != np.uint8 or len(images.shape) not in (3, 4) or not prod(images.shape[1:]):
                raise DataError(
                    f"{self.name}: `images` is of {images.dtype} with {len(images.shape)} dimensions; expected uint8, "
                    "(images, height, width) or (images, height, width, channels)"
                )
            if not self.labelled:
                return pa.null()
            labels = self._header(file, LABELS)
        if labels.shape != images.shape[:1] or not 0 < labels.dtype.itemsize <= _MAX_LABEL_BYTES:
            raise DataError(f"{self.name}: `labels` must be one label for each of `images`, in their order")
        return {"i": pa.int64(), "u": pa.int64(), "U": pa.string()}.get(labels.dtype.kind, pa.float64())

    def _parts(self, rows_of: Any) -> Iterator[tuple[npt.NDArray[np.uint8], Labels]]:
        with self._opened() as file:
            rows = rows_of(prod(self._header(file, IMAGES).shape[1:]))
            labels = self._read(file, LABELS, rows) if self.labelled else None
            for images in self._read(file, IMAGES, rows):
                yield images.astype(np.uint8, copy=False), None if labels is None else next(labels)

    def _read(self, file: zipfile.ZipFile, name: str, rows: int) -> Iterator[npt.NDArray[Any]]:
        """Yield an array some rows at a time, ended by an error where it is cut off."""
        header = self._header(file, name)
        with self._member(file, name) as stream:
            _read_header(stream)
            for start in range(0, header.shape[0], rows):
                count = min(rows, header.shape[0] - start)
                content = exactly(stream, count * prod(header.shape[1:]) * header.dtype.itemsize)
                if content is None:
                    raise self._broken()
                yield np.frombuffer(content, header.dtype).reshape(count, *header.shape[1:])

    def _header(self, file: zipfile.ZipFile, name: str) -> _Header:
        with self._member(file, name) as stream:
            header = _read_header(stream)
        if header is None:
            raise DataError(
                f"{self.name}: `{name}` cannot be read; expected an array in the order of C, without Python objects"
            )
        return header

    def _member(self, file: zipfile.ZipFile, name: str) -> IO[bytes]:
        if f"{name}.npy" not in file.namelist():
            raise DataError(
                f"{self.name}: there is no array `{name}`, expected {IMAGES}{f' and {LABELS}' if self.labelled else ''}"
                "; write the file as numpy.savez(path, images=..., labels=...)"
            )
        try:
            return file.open(f"{name}.npy")
        except (OSError, RuntimeError, zipfile.BadZipFile):  # RuntimeError: it is encrypted
            pass
        raise self._broken()

    def _opened(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except (OSError, zipfile.BadZipFile):
            pass
        raise self._broken()

    def _broken(self) -> DataError:
        return DataError(f"{self.name}: cannot be read as .npz; it is cut off or damaged: write or copy it again")


def _read_header(stream: IO[bytes]) -> _Header | None:
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile):
        return None
    if dtype.hasobject or (fortran and len(shape) > 1) or not shape:
        return None
    return _Header(shape, dtype)


class StlImages(OneFile):
    """STL-10: ``…_X.bin``, column by column, and labels in ``…_y.bin`` beside it: 1 to 10, taken for 0 to 9."""

    @property
    def _labels(self) -> Path:
        return self.path.with_name(self.name.replace("_X", "_y"))

    def _check(self) -> pa.DataType:
        images, rest = divmod(self.path.stat().st_size, _STL_BYTES)
        if rest or not images:
            raise DataError(f"{self.name}: is no STL-10, or is cut off; expected {_STL_BYTES:,} bytes for each image")
        labels = self._labels
        if self.labelled and not labels.is_file():
            raise DataError(f"{self.name}: {labels.name} is not beside it; add it, or describe images without labels")
        if self.labelled and labels.stat().st_size != images:
            raise DataError(f"{self.name}: {labels.name} has another number of labels than there are images")
        return pa.int64()

    def _parts(self, rows_of: Any) -> Iterator[tuple[npt.NDArray[np.uint8], Labels]]:
        rows = rows_of(_STL_BYTES)
        labels = self._read(self._labels, rows) if self.labelled else None
        for content in self._read(self.path, rows * _STL_BYTES):
            images = np.frombuffer(content, np.uint8).reshape(-1, *_STL_SHAPE).transpose(0, 3, 2, 1)
            codes = None if labels is None else np.frombuffer(next(labels, b""), np.uint8).astype(np.int64) - 1
            yield np.ascontiguousarray(images), codes

    def _read(self, path: Path, size: int) -> Iterator[bytes]:
        try:
            with path.open("rb") as stream:
                while content := stream.read(size):
                    yield content
            return
        except OSError as error:
            reason = error.strerror
        raise DataError(f"{path.name}: cannot be read: {reason}; check its permissions")


class WholeFile(OneFile):
    """A file that can only be read as a whole, and is in memory meanwhile."""

    damaged: str

    def _parts(self, rows_of: Any) -> Iterator[tuple[npt.NDArray[np.uint8], Labels]]:
        images, labels = self._read()
        rows = rows_of(prod(images.shape[1:]))
        for start in range(0, len(images), rows):
            part = slice(start, start + rows)
            yield np.ascontiguousarray(images[part]), None if labels is None else labels[part]

    def _read(self) -> tuple[npt.NDArray[np.uint8], Labels]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                images, labels = self._arrays()
            if labels is None or len(labels) == len(images):
                return images, labels
        except MemoryError:
            raise
        except Exception:  # such readers fail in many ways, and what they say may quote the file
            pass
        raise DataError(f"{self.name}: cannot be read as {self.damaged}: download it again")

    @abstractmethod
    def _arrays(self) -> tuple[npt.NDArray[np.uint8], Labels]:
        """Return the images, (images, height, width, channels), and their labels; what it raises is not told."""


class SvhnImages(WholeFile):
    """SVHN's cropped digits, ``…_32x32.mat`` of some 200 MB unpacked; label 10 is the digit 0, as in torchvision.

    MATLAB's format, read by SciPy, holds arrays and no program.
    """

    damaged = (
        "SVHN's cropped digits; it is damaged, or holds other arrays than X, 32 x 32 x 3 bytes for each image, and y"
    )

    def _check(self) -> pa.DataType:
        return pa.int64()

    def _arrays(self) -> tuple[npt.NDArray[np.uint8], Labels]:
        from scipy.io import loadmat

        wanted = ["X", "y"] if self.labelled else ["X"]
        found: dict[str, Any] = loadmat(str(self.path), variable_names=wanted, appendmat=False)
        images: npt.NDArray[np.uint8] = found["X"]
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
            raise ValueError
        labels = found["y"].reshape(-1).astype(np.int64, casting="safe") if self.labelled else None
        return images.transpose(3, 0, 1, 2), None if labels is None else np.where(labels == 10, 0, labels)
