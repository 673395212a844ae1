"""Whether public data are the private data: the one mistake that would release records.

Methods with a public reference hand its records out unchanged. So before they start,
the files of both are compared by their content. That finds copies, links and renamed
files; the same records in another format, or some of them, are not found.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

from noisegate.errors import DataError
from noisegate.sources.stores import (
    Status,
    files_below,
    open_file,
    shown_path,
    status,
    unreadable,
)

_CURE = (
    "Public records are released unchanged, so they must contain no private record. "
    "Give other data; nothing was spent."
)


def check_apart(private: Any, public: Any) -> None:
    """Requires that private and public data share no file, and are not one table.

    Args:
        private: A path, or a table in memory.
        public: Likewise.

    Raises:
        DataError: that names the public file.
    """
    private_is_path = isinstance(private, str | Path)
    public_is_path = isinstance(public, str | Path)
    if private_is_path and public_is_path:
        _check_files(Path(private), Path(public))
    elif not private_is_path and not public_is_path and _are_equal(private, public):
        raise DataError(f"public: the public table is the private one. {_CURE}")


def digest_of(path: Path) -> str:
    """Computes the SHA-256 of a file, or of a folder, in hexadecimal.

    That of a folder covers the names and contents of its files, in sorted order.
    """
    if not status(path).is_folder:
        return _digest_file(path)
    digest = hashlib.sha256()
    for file in sorted(_data_files(path)):
        name = file.relative_to(path).as_posix()
        digest.update(f"{name}\0{_digest_file(file)}\n".encode())
    return digest.hexdigest()


def _check_files(private: Path, public: Path) -> None:
    """Requires that no file of one path is, or equals, a file of the other.

    Only files of the same size are read, each once.
    """
    for path in (private, public):
        try:
            status(path)
        except FileNotFoundError:
            # Whoever reads this path says that it is not there.
            return
        except OSError as error:
            raise unreadable(path, error) from None
    private_files: dict[int, list[Path]] = {}
    for file in _data_files(private):
        private_files.setdefault(_status(file).size, []).append(file)
    digest = cache(_digest_file)
    for file in _data_files(public):
        for other in private_files.get(_status(file).size, []):
            is_same_file = _status(file).identity == _status(other).identity
            if is_same_file or digest(file) == digest(other):
                raise DataError(
                    f"public={shown_path(public)!r}: {file.name!r} is a file of the "
                    f"private data. {_CURE}"
                )


def _data_files(path: Path) -> Iterator[Path]:
    """Yields the files at or below a path but hidden and empty ones."""
    try:
        for file in files_below(path):
            is_hidden = file.name.startswith((".", "_"))
            if not is_hidden and _status(file).size:
                yield file
    except OSError as error:
        raise unreadable(path, error) from None


def _status(file: Path) -> Status:
    """Returns the status of a file; a `DataError` if it cannot be read."""
    try:
        return status(file)
    except OSError as error:
        raise unreadable(file, error) from None


def _digest_file(file: Path) -> str:
    """Returns the SHA-256 of a file; a `DataError` if it cannot be read."""
    try:
        with open_file(file) as stream:
            return hashlib.file_digest(cast("Any", stream), "sha256").hexdigest()
    except OSError as error:
        raise unreadable(file, error) from None


def _are_equal(private: Any, public: Any) -> bool:
    """Returns whether two tables in memory are one, or have equal records in order."""
    if private is public:
        return True
    import narwhals as nw

    try:
        private_table = nw.from_native(private, eager_only=True).to_arrow()
        public_table = nw.from_native(public, eager_only=True).to_arrow()
    except Exception:
        # Whatever such a table raises, whoever reads it says what is wrong with it.
        return False
    return bool(private_table.num_columns) and private_table.equals(public_table)
