"""Files on a disk, or in an object store that speaks S3, behind one set of functions.

A path in a store is a `Path` that begins with `s3:`, as in `s3://bucket/records.csv`.
Who may read, and where the store is, stands where AWS keeps it, in the environment
(`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL` …) or below `~/.aws`, and never in a path:
paths are shown in messages and kept in the folders of runs.

Functions raise `OSError` as those of the standard library do; `unreadable_error` makes
of it an error for users.
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

from noisegate.atomic import address, shown_path
from noisegate.errors import DataError, OptionError

# The first part of `Path("s3://bucket/key")`, which merges the slashes.
_SCHEME = "s3:"
_DATABASE_SCHEMES = ("duckdb:", "sqlite:", "postgresql:", "postgres:", "snowflake:")
# An address that is wrong shall say so while somebody waits for it.
_CONNECT_SECONDS = 10.0
_REQUEST_SECONDS = 60.0


@dataclass(frozen=True)
class Status:
    """What is at a path.

    Attributes:
        is_folder: Whether it is a folder.
        is_file: Whether it is a plain file, and no pipe or device.
        size: In bytes.
        modified: When it was last written, in nanoseconds since 1970.
        identity: Equal for two paths to one file: device and inode, or the path in a
            store.
    """

    is_folder: bool
    is_file: bool
    size: int
    modified: int
    identity: tuple[int, int] | str


def in_store(path: Path) -> bool:
    """Returns whether a path leads into an object store.

    Raises:
        OptionError: if it is an address of another kind, or names who may read.
    """
    is_in_store = path.parts[:1] == (_SCHEME,)
    other_address = None if is_in_store else address(path)
    if other_address is not None:
        raise OptionError(
            f"{other_address}: records are read from files and folders, or from a store "
            "that speaks S3, as s3://bucket/file, or a database, as "
            "postgresql://user@host/database?table=NAME (or duckdb, sqlite, snowflake); "
            "get the file first"
        )
    # As in s3://key:secret@bucket.
    names_user = is_in_store and any("@" in bucket for bucket in path.parts[1:2])
    if names_user:
        raise OptionError(
            "the address of the records names a user: keys do not belong in a path, "
            "which others may read; put them into the environment (AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY) or below ~/.aws"
        )
    return is_in_store


def in_database(path: Path) -> bool:
    """Returns whether a path is the address of a table in a database."""
    return path.parts[0] in _DATABASE_SCHEMES if path.parts else False


def absolute_path(path: Path) -> Path:
    """Returns a path that means the same in another process."""
    if in_store(path):
        return path
    return path.absolute()


def open_file(path: Path) -> BinaryIO:
    """Opens a file for reading its bytes."""
    if in_store(path):
        return cast("BinaryIO", _connect().open_input_file(_object_key(path)))
    return path.open("rb")


def arrow_file(path: Path) -> Any:
    """Returns what Arrow's readers take: the path itself, or an open file of a store.

    Raises:
        OSError: if a file of a store cannot be opened.
    """
    if in_store(path):
        return open_file(path)
    return path


def read_status(path: Path) -> Status:
    """Returns what is at a path; `OSError` if there is nothing."""
    if in_store(path):
        return _status_in_store(path)
    file = os.stat(path)
    return Status(
        is_folder=stat.S_ISDIR(file.st_mode),
        is_file=stat.S_ISREG(file.st_mode),
        size=file.st_size,
        modified=file.st_mtime_ns,
        identity=(file.st_dev, file.st_ino),
    )


def _status_in_store(path: Path) -> Status:
    """Returns what is at a path in a store; `OSError` if there is nothing."""
    entry = _connect().get_file_info(_object_key(path))
    if entry.type == FileType.NotFound:
        raise FileNotFoundError(2, "there is no such object")
    return Status(
        is_folder=entry.type == FileType.Directory,
        is_file=entry.is_file,
        size=entry.size or 0,
        modified=entry.mtime_ns or 0,
        identity=shown_path(path),
    )


def unreadable_error(path: Path, error: OSError) -> DataError:
    """Returns the error for a user whose file cannot be read.

    What a store answers is not quoted: it may name who asked.

    Args:
        path: The path of the file.
        error: What was raised when it was opened or read.
    """
    if in_store(path) and not isinstance(error, FileNotFoundError):
        return DataError(
            f"{shown_path(path)}: cannot be read: the store does not respond, or "
            "refuses you; check its address (AWS_ENDPOINT_URL), the region "
            "(AWS_DEFAULT_REGION) and who reads (AWS_ACCESS_KEY_ID, or ~/.aws)"
        )
    return DataError(
        f"{shown_path(path)}: cannot be read: {error.strerror}; check the path and its "
        "permissions"
    )


def list_children(path: Path) -> list[Path]:
    """Lists what is directly in a folder, sorted by name."""
    if not in_store(path):
        return sorted(path.iterdir())
    entries = _connect().get_file_info(FileSelector(_object_key(path)))
    return sorted(Path(f"{_SCHEME}/{entry.path}") for entry in entries)


def files_below(path: Path) -> Iterator[Path]:
    """Yields the file at a path, or the files in a folder and in the folders in it."""
    if not in_store(path):
        candidates = [path] if path.is_file() else path.rglob("*")
        yield from filter(Path.is_file, candidates)
    elif read_status(path).is_folder:
        for child in list_children(path):
            yield from files_below(child)
    else:
        yield path


def _object_key(path: Path) -> str:
    """Returns bucket and key of a path in a store, as Arrow wants them."""
    return "/".join(path.parts[1:])


@cache
def _connect() -> Any:
    """Connects to the store, once a process; returns Arrow's file system."""
    # Arrow itself does not look for the address of another store than Amazon's.
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3")
    if not endpoint:
        endpoint = os.environ.get("AWS_ENDPOINT_URL") or "https://"
    url = urlsplit(endpoint)
    return S3FileSystem(
        endpoint_override=url.netloc or None,
        scheme=url.scheme,
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_REQUEST_SECONDS,
    )
