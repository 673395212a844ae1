"""Which images there are at a path, in which of the forms that are read.

A path may hold a table instead, such as one with a column for each pixel; that is not
decided here, but by the reader of tables.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from noisegate.atomic import shown_path
from noisegate.errors import DataError
from noisegate.sources.stores import (
    in_store,
    list_children,
    read_status,
    unreadable_error,
)
from noisegate.sources.tables.parts import PARQUET, ParquetFile
from noisegate.sources.tables.tables import is_folder
from noisegate_images.sources.arrays import IDX, IdxImages, ImageArrays
from noisegate_images.sources.decode import ImageOrigin, ImageReadOptions
from noisegate_images.sources.folders import (
    ImageFolder,
    ImageList,
    Listing,
    find_list,
    list_folder,
)
from noisegate_images.sources.memory import ImageParquet, image_columns

_SINGLE_IMAGES = (
    ".png",
    ".jpg",
    ".jpeg",
    ".gif",
    ".bmp",
    ".webp",
    ".tif",
    ".tiff",
)
_UNREAD_DATA_SETS = {
    "cifar-10-batches-py": "CIFAR10",
    "batches.meta": "CIFAR10",
    "cifar-100-python": "CIFAR100",
    "stl10_binary": "STL10",
    "train_X.bin": "STL10",
    "train_32x32.mat": "SVHN",
}
"""Files and folders as torchvision keeps a data set that is not read, with the class that reads it."""


def find_images(path: Path, options: ImageReadOptions) -> list[ImageOrigin] | None:
    """Finds the images at a path.

    A folder of idx files stands for its training set, as in torchvision; another part
    is chosen by giving its file.

    Args:
        path: A file, a folder, or an address in a store.
        options: How the images are to be read.

    Returns:
        Where the images are stored, or None if the path may hold a table instead.

    Raises:
        DataError: if there is something that is neither, or cannot be read.
    """
    try:
        if in_store(path):
            return _find_in_store(path, options)
        if is_folder(path):
            return _find_in_folder(path, options)
        return _find_in_file(path, options)
    except FileNotFoundError:
        # A table, then, whose reader says so.
        return None
    except OSError as error:
        raise unreadable_error(path, error) from None


def _find_in_store(path: Path, options: ImageReadOptions) -> list[ImageOrigin] | None:
    """Finds images in Parquet, the one form that is read from a store: it passes on whole columns at a time."""
    children = list_children(path) if read_status(path).is_folder else [path]
    files = [file for file in children if not file.name.startswith((".", "_"))]
    parquet_files = [file for file in files if file.suffix.lower() in PARQUET]
    if any(file.suffix.lower() == ".csv" for file in files):
        return None
    if len(parquet_files) < len(files):
        raise DataError(
            f"{shown_path(path)}: images are read from a store as Parquet with a "
            "column of images, and nothing else may lie beside it; write them so, or "
            "mount the store as a disk"
        )
    return _parquet_images(parquet_files, options)


def _find_in_file(path: Path, options: ImageReadOptions) -> list[ImageOrigin] | None:
    """Finds the images in a file on disk."""
    with path.open("rb") as stream:
        first_bytes = stream.read(4)
    extension = path.suffix.lower()
    if first_bytes == b"PAR1" or extension in PARQUET:
        return _parquet_images([path], options)
    if extension == ".npz":
        return [ImageArrays(path, options)]
    if IDX.fullmatch(path.name):
        return [IdxImages(path, options)]
    if extension in _SINGLE_IMAGES:
        raise DataError(
            f"{path.name}: is one image; give the folder of all images, with a folder "
            "for each class"
        )
    return None


def _find_in_folder(path: Path, options: ImageReadOptions) -> list[ImageOrigin] | None:
    """Finds the images in a folder on disk.

    Args:
        path: Folder with idx files, Parquet, a list of images, or image files.
        options: How the images are to be read.

    Returns:
        Where the images are stored, or None if the folder may hold a table instead.

    Raises:
        DataError: if the folder mixes Parquet with other files.
    """
    idx_files = _training_set(path, options)
    if idx_files:
        return idx_files

    # Hidden files and folders, and markers such as _SUCCESS, are no data.
    entries = sorted(
        entry for entry in path.iterdir() if not entry.name.startswith((".", "_"))
    )
    extensions = {entry.suffix.lower() for entry in entries}
    parquet_files = [entry for entry in entries if entry.suffix.lower() in PARQUET]
    listing = list_folder(path)
    if parquet_files:
        images = _parquet_images(parquet_files, options)
        if images is not None:
            _check_nothing_beside(path, parquet_files, listing)
        return images

    image_list = find_list(path, options)
    if image_list is not None:
        return [ImageList(path / image_list, options)]
    # The listing leaves out text files, CSV among them.
    holds_only_csv = ".csv" in extensions and not listing.files and not listing.folders
    if holds_only_csv:
        return None
    return [ImageFolder(path, options)]


def _parquet_images(
    files: list[Path], options: ImageReadOptions
) -> list[ImageOrigin] | None:
    """Returns Parquet files as images; None if none of them has an image column."""
    has_images = any(image_columns(ParquetFile(file).columns()) for file in files)
    if not has_images:
        return None
    return [ImageParquet(file, options) for file in files]


def _check_nothing_beside(
    path: Path, parquet_files: list[Path], listing: Listing
) -> None:
    """Refuses a folder with other files beside Parquet."""
    if len(listing.files) + len(listing.folders) > len(parquet_files):
        raise DataError(
            f"{path}: holds Parquet and other files or folders, which would not be "
            "read; keep one kind"
        )


def _training_set(path: Path, options: ImageReadOptions) -> list[ImageOrigin]:
    """Returns the training set in idx files that torchvision keeps in a folder.

    Args:
        path: The root of torchvision, or the folder of the data set.
        options: How the images are to be read.

    Returns:
        Its file; nothing where there are no idx files.

    Raises:
        DataError: if there are several sets, or one that is not read.
    """
    images: list[ImageOrigin] = []
    for folder in (path, path / "raw", *sorted(path.glob("*/raw"))):
        names = set(_names_in(folder)) if folder.is_dir() else set()
        _check_is_read(path, names)
        # torchvision leaves the packed file beside the unpacked one.
        idx_names = sorted(
            {name.removesuffix(".gz") for name in names if IDX.fullmatch(name)}
        )
        training_names = [name for name in idx_names if "train-" in name]
        chosen_names = training_names or idx_names
        if len(chosen_names) > 1:
            raise DataError(
                f"{folder}: holds several sets of images, such as {chosen_names[0]}; "
                "give the file of one of them"
            )
        for name in chosen_names:
            stored_name = name if name in names else f"{name}.gz"
            images.append(IdxImages(folder / stored_name, options))
    if len(images) > 1:
        raise DataError(
            f"{path}: holds several data sets; give the folder of one of them"
        )
    return images


def _check_is_read(path: Path, names: set[str]) -> None:
    """Refuses a data set in a form of torchvision's that is not read."""
    for name, data_set in _UNREAD_DATA_SETS.items():
        if name in names:
            raise DataError(
                f"{path}: holds {name}, as torchvision keeps {data_set}, which is not "
                f"read; give the data set torchvision.datasets.{data_set}(...) to "
                "noisegate.fit, or write it as .npz (see the page on images)"
            )


def _names_in(folder: Path) -> Iterator[str]:
    """Yields the names in a folder; refuses what is neither file nor folder, such as a pipe."""
    with os.scandir(folder) as entries:
        for entry in entries:
            is_plain = entry.is_file() or entry.is_dir()
            if not is_plain and os.path.exists(entry.path):
                raise DataError(
                    f"{folder}: holds a pipe, a device or a socket, which is not an "
                    "image; remove it"
                )
            yield entry.name
