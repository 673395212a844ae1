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

from noisegate.atomic import shown_path
from noisegate.errors import DataError
from noisegate.sources.stores import (
    Status,
    files_below,
    in_database,
    open_file,
    read_status,
    unreadable_error,
)

_CURE = (
    "Public records are released unchanged, so they must contain no private record. "
    "Give other data; nothing was spent."
)


def check_apart(private: Any, public: Any) -> None:
    """Requires that private and public data share no file, and are not one table.

    A path and a table in memory are not compared. Tables in databases are compared by
    their addresses alone, and with no file.

    Args:
        private: The private data: a path, or a table in memory.
        public: The public data: a path, or a table in memory.

    Raises:
        DataError: that names the public file; or for a file that cannot be read.
    """
    private_is_path = isinstance(private, str | Path)
    public_is_path = isinstance(public, str | Path)
    if private_is_path and public_is_path:
        _check_no_shared_path(Path(private), Path(public))
    elif (
        not private_is_path and not public_is_path and _are_same_table(private, public)
    ):
        raise DataError(f"public: the public table is the private one. {_CURE}")


def _check_no_shared_path(private: Path, public: Path) -> None:
    """Requires that two paths share no file, and are not one table in a database.

    Raises:
        DataError: that names the public file or table; or for a file that cannot be
            read.
    """
    if private == public and in_database(public):
        raise DataError(
            f"public={shown_path(public)!r}: is the table of the private data. {_CURE}"
        )
    if not in_database(private) and not in_database(public):
        _check_no_shared_file(private, public)


def digest_of(path: Path) -> str:
    """Computes the SHA-256 of a file, or of a folder, in hexadecimal.

    That of a folder covers the names and contents of its files, in sorted order.
    """
    if not read_status(path).is_folder:
        return _digest_file(path)
    digest = hashlib.sha256()
    for file in sorted(_data_files(path)):
        name = file.relative_to(path).as_posix()
        digest.update(f"{name}\0{_digest_file(file)}\n".encode())
    return digest.hexdigest()


def _check_no_shared_file(private: Path, public: Path) -> None:
    """Requires that no file of one path is, or equals, a file of the other.

    Only files of the same size are read, each once.

    Args:
        private: The path of the private data.
        public: The path of the public data. A path at which there is nothing is left
            to whoever reads it.

    Raises:
        DataError: for the first file in both, or one that cannot be read.
    """
    for path in (private, public):
        try:
            read_status(path)
        except FileNotFoundError:
            # Whoever reads this path says that it is not there.
            return
        except OSError as error:
            raise unreadable_error(path, error) from None
    private_files_by_size: dict[int, list[Path]] = {}
    for file in _data_files(private):
        private_files_by_size.setdefault(_require_status(file).size, []).append(file)
    # A file may be compared with several.
    digest_once = cache(_digest_file)
    for file in _data_files(public):
        for private_file in private_files_by_size.get(_require_status(file).size, []):
            identity = _require_status(file).identity
            is_same_file = identity == _require_status(private_file).identity
            if is_same_file or digest_once(file) == digest_once(private_file):
                raise DataError(
                    f"public={shown_path(public)!r}: {file.name!r} is a file of the "
                    f"private data. {_CURE}"
                )


def _data_files(path: Path) -> Iterator[Path]:
    """Yields the files at or below a path but hidden and empty ones."""
    try:
        for file in files_below(path):
            is_hidden = file.name.startswith((".", "_"))
            if not is_hidden and _require_status(file).size:
                yield file
    except OSError as error:
        raise unreadable_error(path, error) from None


def _require_status(file: Path) -> Status:
    """Returns the status of a file; a `DataError` if it cannot be read."""
    try:
        return read_status(file)
    except OSError as error:
        raise unreadable_error(file, error) from None


def _digest_file(file: Path) -> str:
    """Returns the SHA-256 of a file; a `DataError` if it cannot be read."""
    try:
        with open_file(file) as stream:
            return hashlib.file_digest(cast("Any", stream), "sha256").hexdigest()
    except OSError as error:
        raise unreadable_error(file, error) from None


def _are_same_table(private: Any, public: Any) -> bool:
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
