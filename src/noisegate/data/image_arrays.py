"""Images as arrays of bytes in one file, read a part at a time: NumPy's ``.npz``."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import IO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisegate.data.image_labels import check_labels
from noisegate.data.image_origins import Asked, OneFile, Pictures
from noisegate.errors import DataError

IMAGES, LABELS = "images", "labels"
_MAX_LABEL_BYTES = 1 << 16
_BATCH_BYTES = 1 << 25  # of images as they are kept, in one batch


@dataclass(frozen=True)
class _Header:
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]


@dataclass(frozen=True)
class ImageArrays(OneFile):
    """A file of ``numpy.savez``: ``images``, uint8 with the channels last, and ``labels``, whole numbers or text.

    Nothing in it is unpickled, and neither array is in memory as a whole.
    """

    def check(self) -> None:
        """Check shapes and types of the arrays, which are not read.

        Raises:
            DataError: if they do not fit.
        """
        check_no_units(self.name, self.asked)
        with self._opened() as file:
            images = self._header(file, IMAGES)
            if images.dtype != np.uint8 or len(images.shape) not in (3, 4) or not prod(images.shape[1:]):
                raise DataError(
                    f"{self.name}: `images` is of {images.dtype} with {len(images.shape)} dimensions; expected uint8, "
                    "(images, height, width) or (images, height, width, channels)"
                )
            if self.asked.form.label is None:
                return
            labels = self._header(file, LABELS)
        kind = {"i": pa.int64(), "u": pa.int64(), "U": pa.string()}.get(labels.dtype.kind, pa.float64())
        if labels.shape != images.shape[:1] or not 0 < labels.dtype.itemsize <= _MAX_LABEL_BYTES:
            raise DataError(f"{self.name}: `labels` must be one label for each of `images`, in their order")
        check_labels(kind, None, self.asked.form, self.name)

    def batches(self, rows: int) -> Iterator[Pictures]:
        """Yield the images, ``rows`` at a time.

        Raises:
            DataError: if the file is cut off or damaged.
        """
        with self._opened() as file:
            shape = self._header(file, IMAGES).shape
            rows = rows_at_once(rows, prod(shape[1:]))
            parts = self._parts(file, IMAGES, rows)
            labels = None if self.asked.form.label is None else self._parts(file, LABELS, rows)
            for _ in range(0, shape[0], rows):
                images = next(parts).astype(np.uint8, copy=False)
                yield Pictures(pictures=images, labels=None if labels is None else _array(next(labels)))

    def _parts(self, file: zipfile.ZipFile, name: str, rows: int) -> Iterator[npt.NDArray[np.generic]]:
        """Yield an array some rows at a time, ended by an error where it is cut off."""
        header = self._header(file, name)
        width = prod(header.shape[1:])
        with self._member(file, name) as stream:
            _read_header(stream)
            for start in range(0, header.shape[0], rows):
                count = min(rows, header.shape[0] - start)
                content = self._content(stream, count * width * header.dtype.itemsize)
                yield np.frombuffer(content, header.dtype).reshape(count, *header.shape[1:])

    def _content(self, stream: IO[bytes], size: int) -> bytes:
        content = b""
        try:
            content = stream.read(size)
        except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error):
            content = b""
        if len(content) < size:
            raise self._broken()
        return content

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
            wanted = IMAGES if self.asked.form.label is None else f"{IMAGES} and {LABELS}"
            raise DataError(
                f"{self.name}: there is no array `{name}`, expected {wanted}; write the file as numpy.savez(path, "
                "images=..., labels=...)"
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


def rows_at_once(rows: int, size: int) -> int:
    """Return how many images of ``size`` bytes are read at a time: at most ``rows``, and fewer where they are large."""
    return max(1, min(rows, _BATCH_BYTES // max(1, size)))


def check_no_units(name: str, asked: Asked) -> None:
    """Require that no unit column is asked of data without columns.

    Raises:
        DataError: if one is.
    """
    if asked.unit_column is not None:
        raise DataError(
            f"{name}: arrays do not say whose image each one is; keep the images in Parquet with a column "
            f"{asked.unit_column!r}"
        )


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


def _array(labels: npt.NDArray[np.generic]) -> pa.Array:
    return pa.array(labels.tolist() if labels.dtype.kind == "U" else labels)
