"""Files on a disk, or in an object store that speaks S3; who may read stands where AWS keeps it, never in a path.

Who may read, and where the store is, stands where AWS keeps it: in the environment
(`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` …) or below `~/.aws`, and never in a path.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from pyarrow.fs import FileSelector, FileType, S3FileSystem

from noisegate.atomic import address
from noisegate.errors import DataError, OptionError

_SCHEME = "s3:"
_SECONDS = 10.0


@dataclass(frozen=True)
class Status:
    """What a file or folder is, its size in bytes, when it was written in nanoseconds, and its identity."""

    folder: bool
    plain: bool
    size: int
    written: int
    identity: tuple[int, int] | str


def in_store(path: Path) -> bool:
    """Returns whether a path leads into an object store; `OptionError` if it names who may read."""
    found = path.parts[:1] == (_SCHEME,)
    if not found and (shown := address(path)) is not None:
        says = f"{shown}: records are read from files and folders, or from a store that speaks S3, as s3://bucket/file"
        raise OptionError(f"{says}; get the file first")
    if found and any("@" in part for part in path.parts[1:2]):
        raise OptionError(
            "the address of the records names a user: keys do not belong in a path, which others may read; put them "
            "into the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or below ~/.aws"
        )
    return found


def place_of(path: Path) -> str:
    """Returns a path as it was given."""
    return f"s3://{_key(path)}" if in_store(path) else str(path)


def absolute(path: Path) -> Path:
    """Returns a path that means the same in another process."""
    return path if in_store(path) else path.absolute()


def opened(path: Path) -> BinaryIO:
    """Returns the bytes of a file, at any place of which one may read; `OSError` if there is none."""
    if not in_store(path):
        return path.open("rb")
    return cast("BinaryIO", _store().open_input_file(_key(path)))


def for_arrow(path: Path) -> Any:
    """Returns what Arrow reads a file from: the path, which it opens by itself, or the opened file of a store."""
    return opened(path) if in_store(path) else path


def status(path: Path) -> Status:
    """Returns what is at a path; `OSError` if there is nothing."""
    if not in_store(path):
        found = os.stat(path)
        identity = found.st_dev, found.st_ino
        plain = stat.S_ISREG(found.st_mode)
        return Status(
            stat.S_ISDIR(found.st_mode),
            plain,
            found.st_size,
            found.st_mtime_ns,
            identity,
        )
    there = _store().get_file_info(_key(path))
    if there.type == FileType.NotFound:
        raise FileNotFoundError(2, "there is no such object")
    folder = there.type == FileType.Directory
    return Status(
        folder, there.is_file, there.size or 0, there.mtime_ns or 0, place_of(path)
    )


def unreadable(path: Path, error: OSError) -> DataError:
    """Returns the error of what cannot be read; what a store answers is not quoted, as it may name who asked."""
    if in_store(path) and not isinstance(error, FileNotFoundError):
        return DataError(
            f"{place_of(path)}: cannot be read: the store does not answer, or not to you; check its address "
            "(AWS_ENDPOINT_URL), the region (AWS_DEFAULT_REGION) and who reads (AWS_ACCESS_KEY_ID, or ~/.aws)"
        )
    return DataError(
        f"{place_of(path)}: cannot be read: {error.strerror}; check the path and its permissions"
    )


def children(path: Path) -> list[Path]:
    """Returns what is directly in a folder, sorted by name."""
    if not in_store(path):
        return sorted(path.iterdir())
    found = _store().get_file_info(FileSelector(_key(path)))
    return sorted(Path(f"{_SCHEME}/{one.path}") for one in found)


def files_below(path: Path) -> Iterator[Path]:
    """Yields a file, or those in a folder and in the folders in it."""
    if not in_store(path):
        yield from filter(Path.is_file, [path] if path.is_file() else path.rglob("*"))
    elif status(path).folder:
        for child in children(path):
            yield from files_below(child)
    else:
        yield path


def _key(path: Path) -> str:
    return "/".join(path.parts[1:])


@cache
def _store() -> Any:
    """Returns the store, once a process: its address and keys are looked for where AWS keeps them."""
    # Arrow does not look for the address of another store than Amazon's.
    address = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get(
        "AWS_ENDPOINT_URL"
    )
    url = urlsplit(address or "https://")
    return S3FileSystem(
        endpoint_override=url.netloc or None,
        scheme=url.scheme,
        connect_timeout=_SECONDS,
        request_timeout=6 * _SECONDS,
    )
