"""Which images a path stands for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from noisegate.data.images.arrays import STL, SVHN, ImageArrays, StlImages, SvhnImages
from noisegate.data.images.folders import ImageFolder, ImageList, find_list, list_folder
from noisegate.data.images.origins import ImageOrigin, ImageReadOptions
from noisegate.data.images.parquet import ImageParquet, image_columns
from noisegate.data.images.torchvision import CIFAR, IDX, CifarBatch, IdxImages
from noisegate.data.tables.files import is_folder
from noisegate.data.tables.parquet_file import PARQUET, ParquetFile
from noisegate.errors import DataError

_SINGLE = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")
_FOLDERS = ("cifar-10-batches-py", "cifar-100-python", "stl10_binary")


def find_images(path: Path, options: ImageReadOptions) -> list[ImageOrigin] | None:
    """Return the images at ``path``, or None if it may be a table, such as one with a column for each pixel.

    A folder of torchvision stands for its training set, as in torchvision; another part is chosen by giving its file.

    Raises:
        DataError: if there are images that cannot be told apart, or a folder is empty.
    """
    try:
        return _folder(path, options) if is_folder(path) else _file(path, options)
    except FileNotFoundError:
        return None  # a table, then, whose reader says so
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; check the path and its permissions") from None


def _file(path: Path, options: ImageReadOptions) -> list[ImageOrigin] | None:
    with path.open("rb") as stream:
        start = stream.read(4)
    if start == b"PAR1" or path.suffix.lower() in PARQUET:
        return [ImageParquet(path, options)] if image_columns(ParquetFile(path).columns()) else None
    if path.suffix.lower() == ".npz":
        return [ImageArrays(path, options)]
    if CIFAR.fullmatch(path.name) and start.startswith(b"\x80"):
        return [CifarBatch(path, options)]
    for name, kind in ((IDX, IdxImages), (STL, StlImages), (SVHN, SvhnImages)):
        if name.fullmatch(path.name):
            return [kind(path, options)]
    if path.suffix.lower() in _SINGLE:
        raise DataError(f"{path.name}: is one image; give the folder of all images, with a folder for each class")
    return None


def _folder(path: Path, options: ImageReadOptions) -> list[ImageOrigin] | None:
    known = _torchvision(path, options)
    if known:
        return known
    entries = sorted(entry for entry in path.iterdir() if not entry.name.startswith((".", "_")))
    tables = [entry for entry in entries if entry.suffix.lower() in PARQUET]
    listing = list_folder(path)
    if tables:
        if not any(image_columns(ParquetFile(table).columns()) for table in tables):
            return None
        if len(listing.files) + len(listing.folders) > len(tables):
            raise DataError(f"{path}: holds Parquet and other files or folders, which would not be read; keep one kind")
        return [ImageParquet(table, options) for table in tables]
    table = find_list(path, options)
    if table is not None:
        return [ImageList(path, options, table)]
    csv = any(entry.suffix.lower() == ".csv" for entry in entries)
    return None if csv and not listing.files and not listing.folders else [ImageFolder(path, options)]


def _torchvision(path: Path, options: ImageReadOptions) -> list[ImageOrigin]:
    """Return the training set that torchvision keeps in ``path``, the root or the folder of the data set."""
    places = [path, path / "raw", *sorted(path.glob("*/raw")), *(path / name for name in _FOLDERS)]
    found = [origins for place in places if (origins := _training_set(place, options))]
    if len(found) > 1:
        raise DataError(f"{path}: holds several data sets of torchvision; give the folder of one of them")
    return found[0] if found else []


def _training_set(path: Path, options: ImageReadOptions) -> list[ImageOrigin]:
    names = sorted(_names(path)) if path.is_dir() else []
    idx = sorted({name.removesuffix(".gz") for name in names if IDX.fullmatch(name)})
    parts = [name for name in idx if "train-" in name] or idx
    if len(parts) > 1:
        raise DataError(f"{path}: holds several sets of images, such as {parts[0]}; give the file of one of them")
    if parts:  # torchvision leaves the packed file beside the unpacked one
        return [IdxImages(path / (parts[0] if parts[0] in names else f"{parts[0]}.gz"), options)]
    if "train_X.bin" in names:
        return [StlImages(path / "train_X.bin", options)]
    if "train_32x32.mat" in names:
        return [SvhnImages(path / "train_32x32.mat", options)]
    if "batches.meta" in names:
        return [CifarBatch(path / name, options) for name in names if name.startswith("data_batch_")]
    return [CifarBatch(path / "train", options)] if "meta" in names and (path / "train").is_file() else []


def _names(folder: Path) -> Iterator[str]:
    """Yield the names in a folder, none of which may be opened in vain."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not (entry.is_file() or entry.is_dir()) and os.path.exists(entry.path):
                raise DataError(f"{folder}: holds a pipe, a device or a socket, which is no image; remove it")
            yield entry.name
