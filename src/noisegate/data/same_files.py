"""Whether a public data set is the private one, or holds a file of it: compared by path, by inode and by contents."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from noisegate.errors import DataError


def check_apart(private: Any, public: Any) -> None:
    """Checks that no file is in both data sets, and that two tables in memory are not the same.

    Files are told apart by what they hold, so copies and links are found too; those of different sizes are not read. A
    file that holds the same records in another format, or some of them, is not found.

    Raises:
        DataError: if they share a file, or are the same table; it names the public one only.
    """
    if isinstance(private, str | Path) and isinstance(public, str | Path):
        _check_files(Path(private), Path(public))
    elif not isinstance(private, str | Path) and not isinstance(public, str | Path) and _same_table(private, public):
        raise DataError(f"public: the public table is the private one. {_CURE}")


_CURE = "What is public is handed out as it is, so it must hold no private record. Give other data; nothing was spent."


def digest_of(path: Path) -> str:
    """Returns the SHA-256 of a file, or of the names and contents of the files in a folder."""
    if not path.is_dir():
        return _digest(path)
    whole = hashlib.sha256()
    for file in sorted(_files(path)):
        whole.update(f"{file.relative_to(path).as_posix()}\0{_digest(file)}\n".encode())
    return whole.hexdigest()


def _check_files(private: Path, public: Path) -> None:
    if not private.exists() or not public.exists():
        return  # whoever reads them says so
    by_size: dict[int, list[Path]] = {}
    for file in _files(private):
        by_size.setdefault(_size(file), []).append(file)
    digest = cache(_digest)
    for file in _files(public):
        for other in by_size.get(_size(file), []):
            if os.path.samefile(file, other) or digest(file) == digest(other):
                raise DataError(f"public={str(public)!r}: {file.name!r} is a file of the private data. {_CURE}")


def _files(path: Path) -> Iterator[Path]:
    """Yields the files that may hold records: none that is hidden, and none that is empty."""
    for file in [path] if path.is_file() else path.rglob("*"):
        if file.is_file() and not file.name.startswith((".", "_")) and _size(file):
            yield file


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError as error:
        raise DataError(f"{file.name}: cannot be read: {error.strerror}") from None


def _digest(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror}; check the path and its permissions") from None


def _same_table(private: Any, public: Any) -> bool:
    if private is public:
        return True
    import narwhals as nw

    try:
        one, other = (nw.from_native(table, eager_only=True).to_arrow() for table in (private, public))
    except Exception:  # whatever such a table raises; whoever reads it says what is wrong
        return False
    return bool(one.num_columns) and one.equals(other)
