"""Images as torchvision keeps them on disk: idx files (MNIST and its kin), and CIFAR's batches for Python."""

from __future__ import annotations

import gzip
import operator
import pickle
import re
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisegate.data.images.arrays import Labels, OneFile, WholeFile, exactly
from noisegate.data.tables.tables import is_folder
from noisegate.errors import DataError

IDX = re.compile(r"(?P<part>.*)-images-idx3-ubyte(?P<packed>\.gz)?")
CIFAR = re.compile(r"data_batch_\d+|test_batch|train|test")
_CIFAR_LABELS = ("labels", "fine_labels")


class IdxImages(OneFile):
    """A file ``…-images-idx3-ubyte``, maybe with ``.gz``, and its labels in ``…-labels-idx1-ubyte`` beside it."""

    @property
    def _labels(self) -> Path:
        plain = self.path.with_name(self.name.replace("images-idx3", "labels-idx1").removesuffix(".gz"))
        return plain if plain.exists() else plain.with_name(f"{plain.name}.gz")

    def _check(self) -> pa.DataType:
        images = _shape(self.path, 3)
        if self.labelled and _shape(self._labels, 1)[0] != images[0]:
            raise DataError(f"{self.name}: {self._labels.name} has another number of labels than there are images")
        return pa.int64()

    def _parts(self, rows_of: Any) -> Iterator[tuple[npt.NDArray[np.uint8], Labels]]:
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
