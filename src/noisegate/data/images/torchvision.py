"""Images as torchvision keeps them on disk: idx files (MNIST and its kin), CIFAR's batches for Python, STL-10, SVHN."""

from __future__ import annotations

import gzip
import operator
import pickle
import re
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisegate.data.images.arrays import Labels, OneFile, Parts, WholeFile, exactly
from noisegate.data.tables.origins import is_folder
from noisegate.errors import DataError

IDX = re.compile(r"(?P<part>.*)-images-idx3-ubyte(?P<packed>\.gz)?")
CIFAR = re.compile(r"data_batch_\d+|test_batch|train|test")
STL = re.compile(r"(?P<part>train|test|unlabeled)_X\.bin")
SVHN = re.compile(r"(?P<part>train|test|extra)_32x32\.mat")
_STL_SHAPE, _STL_BYTES = (3, 96, 96), 3 * 96 * 96  # channels, columns, rows
_CIFAR_LABELS = ("labels", "fine_labels")


class IdxImages(OneFile):
    """A file ``…-images-idx3-ubyte``, maybe with ``.gz``, and its labels in ``…-labels-idx1-ubyte`` beside it."""

    @property
    def _labels(self) -> Path:
        plain = self.path.with_name(self.name.replace("images-idx3", "labels-idx1").removesuffix(".gz"))
        return plain if plain.exists() else plain.with_name(f"{plain.name}.gz")

    def kept_in(self) -> Iterator[Path]:
        """Yield the file, and that of the labels."""
        yield from (self.path, self._labels) if self.labelled else (self.path,)

    def _check(self) -> pa.DataType:
        images = _shape(self.path, 3)
        if self.labelled and _shape(self._labels, 1)[0] != images[0]:
            raise DataError(f"{self.name}: {self._labels.name} has another number of labels than there are images")
        return pa.int64()

    def _parts(self, rows_of: Callable[[int], int]) -> Parts:
        rows = rows_of(prod(_shape(self.path, 3)[1:]))
        labels = _read(self._labels, 1, rows) if self.labelled else None
        for images in _read(self.path, 3, rows):
            yield images, None if labels is None else next(labels).astype(np.int64)


def _read(path: Path, dimensions: int, rows: int) -> Iterator[npt.NDArray[np.uint8]]:
    with _opened(path) as stream:
        number, *shape = _dimensions(stream, dimensions, path)
        for start in range(0, number, rows):
            count = min(rows, number - start)
            yield np.frombuffer(_content(stream, count * prod(shape), path), np.uint8).reshape(count, *shape)


def _shape(path: Path, dimensions: int) -> list[int]:
    with _opened(path) as stream:
        return _dimensions(stream, dimensions, path)


def _opened(path: Path) -> IO[bytes]:
    try:
        packed = not is_folder(path) and path.suffix == ".gz"  # it refuses a pipe, whose end would be waited for
        return cast(IO[bytes], gzip.open(path)) if packed else path.open("rb")
    except OSError as error:
        reason = error.strerror
    raise DataError(f"{path.name}: cannot be read: {reason}; expected it beside the images, under this name")


def _content(stream: IO[bytes], size: int, path: Path) -> bytes:
    content = exactly(stream, size)
    if content is None:
        raise DataError(f"{path.name}: is cut off or damaged; download or copy it again")
    return content


def _dimensions(stream: IO[bytes], dimensions: int, path: Path) -> list[int]:
    """Return the lengths that the header of an idx file states."""
    if _content(stream, 4, path) != bytes([0, 0, 8, dimensions]):
        raise DataError(f"{path.name}: is no idx file of bytes with {dimensions} dimension(s); download it again")
    lengths: list[int] = np.frombuffer(_content(stream, 4 * dimensions, path), ">u4").astype(int).tolist()
    return lengths


class CifarBatch(WholeFile):
    """A file of CIFAR-10 or CIFAR-100 "for Python", a pickle of some 30 MB: only arrays and plain values are taken."""

    damaged = "a batch of CIFAR; it is damaged, or holds more than images and labels, which is not unpickled"

    def _check(self) -> pa.DataType:
        if not self.path.is_file():
            raise DataError(f"{self.name}: there is no such file; check the path")
        return pa.int64()

    def _arrays(self) -> tuple[npt.NDArray[np.uint8], Labels]:
        with self.path.open("rb") as stream:
            read = {_text(key): value for key, value in _ArraysOnly(stream, encoding="bytes").load().items()}
        images = read["data"].values.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        if not self.labelled:
            return images, None
        found = next(read[name] for name in _CIFAR_LABELS if name in read)
        return images, np.array([operator.index(label) for label in found], dtype=np.int64)


def _text(key: Any) -> str:
    return key.decode() if isinstance(key, bytes) else str(key)


class _ArraysOnly(pickle.Unpickler):
    """Unpickles plain values and arrays of bytes; every other name is refused, so that nothing can be run."""

    def find_class(self, module: str, name: str) -> Any:
        """Returns what stands in for a name of the file; an `UnpicklingError` for all but arrays."""
        known: dict[tuple[str, str], Any] = {
            ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),
            ("numpy._core.multiarray", "_reconstruct"): lambda *_: _Array(),
            ("numpy", "ndarray"): _Array,
            ("numpy", "dtype"): _Type,
            ("_codecs", "encode"): lambda text, _: text.encode("latin-1"),  # how Python 3 writes bytes for Python 2
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError("not an array")
        return known[(module, name)]


class _Type:
    """The type of an array; what a pickle says of it beyond its name is of no use for bytes."""

    def __init__(self, name: Any, *_: Any) -> None:
        self.of_bytes = _text(name) == "u1"

    def __setstate__(self, state: Any) -> None:
        pass


class _Array:
    """An array on its way out of a pickle. NumPy's own way out is not taken: it is not made for strangers' files."""

    values: npt.NDArray[np.uint8] | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, content = state
        if not isinstance(kind, _Type) or not kind.of_bytes or fortran or not isinstance(content, bytes):
            raise pickle.UnpicklingError("not an array of bytes")
        self.values = np.frombuffer(content, np.uint8).reshape(shape)


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

    def _parts(self, rows_of: Callable[[int], int]) -> Parts:
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


class SvhnImages(WholeFile):
    """SVHN's cropped digits, ``…_32x32.mat`` of some 200 MB unpacked; label 10 is the digit 0, as in torchvision.

    MATLAB's format, read by SciPy, holds arrays and no program.
    """

    damaged = (
        "SVHN's cropped digits; it is damaged, or holds other arrays than X, 32 x 32 x 3 bytes for each image, and y"
    )

    def _arrays(self) -> tuple[npt.NDArray[np.uint8], Labels]:
        from scipy.io import loadmat

        wanted = ["X", "y"] if self.labelled else ["X"]
        found: dict[str, Any] = loadmat(str(self.path), variable_names=wanted, appendmat=False)
        images: npt.NDArray[np.uint8] = found["X"]
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[:3] != (32, 32, 3):
            raise ValueError
        labels = found["y"].reshape(-1).astype(np.int64, casting="safe") if self.labelled else None
        return images.transpose(3, 0, 1, 2), None if labels is None else np.where(labels == 10, 0, labels)
