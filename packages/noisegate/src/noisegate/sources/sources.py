"""Private records of any kind: a table or images, by what the schema says and what the path holds."""

import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

from noisegate.errors import DataError, OptionError
from noisegate.registry import extension
from noisegate.schema import Schema
from noisegate.sources.stores import (
    Status,
    files_below,
    opened,
    place_of,
    status,
    unreadable,
)
from noisegate.sources.tables.tables import Source, TableSource
from noisegate.sources.units import UnitLimit


def _image_reader() -> Any:
    """Returns what opens images: an entry point, since another package reads them."""
    return extension("noisegate.readers", "images", "what reads images")


def open_records(
    data: Any,
    schema: Schema | Any,
    *,
    show_values: bool = False,
    progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Any:
    """Returns private records as a gate holds them: a `Source`, see `open_source`, or `LinkedSource`."""
    if isinstance(schema, Schema):
        return open_source(data, schema, show_values=show_values, **options)
    from noisegate.sources.linked import open_linked

    return open_linked(data, schema, show_values=show_values, progress=progress)


def open_source(
    data: Any,
    schema: Schema,
    *,
    show_values: bool = False,
    units: UnitLimit | None = None,
    on_error: str = "refuse",
) -> Source[Any]:
    """Returns the private records in ``data``, a path or a table in memory (images: pixels); nothing is read yet."""
    # ``units`` says whose record each one is and how many of each are used, None to use all; with ``on_error`` "skip"
    # images that cannot be used are left out.
    if schema.images is not None:
        found = _image_reader()(
            data, schema, show_values=show_values, units=units, on_error=on_error
        )
        if found is not None:
            return cast("Source[Any]", found)
    if on_error != "refuse":
        cure = "leave on_error out"
        raise OptionError(
            f"on_error={on_error!r}: only images can be skipped, and the data is a table; {cure}"
        )
    return TableSource(data, schema, show_values=show_values, units=units)


def check_apart(private: Any, public: Any) -> None:
    """Refuses data sets that share a file, or are one table in memory, by a DataError that names the public one."""
    # Files are told apart by what they hold, so copies and links are found too; those of different sizes are not read.
    # A file that holds the same records in another format, or some of them, is not found.
    if isinstance(private, str | Path) and isinstance(public, str | Path):
        _check_files(Path(private), Path(public))
    elif (
        not isinstance(private, str | Path)
        and not isinstance(public, str | Path)
        and _same_table(private, public)
    ):
        raise DataError(f"public: the public table is the private one. {_CURE}")


_CURE = (
    "Public records are released unchanged, so they must contain no private record. "
    "Give other data; nothing was spent."
)


def digest_of(path: Path) -> str:
    """Returns the SHA-256 of a file, or of the names and contents of the files in a folder."""
    if not status(path).folder:
        return _digest(path)
    whole = hashlib.sha256()
    for file in sorted(_files(path)):
        whole.update(f"{file.relative_to(path).as_posix()}\0{_digest(file)}\n".encode())
    return whole.hexdigest()


def _check_files(private: Path, public: Path) -> None:
    for path in (private, public):
        try:
            status(path)
        except FileNotFoundError:
            return  # whoever reads it says so
        except OSError as error:
            raise unreadable(path, error) from None
    by_size: dict[int, list[Path]] = {}
    for file in _files(private):
        by_size.setdefault(_status(file).size, []).append(file)
    digest = cache(_digest)
    for file in _files(public):
        for other in by_size.get(_status(file).size, []):
            if _status(file).identity == _status(other).identity or digest(
                file
            ) == digest(other):
                raise DataError(
                    f"public={place_of(public)!r}: {file.name!r} is a file of the private data. {_CURE}"
                )


def _files(path: Path) -> Iterator[Path]:
    try:
        for file in files_below(path):
            if not file.name.startswith((".", "_")) and _status(file).size:
                yield file
    except OSError as error:
        raise unreadable(path, error) from None


def _status(file: Path) -> Status:
    try:
        return status(file)
    except OSError as error:
        raise unreadable(file, error) from None


def _digest(file: Path) -> str:
    try:
        with opened(file) as stream:
            return hashlib.file_digest(cast("Any", stream), "sha256").hexdigest()
    except OSError as error:
        raise unreadable(file, error) from None


def _same_table(private: Any, public: Any) -> bool:
    if private is public:
        return True
    import narwhals as nw

    try:
        one, other = (
            nw.from_native(table, eager_only=True).to_arrow()
            for table in (private, public)
        )
    except (
        Exception
    ):  # whatever such a table raises; whoever reads it says what is wrong
        return False
    return bool(one.num_columns) and one.equals(other)
